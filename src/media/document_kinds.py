"""What a file is, by its first bytes and not by its name, and who reads it.

The libraries are imported here one by one, as they are needed: a process reads one file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from src.base.errors import DocumentKindError, DocumentProtectedError, DocumentWithoutTextError
from src.media.document_text import DocumentKind, TextCollector
from src.media.office_text import Package

Reader = Callable[[TextCollector], None]

PDF = b"%PDF-"
HEAD = 1024  # bytes; a PDF may begin with so much that is none (its old implementation notes)
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # Office files of old, and new ones with a password
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # the stream that holds those (MS-OFFCRYPTO)
RTF = b"{\\rtf"  # its words stand between commands, in codes
# The main part of an Office file; Word on the web calls it "document2.xml".
MAIN_PARTS: dict[DocumentKind, re.Pattern[str]] = {
    "docx": re.compile(r"word/document\d{0,3}\.xml"),
    "xlsx": re.compile(r"xl/workbook\d{0,3}\.(xml|bin)"),
    "pptx": re.compile(r"ppt/presentation\d{0,3}\.xml"),
}


def choose_reader(data: bytes, hint: str) -> tuple[DocumentKind, Reader]:
    """The file's kind, and the function that hands its text on.

    Args:
        data: The file.
        hint: "html" or "pdf", when it is named so: this decides where the content leaves a doubt.

    Raises:
        DocumentError: There is nothing to read, it is broken, or it needs a password.
    """
    if not data:
        raise DocumentWithoutTextError("an empty file")
    if data.lstrip()[: len(PDF)] == PDF or (hint == "pdf" and PDF in data[:HEAD]):
        from src.media.pdf_text import read_pdf

        return "pdf", partial(read_pdf, data)
    if data.startswith(ZIP):
        return _office_reader(data)
    if data.startswith(OLE) and ENCRYPTED in data:
        raise DocumentProtectedError("an Office file with a password")
    if data.startswith((OLE, RTF)):
        raise DocumentKindError("a format of old")
    return _text_reader(data, hint)


def _office_reader(data: bytes) -> tuple[DocumentKind, Reader]:
    package = Package(data)
    for kind, main_part in MAIN_PARTS.items():
        if main := next(filter(main_part.fullmatch, sorted(package.names)), None):
            return kind, _reader_of_package(kind, package, main, data)
    raise DocumentKindError("an archive")


def _reader_of_package(kind: DocumentKind, package: Package, main: str, data: bytes) -> Reader:
    if kind == "xlsx":
        from src.media.sheet_text import read_xlsx

        return partial(read_xlsx, data)
    from src.media.office_text import read_docx, read_pptx

    return partial(read_docx, package, main) if kind == "docx" else partial(read_pptx, package)


def _text_reader(data: bytes, hint: str) -> tuple[DocumentKind, Reader]:
    from src.media.plain_text import is_html, read_html, read_plain_text

    if is_html(data, is_named_so=hint == "html"):
        return "html", partial(read_html, data)
    return "text", partial(read_plain_text, data)
