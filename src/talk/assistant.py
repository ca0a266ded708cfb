"""The nodes of assistant mode: ask the model, offer it tools, and count what they did."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import AsyncToolCallWrapper, ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command

from src.base.errors import ModelError, ModelSetupError
from src.history.new_messages import LabelFilter, strip_time_label
from src.llm.chat import ModelCaller
from src.llm.prompt_cache import ChatRunnable
from src.llm.reply import UNREADABLE, ending_of
from src.llm.tokens import TokenCounter
from src.memory.turn_context import TurnContext
from src.talk.conversation_state import ConversationState
from src.texts import Language, say

logger = logging.getLogger(__name__)

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

    Args:
        request: The call.
        execute: Runs it.
        wrap: Runs around it.
    """
    call = request.tool_call
    if request.tool is None:
        context: Any = request.runtime.context  # LangGraph types it as None
        request = request.override(tool=context.find_lent_tool(call["name"]))
    ids = [other["id"] for other in request.state["messages"][-1].tool_calls]
    if ids.index(call["id"]) >= MAX_AT_ONCE:
        return failed(request, WAIT, artifact=NOT_RUN)
    if UNREADABLE in call["args"]:
        return failed(request, NO_JSON, artifact=NOT_RUN)
    return await (execute(request) if wrap is None else wrap(request, execute))


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


LentTools = Callable[[], tuple[BaseTool, ...]]


def no_lent_tools() -> tuple[BaseTool, ...]:
    """Nobody lends any."""
    return ()


@dataclass(frozen=True)
class Bound:
    """The model with the tools ``lent`` beside our own: it may call them, or not now."""

    lent: tuple[BaseTool, ...]
    with_tools: ChatRunnable
    without_tools: ChatRunnable


class ToolOffer:
    """Binds the model to its tools: anew when those that are lent have changed.

    A turn keeps those with which it began, so that the beginning of its prompts stays the same.
    """

    def __init__(
        self, caller: ModelCaller, own: Sequence[BaseTool], lent: LentTools = no_lent_tools
    ) -> None:
        """Offer ``own`` always, and what ``lent`` returns when a turn begins."""
        self._caller = caller
        self._own = own
        self._lent = lent
        self._bare = self._bind(())
        self._newest = self._bare

    def begin(self, context: TurnContext) -> Bound:
        """The model as this turn calls it."""
        if context.lent_tools is None:
            context.lent_tools = self._lent()
        if not context.lent_tools:
            return self._bare
        if self._newest.lent is context.lent_tools:
            return self._newest
        self._newest = self._bind(context.lent_tools)
        return self._newest

    def withdraw(self, context: TurnContext) -> Bound:
        """The model with our own tools alone, for the rest of this turn."""
        context.lent_tools = ()
        return self._bare

    def _bind(self, lent: tuple[BaseTool, ...]) -> Bound:
        tools = [*self._own, *lent]
        return Bound(
            lent,
            self._caller.with_tools(tools),
            self._caller.with_tools(tools, may_call=False),
        )


async def assistant(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    caller: ModelCaller,
    offer: ToolOffer,
    counter: TokenCounter,
) -> ConversationState:
    """Ask the model once; it answers, or calls tools while it may.

    Reads: ``messages``, ``tools_allowed``.
    Updates: ``messages``, ``current_token_count``, ``answer``.
    Side effects: one model call; its text streams to the turn's ``on_text``, its cost is added
    to the turn's ``usage``. Where the provider refuses a call with tools of servers, a second one
    without them; what is offered stands in the turn's ``lent_tools``.
    """
    context = runtime.context
    allowed = state["tools_allowed"]
    show = _Display(context.on_text, _separator(state))

    async def ask(bound: Bound) -> AIMessage:
        return await caller.stream(
            bound.with_tools if allowed else bound.without_tools,
            state["messages"],
            purpose="answer",
            on_text=show,
            on_usage=context.usage.append,
            conversation_id=context.conversation_id,
        )

    bound = offer.begin(context)
    try:
        message = await ask(bound)
    except ModelError as error:  # perhaps a schema that we let through
        if not bound.lent or isinstance(error, ModelSetupError) or show.has_begun:
            raise
        logger.warning("refused, asked again without the tools of servers", exc_info=error)
        message = await ask(offer.withdraw(context))
    show.flush()
    if not allowed:
        message.tool_calls = []
    return {
        "messages": [message],
        "current_token_count": counter.count_messages([*state["messages"], message]),
        "answer": _answer(message, context.language, allowed=allowed),
    }


class _Display:
    """Shows the text as it comes, without a time label that the model copied."""

    def __init__(self, on_text: Callable[[str], None], separator: str) -> None:
        """``separator`` comes before the first text."""
        self._on_text = on_text
        self._separator = separator
        self._filter = LabelFilter()
        self.has_begun = False

    def __call__(self, text: str) -> None:
        self._show(self._filter.feed(text))

    def flush(self) -> None:
        self._show(self._filter.flush())

    def _show(self, text: str) -> None:
        if text:
            self.has_begun = True
            self._on_text(self._separator + text)
            self._separator = ""


def _answer(message: AIMessage, language: Language, *, allowed: bool) -> str:
    """The text; with a sentence when it was cut short, or when there is none and must be one."""
    text = strip_time_label(str(message.text)).strip()
    ending = ending_of(message)
    if message.tool_calls:
        return text
    if ending:
        cut = say("answer_cut" if ending == "length" else "answer_filtered", language)
        return f"{text}\n\n{cut}".strip()
    return text if text or allowed else say("too_many_steps", language)


def _separator(state: ConversationState) -> str:
    """What stands between the text before a tool call and the text after it."""
    for message in reversed(state["messages"]):
        if isinstance(message, AIMessage):
            return "\n\n" if message.text and message.tool_calls else ""
        if not isinstance(message, ToolMessage):
            break
    return ""


async def update_state_after_tool(
    state: ConversationState, runtime: Runtime[TurnContext], *, counter: TokenCounter
) -> ConversationState:
    """Note which tools ran in the round that just ended, and whether one changed the facts.

    Reads: ``messages``, ``tools_used``.
    Updates: ``tools_used``, ``tools_allowed``, ``fact_added_in_last_run``,
    ``current_token_count``.
    Side effects: the turn's ``facts_changed`` is taken.
    """
    names: list[str] = []
    for message in reversed(state["messages"]):
        if not isinstance(message, ToolMessage):
            break
        if message.artifact != NOT_RUN:
            names.append(message.name or "unknown")
    return {
        "tools_used": [*state["tools_used"], *reversed(names)],
        "tools_allowed": may_go_on(state["messages"]),
        "fact_added_in_last_run": runtime.context.take_change(),
        "current_token_count": counter.count_messages(state["messages"]),
    }
