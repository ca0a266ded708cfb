"""Plain text in any encoding, and the visible text of HTML."""

import codecs
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from src.base.errors import DocumentError
from src.media import document_text as marks
from src.texts.plain_text import LEGACY, MARKS, detect_legacy

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
PIECE = 1 << 20  # characters; the parser rescans an unclosed construct with each piece
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
    for start in range(0, len(page), PIECE):
        parser.feed(page[start : start + PIECE])
    parser.close()
    marked.finish()
