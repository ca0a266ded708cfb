"""Messages of strangers, of the kinds that other bots were reported to fail on."""

from __future__ import annotations

from typing import Any

import pytest

from src.base.config import OFFLINE_MODEL
from src.base.errors import DeliveryRefusedError, PlaceLostError
from src.texts import Language, say
from tests.fakes.telegram_people import Sender, command_entities, user
from tests.integration.phone import STRANGER, USER, Phone, labels
from tests.integration.reminding import (
    arrive,
)

pytestmark = pytest.mark.core(transcription_model="whisper-1")
NAME, KEY = "@pomni_test_bot", "Ключ под ковриком"
GROUP, TOPIC, OTHER = -1_001_234_567_811, 15, 16
URL, SPEECH, CAT, LEASE = "https://shop.example/sale?id=7", "Дочь — Вера", "Кот.", "Аренда до мая"
IN_GROUP = Sender(chat_id=GROUP, chat_type="supergroup")
IN_TOPIC, PRIVATE = Sender(IN_GROUP, thread_id=TOPIC), Sender(chat_id=USER)
CHANNEL = {"type": "channel", "date": 0, "message_id": 3,
           "chat": {"id": -100600, "type": "channel", "title": "News"}}  # fmt: skip
PERSON = {"type": "hidden_user", "date": 0, "sender_user_name": "Оля"}
ANONYMOUS = {"from": {"id": 1087968824, "is_bot": True, "first_name": "Group"},
             "sender_chat": {"id": GROUP, "type": "supergroup", "title": "Дом"}}  # fmt: skip
AS_CHANNEL = {"from": {"id": 136817688, "is_bot": True, "first_name": "Channel"},
              "sender_chat": {"id": -100888, "type": "channel", "title": "Новости"}}  # fmt: skip
PHOTO = [{"file_id": "photo", "file_unique_id": "p", "width": 1280, "height": 900}]


@pytest.fixture
async def phone(phone: Phone) -> Phone:
    phone.fake.state.files |= {
        "ogg": b"OggS\0\2" + SPEECH.encode(), "m4a": b"\0\0\0\x20ftypM4A " + SPEECH.encode(),
        "mp4": b"\0\0\0\x18ftypmp42" + SPEECH.encode(), "photo": b"\xff\xd8\xff\xe0 x",
        "text": LEASE.encode(),
    }  # fmt: skip
    return phone


async def edit(phone: Phone, message: int, **changes: Any) -> list[str]:
    """Edit a message in the group."""
    edited = phone.fake.state.messages[GROUP, message] | changes | {"edit_date": 5}
    phone.fake.queue.add("edited_message", edited)
    return await phone.work()


def asked(phone: Phone) -> str:
    """The last prompt."""
    return str(phone.rig.model.requests[-1].messages)


def in_group(phone: Phone) -> list[str]:
    return [message.text for message in phone.fake.sent_to(GROUP)]


def file(name: str, **more: Any) -> dict[str, Any]:
    return {"file_id": name, "file_unique_id": name, "duration": 3, **more}


def link(words: str, text: str) -> list[dict[str, Any]]:
    return [{"type": "text_link", "offset": text.index(words), "length": len(words), "url": URL}]


def command(words: str, **content: Any) -> dict[str, Any]:
    return {**content, "caption": words, "caption_entities": command_entities(words)}


def reply(**content: Any) -> dict[str, Any]:
    """A question in the group about a message of another member."""
    chat = {"id": GROUP, "type": "supergroup", "title": "Дом"}
    answered = {"message_id": 999, "date": 0, "chat": chat, "from": user(STRANGER), **content}
    return {"text": f"{NAME} что это?", "reply_to_message": answered, **IN_GROUP}


def poll(question: str, *options: str, **more: Any) -> dict[str, Any]:
    votes = [{"persistent_id": one, "text": one, "voter_count": 1} for one in options]
    flags = ("is_closed", "is_anonymous", "allows_multiple_answers", "allows_revoting",
             "members_only")  # fmt: skip
    return {"id": "1", "question": question, "options": votes, "total_voter_count": 2,
            "type": "quiz", **dict.fromkeys(flags, False), **more}  # fmt: skip


def para(text: Any) -> dict[str, Any]:
    return {"type": "paragraph", "text": text}


STICKER = file("s", type="regular", width=1, height=1, is_animated=False, is_video=False,
               emoji="🦊")  # fmt: skip
VENUE = {"location": {"latitude": 50.45, "longitude": 30.52}, "title": "Рух", "address": "Подол"}


# Places


@pytest.mark.parametrize("is_known", [True, False])
async def test_an_answer_that_a_group_refuses_comes_in_private(
    phone: Phone, is_known: bool
) -> None:
    reason = "CHAT_WRITE_FORBIDDEN" if is_known else "NEW_REASON_OF_2027"
    phone.fake.refuse_sends(GROUP, 403, f"Forbidden: {reason}")
    for sender in (ANONYMOUS, AS_CHANNEL):
        with pytest.raises(PlaceLostError if is_known else DeliveryRefusedError):
            await phone.send(text=f"{NAME} тайна?", **sender, **IN_GROUP)
        phone.rig.client.execute("DELETE FROM telegram_updates")
    assert {call.params["chat_id"] for call in phone.fake.calls_of("sendMessage")} == {GROUP}
    await phone.send(text=f"{NAME} как дела?", **IN_GROUP)
    [told] = phone.fake.sent_to(USER)
    assert told.text == f"{say('place_mute_group', 'ru')}\n\nэхо: как дела?"
    phone.fake.allow_sends(GROUP)
    await phone.send(text=f"{NAME} а теперь?", **IN_GROUP)
    assert in_group(phone) == ["эхо: а теперь?"]


# Words


async def test_addresses_of_quotes_edits_and_facts_are_read(phone: Phone) -> None:
    quote = {"text": "вот тут", "position": 0, "entities": link("тут", "вот тут")}
    await phone.send(text="что это?", external_reply={"origin": CHANNEL}, quote=quote)
    assert URL in asked(phone)
    message = await phone.fake.send_text(USER, f"{NAME} смотри", **IN_GROUP)
    await phone.work()
    text = f"{NAME} смотри тут"
    await edit(phone, message, text=text, entities=link("тут", text))
    assert URL in asked(phone)
    text = "/remember Магазин тут"
    await phone.send(text=text, entities=[*command_entities(text), *link("тут", text)])
    assert phone.facts() == [f"Магазин тут ({URL})"]


async def test_a_rich_message_names_the_bot_teaches_and_shows_pictures(phone: Phone) -> None:
    mention = {"type": "mention", "text": NAME, "username": NAME[1:]}
    await phone.send(rich_message={"blocks": [para([mention, " где обед?"])]}, **IN_GROUP)
    message = await phone.fake.send_message(
        USER, rich_message={"blocks": [para("где ужин?")]}, **IN_GROUP
    )
    await phone.work()
    await edit(phone, message, rich_message={"blocks": [para(f"{NAME} где ужин?")]})
    assert in_group(phone) == ["эхо: где обед?", "эхо: где ужин?"]
    order = {"type": "bot_command", "text": "/remember", "bot_command": "/remember"}
    await phone.send(rich_message={"blocks": [para([order, f" {KEY}"])]})
    assert phone.facts() == [KEY]
    phone.rig.model.queue(CAT)
    picture = {"type": "photo", "photo": PHOTO, "caption": {"text": "утро"}}
    await phone.send(**reply(rich_message={"blocks": [para("Вид"), picture]}))
    assert all(words in asked(phone) for words in ("Вид", "утро", CAT))


# What is replied to, in the group or elsewhere


@pytest.mark.parametrize("place", ["group", "elsewhere"])
@pytest.mark.parametrize(("content", "words"), [
    ({"photo": PHOTO}, CAT), ({"document": file("photo", file_name="a.jpg")}, CAT),
    ({"document": file("text", file_name="договор.md")}, LEASE), ({"voice": file("ogg")}, SPEECH),
    ({"video_note": file("m4a", length=240)}, SPEECH), ({"sticker": STICKER}, "🦊"),
    ({"poll": poll("Куда?", "Во Львов")}, "Во Львов"), ({"venue": VENUE}, "Рух"),
])  # fmt: skip
async def test_what_is_replied_to_is_read(
    phone: Phone, content: dict[str, Any], words: str, place: str
) -> None:
    if words == CAT:
        phone.rig.model.queue(CAT)
    question = {"text": "что это?", "external_reply": {"origin": PERSON, **content}}
    await phone.send(**(reply(**content) if place == "group" else question))
    assert words in asked(phone) and phone.facts() == []


@pytest.mark.parametrize("words", [NAME, f"{NAME}?", f"{NAME} 👆"])
async def test_the_name_alone_asks_about_what_it_replies_to(phone: Phone, words: str) -> None:
    for content, expected in (({"photo": PHOTO}, CAT), ({"text": LEASE}, LEASE)):
        if expected == CAT:
            phone.rig.model.queue(CAT)
        await phone.send(**{**reply(**content), "text": words})
        assert expected in asked(phone)


# Albums and commands in captions


async def test_an_album_or_voice_that_replies_to_the_bot_is_heard(phone: Phone) -> None:
    await phone.send(text=f"{NAME} покажи", **IN_GROUP)
    [mine] = phone.fake.sent_to(GROUP)
    phone.rig.model.queue("Кухня.", "Спальня.", "Хорошо.")
    for _ in range(2):
        album = {"photo": PHOTO, "media_group_id": "r", "reply_to": mine.message_id}
        await phone.fake.send_message(USER, **album, **IN_GROUP)
    await phone.work()
    assert in_group(phone)[1:] == ["Хорошо."]
    assert "Кухня." in asked(phone) and "Спальня." in asked(phone)
    await phone.send(voice=file("ogg"), reply_to=mine.message_id, **IN_GROUP)
    assert SPEECH in asked(phone)


@pytest.mark.parametrize(("content", "place", "order"), [
    ({"photo": PHOTO}, IN_GROUP, f"/remember{NAME}"),
    ({"document": file("text", file_name="x.txt")}, IN_TOPIC, f"/remember{NAME}"),
    ({"document": file("text", file_name="x.txt")}, PRIVATE, "/remember"),
    ({"video": file("mp4", width=1, height=1)}, PRIVATE, "/remember"),
    ({"voice": file("ogg")}, PRIVATE, "/remember"),
    ({"animation": file("mp4", width=1, height=1)}, IN_GROUP, f"/remember{NAME.upper()}"),
    ({"photo": PHOTO, "media_group_id": "k"}, IN_GROUP, f"/remember{NAME}"),
])  # fmt: skip
async def test_a_command_in_a_caption_runs(
    phone: Phone, content: dict[str, Any], place: Sender, order: str
) -> None:
    phone.rig.model.queue(CAT)
    await phone.send(**command(f"{order} {KEY}", **content), **place)
    [(fact,)] = phone.rig.rows("SELECT text FROM facts")
    assert fact.startswith(KEY)
    before = len(phone.fake.sent)
    await phone.send(**command(f"/remember@other_bot {KEY}", photo=PHOTO), **IN_GROUP)
    assert len(phone.fake.sent) == before and len(phone.rig.rows("SELECT 1 FROM facts")) == 1


# Edits, and members in disguise


@pytest.mark.parametrize(("before", "after", "told"), [
    ("где обед?", f"{NAME} где обед? {NAME}", "эхо: где обед?"),
    ("где обед?", "Помни, где обед?", "эхо: где обед?"), ("где?", f"{NAME}2 где?", None),
    ("где?", "Помни о маме", None), ("help", f"/help{NAME}", ""),
    ("help", "/help@other_bot", None), ("ключ", f"/remember{NAME} {KEY}", KEY),
])  # fmt: skip
async def test_an_edit_that_names_the_bot_is_heard(
    phone: Phone, before: str, after: str, told: str | None
) -> None:
    message = await phone.fake.send_text(USER, before, **IN_TOPIC)
    await phone.work()
    for text in (after, after, f"/help{NAME}"):  # the others say nothing new
        if told is not None or text == after:
            await edit(phone, message, text=text)
        assert len(in_group(phone)) == (told is not None)
    assert told is None or told in in_group(phone)[0]


@pytest.mark.parametrize("content", [
    {"voice": file("ogg")}, {"document": file("m4a", file_name="a.m4a")},
])  # fmt: skip
async def test_an_edited_caption_keeps_what_its_recording_says(
    phone: Phone, content: dict[str, Any]
) -> None:
    message = await phone.fake.send_message(USER, **content, caption=f"{NAME} кто?", **IN_GROUP)
    await phone.work()
    assert await edit(phone, message, caption=f"{NAME} кто это?") == ["done"]
    [told] = in_group(phone)
    assert SPEECH in told and "кто это?" in told
    unheard = await phone.fake.send_message(USER, **content, caption="тайна", **IN_GROUP)
    await phone.work()
    heard = len(phone.rig.model.transcribed)
    assert await edit(phone, unheard, caption="иначе") == ["ignored"]
    assert len(phone.rig.model.transcribed) == heard


async def test_an_anonymous_admin_has_rights_and_goes_on_by_replies(phone: Phone) -> None:
    order = f"/settings{NAME}"
    await phone.send(text=order, entities=command_entities(order), **ANONYMOUS, **IN_GROUP)
    [shown] = phone.fake.sent_to(GROUP)
    assert shown.text != say("only_admins", "ru")
    await phone.send(text="а ещё?", reply_to=shown.message_id, **ANONYMOUS, **IN_GROUP)
    assert in_group(phone)[1:] == ["эхо: а ещё?"]


# Languages


@pytest.mark.core(llm_model=OFFLINE_MODEL)
@pytest.mark.parametrize(("text", "language"), [
    ("нагадай завтра о 9 🎂🎂 торт", "uk"), ("remind me tomorrow at 9 to bake 🎂🎂", "en"),
])  # fmt: skip
async def test_a_reminder_keeps_the_language_in_which_it_was_set(
    phone: Phone, text: str, language: Language
) -> None:
    await phone.write(text)
    assert say("reminder_cancel_button", language) in labels(phone.last)
    assert "date_time" in [one["type"] for one in phone.last.entities]
    [reminder] = phone.rig.core.reminders.rows.list_waiting(phone.owner, limit=9)
    assert say("later_hour", language) in labels(await arrive(phone, reminder))
