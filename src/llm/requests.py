"""Requests for chat completions, in the shape that the server takes.

Servers with OpenAI's API differ in what they take: system messages only at the start, no forced
``tool_choice``, no tools at all. After a refusal the next simpler shape is tried; what worked is
remembered for the model as long as the process lives. A prompt that is too long goes again with
the newer half of its talk, until it fits.
"""

import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import openai

from src.llm.completion_stream import CompletionStream, Unread
from src.llm.errors import Report, ReportedError, read_report
from src.llm.reply import at

logger = logging.getLogger(__name__)

Body = dict[str, Any]

MAX_UNREAD = 500  # calls whose unread fields are kept, until the loop of tools ends
EARLIER = "…"  # placeholder for the user's message before an answer
AS_JSON = "Answer with one JSON object of this schema, and nothing else: "


def _system_first(body: Body) -> Body:
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


def _alternating(body: Body) -> Body:
    """User and assistant in turn, the user first; a system message stays at the start."""
    merged: list[Body] = []
    for message in _system_first(body)["messages"]:
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


def _without_system(body: Body) -> Body:
    """The system message as the beginning of the user's first one."""
    messages = _system_first(body)["messages"]
    return _alternating({**body, "messages": list(map(_as_users, messages))})


def _with_free_choice(body: Body) -> Body:
    """The model is told which tool to call instead of being forced to."""
    choice = body.get("tool_choice")
    if choice in (None, "auto"):
        return body
    if choice == "none":
        return _without_tools(body)
    name = at(choice, "function", "name") or "one of the tools"
    return _with_order({**body, "tool_choice": "auto"}, f"Answer only by calling {name}.")


def _with_order(body: Body, order: str) -> Body:
    *rest, last = body["messages"]
    if last["role"] != "user":
        return {**body, "messages": [*rest, last, {"role": "user", "content": order}]}
    content = _joined([last["content"], order])
    return {**body, "messages": [*rest, {**last, "content": content}]}


def _with_schema_in_text(body: Body) -> Body:
    """The schema of the reply in the text; servers hold no model to it any more."""
    schema = body.get("response_format")
    if schema is None:
        return body
    return _with_order(_without("response_format")(body), AS_JSON + json.dumps(schema))


def _without_tools(body: Body) -> Body:
    """No tools; a form that had to be called is asked for as JSON, results are told as text."""
    if not body.get("tools"):
        return body
    choice, tools = body.get("tool_choice"), body["tools"]
    messages = [_as_text(message) for message in body["messages"]]
    body = {**_without("tools", "tool_choice")(body), "messages": messages}
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


def _newer_half(body: Body) -> Body:
    """The instructions and the newer half of the talk; the same body if there is no half."""
    lead = list(takewhile(lambda message: message["role"] == "system", body["messages"]))
    said = [n for n, message in enumerate(body["messages"]) if message["role"] == "user"]
    if len(said) < 2:
        return body
    return {**body, "messages": [*lead, *body["messages"][said[len(said) // 2] :]]}


def _without(*names: str) -> Callable[[Body], Body]:
    return lambda body: {name: value for name, value in body.items() if name not in names}


def _without_unread(body: Body) -> Body:
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
    Simplification("no extra fields of messages", _without_unread, EXTRA),
    Simplification("no stream options", _without("stream_options"), "stream_?opt|include_usage"),
    Simplification("no temperature", _without("temperature"), "temperature"),
    Simplification("system messages only at the start", _system_first, SYSTEM_PLACE),
    Simplification("no system messages", _without_system, NO_SYSTEM),
    Simplification("roles that alternate", _alternating, ALTERNATION),
    Simplification("no forced tool choice", _with_free_choice, "tool[_ ]choice|forced|required"),
    Simplification("no schema of the reply", _with_schema_in_text, FORMAT),
    Simplification("no tools", _without_tools, r"\btools?\b|function"),
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
                stream = CompletionStream(raw.response, self._keep_unread)
                await stream.begin()
                break
            except (openai.APIStatusError, ReportedError) as error:
                refusal = refusal or error
                report, shorter = read_report(error), _newer_half(body)
                if report.failure.name == "context" and shorter != body:
                    logger.warning("too long for the model; LLM_CONTEXT_SIZE is more than it has")
                    body = shorter
                    continue
                following, is_told = _next_simplification(report, sent, shape)
                if following is None:
                    raise refusal from None
                shape = (*shape, following)
        if shape != self._shape and self._is_certain(shape, is_told=is_told):
            self._shape = shape
            names = "; ".join(simplification.name for simplification in shape)
            logger.warning("this model's server takes: %s", names)
        return stream

    def _is_certain(self, shape: tuple[Simplification, ...], *, is_told: bool) -> bool:
        """Return False if no tools are guessed for the first time: that may pass by itself."""
        is_guess = WITHOUT_TOOLS in shape and not is_told and not self._may_refuse_tools
        self._may_refuse_tools = self._may_refuse_tools or WITHOUT_TOOLS in shape
        return not is_guess

    def _keep_unread(self, unread: Unread) -> None:
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
