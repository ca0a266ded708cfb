"""Office files are archives (zip): what is in them, once it is sure that it may be unpacked.

Nothing is ever unpacked to a disk, nor an archive within the archive (a chart's own table).
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import IO

from src.errors import DocumentBrokenError, DocumentProtectedError, DocumentTooFullError

MAX_ENTRIES = 5_000  # a deck of a thousand slides has some three thousand
MAX_UNPACKED = 200 << 20  # bytes, of all entries; a large table takes a tenth of it packed
MAX_RATIO = 200  # unpacked to packed, of an entry that is large; a large table has 10 to 30
LARGE = 20 << 20  # bytes; smaller ones may be white pictures, which pack a thousand times
PIECE = 1 << 16  # bytes
INFLATED = 1 << 20  # bytes at once
LOCAL_HEADER = struct.Struct("<26xHH")  # of an entry, ending with the lengths of name and extra
FLAG_ENCRYPTED = 1
# What zipfile raises for what is no archive; it has no error of its own for much of it.
BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, KeyError, NotImplementedError,
    OSError, OverflowError, UnicodeError, ValueError,
)  # fmt: skip


class Package:
    """An archive whose size, unpacked, is known and bounded.

    Attributes:
        names: Of its entries.
    """

    def __init__(self, data: bytes) -> None:
        """Look at every entry, and inflate it to nowhere: what it declares may be a lie.

        Raises:
            DocumentError: It is broken, needs a password, or unpacks to too much.
        """
        self._data = memoryview(data)
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
            _check(self._archive.infolist(), len(data))
            self._check_sizes()
        except BROKEN as error:
            raise DocumentBrokenError("a broken archive") from error
        self.names = frozenset(self._archive.namelist())

    def pieces(self, name: str) -> Iterator[bytes]:
        """What an entry holds, bit by bit.

        Raises:
            DocumentBrokenError: There is no such entry, or it is broken.
        """
        try:
            with self._archive.open(name) as entry:
                yield from _pieces_of(entry)
        except BROKEN as error:
            raise DocumentBrokenError("a broken entry of an archive") from error

    def _check_sizes(self) -> None:
        """Raise when entries share their bytes, or are larger than they say."""
        spans = []
        for info in self._archive.infolist():
            start = info.header_offset
            name, extra = LOCAL_HEADER.unpack_from(self._data, start)
            begin = start + LOCAL_HEADER.size + name + extra
            spans.append((start, begin + info.compress_size))
            packed = self._data[begin : begin + info.compress_size]
            if info.compress_type == zipfile.ZIP_DEFLATED:
                _check_inflated(packed, info.file_size)
            elif info.compress_type != zipfile.ZIP_STORED or info.file_size != len(packed):
                raise DocumentBrokenError("an entry is packed as no office file is")
        if any(end > start for (_, end), (start, _) in pairwise(sorted(spans))):
            raise DocumentTooFullError("entries overlap")


def _pieces_of(entry: IO[bytes]) -> Iterator[bytes]:
    while piece := entry.read(PIECE):
        yield piece


def _check(entries: list[zipfile.ZipInfo], size: int) -> None:
    """Raise for what the directory alone tells."""
    if any(entry.flag_bits & FLAG_ENCRYPTED for entry in entries):
        raise DocumentProtectedError("an entry is encrypted")
    if len(entries) > MAX_ENTRIES:
        raise DocumentTooFullError("too many entries")
    if sum(entry.file_size for entry in entries) > MAX_UNPACKED:
        raise DocumentTooFullError("too much inside")
    for entry in entries:
        if entry.file_size > max(LARGE, MAX_RATIO * min(entry.compress_size, size)):
            raise DocumentTooFullError("packed too well to be honest")


def _check_inflated(packed: memoryview, declared: int) -> None:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    size = 0
    for start in range(0, len(packed), PIECE):
        rest = bytes(packed[start : start + PIECE])
        while rest and not inflater.eof:
            size += len(inflater.decompress(rest, INFLATED))
            rest = inflater.unconsumed_tail
            if size > declared:
                raise DocumentTooFullError("more inside than it says")
