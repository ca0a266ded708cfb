"""Asyncio connections (psycopg) for LangGraph's checkpoints."""

import asyncio
import os
import socket
import time
from contextlib import suppress
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakSet

import psycopg
from psycopg import AsyncConnection
from psycopg.abc import PQGen
from psycopg_pool import AsyncConnectionPool

from src.pg import connection as shared

# The checkpointer waits for its statements without a timeout. Here each wait has a deadline, after
# which the socket is shut down; psycopg then reports a lost connection.

T = TypeVar("T")

WAIT_SECONDS = shared.ORDINARY.statement + 2.0
DOUBT_SECONDS = 5.0  # without an answer, after which a connection is checked before use


class QueueConnection(AsyncConnection[Any]):
    """Connection that gives up on a silent server.

    When one gives up, all connections of the process that were last answered before its call began
    are cut too: after a failover each of them would otherwise run into its own timeout.
    """

    _instances: ClassVar["WeakSet[QueueConnection]"] = WeakSet()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create the connection; called by ``connect``."""
        super().__init__(*args, **kwargs)
        self._answered_at = time.monotonic()
        self._instances.add(self)

    @classmethod
    async def connect(cls, *args: Any, **kwargs: Any) -> Self:
        """Connect, as in psycopg.

        Raises:
            psycopg.OperationalError: With a message of ours, since psycopg's quotes the address.
        """
        try:
            return await super().connect(*args, **kwargs)
        except (psycopg.Error, UnicodeError, ValueError) as error:
            raise psycopg.OperationalError(str(shared.connect_failure(error))) from None

    async def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Wait for the server until the deadline."""
        began = time.monotonic()
        timer = asyncio.get_running_loop().call_later(WAIT_SECONDS, self._give_up, began)
        try:
            return await super().wait(gen, *args, **kwargs)
        finally:
            timer.cancel()
            self._answered_at = time.monotonic()

    def is_in_doubt(self) -> bool:
        """Return True if the server may have hung up, judged without a round trip."""
        is_silent = time.monotonic() - self._answered_at > DOUBT_SECONDS
        return is_silent or shared.has_input(self.pgconn.socket)

    def _give_up(self, began: float) -> None:
        self._cut()
        for other in list(self._instances):
            if other._answered_at < began:
                other._cut()

    def _cut(self) -> None:
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self.pgconn.socket)) as duplicate,
        ):
            duplicate.shutdown(socket.SHUT_RDWR)


async def limit(connection: AsyncConnection[Any]) -> None:
    """Apply the ordinary limits to a new connection."""
    await connection.set_autocommit(True)  # each statement is a transaction
    await connection.execute(shared.SET_LIMITS, {**shared.ORDINARY.columns(), "is_local": False})


def queue_pool(**options: Any) -> AsyncConnectionPool[Any]:
    """Return a pool that checks only connections in doubt."""
    return AsyncConnectionPool(**{**options, "check": _check_connection})


async def _check_connection(connection: QueueConnection) -> None:
    if connection.is_in_doubt():
        await AsyncConnectionPool.check_connection(connection)
