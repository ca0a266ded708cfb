"""How far a model may go with tools in one turn: at once, again and again, and in all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import AsyncToolCallWrapper, ToolCallRequest
from langgraph.types import Command

from src.graph.conversation_state import ConversationState
from src.graph.findings import finding_of
from src.llm.reply import UNREADABLE
from src.storage.turn_repo import NO_CHANGES

MAX_AT_ONCE = 8  # calls of one reply that run
MAX_ROUNDS = 8  # of tools in one turn
MAX_EQUAL_FAILURES = 2  # of one call with the same arguments
MAX_FAILED_ROUNDS = 3  # one after the other, in which nothing worked

ToolReply = ToolMessage | Command[Any]

NOT_RUN = "not run"  # the artifact of a result that no tool gave
WAIT = f"Only {MAX_AT_ONCE} tools run at once; this call was not one of them. Call it again alone."
NO_JSON = (
    "The tool refused its arguments: they are no JSON object, or too long. Correct them and try "
    "again."
)


async def run_bounded(
    request: ToolCallRequest,
    execute: Callable[[ToolCallRequest], Awaitable[ToolReply]],
    *,
    wrap: AsyncToolCallWrapper | None = None,
) -> Any:
    """Run one call of a reply, unless it is beyond ``MAX_AT_ONCE`` or nobody can read it.

    What it stored is told at once: another call of the reply may take long, and be stopped.

    Args:
        request: The call.
        execute: Runs it.
        wrap: Runs around it.
    """
    call = request.tool_call
    if request.tool is None:
        lent: Any = _lent_tool(request.state, call["name"])  # or None: ToolNode says so
        request = request.override(tool=lent)
    ids = [other["id"] for other in request.state["messages"][-1].tool_calls]
    if ids.index(call["id"]) >= MAX_AT_ONCE:
        return failed(request, WAIT, artifact=NOT_RUN)
    if UNREADABLE in call["args"]:
        return failed(request, NO_JSON, artifact=NOT_RUN)
    reply = await (execute(request) if wrap is None else wrap(request, execute))
    context: Any = request.runtime.context  # LangGraph types it as None
    if (changes := finding_of(reply).changes) != NO_CHANGES:
        context.on_change(changes)
    return reply


def _lent_tool(state: ConversationState, name: str) -> BaseTool | None:
    """The tool of a server that the model was offered under this name."""
    return next((tool for tool in state.get("lent_tools") or () if tool.name == name), None)


def may_go_on(messages: Sequence[AnyMessage]) -> bool:
    """Whether the model may call tools again in the turn that ends with these messages.

    A call that failed twice fails the third time too.
    """
    turn = _turn_of(messages)
    results = {m.tool_call_id: m.status for m in turn if isinstance(m, ToolMessage)}
    rounds = [m.tool_calls for m in turn if isinstance(m, AIMessage) and m.tool_calls]
    failed = Counter(
        (call["name"], json.dumps(call["args"], sort_keys=True, default=str))
        for calls in rounds
        for call in calls
        if results.get(call["id"] or "") == "error"
    )
    last = rounds[-MAX_FAILED_ROUNDS:]
    nothing_worked = len(last) == MAX_FAILED_ROUNDS and all(
        results.get(call["id"] or "") == "error" for calls in last for call in calls
    )
    repeats = max(failed.values(), default=0) >= MAX_EQUAL_FAILURES
    return not repeats and not nothing_worked and len(rounds) < MAX_ROUNDS


def _turn_of(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """What came after the user's message."""
    start = max((i for i, m in enumerate(messages) if isinstance(m, HumanMessage)), default=-1)
    return messages[start + 1 :]


def failed(request: ToolCallRequest, text: str, *, artifact: str | None = None) -> ToolMessage:
    """What the model is told in place of a result."""
    name, id_ = request.tool_call["name"], request.tool_call["id"] or ""
    return ToolMessage(text, name=name, tool_call_id=id_, status="error", artifact=artifact)
