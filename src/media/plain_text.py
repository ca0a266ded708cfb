"""Plain text in whatever encoding: which one it is, and the words."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from charset_normalizer import from_bytes

from src.errors import DocumentKindError
from src.media.document_text import TextCollector

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


def read_plain_text(data: bytes, collector: TextCollector) -> None:
    """Hand the text to ``collector``.

    Raises:
        DocumentKindError: It is none.
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
        DocumentKindError: It is no text.
    """
    for name in _candidates(data, declared):
        text = codecs.getincrementaldecoder(name)("replace").decode(data)
        if _is_text(text, name):
            return text
    raise DocumentKindError("neither text nor a format that is read")


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
