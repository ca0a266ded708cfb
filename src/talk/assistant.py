"""Graph nodes of assistant mode: the model call and the accounting of its tool calls."""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from src.base.errors import ModelError, ModelSetupError
from src.history.new_messages import strip_time_label, voice_of
from src.llm import chat, reply, tokens
from src.memory.tools import renumber_records
from src.memory.turn_context import TurnContext, get_finding, number_hits
from src.talk.forms import FormFilling, asks_beside, describe_results, tool_calls, turn_of
from src.talk.prompt import messages_to_send
from src.talk.tools import NOT_RUN, useless_tools
from src.talk.turn_state import ConversationState
from src.texts import Language, say

logger = logging.getLogger(__name__)

MAX_ROUNDS = 8  # of tool calls in one turn
MARKUP = ("{", "[", "<", "```json", "```xml", "```tool")  # beginnings of what is no answer
# Our confirmation of a reminder, which small models copy from the history.
COPIED = re.compile(r"^⏰ .*\n?", re.MULTILINE)
DONE = "This is done, and the user is told so. Do not repeat it; answer what else they ask."


@dataclass(frozen=True)
class ToolOffer:
    """The model that answers, and the tools that it may be offered.

    Attributes:
        caller: The model.
        own: Our own tools.
        lent: Returns the tools of servers, which come and go, when a turn begins.
    """

    caller: chat.ModelCaller
    own: Sequence[BaseTool]
    lent: Callable[[], tuple[BaseTool, ...]]

    def list_usable(self, state: ConversationState, context: TurnContext) -> list[BaseTool]:
        """List our own tools that a turn has a use for."""
        useless = useless_tools(
            memory_on=context.preferences.memory_on,
            has_reminders=context.preferences.has_reminders,
            has_files=any(voice_of(entry).provenance == "file" for entry in state["history"]),
        )
        return [tool for tool in self.own if tool.name not in useless]

    async def ask(
        self,
        messages: Sequence[AnyMessage],
        context: TurnContext,
        on_text: Callable[[str], None],
        tools: Sequence[BaseTool] = (),
        *,
        may_call: bool = True,
    ) -> AIMessage:
        """Call the model for the answer of a turn; its text streams to view."""
        return await self.caller.stream(
            self.caller.with_tools(tools, may_call=may_call),
            messages,
            purpose="answer",
            on_text=on_text,
            on_usage=context.on_usage,
            conversation_id=context.conversation_id,
        )

    async def ask_for_words(self, messages: Sequence[AnyMessage], context: TurnContext) -> str:
        """Have the model answer in words; "" if they begin like JSON or markup."""
        message = await self.ask(messages, context, context.begin_text(MARKUP))
        text = COPIED.sub("", _answer_text(message, context.language, allowed=True)).strip()
        if text.startswith(MARKUP):
            return ""
        return text


async def assistant(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    offer: ToolOffer,
    counter: tokens.TokenCounter,
    forms: FormFilling | None = None,
) -> ConversationState:
    """Ask the model once; it answers, or calls tools while it may.

    While it is being learned how the model works, calls that it missed are added to its answer.
    What it leaves unsaid after its tools have run is told in our words.

    Reads: ``messages``, ``lent_tools``, ``history``.
    Updates: ``messages``, ``current_token_count``, ``answer``, ``lent_tools``, ``is_answered``.
    Side effects: one model call; its text streams to the turn's view. If the provider
    refuses a call with tools of servers, a second one without them. Seldom one to try the model,
    and one for a form.
    """
    context, messages = runtime.context, messages_to_send(state)
    rounds = sum(1 for m in turn_of(messages) if isinstance(m, AIMessage) and m.tool_calls)
    allowed = rounds < MAX_ROUNDS
    if forms is not None and isinstance(messages[-1], HumanMessage):
        # Behind the newest message, a small model would repeat the hint.
        hint = SystemMessage(say("answer_hint", context.language))
        messages = [*messages[:-1], hint, messages[-1]]
    own, lent = offer.list_usable(state, context), state.get("lent_tools")
    if lent is None:  # a turn keeps the tools with which it began, and its prompts their prefix
        lent = offer.lent()
    ask = partial(offer.ask, messages, context, context.begin_text(()), may_call=allowed)
    try:
        message = await ask([*own, *lent])
    except ModelError as error:  # perhaps the schema of a server's tool
        if not lent or isinstance(error, ModelSetupError):
            raise
        logger.warning("refused, asked again without the tools of servers", exc_info=error)
        lent = ()
        message = await ask(own)
    if not allowed:
        message.tool_calls = []
    answer = _answer_text(message, context.language, allowed=allowed)
    if not (answer or message.tool_calls):  # it takes what its tools returned for its answer
        answer = describe_results(state["messages"], context.language, with_facts=True)
    is_answered = False
    if forms is not None and forms.is_watched and not message.tool_calls:
        is_answered = True
        missed = await forms.missed_calls([*messages, message], [*own, *lent], context)
        message.tool_calls = tool_calls(missed)
    return {
        "messages": [message],
        "current_token_count": counter.count_messages([*state["messages"], message]),
        "answer": answer,
        "lent_tools": lent,
        "is_answered": is_answered,
    }


async def answer_by_form(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    offer: ToolOffer,
    counter: tokens.TokenCounter,
    forms: FormFilling,
) -> ConversationState:
    """Answer without tools; take the calls from rules, or from a form that the model fills in.

    Orders run before the answer, which ``complete_answer`` writes. What a message tells is asked
    after the answer: the user does not wait for it, and the prompt only grows.

    Reads: ``messages``, ``history``.
    Updates: ``messages``, ``current_token_count``, ``answer``, ``is_answered``.
    Side effects: at most two model calls; the text of the answer streams to view.
    """
    context, messages = runtime.context, state["messages"]
    usable = offer.list_usable(state, context)
    line = await forms.read(messages, [tool.name for tool in usable])
    calls, text = line.orders, ""
    if line.is_request and not calls:
        calls = await forms.fill(messages, line, context)
    if not calls:
        hint = say("answer_hint", context.language)
        if line.tells and "?" not in line.text:
            hint = f"{hint}\n{say('form_told', context.language)}"
        asked = [*messages[:-1], SystemMessage(hint), messages[-1]]
        text = await offer.ask_for_words(asked, context)
        if line.tells and not line.is_request:
            calls = await forms.fill([*asked, AIMessage(text)], line, context)
    message = AIMessage(text, tool_calls=tool_calls(calls))
    return {
        "messages": [message],
        "current_token_count": counter.count_messages([*messages, message]),
        "answer": text,
        "is_answered": True,
    }


async def complete_answer(
    state: ConversationState, runtime: Runtime[TurnContext], *, offer: ToolOffer
) -> ConversationState:
    """Complete the answer with sentences about the calls beside it.

    Without an answer they are the answer; if there are none, or the message also asks something,
    the model is asked.

    Reads: ``messages``, ``answer``.
    Updates: ``messages``, ``answer``.
    Side effects: at most one model call; the text streams to view.
    """
    context, messages, answer = runtime.context, state["messages"], state["answer"]
    done = describe_results(messages, context.language, with_facts=not answer)
    if not answer and (not done or asks_beside(context.text)):
        asked = [
            message
            for message in messages
            if not isinstance(message, ToolMessage) and not getattr(message, "tool_calls", ())
        ]
        if done:
            asked.append(SystemMessage(f"{DONE}\n{done}"))
        answer = await offer.ask_for_words(asked, context)
    if done:
        context.begin_text(())(done)
    text = "\n\n".join(filter(None, (answer, done)))
    return {"messages": [AIMessage(text)], "answer": text}


def _answer_text(message: AIMessage, language: Language, *, allowed: bool) -> str:
    """Return the answer, with a notice if it was cut short or if it must not be empty."""
    text = strip_time_label(str(message.text)).strip()
    ending = reply.ending_of(message)
    if message.tool_calls:
        return text
    if ending:
        cut = say("answer_cut" if ending == "length" else "answer_filtered", language)
        return f"{text}\n\n{cut}".strip()
    if text or allowed:
        return text
    return say("too_many_steps", language)


async def update_state_after_tool(
    state: ConversationState, *, counter: tokens.TokenCounter
) -> ConversationState:
    """Collect what the tools of the round that just ended have found and done.

    Reads: ``messages``, ``sources``, ``asks``.
    Updates: ``tools_used``, ``fact_added_in_last_run``, ``sources``, ``shown_facts``, ``asks``,
    ``disputes``, ``current_token_count``; ``messages``, since two searches of one round gave the
    same numbers to different memories.
    Side effects: none.
    """
    messages, sources, asked = state["messages"], state.get("sources", []), state.get("asks")
    others = (n for n, m in enumerate(messages, start=1) if not isinstance(m, ToolMessage))
    start = max(others, default=0)
    results: list[ToolMessage] = []
    findings = []
    for result in messages[start:]:
        assert isinstance(result, ToolMessage)
        finding = get_finding(result)
        findings.append(finding)
        numbers, sources = number_hits(sources, finding.hits)
        results.append(renumber_records(result, numbers) if numbers else result)
        if finding.asks and asked != "erase_all":
            asked = finding.asks
    return {
        "messages": [*results],  # replace themselves, by their ids
        "tools_used": [one.name or "unknown" for one in results if one.artifact != NOT_RUN],
        "fact_added_in_last_run": any(finding.facts_changed for finding in findings),
        "sources": list(sources),
        "shown_facts": frozenset().union(*(finding.shown_facts for finding in findings)),
        "asks": asked,
        "disputes": [dispute for finding in findings for dispute in finding.disputes],
        "current_token_count": counter.count_messages([*messages[:start], *results]),
    }
