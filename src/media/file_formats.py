"""Text of each kind of file: PDF, Office documents, plain text in any encoding, HTML."""

import codecs
import datetime
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from html.parser import HTMLParser
from typing import Any
from xml.parsers import expat

import pypdfium2
from pypdfium2.raw import FLAT_NORMALDISPLAY, FLATTEN_SUCCESS, FPDF_ERR_PASSWORD, FPDFPage_Flatten
from python_calamine import CalamineError, CalamineWorkbook, PasswordError

from src.base.errors import DocumentError
from src.media import document_text as marks
from src.texts.plain_text import LEGACY, MARKS, detect_legacy

# PDF files, page by page, in the order of the content stream.

MAX_PAGES = 2_000  # examined; scanned pages contain no text that would reach the limit
# Hyphens that split a word at a line end; the first two are PDFium's markers.
HYPHEN = re.compile("(?<=\\w)(?:[\x02\ufffe](?:\r?\n)?|\u2010\r?\n)(?=\\w)")


def read_pdf(data: bytes, collector: marks.TextCollector) -> None:
    """Write the text of the pages to ``collector``; broken pages are skipped.

    Raises:
        DocumentError: It is no PDF, or needs a password.
        EnoughTextError: The text is full.
    """
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if error.err_code == FPDF_ERR_PASSWORD:
            raise DocumentError("protected", "a PDF with a password") from error
        raise DocumentError("broken", "a broken PDF") from error
    document.init_forms()
    pages = min(len(document), MAX_PAGES)
    if len(document) > pages:
        collector.mark_cut()
    readable = 0
    for index in range(pages):
        try:
            page = document[index]
            # What was filled in or typed over the page becomes a part of it.
            if FPDFPage_Flatten(page, FLAT_NORMALDISPLAY) == FLATTEN_SUCCESS:
                page = document[index]
            text_page = page.get_textpage()
            text = text_page.get_text_bounded()
        except pypdfium2.PdfiumError:
            continue
        text_page.close()
        page.close()
        readable += 1
        collector.add(HYPHEN.sub("", text) + "\n\n")
    if not readable:
        raise DocumentError("broken", "a PDF without a page")


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
    names = sorted(package.names)
    document = next(filter(DOCUMENT.fullmatch, names), None)
    if document is not None:
        for part in (document, *(note for note in NOTES if note in package.names)):
            read_xml(package.pieces(part), collector)
    elif any(map(WORKBOOK.fullmatch, names)):
        read_workbook(data, collector)
    elif any(map(SLIDES.fullmatch, names)):
        read_slides(package, collector)
    else:
        raise DocumentError("kind", "an archive")


def read_slides(package: Package, collector: marks.TextCollector) -> None:
    """Write the text of each slide and of its notes, whose number may differ."""
    found = (SLIDE.fullmatch(name) for name in package.names)
    for number in sorted(int(slide[1]) for slide in found if slide):
        parts, related = [f"ppt/slides/slide{number}.xml"], b""
        relations = RELATIONS.format(number)
        if relations in package.names:
            related = next(package.pieces(relations), b"")
        notes = SPEAKER_NOTES.search(related)
        if notes is not None:
            parts.append(f"ppt/{notes[0].decode()}")
        for part in filter(package.names.__contains__, parts):
            read_xml(package.pieces(part), collector)
            collector.add("\n")


def read_xml(pieces: Iterable[bytes], collector: marks.TextCollector) -> None:
    """Write the text of one part to ``collector``.

    Raises:
        DocumentError: It is malformed, or declares a document type.
        EnoughTextError: The text is full.
    """

    def refuse_doctype(*_: object) -> None:
        raise DocumentError("broken", "a part declares a document type")

    marked = marks.MarkedText(OF_OFFICE, collector)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartDoctypeDeclHandler = refuse_doctype
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


# Excel workbooks: cell values, sheet by sheet.

Cell = int | float | str | bool | datetime.time | datetime.date | datetime.timedelta
MANY_EMPTY = re.compile(r"(?: \|){5,}(?= )")
MAX_SHEETS = 200
MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384  # Excel's limits, which calamine does not check


def read_workbook(data: bytes, collector: marks.TextCollector) -> None:
    """Write each sheet: its name, then its non-empty rows, with the last results of formulas.

    Raises:
        DocumentError: It is broken, or needs a password.
        EnoughTextError: The text is full.
    """
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
        if len(workbook.sheet_names) > MAX_SHEETS:
            collector.mark_cut()
        for index, name in enumerate(workbook.sheet_names[:MAX_SHEETS]):
            _read_sheet(workbook, index, f"# {marks.single_spaced(name)}\n", collector)
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
        line = marks.single_spaced(marks.BETWEEN_CELLS.join(texts)).rstrip(" |")
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
    return marks.single_spaced(str(cell))


# Plain text in any encoding, and the visible text of HTML.

MAX_READ = 1 << 20  # bytes; 60,000 characters take at most 240,000
CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # \x1b occurs in coloured logs
FEW = 2  # control characters that any text may contain; a long one may have this share:
MAX_CONTROLS = 0.01  # random bytes in a legacy encoding have 0.1
BAD = "\ufffd"
MAX_BAD = 0.02  # share of non-ASCII characters: logs in UTF-8 may contain a few bad bytes

for _name in (*LEGACY, *MARKS.values(), "utf_8", "ascii"):
    codecs.lookup(_name)  # loaded now, as no file can be opened later


def read_plain_text(data: bytes, collector: marks.TextCollector) -> None:
    """Write the text to ``collector``.

    Raises:
        DocumentError: It is no text.
        EnoughTextError: The text is full.
    """
    if len(data) > MAX_READ:
        collector.mark_cut()
    collector.add(decode(data[:MAX_READ]))


def decode(data: bytes, declared: str | None = None) -> str:
    """Decode bytes in an unknown encoding; an incomplete character at the end is dropped.

    Args:
        data: The bytes.
        declared: Encoding declared in the text, if any; not needed for Unicode.

    Raises:
        DocumentError: It is no text.
    """
    for name in _candidate_encodings(data, declared):
        text = codecs.getincrementaldecoder(name)("replace").decode(data)
        if _is_text(text, name):
            return text
    raise DocumentError("kind", "neither text nor a format that is read")


def _candidate_encodings(data: bytes, declared: str | None) -> Iterator[str]:
    yield from (name for mark, name in MARKS.items() if data.startswith(mark))
    yield "utf_8"
    if declared in LEGACY:
        yield declared
    yield detect_legacy(data)


def _is_text(text: str, name: str) -> bool:
    if len(CONTROLS.findall(text)) > max(FEW, MAX_CONTROLS * len(text)):
        return False
    if name != "utf_8":
        return True
    bad = text.count(BAD)
    return not bad or bad <= MAX_BAD * sum(not sign.isascii() for sign in text)


MAX_PAGE = 1 << 23  # bytes of a page; scripts and pictures may precede its text
PAGE_PIECE = 1 << 20  # characters; the parser rescans an unclosed construct with each piece
OPENING = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]{0,200}>\s*)?(<!doctype\s+html|<html)\b", re.I
)
SOME_TAG = re.compile(rb"</?[a-z][a-z0-9]{0,9}[\s>/]", re.I)
DECLARED = re.compile(rb"charset\s*=\s*[\"']?\s*([\w-]{1,20})", re.I)
ENCODINGS = {"windows-1251": "cp1251", "koi8-r": "koi8_u", "koi8-u": "koi8_u", "ibm866": "cp866"}
BLOCKS = """
address article aside blockquote body caption center dd details div dl dt fieldset figcaption
figure footer form h1 h2 h3 h4 h5 h6 header hr main nav ol option p pre section summary title ul
"""
OF_HTML: marks.Tags = {
    **dict.fromkeys(BLOCKS.split(), marks.BLOCK),
    **dict.fromkeys(("script", "style", "template"), marks.SKIPPED),
    **dict.fromkeys(("td", "th"), marks.CELL),
    "br": "\n", "li": "\n- ", "table": marks.TABLE, "tr": marks.ROW,
}  # fmt: skip


def is_html(data: bytes, *, is_named_so: bool) -> bool:
    """Return True for an HTML file: by its beginning, or by its name if it contains a tag."""
    head = data[: 1 << 16]
    return bool(OPENING.match(head) or (is_named_so and SOME_TAG.search(head)))


def read_html(data: bytes, collector: marks.TextCollector) -> None:
    """Write the text of a page to ``collector``; linked resources are not loaded.

    Raises:
        DocumentError: It is no text.
        EnoughTextError: The text is full.
    """
    if len(data) > MAX_PAGE:
        collector.mark_cut()
    match = DECLARED.search(data[:4096])
    declared = None
    if match:
        declared = ENCODINGS.get(match[1].decode("ascii", "replace").lower())
    page = decode(data[:MAX_PAGE], declared)
    marked = marks.MarkedText(OF_HTML, collector)
    parser: Any = HTMLParser()  # it accepts any input, as browsers do
    parser.handle_starttag = lambda tag, _attributes: marked.start(tag)
    parser.handle_endtag, parser.handle_data = marked.end, marked.data
    for start in range(0, len(page), PAGE_PIECE):
        parser.feed(page[start : start + PAGE_PIECE])
    parser.close()
    marked.finish()
