"""Files as they come: archives within bounds, JSON as a stream, with its known errors mended."""

import codecs
import gzip
import json
import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, suppress
from datetime import date, datetime, time
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, cast

import ijson

from src.base.errors import AppError
from src.base.zones import first_moment
from src.imports.records import Broken, Opened, Reading, Records, read_or_name, title_of
from src.texts.plain_text import detect_encoding, find_mark

MAX_ENTRIES = 200_000
MAX_PACKED = 100  # archives in an archive
MAX_TOTAL = 4 << 30  # bytes of all entries that are read
MAX_RATIO = 300  # of a large entry; the JSON of chats is compressed to a tenth
SMALL = 1 << 20  # bytes of an entry whose ratio does not matter
ZIP, ZIP_EPOCH = ".zip", 1980
PAGE = ".html"
READ_ENDINGS = (".json", ".jsonl", ".gz", ".txt", ".md", ".markdown", PAGE)
# Folders of a vault that hold no notes, and those of archives that hold no files.
FOLDERS = ".obsidian .trash templates _templates шаблоны шаблони bak __macosx .git"
SKIPPED = frozenset(FOLDERS.split())
DRAWING = ".excalidraw.md"
TEMPLATES = ".obsidian/templates.json"
WINDOWS = ("cp866", "cp1251")
UTF8_FLAG = 0x800  # of an entry whose name is UTF-8
CHUNK = 1 << 16
MAX_HELD = 1 << 20  # characters without a safe place to cut
MAX_LINE = 1 << 20
MAX_STRING = 1 << 20  # characters; with each chunk yajl reads a string from its beginning again
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
BYTES = re.compile(r"(?<!\\)((?:\\\\)*)((?:\\x[0-9a-fA-F]{2})+)")
QUOTE = re.compile(r'(?<!\\)(?:\\\\)*"')
BAD_ESCAPE = re.compile(r'(?<!\\)((?:\\\\)*)\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
LAST_ESCAPE = re.compile(r"(?<=[^\\])\\+[^\\]{0,5}\Z")
UNQUOTED = re.compile(r'("document_id":[ \t]*)(?!true\b|false\b|null\b)([^\s"\d\[{,}-][^\r\n,}]*)')
NO_NUMBER = re.compile(r'((?<!\\)":\s*)(?:NaN|-?Infinity)(?=\s*[,}])')  # as Python writes it
MARK_LENGTH = 4  # bytes of the longest byte order mark
# What opening or reading an entry raises that is damaged, or packed in a way that is not known.
DAMAGED = (zlib.error, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, NotImplementedError)
SCALARS = frozenset({"string", "number", "boolean", "null"})


class UnreadableFileError(AppError):
    """A file cannot be imported; ``text_key`` names the sentence with the next step."""

    def __init__(self, text_key: str) -> None:
        """``text_key`` is the key of the sentence for the user."""
        super().__init__(text_key)
        self.text_key = text_key


def find_file(path: str) -> Opened | None:
    """Return a file of this machine; None if there is none, as for a pasted text."""
    file = Path(path).expanduser()
    return Opened(file.name, lambda: file.open("rb")) if os.path.isfile(file) else None


def open_again(file: IO[bytes]) -> BinaryIO:
    """Open a file without a name once more, at its beginning; both share one position."""
    again = os.fdopen(os.dup(file.fileno()), "rb")
    again.seek(0)
    return again


def list_entries(file: Opened, reading: Reading) -> Iterator[Opened]:
    """Yield the file itself, or the entries of an archive that may hold something.

    Raises:
        UnreadableFileError: The archive is broken, has a password, or is too large unpacked.
    """
    with file.open() as content:
        start = content.read(4)
        if start[:2] == b"\x1f\x8b":
            yield Opened(file.name, lambda: cast("BinaryIO", gzip.GzipFile(fileobj=file.open())))
            return
        if start[:2] != b"PK":
            yield file
            return
        try:
            with ExitStack() as stack:
                yield from _list_archive(stack, content, reading)
        except (zipfile.BadZipFile, NotImplementedError) as error:
            raise UnreadableFileError("import_broken_zip") from error


def _find_name_encoding(archive: zipfile.ZipFile) -> str | None:
    """Return the encoding of names that are not marked as UTF-8: macOS's, or one of Windows."""
    unmarked = [info.filename for info in archive.infolist() if not info.flag_bits & UTF8_FLAG]
    names = "".join(unmarked)
    if names.isascii():
        return None
    data = names.encode("cp437")
    with suppress(UnicodeDecodeError):
        data.decode()
        return "utf-8"
    letters = {name: sum(map(str.isalpha, data.decode(name, "replace"))) for name in WINDOWS}
    return max(letters, key=letters.__getitem__)


def _find_templates(archive: zipfile.ZipFile) -> set[str]:
    """Return the names of the folders of templates that Obsidian vaults have set."""
    folders = set()
    for info in archive.infolist():
        if info.filename.endswith(TEMPLATES) and info.file_size < SMALL:
            with suppress(ValueError, AttributeError):
                folder = str(json.loads(archive.read(info)).get("folder") or "templates")
                folders.add(PurePosixPath(folder.lower()).name)
    return folders


def _list_archive(stack: ExitStack, content: BinaryIO, reading: Reading) -> Iterator[Opened]:
    """Yield the entries of an archive; of one that holds archives alone, also theirs.

    Damaged ones come as they are. Beside a chat archives are what people sent each other.
    """
    archive = _open_archive(stack, content)
    found = dict.fromkeys(_choose(archive, READ_ENDINGS), archive)
    packed = _choose(archive, (ZIP,))
    if not all(info.filename.endswith(PAGE) for info in found):
        packed = []
    if len(packed) > MAX_PACKED:
        raise UnreadableFileError("import_too_big")
    _check_size([*found, *packed])
    for info in packed:
        unpacked = stack.enter_context(_open_temporary())
        try:
            with archive.open(info) as entry:
                shutil.copyfileobj(entry, unpacked)
            inner = _open_archive(stack, unpacked)
            found |= dict.fromkeys(_choose(inner, READ_ENDINGS), inner)
        except DAMAGED:
            found[info] = archive
    _check_size(found)
    for info in sorted(found, key=lambda info: info.filename):
        yield _open_entry(found[info], info, reading)


def _open_temporary() -> BinaryIO:
    return cast("BinaryIO", tempfile.TemporaryFile())


def _open_archive(stack: ExitStack, content: BinaryIO) -> zipfile.ZipFile:
    with zipfile.ZipFile(content) as archive:
        encoding = _find_name_encoding(archive)
    return stack.enter_context(zipfile.ZipFile(content, metadata_encoding=encoding))


def _check_size(infos: Collection[zipfile.ZipInfo]) -> None:
    is_bomb = any(info.file_size > max(SMALL, MAX_RATIO * info.compress_size) for info in infos)
    if is_bomb or sum(info.file_size for info in infos) > MAX_TOTAL:
        raise UnreadableFileError("import_too_big")


def _choose(archive: zipfile.ZipFile, endings: tuple[str, ...]) -> list[zipfile.ZipInfo]:
    """Return the entries with one of these endings that may hold something."""
    infos = archive.infolist()
    if len(infos) > MAX_ENTRIES:
        raise UnreadableFileError("import_too_big")
    skipped = SKIPPED | _find_templates(archive)
    wanted = []
    for info in infos:
        path = PurePosixPath(info.filename)
        folders = {part.lower() for part in path.parts[:-1]}
        is_link = stat.S_ISLNK(info.external_attr >> 16)
        is_hidden = path.name.startswith(".") or not folders.isdisjoint(skipped)
        has_ending = path.name.lower().endswith(endings) and not path.name.endswith(DRAWING)
        if not has_ending or info.is_dir() or is_link or is_hidden:
            continue
        if info.flag_bits & 1:
            raise UnreadableFileError("import_password")
        wanted.append(info)
    return wanted


def _open_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, reading: Reading) -> Opened:
    changed_at = None
    with suppress(ValueError, OverflowError):
        day, moment = date(*info.date_time[:3]), time(*info.date_time[3:])
        if day.year > ZIP_EPOCH:  # which stands for no time
            changed_at = first_moment(datetime.combine(day, moment), reading.time_zone)

    def open_it() -> BinaryIO:
        content = cast("BinaryIO", archive.open(info))
        if info.filename.lower().endswith(ZIP):
            raise zipfile.BadZipFile
        if info.filename.lower().endswith(".gz"):
            return cast("BinaryIO", gzip.GzipFile(fileobj=content))
        return content

    return Opened(info.filename, open_it, changed_at)


class MendedJson:
    """Reader of JSON whose known errors are mended: Telegram's broken escapes and bare values.

    Bytes that are not UTF-8 become U+FFFD. Strings end after some MAX_STRING characters.
    """

    def __init__(self, content: BinaryIO) -> None:
        """Read ``content``, in UTF-8 or what its byte order mark names."""
        self._content = BufferedReader(cast("RawIOBase", content))
        encoding = find_mark(self._content.peek(MARK_LENGTH)) or "utf_8_sig"
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._held = ""
        self._mended = b""
        self._is_over = False
        self._read = 0
        self._since_quote = 0  # characters

    def read(self, size: int = CHUNK) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        while len(self._mended) < size and not self._is_over:
            data = self._content.read(CHUNK)
            self._read += len(data)
            if self._read > MAX_TOTAL:
                raise UnreadableFileError("import_too_big")
            self._is_over = not data
            text = self._held + self._decoder.decode(data, final=self._is_over)
            cut = len(text)
            if not self._is_over:
                cut = _find_cut(text)
            self._held = text[cut:]
            mended = mend_json(self._shorten_string(text[:cut]))
            self._mended += mended.encode("utf-8", "replace")
        part, self._mended = self._mended[:size], self._mended[size:]
        return part

    def _shorten_string(self, text: str) -> str:
        """Return the next piece without what lies too far behind the quote that opens a string."""
        if self._since_quote > MAX_STRING:
            end = QUOTE.search(text)
            if end is None:
                return ""
            text = text[end.end() - 1 :]
        last = text.rfind('"')
        while last > 0 and text[last - 1] == "\\":
            last = text.rfind('"', 0, last)
        self._since_quote = len(text) - last if last >= 0 else self._since_quote + len(text)
        return text


def _find_cut(text: str) -> int:
    """Return the end of the last line, else a place that is within no escape."""
    cut = text.rfind("\n") + 1
    if cut:
        return cut
    for mark in (",", " "):
        cut = text.rfind(mark)
        if cut > 0 and text[cut - 1] != "\\":
            return cut
    if len(text) <= MAX_HELD:
        return 0
    escape = LAST_ESCAPE.search(text)
    return escape.start() if escape else len(text)


def mend_json(text: str) -> str:
    r"""Mend ``\xNN``, other escapes and values that JSON has not."""
    if "\\" in text:
        text = BYTES.sub(_unescape_bytes, text)
        text = BAD_ESCAPE.sub(r"\1\\\\", text)
    if '"document_id"' in text:
        text = UNQUOTED.sub(r'\1"\2"', text)
    return CONTROLS.sub(" ", NO_NUMBER.sub(r"\1null", text))


def _unescape_bytes(match: re.Match[str]) -> str:
    data = bytes.fromhex(match[2].replace("\\x", ""))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return match[1] + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text)


def read_each(file: Opened, prefix: str, read_one: Callable[[Any], Records]) -> Records:
    """Yield the records of each value at a prefix; a malformed one loses only itself.

    A file with an error in its syntax yields Broken, and ends there.

    Args:
        file: The file.
        prefix: See ``ijson.items``.
        read_one: Reads a value (see ``read_or_name``).
    """
    with file.open() as content:
        items = ijson.items(MendedJson(content), prefix, use_float=True, multiple_values=True)
        try:
            for number, value in enumerate(items, 1):
                names = value if isinstance(value, dict) else {}
                name = title_of(names.get("title") or names.get("name"))
                yield from read_or_name(read_one, value, name or f"{file.name} #{number}")
        except ijson.JSONError:
            yield Broken(file.name, is_end=True)


def walk_json(file: Opened, objects: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield each value with its prefix: objects at one of these prefixes whole, else scalars.

    A file with an error in its syntax yields Broken, and ends there.
    """
    whole, at = None, ""
    with file.open() as content:
        events = ijson.parse(MendedJson(content), use_float=True, multiple_values=True)
        try:
            for prefix, event, value in events:
                if whole is None:
                    if event in SCALARS:
                        yield prefix, value
                    elif event == "start_map" and prefix in objects:
                        whole, at = ijson.ObjectBuilder(), prefix
                        whole.event(event, value)
                    continue
                whole.event(event, value)
                if event == "end_map" and prefix == at:
                    yield at, whole.value
                    whole = None
        except ijson.JSONError:
            yield "", Broken(file.name, is_end=True)


def read_lines(file: Opened) -> Iterator[str]:
    """Yield the lines of a text without their ends, in the encoding of its beginning.

    A line of more than MAX_LINE characters is cut into several.
    """
    with file.open() as content:
        encoding = detect_encoding(content.read(CHUNK))
    with file.open() as content, TextIOWrapper(content, encoding, "replace") as lines:
        while line := lines.readline(MAX_LINE):
            yield line.rstrip("\n")


def read_head(file: Opened) -> str:
    """Return the beginning of a text, without the last line if that may be cut."""
    with file.open() as content:
        data = content.read(CHUNK)
    text = data.decode(detect_encoding(data), "replace")
    return text.rpartition("\n")[0] if len(data) == CHUNK and "\n" in text else text
