"""Rendering of answers as Telegram messages: Markdown to entities, then split, within limits.

What is no markup is shown as it was written. ``keep_words`` escapes what the user wrote, so that
it is no markup either.
"""

import asyncio
import logging
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyromark
from aiogram.types import ForceReply, InlineKeyboardMarkup, LinkPreviewOptions, MessageEntity

from src.memory.prompts import CODE
from src.texts.markdown import Signs
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
        last = parts[max_parts - 1]
        room = MAX_UTF16 - utf16_length(ending) - 2
        units = last.text.encode("utf-16-le", "surrogatepass")[: 2 * room]
        body = units.decode("utf-16-le", "ignore").rstrip()
        entities = _clip(last.entities, 0, utf16_length(body))
        parts[max_parts - 1] = Part(f"{body}\n\n{ending}", entities)
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
        before = len(body) - len(body.lstrip("\n"))
        text_of_part = body.strip("\n")  # Telegram would remove surrounding line breaks, too
        clipped = _clip(ordered, start + before, utf16_length(text_of_part))
        if len(clipped) > MAX_ENTITIES:  # the links stay: their addresses stand nowhere else
            clipped.sort(key=lambda entity: entity.type != "text_link")
        parts.append(Part(text_of_part, clipped[:MAX_ENTITIES]))
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


# Markdown as a text and its entities.

OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
MAX_EVENTS = 200_000  # of a text; only tables that are mostly empty have more
MAX_INDENT = 12  # columns; deeper quotes and lists do not add to it
MAX_SPACES = 80  # before a line of a paragraph
MAX_TABLE = 12_000  # characters of a table with aligned columns: three messages
RULE = "———"
PICTURE = "🖼 "
INLINE = {"Emphasis": "italic", "Strong": "bold", "Strikethrough": "strikethrough"}
LINKS = ("Link", "Image")
NOT_IN_LINKS = ("code", "text_link")  # Telegram would keep these and drop the link around them
BREAKS, BREAK_IN_CELL = ("<br>", "<br/>", "<br />"), " / "
OUTER = ("Paragraph", "List", "HtmlBlock")  # what is in them begins the line
BLANK_LINE = re.compile(rb"\n[ \t>]*\n")
MARKER = re.compile(rb"[ \t]*([0-9]{1,9}[.)]|[-+])")
UNDERLINE = re.compile(rb"\n[ \t>]*-+\s*\Z")  # of a heading; people mean a rule
NUMBER = re.compile(rb"\[[0-9]+\]\(")
ADDRESS = re.compile(r"(?:https?://[^\s/]+\.|tg://)\S+", re.IGNORECASE)  # that opens in Telegram
FORMULA = re.compile(r"\\\((.*)\\\)|\\\[(.*)\\\]|\$\$(.*)\$\$", re.DOTALL)


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units, as Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def convert(markdown: str) -> tuple[str, list[MessageEntity]]:
    """Return a text and its entities, in the order of their ends; linear in its length.

    Raises:
        ValueError: The text consists of too many elements, or has lone surrogates.
    """
    signs = Signs()
    source = signs.hide(markdown.replace("\r\n", "\n"))
    writer = _Writer(source.encode(), signs)
    events = pyromark.events_with_range(source, options=OPTIONS, merge_text=True)
    for number, (event, span) in enumerate(events):
        if number > MAX_EVENTS:
            raise ValueError("too many elements")
        writer.take(event, span["start"], span["end"])
    return "".join(writer.pieces), writer.entities


def _named(event: Any) -> tuple[str, Any]:
    """Return the name of an event or of a tag, and its details."""
    if isinstance(event, str):
        return event, None
    [(name, details)] = event.items()
    return name, details


@dataclass(frozen=True, slots=True)
class _Element:
    """Open element.

    Attributes:
        start: Where its text begins, in UTF-16 units.
        pieces: Number of pieces before it.
        entities: Number of entities before it.
        indent: Indentation of the lines after it.
        entity: Fields of its entity, if it has one.
    """

    start: int
    pieces: int
    entities: int
    indent: str
    entity: dict[str, Any]


class _Writer:
    """Writes the elements of a source, which come as the parser's events.

    There is a blank line between two blocks where the source has one.
    """

    def __init__(self, source: bytes, signs: Signs) -> None:
        self.pieces: list[str] = []
        self.entities: list[MessageEntity] = []
        self._source = source
        self._signs = signs
        self._length = 0  # of the pieces, in UTF-16 units
        self._read = 0  # end of what is written, in the source
        self._line: Literal["empty", "marked", "begun", "over"] = "empty"
        self._indent = ""
        self._quotes = 0
        self._open: list[_Element] = []
        self._rows: list[list[str]] = []  # of the open table
        self._links: list[str] = []  # in it

    def take(self, event: Any, start: int, end: int) -> None:
        """Write an event that covers the bytes of the source from ``start`` to ``end``."""
        kind, details = _named(event)
        if kind == "Start":
            self._start(*_named(details), start, end)
        elif kind == "End":
            self._end(_named(details)[0], start, end)
        elif kind in ("SoftBreak", "HardBreak"):  # the next line is indented as it is there
            line = self._source[end : end + MAX_SPACES]
            indent = line[: len(line) - len(line.lstrip(b" \t"))].decode()
            if self._indent and (indent or line.startswith(b">")):
                indent = self._indent
            self._write(f"\n{indent}")
        else:
            if kind == "Rule":
                self._end_line()
            self._begin_line(start)
            self._write_leaf(kind, details)
            self._read = end

    def _write_leaf(self, kind: str, text: Any) -> None:
        if kind == "Rule":
            self._write(RULE)
            self._line = "over"
        elif kind == "Code":
            self._write(self._signs.restored(text), "code")
        else:
            for piece in self._signs.split(text):
                formula = FORMULA.fullmatch(piece)
                if self._rows and piece in BREAKS:
                    self._write(BREAK_IN_CELL)
                elif formula is None:
                    self._write(piece)
                else:
                    self._write(formula[formula.lastindex or 0].strip(), "code")

    def _write(self, text: str, kind: str | None = None) -> None:
        start = self._length
        self.pieces.append(text)
        self._length += utf16_length(text)
        self._line = "begun"
        if kind is not None:
            self._cover(start, {"type": kind})

    def _cover(self, start: int, entity: dict[str, Any]) -> None:
        length = self._length - start
        if entity and length:
            self.entities.append(MessageEntity(offset=start, length=length, **entity))

    def _end_line(self) -> None:
        if self._line == "begun":
            self._line = "over"

    def _begin_line(self, start: int) -> None:
        """Begin the line of what stands at ``start`` in the source, if the last one is over."""
        if self._line == "over":
            is_apart = BLANK_LINE.search(self._source, max(0, self._read - 1), start)
            self._write(f"\n\n{self._indent}" if is_apart else f"\n{self._indent}")
            self._read = start

    def _start(self, kind: str, details: Any, start: int, end: int) -> None:
        indent = self._indent
        if kind in INLINE or kind in LINKS:
            self._begin_line(start)
        elif kind == "TableRow":
            self._rows.append([])
        elif kind not in ("TableHead", "TableCell"):
            self._start_block(kind, start)
        entity = self._entity(kind, details, start, end)
        place = self._length, len(self.pieces), len(self.entities)
        self._open.append(_Element(*place, indent, entity))
        self._mark(kind, start)

    def _start_block(self, kind: str, start: int) -> None:
        self._end_line()
        if kind in ("CodeBlock", "Table"):
            self._indent = ""
            if self._line == "marked":
                self._line = "over"
        if kind == "Table":
            self._rows, self._links = [[]], []
        if kind not in OUTER:
            self._begin_line(start)

    def _entity(self, kind: str, details: Any, start: int, end: int) -> dict[str, Any]:
        """Return the fields of an element's entity."""
        if kind in LINKS:
            address = self._signs.restored(details["dest_url"]).replace("&amp;", "&")
            return {"type": "text_link", "url": address}
        if kind == "CodeBlock":
            info = ""
            if details != "Indented":
                info = self._signs.restored(details["Fenced"])
            return {"type": "pre", "language": next(iter(info.split()), None)}
        if kind == "Heading" and not UNDERLINE.search(self._source[start:end]):
            return {"type": "bold"}
        if kind == "BlockQuote" and not self._quotes:
            return {"type": "blockquote"}
        if kind in INLINE:
            return {"type": INLINE[kind]}
        return {}

    def _mark(self, kind: str, start: int) -> None:
        """Write what stands before the text of an element: a number, a bullet, a bracket."""
        if kind == "Item":
            marker = MARKER.match(self._source, start)
            self._write_marker(f"{marker[1].decode()} " if marker else "• ", "  ")
        elif kind == "BlockQuote":
            self._line = "empty"
            if self._quotes:  # Telegram has no quotes in quotes
                self._write_marker("> ", "> ")
            self._quotes += 1
        elif kind == "Image":
            self._write(PICTURE)
        elif kind == "Link" and NUMBER.match(self._source, start):
            self._write("[")

    def _write_marker(self, marker: str, indent: str) -> None:
        self._write(marker)
        self._line = "marked"
        self._indent = f"{self._indent}{indent}"[:MAX_INDENT]

    def _end(self, kind: str, start: int, end: int) -> None:
        element = self._open.pop()
        entity = element.entity
        if kind in LINKS:
            entity = self._end_link(element, kind, start)
        elif kind == "TableCell":
            self._rows[-1].append(" ".join(self._cut(element).split()))
            self._read = end
        elif kind in ("TableHead", "TableRow"):
            surplus = self._source[max(start, self._read) : end].decode().strip("| \t\n")
            if surplus:  # cells beyond the columns, which the parser leaves out
                self._rows[-1] += map(str.strip, self._signs.restored(surplus).split("|"))
        elif kind not in INLINE:
            self._end_block(kind, element, end)
        self._cover(element.start, entity)

    def _end_block(self, kind: str, element: _Element, end: int) -> None:
        if kind == "Heading" and not element.entity:
            self._write(f"\n{self._indent}{RULE}")
        elif kind == "CodeBlock":
            self._write(self._cut(element).removesuffix("\n"))
        elif kind == "BlockQuote":
            self._quotes -= 1
        elif kind == "Table":
            self._write(aligned(self._rows), "pre")
            self._write("".join(f"\n{link}" for link in self._links))
            self._rows = []
            self._read = end
        self._indent = element.indent
        if self._line != "empty":
            self._line = "over"

    def _end_link(self, element: _Element, kind: str, start: int) -> dict[str, Any]:
        """Show an address that nothing else would open, and return the fields of the entity."""
        if kind == "Link" and NUMBER.match(self._source, start):
            self._write("]")
        address = element.entity["url"]
        label = "".join(self.pieces[element.pieces :]).removeprefix(PICTURE)
        opens = ADDRESS.fullmatch(address) is not None
        if self._rows:
            self._links.append(f"{label}: {address}" if label != address else label)
        elif not label:
            self._write(address)
        elif not opens and address not in label:
            self._write(f" ({address})")
        if not opens:
            return {}
        inside = self.entities[element.entities :]
        del self.entities[element.entities :]
        self.entities += [one for one in inside if one.type not in NOT_IN_LINKS]
        return element.entity

    def _cut(self, element: _Element) -> str:
        """Take away what the element contains, and return its text."""
        text = "".join(self.pieces[element.pieces :])
        del self.pieces[element.pieces :]
        del self.entities[element.entities :]
        self._length = element.start
        return text


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return a table with a line under its first row; its columns are aligned if it is small."""
    widths: list[int] = []
    for row in rows:
        widths += [0] * (len(row) - len(widths))
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], _width(cell))
    if len(rows) * (sum(widths) + 3 * len(widths)) > MAX_TABLE:
        return "\n".join(" | ".join(row).rstrip(" |") for row in rows)
    lines = ["-+-".join("-" * width for width in widths)]
    for row in rows:
        padded = [
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=False)
        ]
        lines.append(" | ".join(padded).rstrip())
    return "\n".join([lines[1], lines[0], *lines[2:]])


def _width(text: str) -> int:
    """Return the columns that a text takes in a font of equal widths."""
    visible = [character for character in text if not unicodedata.combining(character)]
    wide = [character for character in visible if unicodedata.east_asian_width(character) in "WF"]
    return len(visible) + len(wide)


# Characters with a meaning in Markdown, without "[" and "(": a backslash before those starts a
# formula.
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
    # Code of the user's within a line is a quotation, which ends where their text does.
    fenced = [rf"(?<=[^\n]){re.escape(text)}" for text in texts if "```" in text][:MAX_LINES]
    choices = [*fenced, f"(?P<code>{CODE})", *map(re.escape, longest)]
    pattern = re.compile("|".join(choices), re.DOTALL)
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
        if word in words:
            return FORMATTING.sub(r"\\\1", match[0])
        return match[0]

    if not words:
        return markdown
    return re.sub(r"\S+", escape, markdown)
