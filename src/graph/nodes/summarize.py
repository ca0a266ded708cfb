"""The node that shortens a prompt that fills too much of the model's context."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from src.errors import AppError
from src.graph.conversation_state import ConversationState, TurnContext, in_place_of_all
from src.llm.chat import ModelCaller
from src.llm.prompts.memory_context import summary_text
from src.llm.prompts.summary import summary_messages
from src.llm.tokens import TokenCounter

logger = logging.getLogger(__name__)

TAIL = 0.3  # of the context, for the messages that stay as they are
HISTORY_SUMMARY = "history_summary"


async def summarize(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    summary_llm: ModelCaller,
    counter: TokenCounter,
) -> ConversationState:
    """Put a summary in place of the oldest messages; the newest stay, and always the last.

    A summary that fails leaves the oldest messages out without one: the turn goes on.

    Reads: ``messages``, ``llm_context_size``.
    Updates: ``messages``, ``current_token_count``, ``last_summary_ts``.
    Side effects: one model call.
    """
    prefix, head, tail = _split(state["messages"], state["llm_context_size"], counter)
    if not head:
        return {}
    summary = await _summary_of(head, runtime.context, summary_llm)
    block: list[AnyMessage] = []
    if summary:
        block = [SystemMessage(summary_text([summary]), name=HISTORY_SUMMARY)]
    messages = [*prefix, *block, *tail]
    return {
        "messages": in_place_of_all(messages),
        "current_token_count": counter.count_messages(messages),
        "last_summary_ts": datetime.now(UTC),
    }


def _split(
    messages: Sequence[AnyMessage], context_size: int, counter: TokenCounter
) -> tuple[list[AnyMessage], list[AnyMessage], list[AnyMessage]]:
    """What stays in front, what is summarised, what stays at the end.

    A turn is never cut: the tail begins with a user message.
    """
    front = 0
    while front < len(messages) and isinstance(messages[front], SystemMessage):
        front += 1
    last = max(
        (i for i, message in enumerate(messages) if isinstance(message, HumanMessage)),
        default=front,
    )
    while last > front and isinstance(messages[last - 1], SystemMessage):
        last -= 1  # the memories belong to the message after them
    start, tokens = last, counter.count_messages(messages[last:])
    for place in range(last - 1, front - 1, -1):
        tokens += counter.count_messages([messages[place]])
        if tokens > TAIL * context_size:
            break
        if isinstance(messages[place], HumanMessage):
            start = place
    return list(messages[:front]), list(messages[front:start]), list(messages[start:])


async def _summary_of(
    head: Sequence[AnyMessage], context: TurnContext, summary_llm: ModelCaller
) -> str:
    texts = [{"role": message.type, "text": str(message.text)} for message in head]
    try:
        return await summary_llm.text(
            summary_messages(texts), purpose="summary", on_usage=context.on_usage
        )
    except AppError as error:
        logger.warning("the history is cut without a summary", exc_info=error)
        return ""
