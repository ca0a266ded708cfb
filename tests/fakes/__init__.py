"""Loopback fakes of the services that the bot uses, and their common base."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn, Self, TypeGuard

from aiohttp import web

MAX_BODY_BYTES = 60 * 1024 * 1024
"""More than the 50 MB that the Bot API accepts in one upload."""
PATIENCE = 60.0
"""Seconds until a condition that is awaited counts as a failure, on a busy machine too."""


class Changes:
    """Notifies waiters about changes of a fake's state."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def notify(self) -> None:
        """Wake all waiters."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Return after the next `notify`."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def until(
        self, predicate: Callable[[], bool], timeout: float, describe: Callable[[], str]
    ) -> None:
        """Return once the predicate holds.

        Args:
            predicate: Evaluated now and after every change.
            timeout: Seconds to wait.
            describe: Builds the failure's text.

        Raises:
            AssertionError: The predicate did not hold in time.
        """
        try:
            async with asyncio.timeout(timeout):
                while not predicate():
                    await self.wait()
        except TimeoutError:
            raise AssertionError(describe()) from None


class LoopbackServer:
    """An aiohttp server on 127.0.0.1 that can be restarted on the same port.

    Handlers are cancelled when their client disconnects, so a killed bot leaves none waiting.
    """

    def __init__(self) -> None:
        self.port = 0  # chosen at the first start
        self.changes = Changes()
        self._runner: web.AppRunner | None = None

    def routes(self) -> list[web.RouteDef]:
        """Return the routes to serve."""
        raise NotImplementedError

    def failure(self, what: str, timeout: float) -> str:
        """Return the message for a condition that did not become true in time."""
        raise NotImplementedError

    async def wait_for(
        self,
        predicate: Callable[[], object],
        timeout: float = PATIENCE,
        what: str = "the expected condition",
    ) -> None:
        """Return once the predicate, evaluated after every change, is true.

        Raises:
            AssertionError: After `timeout` seconds, with the text of `failure`.
        """
        await self.changes.until(
            lambda: bool(predicate()), timeout, lambda: self.failure(what, timeout)
        )

    async def start(self) -> None:
        """Listen; with port 0 the port is chosen once and kept across restarts."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.05
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the listener and all connections immediately; the state is kept."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for site in list(runner.sites):
            await site.stop()
        self._cut(runner)
        await runner.cleanup()

    def cut(self) -> None:
        """Close all connections immediately, but not the listener."""
        assert self._runner is not None
        self._cut(self._runner)

    def _cut(self, runner: web.AppRunner) -> None:
        if runner.server is not None:
            for connection in runner.server.connections:
                connection.force_close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()


async def wait_for_client_to_leave() -> NoReturn:
    """Never answer; ends by cancellation when the client or the server closes."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody resolves this future")


async def drop_connection(request: web.Request) -> NoReturn:
    """Abort the request's connection without writing anything more."""
    if request.transport is not None:
        request.transport.abort()
    await wait_for_client_to_leave()


def is_integer(value: Any) -> TypeGuard[int]:
    """Return True if the value is an int and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


async def eventually(
    condition: Callable[[], Any],
    what: str | Callable[[], object] = "the condition",
    timeout: float = PATIENCE,
) -> Any:
    """Poll a condition, and return its first true value.

    Raises:
        AssertionError: It did not become true in time; ``what`` is a description or returns one.
    """
    try:
        async with asyncio.timeout(timeout):
            while not (value := condition()):  # noqa: ASYNC110  (there is no event to wait for)
                await asyncio.sleep(0.03)
            return value
    except TimeoutError:
        text = what() if callable(what) else what
        raise AssertionError(f"waited {timeout} s in vain for {text}") from None
