"""Reads one file in a process of its own, which the file may do with as it likes.

The file comes on stdin, one line of JSON goes to stdout. Parsers are large programs, some of them
in C, and the files come from anybody. Here they find no settings, keys or users' words, cannot
open a file or a connection, start nothing, and end within bounds of memory and time.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from contextlib import suppress

from src.base.errors import AppError, DocumentBrokenError, DocumentError, DocumentTooFullError
from src.media.document_kinds import choose_reader
from src.media.document_text import DocumentText, EnoughTextError, TextCollector

MAX_MEMORY = 512 << 20  # bytes of address space; the libraries begin with some 60 MB of them
MAX_CPU_SECONDS = 10  # a thousand pages take half a second
MAX_SECONDS = 30  # also when the one who started it is gone
NOBODY = 65534  # the user without rights, on every Linux


def main(hint: str = "") -> None:
    """Read what is on stdin, and print its text, or the error that it came to.

    Args:
        hint: As ``choose_reader`` takes it.
    """
    _bound()
    data = sys.stdin.buffer.read()
    answer = json.dumps(_answer(data, hint), ensure_ascii=False)
    sys.stdout.buffer.write(answer.encode())


def shut_in() -> None:
    """From here on this process opens no file and no connection, and starts nothing."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    if os.geteuid() == 0:  # root could lift its own bounds, and the last one does not bind it
        with suppress(OSError):  # a container's root may not be free to become somebody else
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)


def _bound() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # systemd sends it to every process of a unit
    signal.alarm(MAX_SECONDS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # not a byte is written, but to the pipe
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS + 1))
    with suppress(OSError):
        os.nice(5)  # a turn that is under way comes first


def _answer(data: bytes, hint: str) -> dict[str, object]:
    """What the other side reads: the fields of a ``DocumentText``, or ``error`` and ``cause``."""
    try:
        read = _read(data, hint)
    except (DocumentError, ImportError, MemoryError, RecursionError) as error:
        return _failure(_meant_by(error), error)
    except Exception as error:  # noqa: BLE001  (a library that met what its authors did not think of)
        return _failure(DocumentBrokenError, error)
    return {"text": read.text, "is_cut": read.is_cut, "kind": read.kind}


def _read(data: bytes, hint: str) -> DocumentText:
    kind, read = choose_reader(data, hint)
    shut_in()
    collector = TextCollector()
    with suppress(EnoughTextError):
        read(collector)
    return collector.finish(kind)


def _meant_by(error: BaseException) -> type[AppError]:
    if isinstance(error, DocumentError):
        return type(error)
    return AppError if isinstance(error, ImportError) else DocumentTooFullError


def _failure(kind: type[AppError], cause: BaseException) -> dict[str, object]:
    return {"error": kind.__name__, "cause": type(cause).__name__}


if __name__ == "__main__":
    main(*sys.argv[1:])
