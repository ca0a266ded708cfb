"""A person's day: /today, the brief, what a reminder brings, questions how it went, /about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from src.base import errors
from src.base.owners import Caller
from src.base.zones import first_moment, local_time
from src.history.turn_repo import Changes
from src.privacy.erasure_repo import ErasureRepository
from src.reading.facts import Fact
from src.reading.recurrences import Recurrence
from src.reading.reminder_moments import ReminderRequest
from src.reminders.reminder_repo import Reminder
from src.reminders.screens import BriefOrder
from src.telegram.tasks import ReminderTasks
from src.texts import Language, say
from src.texts.reply import Action, Reply
from tests.integration.person import Agents, Person

ZONE = "Europe/Kyiv"
TODAY = datetime(2026, 11, 27, 6, tzinfo=UTC)  # 8:00 in Kyiv, a Friday
EIGHT = Recurrence("daily", (8,))
WORKDAYS_BUT_WEDNESDAY = Recurrence("weekly", (7,), weekdays=(0, 1, 3, 4))
DUE = """
SELECT id, extract(epoch FROM due_at)::bigint FROM reminders
WHERE owner_id = %(owner)s AND is_waiting AND due_at <= %(now)s ORDER BY due_at, id
"""
DUE_OF_ALL = """
SELECT o.telegram_user_id, r.id, extract(epoch FROM r.due_at)::bigint
FROM reminders r JOIN owners o ON o.id = r.owner_id
WHERE o.telegram_user_id = ANY(%(users)s) AND r.is_waiting AND r.due_at <= %(now)s
ORDER BY r.due_at, r.id
"""
ROWS = "SELECT kind, day FROM reminders WHERE owner_id = %(owner)s ORDER BY id"


@dataclass
class Post:
    """Stands for Telegram: keeps what is sent, or fails.

    Attributes:
        sent: When and what.
        failures: Errors of the next attempts.
    """

    sent: list[tuple[datetime, Reply]] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    now: datetime = TODAY

    async def show_reply(self, _address: Any, reply: Reply) -> None:
        """Take a message, or raise the next failure."""
        if self.failures:
            raise self.failures.pop(0)
        self.sent.append((self.now, reply))

    @property
    def texts(self) -> list[str]:
        return [reply.text for _, reply in self.sent]


@dataclass
class Life:
    """A person with a clock of their own, and the messages that the bot sends by itself."""

    person: Person
    zone: str = ZONE
    post: Post = field(default_factory=Post)

    def __post_init__(self) -> None:
        self.core = self.person.core
        self.tasks = ReminderTasks(self.core, self.post)  # type: ignore[arg-type]
        self.settle(time_zone=self.zone, language=self.person.language)

    def settle(self, **chosen: Any) -> None:
        self.core.user_settings.change(self.person.user, **chosen)

    def caller(self, now: datetime = TODAY, argument: str = "") -> Caller:
        chosen = self.core.user_settings.get(self.person.user)
        return Caller(self.person.owner, chosen.resolve((), ZONE), now, argument=argument)

    def note(self, text: str, at: datetime = TODAY - timedelta(days=1)) -> int:
        return self.person.write(text, at=at).message_id

    async def know(self, text: str, **fact: Any) -> int | None:
        said = self.person.write(text, at=local_time(TODAY - timedelta(days=2), self.zone))
        remember = self.core.memory.memories.writer.remember
        stored = await remember(self.person.owner, Fact(text=text, **fact), said, origin="teach")
        return stored.memory_id

    async def remind(
        self, text: str, when: datetime, repeats: Recurrence | None = None
    ) -> Reminder:
        caller = self.caller(when - timedelta(hours=5))
        asked = await self.core.reminders.set(caller, ReminderRequest(text, when, repeats))
        assert asked.reminder is not None
        return asked.reminder

    async def brief(self, repeats: Recurrence | None = EIGHT, now: datetime = TODAY) -> None:
        await self.core.briefs.obey(self.caller(now - timedelta(hours=1)), BriefOrder(repeats))

    async def today(self, now: datetime = TODAY) -> str:
        return (await self.core.briefs.today(self.caller(now))).text

    async def tick(self, now: datetime) -> list[str]:
        """Let the time be ``now``: plan and deliver; returns the texts of what was sent."""
        self.post.now, before = now, len(self.post.sent)
        await self.core.follow_ups.plan(now)
        for number, due in self.core.client.fetch_all(DUE, self.person.owner, now=now):
            await self.tasks.deliver(number, due, now)
        return self.post.texts[before:]

    def rows(self) -> list[tuple[Any, ...]]:
        return self.core.client.fetch_all(ROWS, self.person.owner)


@pytest.fixture
def life(person: Person) -> Life:
    return Life(person)


# /today


async def test_the_day_has_reminders_dates_deadlines_birthdays_and_a_year_ago(life: Life) -> None:
    await life.remind("позвонить маме", TODAY + timedelta(hours=3))
    await life.remind("не сегодня", TODAY + timedelta(hours=30))
    await life.know("собеседование в пятницу", memory_type="event", relation="event")
    await life.know("У Насти день рождения 27 ноября", relation="birthday", subject="Настя")
    life.note("сдать отчёт до пятницы")
    life.note("завтра в 18 театр. Купил новые ботинки.")
    life.note("Сегодня впервые поднялись на Говерлу", TODAY.replace(year=2025, hour=15))
    text = await life.today()
    lines = text.splitlines()
    assert lines[0] == "📅 пятница, 27 ноября"
    assert lines[1] == "⏰ 11:00 позвонить маме" and "не сегодня" not in text
    assert (
        sum(line.startswith("📌") for line in lines) == 2
        and "завтра (27 ноября 2026) в 18 театр." in text
    )
    assert "ботинки" not in text
    assert [line[0] for line in lines].count("🎂") == 1 and "Говерлу" in lines[-1]
    assert any(line.startswith("⌛ Срок: сдать отчёт") for line in lines)
    page = await life.core.day.describe(life.caller())
    assert page is not None
    numbers = [button for row in page.rows for button in row]
    assert len(numbers) == 5 and all(one.action.name == "source" for one in numbers)


@pytest.mark.parametrize(("language", "words"), [
    ("uk", "Завтра (27 листопада 2026) стоматолог"), ("en", "Завтра (27 ноября 2026) стоматолог"),
])  # fmt: skip
async def test_dates_are_in_the_language_of_the_text_else_of_the_person(
    person: Person, language: Language, words: str
) -> None:
    person.language = language
    life = Life(person)
    life.note("Завтра стоматолог")
    assert words in await life.today()


async def test_what_has_held_since_today_is_no_date_of_today(life: Life) -> None:
    said = TODAY - timedelta(days=2)
    await life.know("Собаку зовут Рекс", valid_from=said)
    await life.know("Новая работа", valid_from=TODAY)
    assert "Рекс" not in await life.today(said + timedelta(hours=1))
    assert "Новая работа" in await life.today()


@pytest.mark.core(llm_model="offline")
async def test_the_notebook_tells_what_is_on_another_day(life: Life) -> None:
    life.note("завтра в 18 театр", TODAY)
    asked = TODAY + timedelta(hours=1)
    await life.remind("позвонить маме", TODAY + timedelta(days=1, hours=3))
    page = await life.core.day.describe(life.caller(asked), [date(2026, 11, 28)])
    assert page is not None
    assert page.text.splitlines()[0] == "📅 суббота, 28 ноября"
    assert "⏰ 11:00 позвонить маме" in page.text and "театр" in page.text
    await life.remind("будить Максима", TODAY + timedelta(days=1), WORKDAYS_BUT_WEDNESDAY)
    days = [date(2026, 12, day) for day in (1, 2, 3)]  # Tuesday to Thursday
    pages = [await life.core.day.describe(life.caller(asked), [day]) for day in days]
    assert [page is not None and "Максима" in page.text for page in pages] == [True, False, True]
    empty = await life.core.briefs.today(life.caller(asked), [date(2026, 11, 29)])
    assert empty.text == say("day_empty_then", "ru", day="воскресенье, 29 ноября")
    life.note("потяг до Львова 30 листопада о 22:48", TODAY)
    three = [date(2026, 11, 28), date(2026, 11, 29), date(2026, 11, 30)]
    week = await life.core.day.describe(life.caller(asked), three)
    assert week is not None
    titles = [line for line in week.text.splitlines() if line.startswith("📅")]
    assert titles == ["📅 суббота, 28 ноября", "📅 понедельник, 30 ноября"]
    assert "потяг до Львова" in week.text.partition(titles[1])[2]


async def test_an_open_question_waits_on_the_page_for_a_week(life: Life) -> None:
    await life.know("живу в Киеве", relation="lives_in", object="Киев", importance=9)
    asked = """
    UPDATE messages SET asks = 'conflict', question = '[{}]', created_at = %(at)s
    WHERE id = %(id)s
    """
    life.core.conversations.append_message(
        life.person.conversation(), "assistant", "Где вы живёте?"
    )
    [(number,)] = life.core.client.fetch_all("SELECT max(id) FROM messages")
    life.core.client.execute(asked, {"at": TODAY - timedelta(days=6), "id": number})
    assert "❓ Жду вашего ответа: Где вы живёте?" in await life.today()
    life.core.client.execute(asked, {"at": TODAY - timedelta(days=8), "id": number})
    assert await life.today() == say("day_empty", "ru")


async def test_what_does_not_fit_is_counted_and_birthdays_come_first(life: Life) -> None:
    life.note("у Насти др 27 ноября")
    for number in range(9):
        life.note(f"завтра встреча {number}")
        life.note("завтра встреча 0")
        await life.remind(f"дело {number}", TODAY + timedelta(hours=2, minutes=number))
    _, *lines = (await life.today()).splitlines()
    assert lines[8:10] == ["⏰ … и ещё 1 → /reminders", "🎂 у Насти др 27 ноября [1]"]
    assert len(lines) == 16 and lines[15] == "📌 … и ещё 4 [7]"


async def test_what_was_called_off_says_so(life: Life) -> None:
    life.note("завтра в 18 театр с Олей", TODAY - 2 * DAY + timedelta(hours=20))
    life.note("театр отменили")
    life.note("отменила подписку")
    text = await life.today()
    assert text.splitlines()[2:] == ["🚫 театр отменили [2]"]


async def test_nothing_private_and_nothing_forgotten_is_on_the_page(life: Life) -> None:
    number = life.note("завтра секретная встреча с Аней")
    life.core.client.execute(
        "UPDATE messages SET is_private = true WHERE id = %(id)s", {"id": number}
    )
    fact = await life.know("ужин в пятницу", memory_type="event")
    await life.core.memory.memories.forget(life.person.owner, [f"fact-{fact}"])
    assert await life.today() == say("day_empty", "ru")


async def test_with_the_memory_off_reminders_alone_are_on_the_page(life: Life) -> None:
    life.note("завтра театр")
    await life.remind("чай", TODAY + timedelta(hours=1))
    life.settle(memory_on=False)
    assert (await life.today()).splitlines()[1:] == ["⏰ 09:00 чай"]


async def test_a_group_has_no_day(life: Life) -> None:
    group = replace(life.caller(), owner=life.person.owner._replace(telegram_user_id=-5))
    for screen in (
        life.core.briefs.today,
        life.core.briefs.brief,
        life.core.commands.search.about,
    ):
        reply = await screen(group)
        assert (reply.text, reply.is_personal) == (say("day_in_private", "ru"), True)


# The brief


@pytest.mark.parametrize(("command", "words", "off"), [
    ("8:00", "присылай сводку по будням в 7:30", "не присылай сводку"),
    ("щодня о 9", "надсилай зведення щобудня о 7:30", "вимкни зведення"),
    ("every weekday at 8", "send me the brief every weekday at 7:30", "turn the brief off"),
])  # fmt: skip
async def test_the_brief_is_set_moved_and_switched_off(
    life: Life, command: str, words: str, off: str
) -> None:
    find = life.core.day.rows.find_brief
    reply = await life.core.commands.run("brief", life.caller(argument=command))
    first = find(life.person.owner)
    assert first is not None and "/brief off" in reply.text
    await life.person.say(words, language="ru")
    second = find(life.person.owner)
    assert second is not None and second.id == first.id and second.repeats is not None
    assert (second.repeats.hours, second.repeats.minute) == ((7,), 30)
    assert "07:30" in (await life.core.briefs.brief(life.caller())).text
    answer = await life.person.say(off)
    assert answer.text == say("brief_off", "ru") and find(life.person.owner) is None
    assert (await life.core.briefs.brief(life.caller())).text == say("brief_usage", "ru")
    assert life.person.model.requests == [] or words not in str(life.person.model.requests[-1])


@pytest.mark.parametrize("argument", ["3:00", "23:30", "каждые 3 часа"])
async def test_no_brief_comes_at_night(life: Life, argument: str) -> None:
    reply = await life.core.briefs.brief(life.caller(argument=argument))
    assert reply.text == say("brief_hours", "ru")
    assert life.core.day.rows.find_brief(life.person.owner) is None


async def test_the_brief_is_no_reminder(life: Life) -> None:
    await life.brief()
    rows = life.core.reminders.rows
    assert rows.list_waiting(life.person.owner, limit=9) == []
    assert not life.core.user_settings.get(life.person.user).has_reminders


async def test_a_brief_comes_once_a_day_and_not_on_an_empty_one(life: Life) -> None:
    await life.brief()
    life.note("завтра театр")
    [text] = await life.tick(TODAY)
    assert text.endswith("📌 завтра (27 ноября 2026) театр [1]")
    assert await life.tick(TODAY + timedelta(minutes=1)) == []
    await life.brief(Recurrence("daily", (9,)), TODAY + timedelta(minutes=30))
    assert await life.tick(TODAY + timedelta(hours=1)) == [], "one a day"
    assert await life.tick(TODAY + timedelta(hours=25)) == [], "the day is empty"
    life.note("30 ноября концерт")
    assert len(await life.tick(TODAY + timedelta(hours=73))) == 1


@pytest.mark.parametrize(("late", "count"), [
    (timedelta(hours=2), 1), (timedelta(hours=4), 0), (timedelta(hours=17), 0),
])  # fmt: skip
async def test_a_brief_that_is_hours_late_is_left_out(
    life: Life, late: timedelta, count: int
) -> None:
    await life.brief()
    life.note("завтра театр")
    assert len(await life.tick(TODAY + late)) == count
    brief = life.core.day.rows.find_brief(life.person.owner)
    assert brief is not None and brief.due_at > TODAY + late


async def test_a_brief_is_sent_again_after_a_refusal_and_never_if_it_may_have_arrived(
    life: Life,
) -> None:
    await life.brief()
    life.note("завтра театр")
    life.post.failures = [errors.DeliveryError("away")]
    with pytest.raises(errors.DeliveryError):
        await life.tick(TODAY)
    assert len(await life.tick(TODAY + timedelta(minutes=1))) == 1
    life.note("завтра концерт", TODAY)
    life.post.failures = [errors.DeliveryUnknownError("no answer")]
    assert await life.tick(TODAY + timedelta(days=1)) == []
    assert await life.tick(TODAY + timedelta(days=1, minutes=1)) == []


async def test_no_brief_and_no_question_outlive_an_erasure(life: Life) -> None:
    await life.brief()
    life.settle(follow_ups=True)
    life.note("завтра театр и собеседование")
    ErasureRepository(life.core.client).erase(life.person.user)
    assert await life.tick(TODAY) == await life.tick(TODAY + timedelta(hours=28)) == []
    assert life.rows() == []


async def test_the_brief_keeps_its_hour_on_another_clock(life: Life) -> None:
    await life.brief()
    move = life.core.reminders.rows.change_zone
    move(life.person.owner, "Asia/Tokyo", now=TODAY - timedelta(minutes=30))
    brief = life.core.day.rows.find_brief(life.person.owner)
    assert brief is not None and local_time(brief.due_at, "Asia/Tokyo").hour == 8


# What a reminder brings


async def test_a_reminder_brings_what_is_known_of_its_people_and_things(life: Life) -> None:
    for text in ("мамин номер 050 123 45 67", "мама просила привезти варенье",
                 "вчера звонил в банк", "когда звонить маме?", "купил хлеба"):  # fmt: skip
        life.note(text)
    await life.person.index()
    reminder = await life.remind("позвонить маме", TODAY)
    [text] = await life.tick(TODAY)
    head, known = text.split("\n\n")
    assert head == f"⏰ {reminder.text}" and known.startswith(say("reminder_known", "ru"))
    lines = known.splitlines()[1:]
    assert len(lines) == 2 and "050 123 45 67" in known and "варенье" in known


async def test_a_reminder_brings_three_lines_at_most_and_none_of_other_things(life: Life) -> None:
    for number in range(6):
        life.note(f"хлеб номер {number} вкусный")
    life.note("купил новый стол")
    await life.person.index()
    await life.remind("купить хлеб", TODAY)
    await life.remind("забрать документы из паспортного стола", TODAY)
    bread, papers = sorted(await life.tick(TODAY), key=len, reverse=True)
    assert bread.count("•") == 3 and papers == "⏰ забрать документы из паспортного стола"


@pytest.mark.parametrize(("text", "brought"), [
    ("позвонить сестре Кате", {"сестра Катя должна мне 500", "номер сестры 0671112233"}),
    ("call Bob the electrician", {"electrician Bob 07700 900123", "Bob is allergic to cats"}),
    ("отвезти Рекса к ветеринару", {"Рекс боится уколов", "ветеринар Лапин, каб. 3"}),
])  # fmt: skip
async def test_a_reminder_brings_nothing_of_another_person(
    life: Life, text: str, brought: set[str]
) -> None:
    for note in ("сестра Катя должна мне 500", "сестра Лена живёт в Праге",
                 "ветеринар Лапин, каб. 3", "номер сестры 0671112233",
                 "electrician Joe 07700 900999", "Рекс боится уколов",
                 "electrician Bob 07700 900123", "Bob is allergic to cats"):  # fmt: skip
        life.note(note)
    await life.person.index()
    await life.remind(text, TODAY)
    [reply] = await life.tick(TODAY)
    assert {line.split("«")[1].split("»")[0] for line in reply.splitlines()[3:]} == brought


@pytest.mark.parametrize("text", ["позвонить маме", "call mum", "набрати мамі"])
async def test_the_number_comes_first(life: Life, text: str) -> None:
    life.note("мамин номер 050 123 45 67")
    for what in ("злится", "на даче", "болеет", "купила шубу", "была в театре", "ругала кота"):
        life.note(f"мама {what}", TODAY - timedelta(hours=5))
    await life.person.index()
    await life.remind(text, TODAY)
    [reply] = await life.tick(TODAY)
    assert "050 123 45 67" in reply.splitlines()[3] and reply.count("•") == 3


async def test_a_reminder_comes_alone_without_the_memory(life: Life) -> None:
    life.note("мамин номер 050 123 45 67")
    await life.person.index()
    await life.remind("позвонить маме", TODAY)
    life.settle(memory_on=False)
    assert await life.tick(TODAY) == ["⏰ позвонить маме"]


# How it went

NEXT_DAY = datetime(2026, 11, 28, 9, 30, tzinfo=UTC)  # 11:30 in Kyiv
EVENT = "завтра собеседование в Яндексе"  # told on Thursday, held on Friday


def question(stake: str, quote: str) -> str:
    return f"{say(f'follow_up_{stake}', 'ru')}\n«{quote}»"


async def test_nobody_is_asked_until_they_switch_it_on(life: Life) -> None:
    life.note(EVENT)
    assert await life.tick(NEXT_DAY) == []
    await life.core.commands.press(Action("asking", (0,)), life.caller())
    assert await life.tick(NEXT_DAY) == [question("interview", EVENT)]
    assert await life.tick(NEXT_DAY + timedelta(hours=1)) == []
    assert await life.tick(NEXT_DAY + timedelta(days=1)) == []


@pytest.mark.parametrize("hour", [3, 8, 10, 13, 20, 23])
async def test_the_question_comes_at_a_fitting_hour(life: Life, hour: int) -> None:
    life.settle(follow_ups=True)
    life.note(EVENT)
    assert await life.tick(NEXT_DAY.replace(hour=(hour - 2) % 24, day=27 + (hour >= 2))) == []


async def test_events_are_facts_with_a_date_and_reminders_too(life: Life) -> None:
    life.settle(follow_ups=True)
    fact = await life.know("экзамен в пятницу", memory_type="event", relation="event")
    assert await life.tick(NEXT_DAY) == [question("exam", fact_text(life, fact))]
    await life.remind("стоматолог", NEXT_DAY + timedelta(hours=2))
    await life.tick(NEXT_DAY + timedelta(hours=2))
    assert await life.tick(NEXT_DAY + timedelta(days=1)) == [question("doctor", "стоматолог")]


def fact_text(life: Life, number: int | None) -> str:
    found = life.core.memory.memories.facts.find_fact(life.person.owner, number or 0)
    assert found is not None
    return found.text


async def test_a_button_ends_the_questions_about_a_thing(life: Life) -> None:
    life.settle(follow_ups=True)
    therapy = await life.remind(
        "психотерапевт, врач", NEXT_DAY - DAY, Recurrence("daily", (11,), 30)
    )
    assert await life.tick(therapy.due_at) != []
    asked = await life.tick(NEXT_DAY)
    assert question("doctor", therapy.text) in asked
    [[button]] = life.post.sent[-1][1].rows
    pressed = await life.core.commands.press(button.action, life.caller(NEXT_DAY))
    assert pressed.is_screen and pressed.text == say("follow_up_muted", "ru")
    for days in range(1, 4):
        later = await life.tick(NEXT_DAY + days * DAY)
        assert not any(say("follow_up_doctor", "ru") in text for text in later)
    life.note("завтра экзамен", NEXT_DAY + 3 * DAY)
    assert question("exam", "завтра экзамен") in await life.tick(NEXT_DAY + 5 * DAY)


DAY = timedelta(days=1)


async def test_words_end_them_too_and_the_answer_is_a_message_like_any_other(life: Life) -> None:
    life.settle(follow_ups=True)
    life.note(EVENT)
    await life.tick(NEXT_DAY)
    life.person.moment = NEXT_DAY
    answer = await life.person.say("Отлично, взяли!", "Поздравляю!")
    assert answer.text == "Поздравляю!"
    assert (await life.person.say("не спрашивай об этом")).text == say("follow_up_muted", "ru")
    assert [one.is_muted for one in life.core.day.rows.list_asked(life.person.owner)] == [True]
    other = await life.person.say("не спрашивай об этом", "Хорошо.", moment=NEXT_DAY + 3 * DAY)
    assert other.text == "Хорошо.", "nothing was asked lately"


async def test_at_most_one_question_a_day_and_three_in_seven(life: Life) -> None:
    life.settle(follow_ups=True)
    for number in range(8):
        day = NEXT_DAY + number * DAY
        life.note("сегодня экзамен и операция", day - DAY - timedelta(hours=4))
        life.note("сегодня суд", day - DAY - timedelta(hours=3))
    asked = []
    for number in range(8):
        for hours in (0, 2, 5):
            found = await life.tick(NEXT_DAY + number * DAY + timedelta(hours=hours))
            asked += [number] * len(found)
    assert asked == [0, 1, 2, 7]


async def test_what_was_forgotten_meanwhile_is_not_asked_about(life: Life) -> None:
    life.settle(follow_ups=True)
    number = life.note(EVENT)
    await life.core.follow_ups.plan(NEXT_DAY)
    assert [kind for kind, _ in life.rows()] == ["follow_up"]
    await life.core.memory.memories.forget(life.person.owner, [f"msg-{number}"])
    assert await life.tick(NEXT_DAY + timedelta(minutes=1)) == []


async def test_a_question_that_is_a_day_late_is_left_out(life: Life) -> None:
    life.settle(follow_ups=True)
    life.note(EVENT)
    await life.core.follow_ups.plan(NEXT_DAY)
    life.note("сегодня экзамен", NEXT_DAY)
    assert await life.tick(NEXT_DAY + DAY) == [question("exam", "сегодня экзамен")]


async def test_the_own_messages_of_the_bot_hold_no_words_of_the_user(life: Life) -> None:
    life.settle(follow_ups=True)
    life.note(EVENT)
    await life.brief()
    await life.core.follow_ups.plan(NEXT_DAY)
    rows = life.core.client.fetch_all(
        "SELECT text FROM reminders WHERE owner_id = %(owner)s ORDER BY text", life.person.owner
    )
    assert rows == [("brief",), ("follow-up",)]
    exported = list(life.core.exports.read("reminders", life.person.user))
    assert [(one["kind"], "about" in one) for one in exported] == [
        ("brief", False), ("follow_up", True),
    ]  # fmt: skip
    assert life.core.exports.get_settings(life.person.owner)["follow_ups"] is True


# Wishes


async def test_a_correction_offers_a_wish_which_a_button_keeps(life: Life) -> None:
    await life.person.say("Расскажи о Марсе", "Марс — четвёртая планета.")
    answer = await life.person.say("короче", "Красная планета.")
    assert (answer.text, answer.changes) == ("Красная планета.", Changes(wish="short"))
    assert life.person.facts() == []
    reply = await life.core.commands.press(Action("wish", (0,)), life.caller())
    assert life.person.facts() == ["Отвечай коротко"] and "Отвечай коротко" in reply.text
    [fact] = await life.core.memory.memories.get_user_facts(life.person.owner)
    assert fact.fact.relation == "wish"
    await life.core.commands.press(Action("wish", (1,)), life.caller())
    assert life.person.facts() == ["Отвечай подробно"]


async def test_a_yes_keeps_the_wish_and_a_no_does_not(life: Life) -> None:
    for words, kept in (("нет", []), ("да", ["Отвечай простыми словами"])):
        await life.person.say("Что такое квант?", "Порция.")
        await life.person.say("проще", "Кусочек.")
        answer = await life.person.say(words)
        assert life.person.facts() == kept
    assert "Отвечай простыми словами" in answer.text


@pytest.mark.parametrize("words", ["оставь", "keep it", "Сохрани, пожалуйста"])
async def test_keeping_it_is_a_yes_and_a_kept_wish_is_not_offered_again(
    life: Life, words: str
) -> None:
    await life.person.say("Что такое квант?", "Порция.")
    await life.person.say("короче", "Порция!")
    await life.person.say(words)
    assert life.person.facts() in (["Отвечай коротко"], ["Answer briefly"])
    await life.person.say("А атом?", "Неделимое.")
    again = await life.person.say("короче", "Атом.")
    assert (again.text, again.changes.wish) == ("Атом.", "")


async def test_a_correction_without_an_answer_before_it_is_a_message(life: Life) -> None:
    answer = await life.person.say("короче", "Что короче?")
    assert (answer.text, answer.changes.wish) == ("Что короче?", "")


# /about


async def test_the_page_about_the_user_has_a_line_by_subject_with_sources(life: Life) -> None:
    await life.know("меня зовут Анна", relation="name", object="Анна", importance=10)
    await life.know("сестра Оля живёт в Одессе", relation="lives_in", subject="sister")
    await life.know("аллергия на орехи", relation="allergic_to", importance=9)
    life.note("работаю в школе")
    life.note("обожаю горы")
    life.note("люблю ли я горы?")
    life.note("у меня болит спина")
    reply = await life.core.commands.run("about", life.caller())
    title, you, people, work, health, likes = reply.text.splitlines()
    assert title == say("about_title", "ru")
    assert you.startswith("👤 Вы: 1. меня зовут Анна · ") and "2. сестра" in people
    assert "3. работаю в школе" in work and "4. аллергия" in health and "спина" not in health
    assert "5. обожаю горы" in likes and "люблю" not in likes
    buttons = [button for row in reply.rows for button in row]
    names = [button.action.name for button in buttons]
    assert names == ["fact", "fact", "drop", "fact", "drop"]
    dropped = await life.core.commands.press(buttons[2].action, life.caller())
    assert "работаю в школе" in dropped.text
    assert "школе" not in (await life.core.commands.run("about", life.caller())).text


async def test_the_page_about_the_user_counts_what_it_leaves_out(life: Life) -> None:
    for number in range(9):
        life.note(f"обожаю сыр номер {number}")
    reply = await life.core.commands.run("about", life.caller())
    assert reply.text.endswith(f"; {say('day_more', 'ru', count=6)}") and "/memory" in reply.hint


async def test_the_page_about_nobody_says_so(life: Life) -> None:
    reply = await life.core.commands.run("about", life.caller())
    assert reply.text == say("memory_empty", "ru")


# Weeks of many people

ZONES = (
    "Europe/Kyiv", "America/New_York", "Asia/Tokyo", "Australia/Lord_Howe", "Asia/Kathmandu",
    "America/St_Johns", "Africa/Cairo", "Pacific/Chatham", "America/Santiago", "UTC",
)  # fmt: skip
AUTUMN = date(2026, 10, 22)  # clocks change on 25 October in Europe, on 1 November in America


@dataclass
class Plan:
    """What one of many people has: the oracle counts from it.

    Attributes:
        life: The person.
        hour: Of the brief.
        is_daily: False for weekdays alone.
        dated: Days of concerts, which the brief tells.
        staked: Days of exams, which the bot asks about.
    """

    life: Life
    hour: int
    is_daily: bool
    dated: set[date]
    staked: set[date]

    def briefs(self, days: Sequence[date]) -> list[datetime]:
        told = [
            day for day in days
            if day in self.dated | self.staked and (self.is_daily or day.weekday() < 5)
        ]  # fmt: skip
        return [
            first_moment(datetime.combine(day, time(self.hour)), self.life.zone) for day in told
        ]

    def questions(self, days: Sequence[date]) -> list[date]:
        asked: list[date] = []
        for day in days:
            this_week = [one for one in asked if day - one < timedelta(days=7)]
            if day - DAY in self.staked and len(this_week) < 3:
                asked.append(day)
        return asked


@pytest.mark.parametrize(("people", "days", "minutes"), [
    (5, 9, 120), pytest.param(50, 24, 30, marks=[pytest.mark.proof, pytest.mark.timeout(900)]),
])  # fmt: skip
async def test_weeks_of_many_people_have_all_that_was_promised_to_the_count(
    agents: Agents, people: int, days: int, minutes: int
) -> None:
    calendar = [AUTUMN + number * DAY for number in range(days)]
    plans = []
    persons = [await agents.person() for _ in range(people)]  # before there is any message
    for number, person in enumerate(persons):
        life = Life(person, ZONES[number % len(ZONES)])
        life.settle(follow_ups=True)
        dated = {day for place, day in enumerate(calendar) if (place + number) % 3 == 0}
        staked = {day for place, day in enumerate(calendar) if (place * number + place) % 4 == 1}
        start = datetime.combine(AUTUMN - 3 * DAY, time(12), UTC)
        for day in sorted(dated):
            life.note(f"концерт {day:%d.%m.%Y}", start)
        for day in sorted(staked):
            life.note(f"экзамен {day:%d.%m.%Y}", start)
        plan = Plan(life, 6 + number % 5, number % 2 == 0, dated, staked)
        weekdays = () if plan.is_daily else (0, 1, 2, 3, 4)
        frequency: Any = "daily" if plan.is_daily else "weekly"
        await life.brief(Recurrence(frequency, (plan.hour,), weekdays=weekdays), start)
        plans.append(plan)
    lives = {plan.life.person.user: plan.life for plan in plans}
    now = datetime.combine(AUTUMN - DAY, time(0), UTC)
    while now < datetime.combine(calendar[-1] + 2 * DAY, time(0), UTC):
        await plans[0].life.core.follow_ups.plan(now)
        await deliver_due(lives, now)
        now += timedelta(minutes=minutes)
    for plan in plans:
        sent, zone = plan.life.post.sent, plan.life.zone
        briefs = [at for at, reply in sent if reply.text.startswith("📅")]
        asked = [local_time(at, zone) for at, reply in sent if not reply.text.startswith("📅")]
        due = plan.briefs(calendar)
        assert len(briefs) == len(due), plan
        assert all(
            timedelta() <= at - on < timedelta(minutes=minutes)
            for at, on in zip(briefs, due, strict=True)
        )
        assert [at.date() for at in asked] == plan.questions([*calendar, calendar[-1] + DAY]), plan
        assert all(11 <= at.hour < 20 for at in asked)


async def deliver_due(lives: Mapping[int, Life], now: datetime) -> None:
    """Deliver what is due; each twice, as by a job that is retried."""
    [core] = {id(life.core): life.core for life in lives.values()}.values()
    for user, number, due in core.client.fetch_all(DUE_OF_ALL, users=[*lives], now=now):
        lives[user].post.now = now
        for _ in range(2):
            await lives[user].tasks.deliver(number, due, now)
