"""The text of a file that a user sent, read by a child process that may die of it."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, get_args

from src.base.errors import AppError, DocumentError, DocumentProblem, TransientError
from src.media.document_text import MISSING, DocumentText, is_storable

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
PROBLEMS = frozenset(get_args(DocumentProblem))
# What signals mean that the child dies of: the bounds that it sets itself, Rust's and C++'s end
# of memory, the kernel's. Any other is a fault in a library.
DEATHS: Mapping[int, DocumentProblem] = {
    -signal.SIGXCPU: "too_slow",
    -signal.SIGALRM: "too_slow",
    -signal.SIGABRT: "too_full",
    -signal.SIGKILL: "too_full",
}


class DocumentReader:
    """Reads files, two at a time; others wait. It holds nothing between them."""

    def __init__(self, program: tuple[str, ...] = PROGRAM, *, deadline: float = 20.0) -> None:
        """Nothing starts yet; tests have another program.

        Args:
            program: The child, and its arguments but the last.
            deadline: Seconds for one file, from start to end; a small one takes 0.1.
        """
        self._program, self._deadline = program, deadline
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
            raise DocumentError("too_large", f"{len(data)} bytes")
        hint = HINTS.get(PurePath(file_name).suffix.lower(), "")
        async with self._places:
            status, answer = await self._ask(data, hint)
        if (found := _understand(answer)) is not None:
            return found
        problem = DEATHS.get(status, "broken")
        log = {"status": status, "bytes": len(data), "error": problem}
        logger.warning("the process that read a file died", extra=log)
        raise DocumentError(problem, f"the reading process ended with {status}")

    async def _ask(self, data: bytes, hint: str) -> tuple[int, bytes]:
        """The child's status, negative for a signal, and what it wrote."""
        child = await self._start(hint)
        assert child.stdin and child.stdout
        try:
            async with asyncio.timeout(self._deadline):
                child.stdin.write(data)
                child.stdin.close()
                answer = await _read(child.stdout, MAX_ANSWER)
                if len(answer) < MAX_ANSWER:
                    await child.wait()
        except TimeoutError as error:
            logger.warning("reading a file took too long", extra={"bytes": len(data)})
            raise DocumentError("too_slow", "the deadline has passed") from error
        finally:
            await _end(child, child.stdout)
        return child.returncode or 0, answer

    async def _start(self, hint: str) -> Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._program,
                hint,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
                env={},
                start_new_session=True,
            )
        except OSError as error:
            raise TransientError(f"no process for a file ({type(error).__name__})") from error


async def _read(stream: asyncio.StreamReader, most: int) -> bytes:
    """What comes until the stream ends, or there are ``most`` bytes of it."""
    try:
        return await stream.readexactly(most)
    except asyncio.IncompleteReadError as error:
        return error.partial


async def _end(child: Process, stdout: asyncio.StreamReader) -> None:
    """Kill the child and what it started, whatever it does, and wait until it is gone."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(DEATH_DEADLINE):
            await stdout.read()  # or the pipe would stay open; what is left in it is little
            await child.wait()


def _understand(answer: bytes) -> DocumentText | None:
    """The text, checked as what a stranger says: the file may have taken the child over.

    Returns:
        None for what is no answer.

    Raises:
        AppError: It is an error.
    """
    try:
        said: Any = json.loads(answer)
        if "error" in said:
            raise _named(said)
        text, is_cut = said["text"], said["is_cut"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_text = isinstance(text, str) and is_storable(text)
    return DocumentText(text, bool(is_cut)) if is_text else None


def _named(said: Any) -> AppError:
    """The error that the child names, with the name of its cause, if that is a name.

    Raises:
        KeyError: It is none.
    """
    problem, cause = said["error"], str(said["cause"])[:60]
    cause = cause if cause.isidentifier() else "a cause without a name"
    if problem == MISSING:
        logger.error("a library for reading files is missing")
        return AppError(cause)
    if problem not in PROBLEMS:
        raise KeyError(problem)
    return DocumentError(problem, cause)
