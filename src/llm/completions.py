"""Chat completions of OpenAI's API: requests in the shape that the server takes, lenient reading.

Servers with OpenAI's API differ in what they take: system messages only at the start, no forced
``tool_choice``, no tools at all. After a refusal the next simpler shape is tried; what worked is
remembered for the model as long as the process lives. A prompt that is too long goes again with
the newer half of its talk, until it fits.

They differ in what they send, too: usage as strings, chunks without choices, an error in
mid-stream, a whole completion instead of a stream, an HTML page. The SDK and LangChain trust their
input and crash on it. So the body is parsed here, and LangChain receives only the documented
fields and types.
"""

import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import httpx2
import openai
from langchain_core.messages.base import merge_content

from src.base.errors import ModelReplyError
from src.llm.errors import Report, ReportedError, read_report
from src.llm.loose_json import as_list
from src.llm.reply import ID, at, new_id

logger = logging.getLogger(__name__)

Body = dict[str, Any]
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


# Requests.

MAX_UNREAD = 500  # calls whose unread fields are kept, until the loop of tools ends
EARLIER = "…"  # placeholder for the user's message before an answer
AS_JSON = "Answer with one JSON object of this schema, and nothing else: "


def system_first(body: Body) -> Body:
    """One system message at the start; later ones become the user's."""
    lead = list(takewhile(lambda message: message["role"] == "system", body["messages"]))
    messages = [_as_users(message) for message in body["messages"][len(lead) :]]
    if lead:
        content = _joined([message["content"] for message in lead])
        messages.insert(0, {"role": "system", "content": content})
    return {**body, "messages": messages}


def _as_users(message: Body) -> Body:
    if message["role"] != "system":
        return message
    return {**message, "role": "user"}


def alternating(body: Body) -> Body:
    """User and assistant in turn, the user first; a system message stays at the start."""
    merged: list[Body] = []
    for message in system_first(body)["messages"]:
        last = merged[-1] if merged else {"role": ""}
        is_plain = not (message.get("tool_calls") or last.get("tool_calls"))
        if message["role"] == last["role"] and message["role"] != "tool" and is_plain:
            parts = [part for part in (last["content"], message["content"]) if part]
            merged[-1] = {**last, "content": _joined(parts)}
            continue
        if message["role"] == "assistant" and last["role"] in ("", "system"):
            merged.append({"role": "user", "content": EARLIER})
        merged.append(message)
    return {**body, "messages": merged}


def _joined(parts: list[Any]) -> Any:
    if all(isinstance(part, str) for part in parts):
        return "\n\n".join(parts)
    joined: list[Any] = []
    for part in parts:
        joined += part if isinstance(part, list) else [{"type": "text", "text": part}]
    return joined


def without_system(body: Body) -> Body:
    """The system message as the beginning of the user's first one."""
    messages = system_first(body)["messages"]
    return alternating({**body, "messages": list(map(_as_users, messages))})


def with_free_choice(body: Body) -> Body:
    """The model is told which tool to call instead of being forced to."""
    choice = body.get("tool_choice")
    if choice in (None, "auto"):
        return body
    if choice == "none":
        return without_tools(body)
    name = at(choice, "function", "name") or "one of the tools"
    return _with_order({**body, "tool_choice": "auto"}, f"Answer only by calling {name}.")


def _with_order(body: Body, order: str) -> Body:
    *rest, last = body["messages"]
    if last["role"] != "user":
        return {**body, "messages": [*rest, last, {"role": "user", "content": order}]}
    content = _joined([last["content"], order])
    return {**body, "messages": [*rest, {**last, "content": content}]}


def with_schema_in_text(body: Body) -> Body:
    """The schema of the reply in the text; servers hold no model to it any more."""
    schema = body.get("response_format")
    if schema is None:
        return body
    return _with_order(without("response_format")(body), AS_JSON + json.dumps(schema))


def without_tools(body: Body) -> Body:
    """No tools; a form that had to be called is asked for as JSON, results are told as text."""
    if not body.get("tools"):
        return body
    choice, tools = body.get("tool_choice"), body["tools"]
    messages = [_as_text(message) for message in body["messages"]]
    body = {**without("tools", "tool_choice")(body), "messages": messages}
    if isinstance(choice, dict):
        schema = json.dumps(tools[0]["function"]["parameters"])
        body = _with_order(body, AS_JSON + schema)
    return body


def _as_text(message: Body) -> Body:
    if message["role"] == "tool":
        return {"role": "user", "content": f"[Result of the tool: {message['content']}]"}
    calls = message.get("tool_calls")
    if not calls:
        return message
    names = ", ".join(call["function"]["name"] for call in calls)
    content = f"{message.get('content') or ''}\n[Tools called: {names}]".strip()
    return {"role": "assistant", "content": content}


def newer_half(body: Body) -> Body:
    """The instructions and the newer half of the talk; the same body if there is no half."""
    lead = list(takewhile(lambda message: message["role"] == "system", body["messages"]))
    said = [n for n, message in enumerate(body["messages"]) if message["role"] == "user"]
    if len(said) < 2:
        return body
    return {**body, "messages": [*lead, *body["messages"][said[len(said) // 2] :]]}


def without(*names: str) -> Callable[[Body], Body]:
    """Return a shape without some fields."""
    return lambda body: {name: value for name, value in body.items() if name not in names}


def without_unread(body: Body) -> Body:
    """Messages with the fields that all servers know only, and without null."""
    known = ("role", "content", "tool_calls", "tool_call_id")
    messages = [{k: v or "" for k, v in m.items() if k in known} for m in body["messages"]]
    return {**body, "messages": messages}


@dataclass(frozen=True)
class Simplification:
    """A simpler shape of requests.

    Attributes:
        name: What servers then get.
        apply: Returns the simpler body; an equal one if it is that simple already.
        hint: Words of refusals that ask for it.
    """

    name: str
    apply: Callable[[Body], Body]
    hint: str


SYSTEM_PLACE = (
    "system.{0,60}(begin|first|start|only|position|order)|(one|single|unexpected).{0,20}system"
)
EXTRA = r"reasoning|extra (fields|inputs)|thought_signature|\bname\b|null"
FORMAT = "response_format|json|grammar|structured output"
NO_SYSTEM = "system.{0,40}((un|not )supported|not allow|invalid)|role: system|only user|developer"
ALTERNATION = "alternat|consecutive|successive|roles? must"
# In the order in which they are tried if a refusal does not say what is wrong.
SIMPLIFICATIONS = (
    Simplification("no extra fields of messages", without_unread, EXTRA),
    Simplification("no stream options", without("stream_options"), "stream_?opt|include_usage"),
    Simplification("no temperature", without("temperature"), "temperature"),
    Simplification("system messages only at the start", system_first, SYSTEM_PLACE),
    Simplification("no system messages", without_system, NO_SYSTEM),
    Simplification("roles that alternate", alternating, ALTERNATION),
    Simplification("no forced tool choice", with_free_choice, "tool[_ ]choice|forced|required"),
    Simplification("no schema of the reply", with_schema_in_text, FORMAT),
    Simplification("no tools", without_tools, r"\btools?\b|function"),
)
WITHOUT_TOOLS = SIMPLIFICATIONS[-1]
# Failures (of ``failures.toml``) that another shape may mend; the second kind only if their words
# say so: OpenRouter has no endpoint with tools (404), a template of llama.cpp fails (500).
REFUSALS = frozenset({"refused"})
HINTED = frozenset({"tools", "address", "busy", "stream"})
GUESSED = ("400", "422")  # statuses of refusals that need no words; no tools are guessed twice


LENT = "__"  # in the names of tools of servers


class Requests:
    """OpenAI's chat completions for LangChain, in the shape that the server takes.

    LangChain's request has the API's format already, so it is passed as ``extra_body``: the SDK
    would match each message and tool against all types of parameters, which takes 5 to 7 ms of a
    turn's 18. ``CompletionStream`` reads the response. What a provider sends beside calls goes
    back to it with them, unread.
    """

    def __init__(self, completions: Any) -> None:
        """Wrap ``openai.resources.chat.AsyncCompletions``."""
        self._completions = completions
        self._shape: tuple[Simplification, ...] = ()
        self._may_refuse_tools = False  # True once a request passed only without them
        self._unread: dict[str, tuple[Body, Body]] = {}  # the oldest first

    @property
    def takes_tools(self) -> bool:
        """False after the server has refused tools."""
        return WITHOUT_TOOLS not in self._shape

    async def create(
        self, *, model: str, extra_body: Body | None = None, **payload: Any
    ) -> CompletionStream:
        """Call ``AsyncCompletions.create``; the arguments ask for a stream.

        Raises:
            openai.APIError: The server refused every shape, or failed otherwise.
            ReportedError: It says so inside a successful response.
        """
        body = self._with_unread({**payload, **(extra_body or {}), "stream": True})
        shape, is_told = self._shape, True
        refusal: Exception | None = None
        while True:
            sent = body
            for simplification in shape:
                sent = simplification.apply(sent)
            try:
                raw = await self._completions.create(
                    model=model, messages=[], stream=True, extra_body=sent
                )
                stream = CompletionStream(raw.response, self.keep_unread)
                await stream.begin()
                break
            except (openai.APIStatusError, ReportedError) as error:
                refusal = refusal or error
                report, shorter = read_report(error), newer_half(body)
                if report.failure.name == "context" and shorter != body:
                    logger.warning("too long for the model; LLM_CONTEXT_SIZE is more than it has")
                    body = shorter
                    continue
                following, is_told = _next_simplification(report, sent, shape)
                if following is None:
                    raise refusal from None
                shape = (*shape, following)
        # No tools, guessed for the first time, is not remembered: that may pass by itself.
        is_guess = WITHOUT_TOOLS in shape and not is_told and not self._may_refuse_tools
        self._may_refuse_tools = self._may_refuse_tools or WITHOUT_TOOLS in shape
        if shape != self._shape and not is_guess:
            self._shape = shape
            names = "; ".join(simplification.name for simplification in shape)
            logger.warning("this model's server takes: %s", names)
        return stream

    def keep_unread(self, unread: Unread) -> None:
        """Keep the unread fields of a reply, for the requests with its calls."""
        self._unread |= unread
        for id_ in list(self._unread)[:-MAX_UNREAD]:
            del self._unread[id_]

    def _with_unread(self, body: Body) -> Body:
        """Return a request with the fields that the provider sent beside its calls."""
        messages = []
        for message in body["messages"]:
            calls = message.get("tool_calls") or ()
            found = [self._unread.get(call["id"], ({}, {})) for call in calls]
            if found:
                calls = [{**call, **own} for call, (_, own) in zip(calls, found, strict=True)]
                message = {**found[0][0], **message, "tool_calls": calls}
            messages.append(message)
        return {**body, "messages": messages}


def _next_simplification(
    report: Report, sent: Body, shape: tuple[Simplification, ...]
) -> tuple[Simplification | None, bool]:
    """Return the simplification to try after a refusal, and whether its words ask for it."""
    name, text = report.failure.name, " ".join(report.words)
    if name not in REFUSALS | HINTED:
        return None, False
    left = [one for one in SIMPLIFICATIONS if one not in shape and one.apply(sent) != sent]
    has_lent = any(LENT in tool["function"]["name"] for tool in sent.get("tools") or ())
    if has_lent:  # the caller tries it without those first
        left = [one for one in left if one is not WITHOUT_TOOLS]
    hinted = [one for one in left if re.search(one.hint, text, re.IGNORECASE)]
    # A message with pictures may be refused for these.
    is_text = not any(isinstance(one.get("content"), list) for one in sent["messages"])
    may_guess = report.origin in GUESSED and name in REFUSALS and is_text and not has_lent
    if hinted or not may_guess:
        return next(iter(hinted), None), True
    return next(iter(left), None), False
