"""Fixtures of every test: a real PostgreSQL, and a database of one's own in it."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import gc
import os
import select
import shutil
import ssl
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest

import src.telegram  # noqa: F401  (aiogram, in a fourth of the time)
from src.base.config import Settings
from src.base.metrics import Metrics
from src.llm.embeddings import LocalEmbedder
from src.memory.embedding_space import EmbeddingSpace
from src.pg import embedded
from src.pg.client import PgClient
from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate

STARTED = time.monotonic()
RUN = "PYTEST_XDIST_TESTRUNUID"
TEMPLATE, UNFINISHED = "pomni_template", "pomni_unfinished"


def pytest_configure(config: pytest.Config) -> None:
    """Tests see no settings of the machine: neither its environment nor its .env."""
    if not hasattr(config, "workerinput"):  # the name that pytest-xdist gives its workers
        config.option.testrunuid = os.environ[RUN] = uuid.uuid4().hex
    fields = {name.upper() for name in Settings.model_fields}
    for name in [name for name in os.environ if name.upper() in fields]:
        del os.environ[name]
    if (memory := fast_folder()) is not None:  # there, what a database syncs costs nothing
        tempfile.tempdir = str(memory)
    # No test speaks TLS, and every client reads all certificates, for 20 ms and more.
    ssl.create_default_context = functools.cache(ssl.create_default_context)


def pytest_collection_finish() -> None:
    """Spare the collector what all imports have left, which is there to stay."""
    gc.collect()
    gc.freeze()


def database_url(server: str, name: str) -> str:
    """The address of another database on the same server."""
    return server.replace("/postgres?", f"/{name}?")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long proofs may be begun."""
    parser.addoption("--proof-minutes", type=float, default=float("inf"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no proof when the time for all of them is over."""
    minutes = item.config.getoption("--proof-minutes")
    if item.get_closest_marker("proof") and time.monotonic() - STARTED > 60 * minutes:
        pytest.skip(f"the {minutes:g} minutes for proofs are over")


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last process of a run takes the databases away."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(run_folder(), ignore_errors=True)


def run_folder() -> Path:
    """The folder of this run, which the workers of pytest-xdist share."""
    return (fast_folder() or Path(tempfile.gettempdir())) / f"pomni-test-{os.environ[RUN]}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of the run's PostgreSQL, with a template in which a bot has started before."""
    server = EmbeddedPostgres(run_folder())
    run_folder().mkdir(exist_ok=True)
    with (run_folder() / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        address = server.start()
        if not query(address, "SELECT 1 FROM pg_database WHERE datname = %s", TEMPLATE):
            address = prepare(server, address)
    yield address
    server.stop()
    for child in embedded._STARTED:  # other workers may use it, and Python would warn of it
        child.returncode = child.poll() or 0


def prepare(server: EmbeddedPostgres, address: str) -> str:
    """Set up a new server, and make the template; returns its address."""
    execute(address, "ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET max_connections = 500")
    server.stop()
    address = server.start()
    execute(address, f"CREATE DATABASE {UNFINISHED}")
    unfinished = database_url(address, UNFINISHED)
    migrate(unfinished)
    with ThreadPoolExecutor(1) as threads:  # away from the tests' event loop
        threads.submit(asyncio.run, register_embeddings(unfinished)).result()
    execute(address, f"ALTER DATABASE {UNFINISHED} RENAME TO {TEMPLATE}")
    return address


async def register_embeddings(address: str) -> None:
    """Let a database know the local embedding model."""
    client = PgClient(address)
    client.open()
    space = EmbeddingSpace(LocalEmbedder(Metrics()), client)
    await space.model()
    await space.embedder.close()
    client.close()


@functools.cache
def fast_folder() -> Path | None:
    """A folder in memory with room for the databases, else the usual one."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2 * 1024**3
    return memory if roomy and os.access(memory, os.W_OK) else None


@pytest.fixture
def empty_dsn(postgres_server: str) -> Iterator[str]:
    """The address of a new database without any tables."""
    yield from new_database(postgres_server, "template0")


@pytest.fixture
def dsn(postgres_server: str) -> Iterator[str]:
    """The address of a new, migrated database."""
    yield from new_database(postgres_server, TEMPLATE)


@pytest.fixture
def client(dsn: str) -> Iterator[PgClient]:
    """An open client on a new, migrated database."""
    yield from open_client(dsn)


def open_client(dsn: str) -> Iterator[PgClient]:
    """A client, closed afterwards."""
    opened = PgClient(dsn)
    opened.open()
    yield opened
    opened.close()


def new_client(server: str) -> Iterator[PgClient]:
    """A client on a new, migrated database."""
    for dsn in new_database(server, TEMPLATE):
        yield from open_client(dsn)


def new_database(server: str, template: str) -> Iterator[str]:
    """Make a database, and drop it afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    # Without fsync the copying of files takes half as long as the usual way through the log.
    execute(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    address = database_url(server, name)
    _KEPT[address] = {}
    yield address
    for connection in _KEPT.pop(address).values():
        connection.close()
    execute(server, f"DROP DATABASE {name} WITH (FORCE)")


# Connections that look into the databases of the tests, by thread: to open one, and to learn the
# tables again, costs PostgreSQL more than most statements do.
_KEPT: dict[str, dict[int, Any]] = {}


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A connection outside transactions: the thread's to a database of a test, else a new one."""
    kept = _KEPT.get(address, {})
    thread = threading.get_ident()
    connection = kept.pop(thread, None)
    if connection is None or not is_alive(connection):
        connection = psycopg2.connect(address)
        connection.autocommit = True
    else:
        with connection.cursor() as cursor:
            cursor.execute("DISCARD ALL")  # a dump, for one, changes where tables are looked for
    try:
        yield connection
    finally:
        if address in _KEPT and not connection.closed:
            kept[thread] = connection
        else:
            connection.close()


def is_alive(connection: Any) -> bool:
    """Whether the server has neither ended it nor told it anything else."""
    return not connection.closed and not select.select([connection], [], [], 0)[0]


def execute(address: str, *statements: str) -> None:
    """Run statements outside a transaction."""
    with connected(address) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def query(dsn: str, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Rows of one statement outside a transaction, as a person would ask in psql."""
    with connected(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)
        return cursor.fetchall() if cursor.description else []
