"""Bounded, storable text of a file, and its conversion to lines for formats with tags."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from src.base.errors import DocumentError

MISSING = "missing"  # problem besides those of ``DocumentProblem``: a library is not installed
MAX_CHARACTERS = 60_000  # some 30 pages, which a model can still read at once
MAX_ANSWER = 1 << 20  # bytes of JSON; a character takes at most six
ENDS = ("\n\n", "\n", " ")  # of a paragraph, a line, a word
SLACK = MAX_CHARACTERS // 10  # may be dropped to end with a paragraph, or at least a line

# Characters that PostgreSQL refuses (NUL, surrogates), and that are no text: other controls,
# colour sequences of terminals, soft hyphens, byte order marks.
UNSTORABLE = re.compile(
    "\x1b\\[[0-9;?]{0,20}[@-~]|[\x00-\x08\x0b-\x1f\x7f\xad\ufeff\ufffe\uffff\ud800-\udfff]"
)
LINE_ENDS = re.compile("\r\n?|[\u0085\u2028\u2029\x0b\x0c]")
SPACE_BEFORE_LINE_END = re.compile(r"[ \t]+(?=\n)")
EMPTY_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class DocumentText:
    """Text of a file.

    Attributes:
        text: Not empty, at most ``MAX_CHARACTERS``; a table row is one line, with vertical bars
            between its cells.
        is_cut: True if the file contains more.
    """

    text: str
    is_cut: bool


class EnoughTextError(Exception):
    """The text has reached its limit, so the reader should stop."""


class TextCollector:
    """Collects the text of a file piece by piece, up to the limit."""

    def __init__(self) -> None:
        """Start empty."""
        self._pieces: list[str] = []
        self._length = 0
        self._has_more = False

    def add(self, piece: str) -> None:
        """Append a piece.

        Raises:
            EnoughTextError: The text is full.
        """
        cleaned = UNSTORABLE.sub("", LINE_ENDS.sub("\n", piece[: 2 * MAX_CHARACTERS]))
        if not self._length:
            cleaned = cleaned.lstrip()
        self._pieces.append(cleaned)
        self._length += len(cleaned)
        if self._length > MAX_CHARACTERS or len(piece) > 2 * MAX_CHARACTERS:
            self._has_more = True
            raise EnoughTextError

    def mark_cut(self) -> None:
        """Mark the text as cut, because the reader leaves something out."""
        self._has_more = True

    def finish(self) -> DocumentText:
        """Return the collected text.

        Raises:
            DocumentError: It is blank.
        """
        whole = EMPTY_LINES.sub("\n\n", SPACE_BEFORE_LINE_END.sub("", "".join(self._pieces)))
        if len(whole) > MAX_CHARACTERS:  # cut at a paragraph, a line or a word if one is near
            found = (whole.rfind(end, MAX_CHARACTERS - SLACK, MAX_CHARACTERS) for end in ENDS)
            whole = whole[: next((place for place in found if place >= 0), MAX_CHARACTERS)]
        text = whole.strip()
        if not text:
            raise DocumentError("without_text", "the file holds no text")
        return DocumentText(text, self._has_more)


def is_storable(text: str) -> bool:
    """Return True for a text that ``TextCollector`` can produce."""
    return 0 < len(text) <= MAX_CHARACTERS and not UNSTORABLE.search(text)


# Conversion of tagged text to lines, by the same rules for Word, PowerPoint and HTML.

BETWEEN_CELLS = " | "
# Roles of tags, by their local names. A block starts and ends a line. The content of a skipped tag
# is invisible to readers. If a format has text tags, only these contain text. The role of a tag
# that stands for a character is that character.
BLOCK, TABLE, ROW, CELL, SKIPPED, TEXT = "block", "table", "row", "cell", "skipped", "text"
Tags = Mapping[str, str]


def single_spaced(text: str) -> str:
    """Return a text with single spaces in place of all whitespace."""
    return " ".join(text.split())


class MarkedText:
    """Converts tags and the text between them to lines.

    A table row is one line, whatever its cells contain. The only nested state is one number per
    open table, so a file with a million open tags costs nothing.
    """

    def __init__(self, tags: Tags, collector: TextCollector) -> None:
        """Write lines to ``collector`` as they are completed."""
        self._tags = tags
        self._collector = collector
        self._line: list[str] = []
        self._cells: list[int] = []  # cells of the current row, per open table
        self._skipped = 0
        self._in_text = 0
        self._all_is_text = TEXT not in tags.values()

    def start(self, tag: str) -> None:
        """Handle an opening tag.

        Raises:
            EnoughTextError: There is enough text; the other methods raise it too.
        """
        role = self._tags.get(tag)
        if role == SKIPPED:
            self._skipped += 1
        elif self._skipped or role is None:
            return
        elif role == TEXT:
            self._in_text += 1
        elif role == CELL:
            self._next_cell()
        elif role in (BLOCK, TABLE, ROW):
            self._end_part(role)
            if role == TABLE:
                self._cells.append(0)
        else:
            if role.startswith("\n"):
                self._end_part(BLOCK)
            self._line.append(role)

    def end(self, tag: str) -> None:
        """Handle a closing tag, also an unmatched one."""
        role = self._tags.get(tag)
        if role == SKIPPED:
            self._skipped = max(0, self._skipped - 1)
        elif self._skipped:
            return
        elif role == TEXT:
            self._in_text = max(0, self._in_text - 1)
        elif role in (BLOCK, TABLE, ROW):
            self._end_part(role)
            if role == TABLE and self._cells:
                self._cells.pop()

    def data(self, text: str) -> None:
        """Handle text."""
        if not self._skipped and (self._all_is_text or self._in_text):
            self._line.append(text)

    def finish(self) -> None:
        """End the current line."""
        line = single_spaced("".join(self._line))
        self._line.clear()
        if line.strip("| -"):
            self._collector.add(line + "\n")

    def _end_part(self, role: str) -> None:
        """End the line, except for a block in a table; a row's end starts the next row."""
        if role == BLOCK and self._cells:
            self._line.append(" ")
            return
        self.finish()
        if role == ROW and self._cells:
            self._cells[-1] = 0

    def _next_cell(self) -> None:
        if not self._cells:
            return
        if self._cells[-1]:
            self._line.append(BETWEEN_CELLS)
        self._cells[-1] += 1
