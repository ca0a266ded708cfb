"""The memory in the user's own hands: /memory, /remember, /forget, /search, /delete_me, /privacy.

Everything goes through Telegram's wire, without the queue; see tests/e2e for the whole process.
"""

from __future__ import annotations

import re

import pytest

from src.memory.screens import PAGE_SIZE
from src.pg.client import PgClient
from src.talk.forget_screens import CONFIRM_SECONDS
from src.texts import LANGUAGES, say
from tests.fakes.telegram_people import Sender
from tests.fakes.telegram_types import SentMessage
from tests.integration.phone import STRANGER, USER, Phone, buttons, labels

pytestmark = pytest.mark.core(llm_model="offline")

GROUP = -1_001_234_567_891
IN_GROUP = Sender(chat_id=GROUP, chat_type="supergroup")


async def open_card(phone: Phone, text: str) -> SentMessage:
    await phone.write("/memory")
    listed = phone.last
    [number] = [
        line.partition(".")[0]
        for line in listed.text.splitlines()
        if text in line and ". " in line
    ]
    return await phone.tap(number, under=listed)


# /memory


@pytest.mark.parametrize("language", LANGUAGES)
async def test_an_empty_memory_says_how_to_fill_it(phone: Phone, language: str) -> None:
    await phone.fake.send_text(USER, "/memory", language_code=language)
    await phone.work()
    assert phone.last.text == say("memory_empty", language)  # type: ignore[arg-type]
    assert buttons(phone.last) == []


async def test_facts_are_listed_by_kind_with_date_and_what_they_replaced(phone: Phone) -> None:
    await phone.write("/remember Я живу в Одессе")
    await phone.write("/remember Я люблю зелёный чай")
    [(known,)] = phone.rig.rows("SELECT id FROM memories WHERE text LIKE '%Одессе'")
    await phone.press(f"correct:{known}")
    await phone.fake.send_text(USER, "Я живу во Львове", reply_to=phone.last.message_id)
    await phone.work()
    await phone.write("/memory")
    lines = phone.last.text.splitlines()
    assert lines[0] == say("memory_title", "ru", count=2)
    about = lines.index(say("kind_user_fact", "ru"))
    assert lines[about + 1].startswith("1. Я живу во Львове · ")
    assert lines[about + 2].strip() == say("memory_before", "ru", text="Я живу в Одессе")
    assert lines[about + 3].startswith("2. Я люблю зелёный чай · ")
    assert labels(phone.last) == ["1", "2"]


async def test_a_fact_that_is_over_says_so(phone: Phone, client: PgClient) -> None:
    await phone.write("/remember Я в Риге до пятницы")
    await phone.write("/memory")
    assert "было до" not in phone.last.text
    client.execute("UPDATE memories SET valid_until = valid_until - interval '30 days'")
    client.execute("UPDATE memory_sources SET said_at = said_at - interval '30 days'")
    await phone.write("/memory")
    assert "уже прошло: было до" in phone.last.text


async def test_pages_are_turned_in_place_and_never_past_the_end(phone: Phone) -> None:
    for number in range(PAGE_SIZE + 3):
        await phone.write(f"/remember Дома у меня лежит предмет номер {number}")
    await phone.write("/memory")
    page = phone.last
    assert labels(page)[-2:] == ["1/2", "›"]
    assert (await phone.tap("›", under=page)).message_id == page.message_id
    assert page.text.count("предмет номер") == 3 and labels(page)[-2:] == ["‹", "2/2"]
    await phone.press("facts:9:0", under=page)
    assert "2/2" in labels(page)
    await phone.press("facts:0:77", under=page)
    assert "1/2" in labels(page)


async def test_a_fact_is_pinned_and_let_go(phone: Phone) -> None:
    await phone.write("/remember У меня аллергия на орехи")
    card = await open_card(phone, "орехи")
    assert card.text.endswith("вы так и сказали.") and card.text.count("орехи") == 1
    await phone.tap(say("pin_button", "ru"), under=card)
    assert card.text.startswith("📌") and pinned(phone) == [True]
    [(fact,)] = phone.rig.rows("SELECT id FROM memories")
    await phone.press(f"pin:{fact}:1:0", under=card)  # a double tap
    await phone.tap(say("unpin_button", "ru"), under=card)
    assert pinned(phone) == [False]
    await phone.tap(say("back_button", "ru"), under=card)
    assert card.text.startswith(say("memory_title", "ru", count=1))


def pinned(phone: Phone) -> list[bool]:
    return [row for (row,) in phone.rig.rows("SELECT pinned FROM memories ORDER BY id")]


async def test_every_tap_has_words_and_a_second_one_changes_nothing(phone: Phone) -> None:
    await phone.write("/remember Мою кошку зовут Муся")
    card = await open_card(phone, "Муся")
    data = f"forget:{one_id(phone)}:1:0"
    await phone.press(data, under=card)
    shown, kept = card.text, buttons(card)
    for again in (data, "nonsense:1", "forget:99:1:0", "?", "settle:9999:0"):  # forged, outdated
        await phone.press(again, under=card)
        assert phone.told == phone.popups[-1]
        assert (card.text, buttons(card)) == (shown, kept) or again.startswith("settle")
    await phone.press(kept[0][0][1], under=card)
    assert phone.facts() == ["Мою кошку зовут Муся"] and all(phone.popups)


def one_id(phone: Phone) -> int:
    [(number,)] = phone.rig.rows("SELECT id FROM memories WHERE retired_at IS NULL")
    return int(number)


async def test_a_fact_is_corrected_by_the_answer_to_a_question(phone: Phone) -> None:
    await phone.write("/remember Моя сестра живёт в Риге")
    card = await open_card(phone, "Риге")
    await phone.tap(say("correct_button", "ru"), under=card)
    question = phone.last
    assert question.reply_markup and question.reply_markup["force_reply"] is True
    await phone.fake.send_text(USER, "Моя сестра живёт в Вильнюсе", reply_to=question.message_id)
    await phone.work()
    assert phone.facts() == ["Моя сестра живёт в Вильнюсе"]
    assert phone.last.text == say(
        "taught_update", "ru", text="Моя сестра живёт в Вильнюсе", old="Моя сестра живёт в Риге"
    )
    await phone.tap(say("undo_button", "ru"))
    assert phone.facts() == ["Моя сестра живёт в Риге"]


async def test_a_late_correction_of_what_is_forgotten_changes_nothing(phone: Phone) -> None:
    await phone.write("/remember Моя сестра живёт в Риге")
    card = await open_card(phone, "Риге")
    await phone.tap(say("correct_button", "ru"), under=card)
    question = phone.last
    await phone.write("/forget сестра")
    await phone.fake.send_text(USER, "Она живёт в Вильнюсе", reply_to=question.message_id)
    await phone.work()
    assert phone.told == say("memory_gone", "ru") and phone.facts() == []


async def test_nobody_corrects_by_an_imitated_question(phone: Phone) -> None:
    await phone.write("/remember Моя сестра живёт в Риге")
    card = await open_card(phone, "Риге")
    await phone.tap(say("correct_button", "ru"), under=card)
    imitation = await phone.fake.send_text(USER, phone.last.text)
    await phone.fake.send_text(USER, "Моя собака живёт в Вильнюсе", reply_to=imitation)
    await phone.work()
    assert "Моя сестра живёт в Риге" in phone.facts()


async def test_the_buttons_of_another_open_and_change_nothing(phone: Phone) -> None:
    await phone.write("/remember Пароль от сердца знает только Оля")
    number = one_id(phone)
    alien = Phone(
        phone.fake, phone.bot, phone.rig, phone.dispatcher, Sender(chat_id=STRANGER), phone.offset
    )
    await alien.fake.send_text(STRANGER, "/help")
    await alien.work()
    under = phone.fake.sent_to(STRANGER)[-1]
    for data in ("fact", "pin", "forget", "correct", "undo", "drop:0"):
        await phone.fake.press_button(STRANGER, under.message_id, f"{data}:{number}")
        await alien.work()
        assert "Оля" not in phone.fake.sent_to(STRANGER)[-1].text
    assert pinned(phone) == [False] and len(phone.facts()) == 1


# /remember


@pytest.mark.parametrize(("language", "text"), [
    ("ru", "У моего брата день рождения 5 мая"), ("uk", "Мій улюблений колір — синій"),
    ("en", "My landlord is called Graham"),
])  # fmt: skip
async def test_what_is_to_be_remembered_is_and_can_be_taken_back(
    phone: Phone, language: str, text: str
) -> None:
    await phone.fake.send_text(USER, f"/remember {text}", language_code=language)
    await phone.work()
    assert phone.last.text == say("taught_new", language, text=text)  # type: ignore[arg-type]
    assert phone.facts() == [text] and phone.rig.model.requests == []
    await phone.press(buttons(phone.last)[0][0][1])
    assert phone.facts() == []


@pytest.mark.parametrize("text", [
    "Я живу в Киеве. Домофон: звонить два раза! Купить хлеб",
    "Лікар — проф. Коваль, вул. Франка, буд. 3. Прийом: пн., ср.", "слово " * 90,
])  # fmt: skip
async def test_a_text_is_kept_whole_as_one_fact(phone: Phone, text: str) -> None:
    await phone.write(f"/remember {text}")
    assert phone.facts() == [text.strip()]
    await phone.write(f"/remember {text}")
    assert phone.facts() == [text.strip()]


async def test_remember_as_a_reply_takes_one_s_own_message(phone: Phone) -> None:
    own = await phone.fake.send_text(USER, "Машина стоит на P3")
    await phone.work()
    await phone.write("/new")
    await phone.fake.send_text(USER, "/remember", reply_to=own)
    await phone.work()
    assert "Машина стоит на P3" in phone.facts()
    await phone.send(text="/remember", reply_to=own, quote={"text": "на P3", "position": 14})
    assert "на P3" in phone.facts(), "the part that is quoted"
    await phone.fake.send_text(USER, "/remember", reply_to=phone.last.message_id)
    await phone.work()
    assert phone.last.text == say("remember_usage", "ru")


@pytest.mark.parametrize(("text", "key"), [
    ("Мой пароль: kXq83-Lm2!zz", "refused_secret"), ("Где я живу?", "refused_question"),
    ("", "remember_usage"), ("!!!", "refused_other"),
])  # fmt: skip
async def test_what_cannot_be_remembered_is_said(phone: Phone, text: str, key: str) -> None:
    await phone.write(f"/remember {text}".strip())
    assert phone.last.text.startswith(say(key, "ru")) and phone.facts() == []


async def test_a_repeated_update_teaches_once(phone: Phone) -> None:
    await phone.write("/remember Я живу в Киеве")
    phone.rig.rows(
        "UPDATE telegram_updates SET handled_at = NULL, payload = %(p)s::jsonb RETURNING 1",
        p='{"update_id": 1, "message": {"message_id": 1, "date": 1, "text": "/remember Я живу в '
        f'Киеве", "chat": {{"id": {USER}, "type": "private"}}, "from": {{"id": {USER}, '
        '"is_bot": false, "first_name": "x"}}}',
    )
    await phone.work()
    assert phone.facts() == ["Я живу в Киеве"]
    answers = phone.rig.rows("SELECT count(*) FROM messages WHERE role = 'assistant'")
    assert answers == [(1,)]


# /forget


async def test_of_several_one_is_chosen_by_a_button(phone: Phone) -> None:
    await phone.write("/remember Мой брат живёт в Вене")
    await phone.write("/remember Мой брат любит шахматы")
    await phone.write("/forget про брата")
    assert phone.last.text.startswith(say("forget_which", "ru")) and len(phone.facts()) == 2
    await phone.tap("шахматы")
    assert phone.facts() == ["Мой брат живёт в Вене"]


@pytest.mark.parametrize(("text", "key"), [
    ("/forget", "forget_usage"), ("/forget прошлогодний снег", "forgot_nothing"),
])  # fmt: skip
async def test_nothing_is_forgotten_that_is_not_there(phone: Phone, text: str, key: str) -> None:
    await phone.write("/remember Мою кошку зовут Муся")
    await phone.write(text)
    assert phone.last.text.startswith(say(key, "ru")) and len(phone.facts()) == 1


# /search


async def test_a_search_shows_where_it_was_said_and_leads_there(phone: Phone) -> None:
    said = await phone.write("Запасные ключи лежат у соседки Нины")
    await phone.write("Погода сегодня отличная")
    await phone.rig.core.memory.digest.digest_turn(phone.rig.conversation(USER))
    await phone.write("/search где ключи")
    assert "1. " in phone.last.text and "«Запасные ключи лежат у соседки Нины»" in phone.last.text
    await phone.press(buttons(phone.last)[0][0][1])
    assert (phone.last.text, phone.last.reply_to) == (say("source_here", "ru"), said)


async def test_a_search_leaves_out_what_only_repeats_the_user(phone: Phone) -> None:
    phone.rig.model.queue("Записал: Запасные ключи лежат у соседки. Ещё что-то?")
    await phone.write("Запасные ключи лежат у соседки")
    await phone.write("Погода сегодня отличная")
    await phone.rig.core.memory.digest.digest_turn(phone.rig.conversation(USER))
    await phone.write("/search ключи")
    assert "Записал" not in phone.last.text and "соседки" in phone.last.text


@pytest.mark.parametrize(("text", "key"), [
    ("/search", "search_usage"), ("/search квантовая хромодинамика", "search_nothing"),
])  # fmt: skip
async def test_a_search_that_finds_nothing_says_so(phone: Phone, text: str, key: str) -> None:
    await phone.write(text)
    assert phone.last.text == say(key, "ru")


# /summary, /privacy


async def test_a_summary_tells_of_the_conversation(phone: Phone) -> None:
    await phone.write("/summary")
    assert phone.last.text == say("summary_nothing", "ru")
    await phone.write("Завтра у меня собеседование в музее")
    await phone.write("/summary")
    assert phone.last.text.startswith(say("summary_title", "ru"))
    assert "собеседование в музее" in phone.last.text


async def test_privacy_says_what_is_true_here(phone: Phone) -> None:
    await phone.write("/privacy")
    assert say("privacy_offline", "ru") in phone.last.text and "/delete_me" in phone.last.text
    phone.rig.set(message_retention_days=30)
    await phone.write("/privacy")
    assert say("privacy_days", "ru", days=30) in phone.last.text


# /delete_me, and what /new offers


async def test_everything_is_erased_after_the_second_yes(phone: Phone) -> None:
    await phone.write("/remember Мою кошку зовут Муся")
    await phone.write("/delete_me")
    question = phone.last
    await phone.tap(say("delete_yes_1", "ru"), under=question)
    assert question.text == say("delete_ask_again", "ru") and len(phone.facts()) == 1
    await phone.tap(say("delete_yes_2", "ru"), under=question)
    assert question.text == say("erase_done", "ru") and buttons(question) == []
    assert phone.facts() == [] and phone.rig.stored(USER) == []


@pytest.mark.parametrize("step", [1, 2])
async def test_a_no_and_an_old_yes_erase_nothing(phone: Phone, step: int) -> None:
    await phone.write("/remember Мою кошку зовут Муся")
    await phone.write("/delete_me")
    question = phone.last
    if step == 2:
        await phone.tap(say("delete_yes_1", "ru"), under=question)
    data = buttons(question)[0][0][1]
    await phone.tap(say("erase_no", "ru"), under=question)
    assert question.text == say("erase_kept", "ru") and len(phone.facts()) == 1
    asked = int(re.findall(r"\d+", data)[1]) - CONFIRM_SECONDS - 1
    await phone.press(f"delete:2:{asked}", under=question)
    assert question.text == say("delete_late", "ru") and len(phone.facts()) == 1
    await phone.press(f"delete:2:{2**62}", under=question)
    await phone.press("delete:3:1", under=question)
    assert len(phone.facts()) == 1


async def test_new_offers_to_see_and_to_forget_the_facts_too(phone: Phone) -> None:
    await phone.write("/remember Мою кошку зовут Муся")
    await phone.write("/new")
    offered = phone.last
    assert offered.text.endswith(say("new_facts", "ru", count=1))
    await phone.tap(say("see_button", "ru"), under=offered)
    assert "Муся" in phone.last.text
    await phone.press("wipe", under=phone.last)
    assert phone.last.text == say("wipe_ask", "ru", count=1) and len(phone.facts()) == 1
    await phone.tap(say("erase_no", "ru"))
    assert phone.popups[-1] == say("erase_kept", "ru") and len(phone.facts()) == 1
    assert phone.last.text.startswith(say("new_notes", "ru")) and len(buttons(phone.last)) == 2
    await phone.press("wipe")
    await phone.tap(say("wipe_yes", "ru"))
    assert phone.last.text == say("wipe_done", "ru") and phone.facts() == []
    await phone.press("wipe:0")
    assert phone.last.text == say("memory_empty", "ru")


# Groups


async def test_in_a_group_only_admins_wipe_what_belongs_to_all(phone: Phone) -> None:
    phone.place = IN_GROUP
    await phone.write("/remember Встречаемся по вторникам в семь")
    await phone.write("/new")
    assert phone.told == say("only_admins", "ru")
    assert len(phone.rig.rows("SELECT 1 FROM messages WHERE role = 'user'")) == 1
    await phone.press("wipe:1")
    assert phone.told == say("only_admins", "ru") and len(phone.facts()) == 1
    phone.fake.state.admins[GROUP] = {USER}
    await phone.write("/new")
    assert phone.last.text.startswith(say("new_notes", "ru"))
    await phone.press("wipe:1")
    assert phone.facts() == []


async def test_in_a_group_one_changes_only_what_one_told(phone: Phone) -> None:
    phone.place = IN_GROUP
    await phone.write("/remember Я живу в Киеве")
    card = await open_card(phone, "Киеве")
    for name in ("pin", "forget"):
        data = f"{name}:{one_id(phone)}:1:0"
        await phone.fake.press_button(STRANGER, card.message_id, data, chat_id=GROUP)
        await phone.work()
        assert phone.told == say("memory_not_yours", "ru")
    assert pinned(phone) == [False] and len(phone.facts()) == 1
    await phone.write("/delete_me")
    assert phone.last.text == say("forget_group", "ru")
