"""The text of a file: bounded, storable in PostgreSQL, and in lines where the file has tags."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from src.base.errors import DocumentError

MISSING = "missing"  # beside what ``DocumentProblem`` lists: a library for reading files
MAX_CHARACTERS = 60_000  # of a text: some 30 pages, which a model still reads in one go
SLACK = MAX_CHARACTERS // 10  # that are given up to end with a paragraph, or at least a line

# What PostgreSQL refuses (NUL, halves of surrogate pairs), and what is no text: other controls,
# a terminal's colours, soft hyphens, marks of the byte order.
UNFIT = re.compile(
    "\x1b\\[[0-9;?]{0,20}[@-~]|[\x00-\x08\x0b-\x1f\x7f\xad\ufeff\ufffe\uffff\ud800-\udfff]"
)
LINE_ENDS = re.compile("\r\n?|[\u0085\u2028\u2029\x0b\x0c]")
SPACE_BEFORE_LINE_END = re.compile(r"[ \t]+(?=\n)")
EMPTY_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The words of a file.

    Attributes:
        text: Not empty, at most ``MAX_CHARACTERS``; a row of a table is a line, its cells stand
            between vertical bars.
        is_cut: Whether the file holds more.
    """

    text: str
    is_cut: bool


class EnoughTextError(Exception):
    """There is as much text as is kept: the reader need not go on."""


class TextCollector:
    """Takes the text of a file piece by piece, until there is enough."""

    def __init__(self) -> None:
        """Begin with none."""
        self._pieces: list[str] = []
        self._length = 0
        self._has_more = False

    def add(self, piece: str) -> None:
        """Put a piece behind the others.

        Raises:
            EnoughTextError: The text is full.
        """
        fit = _fit(piece[: 2 * MAX_CHARACTERS])
        if not self._length:
            fit = fit.lstrip()
        self._pieces.append(fit)
        self._length += len(fit)
        if self._length > MAX_CHARACTERS or len(piece) > 2 * MAX_CHARACTERS:
            self._has_more = True
            raise EnoughTextError

    def note_rest(self) -> None:
        """Know that the reader leaves something out: the text is cut, however short it is."""
        self._has_more = True

    def finish(self) -> DocumentText:
        """The text that came together.

        Raises:
            DocumentError: It holds no letter, digit or other sign.
        """
        whole = EMPTY_LINES.sub("\n\n", SPACE_BEFORE_LINE_END.sub("", "".join(self._pieces)))
        text = _cut(whole) if len(whole) > MAX_CHARACTERS else whole
        text = text.strip()
        if not text:
            raise DocumentError("without_text", "the file holds no text")
        return DocumentText(text, self._has_more)


def is_storable(text: str) -> bool:
    """Whether a text is one that ``TextCollector`` makes."""
    return 0 < len(text) <= MAX_CHARACTERS and not UNFIT.search(text)


def _fit(piece: str) -> str:
    return UNFIT.sub("", LINE_ENDS.sub("\n", piece))


def _cut(text: str) -> str:
    """The beginning of a text, up to a paragraph's end, else a line's, a word's, or anywhere."""
    for end in ("\n\n", "\n", " "):
        place = text.rfind(end, MAX_CHARACTERS - SLACK, MAX_CHARACTERS)
        if place >= 0:
            return text[:place]
    return text[:MAX_CHARACTERS]


# Text between tags: the same few rules for Word, PowerPoint and HTML, as their parsers go.

SPACES = re.compile(r"\s+")
BETWEEN_CELLS = " | "
# The roles of a format's tags, by their local names. A block begins and ends a line; what is
# skipped is not shown to a reader; where a format has tags of texts, only these hold text. A tag
# that is a mere sign has this sign as its role.
BLOCK, TABLE, ROW, CELL, SKIPPED, TEXT = "block", "table", "row", "cell", "skipped", "text"
Tags = Mapping[str, str]


class MarkedText:
    """Turns tags and the text between them into lines.

    A row of a table is one line, whatever its cells hold. The only nested state is a number for
    each open table, so that a file of a million open tags costs nothing.
    """

    def __init__(self, tags: Tags, collector: TextCollector) -> None:
        """Hand lines to ``collector`` as they come."""
        self._tags = tags
        self._collector = collector
        self._line: list[str] = []
        self._cells: list[int] = []  # of the current row, for each open table
        self._skipped = 0
        self._in_text = 0
        self._all_is_text = TEXT not in tags.values()

    def start(self, tag: str) -> None:
        """A tag opens.

        Raises:
            EnoughTextError: There is enough text; so with the other methods.
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
        """A tag closes, or closes without having opened."""
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
        """Text stands here."""
        if not self._skipped and (self._all_is_text or self._in_text):
            self._line.append(text)

    def finish(self) -> None:
        """The file is at its end."""
        line = SPACES.sub(" ", "".join(self._line)).strip()
        self._line.clear()
        if line.strip("| -"):
            self._collector.add(line + "\n")

    def _end_part(self, role: str) -> None:
        """End the line, unless a block in a table ends; a row's end begins the next row."""
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
