"""The node that asks the model."""

from __future__ import annotations

import logging
from collections.abc import Callable

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.runtime import Runtime

from src.errors import ModelError, ModelSetupError
from src.graph.conversation_state import ConversationState, TurnContext
from src.graph.tool_offer import Bound, ToolOffer
from src.llm.chat import ModelCaller
from src.llm.prompts.time_label import LabelFilter, strip_time_label
from src.llm.reply import ending_of
from src.llm.tokens import TokenCounter
from src.texts import Language, say

logger = logging.getLogger(__name__)


async def assistant(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    caller: ModelCaller,
    offer: ToolOffer,
    counter: TokenCounter,
) -> ConversationState:
    """Ask the model once; it answers, or calls tools while it may.

    Reads: ``messages``, ``tools_allowed``, ``lent_tools``.
    Updates: ``messages``, ``current_token_count``, ``answer``, ``lent_tools``.
    Side effects: one model call; its text streams to the turn's ``on_text``. Where the provider
    refuses a call with tools of servers, a second one without them.
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
            on_usage=context.on_usage,
            conversation_id=context.conversation_id,
        )

    bound = offer.begin(state.get("lent_tools"))
    try:
        message = await ask(bound)
    except ModelError as error:  # perhaps a schema that we let through
        if not bound.lent or isinstance(error, ModelSetupError) or show.has_begun:
            raise
        logger.warning("refused, asked again without the tools of servers", exc_info=error)
        bound = offer.withdraw()
        message = await ask(bound)
    show.flush()
    if not allowed:
        message.tool_calls = []
    return {
        "messages": [message],
        "current_token_count": counter.count_messages([*state["messages"], message]),
        "answer": _answer(message, context.language, allowed=allowed),
        "lent_tools": bound.lent,
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
