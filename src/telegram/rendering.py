"""Rendering of answers as Telegram messages: Markdown to entities, then split, within limits."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aiogram.types import ForceReply, InlineKeyboardMarkup, LinkPreviewOptions, MessageEntity

from src.telegram.entities import convert, utf16_length
from src.texts.plain_text import is_visible

logger = logging.getLogger(__name__)

MAX_UTF16 = 4096  # UTF-16 code units of one message
MAX_PARTS = 10  # messages of one answer, where no setting says otherwise
MAX_ENTITIES = 100  # of a message; Telegram ignores the others
NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
MAX_SOURCE = 60_000  # characters of Markdown; a longer text is shown as plain text


@dataclass(frozen=True)
class Part:
    """One Telegram message of an answer.

    Attributes:
        text: At most 4096 UTF-16 units.
        entities: Formatting of the text.
        keyboard: Buttons under the message.
    """

    text: str
    entities: list[MessageEntity]
    keyboard: InlineKeyboardMarkup | ForceReply | None = None


async def render(markdown: str, *, max_parts: int = MAX_PARTS, ending: str = "…") -> list[Part]:
    """Return an answer as Telegram messages: one with "…" if nothing of it is visible.

    Args:
        markdown: Any Markdown.
        max_parts: Maximum number of messages; the rest is cut off.
        ending: Appended to the last message if the answer was cut.
    """
    parts = await asyncio.to_thread(_convert, markdown, max_parts)
    if not parts:
        parts = _split(markdown, [], max_parts) or [Part("…", [])]
    if len(parts) > max_parts:
        parts[max_parts - 1] = _append_ending(parts[max_parts - 1], ending)
    return parts[:max_parts]


async def render_start(markdown: str) -> Part | None:
    """Return the first message, or None if nothing is visible."""
    return next(iter(await asyncio.to_thread(_convert, markdown, 1)), None)


def split_text(text: str) -> list[Part]:
    """Return an unformatted text as Telegram messages."""
    return _split(text, [], MAX_PARTS)[:MAX_PARTS]


def _convert(markdown: str, max_parts: int) -> list[Part]:
    if len(markdown) <= MAX_SOURCE:
        try:
            return _split(*convert(markdown), max_parts)
        except BaseException as error:  # noqa: BLE001  (a Rust panic is no Exception)
            logger.warning("an answer cannot be formatted (%s)", type(error).__name__)
    return _split(markdown, [], max_parts)


def _split(text: str, entities: list[MessageEntity], max_parts: int) -> list[Part]:
    """Split a formatted text into messages, at least ``max_parts + 1`` if there are too many.

    MAX_ENTITIES of each message are kept.
    """
    ordered = sorted(entities, key=lambda entity: (entity.offset, -entity.length))
    parts = []
    start = 0
    rest = text[: (max_parts + 2) * MAX_UTF16]
    while rest:
        body = _first_part(rest)
        rest = rest[len(body) :]
        parts.append(_trim(body, _clip(ordered, start, utf16_length(body))))
        start += utf16_length(body)
    return [part for part in parts if is_visible(part.text)]


def _first_part(text: str) -> str:
    """Return the beginning of a text that fits into a message: up to a paragraph, line or word."""
    units = text[:MAX_UTF16].encode("utf-16-le", "surrogatepass")[: 2 * MAX_UTF16]
    body = units.decode("utf-16-le", "ignore")
    if len(body) == len(text):
        return body
    for mark in ("\n\n", "\n", " "):
        end = body.rfind(mark, len(body) // 2)
        if end > 0:
            return body[: end + len(mark)]
    return body


def _trim(text: str, entities: list[MessageEntity]) -> Part:
    """Telegram would remove surrounding line breaks, too.

    Of too many entities the links stay: their addresses stand nowhere else.
    """
    before = len(text) - len(text.lstrip("\n"))
    body = text.strip("\n")
    clipped = _clip(entities, before, utf16_length(body))
    if len(clipped) > MAX_ENTITIES:
        clipped.sort(key=lambda entity: entity.type != "text_link")
    return Part(body, clipped[:MAX_ENTITIES])


def _append_ending(part: Part, ending: str) -> Part:
    room = MAX_UTF16 - utf16_length(ending) - 2
    units = part.text.encode("utf-16-le", "surrogatepass")[: 2 * room]
    body = units.decode("utf-16-le", "ignore").rstrip()
    return Part(f"{body}\n\n{ending}", _clip(part.entities, 0, utf16_length(body)))


def _clip(entities: Sequence[MessageEntity], start: int, length: int) -> list[MessageEntity]:
    clipped = []
    for entity in entities:
        first = max(0, entity.offset - start)
        last = min(length, entity.offset + entity.length - start)
        if last > first:
            span = {"offset": first, "length": last - first}
            clipped.append(entity.model_copy(update=span))
    return clipped


def with_note(parts: Sequence[Part], note: str) -> list[Part]:
    """Return the messages with a note in small print below, or in a message of its own if long."""
    *before, last = parts
    start = utf16_length(last.text) + 2
    if start + utf16_length(note) > MAX_UTF16:
        return [*parts, Part(note, [_small(0, note)])]
    entities = [*last.entities, _small(start, note)]
    return [*before, replace(last, text=f"{last.text}\n\n{note}", entities=entities)]


def with_lead(lead: str, parts: Sequence[Part]) -> list[Part]:
    """Return the messages with a lead in small print above, or in messages of its own if long."""
    first, *rest = parts
    shift = utf16_length(lead) + 2
    if shift + utf16_length(first.text) > MAX_UTF16:
        before = [Part(part.text, [_small(0, part.text)]) for part in split_text(lead)]
        return [*before, *parts]
    shifted = [
        entity.model_copy(update={"offset": entity.offset + shift}) for entity in first.entities
    ]
    text = f"{lead}\n\n{first.text}"
    return [replace(first, text=text, entities=[_small(0, lead), *shifted]), *rest]


def _small(start: int, note: str) -> MessageEntity:
    """A blockquote, whose text is smaller, as Telegram has no small print."""
    return MessageEntity(type="blockquote", offset=start, length=utf16_length(note))
