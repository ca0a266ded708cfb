"""An answer as Telegram messages: Markdown to entities first, split second, within bounds."""

import asyncio
import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from aiogram.types import ForceReply, InlineKeyboardMarkup, MessageEntity
from telegramify_markdown import convert, split_entities, utf16_len

from src.memory.citations import CODE
from src.texts.plain_text import is_visible

logger = logging.getLogger(__name__)

# Markup that would cost more than it is worth, hidden from the Markdown parser.
#
# Parsing and laying out Markdown is linear for what people write, and far from it for what an
# attacker can: a hundred nested lists in one line become thousands of messages, forty quoted empty
# lines in a spoiler, or thirty nested roots, take longer (or more memory) than there is. What goes
# beyond the bounds below is shown as it was typed: before the parsing each of its characters is
# exchanged for a stand-in that means nothing in Markdown, and after it exchanged back. A stand-in
# is one UTF-16 unit, like what it stands for, so no offset moves.

MAX_DEPTH = 6  # quotes and lists that begin in one line; what is deeper is text
MAX_TABLE = 12_000  # characters of a table when its columns are aligned: three messages
MAX_QUOTES = 6  # ">" in a run of quoted empty lines; telegramify's spoilers try 2^n ways
MAX_BREAKS = 100  # line breaks in such a run, which its spoilers try n * n ways
MAX_LATEX_DEPTH = 5  # telegramify doubles what stands under a root or line with each level
MAX_FORMULAS = 100  # beginnings of formulas; each may look for its end in all the rest
MAX_DELIMITERS = 300  # of "$", and of "~": escaped round by round, each round a new parsing
MAX_FENCES = 300  # of code; behind each, telegramify looks back over all that showed nothing

SHIELDED = "\\>-+*.)|$~`"
# U+FDD0 to U+FDEF are no characters and never will be: nobody can type one.
NONCHARACTERS = dict.fromkeys(range(64976, 65008))
STAND_INS = {character: chr(0xFDD0 + number) for number, character in enumerate(SHIELDED)}
ORIGINALS = str.maketrans({stand_in: character for character, stand_in in STAND_INS.items()})

_MARKER = r"(?:>|[-+*](?=[ \t]|$)|[0-9]{1,9}[.)](?=[ \t]|$))"
# The beginning of a line up to the marker that is one too deep.
_DEEP_LINE = re.compile(rf"^((?:[ \t]*{_MARKER}){{{MAX_DEPTH}}}[ \t]*)({_MARKER})", re.MULTILINE)
_FIRST_MARKER = re.compile(rf"[ \t]*{_MARKER}", re.MULTILINE)
_THEMATIC_BREAK = re.compile(r"[ \t]*([-*])(?:[ \t]*\1){2,}[ \t]*$", re.MULTILINE)
_EMPTY_LINES = re.compile(r"(?:\n[ \t>]*)+")
_FORMULA = re.compile(r"\\(?=[(\[])")
_LATEX = re.compile(r"(\\[A-Za-z]+)|([{])|([}])|[\s$]")


def shield(markdown: str) -> str:
    """The text with everything beyond the bounds hidden; linear in its length."""
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
    """What was hidden, as it was typed."""
    return text.translate(ORIGINALS)


def _flatten(match: re.Match[str]) -> str:
    """A line that nests too deeply: its next marker, and so all that follow, are text."""
    if _ends_in_thematic_break(match):
        return match.group()
    marker = match.group(2)
    return match.group(1) + marker[:-1] + STAND_INS[marker[-1]]


def _ends_in_thematic_break(match: re.Match[str]) -> bool:
    """Whether the markers are a line that is drawn, as in ``* * * * * * * *``."""
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
    """Tables that would be mostly the spaces which align their columns stay as they are typed."""
    if "|" not in text:
        return text
    done: list[str] = []
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.strip(" \t>"):
            block.append(line)
            continue
        if _aligned_size(block) > MAX_TABLE:
            block = [row.replace("|", STAND_INS["|"]) for row in block]
        done += [*block, line]
        block = []
    return "\n".join(done[:-1])


def _aligned_size(rows: list[str]) -> int:
    """Characters of the rows as a table: every column as wide as its widest cell."""
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
    """How deeply commands and braces are nested; a command's argument may come without braces."""
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


# It happens in threads, away from the event loop, and has a deadline; what misses it, or fails, is
# shown as plain text. A thread cannot be ended, so ``markup_shield`` bounds what one may cost.
# Should one go on all the same, it keeps one of few places, and when there is none left every text
# is shown as it is, without waiting.

T = TypeVar("T")

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
        parts = await self._lay_out(markdown, max_parts)
        if len(parts) > max_parts:
            parts[max_parts - 1] = _with_ending(parts[max_parts - 1], ending)
        return parts[:max_parts]

    async def render_start(self, markdown: str) -> Part | None:
        """The first of the messages; None when there is nothing to see."""
        return next(iter(await self._lay_out(markdown, 1)), None)

    async def _lay_out(self, markdown: str, max_parts: int) -> list[Part]:
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
    return _split(text, [], MAX_PARTS)[:MAX_PARTS]


def _lay_out(markdown: str, max_parts: int) -> list[Part]:
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
    """Messages of a formatted text; when there are too many, at least one too many.

    The entities are telegramify's; of each message Telegram looks at the first MAX_ENTITIES.
    """
    text = text[: (max_parts + 2) * MAX_UTF16]
    ordered = sorted(entities, key=lambda entity: (entity.offset, -entity.length))
    chunks = split_entities(text, ordered, MAX_UTF16)
    return [_trimmed(*chunk) for chunk in chunks if is_visible(chunk[0])]


def _trimmed(text: str, entities: list[Any]) -> Part:
    """Without the line breaks around it, which Telegram would take away too."""
    before = len(text) - len(text.lstrip("\n"))
    body = text.strip("\n")
    ours = [MessageEntity(**entity.to_dict()) for entity in entities[:MAX_ENTITIES]]
    return Part(body, _clipped(ours, before, utf16_len(body)))


def _with_ending(part: Part, ending: str) -> Part:
    """The message, as much of it as leaves room for a sentence behind it."""
    room = MAX_UTF16 - utf16_len(ending) - 2
    units = part.text.encode("utf-16-le", "surrogatepass")[: 2 * room]
    body = units.decode("utf-16-le", "ignore").rstrip()
    return Part(f"{body}\n\n{ending}", _clipped(part.entities, 0, utf16_len(body)))


def _clipped(entities: Sequence[MessageEntity], start: int, length: int) -> list[MessageEntity]:
    """The entities within ``length`` units from ``start``, counted from there."""
    clipped = []
    for entity in entities:
        first = max(0, entity.offset - start)
        last = min(length, entity.offset + entity.length - start)
        if last > first:
            place = {"offset": first, "length": last - first}
            clipped.append(entity.model_copy(update=place))
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


# What means something in Markdown, or in what telegramify adds to it.
# Not "[" and "(": a backslash makes them the beginning of a formula.
SPECIAL = re.compile(r"([\\`*_{}\]<>#+\-.!|~&$=^])")
FORMATTING = re.compile(r"([\\*_<>|~&])")  # what a word alone may hold
EDGES = " \t«»“”„\"'.,:;!?()[]…"
MIN_LINE = 3  # characters
MAX_LINES = 40  # of the user that are looked for at every place of the answer


def keep_words(markdown: str, said: Iterable[str]) -> str:
    """The answer, with the words of the user unformatted, as typed; linear in its length.

    Their lines where quoted whole, and their words anywhere, are escaped. Code is left alone:
    nothing in it is formatted.

    Args:
        markdown: The answer.
        said: The texts of the user that the answer may repeat.
    """
    texts = list(dict.fromkeys(said))
    words = {word.strip(EDGES) for text in texts for word in text.split()}
    own = frozenset(word for word in words if FORMATTING.search(word))
    lines = {line.strip() for text in texts for line in text.splitlines()}
    quoted = [line for line in lines if len(line) >= MIN_LINE and SPECIAL.search(line)]
    if not own and not quoted:
        return markdown
    longest = sorted(quoted, key=len, reverse=True)[:MAX_LINES]
    whole = re.compile("|".join([f"(?P<code>{CODE})", *map(re.escape, longest)]), re.DOTALL)
    kept: list[str] = []
    end = 0
    for piece in whole.finditer(markdown):
        kept.append(_with_words(markdown[end : piece.start()], own))
        kept.append(piece[0] if piece["code"] else SPECIAL.sub(r"\\\1", piece[0]))
        end = piece.end()
    return "".join([*kept, _with_words(markdown[end:], own)])


def _with_words(markdown: str, own: frozenset[str]) -> str:
    """The text with each of the words escaped."""

    def escape(match: re.Match[str]) -> str:
        word = match[0].strip(EDGES)
        return FORMATTING.sub(r"\\\1", match[0]) if word in own else match[0]

    return re.sub(r"\S+", escape, markdown) if own else markdown
