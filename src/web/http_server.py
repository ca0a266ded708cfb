"""HTTP server: health, readiness, metrics, webhook."""

import asyncio
import contextlib
import errno
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from src.base.errors import ConfigError, StorageError
from src.core import Core
from src.pg.embedded import find_shortage
from src.queue.job_repo import JobRepository
from src.texts.reply import ReplyFile

logger = logging.getLogger(__name__)

# uvicorn does not end a request that arrives slowly; a proxy in front does (deploy/nginx.conf).
MAX_CONNECTIONS = 256  # requests on more connections are refused with 503
MAX_HEADERS = 16_384  # bytes of a request before its body
KEEP_ALIVE_SECONDS = 5  # between an answer and the next request
PIECE = 65_536  # bytes of a file that are in memory at once


async def read_pieces(request: Request) -> AsyncIterator[bytes]:
    """Yield the body of a request.

    Raises:
        HTTPException: The client went away in its middle; nobody sees the answer.
    """
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect as error:
        raise HTTPException(400) from error


async def read_body(request: Request, limit: int) -> bytes:
    """Read the body of a request.

    Raises:
        HTTPException: It is longer than ``limit`` bytes.
    """
    body = b""
    async for piece in read_pieces(request):
        body += piece
        if len(body) > limit:
            raise HTTPException(413)
    return body


def send_file(file: ReplyFile, media_type: str) -> Response:
    """Stream a file as a download, from its beginning; it is closed at its end."""
    headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}

    def read() -> Iterator[bytes]:
        with file.content:
            file.content.seek(0)
            yield from iter(partial(file.content.read, PIECE), b"")

    return StreamingResponse(read(), media_type=media_type, headers=headers)


@dataclass(eq=False, repr=False)
class WithHeaders:
    """ASGI app that adds headers to all responses, including refusals and errors.

    Responses under ``/static/`` get others.
    """

    _app: Any
    _headers: Mapping[str, str]
    _static: Mapping[str, str]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle an ASGI connection."""
        headers = self._headers
        if "/static/" in scope["path"]:
            headers = self._static

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        await self._app(scope, receive, send_with_headers)


POLL_SECONDS = 90.0  # without an answer; getUpdates answers within 25
HEARTBEAT_SECONDS = 30.0
CHECK_SECONDS = 2.0  # probes have short timeouts themselves
FULL_SECONDS = 60.0  # for which a full disk is reported after a failed statement
FINISH_SECONDS = 1  # for running requests when the process stops; Telegram calls again

Check = Callable[[], Awaitable[str | None]]


def readiness_checks(
    core: Core,
    last_polled: Callable[[], float | None] | None,
    find_webhook_problem: Callable[[], str | None] | None,
) -> Mapping[str, Check]:
    """Return the checks of ``/readyz`` by name: each returns None, or its problem.

    ``last_polled`` returns the time of Telegram's last answer if the bot polls: a webhook may
    be quiet, so ``find_webhook_problem`` returns what Telegram says about it.
    """

    async def database() -> str | None:
        shortage = find_disk_shortage(core)
        if shortage is None:
            await core.client.run(core.client.fetch_one, "SELECT 1")
        return shortage

    async def telegram() -> str | None:
        if find_webhook_problem is not None:
            return find_webhook_problem()
        last = time.monotonic() if last_polled is None else last_polled()
        if last is None:
            return "Telegram has not answered getUpdates yet"
        silence = time.monotonic() - last
        return f"no answer to getUpdates for {silence:.0f} s" if silence > POLL_SECONDS else None

    async def worker() -> str | None:
        age = await core.client.run(JobRepository(core.client).seconds_since_heartbeat)
        if age is None:
            return "no worker is running"
        return f"no heartbeat of a worker for {age:.0f} s" if age > HEARTBEAT_SECONDS else None

    return {"database": database, "telegram": telegram, "worker": worker}


def find_disk_shortage(core: Core) -> str | None:
    """Return a problem if the disk is full: reads go on, so a query would not notice it."""
    if core.settings.uses_embedded_database:
        return find_shortage(core.settings.data_dir)
    full_at = core.client.full_at
    if full_at is None or time.monotonic() > full_at + FULL_SECONDS:
        return None
    return "the disk is full: PostgreSQL could not write (53100)"


def build_http_app(
    core: Core,
    *,
    last_polled: Callable[[], float | None] | None = None,
    webhook: Callable[[Request], Awaitable[Response]] | None = None,
    find_webhook_problem: Callable[[], str | None] | None = None,
) -> Starlette:
    """Build the app; ``webhook`` handles calls of Telegram if there are any.

    ``last_polled`` and ``find_webhook_problem`` are those of ``readiness_checks``.
    """
    checks = readiness_checks(core, last_polled, find_webhook_problem)
    run = core.client.run

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_request: Request) -> Response:
        results = await asyncio.gather(*map(_within_deadline, checks.values()))
        body = dict(zip(checks, results, strict=True))
        if any(result != "ok" for result in results):
            return JSONResponse({"ready": False, **body}, 503)
        return JSONResponse({"ready": True, **body})

    async def metrics(_request: Request) -> Response:
        with contextlib.suppress(StorageError, TimeoutError):
            async with asyncio.timeout(CHECK_SECONDS):
                waiting, oldest = await run(core.updates.count_waiting)
                core.metrics.waiting.set(waiting)
                core.metrics.oldest.set(oldest)
                core.metrics.put_aside.set(await run(core.dead_jobs.count))
        text = core.metrics.render()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    routes = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    if webhook is not None:

        async def take_update(request: Request) -> Response:  # a Route accepts functions only
            return await webhook(request)

        routes.append(Route("/telegram/webhook", take_update, methods=["POST"]))
    return Starlette(routes=routes)


async def _within_deadline(check: Check) -> str:
    """Return the problem that a check finds, or ``ok``."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check() or "ok"
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"
    except StorageError as error:
        return str(error)


class HttpServer(uvicorn.Server):
    """uvicorn inside our own event loop; ``bot.py`` handles the signals.

    Attributes:
        port: The bound port.
        while_serving: Context that its apps need while it serves.
    """

    def __init__(self, app: Starlette, host: str, port: int, proxies: Sequence[str] = ()) -> None:
        """Serve ``app`` on ``host:port``; port 0 takes any free one.

        ``proxies`` (networks) are trusted about the client's address and TLS.
        """
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                proxy_headers=bool(proxies),
                forwarded_allow_ips=[*proxies],
                limit_concurrency=MAX_CONNECTIONS,
                h11_max_incomplete_event_size=MAX_HEADERS,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=FINISH_SECONDS,
            )
        )
        self._host = host
        self._port = port
        self._listener: socket.socket | None = None
        self.port: int | None = None
        self.while_serving: contextlib.AbstractAsyncContextManager[None] = contextlib.nullcontext()

    def stop(self) -> None:
        """Stop after the running requests."""
        self.should_exit = True

    def bind(self, *, required: bool = True) -> None:
        """Bind the port: a receiver needs it, a worker beside it does without.

        Raises:
            ConfigError: The port is required, and is taken or not permitted.
        """
        family = socket.AF_INET
        if ":" in self._host:
            family = socket.AF_INET6
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, self._port))
            listener.listen()  # connections wait until the server runs
        except (OSError, UnicodeError, ValueError, TypeError) as error:
            listener.close()
            problem = (
                "HTTP_HOST: it is no address of this machine. "
                "Write 127.0.0.1, or 0.0.0.0 to be reached from others"
            )
            if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES):
                remedy = "Choose another port, or 0 for any free one"
                problem = f"HTTP_PORT: it cannot be used ({error.strerror}). {remedy}"
            if required:
                raise ConfigError([problem]) from None
            logger.warning("this worker has no HTTP server: %s", problem)
        else:
            self._listener, self.port = listener, listener.getsockname()[1]

    async def serve_bound(self) -> None:
        """Serve on the bound port, within ``while_serving``; end at once if none is bound."""
        if self._listener is not None:
            async with self.while_serving:
                await self.serve(sockets=[self._listener])

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield
