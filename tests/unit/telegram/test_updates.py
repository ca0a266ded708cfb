"""What ``classify`` makes of updates: kinds, addressing, places, and who is refused."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from aiogram.types import Update

from src.queue.update_repo import NewUpdate
from src.telegram.updates import (
    ALLOWED_UPDATES,
    AllowList,
    BotIdentity,
    classify,
    replied_message,
    with_question,
)
from tests.hostile_updates import (
    BOT_ID,
    BOT_NAME,
    GROUP,
    OURS,
    PHOTO,
    USER,
    VALID,
    Json,
    group,
    message,
    nested,
    person,
    private,
    update,
)

BOT = BotIdentity(BOT_ID, BOT_NAME)
EVERYBODY = AllowList()
OWNER = AllowList(frozenset({1}))
OWNER_AND_GROUP = AllowList(frozenset({1, GROUP}))


def read(raw: Any, access: AllowList = EVERYBODY) -> NewUpdate | None:
    return classify(raw, BOT, access)


def kept(raw: Any, access: AllowList = EVERYBODY) -> NewUpdate:
    found = read(raw, access)
    assert found is not None
    return found


def kind(**fields: Any) -> str | None:
    found = read(update(message=message(**fields)))
    return found.kind if found else None


def test_every_kind_that_telegram_is_asked_for_is_read() -> None:
    assert {field for raw in VALID for field in raw if field != "update_id"} == {*ALLOWED_UPDATES}


@pytest.mark.parametrize(("text", "expected"), [
    ("/new", "new"), ("/NEW", "new"), ("/stop сейчас", "stop"),
    (f"/new@{BOT_NAME.upper()}", "new"), ("/new@another_bot", None), ("/start", "command"),
    ("/nonsense", "command"), ("/newest", "command"), (" /new", "message"),
    ("как /new", "message"), ("/", "message"), ("/привет", "message"), ("/stop!", "stop"),
    ("/remember: ключ", "teach"), ("/NEW…", "new"), ("/help?!", "command"),
    ("/etc/hosts где?", "message"), ("/2.5 литра", "message"), ("/new:всё", "message"),
    ("👉 /new", "new"), ("➡️/stop🙏🏽", "stop"), ("\u200e/new", "new"), ("🤔 /dev/null", "message"),
    ("жми 👉 /new", "message"), ("«/new»", "message"),
])  # fmt: skip
def test_a_command_in_a_private_chat(text: str, expected: str | None) -> None:
    assert kind(text=text) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("болтовня", None), (f"@{BOT_NAME} что скажешь?", "message"), ("Помни, ты здесь?", "message"),
    (f"что скажешь, @{BOT_NAME.upper()}?", "message"), (f"@{BOT_NAME}2 что скажешь?", None),
    ("@another_bot что скажешь?", None), ("/new", "command"), ("/help", "command"),
    (f"/help@{BOT_NAME}", "command"), ("/help@another_bot", None), ("/weather", None),
    (f"/weather@{BOT_NAME}", "command"), ("/weather@another_bot", None),
    (f"@{BOT_NAME} /weather", "command"), (f"@{BOT_NAME.upper()}, /stop", "stop"),
    ("Помни, /remember ключ", "teach"), ("@another_bot /help", None),
    (f"info@{BOT_NAME}.example.org", None), (f"«@{BOT_NAME}»", "message"),
])  # fmt: skip
def test_in_a_group_only_what_is_addressed_to_us_is_kept(text: str, expected: str | None) -> None:
    assert kind(text=text, chat=group()) == expected
    assert kind(text=text, chat=group(-17, "group")) == expected


def test_a_reply_to_the_bot_in_a_group_is_addressed_to_it() -> None:
    stranger = message("чужое", chat=group(), **{"from": person(9, is_bot=True)})
    assert kind(text="да", chat=group(), reply_to_message=OURS) == "message"
    assert kind(text="да", chat=group(), reply_to_message=stranger) is None
    assert kind(photo=PHOTO, chat=group(), reply_to_message=OURS) == "message"
    opened = OURS | {"forum_topic_created": {"name": "Дом", "icon_color": 1}}
    assert kind(text="да", chat=group(), reply_to_message=opened) is None
    assert kind(photo=PHOTO, chat=group()) is None
    assert kind(text="/weather", chat=group(), reply_to_message=OURS) == "command"


def test_a_mention_of_the_bot_without_its_username_is_addressed_to_it() -> None:
    for user, expected in ((person(BOT_ID, is_bot=True), "message"), (person(9), None)):
        mention = {"type": "text_mention", "offset": 0, "length": 5, "user": user}
        assert kind(text="Мемо где обед?", entities=[mention], chat=group()) == expected


def test_content_newer_than_aiogram_is_kept_where_it_is_for_the_bot() -> None:
    assert kind(hologram={"file_id": "x"}) == "message"
    assert kind(hologram={"file_id": "x"}, chat=group()) is None
    assert kind(hologram={"file_id": "x"}, new_chat_title="Дом") is None
    assert kind() is None


ANONYMOUS_ADMIN = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
CHANNEL_BOT = {"id": 136817688, "is_bot": True, "first_name": "Channel"}


@pytest.mark.parametrize("cause", [person(), person(3), ANONYMOUS_ADMIN, CHANNEL_BOT, None])
@pytest.mark.parametrize(
    ("chat", "field", "other"),
    [(-17, "migrate_to_chat_id", GROUP), (GROUP, "migrate_from_chat_id", -17)],
)
def test_a_move_is_followed_whoever_caused_it_and_nothing_is_kept_of_him(
    cause: dict[str, Any] | None, chat: int, field: str, other: int
) -> None:
    raw = update(message=message(chat=group(chat, "group"), **{field: other, "from": cause}))
    if cause is None:
        del raw["message"]["from"]
    found = kept(raw, OWNER)
    where = {"message_id": 5, "date": 0, "chat": {"id": chat, "type": "supergroup"}}
    assert found.payload == {"update_id": 1000, "message": where | {field: other}}
    assert (found.kind, found.chat_id, found.user_id) == ("member", chat, None)


def test_what_is_no_move_of_a_group_moves_nothing() -> None:
    for chat, other in ((USER, GROUP), (-17, USER), (0, GROUP), (-17, 2**60), (-17, "?")):
        place = {"id": chat, "type": "group"}
        found = read(update(message=message(chat=place, migrate_to_chat_id=other)))
        assert found is None, (chat, other)


def test_a_reply_to_a_question_of_the_bot_is_its_answer() -> None:
    reply = kept(update(message=message(text="Рига", reply_to_message=OURS)))
    assert reply.kind == "message" and replied_message(reply, BOT) == (USER, OURS["message_id"])
    zone = with_question(reply, {"asks": "zone"})
    correction = with_question(reply, {"asks": "correction", "memory_id": 5})
    assert (zone.kind, correction.kind) == ("command", "teach")
    assert correction.payload.items() > reply.payload.items()
    place = kept(update(message=message(photo=PHOTO, reply_to_message=OURS)))
    assert with_question(place, {"asks": "zone"}).kind == "command"
    for other in (None, {**OURS, "from": person(9)}):
        told = kept(update(message=message(text="Рига", reply_to_message=other)))
        assert replied_message(told, BOT) is None


def test_a_topic_is_a_place_of_its_own_and_a_reply_thread_is_not() -> None:
    topic = {"message_thread_id": 3, "is_topic_message": True}
    assert kept(update(message=message("/new", chat=group(), **topic))).thread_id == 3
    assert kept(update(message=message("/new", **topic))).thread_id == 3
    thread = {"message_thread_id": 3}
    assert kept(update(message=message("/new", chat=group(), **thread))).thread_id == 0


@pytest.mark.parametrize(("data", "stopped"), [
    ("halt:77", 77), ("halt:", None), ("halt:7:7", None), ("halt:-7", None), ("done:77", None),
])  # fmt: skip
def test_the_stop_button_of_a_growing_answer_interrupts_that_answer(
    data: str, stopped: int | None
) -> None:
    message = {"message_id": 5, "date": 1, "chat": private(), "text": "нача"}
    query = {"id": "1", "from": person(), "message": message, "chat_instance": "1", "data": data}
    pressed = kept(update(callback_query=query))
    assert (pressed.draft_id, pressed.interrupts) == (stopped, stopped is not None)


def test_new_and_stop_interrupt_and_the_stop_button_names_its_draft() -> None:
    assert [kept(raw).interrupts for raw in VALID] == [
        raw.get("message", {}).get("text") in ("/new", "/stop")
        or "stopped_message_generation" in raw
        for raw in VALID
    ]
    pressed = kept(update(stopped_message_generation={"chat": private(), "draft_id": 77}))
    assert (pressed.draft_id, pressed.chat_id, pressed.user_id) == (77, USER, USER)


def test_ids_up_to_52_bits_are_taken_and_longer_ones_are_not() -> None:
    largest = 2**52
    found = kept(update(message=message("я", chat=private(largest), **{"from": person(largest)})))
    assert (found.chat_id, found.user_id) == (largest, largest)
    too_large = message("я", chat=private(largest + 1), **{"from": person(largest + 1)})
    assert read(update(message=too_large)) is None


def test_nul_and_lone_surrogates_are_replaced_everywhere() -> None:
    raw = update(message=message("до\x00\ud800после", caption_entities=[], **{"x\x00": "\udfff"}))
    found = kept(raw)
    assert found.payload["message"]["text"] == "до\ufffd\ufffdпосле"
    json.dumps(found.payload, ensure_ascii=False).encode()
    assert "\\u0000" not in json.dumps(found.payload)


def test_a_message_that_aiogram_cannot_read_keeps_its_essentials() -> None:
    broken: Json = {"entities": "?", "photo": 5, "reply_to_message": {"x": nested(30)}}
    odd_sender = person(first_name=7, username=[])
    found = kept(update(message=message("важное", **broken, **{"from": odd_sender})))
    assert (found.kind, found.user_id, found.message_id) == ("message", USER, 5)
    readable = Update.model_validate(found.payload)
    assert readable.message and readable.message.text == "важное"
    assert readable.message.from_user and readable.message.from_user.language_code == "ru"


SECRET = "СЕКРЕТ"
STRUCTURE = ("type", "status", "language_code")


def with_secret(value: Any, key: str = "") -> Any:
    """The value with the secret in every text that a person may choose."""
    if isinstance(value, dict):
        return {name: with_secret(entry, name) for name, entry in value.items()}
    if isinstance(value, list):
        return [with_secret(entry, key) for entry in value]
    return f"{value} {SECRET}" if isinstance(value, str) and key not in STRUCTURE else value


def test_nothing_that_a_stranger_wrote_is_kept() -> None:
    names = person(last_name="Л", username="anna")
    quoted = message("прежде", **{"from": names})
    extra = update(
        message=message(
            "привет",
            **{"from": names},
            entities=[{"type": "text_link", "offset": 0, "length": 6, "url": "https://a"}],
            reply_to_message=quoted,
            quote={"text": "прежде", "position": 0},
        )
    )
    refusals = [read(with_secret(raw), OWNER) for raw in (*VALID, extra)]
    found = [refusal for refusal in refusals if refusal is not None]
    assert {refusal.kind for refusal in found} == {"refused", "member"} and len(found) >= 5
    for one in found:
        one.payload.get("callback_query", {}).pop("id", None)  # Telegram's name of the tap
        assert SECRET not in json.dumps(asdict(one), ensure_ascii=False)
        one.payload.get("callback_query", {})["id"] = "1"
    told = [Update.model_validate(refusal.payload) for refusal in found]
    assert all(one.message or one.callback_query for one in told)
    assert not any(refusal.interrupts for refusal in found)


def test_an_allowed_person_and_everybody_in_an_allowed_group_are_served() -> None:
    assert (
        kept(update(message=message("привет", **{"from": person(1)})), OWNER_AND_GROUP).kind
        == "message"
    )
    addressed = message(f"@{BOT_NAME} привет", chat=group())
    assert kept(update(message=addressed), OWNER_AND_GROUP).kind == "message"
    elsewhere = message(f"@{BOT_NAME} привет", chat=group(-5, "group"))
    assert kept(update(message=elsewhere), OWNER_AND_GROUP).kind == "refused"


@pytest.mark.parametrize(("sender", "place"), [
    (ANONYMOUS_ADMIN, group()), (CHANNEL_BOT, {"id": -100777, "type": "channel", "title": "Кот"}),
])  # fmt: skip
def test_who_writes_as_a_chat_is_a_person_with_the_id_of_that_chat(
    sender: Json, place: Json
) -> None:
    text = message(f"@{BOT_NAME} hello", chat=group(), sender_chat=place, **{"from": sender})
    found = kept(update(message=text))
    assert (found.kind, found.chat_id, found.user_id) == ("message", GROUP, place["id"])
    broken = kept(update(message={**text, "entities": "?"}))
    assert (broken.kind, broken.user_id) == ("message", place["id"])
    assert kept(update(edited_message=text)).user_id == place["id"]
    assert (
        read(update(message={**text, "from": person(9, is_bot=True), "sender_chat": None})) is None
    )


def test_a_caption_is_read_like_a_text() -> None:
    for chat, name in ((private(), ""), (group(), f"@{BOT_NAME}")):
        photo = {"photo": PHOTO, "chat": chat}
        assert kind(caption=f"/remember{name} чек", **photo) == "teach"
        assert kind(caption=f"/remind{name} завтра", **photo) == "command"
        assert kind(caption=f"/stop{name}", **photo) == "stop"
    assert kind(caption="/remember@another_bot чек", photo=PHOTO, chat=group()) is None


def test_content_that_is_not_as_aiogram_knows_it_gets_an_answer() -> None:
    for content in ({"poll": {"id": "1"}}, {"venue": []}, {"sticker": {"emoji": "👍"}}):
        assert kind(**content) == "message"
    assert kind(pinned_message={"text": "x"}) is None


def test_a_forwarded_command_is_a_text() -> None:
    origin = {"type": "hidden_user", "date": 0, "sender_user_name": "Оля"}
    assert kind(text="/delete_me", forward_origin=origin) == "message"
    assert kind(text=f"/new@{BOT_NAME}", chat=group(), forward_origin=origin) == "message"
    assert kind(text="/new", chat=group(), forward_origin=origin) is None


def test_a_forward_whose_origin_is_newer_than_aiogram_stays_one() -> None:
    forward = message("/new", forward_origin={"type": "hologram", "date": 0})
    found = kept(update(message=forward | {"reply_to_message": forward}))
    assert found.kind == "message"
    for words in (found.payload["message"], found.payload["message"]["reply_to_message"]):
        assert words["forward_origin"]["type"] == "hidden_user"


def test_a_part_of_an_album_in_a_group_is_kept_until_another_names_the_bot() -> None:
    part = message(photo=PHOTO, chat=group(), media_group_id="7")
    assert kept(update(message=part)).media_group_id == "7"
    assert kept(update(message=part)).kind == "media"
    assert kept(update(message=part | {"caption": f"@{BOT_NAME} что это?"})).kind == "message"
    assert read(update(message=part), OWNER) is None, "a stranger is told nothing for it"


def test_a_button_under_a_message_too_old_to_read_is_still_taken() -> None:
    old = {"message_id": 5, "date": 0, "chat": private()}
    query = {"id": "1", "from": person(), "chat_instance": "1", "data": "x", "message": old}
    found = kept(update(callback_query=query))
    assert (found.kind, found.message_id, found.user_id) == ("callback", 5, person()["id"])


def test_every_valid_update_has_its_kind_and_is_kept_as_telegram_sent_it() -> None:
    found = [kept(raw) for raw in VALID]
    assert [one.kind for one in found] == [
        *("message", "new", "command", "message", "message", "stop", "message", "message"),
        *("member", "edit", "callback", "member", "other", "teach", "media", "other"),
    ]
    for one, raw in zip(found, VALID, strict=True):
        assert one.update_id == raw["update_id"]
        assert one.payload == raw or "migrate_to_chat_id" in raw["message"]


NOBODY = {name: value for name, value in message("привет").items() if name != "from"}


CHANNEL = {"id": -100, "type": "channel", "title": "Новости"}


@pytest.mark.parametrize("raw", [
    update(message=message("эхо", **{"from": person(BOT_ID, is_bot=True)})),
    update(edited_message=message("эхо", **{"from": person(9, is_bot=True)})),
    update(message=message(new_chat_title="Гостиная", chat=group())),
    update(message=message(pinned_message=OURS)), update(message=message()),
    update(channel_post=message("пост", chat=CHANNEL)),
    update(message=message("пост", chat=CHANNEL)), update(message=NOBODY),
    update(message=message(f"@{BOT_NAME} привет", chat={**group(), "is_direct_messages": True})),
    update(message=message("важное", date="вчера")),
    None, 5, "x", [], {}, {"update_id": True}, {"update_id": "5"},
])  # fmt: skip
def test_what_is_for_nobody_or_no_update_is_nothing(raw: Any) -> None:
    assert read(raw) is None


def test_a_stranger_s_edits_and_blocks_leave_no_trace_and_of_others_who_it_was() -> None:
    for raw in VALID:
        if "callback_query" in raw:
            tap = kept(raw, OWNER).payload["callback_query"]
            assert set(tap) == {"id", "from", "chat_instance"}
        elif "message" not in raw:
            assert read(raw, OWNER) is None
    found = kept(update(message=message("привет")), OWNER)
    sender = {"first_name": "-", "is_bot": False, "id": USER, "language_code": "ru"}
    expected = {"message_id": 5, "date": 0, "chat": {"id": USER, "type": "private"}}
    assert found.payload == {"update_id": 1000, "message": expected | {"from": sender}}
