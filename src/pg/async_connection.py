"""Connections of asyncio (psycopg): the queue's."""

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

# procrastinate waits for its statements without an end. Here each wait has a deadline: then the
# socket is shut, and psycopg reports a lost connection, which the workers survive.

T = TypeVar("T")

WAIT_SECONDS = shared.ORDINARY.statement + shared.GRACE
DOUBT_SECONDS = 5.0  # of silence, after which a connection is asked before it is used


class QueueConnection(AsyncConnection[Any]):
    """A connection that gives up a server that says nothing.

    With it go all others of this process that have not been heard since: after a fail-over each
    of them would cost its time-out.
    """

    _living: ClassVar["WeakSet[QueueConnection]"] = WeakSet()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Made by ``connect``."""
        super().__init__(*args, **kwargs)
        self._answered_at = time.monotonic()
        self._living.add(self)

    @classmethod
    async def connect(cls, *args: Any, **kwargs: Any) -> Self:
        """See psycopg.

        Raises:
            psycopg.OperationalError: With a cause in our words: psycopg's quote the address.
        """
        try:
            return await super().connect(*args, **kwargs)
        except (psycopg.Error, UnicodeError, ValueError) as error:
            raise psycopg.OperationalError(str(shared.connect_failure(error))) from None

    async def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Wait for the server, within bounds; only a notification may take any time.

        For one psycopg would look ten times a second whether it has been interrupted, which
        asyncio tells it anyway.
        """
        if getattr(gen, "__name__", "") == "notifies":
            return await super().wait(gen, *args, **{**kwargs, "interval": WAIT_SECONDS})
        began = time.monotonic()
        late = asyncio.get_running_loop().call_later(WAIT_SECONDS, self._give_up, began)
        try:
            return await super().wait(gen, *args, **kwargs)
        finally:
            late.cancel()
            self._answered_at = time.monotonic()

    def is_in_doubt(self) -> bool:
        """Whether the server may have hung up, as far as can be seen without asking it."""
        is_silent = time.monotonic() - self._answered_at > DOUBT_SECONDS
        return is_silent or shared.has_input(self.pgconn.socket)

    def _give_up(self, began: float) -> None:
        self._cut()
        for other in list(self._living):
            if other._answered_at < began:
                other._cut()

    def _cut(self) -> None:
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self.pgconn.socket)) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)


async def limit(connection: AsyncConnection[Any]) -> None:
    """Hold a new connection to the ordinary limits."""
    await connection.set_autocommit(True)  # each of procrastinate's statements stands for itself
    await connection.execute(shared.SET_LIMITS, {**shared.ORDINARY.columns(), "is_local": False})


def queue_pool(**options: Any) -> AsyncConnectionPool[Any]:
    """Procrastinate's pool; it asks only a connection that is in doubt whether it lives."""
    return AsyncConnectionPool(**{**options, "check": _check})


async def _check(connection: QueueConnection) -> None:
    """Ask the server where the socket says something, or has said nothing for long.

    Raises:
        psycopg.Error: The connection is lost; the pool takes another.
    """
    if connection.is_in_doubt():
        await AsyncConnectionPool.check_connection(connection)
