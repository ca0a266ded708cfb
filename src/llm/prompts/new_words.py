"""What the user typed in the messages that are answered, beside the text that a model reads.

A language model reads the message as it is shown, with its labels and marks. The offline model
has no use for those: it takes the words from here. Providers are sent none of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from langchain_core.messages import BaseMessage, HumanMessage

from src.llm.prompts.time_label import strip_time_label

OWN_WORDS = "own_words"
ASKED_AT = "asked_at"
FILE_NAMES = "file_names"
LANGUAGE = "language"


class NewWords(TypedDict):
    """One message: its uid, what was typed, and whether by the one who is answered."""

    uid: str
    text: str
    is_asked: bool


def with_own_words(
    text: str,
    words: Sequence[NewWords],
    asked_at: datetime,
    *,
    files: Sequence[str] = (),
    language: str = "en",
) -> HumanMessage:
    """The message that is answered, as it is shown, the words in it, and when it is asked.

    Args:
        text: As it is shown.
        words: What was typed.
        asked_at: In a zone of pytz; labels tell the minute only, and no zone.
        files: Names of the files that were read with it.
        language: Of the sentences for its writer.
    """
    zone = getattr(asked_at.tzinfo, "zone", None) or "UTC"
    known = {
        OWN_WORDS: list(words),
        ASKED_AT: [asked_at.isoformat(), zone],
        FILE_NAMES: list(files),
        LANGUAGE: language,
    }
    return HumanMessage(text, additional_kwargs=known)


def language_of(messages: Sequence[BaseMessage]) -> str | None:
    """The language of the sentences for whoever wrote the last user message, if it is known."""
    asked = [message for message in messages if isinstance(message, HumanMessage)][-1:]
    return asked[0].additional_kwargs.get(LANGUAGE) if asked else None


def asked_at_of(messages: Sequence[BaseMessage]) -> tuple[datetime, str] | None:
    """When the last user message of a prompt is asked, and in which zone, if that is known."""
    asked = [message for message in messages if isinstance(message, HumanMessage)][-1:]
    known = asked[0].additional_kwargs.get(ASKED_AT) if asked else None
    return None if known is None else (datetime.fromisoformat(known[0]), str(known[1]))


def own_words_of(messages: Sequence[BaseMessage]) -> list[NewWords]:
    """The words of the last user message of a prompt; by default all that stands in it."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            words = message.additional_kwargs.get(OWN_WORDS)
            if words is not None:
                return list(words)
            return [NewWords(uid="", text=strip_time_label(str(message.text)), is_asked=True)]
    return []


def file_names_of(messages: Sequence[BaseMessage]) -> list[str]:
    """The files that were read with the last user message of a prompt."""
    asked = [message for message in messages if isinstance(message, HumanMessage)][-1:]
    return [str(name) for m in asked for name in m.additional_kwargs.get(FILE_NAMES, ())]
