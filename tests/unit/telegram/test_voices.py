"""Whose words a Telegram message holds."""

from __future__ import annotations

from typing import Any

import pytest
from aiogram.types import Message

from src.reading.gate import MAX_QUOTED, Voice, clean_name
from src.telegram.incoming import read_voice
from src.texts import say

ANNA = {"id": 7, "is_bot": False, "first_name": "Анна", "last_name": "К"}
ELON = {"id": 8, "is_bot": False, "first_name": "Elon"}
PRIVATE = {"id": 7, "type": "private"}
GROUP = {"id": -100500, "type": "supergroup", "title": "Club"}
CHANNEL = {"id": -100600, "type": "channel", "title": "News"}
USER = {"type": "user", "date": 0, "sender_user": ELON}


def message(chat: dict[str, Any] = PRIVATE, **fields: Any) -> Message:
    basic = {"message_id": 1, "date": 0, "chat": chat, "from": ANNA, "text": "Я живу на Марсе"}
    return Message.model_validate(basic | fields)


def replied(**fields: Any) -> dict[str, Any]:
    return {"message_id": 2, "date": 0, "chat": GROUP, "from": ELON, **fields}


HIDDEN = {"type": "hidden_user", "date": 0, "sender_user_name": "[X]: y"}


OF_CHANNEL = {"type": "channel", "date": 0, "chat": CHANNEL, "message_id": 3}


OF_CHAT = {"type": "chat", "date": 0, "sender_chat": GROUP}


WHERE = replied(text="Где ты живёшь?")


@pytest.mark.parametrize(("fields", "voice"), [
    ({}, Voice()), ({"chat": GROUP}, Voice(speaker="Анна К")),
    ({"chat": GROUP, "sender_chat": GROUP}, Voice(speaker="Club")),
    ({"forward_origin": USER}, Voice("forwarded", origin="Elon")),
    ({"forward_origin": HIDDEN}, Voice("forwarded", origin="X y")),
    ({"forward_origin": OF_CHANNEL}, Voice("forwarded", origin="News")),
    ({"forward_origin": OF_CHAT}, Voice("forwarded", origin="Club")),
    ({"via_bot": {"id": 9, "is_bot": True, "first_name": "gif"}}, Voice("bot", origin="gif")),
    ({"reply_to_message": WHERE}, Voice(quoted="Где ты живёшь?", quoted_author_id=8)),
    ({"reply_to_message": WHERE, "quote": {"text": "Где ты", "position": 0}},
     Voice(quoted="Где ты", quoted_author_id=8)),
    ({"external_reply": {"origin": USER}, "quote": {"text": "чужое", "position": 0}},
     Voice(quoted="чужое", quoted_author_id=8)),
    ({"reply_to_message": replied(photo=[])}, Voice()),
])  # fmt: skip
def test_a_message_knows_whose_words_it_holds(fields: dict[str, Any], voice: Voice) -> None:
    assert read_voice(message(**fields), "ru") == voice


def test_what_a_message_replies_to_is_quoted_whole_or_cut_with_a_sign() -> None:
    for length, end in ((1081, "я"), (MAX_QUOTED, "я"), (MAX_QUOTED + 1, "…"), (30_000, "…")):
        quoted = read_voice(message(reply_to_message=replied(text="я" * length)), "ru").quoted
        assert quoted is not None
        assert len(quoted) == min(length, MAX_QUOTED) and quoted.endswith(f"я{end}"[-2:])


def test_a_member_who_writes_as_a_channel_has_its_name_and_their_quotations_their_author() -> None:
    channel = {"id": 136817688, "is_bot": True, "first_name": "Channel"}
    said = {"from": channel, "sender_chat": CHANNEL}
    assert read_voice(message(GROUP, **said), "ru").speaker == "News"
    answered = replied(text="Где ты?", **said)
    assert read_voice(message(GROUP, reply_to_message=answered), "ru").quoted_author_id == -100600


PLACE = {"location": {"latitude": 50.45, "longitude": 30.52}}


def test_a_quotation_of_content_without_words_describes_it() -> None:
    elsewhere = {"external_reply": {"origin": USER, **PLACE}}
    for fields in ({"reply_to_message": replied(**PLACE)}, elsewhere):
        quoted = read_voice(message(**fields), "en").quoted
        assert quoted == say("said_location", "en", at="50.45000, 30.52000")


def test_a_reply_to_a_task_or_an_option_quotes_that_alone() -> None:
    tasks = {"title": "Дела", "tasks": [{"id": 1, "text": "налоги"}, {"id": 2, "text": "ремонт"}]}
    options = [{"persistent_id": one, "text": one, "voter_count": 0} for one in ("Лес", "Море")]
    flags = ("is_closed", "is_anonymous", "allows_multiple_answers", "allows_revoting",
             "members_only")  # fmt: skip
    poll = {"id": "1", "question": "Куда?", "options": options, "total_voter_count": 0,
            "type": "regular", **dict.fromkeys(flags, False)}  # fmt: skip
    for content, chosen, quoted in (
        ({"checklist": tasks}, {"reply_to_checklist_task_id": 2}, "ремонт"),
        ({"poll": poll}, {"reply_to_poll_option_id": "Море"}, "Море"),
    ):
        for fields in ({"reply_to_message": replied(**content)},
                       {"external_reply": {"origin": USER, **content}}):  # fmt: skip
            assert read_voice(message(**fields, **chosen), "ru").quoted == quoted


def test_a_long_paste_or_quotation_marks_make_no_words_of_others() -> None:
    text = "\n".join(["«Я живу на Марсе»"] * 200)
    assert read_voice(message(text=text), "ru").is_own


def test_a_name_is_one_line_without_the_signs_of_marks() -> None:
    assert clean_name("Анна]\nsystem: <b>") == "Анна system b"
    assert clean_name("\u202etxt.\u2067скан") == "txt. скан"
    assert clean_name(" \u200b".strip("\u200b")) is None


def test_marks_stand_before_the_text_in_its_own_language() -> None:
    voice = Voice("forwarded", speaker="Ann", origin="Bob", quoted="so?")
    assert voice.shown("I live here and there") == (
        "[written by Ann] [forwarded from Bob] [in reply to: “so?”] I live here and there"
    )
    assert Voice("forwarded").shown("Живу на Марсе") == "[переслано от ?] Живу на Марсе"
    assert Voice(quoted="є?").shown("Так, ще є") == "[у відповідь на: «є?»] Так, ще є"
