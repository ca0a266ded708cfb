"""A person's words and names are taken out of the updates of others, which stay readable."""

from __future__ import annotations

import json
from typing import Any

from aiogram.types import Update

from src.privacy.payload_words import find_names, redact_person
from tests.cases import for_each

ANNA, BORIS, OLEG, BOT, ROOM = 2**41 + 1, 2**41 + 2, 2**41 + 3, 555, -1_000_000_000_777
NAMES = {"qzAnna", "qzLast", "qzuser", "qzAnna qzLast"}
Json = dict[str, Any]


def user(id_: int, name: str = "Имя", **fields: Any) -> Json:
    return {"id": id_, "is_bot": id_ == BOT, "first_name": name, **fields}


HER = user(ANNA, "qzAnna", last_name="qzLast", username="qzuser", language_code="ru")


def message(sender: Json, text: str | None = "моё", **fields: Any) -> Json:
    chat = {"id": ROOM, "type": "supergroup", "title": "Кухня"}
    made = {"message_id": 5, "date": 1700000000, "chat": chat, "from": sender, **fields}
    return made if text is None else made | {"text": text}


def update(**fields: Any) -> Json:
    return {"update_id": 9, "message": message(user(BORIS), **fields)}


def left_of(payload: Json, *, in_room: bool = True) -> Json | None:
    left = redact_person(payload, ANNA, NAMES, in_room=in_room)
    if left is not None:
        Update.model_validate(left)
    return left


HERS = message(HER, "qzsaid")
TOLD = message(user(BOT), "Анне: qzanswer", reply_to_message=HERS)
PHOTO = [{"file_id": "1", "file_unique_id": "1", "width": 1, "height": 1}]
HOLD: dict[str, Json] = {
    "her message": {"reply_to_message": HERS},
    "a part of it": {"reply_to_message": HERS, "quote": {"text": "qzsaid", "position": 0}},
    "the answer to her": {"reply_to_message": TOLD},
    "a message that forwards her": {
        "reply_to_message": message(user(OLEG), "qzsaid", forward_origin={
            "type": "user", "date": 1, "sender_user": HER})},
    "a reply from another chat": {"external_reply": {
        "origin": {"type": "user", "date": 1, "sender_user": HER}, "message_id": 1},
        "quote": {"text": "qzsaid", "position": 0}},
    "her hidden reply": {"external_reply": {
        "origin": {"type": "hidden_user", "date": 1, "sender_user_name": "qzAnna qzLast"}}},
    "her name": {"text": "спроси qzAnna об этом", "entities": [
        {"type": "text_mention", "offset": 7, "length": 6, "user": HER}]},
    "her user name": {"text": "😀 спроси @qzuser об этом", "entities": [
        {"type": "mention", "offset": 10, "length": 7}]},
    "her name under a picture": {"text": None, "photo": PHOTO, "caption": "это qzAnna",
        "caption_entities": [{"type": "text_mention", "offset": 4, "length": 6, "user": HER}]},
    "her number": {"text": None, "contact": {
        "phone_number": "qz380", "first_name": "qzAnna", "user_id": ANNA, "vcard": "qzcard"}},
    "her coming": {"text": None, "new_chat_members": [HER, user(OLEG, "Олег")]},
    "her going": {"text": None, "left_chat_member": HER},
    "her pinned message": {"text": None, "pinned_message": HERS},
}  # fmt: skip


@for_each("name", HOLD)
def test_nothing_of_hers_is_left_and_the_rest_is(name: str) -> None:
    payload = update(**HOLD[name])
    left = left_of(payload)
    assert left is not None
    text = json.dumps(left, ensure_ascii=False)
    assert "qz" not in text and str(ANNA) not in text
    assert left["message"]["from"] == user(BORIS) and left["message"]["chat"]["title"] == "Кухня"
    assert len(left["message"].get("text") or "") == len(payload["message"].get("text") or "")


def test_other_entities_keep_their_places() -> None:
    bold = {"type": "bold", "offset": 14, "length": 5}
    mention = {"type": "text_mention", "offset": 7, "length": 6, "user": HER}
    left = left_of(update(text="спроси qzAnna сразу", entities=[mention, bold]))
    assert left is not None
    assert left["message"]["text"] == "спроси ……………… сразу"
    assert left["message"]["entities"][1] == bold


def test_a_button_is_pressed_without_the_answer_under_which_it_stands() -> None:
    keyboard = {"inline_keyboard": [[{"text": "[1]", "callback_data": "source:msg-1"}]]}
    query = {
        "id": "1",
        "from": user(BORIS),
        "chat_instance": "1",
        "data": "source:msg-1",
        "message": TOLD | {"reply_markup": keyboard},
    }
    left = left_of({"update_id": 9, "callback_query": query})
    assert left is not None and "qz" not in json.dumps(left)
    assert left["callback_query"]["message"]["reply_markup"] == keyboard
    assert left["callback_query"]["data"] == "source:msg-1"


@for_each("origin", [
    {"type": "user", "date": 1, "sender_user": HER},
    {"type": "hidden_user", "date": 1, "sender_user_name": "qzAnna qzLast"},
    {"type": "chat", "date": 1, "sender_chat": {"id": ANNA, "type": "supergroup"}},
])  # fmt: skip
def test_of_her_message_that_somebody_forwarded_nothing_is_left(origin: Json) -> None:
    assert left_of(update(text="qzsaid", forward_origin=origin), in_room=False) is None


@for_each(
    "fields",
    [
        {"reply_to_message": message(user(OLEG, "Олег"), "олегово")},
        {"text": "спроси Олега", "entities": [
            {"type": "text_mention", "offset": 7, "length": 5, "user": user(OLEG)}]},
        {"text": "олегово", "forward_origin": {
            "type": "user", "date": 1, "sender_user": user(OLEG)}},
        {"text": "@other", "entities": [{"type": "mention", "offset": 0, "length": 6}]},
        {"text": "текст", "entities": ["?", {"type": "bold"}, {"offset": -1, "length": 2}]},
    ],
)  # fmt: skip
def test_what_is_of_others_stays_as_it_is(fields: Json) -> None:
    payload = update(**fields)
    assert redact_person(payload, ANNA, NAMES, in_room=True) == payload


def test_outside_her_chats_the_bot_s_own_messages_are_quoted_as_before() -> None:
    payload = update(reply_to_message=message(user(BOT), "ответ"))
    assert left_of(payload, in_room=False) == payload
    assert left_of(payload, in_room=True) == update()


def test_names_are_what_objects_that_stand_for_her_call_her() -> None:
    payloads = [update(**fields) for fields in HOLD.values()]
    assert set(find_names(payloads, ANNA)) == NAMES
    assert set(find_names(payloads, OLEG)) == {"Олег", "Имя"}
    group = update(sender_chat={"id": ROOM, "type": "supergroup", "title": "Кухня"})
    assert set(find_names(group, ROOM)) == {"Кухня"}
