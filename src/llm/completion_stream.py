"""Lenient parser of chat completion bodies, which yields valid chunks only.

OpenAI-compatible servers send usage as strings, chunks without choices, an error in mid-stream, a
whole completion instead of a stream, an HTML page. The SDK and LangChain trust their input and
crash on it. So the body is parsed here, and LangChain receives only the documented fields and
types.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
from langchain_core.messages.base import merge_content

from src.base.errors import AppError, ModelReplyError
from src.llm.errors import ReportedError
from src.llm.reply import ID, at

logger = logging.getLogger(__name__)

Json = Mapping[str, Any]

MAX_BODY = 32 * 1024 * 1024  # bytes of one reply, including its reasoning
MAX_LINE = 8 * 1024 * 1024  # bytes of one event, or of a whole completion
MAX_TOKENS = 100_000_000  # larger counts of one call are implausible
UNKNOWN = -1  # tokens; LangChain sums usage, and accepts integers only
END_SECONDS = 0.2  # limit for reading the end of a body after its last event
MAX_NAME = 40  # characters of a finish reason; the longest known one has 14
WHOLE = (b"{", b"[", b"<")  # first bytes of a body that is no event stream
READ = frozenset({"role", "content", "tool_calls", "function_call", "refusal", "index"})
READ_OF_CALL = frozenset({"index", "id", "type", "function"})
TEXT_PARTS = ("text", "output_text", None)  # types of the parts of a content that are shown


@dataclass
class Unread:
    """Fields of a reply that we do not read, but that its provider wants back with its calls.

    Reasoning and its signatures: ``reasoning_content``, ``reasoning_details``, ``extra_content``.

    Attributes:
        message: Those of the message.
        calls: Those of each call, by its id.
    """

    message: dict[str, Any] = field(default_factory=dict)
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, fields: dict[str, Any], piece: Json, known: frozenset[str]) -> bool:
        """Merge the unknown fields of a chunk into ``fields``; return True if there are any."""
        has_any = False
        for name, value in piece.items():
            if name in known or value is None or value in ("", [], {}):
                continue
            has_any = True
            before = fields.get(name)
            if isinstance(before, str) and isinstance(value, str):
                fields[name] = before + value
            elif isinstance(before, list) and isinstance(value, list):
                fields[name] = merge_content(before, value)
            else:
                fields[name] = value
        return has_any


class CompletionStream(AbstractAsyncContextManager[Any, None]):
    """Replacement of the SDK's stream for LangChain, with chunks as the API documents them.

    Chunks without content are dropped, so a server that only keeps the connection open runs into
    the caller's timeout.
    """

    def __init__(self, stream: Any, on_calls: Callable[[Unread], None]) -> None:
        """Read the response of ``stream``, an unread ``openai.AsyncStream``.

        ``on_calls`` gets what a reply with calls has beside them.
        """
        self._response = stream.response
        self._on_calls = on_calls
        self._unread = Unread()
        self._ids: dict[int, str] = {}  # of the calls, by index
        self._read = self._records()
        self._first: Json | None = None
        self._usage: Json | None = None
        self._has_content = False
        self._is_finished = False

    async def __aexit__(self, *_: object) -> None:
        """Close the connection, or return it to the pool."""
        await self._response.aclose()

    async def begin(self) -> None:
        """Read the first record: some servers refuse a request inside a successful response.

        Raises:
            ReportedError: It is an error.
        """
        self._first = await anext(self._read, None)
        if self._first is not None and self._first.get("error"):
            await self._response.aclose()
            raise ReportedError(self._first["error"])

    async def _all_records(self) -> AsyncIterator[Json]:
        if self._first is not None:
            yield self._first
        async for record in self._read:
            yield record

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the chunks, and the usage at the end.

        Raises:
            ModelReplyError: The body is no completion, or breaks off.
            ReportedError: The provider reports an error.
        """
        async for record in self._all_records():
            if self._is_over(record):
                break
            if isinstance(record.get("usage"), dict):
                self._usage = record["usage"]
            chunk = self._normalize_chunk(record)
            if chunk:
                yield chunk
        if not self._has_content and self._usage is None:
            raise ModelReplyError("the reply is no chat completion")
        if self._ids:
            self._on_calls(self._unread)
        if self._usage is not None:
            yield {"choices": [], "usage": _normalize_usage(self._usage)}

    def _is_over(self, record: Json) -> bool:
        """Return True for an error that is reported after the whole reply.

        Raises:
            ReportedError: An error that is reported before.
        """
        problem = record.get("error")
        if problem and not self._is_finished:
            raise ReportedError(problem)
        if problem:
            logger.warning("the provider reported an error after its reply")
        return bool(problem)

    async def _records(self) -> AsyncIterator[Json]:
        """Yield the JSON objects of the body: its events, or the body as a whole.

        Every ``data:`` line is an event: no server splits JSON over several lines.

        Raises:
            ModelReplyError: The stream ends before the reply does.
        """
        whole: list[bytes] = []
        lines = self._lines()
        async for line in lines:
            text = line.strip()
            name, _, value = text.partition(b":")
            if whole or (text[:1] in WHOLE and not self._has_content):
                whole.append(line)
            elif name == b"data" and value.strip() == b"[DONE]":
                await _read_end(lines)
                return
            elif name == b"data" and (record := parse_record(value)) is not None:
                yield record
        if not whole and self._has_content and not self._is_finished:
            raise ModelReplyError("the reply broke off")
        completion = parse_record(b"\n".join(whole))
        for record in [completion] if completion is not None else map(parse_record, whole):
            if record is not None:
                yield record

    async def _lines(self) -> AsyncIterator[bytes]:
        rest, size = bytearray(), 0
        async for piece in self._pieces():
            size += len(piece)
            rest += piece
            if len(rest) > MAX_LINE or size > MAX_BODY:
                raise ModelReplyError("the reply is longer than any reply")
            if b"\n" in piece or b"\r" in piece:
                lines = bytes(rest).splitlines(keepends=True)
                rest.clear()
                if not lines[-1].endswith((b"\n", b"\r")):
                    rest += lines.pop()
                for line in lines:
                    yield line
        yield bytes(rest)

    async def _pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.aiter_bytes():
                yield piece
        except Exception as error:
            if self._is_finished:
                return
            if isinstance(error, httpx2.DecodingError):
                raise ModelReplyError("the reply is not encoded as it says") from error
            raise

    def _normalize_chunk(self, record: Json) -> dict[str, Any] | None:
        """Normalize the first choice of a chunk or a whole completion; None if it is empty."""
        choice = at(record, "choices", 0)
        if at(choice, "index") not in (0, None):
            return None
        pieces = (at(choice, name) for name in ("delta", "message"))
        delta = next((piece for piece in pieces if isinstance(piece, dict)), {})
        normalized = self._normalize_delta(delta)
        has_more = self._unread.add(self._unread.message, delta, READ)
        finish = (_string(at(choice, "finish_reason")) or "")[:MAX_NAME] or None
        if not normalized and finish is None and not has_more:
            return None
        self._has_content = True
        self._is_finished |= finish is not None
        return {"choices": [{"index": 0, "delta": normalized, "finish_reason": finish}]}

    def _normalize_delta(self, delta: Json) -> dict[str, Any]:
        normalized: dict[str, Any] = {}
        text = _text_of(delta.get("content")) or _text_of(delta.get("refusal"))
        if text:
            normalized["content"] = text
        raw_calls = delta.get("tool_calls")
        if not isinstance(raw_calls, list):  # its deprecated predecessor
            raw_calls = [{"function": delta.get("function_call")}]
        calls = list(self._normalize_calls(raw_calls))
        if calls:
            normalized["tool_calls"] = calls
        return normalized

    def _normalize_calls(self, calls: list[Any]) -> Iterator[dict[str, Any]]:
        for position, call in enumerate(calls):
            function = at(call, "function")
            if not isinstance(function, dict):
                continue
            index, arguments = call.get("index"), function.get("arguments")
            if type(index) is not int:
                index = position
            if isinstance(arguments, dict | list):
                arguments = json.dumps(arguments)
            id_ = _string(call.get("id"))
            if id_ is not None or index not in self._ids:
                if id_ is None or not ID.fullmatch(id_):
                    id_ = f"call_{uuid.uuid4().hex}"
                self._ids[index] = id_
            unread = self._unread.calls.setdefault(self._ids[index], {})
            self._unread.add(unread, call, READ_OF_CALL)
            yield {
                "index": index,
                "id": id_,
                "function": {
                    "name": _string(function.get("name")),
                    "arguments": _string(arguments) or "",
                },
            }


async def _read_end(lines: AsyncIterator[bytes]) -> None:
    """Read the body to its end, because only then is the connection reused.

    This saves the next call a connection and its handshakes.
    """
    with suppress(AppError, httpx2.HTTPError, TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            async for _ in lines:
                pass


def parse_record(text: bytes) -> Json | None:
    """Parse a JSON object; None for anything else."""
    try:
        record = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _text_of(content: Any) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    shown = (part for part in parts if at(part, "type") in TEXT_PARTS)
    return "".join(_string(at(part, "text")) or "" for part in shown)


def _normalize_usage(usage: Json) -> dict[str, Any]:
    cached = at(usage, "prompt_tokens_details", "cached_tokens")
    return {
        "prompt_tokens": _tokens(usage.get("prompt_tokens")),
        "completion_tokens": _tokens(usage.get("completion_tokens")),
        "total_tokens": 0,  # unused; without it LangChain would add up the two
        "prompt_tokens_details": {"cached_tokens": _tokens(0 if cached is None else cached)},
    }


def _tokens(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else UNKNOWN
