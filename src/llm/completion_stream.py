"""Lenient reader of chat completion bodies, which yields valid chunks only.

OpenAI-compatible servers send usage as strings, chunks without choices, an error in mid-stream, a
whole completion instead of a stream, an HTML page. The SDK and LangChain trust their input and
crash on it. So the body is parsed here, and LangChain receives only the documented fields and
types.
"""

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2
from langchain_core.messages.base import merge_content

from src.base.errors import ModelReplyError
from src.llm.errors import ReportedError
from src.llm.loose_json import as_list
from src.llm.reply import ID, at, new_id

logger = logging.getLogger(__name__)

Json = Mapping[str, Any]

BLANK = b" \t\xef\xbb\xbf"  # around lines, with the byte order mark
MAX_LINE = 8 * 1024 * 1024  # bytes of one event, or of a whole completion
MAX_TOKENS = 100_000_000  # larger counts of one call are implausible
UNKNOWN = -1  # tokens; LangChain sums usage, and accepts integers only
READ = frozenset({"role", "content", "tool_calls", "function_call", "refusal", "index"})
READ_OF_CALL = frozenset({"index", "id", "type", "function"})
TEXT_PARTS = ("text", "output_text", None)  # types of the parts of a content that are shown


# Fields of a reply that we do not read, but that its provider wants back with its calls, such as
# reasoning and its signatures (``reasoning_content``, ``extra_content``): by the id of each call,
# those of the message and those of the call.
Unread = Mapping[str, tuple[dict[str, Any], dict[str, Any]]]


class CompletionStream(AbstractAsyncContextManager[Any, None]):
    """Replacement of the SDK's stream for LangChain, with chunks as the API documents them.

    Chunks without content are dropped, so a server that only keeps the connection open runs into
    the caller's timeout.
    """

    def __init__(self, response: httpx2.Response, on_calls: Callable[[Unread], None]) -> None:
        """Read an unread response; ``on_calls`` gets what a reply with calls has beside them."""
        self._response = response
        self._on_calls = on_calls
        self._beside: dict[str, Any] = {}  # the fields of the message that we do not read
        self._beside_calls: dict[str, dict[str, Any]] = {}  # and those of each call, by its id
        self._ids: dict[int, str] = {}  # of the calls, by index
        self._records = self._read_records()
        self._first: Json | None = None
        self._has_content = False
        self._has_words = False  # True after text or a call
        self._is_finished = False

    async def __aexit__(self, *_: object) -> None:
        """Close the connection, or return it to the pool."""
        await self._response.aclose()

    async def begin(self) -> None:
        """Read the first record: some servers refuse a request inside a successful response.

        Raises:
            ReportedError: It is an error.
        """
        self._first = await anext(self._records, None)
        problem = _problem_in(self._first or {})
        if problem:
            await self._response.aclose()
            raise ReportedError(problem)

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the chunks, and the usage at the end.

        Of a reply that is all thoughts these are yielded in a tag: calls may stand in them.

        Raises:
            ModelReplyError: The body is no completion, or breaks off.
            ReportedError: The provider reports an error.
        """
        usage = None
        async for record in self._read_all():
            if isinstance(record.get("usage"), dict):
                usage = _normalize_usage(record["usage"])
            choice = self._normalize_choice(at(record, "choices", 0))
            if choice:
                yield {"choices": [choice]}
        if not self._has_content and usage is None:
            raise ModelReplyError("the reply is no chat completion")
        if self._has_content and not self._is_finished:
            raise ModelReplyError("the reply broke off")
        thoughts = self._beside.get("reasoning_content") or self._beside.get("reasoning")
        if thoughts and not self._has_words:
            delta = {"content": f"<think>{thoughts}", "tool_calls": []}
            yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        self._on_calls({id_: (self._beside, own) for id_, own in self._beside_calls.items()})
        if usage is not None:
            yield {"choices": [], "usage": usage}

    async def _read_all(self) -> AsyncIterator[Json]:
        """Yield the first record and the others, up to an error after the end of the reply.

        Raises:
            ReportedError: An error that is reported before.
        """
        record = self._first
        while record is not None:
            problem = _problem_in(record)
            if problem and not self._is_finished:
                raise ReportedError(problem)
            if problem:
                logger.warning("the provider reported an error after its reply")
                return
            yield record
            record = await anext(self._records, None)

    async def _read_records(self) -> AsyncIterator[Json]:
        """Yield the JSON objects of the body: its events, or the body as a whole.

        Every ``data:`` line is an event: no server splits JSON over several lines. The body is
        read to its end, because only then is the connection used again.
        """
        whole: list[bytes] = []
        async for line in self._read_lines():
            name, _, value = line.strip(BLANK).partition(b":")
            if whole or (name.startswith(b"{") and not self._has_content):
                whole.append(line)
            elif name == b"data" and value.strip() == b"[DONE]":
                self._is_finished = True
            elif name in (b"data", b"error"):
                record = parse_record(value)
                if record is not None:
                    yield record
        completion = parse_record(b"\n".join(whole))
        if completion is not None:
            yield completion
            self._is_finished = True

    async def _read_lines(self) -> AsyncIterator[bytes]:
        rest = b""
        try:
            async for piece in self._response.aiter_bytes():
                *lines, rest = (rest + piece).replace(b"\r", b"\n").split(b"\n")
                for line in lines:
                    yield line
                if len(rest) > MAX_LINE:
                    raise ModelReplyError("the reply is longer than any reply")
        except httpx2.HTTPError:
            if not self._is_finished:
                raise
        yield rest

    def _normalize_choice(self, choice: Any) -> dict[str, Any] | None:
        """Normalize the first choice of a chunk or a whole completion; None if it is empty."""
        if at(choice, "index"):
            return None
        pieces = (at(choice, name) for name in ("delta", "message"))
        piece = next((piece for piece in pieces if isinstance(piece, dict)), {})
        finish = at(choice, "finish_reason")
        if not isinstance(finish, str):
            finish = None
        text = _text_of(piece.get("content")) or _text_of(piece.get("refusal"))
        written = piece.get("tool_calls") or [{"function": piece.get("function_call")}]  # older
        calls = list(self._normalize_calls(as_list(written)))
        has_more = _merge_unknown(self._beside, piece, READ)
        if not (text or calls or finish or has_more):
            return None
        self._has_content = True
        self._has_words = self._has_words or bool(text or calls)
        self._is_finished = self._is_finished or bool(finish)
        delta = {"content": text, "tool_calls": calls}
        return {"index": 0, "delta": delta, "finish_reason": finish or None}

    def _normalize_calls(self, calls: list[Any]) -> Iterator[dict[str, Any]]:
        for position, call in enumerate(calls):
            function = at(call, "function")
            if not isinstance(function, dict):
                continue
            index, arguments = call.get("index"), function.get("arguments")
            name, is_whole = _string(function.get("name")), type(index) is not int
            if is_whole:  # Gemini numbers none, and sends each in one piece
                index = position
            if isinstance(arguments, dict | list):
                arguments = json.dumps(arguments)
            id_ = _string(call.get("id"))
            if id_ is not None or index not in self._ids or (is_whole and name):
                if id_ is None or not ID.fullmatch(id_):
                    id_ = new_id()
                self._ids[index] = id_
            beside = self._beside_calls.setdefault(self._ids[index], {})
            _merge_unknown(beside, call, READ_OF_CALL)
            named = {"name": name, "arguments": _string(arguments) or ""}
            yield {"index": index, "id": id_, "function": named}


def _problem_in(record: Json) -> Any:
    """Return the error that a record reports, under a key or by itself; None for anything else."""
    if "choices" not in record and (record.get("message") or record.get("detail")):
        return record
    return record.get("error")


def _merge_unknown(fields: dict[str, Any], piece: Json, known: frozenset[str]) -> bool:
    """Merge the unknown fields of a chunk into ``fields``; return True if there are any."""
    unknown = {name: value for name, value in piece.items() if value and name not in known}
    for name, value in unknown.items():
        before = fields.get(name)
        if isinstance(before, str | list) and isinstance(value, str | list):
            value = merge_content(before, value)
        fields[name] = value
    return bool(unknown)


def parse_record(text: bytes) -> Json | None:
    """Parse a JSON object; None for anything else."""
    try:
        record = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if isinstance(record, dict):
        return record
    return None


def _string(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return None


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
    if type(value) in (int, float) and 0 <= value <= MAX_TOKENS and value == int(value):
        return int(value)
    return UNKNOWN
