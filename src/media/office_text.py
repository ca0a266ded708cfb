"""Text of Office documents, from archives unpacked within limits."""

import codecs
import datetime
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from xml.parsers import expat

from python_calamine import CalamineError, CalamineWorkbook, PasswordError

from src.base.errors import DocumentError
from src.media import document_text as marks

# Office files are zip archives, which are checked before anything is unpacked.
#
# Nothing is unpacked to disk, and no nested archive (the table of a chart) is unpacked.

MAX_ENTRIES = 5_000  # a deck of a thousand slides has some three thousand
MAX_UNPACKED = 200 << 20  # bytes of all entries; a large table is compressed to a tenth
MAX_RATIO = 200  # compression ratio of a large entry; a large table has 10 to 30
LARGE = 20 << 20  # bytes; smaller entries may be white pictures, with a ratio of a thousand
PIECE = 1 << 16  # bytes
FLAG_ENCRYPTED = 1
codecs.lookup("cp437")  # of names in archives; loaded now, as no file can be opened later
# Exceptions of zipfile for malformed archives, many of which it does not wrap.
BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, KeyError, NotImplementedError,
    OSError, OverflowError, UnicodeError, ValueError,
)  # fmt: skip


class Package:
    """Archive whose unpacked size is known and limited.

    Attributes:
        names: Names of its entries.
    """

    def __init__(self, data: bytes) -> None:
        """Check the declared sizes; if they are false, the limits of the process hold.

        Raises:
            DocumentError: It is broken, needs a password, or unpacks to too much.
        """
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
            _check_entries(self._archive.infolist(), len(data))
        except BROKEN as error:
            raise DocumentError("broken", "a broken archive") from error
        self.names = frozenset(self._archive.namelist())

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the content of an entry in pieces.

        Raises:
            DocumentError: There is no such entry, or it is broken.
        """
        try:
            with self._archive.open(name) as entry:
                yield from iter(partial(entry.read, PIECE), b"")
        except BROKEN as error:
            raise DocumentError("broken", "a broken entry of an archive") from error


def _check_entries(entries: list[zipfile.ZipInfo], size: int) -> None:
    if any(entry.flag_bits & FLAG_ENCRYPTED for entry in entries):
        raise DocumentError("protected", "an entry is encrypted")
    if len(entries) > MAX_ENTRIES:
        raise DocumentError("too_full", "too many entries")
    if sum(entry.file_size for entry in entries) > MAX_UNPACKED:
        raise DocumentError("too_full", "too much inside")
    for entry in entries:
        if entry.file_size > max(LARGE, MAX_RATIO * min(entry.compress_size, size)):
            raise DocumentError("too_full", "packed too well to be honest")


# Text of Word and PowerPoint files, from streamed XML.
#
# No tree is built, and parsing stops as soon as there is enough text, so a book takes no more
# memory than a letter. A document type declaration, which no office file has, is refused: without
# one there are no entities, neither exponentially growing nor external ones.

# Local names of ECMA-376, parts 1 (17 WordprocessingML, 21.1 DrawingML) and 3 (mc:Fallback, which
# repeats the preceding content for old programs). "moveFrom" is the former place of moved text.
OF_OFFICE: marks.Tags = {
    "p": marks.BLOCK, "tbl": marks.TABLE, "tr": marks.ROW, "tc": marks.CELL, "t": marks.TEXT,
    "br": "\n", "cr": "\n", "tab": " ", "noBreakHyphen": "-", "numPr": "- ",
    **dict.fromkeys(("Fallback", "moveFrom", "tabs"), marks.SKIPPED),
}  # fmt: skip
# Main part of each file format; Word on the web names it "document2.xml".
DOCUMENT = re.compile(r"word/document\d{0,3}\.xml")
WORKBOOK = re.compile(r"xl/workbook\d{0,3}\.(xml|bin)")
SLIDES = re.compile(r"ppt/presentation\d{0,3}\.xml")
NOTES = ("word/footnotes.xml", "word/endnotes.xml")
SLIDE = re.compile(r"ppt/slides/slide(\d{1,9})\.xml")
RELATIONS = "ppt/slides/_rels/slide{}.xml.rels"
SPEAKER_NOTES = re.compile(rb"notesSlides/notesSlide\d{1,9}\.xml")


def read_office(data: bytes, collector: marks.TextCollector) -> None:
    """Write the text of a document, a workbook or a presentation to ``collector``.

    Raises:
        DocumentError: It is none of them, broken, or needs a password.
        EnoughTextError: The text is full.
    """
    package = Package(data)
    for main_part, read in (
        (DOCUMENT, _read_docx), (WORKBOOK, partial(_read_xlsx, data)), (SLIDES, _read_pptx),
    ):  # fmt: skip
        main = next(filter(main_part.fullmatch, sorted(package.names)), None)
        if main:
            read(package, main, collector)
            return
    raise DocumentError("kind", "an archive")


def _read_docx(package: Package, main: str, collector: marks.TextCollector) -> None:
    for part in (main, *(note for note in NOTES if note in package.names)):
        read_xml(package.pieces(part), collector)


def _read_pptx(package: Package, _main: str, collector: marks.TextCollector) -> None:
    found = (SLIDE.fullmatch(name) for name in package.names)
    for number in sorted(int(slide[1]) for slide in found if slide):
        for part in _parts_of_slide(package, number):
            read_xml(package.pieces(part), collector)
            collector.add("\n")


def _parts_of_slide(package: Package, number: int) -> list[str]:
    """Return the names of a slide and of its notes, whose number may differ."""
    relations = RELATIONS.format(number)
    text = b""
    if relations in package.names:
        text = next(package.pieces(relations), b"")
    notes = SPEAKER_NOTES.search(text)
    names = (f"ppt/slides/slide{number}.xml", f"ppt/{notes[0].decode()}" if notes else "")
    return [name for name in names if name in package.names]


def read_xml(pieces: Iterable[bytes], collector: marks.TextCollector) -> None:
    """Write the text of one part to ``collector``.

    Raises:
        DocumentError: It is malformed, or declares a document type.
        EnoughTextError: The text is full.
    """
    marked = marks.MarkedText(OF_OFFICE, collector)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = lambda name, _: marked.start(name.rpartition(" ")[2])
    parser.EndElementHandler = lambda name: marked.end(name.rpartition(" ")[2])
    parser.CharacterDataHandler = marked.data
    try:
        for piece in pieces:
            parser.Parse(piece)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise DocumentError("broken", "a part is no XML") from error
    marked.finish()


def _refuse_doctype(*_: object) -> None:
    raise DocumentError("broken", "a part declares a document type")


# Excel workbooks: cell values, sheet by sheet.

Cell = int | float | str | bool | datetime.time | datetime.date | datetime.timedelta
MANY_EMPTY = re.compile(r"(?: \|){5,}(?= )")
MAX_SHEETS = 200
MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384  # Excel's limits, which calamine does not check


def _read_xlsx(data: bytes, _package: Package, _main: str, collector: marks.TextCollector) -> None:
    """Read each sheet: its name, then its non-empty rows, with the last results of formulas."""
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
        if len(workbook.sheet_names) > MAX_SHEETS:
            collector.mark_cut()
        for index, name in enumerate(workbook.sheet_names[:MAX_SHEETS]):
            _read_sheet(workbook, index, f"# {_single_spaced(name)}\n", collector)
    except PasswordError as error:
        raise DocumentError("protected", "a workbook with a password") from error
    except (CalamineError, OSError, ValueError) as error:
        raise DocumentError("broken", "a broken workbook") from error


def _read_sheet(
    workbook: CalamineWorkbook, index: int, title: str, collector: marks.TextCollector
) -> None:
    sheet = workbook.get_sheet_by_index(index)
    row, column = sheet.end or (0, 0)
    if row >= MAX_ROWS or column >= MAX_COLUMNS:
        raise DocumentError("broken", "a cell beyond the last")
    for cells in sheet.iter_rows():
        texts = map(_format_cell, cells)
        line = _single_spaced(marks.BETWEEN_CELLS.join(texts)).rstrip(" |")
        if line:
            collector.add(f"{title}{MANY_EMPTY.sub(' | … |', line)}\n")
            title = ""
    if not title:
        collector.add("\n")


def _format_cell(cell: Cell) -> str:
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, float):
        return f"{cell:.15g}"  # as many digits as Excel keeps
    return _single_spaced(str(cell))


def _single_spaced(text: str) -> str:
    return marks.SPACES.sub(" ", text).strip()
