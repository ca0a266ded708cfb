"""The tables of LangGraph's checkpoints, which our migration makes instead of the library."""

from __future__ import annotations

import psycopg
import pytest
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from tests.conftest import query
from tests.integration.test_migrations import describe

pytestmark = pytest.mark.own_database

VERSIONS = "SELECT v FROM checkpoint_migrations ORDER BY v"


def of_checkpoints(dsn: str) -> list[str]:
    """What there is of the library's tables; foreign keys and comments are ours."""
    lines = (line for line in describe(dsn) if "checkpoint" in line)
    return [line for line in lines if "FOREIGN KEY" not in line and line[:8] != "comment "]


async def test_the_migration_makes_the_same_tables_as_the_library(
    dsn: str, empty_dsn: str
) -> None:
    async with AsyncPostgresSaver.from_conn_string(empty_dsn) as saver:
        await saver.setup()
    made = of_checkpoints(dsn)
    assert made == of_checkpoints(empty_dsn) and len(made) > 30
    assert query(dsn, VERSIONS) == query(empty_dsn, VERSIONS)


@pytest.mark.parametrize(
    ("table", "rest"),
    [
        ("checkpoints", "(thread_id, checkpoint_id, checkpoint) VALUES ('nobody', '1', '{}')"),
        (
            "checkpoint_blobs",
            "(thread_id, channel, version, type) VALUES ('nobody', 'a', '1', '')",
        ),
        (
            "checkpoint_writes",
            "(thread_id, checkpoint_id, task_id, idx, channel, blob)"
            " VALUES ('nobody', '1', '1', 0, 'a', '')",
        ),
    ],
)
def test_a_checkpoint_without_an_open_question_is_refused(dsn: str, table: str, rest: str) -> None:
    with (
        psycopg.connect(dsn) as connection,
        pytest.raises(psycopg.errors.ForeignKeyViolation),
    ):
        connection.execute(f"INSERT INTO {table} {rest}")
