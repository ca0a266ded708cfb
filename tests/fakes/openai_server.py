"""A loopback OpenAI-compatible model: chat completions (streamed or not), embeddings, models."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import os
import re
import signal
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import psutil
from aiohttp import web

from tests.fakes import PATIENCE, LoopbackServer, drop_connection, wait_for_client_to_leave

Json = dict[str, Any]

DEFAULT_DIMENSION = 256
TOKEN_CHARACTERS = 4
"""Characters per token, for usage numbers that a reply does not set."""

# The time label of a message, and the marks of its author.
_TIME_PREFIX = re.compile(
    r"^\[Текущее время: \d{4}-\d{2}-\d{2} \d{2}:\d{2}\] "
    r"(?:\[(?:пишет|пише|written by|в ответ на|у відповідь на|in reply to)\b[^\]\n]*\] )*",
    re.MULTILINE,
)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class ChatRequest:
    """One POST /chat/completions.

    Attributes:
        raw: The whole body.
        at: `time.monotonic()` of its arrival.
    """

    model: str
    messages: list[Json]
    tools: list[Json]
    stream: bool
    raw: Json
    at: float

    @property
    def last_user_text(self) -> str:
        """Last text of the user, without its time label.

        Messages that arrived together are joined into one, each after its own label.
        """
        for message in reversed(self.messages):
            if message.get("role") == "user":
                return _TIME_PREFIX.split(text_of(message.get("content")))[-1]
        return ""

    @property
    def form(self) -> str:
        """Name of the form to whose schema the reply is held; empty for any other reply."""
        format_ = self.raw.get("response_format") or {}
        return str((format_.get("json_schema") or {}).get("name", ""))

    @property
    def system_text(self) -> str:
        """Texts of all system messages, joined by newlines."""
        roles = {"system", "developer"}
        texts = [text_of(m.get("content")) for m in self.messages if m.get("role") in roles]
        return "\n".join(texts)


@dataclass(frozen=True)
class Raw:
    """A literal HTTP response, for responses that no library would send.

    Attributes:
        body: Bytes after the headers.
        status: Status code and reason of the first line.
        headers: Content-Length is added unless it or Transfer-Encoding is among them.
        before: Bytes before the first line, such as a 1xx response.
        abort: Abort the connection afterwards instead of closing it.
    """

    body: bytes = b""
    status: str = "200 OK"
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/event-stream"),)
    before: bytes = b""
    abort: bool = False

    def encoded(self) -> bytes:
        """Return the bytes of the response."""
        names = {name.lower() for name, _ in self.headers}
        headers = [*self.headers, ("Connection", "close")]
        if not names & {"content-length", "transfer-encoding"}:
            headers.append(("Content-Length", str(len(self.body))))
        lines = [f"HTTP/1.1 {self.status}", *(f"{name}: {value}" for name, value in headers)]
        return self.before + "\r\n".join([*lines, "", ""]).encode() + self.body


@dataclass
class Reply:
    """An answer of the model, with its faults.

    Attributes:
        text: The answer.
        tool_calls: (name, arguments) of each call; `finish_reason` follows.
        chunk_size: Characters in one streamed chunk.
        chunk_delay: Seconds before each chunk.
        delay: Seconds before the first byte.
        status: HTTP status; anything but 200 is sent as an OpenAI error.
        error: The error's message, or its whole object.
        headers: Extra response headers, such as Retry-After.
        cut_after_chunks: Number of chunks after which the connection is dropped.
        hang: Never answer.
        prompt_tokens: For usage; None estimates it from the text, as with completion_tokens.
        raw: Sent literally instead of everything else.
        gate: The answer pauses after `gate_after_chunks` chunks until this is set.
    """

    text: str = ""
    tool_calls: list[tuple[str, Json]] = field(default_factory=list)
    chunk_size: int = 8
    chunk_delay: float = 0.0
    delay: float = 0.0
    status: int = 200
    error: str | Json | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut_after_chunks: int | None = None
    hang: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int = 0
    gate: asyncio.Event | None = None
    gate_after_chunks: int = 0
    finish_reason: str | None = None
    raw: Raw | None = None

    @property
    def is_error(self) -> bool:
        """True when an error object is sent instead of an answer."""
        return self.status != 200 or self.error is not None


def call_text(name: str, form: str = "json", /, **arguments: Any) -> str:
    """Return a tool call as small models write it: fenced (``json``), bare or in a tag."""
    key = "parameters" if form == "bare" else "arguments"
    call = json.dumps({"name": name, key: arguments}, ensure_ascii=False)
    forms = {"json": f"```json\n{call}\n```", "bare": call}
    return forms.get(form, f"<tool_call>\n{call}\n</tool_call>")


def echo(request: ChatRequest) -> Reply:
    """Repeat the user's text, and find no facts in it."""
    if "ExtractedFacts" in str(request.tools):
        return Reply(text='{"facts": []}')
    return Reply(text=f"эхо: {request.last_user_text}")


class FakeOpenAI(LoopbackServer):
    """Server of an OpenAI-compatible model.

    Attributes:
        reply: Builds the answer when the queue is empty; a plain string is a text.
        api_key: When set, other keys get 401.
        requests: All chat requests, unless `keep_requests` is off.
        keeps_connections: True to keep the connection open after a streamed answer.
        peers: Remote ports of the connections that chat requests used.
        request_count: Number of chat requests, even when they are not kept.
        read_ahead: Requests for one token, which only warm the prompt cache; they are answered
            immediately, are not counted, and take nothing from the queue.
        active: Number of chat requests being answered.
        waiting_at_gate: Number of answers waiting for their gate.
        abandoned: Number of answers that the client or a stop of the server cut off.
        embedding_requests: The inputs of each embeddings request.
        embeddings_error: When set, the answer to every embeddings request.
        embeddings_most: When set, an embeddings request with more texts is refused.
        embeddings_refusal: When set, returns the refusal of an embeddings request, if any.
        spoil_embeddings: When set, maps a correct reply and its texts to what is sent; a string
            is sent literally, anything else as JSON.
        takes_queued: Predicate of the requests that take queued replies; by default all.
        kills: When it returns True for a request's body, the sending process is killed.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        reply: Callable[[ChatRequest], Reply | str] = echo,
        keep_requests: bool = True,
    ) -> None:
        super().__init__()
        self.api_key = api_key
        self.keep_requests = keep_requests
        self.embedding_dimension = DEFAULT_DIMENSION
        self.models = ["fake-model"]
        self.active = 0
        self.abandoned = 0
        self._reset(reply)

    def _reset(self, reply: Callable[[ChatRequest], Reply | str]) -> None:
        self.reply = reply
        self.requests: list[ChatRequest] = []
        self.keeps_connections = False
        self.peers: set[int] = set()
        self.request_count = 0
        self.read_ahead: list[ChatRequest] = []
        self.waiting_at_gate = 0
        self.embedding_requests: list[list[str]] = []
        self.embeddings_error: Reply | None = None
        self.embeddings_most: int | None = None
        self.embeddings_refusal: Callable[[list[str]], Reply | None] | None = None
        self.spoil_embeddings: Callable[[Json, list[str]], Any] | None = None
        self.kills: Callable[[Json], bool] | None = None
        self.takes_queued: Callable[[ChatRequest], bool] = lambda _request: True
        self.transcribed: list[tuple[str, str]] = []
        self.transcription_status = 200
        self._queued: deque[Reply] = deque()

    async def renew(self) -> None:
        """Abort active requests and reset all state."""
        self.cut()
        await self.wait_for(lambda: not self.active)
        self.abandoned = 0
        self._reset(echo)

    @property
    def url(self) -> str:
        """Base URL for clients, ending with /v1."""
        return f"http://127.0.0.1:{self.port}/v1"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self._chat),
            web.post("/v1/embeddings", self._embeddings),
            web.post("/v1/audio/transcriptions", self._transcriptions),
            web.get("/v1/models", self._models),
        ]

    def queue(self, *replies: Reply | str) -> None:
        """Answer the next requests with these replies, in order, before using `reply`."""
        self._queued.extend(as_reply(reply) for reply in replies)

    async def wait_requests(self, count: int, timeout: float = PATIENCE) -> list[ChatRequest]:
        """Return the requests once at least `count` chat requests have arrived."""
        await self.wait_for(lambda: self.request_count >= count, timeout, f"{count} request(s)")
        return list(self.requests)

    def failure(self, what: str, timeout: float) -> str:
        last = [str(request.messages[-1:])[:200] for request in self.requests[-5:]]
        return (
            f"waited {timeout} s in vain for {what}; {self.request_count} chat request(s), "
            f"{self.active} active; the last: {last}"
        )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if refusal := self._check_key(request):
            return refusal
        chat = parse_chat(await request.json())
        if request.transport is not None:
            self.peers.add(request.transport.get_extra_info("peername")[1])
        if chat.raw.get("max_tokens") == 1:
            self.read_ahead.append(chat)
            self.changes.notify()
            return await self._stream(request, chat, Reply(text="!"))
        return await self._answer(request, chat)

    async def _answer(self, request: web.Request, chat: ChatRequest) -> web.StreamResponse:
        if self.kills is not None and self.kills(chat.raw):
            kill_sender(request)
        self.request_count += 1
        if self.keep_requests:
            self.requests.append(chat)
        async with self._activity():
            is_next = bool(self._queued) and self.takes_queued(chat)
            reply = self._queued.popleft() if is_next else as_reply(self.reply(chat))
            await self._before_answer(reply)
            if reply.raw is not None:
                await send_raw(request, reply.raw)
            if reply.is_error:
                return error_response(reply)
            if chat.stream:
                return await self._stream(request, chat, reply)
            await self._pass_gate(reply)
            if reply.cut_after_chunks is not None:
                await drop_connection(request)
            return web.json_response(completion(chat, reply), headers=reply.headers)

    @asynccontextmanager
    async def _activity(self) -> AsyncIterator[None]:
        self.active += 1
        self.changes.notify()
        try:
            yield
        except (asyncio.CancelledError, ConnectionError):
            self.abandoned += 1
            raise
        finally:
            self.active -= 1
            self.changes.notify()

    async def _before_answer(self, reply: Reply) -> None:
        if reply.hang:
            await wait_for_client_to_leave()
        if reply.delay:
            await asyncio.sleep(reply.delay)

    async def _pass_gate(self, reply: Reply) -> None:
        if reply.gate is None:
            return
        self.waiting_at_gate += 1
        self.changes.notify()
        try:
            await reply.gate.wait()
        finally:
            self.waiting_at_gate -= 1

    async def _stream(
        self, request: web.Request, chat: ChatRequest, reply: Reply
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=reply.headers)
        if not self.keeps_connections:
            response.force_close()  # as after embeddings: no one closes the client of a model
        response.content_type = "text/event-stream"
        await response.prepare(request)
        await response.write(event(chunk(chat, {"role": "assistant", "content": ""})))
        await self._write_deltas(request, response, chat, reply)
        await response.write(event(chunk(chat, {}, finish_reason(reply))))
        if (chat.raw.get("stream_options") or {}).get("include_usage"):
            await response.write(event(chunk(chat, None) | {"usage": usage(chat, reply)}))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def _write_deltas(
        self, request: web.Request, response: web.StreamResponse, chat: ChatRequest, reply: Reply
    ) -> None:
        written = 0
        for delta in deltas(reply):
            if written == reply.cut_after_chunks:
                break
            if written == reply.gate_after_chunks:
                await self._pass_gate(reply)
            if reply.chunk_delay:
                await asyncio.sleep(reply.chunk_delay)
            await response.write(event(chunk(chat, delta)))
            written += 1
        if reply.cut_after_chunks is not None:
            await drop_connection(request)
        if written <= reply.gate_after_chunks:
            await self._pass_gate(reply)

    async def _embeddings(self, request: web.Request) -> web.Response:
        if refusal := self._check_key(request):
            return refusal
        body = await request.json()
        if self.kills is not None and self.kills(body):
            kill_sender(request)
        inputs = texts_to_embed(body["input"])
        self.embedding_requests.append(inputs)
        self.changes.notify()
        error = self.embeddings_error
        if self.embeddings_most is not None and len(inputs) > self.embeddings_most:
            error = Reply(status=400, error="batch size is invalid, it should not be larger")
        if self.embeddings_refusal is not None:
            error = self.embeddings_refusal(inputs) or error
        if error is not None:
            refusal = error_response(error)
            refusal.force_close()
            return refusal
        dimension = int(body.get("dimensions") or self.embedding_dimension)
        as_base64 = body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(
                pack(embed(text, dimension)) if as_base64 else embed(text, dimension)
                for text in inputs
            )
        ]
        tokens = sum(map(count_tokens, inputs))
        reply: Any = {
            "object": "list",
            "model": body.get("model"),
            "data": data,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
        if self.spoil_embeddings is not None:
            reply = self.spoil_embeddings(reply, inputs)
        text = reply if isinstance(reply, str) else json.dumps(reply)
        response = web.Response(text=text, content_type="application/json")
        response.force_close()  # no one closes the embedder, so leave it no open socket
        return response

    async def _transcriptions(self, request: web.Request) -> web.StreamResponse:
        """Transcribe a file to its bytes decoded as text, so that a test controls the result."""
        form = await request.post()
        sound = form["file"]
        assert isinstance(sound, web.FileField)
        self.transcribed.append((str(sound.filename), str(form.get("model"))))
        self.changes.notify()
        if self.transcription_status != 200:
            return web.json_response(
                {"error": {"message": "no"}}, status=self.transcription_status
            )
        return web.json_response({"text": sound.file.read().decode(errors="replace")})

    async def _models(self, request: web.Request) -> web.Response:
        if refusal := self._check_key(request):
            return refusal
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": "fake"}
            for name in self.models
        ]
        return web.json_response({"object": "list", "data": data})

    def _check_key(self, request: web.Request) -> web.Response | None:
        authorization = request.headers.get("Authorization")
        if self.api_key is None or authorization == f"Bearer {self.api_key}":
            return None
        return error_response(Reply(status=401, error="Incorrect API key provided"))


def kill_sender(request: web.Request) -> None:
    """Send SIGKILL to the process at the other end of the connection."""
    peer = request.transport.get_extra_info("peername")[1] if request.transport else None
    for connection in psutil.net_connections("tcp"):
        if connection.laddr and connection.laddr.port == peer and connection.pid:
            os.kill(connection.pid, signal.SIGKILL)
            return
    raise AssertionError(f"nobody has port {peer}")


async def send_raw(request: web.Request, raw: Raw) -> NoReturn:
    """Write a literal response to the connection and close it."""
    transport = request.transport
    assert transport is not None
    transport.write(raw.encoded())
    if not raw.abort:
        transport.close()  # after everything is written
        await wait_for_client_to_leave()
    transport.write_eof()  # truncates the body: the client sees a premature end
    await drop_connection(request)


def as_reply(reply: Reply | str) -> Reply:
    """Convert a string to a reply with this text."""
    return Reply(text=reply) if isinstance(reply, str) else reply


def parse_chat(body: Json) -> ChatRequest:
    """Parse the body of a chat request."""
    return ChatRequest(
        model=body.get("model", ""),
        messages=body.get("messages", []),
        tools=body.get("tools") or [],
        stream=bool(body.get("stream")),
        raw=body,
        at=time.monotonic(),
    )


def text_of(content: Any) -> str:
    """Return the text of a message's content, which is a string or a list of parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""


def error_response(reply: Reply) -> web.Response:
    """Build an OpenAI error; without a status it is a 500."""
    status = reply.status if reply.status != 200 else 500
    error = reply.error
    if not isinstance(error, dict):
        code = "invalid_api_key" if status == 401 else None
        message = error or f"error {status}"
        error = {"message": message, "type": "fake_error", "param": None, "code": code}
    response = web.json_response({"error": error}, status=status, headers=reply.headers)
    response.force_close()
    return response


def completion(chat: ChatRequest, reply: Reply) -> Json:
    """Build the response to a request without streaming."""
    message: Json = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.tool_calls:
        message["tool_calls"] = [
            tool_call(index, name, json.dumps(arguments, ensure_ascii=False))
            for index, (name, arguments) in enumerate(reply.tool_calls)
        ]
    else:
        message["content"] = reply.text
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(reply)}
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": chat.model,
        "choices": [choice],
        "usage": usage(chat, reply),
    }


def chunk(chat: ChatRequest, delta: Json | None, finish: str | None = None) -> Json:
    """Build a streamed chunk; without a delta it has no choices, like the usage chunk."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": chat.model,
        "choices": choices,
    }


def event(body: Json) -> bytes:
    """Encode one server-sent event."""
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


def deltas(reply: Reply) -> Iterator[Json]:
    """Yield the deltas of the answer: its text, then each tool call in pieces."""
    for piece in pieces(reply.text, reply.chunk_size):
        yield {"content": piece}
    for index, (name, arguments) in enumerate(reply.tool_calls):
        yield {"tool_calls": [{"index": index, **tool_call(index, name, "")}]}
        for piece in pieces(json.dumps(arguments, ensure_ascii=False), reply.chunk_size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def pieces(text: str, size: int) -> Iterator[str]:
    """Cut the text into pieces of `size` characters."""
    for start in range(0, len(text), size):
        yield text[start : start + size]


def tool_call(index: int, name: str, arguments: str) -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{index}_{name}", "type": "function", "function": function}


def finish_reason(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")


def usage(chat: ChatRequest, reply: Reply) -> Json:
    """Return the token counts of a request and its answer."""
    prompt = reply.prompt_tokens
    if prompt is None:
        prompt = sum(count_tokens(text_of(m.get("content"))) for m in chat.messages)
    answer = reply.completion_tokens
    if answer is None:
        answer = count_tokens(reply.text)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
    }


def count_tokens(text: str) -> int:
    return max(1, len(text) // TOKEN_CHARACTERS)


def texts_to_embed(value: Any) -> list[str]:
    """Return the inputs as texts; lists of token ids become space-separated numbers."""
    if isinstance(value, str):
        return [value]
    if value and isinstance(value[0], int):
        return [" ".join(map(str, value))]
    return [item if isinstance(item, str) else " ".join(map(str, item)) for item in value]


def embed(text: str, dimension: int) -> list[float]:
    """Return a unit vector of hashed words, so that texts with common words are similar."""
    vector = [0.0] * dimension
    for word in _WORD.findall(text.casefold()) or [text]:
        digest = hashlib.blake2b(word.encode(), digest_size=16).digest()
        for start in range(0, 16, 4):
            number = int.from_bytes(digest[start : start + 4], "big")
            vector[(number >> 1) % dimension] += 1.0 if number & 1 else -1.0
    norm = math.sqrt(sum(value * value for value in vector))
    if norm == 0.0:
        return [1.0] + [0.0] * (dimension - 1)
    return [value / norm for value in vector]


def pack(vector: list[float]) -> str:
    """Encode a vector as base64 of little-endian float32, as the API does."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
