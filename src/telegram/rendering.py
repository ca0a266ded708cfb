"""An answer as Telegram messages: Markdown to entities first, split second, within bounds.

It happens in threads, away from the event loop, and has a deadline; what misses it, or fails, is
shown as plain text. A thread cannot be ended, so ``markup_shield`` bounds what one may cost.
Should one go on all the same, it keeps one of few places, and when there is none left every text
is shown as it is, without waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from aiogram.types import ForceReply, InlineKeyboardMarkup, MessageEntity
from telegramify_markdown import convert, split_entities, utf16_len

from src.telegram.markup_shield import shield, unshield
from src.texts.visible import is_visible

logger = logging.getLogger(__name__)

T = TypeVar("T")
Chunk = tuple[str, list[Any]]  # a text and telegramify's entities

MAX_UTF16 = 4096  # UTF-16 code units of one message
MAX_PARTS = 10  # messages of one answer, where no setting says otherwise
MAX_ENTITIES = 100  # of a message; Telegram passes over the others
MAX_SOURCE = 60_000  # characters of Markdown; a longer text is shown as it is
RENDER_SECONDS = 3.0  # the longest texts that an answer may have take 0.3
RENDER_THREADS = 2  # more would only take Python from each other


@dataclass(frozen=True)
class Part:
    """One Telegram message of an answer.

    Attributes:
        text: At most 4096 UTF-16 units.
        entities: Its formatting.
        keyboard: The buttons under it.
    """

    text: str
    entities: list[MessageEntity]
    keyboard: InlineKeyboardMarkup | ForceReply | None = None


class RenderThreads:
    """Runs functions in threads that nobody waits for longer than a deadline, nor at exit."""

    def __init__(self) -> None:
        """Those that are overdue keep their places until they end."""
        self._free = asyncio.Semaphore(RENDER_THREADS)
        self._overdue = 0

    async def run(self, work: Callable[[], T], *, seconds: float) -> T:
        """The result of ``work``.

        Raises:
            TimeoutError: It took longer, or every place is taken by work that did.
            RuntimeError: It failed; the message names the error's type.
        """
        if self._overdue >= RENDER_THREADS:
            raise TimeoutError
        async with asyncio.timeout(seconds):
            await self._free.acquire()
            future = self._start(work)
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                self._overdue += 1
                future.add_done_callback(self._end_overdue)
                raise

    def _start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(self._leave)

        def run() -> None:
            try:
                tell = partial(future.set_result, work())
            except BaseException as error:  # noqa: BLE001  (a panic of Rust is no Exception)
                tell = partial(future.set_exception, RuntimeError(type(error).__name__))
            with contextlib.suppress(RuntimeError):  # the loop is gone: so is who waited
                loop.call_soon_threadsafe(tell)

        threading.Thread(target=run, name="render", daemon=True).start()
        return future

    def _leave(self, future: asyncio.Future[Any]) -> None:
        self._free.release()
        future.exception()  # looked at, also when nobody waits for it any more

    def _end_overdue(self, _future: asyncio.Future[Any]) -> None:
        self._overdue -= 1


class Renderer:
    """Makes Telegram messages of Markdown, whatever it is."""

    def __init__(self, *, seconds: float = RENDER_SECONDS) -> None:
        """One for a process; a text gets so many seconds before it is shown as it is."""
        self._threads = RenderThreads()
        self._seconds = seconds

    async def render(
        self, markdown: str, *, max_parts: int = MAX_PARTS, ending: str = "…"
    ) -> list[Part]:
        """An answer as Telegram messages; none when there is nothing to see.

        Args:
            markdown: The answer.
            max_parts: The most messages; what is left over is cut off.
            ending: Says so at the end of the last one.
        """
        chunks = await self._lay_out(markdown, max_parts)
        if len(chunks) > max_parts:
            chunks = chunks[:max_parts]
            chunks[-1] = _with_ending(*chunks[-1], ending)
        return [Part(text, to_entities(entities)) for text, entities in chunks]

    async def render_start(self, markdown: str) -> Part | None:
        """The first of the messages; None when there is nothing to see."""
        chunks = await self._lay_out(markdown, 1)
        return Part(chunks[0][0], to_entities(chunks[0][1])) if chunks else None

    async def _lay_out(self, markdown: str, max_parts: int) -> list[Chunk]:
        try:
            return await self._threads.run(
                lambda: _lay_out(markdown, max_parts), seconds=self._seconds
            )
        except TimeoutError:
            logger.warning("an answer takes too long to format; it is shown as plain text")
        except RuntimeError as error:
            logger.warning("an answer cannot be formatted (%s)", error)
        return _split(markdown, [], max_parts)


def split_text(text: str) -> list[Part]:
    """A text without formatting as Telegram messages."""
    return [Part(chunk, []) for chunk, _ in _split(text, [], MAX_PARTS)[:MAX_PARTS]]


def to_entities(entities: Sequence[Any]) -> list[MessageEntity]:
    """Telegramify's entities as aiogram's: as many as Telegram looks at."""
    return [MessageEntity(**entity.to_dict()) for entity in entities[:MAX_ENTITIES]]


def _lay_out(markdown: str, max_parts: int) -> list[Chunk]:
    if len(markdown) > MAX_SOURCE:
        return _split(markdown, [], max_parts)
    text, entities = convert(shield(markdown))
    for entity in entities:
        if entity.url:
            entity.url = unshield(entity.url)
        if entity.language:
            entity.language = unshield(entity.language)
    return _split(unshield(text), entities, max_parts)


def _split(text: str, entities: list[Any], max_parts: int) -> list[Chunk]:
    """Messages of a formatted text; when there are too many, at least one too many."""
    text = text[: (max_parts + 2) * MAX_UTF16]
    ordered = sorted(entities, key=lambda entity: (entity.offset, -entity.length))
    chunks = split_entities(text, ordered, MAX_UTF16)
    return [_trimmed(*chunk) for chunk in chunks if is_visible(chunk[0])]


def _trimmed(text: str, entities: list[Any]) -> Chunk:
    """Without the line breaks around it, which Telegram would take away too."""
    before = len(text) - len(text.lstrip("\n"))
    body = text.strip("\n")
    return body, _clipped(entities, before, utf16_len(body))


def _with_ending(text: str, entities: list[Any], ending: str) -> Chunk:
    """The text, as much of it as leaves room for a sentence behind it."""
    room = MAX_UTF16 - utf16_len(ending) - 2
    units = text.encode("utf-16-le", "surrogatepass")[: 2 * room]
    body = units.decode("utf-16-le", "ignore").rstrip()
    return f"{body}\n\n{ending}", _clipped(entities, 0, utf16_len(body))


def _clipped(entities: list[Any], start: int, length: int) -> list[Any]:
    """The entities within ``length`` units from ``start``, counted from there."""
    clipped = []
    for entity in entities:
        first = max(0, entity.offset - start)
        last = min(length, entity.offset + entity.length - start)
        if last > first:
            clipped.append(entity.copy_with(offset=first, length=last - first))
    return clipped


def with_note(parts: Sequence[Part], note: str) -> list[Part]:
    """The messages with a line in small under the last; where it has no room, as one more."""
    *before, last = parts
    start = utf16_len(last.text) + 2
    if start + utf16_len(note) > MAX_UTF16:
        return [*parts, Part(note, [_small(0, note)])]
    entities = [*last.entities, _small(start, note)]
    return [*before, Part(f"{last.text}\n\n{note}", entities, last.keyboard)]


def with_lead(lead: str, parts: Sequence[Part]) -> list[Part]:
    """The messages below a line in small; where it has no room, it comes before them."""
    first, *rest = parts
    shift = utf16_len(lead) + 2
    if shift + utf16_len(first.text) > MAX_UTF16:
        before = [Part(text, [_small(0, text)]) for text in (p.text for p in split_text(lead))]
        return [*before, *parts]
    moved = [
        entity.model_copy(update={"offset": entity.offset + shift}) for entity in first.entities
    ]
    text = f"{lead}\n\n{first.text}"
    return [Part(text, [_small(0, lead), *moved], first.keyboard), *rest]


def _small(start: int, note: str) -> MessageEntity:
    """Telegram has no small print; a quotation is set apart, and its text is smaller."""
    return MessageEntity(type="blockquote", offset=start, length=utf16_len(note))
