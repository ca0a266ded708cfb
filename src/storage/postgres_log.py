"""``server.log`` of the embedded PostgreSQL: bounded, readable, and without a word of a user."""

from __future__ import annotations

import re
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
        r"control file|pg_control|database files are incompatible|checkpoint record|"
        r"invalid checkpoint|pg_filenode|invalid page|"
        r"could not (?:open|read|access) (?:file|directory) \"?\"(?:base|global|pg_)|redo",
        DAMAGED,
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
        with self._path.open("r+b") as file:
            content = file.read()
            kept = STATEMENTS.sub(b"", content)
            if len(kept) > MAX_BYTES:
                self._put_aside(kept)
                kept = b""
            if kept != content:
                file.truncate(0)  # the server's descriptor appends, so it goes on at the new end
                with self._path.open("ab") as again:
                    again.write(kept)
        self._seen = len(kept)  # what comes from now on is news

    def explain(self, since: int = 0) -> str:
        """Why the server ended, from its own words after byte ``since``; one line."""
        with self._path.open("rb") as file:
            file.seek(max(since, self.size() - 65_536))
            told = STATEMENTS.sub(b"", file.read()).decode(errors="replace")
        told = told.replace(str(self._path.parent), "DATA_DIR/postgres")
        lines = [LINE_START.sub("", line) for line in told.splitlines() if line.strip()]
        text = "\n".join(lines)
        sign, cause = next(((s, m) for s, m in CAUSES if re.search(s, text)), ("", ""))
        grave = [line for line in lines if _is_grave(line) or (sign and re.search(sign, line))]
        told = "; ".join(" ".join(line.split()) for line in (grave or lines)[-SHOWN:])[:400]
        return f"{cause} ({told})" if cause and told else cause or told

    def _put_aside(self, content: bytes) -> None:
        aside = self._path.with_name(f"{self._path.name}.1")
        try:
            aside.write_bytes(content)
            aside.chmod(0o600)
        except OSError:  # a full disk, most likely: the room is worth more than old lines
            aside.unlink(missing_ok=True)


def _is_grave(line: str) -> bool:
    return line.startswith(("FATAL", "PANIC", "postgres: "))
