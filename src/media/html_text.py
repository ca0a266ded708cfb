"""The text of a page in HTML: what a browser shows, line by line."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from src.media.document_text import TextCollector
from src.media.marked_text import MarkedText, Tags
from src.media.plain_text import decode

MAX_READ = 1 << 23  # bytes of a page: scripts and pictures may stand before its words
PIECE = 1 << 20  # characters; of what has no end the parser reads the beginning with each anew
OPENING = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]{0,200}>\s*)?(<!doctype\s+html|<html)\b", re.I
)
SOME_TAG = re.compile(rb"</?[a-z][a-z0-9]{0,9}[\s>/]", re.I)
DECLARED = re.compile(rb"charset\s*=\s*[\"']?\s*([\w-]{1,20})", re.I)
ENCODINGS = {"windows-1251": "cp1251", "koi8-r": "koi8_u", "koi8-u": "koi8_u", "ibm866": "cp866"}
OF_HTML = Tags(
    blocks=frozenset({
        "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details",
        "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3",
        "h4", "h5", "h6", "header", "hr", "main", "nav", "ol", "option", "p", "pre", "section",
        "summary", "title", "ul",
    }),
    breaks={"br": "\n", "li": "\n- "},
    tables=frozenset({"table"}),
    rows=frozenset({"tr"}),
    cells=frozenset({"td", "th"}),
    skipped=frozenset({"script", "style", "template"}),
)  # fmt: skip


def is_html(data: bytes, *, is_named_so: bool) -> bool:
    """Whether a file is a page: it begins like one, or is named so and has a tag."""
    head = data[: 1 << 16]
    return bool(OPENING.match(head) or (is_named_so and SOME_TAG.search(head)))


def read_html(data: bytes, collector: TextCollector) -> None:
    """Hand the text of a page to ``collector``. Nothing that the page points to is looked at.

    Raises:
        DocumentKindError: It is no text.
        EnoughTextError: The text is full.
    """
    if len(data) > MAX_READ:
        collector.note_rest()
    found = DECLARED.search(data[:4096])
    declared = ENCODINGS.get(found[1].decode("ascii", "replace").lower()) if found else None
    page = decode(data[:MAX_READ], declared)
    parser = _PageParser(MarkedText(OF_HTML, collector))
    for start in range(0, len(page), PIECE):
        parser.feed(page[start : start + PIECE])
    parser.close()


class _PageParser(HTMLParser):
    """Hands tags and text on; it takes every text for a page, as browsers do."""

    def __init__(self, marked: MarkedText) -> None:
        super().__init__(convert_charrefs=True)
        self._marked = marked

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._marked.start(tag)

    def handle_endtag(self, tag: str) -> None:
        self._marked.end(tag)

    def handle_data(self, data: str) -> None:
        self._marked.data(data)

    def close(self) -> None:
        super().close()
        self._marked.finish()
