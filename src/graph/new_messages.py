"""What was said since the last answer: several messages, when they came one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from src.gate.voices import TYPED, UNKNOWN, Voice
from src.llm.prompts.new_words import NewWords
from src.llm.prompts.time_label import split_time_label
from src.storage.conversation_repo import HistoryMessage


def new_messages(history: Sequence[HistoryMessage]) -> tuple[HistoryMessage, ...]:
    """The messages that the next answer answers, oldest first; the last of the history ends them.

    One whose answer was stopped or given up is not asked any more.
    """
    found: list[HistoryMessage] = []
    for entry in reversed(history):
        if entry["role"] != "user":
            break
        if not found or entry.get("is_open", True):
            found.append(entry)
    return tuple(reversed(found))


def voice_of(entry: HistoryMessage) -> Voice:
    """Whose words a message holds."""
    return entry.get("voice", TYPED)


def text_of(entry: HistoryMessage) -> str:
    """What a message says, without the label that the program wrote before it."""
    return split_time_label(entry["content"])[1]


def shown(entry: HistoryMessage) -> str:
    """A user's message as the model reads it in the history."""
    label, text = split_time_label(entry["content"])
    return f"{label}{voice_of(entry).shown(text)}"


def record(entry: HistoryMessage, limit: int | None = None) -> dict[str, Any]:
    """A message in a block of data, at most ``limit`` characters of it."""
    fields = voice_of(entry).fields() if entry["role"] == "user" else {}
    uid = {"uid": f"msg-{entry['id']}"} if limit is None else {}
    return {**uid, "role": entry["role"], **fields, "text": text_of(entry)[:limit]}


def own_words(messages: Sequence[HistoryMessage]) -> list[NewWords]:
    """What was typed in new messages by those who sent them, and may be remembered.

    The last message counts whatever it asks; an earlier one that is private stays out.
    """
    asker = messages[-1].get("sender_id") if messages else None
    return [
        NewWords(
            uid=f"msg-{entry['id']}", text=text_of(entry), is_asked=entry.get("sender_id") == asker
        )
        for entry in messages
        if voice_of(entry).is_own and (entry is messages[-1] or not voice_of(entry).is_private)
    ]


def file_names(messages: Sequence[HistoryMessage]) -> list[str]:
    """What the files are called that were read with new messages."""
    voices = map(voice_of, messages)
    return [voice.origin or UNKNOWN for voice in voices if voice.provenance == "file"]


def asked_text(messages: Sequence[HistoryMessage], default: str) -> str:
    """What the one who is answered typed himself; ``default`` when that is nothing."""
    texts = [words["text"] for words in own_words(messages) if words["is_asked"]]
    return "\n".join(texts) or default
