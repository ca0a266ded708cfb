"""The text of a file: bounded, and storable in PostgreSQL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from src.base.errors import DocumentWithoutTextError

DocumentKind = Literal["text", "html", "pdf", "docx", "xlsx", "pptx"]
KINDS: tuple[DocumentKind, ...] = get_args(DocumentKind)
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
        kind: What the file is, by its content.
    """

    text: str
    is_cut: bool
    kind: DocumentKind


class EnoughTextError(Exception):
    """There is as much text as anybody will see: the reader need not go on."""


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

    def finish(self, kind: DocumentKind) -> DocumentText:
        """The text that came together.

        Raises:
            DocumentWithoutTextError: It holds no letter, digit or other sign.
        """
        whole = EMPTY_LINES.sub("\n\n", SPACE_BEFORE_LINE_END.sub("", "".join(self._pieces)))
        text = _cut(whole) if len(whole) > MAX_CHARACTERS else whole
        text = text.strip()
        if not text:
            raise DocumentWithoutTextError("the file holds no text")
        return DocumentText(text, self._has_more, kind)


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
