"""Half-open HTTP connections: timed out, and never in the way of /healthz."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from src.base.errors import ConfigError
from src.web import http_server as http_connections
from src.web.http_server import HttpServer
from tests.e2e.bot_process import eventually

HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
SLOW_BODY = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"


async def healthz(_request: Request) -> Response:
    return PlainTextResponse("ok")


async def echo(request: Request) -> Response:
    return PlainTextResponse(await request.body())


async def refuse(_request: Request) -> Response:
    return PlainTextResponse("no", 403)


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    routes = [Route("/healthz", healthz), Route("/echo", echo, methods=["POST"])]
    routes.append(Route("/refuse", refuse, methods=["POST"]))
    opened = HttpServer(Starlette(routes=routes), "127.0.0.1", 0)
    listener = opened.bind()
    serving = asyncio.ensure_future(opened.serve(sockets=[listener]))
    await eventually(lambda: opened.started, "the server")
    yield opened
    opened.stop()
    await serving


async def send(
    server: HttpServer, data: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    assert server.port is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(data)
    await writer.drain()
    return reader, writer


async def ends(reader: asyncio.StreamReader) -> bytes:
    """What came before the server closed the connection."""
    async with asyncio.timeout(30):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def ask(server: HttpServer) -> bytes:
    """The last bytes of the answer to ``/healthz`` on a new connection."""
    reader, writer = await send(server, HALF + b"Connection: close\r\n\r\n")
    told = await ends(reader)
    writer.close()
    return told[-2:]


@pytest.mark.parametrize(
    "data",
    [b"", HALF, SLOW_BODY, b"POST /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"],
)
async def test_a_request_that_does_not_become_whole_is_closed(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(http_connections, "RECEIVE_SECONDS", 0.3)
    reader, writer = await send(server, data)
    told = await ends(reader)
    assert told.startswith(b"HTTP/1.1 403") if b"refuse" in data else told == b""
    writer.close()
    await eventually(lambda: not server.server_state.connections, "the connection to be gone")


@pytest.mark.parametrize("data", [HALF, SLOW_BODY.replace(b"10", b"99999")])
async def test_who_sends_byte_by_byte_gets_no_more_time(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(http_connections, "RECEIVE_SECONDS", 0.5)
    reader, writer = await send(server, data)
    closed = asyncio.ensure_future(ends(reader))
    drops = 0
    while not closed.done():
        writer.write(b"a")
        drops += 1
        assert drops < 1000
        await asyncio.wait([closed], timeout=0.05)
    assert closed.result() == b"" or closed.result().startswith(b"HTTP/1.1 4")
    writer.close()


async def test_a_slow_honest_request_is_answered_its_connection_kept(server: HttpServer) -> None:
    reader, writer = await send(server, SLOW_BODY)
    writer.write(b"defghij")
    assert (await reader.readuntil(b"abcdefghij")).startswith(b"HTTP/1.1 200")
    writer.write(HALF + b"\r\n" + HALF + b"\r\n")  # the next two at once
    for _ in range(2):
        assert (await reader.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_the_oldest_half_open_connection_makes_room(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connections, "MAX_CONNECTIONS", 20)
    crowd = [await send(server, HALF) for _ in range(20)]
    await eventually(lambda: len(server.server_state.connections) == 20, "the crowd")
    for number in range(5):
        assert await ask(server) == b"ok"
        assert await ends(crowd[number][0]) == b"", "the oldest went first"
        await eventually(lambda: len(server.server_state.connections) == 19, "both to be gone")
        crowd.append(await send(server, HALF))
        await eventually(lambda: len(server.server_state.connections) == 20, "the crowd again")
    crowd[19][1].write(b"\r\n")
    assert (await crowd[19][0].readuntil(b"ok")).startswith(b"HTTP/1.1 200")
    for _, writer in crowd:
        writer.close()


def test_connections_leave_descriptors_for_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, expected in ((1024, 256), (400, 100), (10, 8)):
        monkeypatch.setattr(http_connections.resource, "getrlimit", lambda _, s=soft: (s, s))
        assert http_connections.max_connections() == expected


@pytest.mark.parametrize("host", ["CANARY-host", "256.1.1.1", "a" * 300, "CANARY\u200b."])
def test_a_host_that_is_no_address_is_refused_without_its_value(host: str) -> None:
    with pytest.raises(ConfigError, match=r"^HTTP_HOST: ") as refused:
        HttpServer(Starlette(), host, 0).bind()
    assert host not in str(refused.value)
