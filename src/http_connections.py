"""HTTP connections that end: half-open ones are timed out, and never take the last place."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

RECEIVE_SECONDS = 10.0  # for a whole request, from its first byte or the connection's beginning
ANSWER_SECONDS = 60.0  # for the answer to it, with the time that the client takes to read it
KEEP_ALIVE_SECONDS = 5  # between an answer and the next request
MAX_CONNECTIONS = 256
BACKLOG = 64  # connections that wait to be accepted; they are accepted all at once
DESCRIPTORS_SHARE = 4  # the most that connections take of what the process may open


class BoundedConnection(H11Protocol):
    """One connection. When there are too many, the oldest half-open one makes room.

    So a new connection always has a place, and time to send a request as short as ``/healthz``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Made by uvicorn."""
        super().__init__(*args, **kwargs)
        self.began = self.loop.time()
        self._phase = ""
        self._limit: asyncio.TimerHandle | None = None

    @property
    def is_half_open(self) -> bool:
        """Whether no whole request has arrived that still waits for its answer."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio; somebody may have to go for it."""
        super().connection_made(transport)
        self._enter("receiving", RECEIVE_SECONDS)
        if len(self.connections) > max_connections():
            _make_room(self)

    def data_received(self, data: bytes) -> None:
        """See asyncio; what comes piece by piece gets no more time than what comes at once."""
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        """See uvicorn; the client has some time to read the answer, and to ask again."""
        self._enter("idle", RECEIVE_SECONDS)
        super().on_response_complete()
        if not self.is_half_open:  # it had sent the next request already
            self._follow()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if self._limit is not None:
            self._limit.cancel()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Close it without a word: whoever is so slow would not read it either."""
        self.transport.abort()

    def _follow(self) -> None:
        if self.is_half_open:
            self._enter("receiving", RECEIVE_SECONDS)
        else:
            self._enter("answering", ANSWER_SECONDS)

    def _enter(self, phase: str, seconds: float) -> None:
        if phase == self._phase:
            return
        self._phase = phase
        if self._limit is not None:
            self._limit.cancel()
        self._limit = self.loop.call_later(seconds, self.give_up)


def _make_room(newcomer: BoundedConnection) -> None:
    others = [other for other in newcomer.connections if isinstance(other, BoundedConnection)]
    idle = [other for other in others if other.is_half_open and other is not newcomer]
    min(idle, key=lambda other: other.began, default=newcomer).give_up()


def max_connections() -> int:
    """How many connections there may be, so that descriptors are left for everything else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(MAX_CONNECTIONS, max(8, soft // DESCRIPTORS_SHARE))
