"""Faults and rate limits of the fake Bot API."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

from tests.fakes import drop_connection
from tests.fakes.telegram_types import ApiError, Json, Params, When

DRAFT_METHODS = frozenset({"sendMessageDraft", "sendRichMessageDraft"})


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

    kind: Literal["fail", "drop", "hang", "garbage", "answer"]
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
    """Scripted faults, one queue per method, and lasting delays and refusals."""

    scripted: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    delays: dict[str, tuple[float, When]] = field(default_factory=dict)
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

    def delay_of(self, method: str, when: When) -> float:
        """Return the delay in seconds before or after the request takes effect."""
        seconds, set_for = self.delays.get(method, (0.0, when))
        return seconds if set_for == when else 0.0


class FloodControl:
    """Sliding windows over sent messages; inactive unless given a rate."""

    def __init__(
        self,
        per_chat_per_second: float | None = None,
        total_per_second: float | None = None,
        count_drafts: bool = False,
    ) -> None:
        self.refused = 0
        self._count_drafts = count_drafts
        self._per_chat_rate = per_chat_per_second
        self._total = _Window(total_per_second) if total_per_second else None
        self._chats: dict[object, _Window] = {}

    def check(self, method: str, params: Params) -> None:
        """Count the request, or refuse it.

        Raises:
            ApiError: 429 with retry_after.
        """
        windows = self._windows(method, params)
        now = time.monotonic()
        wait = max((window.wait(now) for window in windows), default=0.0)
        if wait > 0:
            self.refused += 1
            raise flood_error(max(1, math.ceil(wait)))
        for window in windows:
            window.sent.append(now)

    def _windows(self, method: str, params: Params) -> list[_Window]:
        if not self._counts(method):
            return []
        windows = [self._total] if self._total else []
        if self._per_chat_rate:
            chat_id = params.get("chat_id")
            if chat_id not in self._chats:
                self._chats[chat_id] = _Window(self._per_chat_rate)
            windows.append(self._chats[chat_id])
        return windows

    def _counts(self, method: str) -> bool:
        if method in DRAFT_METHODS:
            return self._count_drafts
        return method.startswith(("send", "edit", "copy", "forward")) and (
            method != "sendChatAction"
        )


class _Window:
    """Requests within one second, or within 1/rate seconds for a rate below one."""

    def __init__(self, rate: float) -> None:
        self.limit = max(1, int(rate))
        self.seconds = max(1.0, 1.0 / rate)
        self.sent: deque[float] = deque()

    def wait(self, now: float) -> float:
        """Return the seconds until one more request is allowed; 0 if it is now."""
        while self.sent and self.sent[0] <= now - self.seconds:
            self.sent.popleft()
        if len(self.sent) < self.limit:
            return 0.0
        return self.sent[0] + self.seconds - now


def flood_error(retry_after: int) -> ApiError:
    """Return Telegram's 429 error."""
    parameters: Json = {"retry_after": retry_after}
    return ApiError(429, f"Too Many Requests: retry after {retry_after}", parameters)


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
