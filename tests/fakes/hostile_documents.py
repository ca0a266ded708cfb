"""Broken and malicious files by kind and name, more than 50 of each kind."""

from __future__ import annotations

import gzip
import io
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable

from tests.fakes.documents import (
    archive,
    cell,
    drawing,
    excel_file,
    locked_office_file,
    locked_pdf,
    office_file,
    overlapping_archive,
    patched,
    pdf_file,
    pdf_lines,
    pdf_of,
    pdf_page,
    pdf_stream,
    raw_excel_file,
    raw_word_file,
    scanned_pdf,
    slides_file,
    word_file,
    word_paragraph,
    word_xml,
)

Files = dict[str, bytes]
MEGABYTE = 1 << 20
LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{n} "' + f"&a{n - 1};" * 10 + '">' for n in range(1, 12))
    + "]>"
)
QUADRATIC = f'<!DOCTYPE x [<!ENTITY a "{"ha" * 50_000}">]>'


def hostile_files(secret: str) -> dict[str, Files]:
    """Return hostile files by kind; those that can reference a file reference ``secret``."""
    return {
        "pdf": pdf_files(),
        "docx": word_files(secret),
        "xlsx": excel_files(secret),
        "text": text_files(secret),
        "zip": archives(),
    }


def damaged(whole: bytes, *, cuts: int = 10, flips: int = 10) -> Files:
    """Return damaged copies of a file: truncated, with changed bytes, without its middle."""
    files = {f"cut at {n}/{cuts}": whole[: len(whole) * n // cuts] for n in range(cuts)}
    files["without its last byte"] = whole[:-1]
    for seed in range(flips):
        rng, bytes_ = random.Random(seed), bytearray(whole)
        for _ in range(1 + seed * 3):
            bytes_[rng.randrange(len(bytes_))] = rng.randrange(256)
        files[f"flipped with seed {seed}"] = bytes(bytes_)
    third = len(whole) // 3
    files["without its middle"] = whole[:third] + whole[2 * third :]
    files["twice"] = whole + whole
    files["backwards"] = whole[:8] + whole[:7:-1]
    files["with a tail"] = whole + random.Random(1).randbytes(5000)
    return files


def pdf_files() -> Files:
    """Return PDFs that are broken, active or cyclic."""
    whole = pdf_file([["Договор", "Їжак"], ["Second page"]])
    catalogue, pages = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
    )
    bomb = zlib.compress(b" " * (100 * MEGABYTE))
    return damaged(whole) | {
        "only a head": b"%PDF-1.7",
        "a head and rubbish": b"%PDF-1.7\n" + random.Random(2).randbytes(20_000),
        "JavaScript": pdf_file(
            [["text"]],
            "/OpenAction << /S /JavaScript /JS (while\\(true\\){}) >> /AA << /WC 6 0 R >>",
            [b"<< /S /JavaScript /JS (app.launchURL\\('http://127.0.0.1:9/'\\)) >>"],
        ),
        "a launched program": pdf_file([["text"]], "/OpenAction << /S /Launch /F (/bin/sh) >>"),
        "a file from elsewhere": pdf_file([["text"]], "", [
            b"<< /Length 0 /F (/etc/passwd) >>\nstream\n\nendstream",
        ]),
        "a thousand million pages": pdf_of([
            catalogue, b"<< /Type /Pages /Count 1000000000 /Kids [3 0 R] >>", pdf_page(4),
            pdf_stream(pdf_lines(["text"])),
        ]),
        "fewer than no pages": whole.replace(b"/Count 2", b"/Count -9"),
        "a page that is its own parent": pdf_of([
            catalogue, b"<< /Type /Pages /Count 9 /Kids [2 0 R 2 0 R] /Parent 2 0 R >>",
        ]),
        "pages in a circle": pdf_of([
            catalogue, b"<< /Type /Pages /Count 9 /Kids [3 0 R] >>",
            b"<< /Type /Pages /Count 9 /Kids [2 0 R] /Parent 2 0 R >>",
        ]),
        "a deep tree of pages": pdf_of([
            catalogue,
            *(b"<< /Type /Pages /Count 1 /Kids [%d 0 R] >>" % (n + 3) for n in range(20_000)),
        ]),
        "huge object numbers": pdf_of([
            catalogue, b"<< /Type /Pages /Count 1 /Kids [4294967295 0 R 99999999999999 0 R] >>",
        ]),
        "a huge size": pdf_of([catalogue, pages, pdf_page(4)], b"/Size 2147483647"),
        "deep arrays": pdf_of([catalogue, b"<< /Kids " + b"[" * 500_000]),
        "deep dictionaries": pdf_of([catalogue, b"<< /A " * 300_000]),
        "a deep catalogue": pdf_of([
            b"<< /Type /Catalog /X " + b"[" * 100_000 + b"]" * 100_000 + b" >>", pages,
        ]),
        "a stream longer than the file": whole.replace(b"/Length ", b"/Length 99999999"),
        "a length that is itself": pdf_of([
            catalogue, pages, pdf_page(4), b"<< /Length 4 0 R >>\nstream\nBT ET\nendstream",
        ]),
        "a bomb": pdf_of([
            catalogue, pages, pdf_page(4), pdf_stream(bomb, b"/Filter /FlateDecode"),
        ]),
        "a bomb in a bomb": pdf_of([
            catalogue, pages, pdf_page(4),
            pdf_stream(zlib.compress(bomb), b"/Filter [/FlateDecode /FlateDecode]"),
        ]),
        "a thousand filters": pdf_of([
            catalogue, pages, pdf_page(4),
            pdf_stream(b"x", b"/Filter [" + b"/ASCIIHexDecode " * 1000 + b"]"),
        ]),
        "a form that draws itself": pdf_of([
            catalogue, pages,
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 5 0 R "
            b"/Resources << /XObject << /X 4 0 R >> >> >>",
            pdf_stream(b"/X Do /X Do", b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] "
                       b"/Resources << /XObject << /X 4 0 R >> >>"),
            pdf_stream(b"/X Do"),
        ]),
        "a font that is itself": pdf_of([
            catalogue, pages, pdf_page(4), pdf_stream(pdf_lines(["text"])),
        ]).replace(b"/F 3 0 R", b"/F 4 0 R"),
        "an endless former table": whole.replace(b"trailer\n<<", b"trailer\n<< /Prev 9 "),
        "no table": whole[: whole.rindex(b"xref\n0")] + b"%%EOF",
        "a million marks": pdf_file([["text"] * 40_000]),
        "deep operators": pdf_of([
            catalogue, pages, pdf_page(4), pdf_stream(b"q " * 500_000 + b"[" * 100_000),
        ]),
        "a huge page": whole.replace(b"[0 0 595 842]", b"[0 0 1e38 -1e38]"),
        "only pictures": scanned_pdf(),
        "a password": locked_pdf(whole, "RC4-128"),
        "named a PDF, being HTML": b"<html><body>hi",
        "named a PDF, being Word": word_file(["text"]),
        "five thousand pages": pdf_of([
            catalogue, b"<< /Type /Pages /Count 5000 /Kids [" + b"3 0 R " * 5000 + b"] >>",
            pdf_page(4), pdf_stream(b"BT ET"),
        ]),
    }  # fmt: skip


def word_files(secret: str) -> Files:
    """Return hostile Word and PowerPoint files."""
    whole = word_file(["Договор аренды", "Їжак і ґанок"], [["a", "b"], ["c", "d"]])
    slides = slides_file([["Слайд"], ["Другий"]])
    text = word_paragraph("text")
    bad_slides = damaged(slides, cuts=2, flips=4)
    return damaged(whole) | {f"slides {name}": data for name, data in bad_slides.items()} | {
        "billion laughs": raw_word_file(word_xml(word_paragraph("&a11;"), LAUGHS)),
        "quadratic laughs": raw_word_file(word_xml(word_paragraph("&a;" * 5000), QUADRATIC)),
        "laughs in slides": office_file({
            "ppt/presentation.xml": "<p/>",
            "ppt/slides/slide1.xml": LAUGHS + drawing(["&a11;"]),
        }),
        "laughs in notes": raw_word_file(word_xml(text), {
            "word/footnotes.xml": word_xml(word_paragraph("&a11;"), LAUGHS),
        }),
        "a file as an entity": raw_word_file(word_xml(
            word_paragraph("&x;"), f'<!DOCTYPE x [<!ENTITY x SYSTEM "file://{secret}">]>'
        )),
        "a file as a parameter": raw_word_file(word_xml(
            text, f'<!DOCTYPE x [<!ENTITY % x SYSTEM "file://{secret}"> %x;]>'
        )),
        "a file as a document type": raw_word_file(word_xml(
            text, f'<!DOCTYPE x SYSTEM "file://{secret}">'
        )),
        "an address as an entity": raw_word_file(word_xml(
            word_paragraph("&x;"), '<!DOCTYPE x [<!ENTITY x SYSTEM "http://127.0.0.1:9/">]>'
        )),
        "a file by inclusion": raw_word_file(word_xml(
            '<i:include xmlns:i="http://www.w3.org/2001/XInclude" parse="text" '
            f'href="file://{secret}"/>'
        )),
        "a link as a part": raw_word_file(word_xml(text), {
            "word/_rels/document.xml.rels": f'<Relationships><Relationship Id="r" '
            f'TargetMode="External" Target="file://{secret}"/></Relationships>',
        }),
        "deep paragraphs": raw_word_file(word_xml("<w:p>" * 300_000)),
        "deep tables": raw_word_file(word_xml("<w:tbl><w:tr><w:tc>" * 100_000 + text)),
        "ends without beginnings": raw_word_file(word_xml("</w:tbl></w:tc></w:p>")),
        "a huge word": raw_word_file(word_xml(word_paragraph("я" * 5_000_000))),
        "a huge name": raw_word_file(word_xml(f"<w:{'p' * 3_000_000}/>")),
        "a huge attribute": raw_word_file(word_xml(f'<w:p w:a="{"x" * 5_000_000}"/>')),
        "many attributes": raw_word_file(word_xml(
            "<w:p " + " ".join(f'a{n}="1"' for n in range(50_000)) + "/>"
        )),
        "a million paragraphs": raw_word_file(word_xml("<w:p/>" * 1_000_000)),
        "no XML": raw_word_file(random.Random(3).randbytes(9000)),
        "nothing": raw_word_file(b""),
        "no text": raw_word_file(word_xml("")),
        "controls": raw_word_file(word_xml(word_paragraph("a&#1;b&#0;c"))),
        "half a pair": raw_word_file(word_xml(word_paragraph("&#xD800;"))),
        "bad UTF-8": raw_word_file(word_xml(word_paragraph("@")).encode().replace(b"@", b"\xff")),
        "an encoding that is none": raw_word_file(word_xml(text).replace("UTF-8", "nonsense")),
        "another encoding than it says": raw_word_file(word_xml(text).encode("utf-16")),
        "a bomb": raw_word_file(word_xml(" " * (24 * MEGABYTE))),
        "a bomb beside": raw_word_file(word_xml(text), {"word/media/a.png": bytes(24 * MEGABYTE)}),
        "a password": locked_office_file(),
        "old Word": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(3000),
        "main part is a folder": office_file({"word/document.xml/": b""}),
    }  # fmt: skip


def excel_files(secret: str) -> Files:
    """Return hostile Excel files."""
    whole = excel_file({"Лист": [["Сумма", 1.5], ["Їжак", "=1+1"]], "Другий": [["x"]]})
    entity = f'<!DOCTYPE x [<!ENTITY x SYSTEM "file://{secret}">]>'
    text = '<row r="1"><c r="A1" t="inlineStr"><is><t>{}</t></is></c></row>'
    return damaged(whole) | {
        "the last cell": raw_excel_file(cell("A1", 1) + cell("XFD1048576", 2, 1048576)),
        "a cell beyond the last": raw_excel_file(cell("ZZZZZZZZ99999999999", 2)),
        "a tall sheet": raw_excel_file(cell("A1", 1) + cell("T1048576", 2, 1048576)),
        "row zero": raw_excel_file(cell("A0", 1, 0)),
        "row minus one": raw_excel_file(cell("A-1", 1, -1)),
        "no row at all": raw_excel_file('<c r="A1"><v>1</v></c>'),
        "a huge range": raw_excel_file(cell("A1", 1)).replace(b"A1", b"A9"),
        "a formula that calls": excel_file({"A": [
            ["=WEBSERVICE(\"http://127.0.0.1:9/\")", "=cmd|' /C calc'!A0", "=" + "(" * 5000],
        ]}),
        "a shared string beyond the last": raw_excel_file(
            '<row r="1"><c r="A1" t="s"><v>4294967295</v></c></row>'
        ),
        "a style beyond the last": raw_excel_file(
            '<row r="1"><c r="A1" s="4294967295"><v>1</v></c></row>'
        ),
        "billion laughs": raw_excel_file(text.format("&a11;"), LAUGHS),
        "quadratic laughs": raw_excel_file(text.format("&a;" * 5000), QUADRATIC),
        "a file as an entity": raw_excel_file(text.format("&x;"), entity),
        "a million cells": raw_excel_file("".join(
            f'<row r="{n}"><c r="A{n}"><v>1</v></c></row>' for n in range(1, 200_000)
        )),
        "a huge word": raw_excel_file(text.format("я" * 5_000_000)),
        "huge numbers": raw_excel_file(cell("A1", "9" * 100_000) + cell("A2", "1e999", 2)),
        "no numbers": raw_excel_file(cell("A1", "NaN") + cell("A2", "-inf", 2)),
        "deep XML": raw_excel_file("<x>" * 300_000),
        "an unknown type": raw_excel_file('<row r="1"><c r="A1" t="zz"><v>1</v></c></row>'),
        "an error as a value": raw_excel_file(
            '<row r="1"><c r="A1" t="e"><v>#DIV/0!</v></c><c r="B1" t="e"><v>#X</v></c></row>'
        ),
        "a sheet that is not there": raw_excel_file("", workbook=(
            '<workbook><sheets><sheet name="A" sheetId="1" id="r9"/></sheets></workbook>'
        )),
        "a sheet outside": office_file({
            "xl/workbook.xml": "<workbook/>", "../../etc/passwd": "x",
        }),
        "ten thousand sheets": raw_excel_file("", workbook="<workbook><sheets>" + "".join(
            f'<sheet name="{n}" sheetId="{n}" id="r1"/>' for n in range(10_000)
        ) + "</sheets></workbook>"),
        "no sheets": office_file({"xl/workbook.xml": "<workbook/>"}),
        "no XML": office_file({"xl/workbook.xml": random.Random(4).randbytes(9000)}),
        "a binary workbook of rubbish": office_file({"xl/workbook.bin": bytes(range(256)) * 50}),
        "nothing": office_file({"xl/workbook.xml": b""}),
        "a bomb": raw_excel_file(" " * (24 * MEGABYTE)),
        "an empty table": excel_file({"A": []}),
        "a password": locked_office_file(),
        "old Excel": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + random.Random(5).randbytes(3000),
    }  # fmt: skip


def text_files(secret: str) -> Files:
    """Return hostile texts, tables and web pages, and binary files under such names."""
    rng = random.Random(6)
    page = "<!doctype html><title>т</title><p>Їжак<table><tr><td>1<td>2</table>".encode()
    laughs = f"<svg>&a11;{secret}</svg>"
    return damaged(page, cuts=3, flips=4) | {
        "empty": b"",
        "one byte": b"\xff",
        "only NUL": bytes(5000),
        "only spaces": b" \t\r\n" * 50_000,
        "only a mark": b"\xef\xbb\xbf",
        "half a UTF-16": "Їжак".encode("utf-16")[:-1],
        "half a UTF-32": "Їжак".encode("utf-32")[:-1],
        "half a letter": "Їжак".encode()[:-1],
        "pairs in UTF-8": b"\xed\xa0\x80\xed\xb0\x80 text " * 50,
        "overlong UTF-8": b"\xc0\x80\xe0\x80\xaf text " * 50,
        "NUL between": b"a\0b\0\0c text of some length" * 30,
        "coloured": b"\x1b[31mred\x1b[0m\n" * 1000,
        "random": rng.randbytes(50_000),
        "a picture": b"\x89PNG\r\n\x1a\n" + rng.randbytes(5000),
        "a photo": b"\xff\xd8\xff\xe0" + rng.randbytes(5000),
        "a program": b"\x7fELF\x02\x01\x01" + rng.randbytes(5000),
        "music": b"ID3\x04" + rng.randbytes(5000),
        "rich text": b"{\\rtf1\\ansi text}",
        "packed": gzip.compress(b"text" * 1000),
        "a million columns": b",".join([b"1"] * 1_000_000),
        "a long line": "я".encode() * 5_000_000,
        "many lines": b"\n" * 5_000_000 + b"end",
        "deep JSON": b"[" * 1_000_000,
        "laughs in svg": (LAUGHS + laughs).encode(),
        "laughs in HTML": f"<!doctype html>{LAUGHS}<p>&a11;</p>".encode(),
        "a file in svg": f'<!DOCTYPE s [<!ENTITY x SYSTEM "file://{secret}">]><s>&x;</s>'.encode(),
        "a file in HTML": f'<html><!DOCTYPE s [<!ENTITY x SYSTEM "file://{secret}">]>&x;'.encode(),
        "a file in a frame": f'<html><iframe src="file://{secret}"></iframe>'.encode(),
        "a file as a picture": f'<html><img src="file://{secret}">'.encode(),
        "deep HTML": b"<html>" + b"<div>" * 100_000,
        "deep tables": b"<html>" + b"<table><tr><td>" * 30_000,
        "ends alone": b"<html>" + b"</table></tr></td></p>" * 50_000,
        "open comments": b"<html>" + b"<!--" * 5000,
        "open tags": b"<html>" + b"<a " * 1000,
        "open attributes": b"<html>" + b"<a b='" * 1000,
        "open declarations": b"<html>" + b"<![" * 3000,
        "a script without end": b"<html><script>" + b"x" * 1_000_000,
        "a huge tag": b"<html><" + b"a" * 3_000_000,
        "a huge attribute": b"<html><a b='" + b"x" * 3_000_000 + b"'>text",
        "odd references": b"<html>&#xD800;&#0;&#x110000;&#99999999999999;&nope;&#xFFFE;",
        "many references": b"<html>" + b"&amp;" * 500_000,
        "an odd encoding": b"<html><meta charset=utf-7>+ADw-script+AD4-",
        "a wrong encoding": b"<html><meta charset=windows-1251>" + "Їжак".encode(),
        "brackets": b"<html>" + b"<" * 100_000,
        "spreadsheet of formulas": b"=cmd|' /C calc'!A0,@SUM(1+1)\n" * 1000,
    }


def archives() -> Files:
    """Return archives: bombs, ones with wrong headers, and ones that are no Office file."""
    word = word_file(["text"])
    text = word_xml(word_paragraph("text"))
    stored = archive({"a.txt": "text"}, zipfile.ZIP_STORED)
    doubled = io.BytesIO(archive({"[Content_Types].xml": "<Types/>", "word/document.xml": text}))
    with zipfile.ZipFile(doubled, "a") as made:
        made.writestr("word/dOcument.xml", "second")
    bomb = archive({"0.bin": bytes(24 * MEGABYTE)})
    nested = archive({f"{n}.zip": bomb for n in range(16)})
    four = struct.pack("<I", 0xFFFFFFF0)
    many = {f"word/{n}.xml": b"" for n in range(20_000)}
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as packed:
        packed.addfile(tarfile.TarInfo("../../x"), io.BytesIO(b""))
    office = raw_word_file(text)
    changes: dict[str, Callable[[], bytes]] = {
        "encrypted entries": lambda: patched(office, 8, b"\x01\x00"),
        "four gigabytes, by its word": lambda: patched(office, 24, four),
        "four gigabytes packed": lambda: patched(office, 20, four),
        "less inside than it says": lambda: patched(office, 24, struct.pack("<I", 900)),
        "more inside than it says": lambda: patched(office, 24, struct.pack("<I", 9)),
        "an unknown method": lambda: patched(office, 10, b"\x63\x00"),
        "an old method": lambda: patched(office, 10, b"\x0c\x00"),
        "stored, by its word": lambda: patched(office, 10, b"\x00\x00"),
        "entries elsewhere": lambda: patched(office, 42, four),
        "a long name": lambda: patched(office, 28, b"\xff\xff"),
        "a long extra": lambda: patched(office, 30, b"\xff\xff"),
        "a local name too long": lambda: patched(office, 26, b"\xff\xff", is_local=True),
        "another local size": lambda: patched(office, 22, four, is_local=True),
        "another check sum": lambda: patched(office, 16, b"\0\0\0\0"),
        "needs a newer version": lambda: patched(office, 6, b"\xff\x00"),
        "an odd date": lambda: patched(office, 12, b"\xff\xff\xff\xff"),
    }
    return damaged(word, cuts=3, flips=3) | {name: make() for name, make in changes.items()} | {
        "a bomb": bomb,
        "a bomb of Word": office_file({"word/document.xml": bytes(24 * MEGABYTE)}),
        "bombs in bombs": nested,
        "bombs in Word": raw_word_file(text, {"word/embeddings/1.zip": nested}),
        "one byte below a bomb": office_file({"word/document.xml": b" " * MEGABYTE}),
        "overlapping": overlapping_archive(
            ["word/document.xml", *(f"{n}.xml" for n in range(2000))], bytes(MEGABYTE // 2)
        ),
        "overlapping, small": overlapping_archive(["word/document.xml", "b.xml"], text.encode()),
        "twenty thousand entries": archive(many),
        "twice the same name": archive({"a": "1"})[:-22] + archive({"a": "1"}),
        "nearly the same name": doubled.getvalue(),
        "paths that climb": archive({f"{'../' * 20}tmp/pomni-{n}": "x" for n in range(9)}),
        "paths from the root": archive({
            "/etc/cron.d/x": "x", "C:\\x": "x", "word/document.xml": text,
        }),
        "paths of devices": archive({"/dev/sda": "x", "word/../word/document.xml": text}),
        "names with NUL": archive({"word/document.xml": text}).replace(b"word/d", b"word\0d"),
        "names in no encoding": patched(archive({"яяяя": text}), 46, b"\xff\xfe\xff\xfe"),
        "only an end": b"PK\x05\x06" + bytes(18),
        "an end that lies": b"PK\x05\x06" + bytes(4) + b"\xff" * 12 + bytes(2),
        "an end far away": stored[:-6] + b"\xff\xff\xff\x7f\0\0",
        "a head and rubbish": b"PK\x03\x04" + random.Random(7).randbytes(9000),
        "zip64 without its end": stored[:-22] + b"PK\x06\x07" + bytes(16) + stored[-22:],
        "a plain archive": archive({"a.txt": "text"}),
        "Word in an archive": archive({"a.docx": word}),
        "open document": archive({"mimetype": "application/vnd.oasis.opendocument.text"}),
        "a book": archive({"mimetype": "application/epub+zip"}),
        "an app": archive({"AndroidManifest.xml": b"\x03\0", "classes.dex": b"dex\n"}),
        "gzip": gzip.compress(word),
        "tar": tar.getvalue(),
        "7z": b"7z\xbc\xaf\x27\x1c" + random.Random(8).randbytes(500),
        "rar": b"Rar!\x1a\x07\x01\x00" + random.Random(9).randbytes(500),
        "xz": b"\xfd7zXZ\x00" + random.Random(10).randbytes(500),
    }  # fmt: skip
