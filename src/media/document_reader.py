"""Text extraction from users' files, in child processes that may crash."""

import asyncio
import json
import logging
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, get_args

from src.base.errors import AppError, DocumentError, DocumentProblem, TransientError
from src.media.document_text import MAX_ANSWER, MISSING, DocumentText, is_storable

logger = logging.getLogger(__name__)

MAX_BYTES = 20 << 20  # Telegram's download limit for bots (Bot API, getFile)
AT_ONCE = 2  # concurrent children, each of which may take half a gigabyte
ROOT = Path(__file__).resolve().parents[2]
# -E -s: ignore the environment and the user's packages; -B: write no bytecode.
PROGRAM = (sys.executable, "-E", "-s", "-B", "-X", "utf8", "-m", "src.media.document_child")
# Hints by file extension, for ambiguous contents.
HINTS = {".html": "html", ".htm": "html", ".xhtml": "html", ".pdf": "pdf"}
PROBLEMS = frozenset(get_args(DocumentProblem))
# Causes of death by signal: the child's own limits, out of memory in Rust or C++, and the kernel's
# out-of-memory killer. Any other signal is a fault in a library.
DEATHS: Mapping[int, DocumentProblem] = {
    -signal.SIGXCPU: "too_slow",
    -signal.SIGALRM: "too_slow",
    -signal.SIGABRT: "too_full",
    -signal.SIGXFSZ: "too_full",
    -signal.SIGKILL: "too_full",
}


class DocumentReader:
    """Reads files, two concurrently; it keeps no state between them."""

    def __init__(self, program: tuple[str, ...] = PROGRAM, *, deadline: float = 20.0) -> None:
        """Start nothing yet.

        Args:
            program: Command of the child without its last argument; tests replace it.
            deadline: Seconds for one file, from start to end; a small one takes 0.1.
        """
        self._program, self._deadline = program, deadline
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def read(self, data: bytes, *, file_name: str) -> DocumentText:
        """Return the text of a file.

        Args:
            data: The file, of any kind.
            file_name: Name given by the sender; only its extension is used, if the content is
                ambiguous.

        Raises:
            DocumentError: The text cannot be extracted; its ``text_key`` tells the sender why.
            TransientError: The system cannot start another process now.
            AppError: A library is not installed.
        """
        if len(data) > MAX_BYTES:
            raise DocumentError("too_large", f"{len(data)} bytes")
        hint = HINTS.get(PurePath(file_name).suffix.lower(), "")
        async with self._slots:
            status, answer = await asyncio.to_thread(self._run_child, data, hint)
        document = _parse_answer(answer)
        if document is not None:
            return document
        problem = DEATHS.get(status, "broken")
        log = {"status": status, "bytes": len(data), "error": problem}
        logger.warning("the process that read a file died", extra=log)
        raise DocumentError(problem, f"the reading process ended with {status}")

    def _run_child(self, data: bytes, hint: str) -> tuple[int, bytes]:
        """Return the child's status, negative for a signal, and its output; this blocks."""
        with tempfile.TemporaryFile() as answer:
            try:
                child = subprocess.run(
                    [*self._program, hint],
                    input=data,
                    stdout=answer,
                    stderr=subprocess.DEVNULL,
                    cwd=ROOT,
                    env={},
                    timeout=self._deadline,
                    check=False,
                    start_new_session=True,
                )
            except subprocess.TimeoutExpired as error:
                logger.warning("reading a file took too long", extra={"bytes": len(data)})
                raise DocumentError("too_slow", "the deadline has passed") from error
            except OSError as error:
                raise TransientError(f"no process for a file ({type(error).__name__})") from error
            answer.seek(0)
            return child.returncode, answer.read(MAX_ANSWER)


def _parse_answer(answer: bytes) -> DocumentText | None:
    """Parse the child's output, as untrusted data: the file may have taken over the child.

    Returns:
        None if it is malformed.

    Raises:
        AppError: The child reported an error.
    """
    try:
        reply: Any = json.loads(answer)
        if "error" in reply:
            raise _build_error(reply)
        text, is_cut = reply["text"], reply["is_cut"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if isinstance(text, str) and is_storable(text):
        return DocumentText(text, bool(is_cut))
    return None


def _build_error(reply: Any) -> AppError:
    """Build the error that the child reported, with the name of its cause if it is an identifier.

    Raises:
        KeyError: The problem is unknown.
    """
    problem, cause = reply["error"], str(reply["cause"])[:60]
    if not cause.isidentifier():
        cause = "a cause without a name"
    if problem == MISSING:
        logger.error("a library for reading files is missing")
        return AppError(cause)
    if problem not in PROBLEMS:
        raise KeyError(problem)
    return DocumentError(problem, cause)
