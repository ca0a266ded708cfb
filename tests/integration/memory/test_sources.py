"""Buttons under answers: the way back to what was said, and to what was believed before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from aiogram import Bot
from aiogram.types import InlineKeyboardMarkup

from src.base.errors import DeliveryError, StorageError
from src.base.owners import Caller, Owner, Preferences
from src.history.turn_repo import AnswerSource, Changes, NewAnswer, StoredAnswer
from src.talk.notes import MAX_UNDO
from src.telegram.buttons import answer_rows, build_keyboard
from src.telegram.delivery import Delivery
from src.telegram.requests import QUICK_RETRIES
from src.texts import LANGUAGES, Language, say
from tests.fakes.openai_server import Reply
from tests.fakes.telegram_people import Sender
from tests.fakes.telegram_types import SentMessage
from tests.integration.person import called, fact, saved
from tests.integration.phone import (
    LATE,
    NOW,
    PRIVATE,
    STRANGER,
    USER,
    Phone,
    buttons,
    never,
)

GROUP, TOPIC = -1_001_234_567_890, 5
IN_TOPIC = Sender(chat_id=GROUP, chat_type="supergroup", thread_id=TOPIC)
LONG = "\n\n".join(f"абзац {number} " + "слово " * 100 for number in range(20)) + "\n\nвсё [1]"
LONG_AGO = datetime(2001, 3, 2, 22, 30, tzinfo=UTC)


@pytest.fixture
async def delivery(bot: Bot) -> Delivery:
    return Delivery(bot, never)


def answer_with(*sources: AnswerSource, replaced_by: tuple[int, ...] = ()) -> StoredAnswer:
    changes = Changes(replaced_by=replaced_by)
    return StoredAnswer(1, "да", False, 0, sources=sources, changes=changes)


def keyboard_under(
    answer: StoredAnswer,
    language: Language = "ru",
    time_zone: str = "Europe/Moscow",
    now: datetime = NOW,
) -> InlineKeyboardMarkup | None:
    """The buttons of an answer as Telegram gets them."""
    called = Caller(Owner(USER), Preferences(language, time_zone), now)
    return build_keyboard(answer_rows(answer, called))


def source(number: int, uid: str | None = None, said_at: datetime = LATE) -> AnswerSource:
    return AnswerSource(number, f"msg-{number}" if uid is None else uid, "текст", said_at)


def labels(
    answer: StoredAnswer, language: Language = "ru", time_zone: str = "Europe/Moscow"
) -> list[list[str]]:
    keyboard = keyboard_under(answer, language, time_zone)
    rows = keyboard.inline_keyboard if keyboard else []
    return [[button.text for button in row] for row in rows]


# What stands on the buttons


@pytest.mark.parametrize(("language", "time_zone", "said_at", "day"), [
    ("ru", "Europe/London", LATE, "2 марта"), ("en", "Asia/Tokyo", LATE, "March 3"),
    ("uk", "America/New_York", LONG_AGO, "2 березня 2001 р."),
    ("en", "Europe/London", LONG_AGO, "March 2, 2001"),
])  # fmt: skip
def test_a_button_names_the_day_as_its_user_calls_it(
    language: Language, time_zone: str, said_at: datetime, day: str
) -> None:
    found = labels(answer_with(source(4, said_at=said_at)), language, time_zone)
    assert [[label.replace("\N{NARROW NO-BREAK SPACE}", " ") for label in found[0]]] == [
        [f"[4] {day}"]
    ]


def test_at_most_eight_sources_are_shown_four_in_a_row() -> None:
    found = labels(answer_with(*(source(number) for number in range(1, 12))))
    assert [[label.split()[0] for label in row] for row in found] == [
        ["[1]", "[2]", "[3]", "[4]"],
        ["[5]", "[6]", "[7]", "[8]"],
    ]


def test_only_messages_are_led_to_and_each_one_once() -> None:
    sources = (source(1), source(2, "sum-7"), source(3, "msg-1"), source(4, ""), source(5))
    found = labels(answer_with(*sources))
    assert [label.split()[0] for label in found[0]] == ["[1][3]", "[5]"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_was_replaced_can_be_brought_back_below_the_sources(language: Language) -> None:
    label = say("undo_button", language)
    found = labels(answer_with(source(1), replaced_by=(7,)), language)
    assert len(found) == 2 and found[1] == [label]
    several = labels(answer_with(replaced_by=tuple(range(1, 10))), language)
    assert several == [[f"{label} ({number})"] for number in range(1, MAX_UNDO + 1)]


# Where the buttons stand


@pytest.mark.parametrize("place", [PRIVATE, IN_TOPIC])
async def test_an_interrupted_delivery_goes_on_with_buttons(phone: Phone, place: Sender) -> None:
    phone.place = place
    _, cited = await phone.said("Собаку зовут Рекс")
    asked, question = await phone.said("@pomni_test_bot как зовут собаку?")
    [(conversation,)] = phone.rig.rows(
        "SELECT conversation_id FROM messages WHERE id = %(id)s", id=question
    )
    sources = (AnswerSource(1, f"msg-{cited}", "Собаку зовут Рекс", LATE, cited),)
    phone.rig.core.turns.save_answer(NewAnswer(conversation, question, LONG, sources=sources))
    chat = phone.owner.telegram_user_id
    phone.fake.fail_next("sendMessage", times=QUICK_RETRIES + 1)
    with pytest.raises(DeliveryError):
        await phone.work()
    assert phone.fake.sent_to(chat) == []
    phone.rig.client.execute(
        "UPDATE telegram_updates SET handled_at = now(), payload = '{}'"
        " WHERE message_id <> %(id)s",
        {"id": asked},
    )
    assert await phone.work() == ["done"]
    assert [len(buttons(message)) for message in phone.fake.sent_to(chat)][-2:] == [0, 1]
    assert buttons(phone.last)[0][0][1] == f"source:{cited}"
    assert phone.rig.model.requests == []


# What they lead to


@pytest.mark.parametrize("place", [PRIVATE, IN_TOPIC])
async def test_a_source_is_shown_by_a_reply_to_it(phone: Phone, place: Sender) -> None:
    phone.place = place
    message_id, stored = await phone.said("Собаку зовут Рекс")
    await phone.write("/help")
    assert await phone.press(f"source:{stored}") == ["done"]
    chat, thread = phone.owner
    assert (phone.last.text, phone.last.reply_to) == (say("source_here", "ru"), message_id)
    assert phone.last.thread_id == (thread or None)
    reply = phone.fake.calls_of("sendMessage")[-1].params["reply_parameters"]
    assert (reply["chat_id"], reply["message_id"]) == (chat, message_id)
    assert [call.ok for call in phone.fake.calls_of("answerCallbackQuery")] == [True]
    locks = phone.rig.rows(
        "SELECT j.lock FROM procrastinate_jobs j JOIN telegram_updates u"
        " ON u.id = (j.args ->> 'update')::bigint WHERE u.kind = 'callback'"
    )
    assert locks == [(f"person:42:{USER}",)]


@pytest.mark.parametrize(
    "reason",
    ["message to be replied not found", "Reply message not found"],
)
async def test_a_message_that_telegram_does_not_have_any_more_is_quoted(
    phone: Phone, reason: str
) -> None:
    _, stored = await phone.said("Собаку зовут Рекс", LONG_AGO)
    await phone.write("/help")
    phone.fake.fail_next("sendMessage", status=400, description=f"Bad Request: {reason}")
    assert await phone.press(f"source:{stored}") == ["done"]
    day = phone.last.text.splitlines()[0]
    assert day.replace("\N{NARROW NO-BREAK SPACE}", " ") == (
        "3 марта 2001 г. вы сказали: «Собаку зовут Рекс»"
    )
    assert phone.last.reply_to is None


async def test_a_message_of_the_group_before_it_moved_is_quoted(phone: Phone) -> None:
    _, stored = await phone.said("Собаку зовут Рекс")
    phone.rig.client.execute("UPDATE messages SET chat_id = -17")
    await phone.write("/help")
    await phone.press(f"source:{stored}")
    assert "«Собаку зовут Рекс»" in phone.last.text and phone.last.reply_to is None


async def test_when_nothing_is_left_that_is_said(phone: Phone) -> None:
    _, stored = await phone.said("Собаку зовут Рекс")
    await phone.write("/new")
    await phone.press(f"source:{stored}")
    assert phone.told == say("source_gone", "ru")


async def test_a_forged_button_shows_nobody_what_others_said(phone: Phone) -> None:
    alien = Phone(phone.fake, phone.bot, phone.rig, phone.dispatcher, Sender(chat_id=STRANGER))
    _, stored = await alien.said("пароль от сейфа")
    in_topic = Phone(phone.fake, phone.bot, phone.rig, phone.dispatcher, IN_TOPIC)
    _, private = await phone.said("тайна")
    await phone.write("/help")
    assert await phone.press(f"source:{stored}") == ["done"]
    assert phone.told == say("source_gone", "ru")
    await in_topic.write("/help")
    await in_topic.press(f"source:{private}")
    assert in_topic.told == say("source_gone", "ru"), "a group is not its member"
    other_topic = Sender(chat_id=GROUP, chat_type="supergroup", thread_id=TOPIC + 1)
    neighbour = Phone(phone.fake, phone.bot, phone.rig, phone.dispatcher, other_topic)
    _, elsewhere = await neighbour.said("в другой теме")
    await in_topic.press(f"source:{elsewhere}")
    assert in_topic.told == say("source_gone", "ru")
    assert all(call.ok for call in phone.fake.calls_of("answerCallbackQuery"))


# Whatever fails


async def test_the_press_is_answered_if_the_reply_fails_and_that_comes_later(phone: Phone) -> None:
    message_id, stored = await phone.said("Собаку зовут Рекс")
    await phone.write("/help")
    phone.fake.fail_next("sendMessage", times=QUICK_RETRIES + 1)
    with pytest.raises(DeliveryError):
        await phone.press(f"source:{stored}")
    assert [call.ok for call in phone.fake.calls_of("answerCallbackQuery")] == [True]
    assert await phone.work() == ["done"]
    assert phone.last.reply_to == message_id


@pytest.mark.parametrize("data", ["source:1", "undo:1"])
async def test_the_press_is_answered_even_if_the_memory_is_away(phone: Phone, data: str) -> None:
    await phone.write("/help")
    for table in ("memories", "messages"):
        phone.rig.client.execute(f"ALTER TABLE {table} RENAME TO {table}_away")
    try:
        with pytest.raises(StorageError):
            await phone.press(data)
    finally:
        for table in ("memories", "messages"):
            phone.rig.client.execute(f"ALTER TABLE {table}_away RENAME TO {table}")
    assert [call.ok for call in phone.fake.calls_of("answerCallbackQuery")] == [True]


# Bringing a replaced fact back


def undo_data(message: SentMessage) -> str:
    [row] = [row for row in buttons(message) if row[0][1].startswith("undo:")]
    [(label, data)] = row
    assert label == say("undo_button", "ru")
    return data


def saving(city: str) -> Reply:
    text = f"Я живу в городе {city}"
    home = {"importance": 7, "subject": "user", "relation": "lives_in", "object": city}
    return saved(fact(text, **home))


async def move_twice(phone: Phone) -> SentMessage:
    """Tell of two cities, the second instead of the first; the second answer."""
    for city in ("Краков", "Киев"):
        phone.rig.model.queue(saving(city), f"Запомнил: {city}")
        await phone.write(f"@pomni_test_bot Я живу в городе {city}")
        assert phone.last.text.startswith(f"Запомнил: {city}\n\n")
    return phone.last


@pytest.mark.parametrize("place", [PRIVATE, IN_TOPIC])
async def test_a_fact_that_a_tool_replaced_is_brought_back_with_one_tap(
    phone: Phone, place: Sender
) -> None:
    phone.place = place
    answer = await move_twice(phone)
    first = phone.fake.sent_to(phone.owner.telegram_user_id)[0]
    assert buttons(first)[0][0][0] == say("undo_saved_button", "ru")
    note = say("note_replaced", "ru", text="Я живу в городе Киев", old="Я живу в городе Краков")
    assert answer.text.endswith(note) and phone.facts() == ["Я живу в городе Киев"]
    assert await phone.press(undo_data(answer)) == ["done"]
    assert phone.facts() == ["Я живу в городе Краков"]
    assert phone.last.text == say(
        "undo_done", "ru", restored="Я живу в городе Краков", text="Я живу в городе Киев"
    )
    assert phone.last.thread_id == place.get("thread_id")
    assert [call.ok for call in phone.fake.calls_of("answerCallbackQuery")] == [True]


async def test_what_the_background_replaced_is_named_below_the_next_answer(phone: Phone) -> None:
    where: dict[str, Any] = {"relation": "lives_in", "importance": 7}
    phone.rig.model.queue(saved(fact("Живу в Туле", object="Тула", **where)), "Ясно")
    await phone.write("@pomni_test_bot Живу в Туле")
    await phone.write("@pomni_test_bot Переехала в Омск")
    moved = fact("Переехала в Омск", object="Омск", **where)
    phone.rig.model.queue(called("ExtractedFacts", facts=[moved]))
    phone.rig.set(memory_extraction_window=4)
    conversation = phone.rig.conversation(phone.owner.telegram_user_id)
    await phone.rig.core.memory.digest.digest(conversation)
    assert phone.facts() == ["Переехала в Омск"]
    note = say("note_replaced_behind", "ru", text="Переехала в Омск", old="Живу в Туле")
    await phone.write("@pomni_test_bot Как дела?")
    assert note in phone.last.text
    await phone.write("@pomni_test_bot А теперь?")
    assert note not in phone.last.text, "once"
    await phone.write("/undo")
    assert phone.facts() == ["Живу в Туле"]


async def test_a_spent_button_goes_and_the_sources_stay(phone: Phone) -> None:
    answer = await move_twice(phone)
    data = undo_data(answer)
    await phone.bot.edit_message_reply_markup(
        chat_id=USER,
        message_id=answer.message_id,
        reply_markup=keyboard_under(
            answer_with(source(1), replaced_by=(int(data.removeprefix("undo:")),))
        ),
    )
    await phone.press(data, under=answer)
    assert buttons(answer) == [[("[1] 3 марта", "source:1")]]
    await phone.press(data, under=answer)
    assert phone.told == say("tap_undone", "ru")
    assert phone.facts() == ["Я живу в городе Краков"]


@pytest.mark.core(llm_model="offline")
async def test_what_a_person_wrote_is_no_formatting(
    phone: Phone,
) -> None:
    await phone.write("Запомни: Мой файл называется __init__")
    assert phone.last.text == say("taught_new", "ru", text="Мой файл называется __init__")
    await phone.write("Как называется мой файл?")
    assert "«Мой файл называется __init__» [1]" in phone.last.text
    assert {entity["type"] for entity in phone.last.entities} == {"date_time"}


# What was forgotten, and the question before everything is.


def button(message: SentMessage, prefix: str, label: str) -> str:
    """The data of the one button of a kind with this label."""
    found = [b for row in buttons(message) for b in row if b[1].startswith(f"{prefix}:")]
    [data] = [data for text, data in found if text == label]
    return data


async def forget_the_city(phone: Phone) -> str:
    """Tell of a city and have it forgotten; the data of the button that takes it back."""
    phone.rig.model.queue(saving("Краков"), "Запомнил")
    await phone.write("@pomni_test_bot Я живу в городе Краков")
    phone.rig.model.queue(called("forget_fact", about="где я живу"), "Забыл.")
    await phone.write("@pomni_test_bot Забудь, где я живу")
    assert phone.facts() == []
    return button(phone.last, "undo", say("undo_forgot_button", "ru"))


DONE = say("undo_forgot_done", "ru", restored="Я живу в городе Краков")


async def test_nobody_brings_back_what_others_forgot(phone: Phone) -> None:
    data = await forget_the_city(phone)
    alien = Phone(phone.fake, phone.bot, phone.rig, phone.dispatcher, IN_TOPIC)
    await alien.write("/help")
    await alien.press(data)
    assert alien.told == say("tap_undone", "ru")
    assert phone.facts() == [] and alien.facts() == []
    await phone.write("/undo")
    assert phone.last.text == DONE
