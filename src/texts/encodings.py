"""Encodings of plain text in the languages of our users."""

import codecs

from charset_normalizer import from_bytes

SAMPLE = 1 << 16  # bytes for detecting the encoding
# Legacy encodings of our languages. Among all encodings that it knows, the detector mistakes half
# of the texts in cp866; restricted to these, it is right for all texts of 100 letters and more.
LEGACY = ["cp1251", "koi8_u", "cp866", "iso8859_5", "cp1252", "utf_16_le", "utf_16_be"]
MARKS = {  # byte order marks; UTF-32's before UTF-16's, which is a prefix of it
    codecs.BOM_UTF8: "utf_8_sig",
    codecs.BOM_UTF32_LE: "utf_32",
    codecs.BOM_UTF32_BE: "utf_32",
    codecs.BOM_UTF16_LE: "utf_16",
    codecs.BOM_UTF16_BE: "utf_16",
}


def detect_legacy(data: bytes) -> str:
    """Return the legacy encoding of a text that is not UTF-8, by its beginning."""
    sample = data[: min(len(data), SAMPLE) // 2 * 2]  # whole units of UTF-16
    best = from_bytes(sample or data, cp_isolation=LEGACY).best()
    return best.encoding if best else LEGACY[0]  # a few words with foreign bytes


def find_mark(data: bytes) -> str | None:
    """Return the encoding that a byte order mark names, or None."""
    return next((name for mark, name in MARKS.items() if data.startswith(mark)), None)


def detect_encoding(data: bytes) -> str:
    """Return the encoding of a text by its beginning, which may end within a character."""
    marked = find_mark(data)
    if marked is not None:
        return marked
    try:
        codecs.getincrementaldecoder("utf_8")().decode(data)
    except UnicodeDecodeError:
        return detect_legacy(data)
    return "utf_8"
