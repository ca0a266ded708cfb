"""Loopback chat APIs of Anthropic and Google: streams, tools, caches, errors."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from tests.fakes import LoopbackServer
from tests.fakes.openai_server import ChatRequest, Reply
from tests.fakes.prompt_caches import AnthropicCache, Billed, GoogleCache, google_error

Json = dict[str, Any]


class FakeOtherModels(LoopbackServer):
    """Server of both APIs; answers with queued replies, else with ``reply``.

    Attributes:
        reply: Builds the answer from a request's body when the queue is empty.
        requests: Bodies of the requests.
        keys: API keys of the requests.
        billed: Costs of the prompts by the provider's rules.
        anthropic_cache: Anthropic's prompt cache.
        google_cache: Counts Google's prompts.
    """

    def __init__(self, text: str = "", *, least: int = 1024) -> None:
        """Answer with ``text``; prompts of at least ``least`` tokens are cached."""
        super().__init__()
        self.reply: Callable[[Json], Reply] = lambda _request: Reply(text=text)
        self.requests: list[Json] = []
        self.keys: list[str] = []
        self.billed: list[Billed] = []
        self.anthropic_cache = AnthropicCache(least)
        self.google_cache = GoogleCache()
        self._queued: deque[Reply] = deque()

    def queue(self, *replies: Reply) -> None:
        """Answer the next requests with these replies."""
        self._queued.extend(replies)

    @property
    def url(self) -> str:
        """Value of ``ANTHROPIC_BASE_URL`` and ``GOOGLE_BASE_URL``."""
        return f"http://127.0.0.1:{self.port}"

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of both APIs that a chat needs."""
        return [
            web.post("/v1/messages", self._anthropic),
            web.post("/v1beta/models/{call}", self._google),
        ]

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        body = await self._record_request(request, "x-api-key")
        if problem := self.anthropic_cache.problem(body):
            return web.json_response(anthropic_error(400, problem), status=400)
        reply = self._next_reply(body)
        if reply.status != 200:
            error = anthropic_error(reply.status, str(reply.error))
            return web.json_response(error, status=reply.status, headers=reply.headers)
        self.billed.append(self.anthropic_cache.bill(body))
        events = [
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            for event in anthropic_events(reply, self.billed[-1])
        ]
        if reply.error is not None:
            broken = json.dumps(anthropic_error(529, str(reply.error)))
            events = [*events[:3], f"event: error\ndata: {broken}\n\n"]
        return await self._stream(request, reply, events)

    async def _google(self, request: web.Request) -> web.StreamResponse:
        assert request.match_info["call"].endswith(":streamGenerateContent")
        body = await self._record_request(request, "x-goog-api-key")
        status, problem = self.google_cache.problem(body)
        reply = self._next_reply(body) if not status else Reply(status=status, error=problem)
        if reply.status != 200:
            error = google_error(reply.status, str(reply.error))
            return web.json_response(error, status=reply.status, headers=reply.headers)
        self.billed.append(self.google_cache.bill(body))
        chunks = google_chunks(reply, self.billed[-1])
        return await self._stream(
            request, reply, [f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks]
        )

    async def _record_request(self, request: web.Request, header: str) -> Json:
        body: Json = await request.json()
        self.requests.append(body)
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.keys.append(request.headers.get(header, bearer))
        return body

    def _next_reply(self, body: Json) -> Reply:
        return self._queued.popleft() if self._queued else self.reply(body)

    async def _stream(
        self, request: web.Request, reply: Reply, events: list[str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events[: reply.cut_after_chunks]:
            await response.write(event.encode())
        if reply.cut_after_chunks is not None and request.transport is not None:
            request.transport.abort()
        else:
            await response.write_eof()
        return response


def as_chat_request(body: Json) -> ChatRequest:
    """Convert a request of either API to OpenAI's form, for functions that build replies."""
    if "contents" in body:
        tools = [f for t in body.get("tools") or () for f in t.get("functionDeclarations", ())]
        system = "".join(
            p["text"] for p in (body.get("systemInstruction") or {"parts": []})["parts"]
        )
        turns = [
            {
                "role": "tool"
                if "functionResponse" in str(content["parts"])
                else role_of(content),
                "content": "\n".join(part.get("text", "") for part in content["parts"]),
            }
            for content in body["contents"]
        ]
    else:
        tools, field = body.get("tools") or [], body.get("system") or ""
        system = field if isinstance(field, str) else "".join(block["text"] for block in field)
        turns = [
            {
                "role": "tool" if "tool_result" in str(message["content"]) else message["role"],
                "content": message["content"],
            }
            for message in body["messages"]
        ]
    functions = [{"type": "function", "function": {"name": tool["name"]}} for tool in tools]
    messages = [{"role": "system", "content": system}, *turns]
    return ChatRequest(
        str(body.get("model", "")), messages, functions, stream=True, raw=body, at=time.monotonic()
    )


def role_of(content: Json) -> str:
    """Convert Google's role to OpenAI's."""
    return "assistant" if content.get("role") == "model" else "user"


def anthropic_error(status: int, message: str) -> Json:
    """Return an error in Anthropic's format; https://docs.anthropic.com/en/api/errors."""
    kinds = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
             404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error",
             529: "overloaded_error"}  # fmt: skip
    kind = kinds.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def pieces_of(text: str) -> list[str]:
    """Return the non-empty halves of a text."""
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def anthropic_events(reply: Reply, billed: Billed) -> Iterator[Json]:
    """Yield the events of one answer; https://docs.anthropic.com/en/api/messages-streaming."""
    usage = {
        "input_tokens": billed.fresh,
        "cache_read_input_tokens": billed.read,
        "cache_creation_input_tokens": billed.written,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    yield {"type": "message_start", "message": message}
    blocks: list[tuple[Json, list[Json]]] = []
    if reply.text:
        texts = [{"type": "text_delta", "text": piece} for piece in pieces_of(reply.text)]
        blocks.append(({"type": "text", "text": ""}, texts))
    for number, (name, arguments) in enumerate(reply.tool_calls):
        written = pieces_of(json.dumps(arguments))
        halves = [{"type": "input_json_delta", "partial_json": piece} for piece in written]
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        blocks.append((call, halves))
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = reply.finish_reason or ("tool_use" if reply.tool_calls else "end_turn")
    end = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {**usage, "output_tokens": 5}}
    yield {"type": "message_stop"}


def google_chunks(reply: Reply, billed: Billed) -> Iterator[Json]:
    """Yield the chunks of one answer; https://ai.google.dev/api/generate-content."""
    parts: list[Json] = [{"text": piece} for piece in pieces_of(reply.text)]
    calls = ({"functionCall": {"name": n, "args": a}} for n, a in reply.tool_calls)
    parts += calls
    usage = {
        "promptTokenCount": billed.total,
        "cachedContentTokenCount": billed.read or reply.cached_tokens,
        "candidatesTokenCount": 5,
        "totalTokenCount": billed.total + 5,
    }
    for number, part in enumerate(parts or [{"text": ""}], start=1):
        content = {"role": "model", "parts": [part]}
        reason = {"finishReason": reply.finish_reason or "STOP"} if number >= len(parts) else {}
        yield {"candidates": [{"content": content, "index": 0, **reason}], "usageMetadata": usage}
