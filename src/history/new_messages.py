"""What was said since the last answer, and the time label of user messages.

Several messages, when they came one after the other; what the user typed in them stands beside
the text that a model reads.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict

from langchain_core.messages import BaseMessage, HumanMessage

from src.base.zones import in_zone, local_time
from src.history.conversation_repo import HistoryMessage
from src.reading.voices import TYPED, UNKNOWN, Voice

# The time label of user messages, and its removal from what the model writes.
#
# Every user message is stored and shown to the model as ``[Текущее время: YYYY-MM-DD HH:MM] text``
# (the label is literal, whatever the user's language). Models sometimes copy the label into their
# answers; it is taken out there, also while the answer streams.

LABEL_START = "[Текущее время:"
# As the program itself writes it; what follows may imitate it.
OWN_LABEL = re.compile(r"\[Текущее время: [0-9: -]+\] ")
LABELS = re.compile(r"(?:\s*\[Текущее время:[^\]\n]{0,40}\]\s*+)+")
MAX_LABEL = 64  # characters; a longer beginning is no label


def add_time_label(text: str, moment: datetime, time_zone: str) -> str:
    """The text with the time of ``moment`` (aware) in ``time_zone`` before it."""
    local = local_time(moment, time_zone)
    return f"[Текущее время: {local:%Y-%m-%d %H:%M}] {text}"


def read_time_label(text: str, time_zone: str) -> datetime | None:
    """The moment that the label names, in ``time_zone``; None without a label."""
    match = re.match(r"\s*\[Текущее время: (\d{4}-\d\d-\d\d \d\d:\d\d)\]", text)
    if match is None:
        return None
    try:
        written = datetime.strptime(match[1], "%Y-%m-%d %H:%M")  # noqa: DTZ007
    except ValueError:
        return None
    return in_zone(written, time_zone)


def strip_time_label(text: str) -> str:
    """The text without the labels at its beginning."""
    labels = LABELS.match(text)
    return text if labels is None else text[labels.end() :]


def split_time_label(content: str) -> tuple[str, str]:
    """The label of a stored message, and what was written; the label is empty where none is."""
    label = OWN_LABEL.match(content)
    return (label[0], content[label.end() :]) if label else ("", content)


class LabelFilter:
    """Passes streamed text on, holding it back while it may still become a label."""

    def __init__(self) -> None:
        """One filter per answer."""
        self._held: str | None = ""

    def feed(self, text: str) -> str:
        """Take the next piece; return what can be shown now."""
        if self._held is None:
            return text
        start = self._held = strip_time_label(self._held + text).lstrip()
        may_be_label = start.startswith(LABEL_START) or LABEL_START.startswith(start)
        if may_be_label and len(start) < MAX_LABEL:
            return ""
        self._held = None
        return start

    def flush(self) -> str:
        """What was still held back at the end of the answer."""
        shown, self._held = self._held or "", None
        return shown


# What the user typed in the messages that are answered, beside the text that a model reads.
#
# A language model reads the message as it is shown, with its labels and marks. The offline model
# has no use for those: it takes the words from here. Providers are sent none of it.

OWN_WORDS = "own_words"
FILE_NAMES = "file_names"
LANGUAGE = "language"


class NewWords(TypedDict):
    """One message: its uid, what was typed, and whether by the one who is answered."""

    uid: str
    text: str
    is_asked: bool


def with_own_words(
    text: str, words: Sequence[NewWords], *, files: Sequence[str] = (), language: str = "en"
) -> HumanMessage:
    """The message that is answered, as it is shown, and the words in it.

    Args:
        text: As it is shown.
        words: What was typed.
        files: Names of the files that were read with it.
        language: Of the sentences for its writer.
    """
    known = {OWN_WORDS: list(words), FILE_NAMES: list(files), LANGUAGE: language}
    return HumanMessage(text, additional_kwargs=known)


def _asked_of(messages: Sequence[BaseMessage]) -> HumanMessage:
    """The last user message of a prompt; an empty one where there is none."""
    asked = (message for message in reversed(messages) if isinstance(message, HumanMessage))
    return next(asked, HumanMessage("", additional_kwargs={OWN_WORDS: []}))


def language_of(messages: Sequence[BaseMessage]) -> str | None:
    """The language of the sentences for whoever wrote the last user message, if it is known."""
    return _asked_of(messages).additional_kwargs.get(LANGUAGE)


def last_answer(history: Sequence[HistoryMessage]) -> str:
    """What the bot answered last; empty when nothing."""
    answers = (message for message in reversed(history) if message["role"] == "assistant")
    return next((text_of(message) for message in answers), "")


def own_words_of(messages: Sequence[BaseMessage]) -> list[NewWords]:
    """The words of the last user message of a prompt; by default all that stands in it."""
    asked = _asked_of(messages)
    default = NewWords(uid="", text=strip_time_label(str(asked.text)), is_asked=True)
    return list(asked.additional_kwargs.get(OWN_WORDS, [default]))


def file_names_of(messages: Sequence[BaseMessage]) -> list[str]:
    """The files that were read with the last user message of a prompt."""
    return list(map(str, _asked_of(messages).additional_kwargs.get(FILE_NAMES, ())))


# The rendered window: which of the last messages the model sees.
#
# It moves in steps, so that between two steps the prompt only grows at its end and a provider's
# prefix cache covers everything before it. What lies before the window is in the summaries.


def window_start(last_position: int, *, window: int = 30, step: int = 15) -> int:
    """The position of the first message that is rendered.

    Args:
        last_position: Of the newest message; positions count from 1.
        window: The most messages that are rendered.
        step: By how many the start moves at once; so ``window - step + 1`` to ``window``
            messages are rendered once the conversation is that long.
    """
    overflow = max(0, last_position - window)
    return -(-overflow // step) * step + 1


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
    """What the asker typed; ``default`` when that is nothing."""
    texts = [words["text"] for words in own_words(messages) if words["is_asked"]]
    return "\n".join(texts) or default
