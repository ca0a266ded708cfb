"""The small HTTP server: health, readiness, metrics, and the webhook."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from src.errors import ConfigError, StorageError
from src.metrics import Metrics
from src.storage.job_death_repo import JobDeathRepository
from src.storage.pg_client import PgClient
from src.storage.update_repo import UpdateRepository
from src.storage.worker_repo import WorkerRepository

RECEIVE_SECONDS = 90.0  # a getUpdates answers within 25; a webhook may be quiet for ever
HEARTBEAT_SECONDS = 30.0
CHECK_SECONDS = 2.0  # whoever probes does not wait long either

Check = Callable[[], Awaitable[str | None]]


class ReadinessChecks:
    """What ``/readyz`` looks at: each check returns None, or what is wrong."""

    def __init__(
        self,
        *,
        client: PgClient,
        workers: WorkerRepository,
        last_received: Callable[[], float | None] | None,
        is_polling: bool,
    ) -> None:
        """Look at these; ``last_received`` tells when Telegram was last heard, if we receive."""
        self._client = client
        self._workers = workers
        self._last_received = last_received
        self._is_polling = is_polling
        self._started = time.monotonic()

    def checks(self) -> Mapping[str, Check]:
        """The checks by name."""
        return {
            "database": self._database,
            "telegram": self._telegram,
            "worker": self._worker,
        }

    async def _database(self) -> str | None:
        try:
            await self._client.run(self._client.fetch_one, "SELECT 1")
        except StorageError as error:
            return str(error)
        return None

    async def _telegram(self) -> str | None:
        """Polling must have heard from Telegram lately; a webhook is called when there is news."""
        if self._last_received is None or not self._is_polling:
            return None
        last = self._last_received()
        if last is None:
            return "Telegram has not answered getUpdates yet"
        silence = time.monotonic() - last
        return (
            f"no answer to getUpdates for {silence:.0f} s" if silence > RECEIVE_SECONDS else None
        )

    async def _worker(self) -> str | None:
        try:
            age = await self._client.run(self._workers.seconds_since_heartbeat)
        except StorageError as error:
            return str(error)
        if age is None:
            return "no worker is running"
        return f"no heartbeat of a worker for {age:.0f} s" if age > HEARTBEAT_SECONDS else None


def build_http_app(
    *,
    checks: ReadinessChecks,
    metrics: Metrics,
    client: PgClient,
    updates: UpdateRepository,
    deaths: JobDeathRepository,
    webhook: Callable[[Request], Awaitable[Response]] | None = None,
) -> Starlette:
    """The routes; ``webhook`` only when Telegram is to call us."""

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_request: Request) -> Response:
        named = checks.checks()
        problems = await asyncio.gather(*(_within_deadline(check) for check in named.values()))
        found = dict(zip(named, problems, strict=True))
        ready = all(problem is None for problem in found.values())
        body = {name: problem or "ok" for name, problem in found.items()}
        return JSONResponse({"ready": ready, **body}, 200 if ready else 503)

    async def show_metrics(_request: Request) -> Response:
        with contextlib.suppress(StorageError, TimeoutError):
            waiting, oldest = await asyncio.wait_for(
                client.run(updates.count_waiting), CHECK_SECONDS
            )
            metrics.waiting.set(waiting)
            metrics.oldest.set(oldest)
            put_aside = await asyncio.wait_for(client.run(deaths.count_put_aside), CHECK_SECONDS)
            metrics.put_aside.set(put_aside)
        return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    routes = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", show_metrics),
    ]
    if webhook is not None:

        async def take_update(request: Request) -> Response:  # a Route calls functions only
            return await webhook(request)

        routes.append(Route("/telegram/webhook", take_update, methods=["POST"]))
    return Starlette(routes=routes)


async def _within_deadline(check: Check) -> str | None:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check()
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"


class HttpServer(uvicorn.Server):
    """uvicorn inside our own event loop; signals are ``bot.py``'s."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        """Serve ``app`` on ``host:port``; port 0 takes any free one."""
        super().__init__(
            uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
        )
        self._host = host
        self._port = port
        self.port: int | None = None

    def bind(self) -> socket.socket:
        """Take the port.

        Raises:
            ConfigError: It is taken, or not ours to take.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, self._port))
        except OSError as error:
            listener.close()
            raise ConfigError(
                [
                    f"HTTP_PORT: {self._host}:{self._port} cannot be used ({error.strerror}). "
                    "Choose another port, or 0 for any free one"
                ]
            ) from error
        self.port = listener.getsockname()[1]
        return listener

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield
