"""LangGraph's checkpointer on our PostgreSQL: a connection that is made when a turn pauses.

The library speaks psycopg, as the queue does, and holds a lock around each of its calls, so one
connection is all that it can use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from src.errors import ConversationGoneError, StorageRejectedError, StorageUnavailableError
from src.storage.pg_connection import LIBPQ_OPTIONS

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from psycopg_pool import AsyncConnectionPool

POOL_TIMEOUT = 8.0  # seconds to wait for the connection, as for a statement
IDLE_SECONDS = 60.0  # after which it is closed: questions are rare


class CheckpointStore:
    """Opens the checkpointer when it is first needed; its tables are those of migration 0105."""

    def __init__(
        self, dsn: str, serde: SerializerProtocol, *, timeout: float = POOL_TIMEOUT
    ) -> None:
        """Nothing is connected yet; ``timeout`` is how long to wait for it, in seconds."""
        self._dsn = dsn
        self._timeout = timeout
        self._serde = serde
        self._opening = asyncio.Lock()
        self._pool: AsyncConnectionPool[Any] | None = None

    async def open(self) -> BaseCheckpointSaver[str]:
        """A checkpointer; it connects when it is asked something."""
        # Imported here: the console has no psycopg, and most processes never ask a question.
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row

        from src.storage.queue_connection import QueueConnection, limit, queue_pool

        async with self._opening:
            if self._pool is None:
                self._pool = queue_pool(
                    conninfo=self._dsn,
                    min_size=0,
                    max_size=1,
                    timeout=self._timeout,
                    max_idle=IDLE_SECONDS,
                    connection_class=QueueConnection,
                    configure=limit,
                    open=False,
                    kwargs={
                        "application_name": "pomni questions", "row_factory": dict_row,
                        **LIBPQ_OPTIONS,
                    },
                )  # fmt: skip
                await self._pool.open()
        return AsyncPostgresSaver(self._pool, serde=self._serde)

    async def close(self) -> None:
        """Close what was opened."""
        if self._pool is not None:
            await self._pool.close()


@contextmanager
def checkpoint_errors() -> Iterator[None]:
    """What the library's connection raises, as ours.

    Raises:
        ConversationGoneError: The question was deleted while its run was paused or resumed.
        StorageError: The database is away, or refused a statement.
    """
    import psycopg  # see ``CheckpointStore.open``
    from psycopg_pool import PoolClosed, PoolTimeout

    try:
        yield
    except psycopg.errors.ForeignKeyViolation as error:
        raise ConversationGoneError("the question was deleted") from error
    except (psycopg.OperationalError, PoolTimeout, PoolClosed) as error:
        raise StorageUnavailableError("the connection for checkpoints broke") from error
    except psycopg.Error as error:
        name = type(error).__name__
        told = f"PostgreSQL refused a checkpoint: {name}"
        raise StorageRejectedError(told, error.sqlstate) from error
