"""Faults of the fake Bot API."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

from tests.fakes import drop_connection
from tests.fakes.telegram_types import ApiError, Params, When


@dataclass(frozen=True)
class RawAnswer:
    """An arbitrary HTTP answer.

    Attributes:
        body: Bytes of the body.
        promised: Bytes by which Content-Length exceeds the body; the connection is then cut.
    """

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    promised: int = 0


@dataclass(frozen=True)
class Fault:
    """A fault that replaces the proper answer to one request.

    Attributes:
        chat_id: If set, only requests for this chat are affected.
        text: Only requests whose text contains this are affected.
    """

    kind: Literal["fail", "drop", "hang", "answer"]
    when: When = "before"
    error: ApiError | None = None
    answer: RawAnswer | None = None
    chat_id: int | None = None
    text: str = ""

    def is_for(self, params: Params) -> bool:
        """Return True if a request with these parameters is affected."""
        in_chat = self.chat_id in (None, params.get("chat_id"))
        return in_chat and self.text in str(params.get("text", ""))


@dataclass
class Faults:
    """Scripted faults, one queue per method, and lasting refusals."""

    scripted: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    disabled: dict[str, ApiError] = field(default_factory=dict)

    def add(self, method: str, fault: Fault, times: int) -> None:
        """Apply the fault to the next `times` matching calls of the method."""
        self.scripted[method].extend([fault] * times)

    def take(self, method: str, params: Params) -> Fault | None:
        """Remove and return the first fault that affects this call, if any."""
        faults = self.scripted.get(method, ())
        for fault in faults:
            if fault.is_for(params):
                faults.remove(fault)
                return fault
        return None


async def send_raw(request: web.Request, answer: RawAnswer) -> web.StreamResponse:
    """Send the answer literally; cut the connection if Content-Length exceeds the body."""
    headers = {"Content-Type": answer.content_type, **dict(answer.headers)}
    if answer.promised:
        response = web.StreamResponse(status=answer.status, headers=headers)
        response.content_length = len(answer.body) + answer.promised
        await response.prepare(request)
        await response.write(answer.body)
        await drop_connection(request)
    return web.Response(status=answer.status, body=answer.body, headers=headers)
