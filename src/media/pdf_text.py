"""Text of PDF files, page by page, in the order of the content stream."""

import re

import pypdfium2
from pypdfium2.raw import FPDF_ERR_PASSWORD

from src.base.errors import DocumentError
from src.media.document_text import TextCollector

MAX_PAGES = 2_000  # examined; scanned pages contain no text that would reach the limit
# Hyphens that split a word at a line end; the first two are PDFium's markers.
HYPHEN = re.compile("(?<=\\w)(?:[\x02\ufffe](?:\r?\n)?|\u2010\r?\n)(?=\\w)")


def read_pdf(data: bytes, collector: TextCollector) -> None:
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
    pages = min(len(document), MAX_PAGES)
    if len(document) > pages:
        collector.mark_cut()
    readable = sum(_read_page(document, index, collector) for index in range(pages))
    if not readable:
        raise DocumentError("broken", "a PDF without a page")


def _read_page(document: pypdfium2.PdfDocument, index: int, collector: TextCollector) -> bool:
    """Return True if the page was readable."""
    try:
        page = document[index]
        text_page = page.get_textpage()
        text = text_page.get_text_bounded()
    except pypdfium2.PdfiumError:
        return False
    text_page.close()
    page.close()
    collector.add(HYPHEN.sub("", text) + "\n\n")
    return True
