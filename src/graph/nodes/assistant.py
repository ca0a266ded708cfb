"""The node that asks the model."""

from __future__ import annotations

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext
from src.llm.chat import ChatRunnable, ModelCaller
from src.llm.prompts.time_label import LabelFilter, strip_time_label
from src.llm.tokens import TokenCounter


async def assistant(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    caller: ModelCaller,
    runnable: ChatRunnable,
    counter: TokenCounter,
) -> ConversationState:
    """Ask the model once; it answers, or calls tools.

    Reads: ``messages``.
    Updates: ``messages``, ``current_token_count``, ``answer``.
    Side effects: one model call; its text streams to the turn's ``on_text``, its cost is added
    to the turn's ``usage``.
    """
    context = runtime.context
    label_filter = LabelFilter()
    separator = _separator(state)

    def show(text: str) -> None:
        nonlocal separator
        if shown := label_filter.feed(text):
            context.on_text(separator + shown)
            separator = ""

    message = await caller.stream(
        runnable,
        state["messages"],
        purpose="answer",
        on_text=show,
        on_usage=context.usage.append,
    )
    if rest := label_filter.flush():
        context.on_text(separator + rest)
    return {
        "messages": [message],
        "current_token_count": counter.count_messages([*state["messages"], message]),
        "answer": strip_time_label(str(message.text)).strip(),
    }


def _separator(state: ConversationState) -> str:
    """What stands between the text before a tool call and the text after it."""
    for message in reversed(state["messages"]):
        if isinstance(message, AIMessage):
            return "\n\n" if message.text and message.tool_calls else ""
        if not isinstance(message, ToolMessage):
            break
    return ""
