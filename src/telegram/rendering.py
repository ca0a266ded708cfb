"""Rendering of answers as Telegram messages: Markdown to entities, then split, within limits."""

import asyncio
import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from aiogram.types import ForceReply, InlineKeyboardMarkup, MessageEntity
from telegramify_markdown import convert, split_entities, utf16_len

from src.memory.citations import CODE
from src.texts.plain_text import is_visible

logger = logging.getLogger(__name__)

# Shielding of expensive markup from the Markdown parser.
#
# The conversion of Markdown is linear for usual texts, but not for hostile ones: a hundred nested
# lists in one line become thousands of messages; forty quoted empty lines in a spoiler, or thirty
# nested roots, exceed any time (or memory). Markup beyond the limits below is shown as it was
# typed: before parsing, each of its characters is replaced by a stand-in without a meaning in
# Markdown, and restored afterwards. A stand-in is one UTF-16 unit, like the original, so no offset
# changes.

MAX_DEPTH = 6  # quotes and lists that begin in one line; deeper ones are text
MAX_TABLE = 12_000  # characters of a table with aligned columns: three messages
MAX_QUOTES = 6  # ">" in a run of quoted empty lines; telegramify's spoilers backtrack 2^n times
MAX_BREAKS = 100  # line breaks in such a run, where they backtrack n * n times
MAX_LATEX_DEPTH = 5  # telegramify doubles the text under a root or line at each level
MAX_FORMULAS = 100  # starts of formulas; each may scan the rest of the text for its end
MAX_DELIMITERS = 300  # "$", and "~"; they are escaped one by one, with a new parsing for each
MAX_FENCES = 300  # code fences; after each, telegramify scans back over all invisible output

SHIELDED = "\\>-+*.)|$~`"
# U+FDD0 to U+FDEF are Unicode noncharacters, so a text does not need them.
NONCHARACTERS = dict.fromkeys(range(64976, 65008))
STAND_INS = {character: chr(0xFDD0 + number) for number, character in enumerate(SHIELDED)}
ORIGINALS = str.maketrans({stand_in: character for character, stand_in in STAND_INS.items()})

_MARKER = r"(?:>|[-+*](?=[ \t]|$)|[0-9]{1,9}[.)](?=[ \t]|$))"
# Start of a line up to the first marker beyond MAX_DEPTH.
_DEEP_LINE = re.compile(rf"^((?:[ \t]*{_MARKER}){{{MAX_DEPTH}}}[ \t]*)({_MARKER})", re.MULTILINE)
_FIRST_MARKER = re.compile(rf"[ \t]*{_MARKER}", re.MULTILINE)
_THEMATIC_BREAK = re.compile(r"[ \t]*([-*])(?:[ \t]*\1){2,}[ \t]*$", re.MULTILINE)
_EMPTY_LINES = re.compile(r"(?:\n[ \t>]*)+")
_FORMULA = re.compile(r"\\(?=[(\[])")
_LATEX = re.compile(r"(\\[A-Za-z]+)|([{])|([}])|[\s$]")


def shield(markdown: str) -> str:
    """Replace all markup beyond the limits by stand-ins; linear in the length of the text."""
    text = markdown.translate(NONCHARACTERS).replace("\r\n", "\n").replace("\r", "\n")
    text = _DEEP_LINE.sub(_flatten, text)
    text = _shield_tables(text)
    if text.count("||") > 1 and _has_long_gap(text):
        text = text.replace("||", STAND_INS["|"] * 2)
    if _is_costly_latex(text):
        text = _FORMULA.sub(STAND_INS["\\"], text).replace("$", STAND_INS["$"])
    if text.count("~") > MAX_DELIMITERS:
        text = text.replace("~", STAND_INS["~"])
    if text.count("```") > MAX_FENCES:
        text = text.replace("`", STAND_INS["`"])
    return text


def unshield(text: str) -> str:
    """Restore the characters that ``shield`` replaced."""
    return text.translate(ORIGINALS)


def _flatten(match: re.Match[str]) -> str:
    """Turn the first marker beyond MAX_DEPTH, and so all that follow, into text."""
    if _ends_in_thematic_break(match):
        return match.group()
    marker = match.group(2)
    return match.group(1) + marker[:-1] + STAND_INS[marker[-1]]


def _ends_in_thematic_break(match: re.Match[str]) -> bool:
    position = match.start()
    while position <= match.start(2):
        if _THEMATIC_BREAK.match(match.string, position):
            return True
        marker = _FIRST_MARKER.match(match.string, position)
        if marker is None:
            return False
        position = marker.end()
    return False


def _shield_tables(text: str) -> str:
    """Shield tables that would consist mostly of the spaces that align their columns."""
    if "|" not in text:
        return text
    lines: list[str] = []
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.strip(" \t>"):
            block.append(line)
            continue
        if _aligned_size(block) > MAX_TABLE:
            block = [row.replace("|", STAND_INS["|"]) for row in block]
        lines += [*block, line]
        block = []
    return "\n".join(lines[:-1])


def _aligned_size(rows: list[str]) -> int:
    """Return the characters of a table whose columns are as wide as their widest cell."""
    widths: list[int] = []
    for row in rows:
        cells = row.split("|")
        widths += [0] * (len(cells) - len(widths))
        for column, cell in enumerate(cells):
            widths[column] = max(widths[column], len(cell))
    separators = 3 * len(widths)
    return len(rows) * (sum(widths) + separators) if len(widths) > 1 else 0


def _has_long_gap(text: str) -> bool:
    gaps = (match.group() for match in _EMPTY_LINES.finditer(text))
    return any(gap.count(">") > MAX_QUOTES or gap.count("\n") > MAX_BREAKS for gap in gaps)


def _is_costly_latex(text: str) -> bool:
    formulas = text.count("\\(") + text.count("\\[")
    dollars = text.count("$")
    if formulas > MAX_FORMULAS or dollars > MAX_DELIMITERS:
        return True
    return (formulas > 0 or dollars > 0) and _latex_depth(text) > MAX_LATEX_DEPTH


def _latex_depth(text: str) -> int:
    """Return the nesting of commands and braces; a command's argument may lack braces."""
    deepest = braces = commands = 0
    for command, opens, closes in _LATEX.findall(text):
        if command:
            commands += 1
        elif opens:
            braces, commands = braces + 1, 0
        elif closes:
            braces, commands = max(0, braces - 1), 0
        else:
            commands = 0
        deepest = max(deepest, braces + commands)
    return deepest


# Rendering runs in threads beside the event loop, with a timeout; a text that times out or fails
# is shown as plain text. A thread cannot be stopped, so ``shield`` limits its cost. A thread that
# is overdue nevertheless keeps its slot; when all slots are lost, every text is shown as plain
# text at once.

T = TypeVar("T")

MAX_UTF16 = 4096  # UTF-16 code units of one message
MAX_PARTS = 10  # messages of one answer, where no setting says otherwise
MAX_ENTITIES = 100  # of a message; Telegram ignores the others
MAX_SOURCE = 60_000  # characters of Markdown; a longer text is shown as plain text
RENDER_SECONDS = 3.0  # timeout; the longest possible answers take 0.3
RENDER_THREADS = 2  # more would only compete for the interpreter lock


@dataclass(frozen=True)
class Part:
    """One Telegram message of an answer.

    Attributes:
        text: At most 4096 UTF-16 units.
        entities: Formatting of the text.
        keyboard: Buttons under the message.
        preview: The address in it of which a preview is shown, if any.
    """

    text: str
    entities: list[MessageEntity]
    keyboard: InlineKeyboardMarkup | ForceReply | None = None
    preview: str | None = None


class RenderThreads:
    """Runs functions in daemon threads with a timeout; neither callers nor the exit wait more."""

    def __init__(self) -> None:
        """Create the slots; an overdue thread keeps its own until it ends."""
        self._slots = asyncio.Semaphore(RENDER_THREADS)
        self._overdue = 0

    async def run(self, work: Callable[[], T], *, seconds: float) -> T:
        """Run ``work`` in a thread and return its result.

        Raises:
            TimeoutError: It took longer than ``seconds``, or all slots are taken by overdue work.
            RuntimeError: It failed; the message is the type of its error.
        """
        if self._overdue >= RENDER_THREADS:
            raise TimeoutError
        async with asyncio.timeout(seconds):
            await self._slots.acquire()
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
        future.add_done_callback(self._release)

        def run() -> None:
            try:
                settle = partial(future.set_result, work())
            except BaseException as error:  # noqa: BLE001  (a Rust panic is no Exception)
                settle = partial(future.set_exception, RuntimeError(type(error).__name__))
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the caller
                loop.call_soon_threadsafe(settle)

        threading.Thread(target=run, name="render", daemon=True).start()
        return future

    def _release(self, future: asyncio.Future[Any]) -> None:
        self._slots.release()
        future.exception()  # mark it as retrieved if no caller waits any more

    def _end_overdue(self, _future: asyncio.Future[Any]) -> None:
        self._overdue -= 1


class Renderer:
    """Converts any Markdown to Telegram messages."""

    def __init__(self, *, seconds: float = RENDER_SECONDS) -> None:
        """Create one per process; a text is shown as plain text after ``seconds``."""
        self._threads = RenderThreads()
        self._seconds = seconds

    async def render(
        self, markdown: str, *, max_parts: int = MAX_PARTS, ending: str = "…"
    ) -> list[Part]:
        """Return an answer as Telegram messages; none if nothing of it is visible.

        Args:
            markdown: The answer.
            max_parts: Maximum number of messages; the rest is cut off.
            ending: Appended to the last message if the answer was cut.
        """
        parts = await self._convert_in_thread(markdown, max_parts)
        if len(parts) > max_parts:
            parts[max_parts - 1] = _append_ending(parts[max_parts - 1], ending)
        return parts[:max_parts]

    async def render_start(self, markdown: str) -> Part | None:
        """Return the first message, or None if nothing is visible."""
        return next(iter(await self._convert_in_thread(markdown, 1)), None)

    async def _convert_in_thread(self, markdown: str, max_parts: int) -> list[Part]:
        try:
            return await self._threads.run(
                lambda: _convert(markdown, max_parts), seconds=self._seconds
            )
        except TimeoutError:
            logger.warning("an answer takes too long to format; it is shown as plain text")
        except RuntimeError as error:
            logger.warning("an answer cannot be formatted (%s)", error)
        return _split(markdown, [], max_parts)


def split_text(text: str) -> list[Part]:
    """Return an unformatted text as Telegram messages."""
    return _split(text, [], MAX_PARTS)[:MAX_PARTS]


def _convert(markdown: str, max_parts: int) -> list[Part]:
    if len(markdown) > MAX_SOURCE:
        return _split(markdown, [], max_parts)
    text, entities = convert(shield(markdown))
    for entity in entities:
        if entity.url:
            entity.url = unshield(entity.url)
        if entity.language:
            entity.language = unshield(entity.language)
    return _split(unshield(text), entities, max_parts)


def _split(text: str, entities: list[Any], max_parts: int) -> list[Part]:
    """Split a formatted text into messages, at least ``max_parts + 1`` if there are too many.

    The entities are telegramify's; MAX_ENTITIES of each message are kept.
    """
    text = text[: (max_parts + 2) * MAX_UTF16]
    ordered = sorted(entities, key=lambda entity: (entity.offset, -entity.length))
    chunks = split_entities(text, ordered, MAX_UTF16)
    return [_trim(*chunk) for chunk in chunks if is_visible(chunk[0])]


def _trim(text: str, entities: list[Any]) -> Part:
    """Telegram would remove surrounding line breaks, too."""
    before = len(text) - len(text.lstrip("\n"))
    body = text.strip("\n")
    converted = [MessageEntity(**entity.to_dict()) for entity in entities[:MAX_ENTITIES]]
    return Part(body, _clip(converted, before, utf16_len(body)))


def _append_ending(part: Part, ending: str) -> Part:
    room = MAX_UTF16 - utf16_len(ending) - 2
    units = part.text.encode("utf-16-le", "surrogatepass")[: 2 * room]
    body = units.decode("utf-16-le", "ignore").rstrip()
    return Part(f"{body}\n\n{ending}", _clip(part.entities, 0, utf16_len(body)))


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
    start = utf16_len(last.text) + 2
    if start + utf16_len(note) > MAX_UTF16:
        return [*parts, Part(note, [_small(0, note)])]
    entities = [*last.entities, _small(start, note)]
    return [*before, replace(last, text=f"{last.text}\n\n{note}", entities=entities)]


def with_lead(lead: str, parts: Sequence[Part]) -> list[Part]:
    """Return the messages with a lead in small print above, or in messages of its own if long."""
    first, *rest = parts
    shift = utf16_len(lead) + 2
    if shift + utf16_len(first.text) > MAX_UTF16:
        before = [Part(part.text, [_small(0, part.text)]) for part in split_text(lead)]
        return [*before, *parts]
    shifted = [
        entity.model_copy(update={"offset": entity.offset + shift}) for entity in first.entities
    ]
    text = f"{lead}\n\n{first.text}"
    return [replace(first, text=text, entities=[_small(0, lead), *shifted]), *rest]


def _small(start: int, note: str) -> MessageEntity:
    """A blockquote, whose text is smaller, as Telegram has no small print."""
    return MessageEntity(type="blockquote", offset=start, length=utf16_len(note))


# Characters with a meaning in Markdown or telegramify's extensions, without "[" and "(": a
# backslash before those starts a formula.
SPECIAL = re.compile(r"([\\`*_{}\]<>#+\-.!|~&$=^])")
FORMATTING = re.compile(r"([\\*_<>|~&])")  # those that matter within a single word
EDGES = " \t«»“”„\"'.,:;!?()[]…"
MIN_LINE = 3  # characters
MAX_LINES = 40  # lines of the user to search for in the answer


def keep_words(markdown: str, user_texts: Iterable[str]) -> str:
    """Escape the user's words in an answer, so that they stay as typed; linear in its length.

    The user's lines are escaped if quoted whole, and their words everywhere. Code is left alone,
    as nothing in it is formatted.

    Args:
        markdown: The answer.
        user_texts: Texts of the user that the answer may repeat.
    """
    texts = list(dict.fromkeys(user_texts))
    words = {word.strip(EDGES) for text in texts for word in text.split()}
    special_words = frozenset(word for word in words if FORMATTING.search(word))
    lines = {line.strip() for text in texts for line in text.splitlines()}
    quoted = [line for line in lines if len(line) >= MIN_LINE and SPECIAL.search(line)]
    if not special_words and not quoted:
        return markdown
    longest = sorted(quoted, key=len, reverse=True)[:MAX_LINES]
    pattern = re.compile("|".join([f"(?P<code>{CODE})", *map(re.escape, longest)]), re.DOTALL)
    pieces: list[str] = []
    end = 0
    for piece in pattern.finditer(markdown):
        pieces.append(_escape_words(markdown[end : piece.start()], special_words))
        pieces.append(piece[0] if piece["code"] else SPECIAL.sub(r"\\\1", piece[0]))
        end = piece.end()
    return "".join([*pieces, _escape_words(markdown[end:], special_words)])


def _escape_words(markdown: str, words: frozenset[str]) -> str:
    def escape(match: re.Match[str]) -> str:
        word = match[0].strip(EDGES)
        return FORMATTING.sub(r"\\\1", match[0]) if word in words else match[0]

    return re.sub(r"\S+", escape, markdown) if words else markdown
