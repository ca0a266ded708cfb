"""Reads one file in a process of its own, which the file may do with as it likes.

The file comes on stdin, one line of JSON goes to stdout. Parsers are large programs, some of them
in C, and the files come from strangers. Here they find no settings, keys or users' words, cannot
open a file or a connection, start nothing, and end within bounds of memory and time.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial

from src.base.errors import DocumentError
from src.media.document_text import MISSING, EnoughTextError, TextCollector

MAX_MEMORY = 512 << 20  # bytes of address space; the libraries begin with some 60 MB of them
MAX_CPU_SECONDS = 10  # a thousand pages take half a second
MAX_SECONDS = 30  # also when the one who started it is gone
NOBODY = 65534  # the user without rights, on every Linux
Reader = Callable[[TextCollector], None]

PDF = b"%PDF-"
HEAD = 1024  # bytes; a PDF may begin with so much that is none (its old implementation notes)
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # Office files of old, and new ones with a password
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # the stream that holds those (MS-OFFCRYPTO)
RTF = b"{\\rtf"  # its words stand between commands, in codes


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
        with suppress(OSError):  # a container's root may not be free to become another user
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
        read = choose_reader(data, hint)
        shut_in()
        collector = TextCollector()
        with suppress(EnoughTextError):
            read(collector)
        return asdict(collector.finish())
    except Exception as error:  # noqa: BLE001  (a library that met what its authors did not think of)
        return {"error": _meant_by(error), "cause": type(error).__name__}


def _meant_by(error: Exception) -> str:
    if isinstance(error, DocumentError):
        return error.problem
    if isinstance(error, ImportError):
        return MISSING
    return "too_full" if isinstance(error, MemoryError | RecursionError) else "broken"


def choose_reader(data: bytes, hint: str) -> Reader:
    """The function that hands the file's text on.

    Args:
        data: The file.
        hint: "html" or "pdf", when it is named so: this decides where the content leaves a doubt.

    Raises:
        DocumentError: There is nothing to read, or it needs a password.
    """
    if not data:
        raise DocumentError("without_text", "an empty file")
    if data.lstrip()[: len(PDF)] == PDF or (hint == "pdf" and PDF in data[:HEAD]):
        from src.media.pdf_text import read_pdf

        return partial(read_pdf, data)
    if data.startswith(ZIP):
        from src.media.office_text import read_office

        return partial(read_office, data)
    if data.startswith(OLE) and ENCRYPTED in data:
        raise DocumentError("protected", "an Office file with a password")
    if data.startswith((OLE, RTF)):
        raise DocumentError("kind", "a format of old")
    from src.media.plain_text import is_html, read_html, read_plain_text

    is_page = is_html(data, is_named_so=hint == "html")
    return partial(read_html if is_page else read_plain_text, data)


if __name__ == "__main__":
    main(*sys.argv[1:])
