"""Graph nodes of assistant mode: the model call and the accounting of its tool calls."""

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from src.base.errors import ModelError, ModelSetupError
from src.history.new_messages import LabelFilter, strip_time_label, voice_of
from src.llm import chat, prompt_cache, reply, tokens
from src.memory.tools import renumber_records
from src.memory.turn_context import TurnContext, get_finding, number_hits
from src.talk.forms import FormFilling, asks_beside, describe_results, tool_calls
from src.talk.tools import NOT_RUN, useless_tools
from src.talk.turn_state import ConversationState
from src.texts import Language, say

logger = logging.getLogger(__name__)

MAX_ROUNDS = 8  # of tool calls in one turn
MAX_EQUAL_FAILURES = 2  # of a call with equal arguments
MAX_FAILED_ROUNDS = 3  # in a row, in which every call failed
MARKUP = ("{", "[", "<", "```json", "```xml", "```tool")  # beginnings of what is no answer
# Our confirmation of a reminder, which small models copy from the history.
COPIED = re.compile(r"^⏰ .*\n?", re.MULTILINE)
DONE = "This is done, and the user is told so. Do not repeat it; answer what else they ask."


def may_call_tools(messages: Sequence[AnyMessage]) -> bool:
    """Return True if the model may call tools again in the turn that ends with these messages.

    A call that failed twice would fail the third time too.
    """
    start = max((i for i, m in enumerate(messages) if isinstance(m, HumanMessage)), default=-1)
    turn = messages[start + 1 :]
    results = {m.tool_call_id: m.status for m in turn if isinstance(m, ToolMessage)}
    rounds = [m.tool_calls for m in turn if isinstance(m, AIMessage) and m.tool_calls]
    failed = Counter(
        (call["name"], json.dumps(call["args"], sort_keys=True, default=str))
        for calls in rounds
        for call in calls
        if results.get(call["id"] or "") == "error"
    )
    last = rounds[-MAX_FAILED_ROUNDS:]
    all_failed = len(last) == MAX_FAILED_ROUNDS and all(
        results.get(call["id"] or "") == "error" for calls in last for call in calls
    )
    repeats = max(failed.values(), default=0) >= MAX_EQUAL_FAILURES
    return not repeats and not all_failed and len(rounds) < MAX_ROUNDS


LentTools = Callable[[], tuple[BaseTool, ...]]


@dataclass(frozen=True)
class BoundModel:
    """Model bound to our own tools and those lent by servers, with and without tool calls."""

    lent: tuple[BaseTool, ...]
    offered: Sequence[BaseTool]
    with_tools: prompt_cache.ChatRunnable
    without_tools: prompt_cache.ChatRunnable


class ToolOffer:
    """Binding of the model to the usable tools; it rebinds when the servers' tools have changed.

    A turn keeps the tools with which it began, so that its prompts keep their prefix.
    """

    def __init__(self, caller: chat.ModelCaller, own: Sequence[BaseTool], lent: LentTools) -> None:
        """Offer ``own``, and what ``lent`` returns when a turn begins."""
        self._caller = caller
        self._own = own
        self._lent = lent
        self._models: dict[tuple[frozenset[str], bool], BoundModel] = {}

    def begin(self, lent: tuple[BaseTool, ...] | None, useless: frozenset[str]) -> BoundModel:
        """Return the model for a turn that began with the tools ``lent``; None: it begins now.

        ``useless`` are the names of our own tools that are left out.
        """
        tools = self._lent() if lent is None else lent
        key = useless, bool(tools)
        bound = self._models.get(key)
        if bound is None or (tools and bound.lent != tools):
            offered = [*(tool for tool in self._own if tool.name not in useless), *tools]
            bind = self._caller.with_tools
            bound = BoundModel(tools, offered, bind(offered), bind(offered, may_call=False))
            self._models[key] = bound
        return bound


async def assistant(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    caller: chat.ModelCaller,
    offer: ToolOffer,
    counter: tokens.TokenCounter,
    forms: FormFilling | None = None,
) -> ConversationState:
    """Ask the model once; it answers, or calls tools while it may.

    While it is being learned how the model works, calls that it missed are added to its answer.
    What it leaves unsaid after its tools have run is told in our words.

    Reads: ``messages``, ``tools_allowed``, ``lent_tools``, ``history``.
    Updates: ``messages``, ``current_token_count``, ``answer``, ``lent_tools``, ``is_answered``.
    Side effects: one model call; its text streams to the turn's ``on_text``. If the provider
    refuses a call with tools of servers, a second one without them. Seldom one to try the model,
    and one for a form.
    """
    context = runtime.context
    allowed, messages = state.get("tools_allowed", True), state["messages"]
    if forms is not None and isinstance(messages[-1], HumanMessage):
        messages = _with_hint(messages, say("answer_hint", context.language))
    display = _AnswerDisplay(context.on_text, _separator(state))

    async def ask(bound: BoundModel) -> AIMessage:
        return await caller.stream(
            bound.with_tools if allowed else bound.without_tools,
            messages,
            purpose="answer",
            on_text=display,
            on_usage=context.on_usage,
            conversation_id=context.conversation_id,
        )

    useless = _useless_tools(state, context)
    bound = offer.begin(state.get("lent_tools"), useless)
    try:
        message = await ask(bound)
    except ModelError as error:  # perhaps the schema of a server's tool
        if not bound.lent or isinstance(error, ModelSetupError) or display.has_begun:
            raise
        logger.warning("refused, asked again without the tools of servers", exc_info=error)
        bound = offer.begin((), useless)
        message = await ask(bound)
    display.flush()
    if not allowed:
        message.tool_calls = []
    answer = _answer_text(message, context.language, allowed=allowed)
    if not (answer or message.tool_calls):  # it takes what its tools returned for its answer
        answer = describe_results(state["messages"], context.language, with_facts=True)
    is_answered = False
    if forms is not None and forms.is_watched and not message.tool_calls:
        is_answered = True
        missed = await forms.missed_calls([*messages, message], bound.offered, context)
        message.tool_calls = tool_calls(missed)
    return {
        "messages": [message],
        "current_token_count": counter.count_messages([*state["messages"], message]),
        "answer": answer,
        "lent_tools": bound.lent,
        "is_answered": is_answered,
    }


def _with_hint(messages: Sequence[AnyMessage], hint: str) -> list[AnyMessage]:
    """Insert a hint before the newest message: behind it, a small model would repeat it."""
    return [*messages[:-1], SystemMessage(hint), messages[-1]]


def _useless_tools(state: ConversationState, context: TurnContext) -> frozenset[str]:
    has_files = any(voice_of(entry).provenance == "file" for entry in state["history"])
    return useless_tools(
        memory_on=context.preferences.memory_on,
        has_reminders=context.preferences.has_reminders,
        has_files=has_files,
    )


async def answer_by_form(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    caller: chat.ModelCaller,
    offer: ToolOffer,
    counter: tokens.TokenCounter,
    forms: FormFilling,
) -> ConversationState:
    """Answer without tools; take the calls from rules, or from a form that the model fills in.

    Orders run before the answer, which ``complete_answer`` writes. What a message tells is asked
    after the answer: the user does not wait for it, and the prompt only grows.

    Reads: ``messages``, ``history``.
    Updates: ``messages``, ``current_token_count``, ``answer``, ``is_answered``.
    Side effects: at most two model calls; the text of the answer streams to ``on_text``.
    """
    context, messages = runtime.context, state["messages"]
    offered = offer.begin((), _useless_tools(state, context)).offered
    line = await forms.read(messages, [tool.name for tool in offered])
    calls, text = line.orders, ""
    if line.is_request and not calls:
        calls = await forms.fill(messages, line, context)
    if not calls:
        only_tells = line.tells and "?" not in line.text
        told = say("form_told", context.language) if only_tells else ""
        hint = f"{say('answer_hint', context.language)}\n{told}".strip()
        asked = _with_hint(messages, hint)
        text = await _answer_plainly(asked, context, caller)
        if line.tells and not line.is_request:
            answered = [*asked, AIMessage(text)]
            calls = await forms.fill(answered, line, context)
    message = AIMessage(text, tool_calls=tool_calls(calls))
    return {
        "messages": [message],
        "current_token_count": counter.count_messages([*messages, message]),
        "answer": text,
        "is_answered": True,
    }


async def complete_answer(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    caller: chat.ModelCaller,
) -> ConversationState:
    """Complete the answer with sentences about the calls beside it.

    Without an answer they are the answer; if there are none, or the message also asks something,
    the model is asked.

    Reads: ``messages``, ``answer``.
    Updates: ``messages``, ``answer``.
    Side effects: at most one model call; the text streams to ``on_text``.
    """
    context, messages, answer = runtime.context, state["messages"], state["answer"]
    done = describe_results(messages, context.language, with_facts=not answer)
    if not answer and (not done or asks_beside(context.text)):
        asked = [message for message in messages if not _is_of_call(message)]
        asked += [SystemMessage(f"{DONE}\n{done}")] if done else []
        answer = await _answer_plainly(asked, context, caller)
    if done:
        context.on_text(f"\n\n{done}" if answer else done)
    text = "\n\n".join(filter(None, (answer, done)))
    return {"messages": [AIMessage(text)], "answer": text}


def _is_of_call(message: AnyMessage) -> bool:
    is_result = isinstance(message, ToolMessage)
    return is_result or (isinstance(message, AIMessage) and bool(message.tool_calls))


async def _answer_plainly(
    messages: Sequence[AnyMessage], context: TurnContext, caller: chat.ModelCaller
) -> str:
    """Have the model answer in words; "" if they begin like JSON or markup, which is no answer."""
    start, is_words = "", False

    def show(piece: str) -> None:
        nonlocal start, is_words
        start = piece if is_words else start + piece
        may_be = start.startswith(MARKUP) or any(one.startswith(start) for one in MARKUP)
        if is_words or not may_be:
            is_words = True
            context.on_text(start)

    display = _AnswerDisplay(show, "")
    message = await caller.stream(
        caller.with_tools(()),
        messages,
        purpose="answer",
        on_text=display,
        on_usage=context.on_usage,
        conversation_id=context.conversation_id,
    )
    display.flush()
    text = COPIED.sub("", _answer_text(message, context.language, allowed=True)).strip()
    return "" if text.startswith(MARKUP) else text


class _AnswerDisplay:
    """Display of streamed text, without a time label that the model copied."""

    def __init__(self, on_text: Callable[[str], None], separator: str) -> None:
        self._on_text = on_text
        self._separator = separator
        self._filter = LabelFilter()
        self.has_begun = False  # True once text was shown

    def __call__(self, text: str) -> None:
        self._show(self._filter.feed(text))

    def flush(self) -> None:
        self._show(self._filter.flush())

    def _show(self, text: str) -> None:
        if text:
            self.has_begun = True
            self._on_text(self._separator + text)
            self._separator = ""


def _answer_text(message: AIMessage, language: Language, *, allowed: bool) -> str:
    """Return the answer, with a notice if it was cut short or if it must not be empty."""
    text = strip_time_label(str(message.text)).strip()
    ending = reply.ending_of(message)
    if message.tool_calls:
        return text
    if ending:
        cut = say("answer_cut" if ending == "length" else "answer_filtered", language)
        return f"{text}\n\n{cut}".strip()
    return text if text or allowed else say("too_many_steps", language)


def _separator(state: ConversationState) -> str:
    """Return the separator between the text before a tool call and the text after it."""
    for message in reversed(state["messages"]):
        if isinstance(message, AIMessage):
            return "\n\n" if message.text and message.tool_calls else ""
        if not isinstance(message, ToolMessage):
            break
    return ""


async def update_state_after_tool(
    state: ConversationState, *, counter: tokens.TokenCounter
) -> ConversationState:
    """Collect what the tools of the round that just ended have found and done.

    Reads: ``messages``, ``tools_used``, ``sources``, ``shown_facts``, ``asks``, ``disputes``.
    Updates: ``tools_used``, ``tools_allowed``, ``fact_added_in_last_run``, ``sources``,
    ``shown_facts``, ``asks``, ``disputes``, ``current_token_count``; ``messages``, since two
    searches of one round gave the same numbers to different memories.
    Side effects: none.
    """
    messages, sources = list(state["messages"]), list(state.get("sources", ()))
    others = (n for n, m in enumerate(messages, start=1) if not isinstance(m, ToolMessage))
    start = max(others, default=0)
    for index, result in enumerate(messages[start:], start=start):
        numbers, sources = number_hits(sources, hits := get_finding(result).hits)
        if hits and isinstance(result, ToolMessage):
            messages[index] = renumber_records(result, numbers)
    results = [message for message in messages[start:] if isinstance(message, ToolMessage)]
    findings = [get_finding(result) for result in results]
    ran = [result.name or "unknown" for result in results if result.artifact != NOT_RUN]
    asks = [finding.asks for finding in findings if finding.asks]
    asked = state.get("asks")
    if "erase_all" in asks:
        asked = "erase_all"
    elif asks and asked != "erase_all":
        asked = asks[-1]
    return {
        "messages": messages[start:],  # replace themselves, by their ids
        "tools_used": [*state.get("tools_used", ()), *ran],
        "tools_allowed": may_call_tools(messages),
        "fact_added_in_last_run": any(finding.facts_changed for finding in findings),
        "sources": sources,
        "shown_facts": state.get("shown_facts", frozenset()).union(
            *(finding.shown_facts for finding in findings)
        ),
        "asks": asked,
        "disputes": [
            *state.get("disputes", ()),
            *(one for found in findings for one in found.disputes),
        ],
        "current_token_count": counter.count_messages(messages),
    }
