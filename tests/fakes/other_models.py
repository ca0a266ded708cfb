"""Loopback servers that stream one answer as Anthropic's and Google's do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from tests.fakes import LoopbackServer

Json = dict[str, Any]


class FakeOtherModels(LoopbackServer):
    """Answers every message with ``text``; ``requests`` keeps what came."""

    def __init__(self, text: str) -> None:
        """Answer with ``text``, in two pieces."""
        super().__init__()
        self._text = text
        self.requests: list[Json] = []

    @property
    def url(self) -> str:
        """What ``ANTHROPIC_BASE_URL`` and ``GOOGLE_BASE_URL`` are set to."""
        return f"http://127.0.0.1:{self.port}"

    def routes(self) -> list[web.RouteDef]:
        """The one call of each that a chat needs."""
        return [
            web.post("/v1/messages", self._anthropic),
            web.post("/v1beta/models/{call}", self._google),
        ]

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        events = (
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            for event in anthropic_events(self._pieces())
        )
        return await self._stream(request, events)

    async def _google(self, request: web.Request) -> web.StreamResponse:
        assert request.match_info["call"].endswith(":streamGenerateContent")
        chunks = (f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in google_chunks(self._pieces()))
        return await self._stream(request, chunks)

    def _pieces(self) -> list[str]:
        middle = len(self._text) // 2
        return [self._text[:middle], self._text[middle:]]

    async def _stream(self, request: web.Request, events: Iterator[str]) -> web.StreamResponse:
        self.requests.append(await request.json())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            await response.write(event.encode())
        await response.write_eof()
        return response


def anthropic_events(pieces: list[str]) -> Iterator[Json]:
    """One answer; see https://docs.anthropic.com/en/api/messages-streaming."""
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": [],
        "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }  # fmt: skip
    yield {"type": "message_start", "message": message}
    block = {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for piece in pieces:
        delta = {"type": "text_delta", "text": piece}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def google_chunks(pieces: list[str]) -> Iterator[Json]:
    """One answer; see https://ai.google.dev/api/generate-content."""
    for number, piece in enumerate(pieces, start=1):
        content = {"role": "model", "parts": [{"text": piece}]}
        end = {"finishReason": "STOP"} if number == len(pieces) else {}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        yield {"candidates": [{"content": content, "index": 0, **end}], "usageMetadata": usage}
