"""Fixtures of every test: a real PostgreSQL, and a database of one's own in it."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import ssl
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from src.config import Settings
from src.llm.embeddings import LocalEmbedder
from src.memory.embedding_space import EmbeddingSpace
from src.metrics import Metrics
from src.storage.embedded_pg import EmbeddedPostgres
from src.storage.embedding_repo import EmbeddingModel, EmbeddingRepository
from src.storage.migrations import migrate
from src.storage.pg_client import PgClient

TEMPLATE = "pomni_template"


def pytest_configure() -> None:
    """Tests see no settings of the machine: neither its environment nor its .env."""
    fields = {name.upper() for name in Settings.model_fields}
    for name in [name for name in os.environ if name.upper() in fields]:
        del os.environ[name]
    # No test speaks TLS, and every client reads all certificates, for 20 ms and more.
    ssl.create_default_context = functools.cache(ssl.create_default_context)


def database_url(server: str, name: str) -> str:
    """The address of another database on the same server."""
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a running PostgreSQL with a migrated template database."""
    with tempfile.TemporaryDirectory(prefix="pomni-test-", dir=fast_folder()) as folder:
        server = EmbeddedPostgres(Path(folder))
        address = server.start()
        execute(address, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        execute(address, f"CREATE DATABASE {TEMPLATE}")
        migrate(database_url(address, TEMPLATE))
        yield address
        server.stop()


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


@pytest.fixture(scope="session")
def measured_embeddings(postgres_server: str) -> EmbeddingModel:
    """The local embedding model, measured once, which takes each new database seconds."""

    def measure() -> EmbeddingModel:
        for address in new_database(postgres_server, TEMPLATE):
            client = PgClient(address)
            client.open()
            model = asyncio.run(opened(client))
            client.close()
        return model

    async def opened(client: PgClient) -> EmbeddingModel:
        space = EmbeddingSpace(LocalEmbedder(Metrics()), client, EmbeddingRepository(client))
        try:
            return await space.model()
        finally:
            await space.close()

    with ThreadPoolExecutor(1) as threads:  # away from the tests' event loops
        return threads.submit(measure).result()


def add_embeddings(address: str, model: EmbeddingModel) -> None:
    """Let a database know an embedding model, as if it had met it before."""
    client = PgClient(address)
    client.open()
    EmbeddingRepository(client).add_model(
        model.name,
        model.means,
        unrelated_median=model.unrelated_median,
        unrelated_high=model.unrelated_high,
    )
    client.close()


def open_client(dsn: str) -> Iterator[PgClient]:
    """A client, closed afterwards."""
    opened = PgClient(dsn)
    opened.open()
    yield opened
    opened.close()


def new_client(server: str) -> Iterator[PgClient]:
    """A client on a new, migrated database; for a fixture with the scope of a module."""
    for dsn in new_database(server, TEMPLATE):
        yield from open_client(dsn)


def new_database(server: str, template: str) -> Iterator[str]:
    """Make a database, and drop it afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    # Without fsync the copying of files takes half as long as the usual way through the log.
    execute(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    yield database_url(server, name)
    execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def execute(address: str, *statements: str) -> None:
    """Run statements outside a transaction."""
    connection = psycopg2.connect(address)
    connection.autocommit = True
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    connection.close()


def query(dsn: str, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Rows of one statement on a connection of its own, as a person would ask in psql."""
    connection = psycopg2.connect(dsn)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()
