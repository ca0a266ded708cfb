"""Connections of asyncio (psycopg): the queue's, and the one that hears PostgreSQL's NOTIFY."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

import psycopg
from psycopg import AsyncConnection, Error, Notify, sql
from psycopg.abc import PQGen
from psycopg_pool import AsyncConnectionPool

from src.base.errors import AppError
from src.pg.connection import (
    GRACE,
    LIBPQ_OPTIONS,
    ORDINARY,
    SET_LIMITS,
    connect_failure,
    has_input,
)

logger = logging.getLogger(__name__)

# procrastinate waits for its statements without an end. Here each wait has a deadline: then the
# socket is shut, and psycopg reports a lost connection, which the workers survive.

T = TypeVar("T")

WAIT_SECONDS = ORDINARY.statement + GRACE
DOUBT_SECONDS = 5.0  # of silence, after which a connection is asked before it is used


class QueueConnection(AsyncConnection[Any]):
    """A connection that gives up a server that says nothing.

    With it go all others of this process that have not been heard since: after a fail-over each
    of them would cost its time-out.
    """

    _living: ClassVar[WeakSet[QueueConnection]] = WeakSet()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Made by ``connect``."""
        super().__init__(*args, **kwargs)
        self._answered_at = time.monotonic()
        self._living.add(self)

    @classmethod
    async def connect(cls, *args: Any, **kwargs: Any) -> QueueConnection:
        """See psycopg.

        Raises:
            psycopg.OperationalError: With a cause in our words: psycopg's quote the address.
        """
        try:
            return await super().connect(*args, **kwargs)
        except (psycopg.Error, UnicodeError, ValueError) as error:
            raise psycopg.OperationalError(str(connect_failure(error))) from None

    async def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Wait for the server, within bounds; only a notification may take any time."""
        if getattr(gen, "__name__", "") == "notifies":
            return await super().wait(gen, *args, **kwargs)
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
        return is_silent or has_input(self.pgconn.socket)

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
    await connection.execute(SET_LIMITS, {**ORDINARY.columns(), "is_local": False})


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


# A notification only makes things faster. Whoever depends on one also polls now and then, for none
# comes while the connection is lost, nor ever through a pooler that shares out transactions.

CHECK_SECONDS = 30.0  # of silence, after which the connection is asked whether it lives
MAX_PAUSE = 30.0  # seconds between two attempts to connect

Listener = Callable[[], Awaitable[object]]


class Notifications:
    """Calls a listener at each notification of its channel, and after each new connection."""

    def __init__(self, dsn: str, listeners: Mapping[str, Listener]) -> None:
        """Nothing connects yet.

        Args:
            dsn: A libpq address.
            listeners: By channel; they may fail, which is logged.
        """
        self._dsn = dsn
        self._listeners = listeners
        self._pause = 1.0

    async def run(self) -> None:
        """Listen until cancelled; a lost connection costs a pause."""
        while True:
            try:
                await self._listen()
            except (Error, AppError, OSError) as error:
                logger.warning(
                    "not listening for notifications: %s", type(error).__name__,
                    extra={"seconds": self._pause},
                )  # fmt: skip
            await asyncio.sleep(self._pause)
            self._pause = min(MAX_PAUSE, 2 * self._pause)

    async def _listen(self) -> None:
        connection = await QueueConnection.connect(
            self._dsn, autocommit=True, application_name="pomni notifications", **LIBPQ_OPTIONS
        )
        async with connection:
            for channel in self._listeners:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            self._pause = 1.0
            for channel in self._listeners:
                await self._tell(channel)  # what was said before is unheard
            while True:
                heard: Notify | None = None
                async for heard in connection.notifies(timeout=CHECK_SECONDS, stop_after=1):
                    await self._tell(heard.channel)
                if heard is None:
                    await connection.execute("SELECT 1")

    async def _tell(self, channel: str) -> None:
        try:
            await self._listeners[channel]()
        except AppError as error:
            logger.warning("a notification was of no use", exc_info=error)
