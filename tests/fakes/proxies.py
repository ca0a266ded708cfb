"""Loopback proxies, SOCKS5 and HTTP, which alone know the hosts named ``….test``."""

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import suppress
from typing import Literal, Self
from urllib.parse import quote, urlsplit

from tests.fakes import Changes

Kind = Literal["socks5", "http", "https"]
# What a proxy does instead of its work: nothing, a web page, a refusal of the host behind it, a
# host behind it that is away, the end of the connection at the greeting.
Fault = Literal["hang", "html", "refuse", "away", "close"]
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>Access is restricted</html>"


class FakeProxy:
    """A proxy on 127.0.0.1 that can be stopped, and started again on its port.

    Attributes:
        reached: ``host:port`` of each connection that was led on, in order.
        refused: Number of connections with a wrong login.
        fault: What it does instead of its work; None: its work.
    """

    def __init__(
        self, kind: Kind, login: tuple[str, str] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.kind = kind
        self.login = login
        self.reached: list[str] = []
        self.refused = 0
        self.fault: Fault | None = None
        self.port = 0
        self.changes = Changes()
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """Its address, with its login percent-encoded."""
        user, password = self.login or ("", "")
        login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if self.login else ""
        host = "localhost" if self._tls else "127.0.0.1"
        return f"{self.kind}://{login}{host}:{self.port}"

    async def start(self) -> None:
        """Listen; with port 0 the port is chosen once and kept."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Die: cut all connections, and listen no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    def cut(self) -> None:
        """Cut all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with suppress(OSError, EOFError):
                if self.fault == "hang":
                    await reader.read()
                elif self.fault == "html":
                    await reader.read(1)
                    writer.write(PAGE)
                    await writer.drain()
                elif self.fault != "close":
                    serve = self._socks if self.kind == "socks5" else self._http
                    await serve(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        wanted = 2 if self.login else 0
        if wanted not in methods:
            self.refused += 1
            writer.write(b"\5\xff")
            return
        writer.write(bytes([5, wanted]))
        if self.login:
            await reader.readexactly(1)
            user = await reader.readexactly((await reader.readexactly(1))[0])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            is_right = (user.decode(), password.decode()) == self.login
            writer.write(b"\1\0" if is_right else b"\1\1")
            if not is_right:
                self.refused += 1
                return
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            host = ".".join(map(str, await reader.readexactly(4)))
        port = int.from_bytes(await reader.readexactly(2))
        code = {None: 0, "refuse": 2, "away": 5}[self.fault]  # type: ignore[index]
        writer.write(bytes([5, code, 0, 1, 0, 0, 0, 0, 0, 0]))
        if code == 0:
            await self._lead(reader, writer, host, port)

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve ``CONNECT host:port``, and a request for a whole address."""
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        method, target, _ = lines[0].split()
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        told = headers.get("Proxy-Authorization", "")
        wanted = base64.b64encode(":".join(self.login or ()).encode()).decode()
        status = {None: None, "refuse": "403 Forbidden", "away": "502 Bad Gateway"}[self.fault]  # type: ignore[index]
        if self.login and told != f"Basic {wanted}":
            self.refused += 1
            status = "407 Proxy Authentication Required"
        if status is not None:
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
            return
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            head = b""
        await self._lead(reader, writer, parts.hostname or "", parts.port or 80, head)

    async def _lead(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        host: str,
        port: int,
        first: bytes = b"",
    ) -> None:
        self.reached.append(f"{host}:{port}")
        self.changes.notify()
        there = "127.0.0.1" if host.endswith(".test") else host
        far_reader, far_writer = await asyncio.open_connection(there, port)
        self._writers.add(far_writer)
        far_writer.write(first)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, far_writer))
                both.create_task(_pump(far_reader, writer))
        except* (OSError, EOFError):
            pass
        finally:
            self._writers.discard(far_writer)
            far_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()  # one end has gone: so does the other
