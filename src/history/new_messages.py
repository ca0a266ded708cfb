"""Messages since the last answer: their words, time labels and place in the model's window."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NotRequired, TypedDict

import regex
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from src.base.zones import in_zone, local_time
from src.history.conversation_repo import HistoryMessage
from src.reading.gate import TYPED, UNKNOWN, Voice

# Time labels.
#
# Every user message is stored and shown to the model as ``[Текущее время: YYYY-MM-DD HH:MM] text``
# (the label is literal, whatever the user's language). Models sometimes copy the label, translated
# or its time alone, into their answers; it is removed there, also while the answer streams.

# As the program writes it; the text that follows may imitate it.
OWN_LABEL = re.compile(r"\[Текущее время: [0-9: -]+\] ")
LABELS = regex.compile(
    r"(?:\s*(?:[\[(](?:Текущее время|Поточний час|Current time):[^\])\n]{0,40}[\])]"
    r"|\[20\d\d-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?\])\s*+)+"
)


def add_time_label(text: str, moment: datetime, time_zone: str) -> str:
    """Return the text, prefixed with the label of ``moment`` (aware) in ``time_zone``."""
    local = local_time(moment, time_zone)
    return f"[Текущее время: {local:%Y-%m-%d %H:%M}] {text}"


def read_time_label(text: str, time_zone: str) -> datetime | None:
    """Return the moment of the label, read in ``time_zone``; None without a label."""
    match = re.match(r"\s*\[Текущее время: (\d{4}-\d\d-\d\d \d\d:\d\d)\]", text)
    if match is None:
        return None
    try:
        written = datetime.fromisoformat(match[1])
    except ValueError:
        return None
    return in_zone(written, time_zone)


def strip_time_label(text: str) -> str:
    """Return the text without the labels at its beginning."""
    labels = LABELS.match(text)
    if labels is None:
        return text
    return text[labels.end() :]


def split_time_label(content: str) -> tuple[str, str]:
    """Split a stored message into its label (may be empty) and its text."""
    label = OWN_LABEL.match(content)
    if label is None:
        return "", content
    return label[0], content[label.end() :]


# The user's own words, beside the text that a model reads.
#
# A language model reads the rendered message, with its labels and marks. The offline model takes
# the plain words from here instead. Providers are sent none of it.

OWN_WORDS = "own_words"
FILE_NAMES = "file_names"
LANGUAGE = "language"
ASKS = "asks"


class TypedWords(TypedDict):
    """Typed words of one message.

    Attributes:
        uid: Its uid.
        text: Its text.
        is_asked: True if the asker sent it.
        replied: The sender's own words to which it replies.
    """

    uid: str
    text: str
    is_asked: bool
    replied: NotRequired[str]


def user_message(
    text: str,
    words: Sequence[TypedWords],
    *,
    files: Sequence[str] = (),
    language: str | None = None,
) -> HumanMessage:
    """Return the message to answer, with the words it was rendered from.

    Args:
        text: The rendered text.
        words: What was typed.
        files: Names of the files that were read with it.
        language: Language of the bot's sentences for its sender.
    """
    extra = {OWN_WORDS: list(words), FILE_NAMES: list(files), LANGUAGE: language}
    return HumanMessage(text, additional_kwargs=extra)


def last_user_index(messages: Sequence[BaseMessage], default: int = 0) -> int:
    """Return the index of the newest message of the user in a prompt; ``default`` without one."""
    return max((n for n, m in enumerate(messages) if isinstance(m, HumanMessage)), default=default)


def _last_user_message(messages: Sequence[BaseMessage]) -> HumanMessage:
    """Return the last user message of a prompt, or an empty one."""
    newest_first = (message for message in reversed(messages) if isinstance(message, HumanMessage))
    return next(newest_first, HumanMessage("", additional_kwargs={OWN_WORDS: []}))


def language_of(messages: Sequence[BaseMessage]) -> str | None:
    """Return the language of the last user message's sender, or None if unknown."""
    return _last_user_message(messages).additional_kwargs.get(LANGUAGE)


def answer_message(entry: HistoryMessage) -> AIMessage:
    """Return an answer as the model reads it, with what it asks, which no provider is sent."""
    return AIMessage(entry["content"], additional_kwargs={ASKS: entry.get("asks")})


def last_answer(history: Sequence[HistoryMessage]) -> str:
    """Return the bot's last answer, or an empty string."""
    answers = (message for message in reversed(history) if message["role"] == "assistant")
    return next((text_of(message) for message in answers), "")


def last_question(history: Sequence[HistoryMessage]) -> str | None:
    """Return what the bot's last answer asks (see ``turn_repo.Asks``), if it asks anything."""
    answers = (message for message in reversed(history) if message["role"] == "assistant")
    return next((message.get("asks") for message in answers), None)


def own_words_of(messages: Sequence[BaseMessage]) -> list[TypedWords]:
    """Return the words of a prompt's last user message; by default its whole text."""
    message = _last_user_message(messages)
    default = TypedWords(uid="", text=strip_time_label(str(message.text)), is_asked=True)
    return list(message.additional_kwargs.get(OWN_WORDS, [default]))


def file_names_of(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the names of the files that were read with a prompt's last user message."""
    return list(map(str, _last_user_message(messages).additional_kwargs.get(FILE_NAMES, ())))


# The window of messages that the model sees.
#
# It moves in steps: between two steps the prompt only grows at its end, and a provider's prefix
# cache covers everything before it. Earlier messages are in the summaries.


def window_start(last_position: int, *, window: int = 30, step: int = 15) -> int:
    """Return the position of the first rendered message.

    Args:
        last_position: Position of the newest message, from 1.
        window: The most messages that are rendered.
        step: By how many the start moves at once; so ``window - step + 1`` to ``window``
            messages are rendered once the conversation is that long.
    """
    overflow = max(0, last_position - window)
    return -(-overflow // step) * step + 1


def new_messages(history: Sequence[HistoryMessage]) -> tuple[HistoryMessage, ...]:
    """Return the messages that the next answer is for, oldest first, up to the history's last.

    Messages whose answer was stopped or given up are left out.
    """
    found: list[HistoryMessage] = []
    for entry in reversed(history):
        if entry["role"] != "user":
            break
        if not found or entry.get("is_open", True):
            found.append(entry)
    return tuple(reversed(found))


def voice_of(entry: HistoryMessage) -> Voice:
    """Return the voice of a message: whose words it holds."""
    return entry.get("voice", TYPED)


def text_of(entry: HistoryMessage) -> str:
    """Return the text of a message without its time label."""
    return split_time_label(entry["content"])[1]


def rendered(entry: HistoryMessage) -> str:
    """Return a user's message as the model reads it in the history."""
    label, text = split_time_label(entry["content"])
    return f"{label}{voice_of(entry).shown(text)}"


def record(entry: HistoryMessage, limit: int | None = None) -> dict[str, Any]:
    """Return a message as a record for a prompt, cut to ``limit`` characters.

    A cut record has no uid, so it cannot be cited.
    """
    fields: dict[str, Any] = {"role": entry["role"]}
    if limit is None:
        fields = {"uid": f"msg-{entry['id']}", **fields}
    if entry["role"] == "user":
        fields |= voice_of(entry).fields()
    return {**fields, "text": text_of(entry)[:limit]}


def own_words(messages: Sequence[HistoryMessage]) -> list[TypedWords]:
    """Return the typed words of new messages that may be remembered.

    The last message always counts; an earlier one that is private stays out.
    """
    words = []
    for entry in messages:
        voice, last = voice_of(entry), messages[-1]
        if voice.is_own and (entry is last or not voice.is_private):
            is_asked = entry.get("sender_id") == last.get("sender_id")
            typed = TypedWords(uid=f"msg-{entry['id']}", text=text_of(entry), is_asked=is_asked)
            if voice.quoted and voice.quoted_author_id == entry.get("sender_id"):
                typed["replied"] = voice.quoted
            words.append(typed)
    return words


def file_names(messages: Sequence[HistoryMessage]) -> list[str]:
    """Return the names of the files that were read with new messages."""
    voices = map(voice_of, messages)
    return [voice.origin or UNKNOWN for voice in voices if voice.provenance == "file"]


def asked_text(messages: Sequence[HistoryMessage], default: str) -> str:
    """Return what the asker typed, or ``default`` if that is nothing."""
    texts = [words["text"] for words in own_words(messages) if words["is_asked"]]
    return "\n".join(texts) or default
