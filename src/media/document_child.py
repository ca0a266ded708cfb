"""Child process that extracts the text of one untrusted file.

The file comes on stdin, one line of JSON goes to stdout. Parsers are large programs, partly in C,
and the files come from strangers. In this process they find no settings, keys or user data, cannot
open a file or a connection, start no process, and have limits of memory and time.
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
from src.media.document_text import MAX_ANSWER, MISSING, EnoughTextError, TextCollector

MAX_MEMORY = 512 << 20  # bytes of address space; the libraries take some 60 MB of them
MAX_CPU_SECONDS = 10  # a thousand pages take half a second
MAX_SECONDS = 30  # enforced even if the parent is gone
NOBODY = 65534  # id of the unprivileged user, on every Linux
Reader = Callable[[TextCollector], None]

PDF = b"%PDF-"
HEAD = 1024  # bytes that may precede a PDF's header (Adobe's implementation notes)
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # old Office files, and new ones with a password
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # stream of the latter (MS-OFFCRYPTO)
RTF = b"{\\rtf"  # not plain text: its words are encoded, between commands


def main(hint: str = "") -> None:
    """Read a file from stdin, and print its text or an error.

    Args:
        hint: See ``choose_reader``.
    """
    limit_resources()
    data = sys.stdin.buffer.read()
    answer = json.dumps(_extract_text(data, hint), ensure_ascii=False)
    sys.stdout.buffer.write(answer.encode())


def limit_resources() -> None:
    """Limit the time, the memory and the output of this process."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # systemd sends it to every process of a unit
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
    signal.alarm(MAX_SECONDS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_ANSWER, MAX_ANSWER))  # stdout is a file
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS + 1))
    os.nice(5)  # turns in progress take precedence


def lock_down() -> None:
    """Forbid this process to open files or connections, and to start processes."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    if os.geteuid() == 0:  # root could lift the limits, and RLIMIT_NPROC does not apply to it
        with suppress(OSError):  # a container's root may lack the right to change the user
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)


def _extract_text(data: bytes, hint: str) -> dict[str, object]:
    """Return the fields of a ``DocumentText``, or ``error`` and ``cause``."""
    try:
        read = choose_reader(data, hint)
        lock_down()
        collector = TextCollector()
        with suppress(EnoughTextError):
            read(collector)
        return asdict(collector.finish())
    except Exception as error:  # noqa: BLE001  (libraries raise anything on malformed files)
        return {"error": _classify_error(error), "cause": type(error).__name__}


def _classify_error(error: Exception) -> str:
    if isinstance(error, DocumentError):
        return error.problem
    if isinstance(error, ImportError):
        return MISSING
    if isinstance(error, MemoryError | RecursionError):
        return "too_full"
    return "broken"


def choose_reader(data: bytes, hint: str) -> Reader:
    """Return the function that extracts the text of a file.

    Args:
        data: The file.
        hint: "html" or "pdf" according to the file name; it decides where the content is
            ambiguous.

    Raises:
        DocumentError: There is nothing to read, or it needs a password.
    """
    if not data:
        raise DocumentError("without_text", "an empty file")
    from src.media import file_formats

    if data.lstrip()[: len(PDF)] == PDF or (hint == "pdf" and PDF in data[:HEAD]):
        return partial(file_formats.read_pdf, data)
    if data.startswith(ZIP):
        return partial(file_formats.read_office, data)
    if data.startswith(OLE) and ENCRYPTED in data:
        raise DocumentError("protected", "an Office file with a password")
    if data.startswith((OLE, RTF)):
        raise DocumentError("kind", "a format of old")
    if file_formats.is_html(data, is_named_so=hint == "html"):
        return partial(file_formats.read_html, data)
    return partial(file_formats.read_plain_text, data)


if __name__ == "__main__":
    main(*sys.argv[1:])
