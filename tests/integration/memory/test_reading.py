"""What a message can be: every word and file of it reaches the model, or a sentence says so."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from src.texts import LANGUAGES, Language, say
from tests.fakes.openai_server import Reply
from tests.fakes.telegram_people import Sender, user
from tests.integration.phone import STRANGER, USER, Phone
from tests.valid_updates import draw_update

NAME = "@pomni_test_bot"
JPEG = b"\xff\xd8\xff\xe0 a picture"
SPEECH = "Мою дочь зовут Вера"
PHOTO = [{"file_id": "photo", "file_unique_id": "p", "width": 1280, "height": 900}]
URL = "https://example.org/long"
LINK = [{"type": "text_link", "offset": 0, "length": 5, "url": URL}]
CHANNEL = {"type": "channel", "date": 0, "message_id": 3,
           "chat": {"id": -100600, "type": "channel", "title": "News"}}  # fmt: skip
CHANNEL_BOT = {"id": 136817688, "is_bot": True, "first_name": "Channel"}
pytestmark = pytest.mark.core(transcription_model="whisper-1")
_groups = itertools.count(1_009_000_000_001)


@pytest.fixture
async def phone(phone: Phone) -> Phone:
    text = "Срок аренды — до мая".encode()
    phone.fake.state.files |= {"photo": JPEG, "voice": SPEECH.encode(), "text": text}
    return phone


@pytest.fixture
def place() -> Sender:
    return Sender(chat_id=-next(_groups), chat_type="supergroup")


def asked(phone: Phone) -> str:
    return str(phone.rig.model.requests[-1].messages)


# Words


@pytest.mark.parametrize("content", [
    {"text": "здесь всё", "entities": LINK},
    {"text": "здесь всё", "entities": LINK, "forward_origin": CHANNEL},
    {"photo": PHOTO, "caption": "здесь всё", "caption_entities": LINK},
    {"rich_message": {"blocks": [
        {"type": "paragraph", "text": [{"type": "url", "text": "здесь", "url": URL}, " всё"]}]}},
])  # fmt: skip
async def test_the_model_reads_the_addresses_of_links(
    phone: Phone, content: dict[str, Any]
) -> None:
    assert await phone.send(**content) == ["done"]
    assert f"здесь ({URL}) всё" in asked(phone)
    answered = {"message_id": 1, "date": 0, "chat": {"id": USER, "type": "private"},
                "from": user(STRANGER), **content}  # fmt: skip
    phone.fake.state.files.pop("photo", None)
    await phone.send(text="что там?", reply_to_message=answered)
    assert f"здесь ({URL}) всё" in asked(phone)


# Commands in captions


async def test_a_photo_captioned_remember_teaches_and_is_looked_at(phone: Phone) -> None:
    phone.rig.model.queue("Чек на 345 гривен.")
    assert await phone.send(photo=PHOTO, caption="/remember Я живу в Риге") == ["done"]
    assert phone.facts() == ["Я живу в Риге"]
    assert phone.heard() == [("file", "Чек на 345 гривен."), ("typed", "Я живу в Риге")]


# What is replied to, in a group


async def test_the_bot_s_own_files_are_not_read_again(phone: Phone) -> None:
    await phone.write("/export")
    await phone.send(text="спасибо", reply_to=phone.last.message_id)
    assert phone.heard() == [("typed", "спасибо")]


# Albums, edits, channels


@pytest.mark.parametrize("named", [0, 1, 2])
async def test_an_album_in_a_group_is_one_message_whichever_part_names_the_bot(
    phone: Phone, place: Sender, named: int
) -> None:
    phone.rig.model.queue("Кухня.", "Спальня.", "Ванная.", "Хорошая квартира.")
    for number in range(3):
        caption = {"caption": f"{NAME} смотри"} if number == named else {}
        await phone.fake.send_message(USER, photo=PHOTO, media_group_id="a", **caption, **place)
    assert await phone.work() == ["left to a later message"] * 2 + ["done"]
    [answer] = phone.fake.sent_to(place["chat_id"] or 0)
    assert answer.text == "Хорошая квартира."
    assert all(word in asked(phone) for word in ("Кухня", "Спальня", "Ванная", "смотри"))


async def test_an_edit_that_names_the_bot_is_heard_once(phone: Phone, place: Sender) -> None:
    group = place["chat_id"] or 0
    number = await phone.fake.send_text(USER, "где обед?", **place)
    await phone.work()
    await phone.fake.edit_text(USER, number, "где ужин?", chat_id=group)
    assert await phone.work() == ["ignored"]
    await phone.fake.edit_text(USER, number, f"{NAME} где обед?", chat_id=group)
    assert await phone.work() == ["done"]
    await phone.fake.edit_text(USER, number, f"{NAME} где обед?", chat_id=group)
    assert await phone.work() == ["ignored"]
    [answer] = phone.fake.sent_to(group)
    assert (answer.text, answer.reply_to) == ("эхо: где обед?", number)
    phone.fake.state.admins[group] = {USER}
    await phone.send(text=f"/new{NAME}", **place)
    before = len(phone.fake.sent_to(group))
    await phone.fake.edit_text(USER, number, f"{NAME} где обед, а?", chat_id=group)
    assert await phone.work() == ["ignored"], "a message that /new deleted was heard"
    assert len(phone.fake.sent_to(group)) == before


async def test_members_who_write_as_channels_are_heard_and_kept_apart(
    phone: Phone, place: Sender
) -> None:
    channels = [{"id": -100_700 - n, "type": "channel", "title": f"Канал {n}"} for n in (1, 2)]
    for channel in channels:
        fields = {"from": CHANNEL_BOT, "sender_chat": channel, **place}
        assert await phone.send(text=f"{NAME} я здесь", **fields) == ["done"]
    rows = phone.rig.rows(
        "SELECT sender_id, speaker FROM messages WHERE role = 'user' ORDER BY id"
    )
    assert rows == [(-100_701, "Канал 1"), (-100_702, "Канал 2")]
    first = await phone.fake.send_message(
        USER, text="Живу в Риге", **{"from": CHANNEL_BOT, "sender_chat": channels[0], **place}
    )
    await phone.work()
    fields = {"from": CHANNEL_BOT, "sender_chat": channels[1], **place}
    await phone.send(text=f"/remember{NAME}", reply_to=first, **fields)
    facts = phone.rig.rows("SELECT text FROM facts")
    assert facts == [], "one channel does not speak for another"


# One act is one turn


async def test_what_comes_before_anything_is_shown_joins_the_turn(phone: Phone) -> None:
    """The model still thinks about the comment when the forward comes."""
    gate = asyncio.Event()
    phone.rig.model.queue(Reply(text="Рано.", gate=gate), "Знаю оба.")
    await phone.fake.send_text(USER, "Что скажешь?")
    working = asyncio.create_task(phone.work())
    await phone.rig.model.wait_for(lambda: phone.rig.model.waiting_at_gate)
    await phone.fake.send_message(USER, text="Сдаю дом", forward_origin=CHANNEL)
    await phone.receive()
    assert await working == ["left to a later message"]
    assert await phone.work() == ["done"]
    gate.set()
    assert [message.text for message in phone.fake.sent_to(USER)] == ["Знаю оба."]
    assert "Что скажешь?" in asked(phone) and "Сдаю дом" in asked(phone)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_message_left_to_a_file_that_cannot_be_read_is_answered(
    phone: Phone, language: Language
) -> None:
    phone.rig.model.queue("Не вижу.")
    await phone.fake.send_text(USER, "Что там?", language_code=language)
    story = {"chat": {"id": 5, "type": "private"}, "id": 1}
    await phone.fake.send_message(USER, story=story, language_code=language)
    assert await phone.work() == ["left to a later message", "done"]
    assert "Что там?" in asked(phone)
    assert phone.last.text == f"Не вижу.\n\n{say('unseen_story', language)}"


# Random updates


@pytest.mark.parametrize(("first", "count"), [
    (1, 25), *(pytest.param(n, 100, marks=pytest.mark.proof) for n in range(1, 2001, 100)),
])  # fmt: skip
async def test_random_valid_updates_are_answered_or_knowingly_silent(
    phone: Phone, first: int, count: int
) -> None:
    silent = ("ignored", "refused silently", "left to a later message", "stopped")
    chats = {USER}
    for number in range(first, first + count):
        update = draw_update(number)
        update["update_id"] = phone.fake.queue.next_update_id
        content = next(value for value in update.values() if isinstance(value, dict))
        content["message_id"] = phone.fake.state.new_message_id()
        chats.add(content["chat"]["id"])
        before = len(phone.fake.calls)
        await phone.fake.push_raw(update)
        for outcome in await phone.work():
            sent = [c for c in phone.fake.calls[before:] if c.method == "sendMessage"]
            assert sent or outcome in silent, (number, outcome, update)
    assert len(chats) == 2
    for chat in chats:
        await phone.fake.send_text(USER, f"{NAME} ты здесь?", chat_id=chat,
                                   chat_type="private" if chat > 0 else "supergroup")  # fmt: skip
        assert await phone.work() == ["done"] and phone.fake.sent_to(chat)
    assert phone.rig.rows("SELECT 1 FROM telegram_updates WHERE handled_at IS NULL") == []
