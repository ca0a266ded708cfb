"""Bounds of HTTP connections, which are uvicorn's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from src.base.errors import ConfigError
from src.web.http_server import MAX_CONNECTIONS, MAX_HEADERS, HttpServer, read_body
from tests.e2e.bot_process import eventually

HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
SLOW_BODY = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"


async def healthz(_request: Request) -> Response:
    return PlainTextResponse("ok")


async def echo(request: Request) -> Response:
    return PlainTextResponse(await read_body(request, 100))


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    routes = [Route("/healthz", healthz), Route("/echo", echo, methods=["POST"])]
    opened = HttpServer(Starlette(routes=routes), "127.0.0.1", 0)
    opened.bind()
    serving = asyncio.ensure_future(opened.serve_bound())
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
    async with asyncio.timeout(30):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def ask(server: HttpServer) -> bytes:
    reader, writer = await send(server, HALF + b"Connection: close\r\n\r\n")
    told = await ends(reader)
    writer.close()
    return told


def connections_of(server: HttpServer) -> set[Any]:
    return {*server.server_state.connections}


async def test_a_slow_honest_request_is_answered_its_connection_kept(server: HttpServer) -> None:
    reader, writer = await send(server, SLOW_BODY)
    writer.write(b"defghij")
    assert (await reader.readuntil(b"abcdefghij")).startswith(b"HTTP/1.1 200")
    writer.write(HALF + b"\r\n" + HALF + b"\r\n")  # the next two at once
    for _ in range(2):
        assert (await reader.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_a_client_that_goes_away_in_the_middle_is_no_failure(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await send(server, SLOW_BODY)
    await eventually(lambda: server.server_state.tasks, "the request")
    writer.close()
    await eventually(lambda: not server.server_state.tasks, "its end")
    assert not caplog.records


async def test_requests_on_too_many_connections_are_refused(server: HttpServer) -> None:
    crowd = [await send(server, HALF) for _ in range(MAX_CONNECTIONS - 1)]
    await eventually(lambda: len(connections_of(server)) == MAX_CONNECTIONS - 1, "the crowd")
    assert (await ask(server)).startswith(b"HTTP/1.1 503")
    crowd.pop()[1].close()
    await eventually(lambda: len(connections_of(server)) == MAX_CONNECTIONS - 2, "one to be gone")
    assert (await ask(server)).startswith(b"HTTP/1.1 200")
    for _, writer in crowd:
        writer.close()


async def test_headers_are_bounded_and_an_idle_connection_is_closed(server: HttpServer) -> None:
    reader, writer = await send(server, HALF + b"X: " + b"a" * MAX_HEADERS)
    assert (await ends(reader)).startswith(b"HTTP/1.1 400")
    writer.close()
    reader, writer = await send(server, HALF + b"\r\n")
    assert (await ends(reader)).endswith(b"ok")
    writer.close()


@pytest.mark.parametrize("host", ["CANARY-host", "256.1.1.1", "a" * 300, "CANARY\u200b."])
def test_a_host_that_is_no_address_is_refused_without_its_value(host: str) -> None:
    with pytest.raises(ConfigError, match=r"^HTTP_HOST: ") as refused:
        HttpServer(Starlette(), host, 0).bind()
    assert host not in str(refused.value)
