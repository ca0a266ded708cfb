"""Reminders as people talk of them: set, listed, cancelled, arriving, put off; in three languages.

Everything goes through Telegram's wire, without the queue; see tests/e2e for the whole process.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from src.base.config import OFFLINE_MODEL
from src.base.errors import DeliveryError
from src.base.owners import Owner
from src.base.zones import local_time
from src.queue.workers import build_queue
from src.reading.gate import MAX_NAME
from src.reading.recurrences import Recurrence
from src.reminders.reminder_service import describe_reminder_time
from src.reminders.screens import PAGE
from src.texts import Language, say
from src.texts.reply import MAX_DATA, Action
from tests.fakes.telegram_people import Sender
from tests.integration.phone import STRANGER, USER, Phone, buttons, labels
from tests.integration.reminding import (
    DAILY,
    NINE,
    ZONE,
    arrive,
    courier,
    set_reminder,
    waiting,
)

GROUP = -1_001_234_567_892
IN_GROUP = Sender(chat_id=GROUP, chat_type="supergroup")


pytestmark = pytest.mark.core(llm_model=OFFLINE_MODEL)


@pytest.fixture
async def phone(phone: Phone) -> Phone:
    phone.rig.core.user_settings.change(USER, time_zone=ZONE)
    return phone


# Asking


@pytest.mark.parametrize(("language", "words", "what"), [
    ("ru", "напомни завтра в 9 позвонить маме", "позвонить маме"),
    ("uk", "нагадай завтра о 9 подзвонити мамі", "подзвонити мамі"),
    ("uk", "nagaday zavtra o 9 podzvonyty mami", "подзвонити мамі"),
    ("en", "remind me tomorrow at 9 to call mum", "call mum"),
])  # fmt: skip
@pytest.mark.parametrize("prefix", ["", "/remind ", "/mode strict|"])
async def test_a_plain_phrase_sets_a_reminder_and_a_button_cancels_it(
    phone: Phone, language: Language, words: str, what: str, prefix: str
) -> None:
    mode, strict, command = prefix.rpartition("|")
    for text in filter(None, (mode, f"{command}{words}" if not strict else words)):
        await phone.write(text, language_code=language)
    [(text, due)] = waiting(phone)
    time = describe_reminder_time(
        due, None, language=language, time_zone=ZONE, now=datetime.now(UTC)
    )
    assert text == what and ("09:00" in time)
    assert phone.last.text == say("reminder_set", language, text=what, time=time)
    label = say("reminder_cancel_button", language)
    assert labels(phone.last) == [label]
    confirmed = phone.last
    data = buttons(confirmed)[0][0][1]
    await phone.tap(label, under=confirmed)
    assert phone.last.text == say("reminder_cancelled", language, text=what)
    assert waiting(phone) == [] and labels(confirmed) == []
    await phone.press(data, under=confirmed)  # a double tap
    assert phone.told == say("reminder_cancelled", language, text=what)


@pytest.mark.parametrize(("quote", "what"), [
    (None, "Купить билеты. Ключ у Оли."),
    ({"text": "Купить билеты", "position": 0}, "Купить билеты"),
])  # fmt: skip
async def test_a_command_that_says_only_when_is_about_what_it_replies_to(
    phone: Phone, quote: dict[str, object] | None, what: str
) -> None:
    own = await phone.write("Купить билеты. Ключ у Оли.")
    for words in ("/remind завтра в 9", "/remind завтра в 10 позвонить"):
        await phone.send(text=words, reply_to=own, quote=quote)
    await phone.send(text="/remind завтра в 9", reply_to=phone.last.message_id)
    assert phone.last.text == say("reminder_no_text", "ru"), "those are the bot's words"
    assert [text for text, _ in waiting(phone)] == [what, "позвонить"]


@pytest.mark.core(llm_model="offline")
async def test_without_a_model_it_is_what_the_message_replies_to(phone: Phone) -> None:
    own = await phone.write("Купить билеты")
    await phone.write("Ключ у Оли")
    await phone.send(text="напомни об этом завтра в 9", reply_to=own)
    assert [text for text, _ in waiting(phone)] == ["Купить билеты"]


async def test_without_a_time_the_bot_asks_and_the_next_message_completes_it(phone: Phone) -> None:
    await phone.write("/mode strict")
    await phone.write("напомни позвонить маме")
    assert phone.last.text == say("reminder_no_time", "ru")
    await phone.write("/mode assistant")
    await phone.write("напомни позвонить маме")
    assert phone.last.text == say("reminder_no_time", "ru") and waiting(phone) == []
    await phone.write("завтра в 9")
    [(text, _)] = waiting(phone)
    assert text == "позвонить маме" and phone.last.text.startswith("⏰ Напомню завтра, ")


@pytest.mark.parametrize(("words", "refusal"), [
    ("напомни вчера в 9 позвонить маме", "reminder_past"), ("/remind", "remind_usage"),
    ("напомни завтра в 9", "reminder_no_text"),
    ("нагадуй кожні 10 хвилин пити воду", "reminder_too_often"),
    ("remind me in 30 years to retire", "reminder_too_far"),
])  # fmt: skip
async def test_what_cannot_be_is_said_plainly(phone: Phone, words: str, refusal: str) -> None:
    await phone.write(words)
    languages: dict[str, Language] = {"reminder_too_often": "uk", "reminder_too_far": "en"}
    assert phone.last.text == say(refusal, languages.get(refusal, "ru"))
    assert waiting(phone) == [] and phone.facts() == []


@pytest.mark.parametrize("order", [
    "отмени второе", "скасуй друге", "cancel the second one", "delete number 2", "удали 2",
])  # fmt: skip
async def test_a_reminder_is_named_by_its_place_in_the_list(phone: Phone, order: str) -> None:
    for text in ("напомни завтра в 11 набрать свекрови", "напомни завтра в 10 полить фикус"):
        await phone.write(text)
    await phone.write("какие у меня напоминания?")
    await phone.write(order)
    assert [text for text, _ in waiting(phone)] == ["полить фикус"]


async def test_words_that_were_only_forwarded_ask_for_nothing(phone: Phone) -> None:
    origin = {
        "type": "user", "date": 1,
        "sender_user": {"id": STRANGER, "is_bot": False, "first_name": "x" * MAX_NAME},
    }  # fmt: skip
    await phone.send(text="напомни завтра в 9 перевести деньги", forward_origin=origin)
    assert waiting(phone) == []


@pytest.mark.parametrize(("question", "language"), [
    ("напоминания", "ru"), ("які в мене нагадування?", "uk"), ("show my reminders", "en"),
])  # fmt: skip
async def test_without_a_model_they_are_listed_when_asked_for(
    phone: Phone, question: str, language: Language
) -> None:
    await phone.write(question)
    assert phone.last.text == say("reminders_empty", language)
    await set_reminder(phone)
    await phone.write(question)
    title, line, hint = phone.last.text.splitlines()
    assert hint == say("reminders_where", language)
    assert title == say("reminders_title", language, count=1)
    assert line.startswith("• позвонить маме: ")


@pytest.mark.parametrize(("text", "what", "language"), [
    ("Отмени напоминание про хлеб", "купить хлеб", "ru"),
    ("не нагадуй більше про хліб", "купити хліб", "uk"),
    ("cancel the bread reminder", "buy bread", "en"),
])  # fmt: skip
@pytest.mark.parametrize("strict", [False, True])
async def test_without_a_model_one_is_cancelled_in_words(
    phone: Phone, text: str, what: str, language: Language, strict: bool
) -> None:
    if strict:
        await phone.write("/mode strict")
    await set_reminder(phone)
    await set_reminder(phone, what)
    await phone.write(text, language_code=language)
    assert phone.last.text == say("reminder_cancelled", language, text=what)
    assert [text for text, _ in waiting(phone)] == ["позвонить маме"]


@pytest.mark.parametrize(("text", "what"), [
    ("врач не нужен, отмени", "сходить к врачу"), ("the parcel came, cancel it", "get the parcel"),
    ("духовка вже холодна, скасуй", "вимкнути духовку"),
])  # fmt: skip
async def test_the_reason_names_the_reminder_before_the_last_one_is_meant(
    phone: Phone, text: str, what: str
) -> None:
    await set_reminder(phone, what)
    await phone.write("напомни завтра в 10 полить фикус")
    await phone.write(text)
    assert [one for one, _ in waiting(phone)] == ["полить фикус"]


@pytest.mark.parametrize(("cancel", "what", "undo"), [
    ("Отмени заправку", "заправить машину", "верни назад"),
    ("Скасуй заправку", "заправити авто", "поверни як було"),
    ("the bread can go, cancel it pls", "buy bread", "oh bring that one back please"),
])  # fmt: skip
async def test_one_is_found_in_other_words_and_brought_back(
    phone: Phone, cancel: str, what: str, undo: str
) -> None:
    await set_reminder(phone, what)
    await phone.write(cancel)
    assert waiting(phone) == []
    await phone.write(undo)
    assert waiting(phone) == [(what, NINE)]
    await phone.write("/memory")
    assert undo not in phone.last.text and cancel not in phone.last.text


@pytest.mark.parametrize(("what", "told", "undo", "language"), [
    ("забрать посылку", "Посылку забрал", "верни назад", "ru"),
    ("вимкнути духовку", "духовку вже вимкнув", "поверни як було", "uk"),
    ("pick up the parcel", "just picked up the parcel", "oh bring that one back please", "en"),
])  # fmt: skip
async def test_without_a_model_what_is_told_to_be_done_is_not_reminded_of(
    phone: Phone, what: str, told: str, undo: str, language: Language
) -> None:
    await set_reminder(phone, what)
    await set_reminder(phone, "купить хлеб", repeats=WEEKLY, when=NINE)
    await phone.write("Купил хлеб", language_code="ru")
    assert len(waiting(phone)) == 2, "what recurs goes on"
    await phone.write(told, language_code=language)
    assert phone.last.text == say("reminder_done", language, text=what)
    assert len(waiting(phone)) == 1
    await phone.write(undo)
    assert len(waiting(phone)) == 2


@pytest.mark.parametrize(("what", "told", "days", "due", "skips", "language"), [
    ("go to the pool", "skip the pool on march 1", "1 March 2027", 1, "01", "en"),
    ("standup", "no standup on March 2nd", "2 March 2027", 0, "02", "en"),
    ("swim", "skip march 1 ive got a root canal", "1 March 2027", 1, "01", "en"),
    ("про бассейн", "1 марта бассейна не будет", "1 марта 2027 года", 1, "01", "ru"),
    ("собрать сменку", "2 марта сменку не надо", "2 марта 2027 года", 0, "02", "ru"),
    ("пити таблетки", "1 березня не нагадуй про таблетки", "1 березня 2027 року", 1, "01", "uk"),
])  # fmt: skip
async def test_without_a_model_one_time_of_what_recurs_is_left_out(
    phone: Phone, what: str, told: str, days: str, due: int, skips: str, language: Language
) -> None:
    await set_reminder(phone, what, repeats=DAILY)
    await phone.write("1 марта мама не приедет", language_code="ru")
    assert waiting(phone) == [(what, NINE)]
    await phone.write(told, language_code=language)
    reply = say("reminder_skipped", language, text=what, days=days, time="…").partition("…")[0]
    assert phone.last.text.startswith(reply)
    assert waiting(phone) == [(what, NINE + timedelta(days=due))]
    [(rule,)] = phone.rig.rows("SELECT recurrence FROM reminders")
    assert rule == f"FREQ=DAILY;BYHOUR=9;BYMINUTE=0\nEXDATE:202703{skips}T090000"
    await phone.write("/undo", language_code=language)
    assert waiting(phone) == [(what, NINE)]


@pytest.mark.parametrize(("what", "told", "is_off"), [
    ("choir practice", "no choir on March 2, Father Pat is away", True),
    ("choir practice", "cancel choir on March 2", True),
    ("go to the dentist", "not going to the gym on March 2", False),
    ("choir practice", "choir moved to March 2", False),
    ("про курсы по колористике", "2.03 курсов не будет", True),
    ("отвести Машу на танцы", "Маша 2 марта на танцы не идёт", True),
    ("купить хлеб", "2 марта хлеб не нужен", True),
    ("купить хлеб", "2 марта хлеба не будет", False),
    ("позвонить маме", "2 марта мамы не будет", False),
    ("вийти на зміну", "2 березня зміни нема", True),
    ("укол вітаміну", "2 березня укол не треба", True),
    ("заплатити за світло", "2 березня світла не буде", False),
])  # fmt: skip
async def test_without_a_model_of_several_alike_the_one_that_will_not_be_is_cancelled(
    phone: Phone, what: str, told: str, is_off: bool
) -> None:
    for day in range(3):
        await set_reminder(phone, what, NINE + timedelta(days=day))
    await phone.write(told)
    left = [0, 2] if is_off else [0, 1, 2]
    assert waiting(phone) == [(what, NINE + timedelta(days=day)) for day in left]
    await phone.write("/undo")
    assert len(waiting(phone)) == 3


@pytest.mark.parametrize(("what", "text"), [
    ("gym", "gym's closed on friday"), ("бассейн", "бассейн закрыт в пятницу"),
    ("басейн", "басейн зачинений у п’ятницю"),
])  # fmt: skip
async def test_without_a_model_news_of_a_day_move_no_reminder_to_it(
    phone: Phone, what: str, text: str
) -> None:
    await phone.write(f"remind me on March 1 at 9 {what}")
    before = waiting(phone)
    await phone.write(text)
    assert waiting(phone) == before != []


async def test_without_a_model_one_time_of_what_recurs_is_moved(phone: Phone) -> None:
    await set_reminder(phone, "take the pills", repeats=DAILY)
    await phone.write("move March 1's pills to 11")
    assert waiting(phone) == [
        ("take the pills", NINE + timedelta(hours=2)),
        ("take the pills", NINE + timedelta(days=1)),
    ]


FRIDAY = datetime(2027, 3, 5, 6, tzinfo=UTC)
WEEKLY = Recurrence("weekly", (9,), weekdays=(0,))


@pytest.mark.parametrize(("text", "what", "language", "strict"), [
    ("перенеси на пятницу 5 марта", "купить хлеб", "ru", False),
    ("Перенеси напоминание про хлеб на 5 марта", "купить хлеб", "ru", True),
    ("перенеси на п'ятницю, 5 березня", "купити хліб", "uk", True),
    ("Перенеси, будь ласка, нагадування про хліб на 5 березня о 9", "купити хліб", "uk", False),
    ("move it to Friday, 5 March", "buy bread", "en", False),
    ("move the bread reminder to march 5", "buy bread", "en", True),
])  # fmt: skip
async def test_without_a_model_one_is_moved_in_words(
    phone: Phone, text: str, what: str, language: Language, strict: bool
) -> None:
    if strict:
        await phone.write("/mode strict")
    await set_reminder(phone, what)
    await phone.write(text, language_code=language)
    assert waiting(phone) == [(what, FRIDAY)]
    time = describe_reminder_time(
        FRIDAY, None, language=language, time_zone=ZONE, now=datetime.now(UTC)
    )
    assert phone.last.text == say("reminder_moved", language, text=what, time=time)
    assert labels(phone.last) == [say("reminder_cancel_button", language)]


@pytest.mark.parametrize(("text", "due", "rule"), [
    ("перенеси на пятницу 5 марта", FRIDAY, "BYDAY=FR;BYHOUR=9;BYMINUTE=0"),
    ("перенеси на 10:30", NINE + timedelta(hours=1.5), "BYDAY=MO;BYHOUR=10;BYMINUTE=30"),
    ("move it to 1040", NINE + timedelta(minutes=100), "BYDAY=MO;BYHOUR=10;BYMINUTE=40"),
    ("move it two hours later", NINE + timedelta(hours=2), "BYDAY=MO;BYHOUR=11;BYMINUTE=0"),
    ("відклади на день", NINE + timedelta(days=1), "BYDAY=TU;BYHOUR=9;BYMINUTE=0"),
    ("перенеси на час раньше", NINE - timedelta(hours=1), "BYDAY=MO;BYHOUR=8;BYMINUTE=0"),
    ("перенеси на вечер", NINE + timedelta(hours=10), "BYDAY=MO;BYHOUR=19;BYMINUTE=0"),
])  # fmt: skip
async def test_what_recurs_moves_as_a_whole(
    phone: Phone, text: str, due: datetime, rule: str
) -> None:
    reminder = await set_reminder(phone, repeats=WEEKLY, when=NINE)
    far = "UPDATE reminders SET due_at = %(due)s WHERE id = %(id)s RETURNING id"
    phone.rig.rows(far, due=NINE, id=reminder.id)
    await phone.write(text)
    recurrences = phone.rig.rows("SELECT recurrence FROM reminders WHERE is_waiting")
    assert recurrences == [(f"FREQ=WEEKLY;{rule}",)]
    moved = waiting(phone)[0][1]
    assert (moved - due) % timedelta(days=7) == timedelta()


@pytest.mark.parametrize("strict", [False, True])
async def test_what_is_not_clear_is_asked_and_nothing_changes(phone: Phone, strict: bool) -> None:
    if strict:
        await phone.write("/mode strict")
    await set_reminder(phone)
    await set_reminder(phone, "купить хлеб")
    before = waiting(phone)
    for text in ("перенеси на пятницу", "отмени напоминание", "перенеси напоминание про цветы"):
        await phone.write(text)
        title, *lines = phone.last.text.splitlines()
        assert title == say("reminder_which", "ru")
        assert len(lines) == 2 and waiting(phone) == before


async def test_it_is_the_reminder_of_which_the_bot_spoke_last(phone: Phone) -> None:
    await set_reminder(phone)
    await phone.write("напомни 4 марта 2027 в 9 купить хлеб")
    await phone.write("перенеси на 5 марта 2027")
    assert waiting(phone) == [("позвонить маме", NINE), ("купить хлеб", FRIDAY)]


@pytest.mark.parametrize(("note", "asked", "answer", "language"), [
    ("у кати др 7 декабря", "напомни за день до др кати в 8 вечера купить подарок",
     "7 декабря", "ru"),
    ("у бабусі день народження 7 грудня", "нагадай за день до дн бабусі о 20 замовити торт",
     "7 грудня", "uk"),
    ("grans bday is 7 december", "remind me 1 day before grans bday at 8pm to order flowers",
     "7 december", "en"),
])  # fmt: skip
async def test_days_before_something_are_counted_from_its_note_or_the_answer(
    phone: Phone, note: str, asked: str, answer: str, language: Language
) -> None:
    await phone.write(asked, language_code=language)
    assert say("reminder_no_day", language) in phone.last.text
    for before in ([answer], [note, asked]):
        for text in before:
            await phone.write(text, language_code=language)
        [(_, due)] = waiting(phone)
        local = local_time(due, ZONE)
        assert (local.month, local.day, local.hour) == (12, 6, 20)
        phone.rig.rows("DELETE FROM reminders RETURNING id")


async def test_an_edited_request_takes_the_place_of_the_first(phone: Phone) -> None:
    message = await phone.write("напомни завтра в 9 позвонить маме")
    await phone.fake.edit_text(USER, message, "напомни завтра в 10 позвонить маме")
    await phone.work()
    [(_, due)] = waiting(phone)
    assert due.hour == 7


# The list


async def test_the_command_undoes_a_cancellation(phone: Phone) -> None:
    await phone.write("/remember Я живу в Киеве")
    await phone.write("/remind завтра в 9 позвонить маме")
    before = waiting(phone)
    await phone.write("отмени напоминание про маму")
    assert waiting(phone) == []
    await phone.write("/undo")
    assert waiting(phone) == before and "позвонить маме" in phone.last.text
    assert phone.facts() == ["Я живу в Киеве"]


async def test_the_list_tells_each_time_and_cancels_in_place(phone: Phone) -> None:
    await set_reminder(phone, "таблетки", NINE + timedelta(days=1), DAILY)
    await set_reminder(phone, "позвонить маме")
    await phone.write("/reminders")
    page = phone.last
    assert page.text == "\n\n".join(
        (
            say("reminders_title", "ru", count=2),
            "1. позвонить маме\nв понедельник, 1 марта 2027 года, в 09:00",
            "2. таблетки\nкаждый день в 09:00 (ближайшее: 2 марта 2027 года)",
            say("reminders_hint", "ru"),
        )
    )
    data = buttons(page)[0][0][1]
    await phone.tap("✖ 1", under=page)
    cancelled = say("reminder_cancelled", "ru", text="позвонить маме")
    assert page.text.startswith(cancelled) and labels(page) == ["✖ 1"]
    await phone.press(data, under=page)  # a double tap
    assert (
        page.text.startswith(say("reminder_cancelled", "ru", text="позвонить маме"))
        and len(waiting(phone)) == 1
    )
    await phone.tap("✖ 1", under=page)
    assert page.text.endswith(say("reminders_empty", "ru")) and waiting(phone) == []


async def test_pages_are_turned_and_never_past_the_end(phone: Phone) -> None:
    for number in range(PAGE + 2):
        await set_reminder(phone, f"дело {number}", NINE + timedelta(days=number))
    await phone.write("/reminders")
    page = phone.last
    assert labels(page)[-2:] == ["1/2", "›"] and page.text.count("дело") == PAGE
    await phone.tap("›", under=page)
    assert labels(page) == ["✖ 9", "✖ 10", "‹", "2/2"]
    await phone.tap("✖ 9", under=page)
    await phone.tap("✖ 9", under=page)
    assert "✖ 8" in labels(page) and len(waiting(phone)) == PAGE
    await phone.press("reminders:99", under=page)
    assert page.text.count("дело") == PAGE


# Arriving


async def test_it_arrives_in_the_language_that_the_user_chose(phone: Phone) -> None:
    language: Language = "uk"
    reminder = await set_reminder(phone)
    phone.rig.core.user_settings.change(USER, language=language)
    message = await arrive(phone, reminder)
    assert message.text == "⏰ позвонить маме"
    assert labels(message) == [
        say("later_minutes", language), say("later_hour", language),
        say("later_tomorrow", language), say("reminder_done_button", language),
    ]  # fmt: skip
    assert waiting(phone) == []
    data = [data for row in buttons(message) for _, data in row]
    assert all(len(one) <= MAX_DATA and Action.unpack(one) for one in data)
    for number, due in ((reminder.id, NINE), (reminder.id, FRIDAY), (2**40, NINE)):
        assert await courier(phone).deliver(number, int(due.timestamp()), NINE) is None
    assert len(phone.fake.sent_to(USER)) == 1, "it is sent once for each of its times"


@pytest.mark.parametrize(("late", "time"), [
    (timedelta(minutes=10), None), (timedelta(minutes=11), "09:00"),
    (timedelta(hours=30), "09:00, 1 марта"),
])  # fmt: skip
async def test_what_is_late_comes_with_an_apology(
    phone: Phone, late: timedelta, time: str | None
) -> None:
    message = await arrive(phone, await set_reminder(phone), late=late)
    apology = f"\n\n{say('reminder_late', 'ru', time=time)}" if time else ""
    assert message.text == f"⏰ позвонить маме{apology}"


# Buttons of what has arrived


@pytest.mark.parametrize(("choice", "expected"), [
    (0, timedelta(minutes=10)), (1, timedelta(hours=1)), (2, None),
])  # fmt: skip
async def test_a_reminder_is_put_off(
    phone: Phone, choice: int, expected: timedelta | None
) -> None:
    message = await arrive(phone, await set_reminder(phone))
    before = datetime.now(UTC)
    label, data = buttons(message)[0][choice]
    await phone.tap(label, under=message)
    [(text, due)] = waiting(phone)
    if expected is None:  # tomorrow at its hour
        assert due.hour == 6 and timedelta() < due - before < timedelta(days=2)
    else:
        assert abs(due - before - expected) < timedelta(minutes=1)
    time = describe_reminder_time(due, None, language="ru", time_zone=ZONE, now=before)
    assert message.text == f"⏰ {text}\n\n{say('reminder_snoozed', 'ru', time=time)}"
    await phone.press(data, under=message)  # a double tap
    assert len(waiting(phone)) == 1
    await phone.tap(say("reminder_done_button", "ru"), under=message)
    assert message.text == "✅ позвонить маме" and labels(message) == []
    assert waiting(phone) == []


async def test_a_tap_long_after_counts_from_the_tap(phone: Phone) -> None:
    """What is put off in March, when it came in winter, comes at the same hour by the clock."""
    reminder = await set_reminder(phone, when=datetime(2027, 1, 10, 8, tzinfo=UTC))
    await arrive(phone, reminder)
    due = int(reminder.due_at.timestamp())
    reply = await phone.rig.core.commands.press(
        Action("later", (reminder.id, 2, due)),
        phone.rig.called(
            USER, "ru", moment=datetime(2027, 3, 27, 20, tzinfo=UTC), time_zone="Europe/Kyiv"
        ),
    )
    assert reply is not None and reply.is_screen
    assert waiting(phone) == [("позвонить маме", datetime(2027, 3, 28, 7, tzinfo=UTC))]


async def test_done_says_when_it_comes_next_and_it_can_be_stopped(phone: Phone) -> None:
    message = await arrive(phone, await set_reminder(phone, "таблетки", repeats=DAILY))
    stop = say("reminder_stop_button", "ru")
    await phone.tap(say("reminder_done_button", "ru"), under=message)
    assert message.text.startswith("✅ таблетки\n\nДальше — каждый день в 09:00")
    data = buttons(message)[0][0][1]
    await phone.tap(stop, under=message)
    stopped = f"⏰ таблетки\n\n{say('reminder_stopped', 'ru')}"
    assert message.text == stopped and waiting(phone) == []
    await phone.press(data, under=message)
    assert message.text == stopped


async def test_in_a_group_only_who_asked_changes_his_reminder(phone: Phone) -> None:
    phone.place = IN_GROUP
    await phone.write("@pomni_test_bot напомни завтра в 9 купить хлеб")
    confirmed = phone.last
    [[(label, data)]] = buttons(confirmed)
    await phone.fake.press_button(STRANGER, confirmed.message_id, data, chat_id=GROUP)
    await phone.work()
    assert phone.told == say("reminder_not_yours", "ru")
    assert len(waiting(phone)) == 1 and labels(confirmed) == [label], "his button stays"
    [number] = [row[0] for row in phone.rig.rows("SELECT id FROM reminders")]
    reminder = phone.rig.core.reminders
    found = reminder.rows.find(Owner(GROUP), number)
    assert found is not None and found.asker_id == USER
    message = await arrive(phone, found)
    assert message.text == "⏰ купить хлеб"
    assert message.reply_to is not None, "so that he sees whom it is for"
    for row in buttons(message):
        for _, one in row:
            await phone.fake.press_button(STRANGER, message.message_id, one, chat_id=GROUP)
            await phone.work()
            assert phone.told == say("reminder_not_yours", "ru")
    assert waiting(phone) == []
    await phone.tap(say("later_hour", "ru"), under=message)
    assert len(waiting(phone)) == 1


async def test_another_person_has_nothing_to_do_with_it(phone: Phone) -> None:
    reminder = await set_reminder(phone)
    for name in ("later", "done", "norepeat", "unremind"):
        action = Action(name, (reminder.id, 0))
        reply = await phone.rig.core.commands.press(action, phone.rig.called(STRANGER, "ru"))
        assert reply is not None and reply.text == say("reminder_gone", "ru")
    assert len(waiting(phone)) == 1


# Telegram's moods


async def test_a_user_who_blocked_the_bot_is_not_reminded_any_more(phone: Phone) -> None:
    first, daily = await set_reminder(phone), await set_reminder(phone, repeats=DAILY)
    phone.fake.block(USER)
    tasks = courier(phone)
    due = int(NINE.timestamp())
    assert await tasks.deliver(first.id, due, NINE) == "unreachable"
    phone.fake.unblock(USER)
    assert await tasks.deliver(daily.id, due, NINE) == "unreachable", "the chat is known as gone"
    assert waiting(phone) == [] and phone.fake.sent_to(USER) == []


def late_reminders(phone: Phone) -> float:
    """How many came late so far, as Prometheus is told."""
    registry = phone.rig.core.metrics.registry
    return registry.get_sample_value("pomni_reminders_total", {"outcome": "late"}) or 0.0


async def test_a_telegram_that_is_down_is_asked_again_without_end(phone: Phone) -> None:
    reminder = await set_reminder(phone)
    tasks = courier(phone)
    due = int(NINE.timestamp())
    before = late_reminders(phone)
    for _ in range(3):
        phone.fake.drop_next("sendMessage")
        with pytest.raises(DeliveryError):
            await tasks.deliver(reminder.id, due, NINE)
    late = NINE + timedelta(hours=5)
    assert await tasks.deliver(reminder.id, due, late) == "late"
    assert re.search(r"опоздал: это было на 09:00\.$", phone.last.text)
    assert late_reminders(phone) == before + 1


async def test_what_telegram_refuses_twice_is_given_up_and_what_recurs_goes_on(
    phone: Phone,
) -> None:
    daily = await set_reminder(phone, repeats=DAILY)
    tasks = courier(phone)
    due = int(NINE.timestamp())
    phone.fake.fail_next("sendMessage", times=9, status=400, description="Bad Request: odd")
    with pytest.raises(Exception, match="refused"):
        await tasks.deliver(daily.id, due, NINE)
    assert await tasks.deliver(daily.id, due, NINE) == "failed"
    assert [moment for _, moment in waiting(phone)] == [NINE + timedelta(days=1)]


@pytest.mark.parametrize("text", [
    "У меня были напоминания на работе", "show me what I said about reminders in March",
    "какие напоминания ставил мой брат в прошлом году на даче?",
])  # fmt: skip
async def test_what_only_speaks_of_reminders_lists_none(phone: Phone, text: str) -> None:
    await phone.write(text)
    assert say("reminders_empty", "ru") != phone.last.text != say("reminders_empty", "en")


def test_every_minute_is_planned(phone: Phone) -> None:
    app = build_queue(phone.rig.core.dsn)
    courier(phone).register(app)
    times = {task.task.name: task.cron for task in app.periodic_registry.periodic_tasks.values()}
    assert times == {"plan_reminders": "* * * * *", "plan_follow_ups": "*/30 * * * *"}
    assert set(app.tasks) >= {"remind", "plan_reminders"}


async def test_what_recurs_goes_on_when_it_is_done_or_put_off(phone: Phone) -> None:
    message = await arrive(phone, await set_reminder(phone, "таблетки", repeats=DAILY))
    stop = say("reminder_stop_button", "ru")
    assert labels(message)[-2:] == [say("reminder_done_button", "ru"), stop]
    await phone.tap(say("later_hour", "ru"), under=message)
    assert [text for text, _ in waiting(phone)] == ["таблетки"] * 2
    assert labels(message) == [say("reminder_done_button", "ru"), stop]
    await phone.tap(say("reminder_done_button", "ru"), under=message)
    assert waiting(phone) == [("таблетки", NINE + timedelta(days=1))]


async def test_a_button_of_a_page_whose_reminder_is_gone_shows_the_page(phone: Phone) -> None:
    await phone.write("/reminders")
    assert await phone.press("unremind:5:3") == ["done"]
    assert say("reminder_gone", "ru") in phone.last.text and waiting(phone) == []
