"""Hears what other processes changed: PostgreSQL's LISTEN, on a connection of its own.

A notification only makes things faster. Who depends on one also looks by himself now and then, for
none comes while the connection is lost, nor ever through a pooler that shares out transactions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from psycopg import Error, Notify, sql

from src.errors import AppError
from src.storage.pg_connection import LIBPQ_OPTIONS
from src.storage.queue_connection import QueueConnection

logger = logging.getLogger(__name__)

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
