"""The body of a chat completion, read with care: whatever a server sends becomes sound chunks.

Servers that speak OpenAI's protocol send usage as strings, chunks without choices, an error in
the middle, a whole completion although a stream was asked for, a page of HTML. The SDK and
LangChain trust what they read, and fail in the middle of it. So the body is read here, and what
goes on to LangChain has the documented fields and types only.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import httpx2

from src.base.errors import AppError, ModelReplyError
from src.llm.errors import reported_error
from src.llm.reply import at

logger = logging.getLogger(__name__)

Json = Mapping[str, Any]

MAX_BODY = 32 * 1024 * 1024  # bytes of one reply, its thoughts included
MAX_LINE = 8 * 1024 * 1024  # bytes of one event, or of a completion that comes as a whole
MAX_TOKENS = 100_000_000  # a call that reports more tokens than this reports nonsense
UNKNOWN = -1  # tokens; LangChain adds usage up and takes whole numbers only
END_SECONDS = 0.2  # that the end of a body may take to follow its last event
MAX_NAME = 40  # characters of why a reply ended; the longest known reason has 14
WHOLE = (b"{", b"[", b"<")  # how a body begins that is no stream of events
# Where servers put what a model thinks before it answers; it is not shown.
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")


class CompletionStream(AbstractAsyncContextManager[Any, None]):
    """Stands where LangChain expects the SDK's stream; yields chunks as the API documents them.

    Every chunk that is yielded says something, so a server that only keeps the line open runs
    into the caller's time-out.
    """

    def __init__(self, stream: Any) -> None:
        """Read the response of ``stream``, an unread ``openai.AsyncStream``."""
        self._response = stream.response
        self._usage: Json | None = None
        self._said_anything = False
        self._is_finished = False

    async def __aexit__(self, *_: object) -> None:
        """Close the connection, or give it back."""
        await self._response.aclose()

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """The chunks, and the usage at the end.

        Raises:
            ModelReplyError: The body is no completion, breaks off, or reports an error.
            AppError: What the reported error means.
        """
        async for record in self._records():
            if problem := record.get("error"):
                if self._is_finished:  # the answer is there already
                    logger.warning("the provider reported an error after its reply")
                    break
                raise reported_error(problem)
            if isinstance(record.get("usage"), dict):
                self._usage = record["usage"]
            if chunk := _sound_chunk(record):
                self._said_anything = True
                self._is_finished |= chunk["choices"][0]["finish_reason"] is not None
                yield chunk
        if not self._said_anything and self._usage is None:
            raise ModelReplyError("the reply is no chat completion")
        if self._usage is not None:
            yield {"choices": [], "usage": _sound_usage(self._usage)}

    async def _records(self) -> AsyncIterator[Json]:
        """The JSON objects of the body: its events, or the whole of it.

        Every ``data:`` line is an event: no server breaks JSON into several.

        Raises:
            ModelReplyError: The stream ends before the reply does.
        """
        whole: list[bytes] = []
        lines = self._lines()
        async for line in lines:
            text = line.strip()
            name, _, value = text.partition(b":")
            if whole or (text[:1] in WHOLE and not self._said_anything):
                whole.append(line)
            elif name == b"data" and value.strip() == b"[DONE]":
                await _read_end(lines)
                return
            elif name == b"data" and (record := _as_record(value)) is not None:
                yield record
        if not whole and self._said_anything and not self._is_finished:
            raise ModelReplyError("the reply broke off")
        one = _as_record(b"\n".join(whole)) if whole else None
        for record in (one,) if one is not None else map(_as_record, whole):
            if record is not None:
                yield record

    async def _lines(self) -> AsyncIterator[bytes]:
        """The lines of the body, within its bounds."""
        rest, size = bytearray(), 0
        async for piece in self._pieces():
            size += len(piece)
            rest += piece
            if len(rest) > MAX_LINE or size > MAX_BODY:
                raise ModelReplyError("the reply is longer than any reply")
            if b"\n" in piece or b"\r" in piece:
                lines = bytes(rest).splitlines(keepends=True)
                rest = bytearray(b"" if lines[-1].endswith((b"\n", b"\r")) else lines.pop())
                for line in lines:
                    yield line
        yield bytes(rest)

    async def _pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives; what breaks after the reply's end does not matter any more."""
        try:
            async for piece in self._response.aiter_bytes():
                yield piece
        except Exception as error:
            if self._is_finished:
                return
            if isinstance(error, httpx2.DecodingError):
                raise ModelReplyError("the reply is not encoded as it says") from error
            raise


async def _read_end(lines: AsyncIterator[bytes]) -> None:
    """Read what follows the last event: only a body that was read whole leaves its connection.

    The next call needs no new one then, nor its handshakes.
    """
    with suppress(AppError, httpx2.HTTPError, TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            async for _ in lines:
                pass


def _as_record(text: bytes) -> Json | None:
    """A JSON object; None for anything else."""
    try:
        record = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _sound_chunk(record: Json) -> dict[str, Any] | None:
    """The first choice of a chunk, or of a whole completion; None when it says nothing."""
    choice = at(record, "choices", 0)
    if at(choice, "index") not in (0, None):
        return None
    delta = at(choice, "delta")
    if not isinstance(delta, dict):
        delta = at(choice, "message")
    said = _sound_delta(delta)
    finish = at(choice, "finish_reason")
    finish = finish[:MAX_NAME] if isinstance(finish, str) and finish else None
    if not said and finish is None and not any(at(delta, name) for name in THOUGHTS):
        return None
    return {"choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def _sound_delta(delta: Any) -> dict[str, Any]:
    """Its text (a refusal is text too) and its tool calls."""
    said: dict[str, Any] = {}
    if text := _text_of(at(delta, "content")) or _text_of(at(delta, "refusal")):
        said["content"] = text
    calls = at(delta, "tool_calls")
    old = at(delta, "function_call")  # how calls looked before there were several at once
    listed = calls if isinstance(calls, list) else [{"function": old}] if old else []
    if sound := list(_sound_calls(listed)):
        said["tool_calls"] = sound
    return said


def _sound_calls(calls: list[Any]) -> Iterator[dict[str, Any]]:
    for place, call in enumerate(calls):
        function = at(call, "function")
        if not isinstance(function, dict):
            continue
        index, arguments = call.get("index"), function.get("arguments")
        if isinstance(arguments, dict | list):
            arguments = json.dumps(arguments)
        yield {
            "index": index if type(index) is int else place,
            "id": _string(call.get("id")),
            "function": {
                "name": _string(function.get("name")),
                "arguments": _string(arguments) or "",
            },
        }


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _text_of(content: Any) -> str:
    """Text, or the texts of a list of parts."""
    parts = content if isinstance(content, list) else [{"text": content}]
    return "".join(_string(at(part, "text")) or "" for part in parts)


def _sound_usage(usage: Json) -> dict[str, Any]:
    """Token counts as whole numbers; ``UNKNOWN`` for nonsense."""
    cached = at(usage, "prompt_tokens_details", "cached_tokens")
    return {
        "prompt_tokens": _tokens(usage.get("prompt_tokens")),
        "completion_tokens": _tokens(usage.get("completion_tokens")),
        "total_tokens": 0,  # unused; without it LangChain would add the two
        "prompt_tokens_details": {"cached_tokens": _tokens(0 if cached is None else cached)},
    }


def _tokens(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else UNKNOWN
