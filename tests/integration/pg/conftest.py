"""A cluster of the embedded PostgreSQL."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from src.pg.embedded import EmbeddedPostgres
from tests.integration.embedded_users import ask, borrowed


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    """A data folder whose server was started once and has stopped."""
    with tempfile.TemporaryDirectory(prefix="pomni-cluster-") as folder:
        server = EmbeddedPostgres(Path(folder) / "made")
        ask(server.start(), "CREATE TABLE notes AS SELECT 'kept' AS text")
        server.stop()
        yield Path(folder) / "made"


@pytest.fixture
def data_dir(cluster: Path) -> Iterator[Path]:
    """``cluster``, without a server before and after the test."""
    with borrowed(cluster) as folder:
        yield folder
