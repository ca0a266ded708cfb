"""Fixtures for all tests: a real PostgreSQL server and a database per test."""

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

import hypothesis
import psycopg2
import pytest

import src.telegram  # noqa: F401  (aiogram, in a fourth of the time)
from src.base.config import Settings
from src.base.metrics import Metrics
from src.llm.embeddings import LocalEmbedder
from src.memory.embedding_space import EmbeddingSpace
from src.pg.client import PgClient
from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate

STARTED = time.monotonic()
RUN = "PYTEST_XDIST_TESTRUNUID"
TEMPLATE, UNFINISHED = "pomni_template", "pomni_unfinished"


def pytest_configure(config: pytest.Config) -> None:
    """Isolate tests from the settings of the machine: its environment and its .env."""
    if not hasattr(config, "workerinput"):  # the name that pytest-xdist gives its workers
        config.option.testrunuid = os.environ[RUN] = uuid.uuid4().hex
    fields = {name.upper() for name in Settings.model_fields}
    for name in [name for name in os.environ if name.upper() in fields]:
        del os.environ[name]
    if (memory := fast_folder()) is not None:  # fsync is free there
        tempfile.tempdir = str(memory)
    # A busy machine may take long for any example.
    hypothesis.settings.register_profile("suite", deadline=None)
    hypothesis.settings.load_profile("suite")
    # No test uses TLS, but every HTTP client would load all certificates (20 ms or more).
    ssl.create_default_context = functools.cache(ssl.create_default_context)


def pytest_collection_finish() -> None:
    """Exclude the objects that imports created from garbage collection."""
    gc.collect()
    gc.freeze()


def database_url(server: str, name: str) -> str:
    """Return the URL of another database on the same server."""
    return server.replace("/postgres?", f"/{name}?")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that limits how long proofs are started."""
    parser.addoption("--proof-minutes", type=float, default=float("inf"))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten the name of a case with a long text."""
    return ascii(val[:60]) if isinstance(val, str | bytes) and len(val) > 60 else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a proof when the time for all of them is over."""
    minutes = item.config.getoption("--proof-minutes")
    if item.get_closest_marker("proof") and time.monotonic() - STARTED > 60 * minutes:
        pytest.skip(f"the {minutes:g} minutes for proofs are over")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete the databases of the run, in its main process only."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(run_folder(), ignore_errors=True)


def run_folder() -> Path:
    """Return the folder of this run, which all pytest-xdist workers share."""
    return (fast_folder() or Path(tempfile.gettempdir())) / f"pomni-test-{os.environ[RUN]}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Start the run's PostgreSQL; its template database is as a bot leaves it after a start."""
    server = EmbeddedPostgres(run_folder())
    run_folder().mkdir(exist_ok=True)
    with (run_folder() / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        address = server.start()
        if not query(address, "SELECT 1 FROM pg_database WHERE datname = %s", TEMPLATE):
            address = prepare(server, address)
    yield address
    server.stop()


def prepare(server: EmbeddedPostgres, address: str) -> str:
    """Configure a new server, create the template database, and return the server's URL."""
    execute(address, "ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET max_connections = 500")
    server.stop()
    address = server.start()
    execute(address, f"CREATE DATABASE {UNFINISHED}")
    unfinished = database_url(address, UNFINISHED)
    migrate(unfinished)
    with ThreadPoolExecutor(1) as threads:  # outside the tests' event loop
        threads.submit(asyncio.run, register_embeddings(unfinished)).result()
    execute(address, f"ALTER DATABASE {UNFINISHED} RENAME TO {TEMPLATE}")
    return address


async def register_embeddings(address: str) -> None:
    """Register the local embedding model in a database."""
    client = PgClient(address)
    client.open()
    space = EmbeddingSpace(LocalEmbedder(Metrics()), client)
    await space.model()
    await space.embedder.close()
    client.close()


@functools.cache
def fast_folder() -> Path | None:
    """Return a writable in-memory folder with 2 GB free, or None."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2 * 1024**3
    return memory if roomy and os.access(memory, os.W_OK) else None


@pytest.fixture
def empty_dsn(postgres_server: str) -> Iterator[str]:
    """URL of a new database without tables."""
    yield from new_database(postgres_server, "template0")


@pytest.fixture
def dsn(postgres_server: str) -> Iterator[str]:
    """URL of a new, migrated database."""
    yield from new_database(postgres_server, TEMPLATE)


@pytest.fixture
def client(dsn: str) -> Iterator[PgClient]:
    """Open client of a new, migrated database."""
    yield from open_client(dsn)


def open_client(dsn: str) -> Iterator[PgClient]:
    """Open a client of a database, and close it afterwards."""
    opened = PgClient(dsn)
    opened.open()
    yield opened
    opened.close()


def new_client(server: str) -> Iterator[PgClient]:
    """Create a migrated database, and open a client of it."""
    for dsn in new_database(server, TEMPLATE):
        yield from open_client(dsn)


def new_database(server: str, template: str) -> Iterator[str]:
    """Create a database from a template, and drop it afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    # Without fsync, copying files takes half as long as the default strategy (WAL_LOG).
    execute(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    address = database_url(server, name)
    _IDLE_CONNECTIONS[address] = {}
    yield address
    for connection in _IDLE_CONNECTIONS.pop(address).values():
        connection.close()
    execute(server, f"DROP DATABASE {name} WITH (FORCE)")


# Idle connections to the databases of running tests, by URL and thread. Opening a connection and
# filling its catalog caches costs PostgreSQL more than most statements do.
_IDLE_CONNECTIONS: dict[str, dict[int, Any]] = {}


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Provide an autocommit connection, cached by thread while the test database exists."""
    idle = _IDLE_CONNECTIONS.get(address, {})
    thread = threading.get_ident()
    connection = idle.pop(thread, None)
    if connection is None or not is_alive(connection):
        connection = psycopg2.connect(address)
        connection.autocommit = True
    else:
        with connection.cursor() as cursor:
            cursor.execute("DISCARD ALL")  # a dump changes the search path, for example
    try:
        yield connection
    finally:
        if address in _IDLE_CONNECTIONS and not connection.closed:
            idle[thread] = connection
        else:
            connection.close()


def is_alive(connection: Any) -> bool:
    """Return True if the connection is open and the server has sent nothing unread."""
    return not connection.closed and not select.select([connection], [], [], 0)[0]


def execute(address: str, *statements: str) -> None:
    """Execute statements outside a transaction."""
    with connected(address) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def query(dsn: str, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Execute one statement outside a transaction, and return its rows."""
    with connected(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)
        return cursor.fetchall() if cursor.description else []
