"""Builders of the files that users send, and of the parts of hostile ones."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import docx
import pypdf
import xlsxwriter

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
PLAIN_TYPES = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
Rows = Sequence[Sequence[object]]


def word_file(paragraphs: Iterable[str], table: Rows = ()) -> bytes:
    """Return a Word file with a heading, paragraphs and a table."""
    document = docx.Document()
    for number, text in enumerate(paragraphs):
        document.add_paragraph(text, style="Heading 1" if not number else None)
    if table:
        word_table = document.add_table(len(table), len(table[0]))
        for cells, values in zip(word_table.rows, table, strict=True):
            for cell, value in zip(cells.cells, values, strict=True):
                cell.text = str(value)
    return saved(document.save)


def excel_file(sheets: Mapping[str, Rows]) -> bytes:
    """Return an Excel file; a text that begins with ``=`` is a formula with the result 42."""
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"default_date_format": "yyyy-mm-dd"}) as book:
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for number, row in enumerate(rows):
                for column, value in enumerate(row):
                    if str(value).startswith("="):
                        sheet.write_formula(number, column, str(value), None, 42)
                    else:
                        sheet.write(number, column, value)
    return buffer.getvalue()


def slides_file(slides: Sequence[Sequence[str]], notes: Mapping[int, str] | None = None) -> bytes:
    """Return a presentation of the parts with text only; ``notes`` are by slide number."""
    files = {"ppt/presentation.xml": "<presentation/>"}
    for number, texts in enumerate(slides, 1):
        files[f"ppt/slides/slide{number}.xml"] = drawing(texts)
    for at, (number, text) in enumerate((notes or {}).items(), 1):
        files[f"ppt/notesSlides/notesSlide{at}.xml"] = drawing([text])
        files[f"ppt/slides/_rels/slide{number}.xml.rels"] = (
            f'<Relationships><Relationship Target="../notesSlides/notesSlide{at}.xml"/>'
            "</Relationships>"
        )
    return office_file(files)


def drawing(texts: Iterable[str]) -> str:
    lines = "".join(f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>" for text in texts)
    return f'<sld xmlns:a="{DRAWING}">{lines}</sld>'


def word_xml(body: str, before: str = "") -> str:
    """Return the main part of a Word file; ``before`` precedes its first tag."""
    namespaces = (
        f'xmlns:w="{WORD}" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>{before}'
        f"<w:document {namespaces}><w:body>{body}</w:body></w:document>"
    )


def word_paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def raw_word_file(document: str | bytes, more: Mapping[str, str | bytes] | None = None) -> bytes:
    """Return a Word file with this main part, unescaped, and additional parts."""
    return office_file({"word/document.xml": document, **(more or {})})


def raw_excel_file(rows: str, before: str = "", workbook: str | None = None) -> bytes:
    """Return an Excel file whose only sheet has these rows in XML."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    kinds = "http://schemas.openxmlformats.org/package/2006/relationships"
    sheets = workbook or (
        f'<workbook xmlns="{main}" xmlns:r="{relations}">'
        '<sheets><sheet name="A" sheetId="1" r:id="r1"/></sheets></workbook>'
    )
    return office_file({
        "_rels/.rels": f'<Relationships xmlns="{kinds}"><Relationship Id="r1" '
        f'Type="{relations}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": sheets,
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{kinds}"><Relationship Id="r1" '
        f'Type="{relations}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<?xml version="1.0"?>{before}<worksheet xmlns="{main}">'
        f"<sheetData>{rows}</sheetData></worksheet>",
    })  # fmt: skip


def cell(place: str, value: object, row: int = 1) -> str:
    return f'<row r="{row}"><c r="{place}"><v>{value}</v></c></row>'


def office_file(files: Mapping[str, str | bytes]) -> bytes:
    """Return an archive with these files and the part that every Office file has."""
    return archive({"[Content_Types].xml": PLAIN_TYPES, **files})


def archive(files: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as target:
        for name, content in files.items():
            target.writestr(name, content)
    return buffer.getvalue()


def patched(packed: bytes, at: int, change: bytes, *, is_local: bool = False) -> bytes:
    """Overwrite bytes at an offset of every directory entry, or of every local header."""
    mark = b"PK\x03\x04" if is_local else b"PK\x01\x02"
    result, position = bytearray(packed), packed.find(mark)
    while position >= 0:
        result[position + at : position + at + len(change)] = change
        position = packed.find(mark, position + 4)
    return bytes(result)


def overlapping_archive(names: Sequence[str], content: bytes) -> bytes:
    """Return an archive in which all entries share the same bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(content) + packer.flush()
    sizes = struct.pack("<III", zlib.crc32(content), len(body), len(content))
    name = names[0].encode()
    start = b"PK\x03\x04" + struct.pack("<HHHHH", 20, 0, 8, 0, 0x21) + sizes
    start += struct.pack("<HH", len(name), 0) + name + body
    directory = b"".join(
        b"PK\x01\x02" + struct.pack("<HHHHHH", 20, 20, 0, 8, 0, 0x21) + sizes
        + struct.pack("<HHHHHII", len(one), 0, 0, 0, 0, 0, 0) + one.encode()
        for one in names
    )  # fmt: skip
    count = len(names)
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(start), 0)
    return start + directory + b"PK\x05\x06" + end


def pdf_file(
    pages: Sequence[Sequence[str]], catalog: str = "", more: Sequence[bytes] = ()
) -> bytes:
    """Return a PDF whose pages have these lines.

    Args:
        pages: Lines of each page.
        catalog: Additional entries of the catalogue.
        more: Additional objects; the first has number 6.
    """
    first = 6 + len(more)
    numbers = [first + 2 * index for index in range(len(pages))]
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {catalog} >>".encode(),
        f"<< /Type /Pages /Count {len(pages)} /Kids "
        f"[{' '.join(f'{number} 0 R' for number in numbers)}] >>".encode(),
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Some /Encoding /Identity-H "
        b"/DescendantFonts [4 0 R] /ToUnicode 5 0 R >>",
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Some /DW 500 "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>",
        pdf_stream(
            b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap "
            b"1 begincodespacerange <0000> <FFFF> endcodespacerange "
            b"1 beginbfrange <0000> <FFFF> <0000> endbfrange endcmap end end"
        ),
        *more,
    ]
    for lines in pages:
        objects.append(pdf_page(len(objects) + 2))
        objects.append(pdf_stream(pdf_lines(lines), packed=True))
    return pdf_of(objects)


def pdf_page(content: int) -> bytes:
    return (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
        b"/Resources << /Font << /F 3 0 R >> >> /Contents %d 0 R >>" % content
    )


def pdf_lines(lines: Iterable[str]) -> bytes:
    operators = b" T* ".join(
        b"<%s> Tj" % line.encode("utf-16-be").hex().encode() for line in lines
    )
    return b"BT /F 11 Tf 50 800 Td 14 TL " + operators + b" ET"


def pdf_stream(content: bytes, entries: bytes = b"", *, packed: bool = False) -> bytes:
    if packed:
        content, entries = zlib.compress(content), entries + b" /Filter /FlateDecode"
    head = b"<< /Length %d %s >>" % (len(content), entries)
    return head + b"\nstream\n" + content + b"\nendstream"


def pdf_of(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """Return a PDF of these objects; the first is the catalogue."""
    result, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, content in enumerate(objects, 1):
        offsets.append(len(result))
        result += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return bytes(
        result + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table
        + b"trailer\n<< /Size %d /Root 1 0 R %s >>\n" % (len(objects) + 1, trailer)
        + b"startxref\n%d\n%%%%EOF\n" % len(result)
    )  # fmt: skip


def scanned_pdf() -> bytes:
    """Return a PDF whose only page is a picture."""
    picture = pdf_stream(
        b"\0" * 12,
        b"/Type /XObject /Subtype /Image /Width 2 /Height 2 /BitsPerComponent 8 "
        b"/ColorSpace /DeviceRGB",
    )
    page = (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R "
        b"/Resources << /XObject << /Im 4 0 R >> >> >>"
    )
    catalogue = b"<< /Type /Catalog /Pages 2 0 R >>"
    pages = b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>"
    return pdf_of([catalogue, pages, page, picture, pdf_stream(b"595 0 0 842 0 0 cm /Im Do")])


def filled_pdf() -> bytes:
    """Return a PDF with a field of a form that is filled in, and words typed over the page."""
    font, more = b"/Font << /F 3 0 R >>", b"/Type /XObject /Subtype /Form /BBox [0 0 250 25]"
    kinds = (b"/Widget /FT /Tx /T (name) /V (Bondar) /DA (/F 12 Tf)", b"/FreeText")
    annotations, words = [], []
    for number, (kind, word) in enumerate(zip(kinds, (b"Bondar", b"agreed"), strict=True)):
        place = b"/F 4 /Rect [150 %d 400 %d] /AP << /N %d 0 R >>"
        place %= (600 + 50 * number, 625 + 50 * number, 8 + number)
        annotations.append(b"<< /Type /Annot /Subtype %s %s >>" % (kind, place))
        drawn = b"/Tx BMC BT /F 12 Tf 2 5 Td (%s) Tj ET EMC" % word
        words.append(pdf_stream(drawn, b"%s /Resources << %s >>" % (more, font)))
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R "
    return pdf_of([
        b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [6 0 R] /DR << %s >> >> >>" % font,
        b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        page + b"/Annots [6 0 R 7 0 R] /Resources << %s >> >>" % font,
        pdf_stream(b"BT /F 12 Tf 50 700 Td (Surname:) Tj ET"), *annotations, *words,
    ])  # fmt: skip


def locked_pdf(plain: bytes, algorithm: str, *, is_open: bool = False) -> bytes:
    """Return a PDF with a password for opening or, with ``is_open``, only for changing it."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(plain))
    password = "" if is_open else "opens it"
    writer.encrypt(user_password=password, owner_password="changes it", algorithm=algorithm)
    return saved(writer.write)


def locked_office_file() -> bytes:
    """Return the start of an encrypted Office file: OLE with the two streams of such files."""
    head = (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 16 + struct.pack("<HHHH", 62, 3, 0xFFFE, 9)
    )
    names = b"".join(name.encode("utf-16-le").ljust(128, b"\0") for name in (
        "Root Entry", "EncryptionInfo", "EncryptedPackage",
    ))  # fmt: skip
    return head.ljust(512, b"\0") + names + bytes(range(256)) * 16


def saved(save: Callable[[io.BytesIO], object]) -> bytes:
    """Return the bytes that a function writes to its file argument."""
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()
