"""A loopback TCP proxy for PostgreSQL's socket that can drop all bytes, as in a fail-over."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

GOOD_BYE = b"X\0\0\0\4"  # PostgreSQL's Terminate message


class SwallowingProxy:
    """Proxy that forwards bytes in a thread until `swallow` is called.

    After a fail-over only new connections work: the new server resets those that it does not know.

    Attributes:
        swallowed: Number of dropped chunks, without Terminate messages.
        port: Port of the listener.
    """

    def __init__(self, dsn: str) -> None:
        """Create a proxy for the server of ``dsn``, which contains its socket's folder."""
        parts = urlsplit(dsn)
        self._server = str(Path(parse_qs(parts.query)["host"][0]) / ".s.PGSQL.5432")
        self._database = parts.path.lstrip("/")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._is_silent = False
        self._is_over = False
        self.port: int = self._listener.getsockname()[1]
        self.swallowed = 0

    @property
    def dsn(self) -> str:
        """URL of the database through this proxy."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{self._database}"

    def swallow(self) -> None:
        """Drop all bytes in both directions, on existing and new connections."""
        self._is_silent = True

    def fail_over(self) -> None:
        """Let new connections work, and cut the existing ones, as ``tcp_user_timeout`` would."""
        self._is_silent = False
        for end in list(self._peers):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> SwallowingProxy:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over = True
        self._thread.join(10)
        self._selector.close()
        for end in (self._listener, *self._peers):
            end.close()

    def _run(self) -> None:
        while not self._is_over:
            for key, _ in self._selector.select(timeout=0.05):
                end = key.fileobj
                assert isinstance(end, socket.socket)
                if end is self._listener:
                    self._accept()
                elif end in self._peers:
                    self._forward(end)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._server)
        except OSError:
            server.close()
            client.close()
            return
        self._peers |= {client: server, server: client}
        for end in (client, server):
            self._selector.register(end, selectors.EVENT_READ)

    def _forward(self, end: socket.socket) -> None:
        data = b""
        with suppress(OSError):
            data = end.recv(65_536)
        if self._is_silent:
            self.swallowed += bool(data) and data != GOOD_BYE
            if not data:  # the close is not forwarded to the other end
                self._selector.unregister(end)
            return
        with suppress(OSError):
            self._peers[end].sendall(data)
        if not data:
            self._close(end)

    def _close(self, end: socket.socket) -> None:
        other = self._peers[end]
        for one in (end, other):
            with suppress(KeyError):
                self._selector.unregister(one)
            del self._peers[one]
            one.close()
