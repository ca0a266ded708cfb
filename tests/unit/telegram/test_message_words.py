"""Words that Telegram keeps outside of a message's text, and the table of a message's fields."""

from __future__ import annotations

from typing import Any

import pytest
from aiogram.types import ExternalReplyInfo, Message, Update
from pydantic import BaseModel

from src.telegram.incoming import CONTENT, DESCRIBERS, UNSEEN, read_content
from src.telegram.updates import AllowList, BotIdentity, classify
from src.telegram.words import gather_words, part_of, rich_words
from src.texts import LANGUAGES, say
from tests.hostile_updates import (
    BOT_ID,
    BOT_NAME,
    OURS,
    PHOTO,
    Json,
    group,
    message,
    person,
    update,
)
from tests.valid_updates import BLOCKS, TEXTS, Drawer

URL = "https://example.org/a"
HIDDEN = {"type": "hidden_user", "date": 0, "sender_user_name": "Оля"}
LINK = {"type": "text_link", "offset": 0, "length": 5, "url": URL}


def link(offset: int, length: int, url: str = URL) -> Json:
    return {"type": "text_link", "offset": offset, "length": length, "url": url}


def received(**fields: Any) -> Message:
    """A message as the handlers get it."""
    found = classify(update(message=message(**fields)), BotIdentity(BOT_ID, BOT_NAME), AllowList())
    assert found is not None
    read = Update.model_validate(found.payload).message
    assert read is not None
    return read


# Addresses


@pytest.mark.parametrize(("text", "entities", "expected"), [
    ("здесь и там", [link(0, 5), link(8, 3, "tg://resolve?domain=x")],
     f"здесь ({URL}) и там (tg://resolve?domain=x)"),
    ("👋🏽 сюда", [link(5, 4)], f"👋🏽 сюда ({URL})"),
    ("example.org/a и всё", [link(0, 13, "example.org/a/")], "example.org/a и всё"),
    ("Анна", [link(0, 4, "tg://user?id=7")], "Анна"),
    ("ab", [link(0, 1, "https://1"), link(0, 2, "https://2")], "a (https://1)b (https://2)"),
    ("край", [link(2, 50)], f"край ({URL})"),
    ("сор", [link(-1, 2), {"type": "text_link"}, None, 5, link(0, 3, "")], "сор"),
])  # fmt: skip
def test_the_address_of_a_link_stands_behind_its_words(
    text: str, entities: list[Any], expected: str
) -> None:
    for field, its in (("text", "entities"), ("caption", "caption_entities")):
        assert gather_words({field: text, its: entities})[field] == expected
    answered = gather_words({"reply_to_message": {"text": text, "entities": entities}})
    assert answered["reply_to_message"]["text"] == expected


def test_a_mention_behind_a_link_still_names_its_person() -> None:
    mention = {"type": "text_mention", "offset": 6, "length": 4, "user": person(9)}
    read = received(text="здесь Анна", entities=[LINK, mention])
    [entity] = read.entities or []
    assert entity.extract_from(read.text or "") == "Анна"


def test_a_part_of_a_text_may_begin_or_end_within_a_character() -> None:
    assert part_of("я👋🏽!", 1, 4) == "👋🏽"
    assert part_of("👋", 1, 1) == part_of("👋", 0, 1) == "\ufffd"
    assert part_of("я", 5, 9) == ""


def test_url_buttons_of_a_forwarded_post_are_read() -> None:
    rows = [[{"text": "Купить", "url": URL}, {"text": "Нет", "callback_data": "no"}]]
    fields = {"forward_origin": HIDDEN, "reply_markup": {"inline_keyboard": rows}}
    assert received(text="Билеты", **fields).text == f"Билеты\nКупить ({URL})"
    assert received(photo=PHOTO, caption="Билеты", **fields).caption == f"Билеты\nКупить ({URL})"
    assert received(photo=PHOTO, **fields).text == f"Купить ({URL})"


# Rich messages


FILE = {"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1, "duration": 1}
WORDLESS = {"RichBlockDivider", "RichBlockAnchor", "RichTextAnchor", "RichBlockMap"}


@pytest.mark.parametrize("kind", [*TEXTS, *BLOCKS])
def test_every_kind_of_rich_text_and_block_is_read(kind: type[BaseModel]) -> None:
    raw = Drawer(1, rate=1.0, text="слова").model(kind)
    kind.model_validate(raw)
    assert kind.__name__ in WORDLESS or "слова" in rich_words(raw)


def test_a_rich_message_reads_like_a_page() -> None:
    blocks = [
        {"type": "heading", "size": 1, "text": ["Сбор ", {"type": "bold", "text": "денег"}]},
        {"type": "list", "items": [
            {"label": "1.", "blocks": [{"type": "paragraph", "text": "Коля"}]},
            {"label": "2.", "has_checkbox": True, "is_checked": True, "blocks": []}]},
        {"type": "table", "cells": [[cell("Имя"), cell("Сумма")], [cell("Оля"), cell("5")]]},
        {"type": "paragraph", "text": {"type": "url", "text": "сюда", "url": URL}},
        {"type": "divider"},
        {"type": "photo", "photo": PHOTO, "caption": {"text": "чек"}},
    ]  # fmt: skip
    read = received(rich_message={"blocks": blocks})
    expected = f"Сбор денег\n1. Коля\n✅ 2.\nИмя | Сумма\nОля | 5\nсюда ({URL})\nчек"
    assert read.text == expected and read.photo and read.rich_message is None


def cell(text: str) -> Json:
    return {"align": "left", "valign": "top", "text": text}


def test_a_block_that_aiogram_does_not_know_is_read_too() -> None:
    blocks = [{"type": "hologram", "text": "новое"}, {"type": "paragraph", "text": "старое"}]
    assert received(rich_message={"blocks": blocks}).text == "новое\nстарое"
    answered = received(text="что это?", reply_to_message=message(rich_message={"blocks": blocks}))
    assert answered.reply_to_message and answered.reply_to_message.text == "новое\nстарое"


def test_a_rich_message_in_a_group_is_for_the_bot_if_it_names_it() -> None:
    words = {"blocks": [{"type": "paragraph", "text": [f"@{BOT_NAME}", " глянь"]}]}
    assert received(rich_message=words, chat=group()).text == f"@{BOT_NAME} глянь"


# The table of fields


# The table. Fields in ``CONTENT`` are read, described, or told of in a sentence.
# These are words, or say whose they are and where they belong (``words``, ``incoming``):
READ = CONTENT | frozenset({
    "text", "entities", "caption", "caption_entities", "rich_message", "reply_markup", "quote",
    "reply_to_message", "external_reply", "forward_origin", "via_bot", "from_user", "sender_chat",
    "chat", "message_id", "date", "message_thread_id", "is_topic_message", "media_group_id",
    "migrate_to_chat_id", "migrate_from_chat_id", "reply_to_story", "reply_to_checklist_task_id",
    "reply_to_poll_option_id",
})  # fmt: skip
# These say how a message was sent or looks, or are events of a chat and services of Telegram:
IGNORED = frozenset({
    "author_signature", "boost_added", "business_connection_id", "channel_chat_created",
    "chat_background_set", "chat_owner_changed", "chat_owner_left", "chat_shared",
    "checklist_tasks_added", "checklist_tasks_done", "community_chat_added",
    "community_chat_joined", "community_chat_removed", "connected_website", "delete_chat_photo",
    "direct_message_price_changed", "direct_messages_topic", "edit_date", "effect_id",
    "ephemeral_message_id", "forum_topic_closed", "forum_topic_created", "forum_topic_edited",
    "forum_topic_reopened", "forward_date", "forward_from", "forward_from_chat",
    "forward_from_message_id", "forward_sender_name", "forward_signature",
    "general_forum_topic_hidden", "general_forum_topic_unhidden", "gift_upgrade_sent",
    "giveaway_completed", "giveaway_created", "group_chat_created", "guest_bot_caller_chat",
    "guest_bot_caller_user", "guest_query_id", "has_media_spoiler", "has_protected_content",
    "is_automatic_forward", "is_from_offline", "is_paid_post", "left_chat_member",
    "link_preview_options", "managed_bot_created", "message_auto_delete_timer_changed",
    "new_chat_members", "new_chat_photo", "new_chat_title", "paid_message_price_changed",
    "paid_star_count", "passport_data", "pinned_message", "poll_option_added",
    "poll_option_deleted", "proximity_alert_triggered", "receiver_user", "refunded_payment",
    "sender_boost_count", "sender_business_bot", "sender_tag", "show_caption_above_media",
    "successful_payment", "suggested_post_approval_failed", "suggested_post_approved",
    "suggested_post_declined", "suggested_post_info", "suggested_post_paid",
    "suggested_post_refunded", "supergroup_chat_created", "user_shared", "users_shared",
    "video_chat_ended", "video_chat_participants_invited", "video_chat_scheduled",
    "video_chat_started", "web_app_data", "write_access_allowed",
})  # fmt: skip


def test_every_field_of_a_message_is_read_told_or_knowingly_ignored() -> None:
    """An upgrade of aiogram brings new fields: each belongs into one of the sets."""
    assert set(Message.model_fields) == READ | IGNORED
    assert not READ & IGNORED
    more = {"origin", "message_id"}  # of ``replied_author_id``; where it stands
    assert set(ExternalReplyInfo.model_fields) <= READ | IGNORED | more


SAMPLES: Json = {
    "venue": {"location": {"latitude": 1, "longitude": 2}, "title": "Кафе", "address": "Сад"},
    "location": {"latitude": 50.45, "longitude": 30.52},
    "contact": {"phone_number": "+380", "first_name": "Оля"},
    "poll": {"id": "1", "question": "Куда?", "total_voter_count": 0, "is_closed": False,
             "is_anonymous": True, "type": "quiz", "allows_multiple_answers": False,
             "allows_revoting": False, "members_only": False, "correct_option_ids": [1],
             "explanation": "там тепло", "description": "Лето", "options": [
                 {"persistent_id": "a", "text": "Лес", "voter_count": 0},
                 {"persistent_id": "b", "text": "Море", "voter_count": 0}]},
    "checklist": {"title": "Дела", "tasks": [{"id": 1, "text": "Хлеб"}]},
    "sticker": {**FILE, "type": "regular", "is_animated": False, "is_video": False, "emoji": "🐈"},
    "dice": {"emoji": "🎲", "value": 5},
    "audio": {**FILE, "performer": "Моцарт", "title": "Реквием"},
    "game": {"title": "Змейка", "description": "ползёт", "photo": PHOTO},
    "invoice": {"title": "Чай", "description": "зелёный", "start_parameter": "s",
                "currency": "EUR", "total_amount": 500},
    "giveaway": {"chats": [], "winners_selection_date": 0, "winner_count": 3,
                 "prize_description": "велосипед"},
    "giveaway_winners": {"chat": group(), "giveaway_message_id": 1, "winners_selection_date": 0,
                         "winner_count": 1, "winners": [person()]},
    "gift": {"gift": {"id": "1", "star_count": 5, "sticker": {
        **FILE, "type": "regular", "is_animated": False, "is_video": False, "emoji": "🧸"}},
        "text": "с праздником"},
    "unique_gift": {"origin": "upgrade", "text": "тебе", "gift": {
        "gift_id": "1", "base_name": "b", "name": "Кубок", "number": 1,
        **{part: {"name": "m", "rarity_per_mille": 1, "sticker": {
            **FILE, "type": "regular", "is_animated": False, "is_video": False}}
           for part in ("model", "symbol")},
        "backdrop": {"name": "x", "rarity_per_mille": 1, "colors": {
            "center_color": 1, "edge_color": 1, "symbol_color": 1, "text_color": 1}}}},
    "story": {"chat": group(), "id": 1},
    "animation": FILE,
    "paid_media": {"star_count": 1, "paid_media": [{"type": "preview"}]},
}  # fmt: skip
SAID = {
    "venue": "Кафе, Сад", "location": "50.45000, 30.52000", "contact": "Оля, +380",
    "poll": "Море ✅", "checklist": "⬜ Хлеб", "sticker": "🐈", "dice": "🎲 5",
    "audio": "🎵 Моцарт — Реквием",
    "game": "ползёт", "invoice": "зелёный", "giveaway": "велосипед", "giveaway_winners": "Анна",
    "gift": "🧸 с праздником", "unique_gift": "Кубок тебе",
}  # fmt: skip


@pytest.mark.parametrize("field", sorted({*DESCRIBERS, *UNSEEN}))
def test_content_without_words_is_described_or_told_of(field: str) -> None:
    for language in LANGUAGES:
        content = read_content(received(**{field: SAMPLES[field]}), BOT_ID, language)
        if field in SAID:
            assert SAID[field] in content.text and not content.problem
        else:
            assert content.text == "" and content.problem == say(UNSEEN[field], language)


def test_a_sticker_without_an_emoji_is_told_of_and_a_caption_stays() -> None:
    mute = {name: value for name, value in SAMPLES["sticker"].items() if name != "emoji"}
    content = read_content(received(sticker=mute), BOT_ID, "en")
    assert (content.text, content.problem) == ("", say("unseen_sticker", "en"))
    content = read_content(received(animation=FILE, caption="смотри"), BOT_ID, "en")
    assert (content.text, content.problem) == ("смотри", say("unseen_animation", "en"))


@pytest.mark.parametrize(("fields", "key"), [
    ({"reply_to_message": message(animation=FILE)}, "unseen_animation"),
    ({"reply_to_story": SAMPLES["story"]}, "unseen_story"),
    ({"external_reply": {"origin": HIDDEN, "story": SAMPLES["story"]}}, "unseen_story"),
    ({"reply_to_message": message(sticker=SAMPLES["sticker"])}, ""),
    ({"reply_to_message": OURS | {"animation": FILE}}, ""),
])  # fmt: skip
def test_what_is_replied_to_and_cannot_be_seen_is_told_of(fields: Json, key: str) -> None:
    content = read_content(received(text="как тебе?", **fields), BOT_ID, "uk")
    assert (content.text, content.problem) == ("как тебе?", say(key, "uk") if key else "")


@pytest.mark.parametrize("text", ["\u200b", "\u3164 \u2800", "\u200f\ufe0f\u00ad"])
def test_a_text_that_nobody_can_see_is_no_text(text: str) -> None:
    content = read_content(received(text=text), BOT_ID, "ru")
    assert (content.text, content.problem) == ("", say("cannot_read", "ru"))


def test_an_event_of_a_chat_gets_no_answer() -> None:
    assert not CONTENT & IGNORED
    for fields in ({"new_chat_title": "Дом"}, {"pinned_message": message("эй")}):
        bot = BotIdentity(BOT_ID, BOT_NAME)
        assert classify(update(message=message(**fields)), bot, AllowList()) is None
