"""Plain text in the encoding that it is in, and the text of HTML without what is not shown."""

import codecs
import re
from collections.abc import Iterator
from html.parser import HTMLParser

from charset_normalizer import from_bytes

from src.base.errors import DocumentError
from src.media import document_text as marks

MAX_READ = 1 << 20  # bytes of a text: 60,000 characters take 240,000 at most
SAMPLE = 1 << 16  # bytes that tell the encoding
# What people of our languages have besides Unicode. Let loose on everything that it knows, the
# detector takes half of all texts in cp866 for something else; so it is right for all of a hundred
# letters and more.
LEGACY = ["cp1251", "koi8_u", "cp866", "iso8859_5", "cp1252", "utf_16_le", "utf_16_be"]
MARKS = {  # what Unicode texts may begin with; UTF-32's before UTF-16's, which begins it
    codecs.BOM_UTF8: "utf_8_sig",
    codecs.BOM_UTF32_LE: "utf_32",
    codecs.BOM_UTF32_BE: "utf_32",
    codecs.BOM_UTF16_LE: "utf_16",
    codecs.BOM_UTF16_BE: "utf_16",
}
CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # without \x1b, of coloured logs
FEW = 2  # controls that any text may have; and of a long one's characters this share:
MAX_CONTROLS = 0.01  # of random bytes in a legacy encoding it is 0.1
BAD = "\ufffd"
MAX_BAD = 0.02  # of the characters beyond ASCII, for UTF-8 with a few bad bytes, as logs have

for _name in (*LEGACY, *MARKS.values(), "utf_8", "ascii"):
    codecs.lookup(_name)  # later no file can be opened to read them from


def read_plain_text(data: bytes, collector: marks.TextCollector) -> None:
    """Hand the text to ``collector``.

    Raises:
        DocumentError: It is none.
        EnoughTextError: The text is full.
    """
    if len(data) > MAX_READ:
        collector.note_rest()
    collector.add(decode(data[:MAX_READ]))


def decode(data: bytes, declared: str | None = None) -> str:
    """The text that the bytes are, or begin: what is cut off at their end is left out.

    Args:
        data: In any encoding.
        declared: The encoding's name, when the text itself tells it; Unicode needs none.

    Raises:
        DocumentError: It is no text.
    """
    for name in _candidates(data, declared):
        text = codecs.getincrementaldecoder(name)("replace").decode(data)
        if _is_text(text, name):
            return text
    raise DocumentError("kind", "neither text nor a format that is read")


def _candidates(data: bytes, declared: str | None) -> Iterator[str]:
    """Names of encodings, the likeliest first."""
    yield from (name for mark, name in MARKS.items() if data.startswith(mark))
    yield "utf_8"
    if declared in LEGACY:
        yield declared
    sample = data[: min(len(data), SAMPLE) // 2 * 2]  # whole units of UTF-16
    best = from_bytes(sample or data, cp_isolation=LEGACY).best()
    yield best.encoding if best else LEGACY[0]  # a word or two, with bytes that do not belong


def _is_text(text: str, name: str) -> bool:
    if len(CONTROLS.findall(text)) > max(FEW, MAX_CONTROLS * len(text)):
        return False
    if name != "utf_8":
        return True
    bad = text.count(BAD)
    return not bad or bad <= MAX_BAD * sum(not sign.isascii() for sign in text)


MAX_PAGE = 1 << 23  # bytes of a page: scripts and pictures may stand before its words
PIECE = 1 << 20  # characters; of what has no end the parser reads the beginning with each anew
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
    """Whether a file is a page: it begins like one, or is named so and has a tag."""
    head = data[: 1 << 16]
    return bool(OPENING.match(head) or (is_named_so and SOME_TAG.search(head)))


def read_html(data: bytes, collector: marks.TextCollector) -> None:
    """Hand the text of a page to ``collector``. Nothing that the page points to is looked at.

    Raises:
        DocumentError: It is no text.
        EnoughTextError: The text is full.
    """
    if len(data) > MAX_PAGE:
        collector.note_rest()
    found = DECLARED.search(data[:4096])
    declared = ENCODINGS.get(found[1].decode("ascii", "replace").lower()) if found else None
    page = decode(data[:MAX_PAGE], declared)
    parser = _PageParser(marks.MarkedText(OF_HTML, collector))
    for start in range(0, len(page), PIECE):
        parser.feed(page[start : start + PIECE])
    parser.close()


class _PageParser(HTMLParser):
    """Hands tags and text on; it takes every text for a page, as browsers do."""

    def __init__(self, marked: marks.MarkedText) -> None:
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
