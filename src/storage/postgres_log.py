"""``server.log`` of the embedded PostgreSQL: bounded, readable, and without a word of a user."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO

MAX_BYTES = 4 * 2**20  # then it becomes server.log.1, and the one before is gone
SHOWN = 2  # of the server's last lines, in a message about a failure
# What the server adds to a PANIC, whatever its settings say: the statement, with its values. Lines
# of one entry begin with a tab.
STATEMENTS = re.compile(rb"^[^\n\t][^\n]*\] STATEMENT:  [^\n]*\n(?:\t[^\n]*\n)*", re.MULTILINE)
LINE_START = re.compile(r"^[-\d]{10} [\d:.]+ \S+ \[\d+\] ")

# What the server says when it does not start, and how an operator mends that.
DAMAGED = "it is damaged: restore DATA_DIR/postgres from a backup"
CAUSES: tuple[tuple[str, str], ...] = (
    (r"No space left on device", "the disk is full: make room under DATA_DIR"),
    (
        r"unrecognized configuration|configuration file|invalid value for parameter",
        "its postgresql.conf or postgresql.auto.conf has an error: correct it",
    ),
    (
        r"wrong ownership|invalid permissions|Permission denied",
        "its files have the wrong owner or permissions: give DATA_DIR/postgres, and all in it, to "
        "the server's user, with mode 0700",
    ),
    (r"Read-only file system", "the file system is read-only: mount it for writing"),
    (
        r"control file|pg_control|database files are incompatible|checkpoint record|"
        r"invalid checkpoint|pg_filenode|invalid page|"
        r"could not (?:open|read|access) (?:file|directory) \"?\"(?:base|global|pg_)|redo",
        DAMAGED,
    ),
    (r"could not bind|lock file|already in use", "another server seems to use it: end that one"),
    (
        r"Cannot allocate memory|could not map anonymous shared memory",
        "there is not enough memory for its cache",
    ),
)


class ServerLog:
    """The file that the server writes to; every process that uses the server may tidy it."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened yet."""
        self._path = path
        self._seen = 0

    def open(self) -> IO[bytes]:
        """The file, for a starting server to append to."""
        opened = self._path.open("ab")
        self._path.chmod(0o600)
        return opened

    def size(self) -> int:
        """Bytes so far."""
        with suppress(OSError):
            return self._path.stat().st_size
        return 0

    def has_news(self) -> bool:
        """Whether it has changed since it was tidied."""
        return self.size() != self._seen

    def tidy(self) -> None:
        """Take out statements, and put a large file aside; the server goes on appending.

        Raises:
            OSError: The file cannot be read or written.
        """
        size = self.size()
        with self._path.open("r+b") as file:
            file.seek(self._seen if self._seen < size else 0)
            has_statements = b"STATEMENT:" in file.read()
            seen = file.tell()  # what comes from now on is news
            if has_statements:
                seen = self._take_out(file)
        if seen > MAX_BYTES:
            self._put_aside()
            seen = 0
        self._seen = seen

    def tail(self, since: int = 0) -> list[str]:
        """The lines after byte ``since``, without their times; at most the last 64 KiB."""
        try:
            with self._path.open("rb") as file:
                file.seek(max(since, self.size() - 65_536))
                text = STATEMENTS.sub(b"", file.read()).decode(errors="replace")
        except OSError:
            return []
        text = text.replace(str(self._path.parent), "DATA_DIR/postgres")
        return [LINE_START.sub("", line) for line in text.splitlines() if line.strip()]

    def explain(self, since: int = 0) -> str:
        """Why the server ended, from its own words after byte ``since``; one line."""
        lines = self.tail(since)
        text = "\n".join(lines)
        sign, cause = next(((s, m) for s, m in CAUSES if re.search(s, text)), ("", ""))
        grave = [line for line in lines if _is_grave(line) or (sign and re.search(sign, line))]
        told = "; ".join(" ".join(line.split()) for line in (grave or lines)[-SHOWN:])[:400]
        return f"{cause} ({told})" if cause and told else cause or told

    def _take_out(self, file: IO[bytes]) -> int:
        """Write the file anew without them; returns how long it is then."""
        file.seek(0)
        clean = STATEMENTS.sub(b"", file.read())
        file.truncate(0)  # the server's descriptor appends, so it goes on at the new end
        with self._path.open("ab") as again:
            again.write(clean)
        return len(clean)

    def _put_aside(self) -> None:
        aside = self._path.with_name(f"{self._path.name}.1")
        try:
            shutil.copyfile(self._path, aside)
            aside.chmod(0o600)
        except OSError:  # a full disk, most likely: the room is worth more than old lines
            aside.unlink(missing_ok=True)
        os.truncate(self._path, 0)


def _is_grave(line: str) -> bool:
    return line.startswith(("FATAL", "PANIC", "postgres: "))
