"""Text between tags: the same few rules for Word, PowerPoint and HTML, as their parsers go."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from src.media.document_text import TextCollector

SPACES = re.compile(r"\s+")
BETWEEN_CELLS = " | "


@dataclass(frozen=True)
class Tags:
    """What the tags of a format mean, by their local names.

    Attributes:
        blocks: Begin and end a line.
        breaks: Stand for this text.
        tables, rows, cells: The parts of a table.
        skipped: What they hold is not shown to a reader.
        texts: Only what these hold is text; all of it when there are none.
    """

    blocks: frozenset[str]
    breaks: dict[str, str]
    tables: frozenset[str]
    rows: frozenset[str]
    cells: frozenset[str]
    skipped: frozenset[str]
    texts: frozenset[str] = field(default_factory=frozenset)


class MarkedText:
    """Turns tags and what stands between them into lines.

    A row of a table is one line, whatever its cells hold. Nothing is nested in memory but a number
    for each open table, so that a file of a million open tags costs nothing.
    """

    def __init__(self, tags: Tags, collector: TextCollector) -> None:
        """Hand lines to ``collector`` as they come."""
        self._tags = tags
        self._collector = collector
        self._line: list[str] = []
        self._cells: list[int] = []  # of the row at hand, for each open table
        self._skipped = 0
        self._in_text = 0

    def start(self, tag: str) -> None:
        """A tag opens.

        Raises:
            EnoughTextError: There is enough text; so with the other methods.
        """
        tags = self._tags
        if tag in tags.skipped:
            self._skipped += 1
        elif self._skipped:
            return
        elif tag in tags.texts:
            self._in_text += 1
        elif tag in tags.breaks:
            self._break(tags.breaks[tag])
        elif tag in tags.cells:
            self._next_cell()
        else:
            self._start_block(tag)

    def end(self, tag: str) -> None:
        """A tag closes, or closes without having opened."""
        tags = self._tags
        if tag in tags.skipped:
            self._skipped = max(0, self._skipped - 1)
        elif self._skipped:
            return
        elif tag in tags.texts:
            self._in_text = max(0, self._in_text - 1)
        elif tag in tags.blocks:
            self._end_block()
        elif tag in tags.rows or tag in tags.tables:
            self._end_row(is_last=tag in tags.tables)

    def data(self, text: str) -> None:
        """Text stands here."""
        if self._skipped or (self._tags.texts and not self._in_text):
            return
        self._line.append(text)

    def finish(self) -> None:
        """The file is at its end."""
        self._end_line()

    def _start_block(self, tag: str) -> None:
        if tag in self._tags.tables:
            self._end_line()
            self._cells.append(0)
        elif tag in self._tags.rows:
            self._end_row(is_last=False)
        elif tag in self._tags.blocks:
            self._end_block()

    def _break(self, text: str) -> None:
        if text.startswith("\n"):
            self._end_block()
        self._line.append(text)

    def _end_block(self) -> None:
        if self._cells:
            self._line.append(" ")
        else:
            self._end_line()

    def _next_cell(self) -> None:
        if not self._cells:
            return
        if self._cells[-1]:
            self._line.append(BETWEEN_CELLS)
        self._cells[-1] += 1

    def _end_row(self, *, is_last: bool) -> None:
        self._end_line()
        if self._cells and is_last:
            self._cells.pop()
        elif self._cells:
            self._cells[-1] = 0

    def _end_line(self) -> None:
        line = SPACES.sub(" ", "".join(self._line)).strip()
        self._line.clear()
        if line.strip("| -"):
            self._collector.add(line + "\n")
