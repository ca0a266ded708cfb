"""The text of a file that a user sent, read by a child process that may die of it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, cast

from src.base.errors import (
    AppError,
    DocumentBrokenError,
    DocumentKindError,
    DocumentProtectedError,
    DocumentTooFullError,
    DocumentTooLargeError,
    DocumentTooSlowError,
    DocumentWithoutTextError,
    TransientError,
)
from src.media.document_text import KINDS, DocumentText, is_storable

logger = logging.getLogger(__name__)

MAX_BYTES = 20 << 20  # what Telegram lets a bot download (Bot API, getFile)
MAX_ANSWER = 1 << 20  # bytes; 60,000 characters take six each at most
DEATH_DEADLINE = 5.0  # seconds until a killed process is gone
AT_ONCE = 2  # children; each may take half a gigabyte
ROOT = Path(__file__).resolve().parents[2]
# -E -s: neither the environment nor the user's own packages; -B: it can write no bytecode.
PROGRAM = (sys.executable, "-E", "-s", "-B", "-X", "utf8", "-m", "src.media.document_child")
# By the end of a name, what decides where the content leaves a doubt.
HINTS = {".html": "html", ".htm": "html", ".xhtml": "html", ".pdf": "pdf"}
ERRORS: Mapping[str, type[AppError]] = {
    error.__name__: error
    for error in (
        AppError, DocumentBrokenError, DocumentKindError, DocumentProtectedError,
        DocumentTooFullError, DocumentWithoutTextError,
    )
}  # fmt: skip
# What signals mean that the child dies of: the bounds that it sets itself, Rust's and C++'s end
# of memory, the kernel's. Any other is a fault in a library.
DEATHS: Mapping[int, type[AppError]] = {
    -signal.SIGXCPU: DocumentTooSlowError,
    -signal.SIGALRM: DocumentTooSlowError,
    -signal.SIGABRT: DocumentTooFullError,
    -signal.SIGKILL: DocumentTooFullError,
}


@dataclass(frozen=True)
class ReaderSettings:
    """What a test may want otherwise.

    Attributes:
        program: The child, and its arguments but the last.
        deadline: Seconds for one file, from start to end; a small one takes 0.1.
    """

    program: tuple[str, ...] = PROGRAM
    deadline: float = 20.0


class DocumentReader:
    """Reads files, two at a time; others wait. It holds nothing between them."""

    def __init__(self, settings: ReaderSettings | None = None) -> None:
        """Nothing starts yet."""
        self._settings = settings or ReaderSettings()
        self._places = asyncio.Semaphore(AT_ONCE)

    async def read(self, data: bytes, *, file_name: str) -> DocumentText:
        """The text of a file.

        Args:
            data: The file, whatever it is.
            file_name: As the sender calls it; only its end is looked at, and only in doubt.

        Raises:
            DocumentError: There is no text to be had; its ``text_key`` tells the sender why.
            TransientError: The system has no room for another process at the moment.
            AppError: The libraries are not installed as they should be.
        """
        if len(data) > MAX_BYTES:
            raise DocumentTooLargeError(f"{len(data)} bytes")
        hint = HINTS.get(PurePath(file_name).suffix.lower(), "")
        async with self._places:
            status, answer = await self._ask(data, hint)
        try:
            return _understand(answer)
        except _NoAnswerError:
            error = DEATHS.get(status, DocumentBrokenError)
        log = {"status": status, "bytes": len(data), "error": error.__name__}
        logger.warning("the process that read a file died", extra=log)
        raise error(f"the reading process ended with {status}")

    async def _ask(self, data: bytes, hint: str) -> tuple[int, bytes]:
        """The child's status, negative for a signal, and what it wrote."""
        exchange = await self._start(hint)
        try:
            async with asyncio.timeout(self._settings.deadline):
                exchange.say(data)
                await exchange.ended.wait()
        except TimeoutError as error:
            logger.warning("reading a file took too long", extra={"bytes": len(data)})
            raise DocumentTooSlowError("the deadline has passed") from error
        finally:
            exchange.kill()
            with suppress(TimeoutError):
                async with asyncio.timeout(DEATH_DEADLINE):
                    await exchange.ended.wait()
        return exchange.status, bytes(exchange.heard)

    async def _start(self, hint: str) -> _Exchange:
        try:
            _, exchange = await asyncio.get_running_loop().subprocess_exec(
                _Exchange,
                *self._settings.program,
                hint,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=ROOT,
                env={},
                start_new_session=True,
            )
        except OSError as error:
            raise TransientError(f"no process for a file ({type(error).__name__})") from error
        return exchange


class _Exchange(asyncio.SubprocessProtocol):
    """What is said to a child, and what it answers, up to a bound.

    Attributes:
        heard: What it wrote.
        ended: Set when it is gone, and its pipes are closed.
    """

    def __init__(self) -> None:
        self.heard = bytearray()
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._child = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002
        self.heard += data
        if len(self.heard) > MAX_ANSWER:
            self.kill()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._child.close()  # not before: it would take the status from asyncio's own watcher
        self.ended.set()

    @property
    def status(self) -> int:
        """With which it ended, negative for a signal."""
        return self._child.get_returncode() or 0

    def say(self, data: bytes) -> None:
        """Write to its stdin, as it reads, and close it."""
        stdin = cast(asyncio.WriteTransport, self._child.get_pipe_transport(0))
        stdin.write(data)
        stdin.close()

    def kill(self) -> None:
        """End it and what it started, whatever it does, and its pipes with it."""
        if self._child.get_returncode() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.get_pid(), signal.SIGKILL)
        for number in (0, 1):
            if (pipe := self._child.get_pipe_transport(number)) is not None:
                pipe.close()


class _NoAnswerError(Exception):
    """The child said nothing that can be understood."""


def _understand(answer: bytes) -> DocumentText:
    """The text, checked as what a stranger says: the file may have taken the child over.

    Raises:
        _NoAnswerError: It is no answer.
        AppError: It is an error.
    """
    try:
        said: Any = json.loads(answer)
        if "error" in said:
            raise _named(said)
        text, is_cut, kind = said["text"], said["is_cut"], said["kind"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _NoAnswerError from error
    if not (isinstance(text, str) and is_storable(text) and kind in KINDS):
        raise _NoAnswerError
    return DocumentText(text, bool(is_cut), kind)


def _named(said: Any) -> AppError:
    """The error that the child names, with the name of its cause, if that is a name."""
    error, cause = ERRORS[said["error"]], str(said["cause"])[:60]
    if error is AppError:
        logger.error("a library for reading files is missing")
    return error(cause if cause.isidentifier() else "a cause without a name")
