"""The node that asks the model."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext
from src.llm.chat import ChatRunnable, ModelCaller
from src.llm.prompts.time_label import LabelFilter, strip_time_label


async def assistant(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    caller: ModelCaller,
    runnable: ChatRunnable,
) -> ConversationState:
    """Ask the model once; it answers, or calls tools.

    Reads: ``messages``.
    Updates: ``messages``, ``answer``.
    Side effects: one model call; its text streams to the turn's ``on_text``, its cost is added
    to the turn's ``usage``.
    """
    context = runtime.context
    label_filter = LabelFilter()

    def show(text: str) -> None:
        if shown := label_filter.feed(text):
            context.on_text(shown)

    message = await caller.stream(
        runnable,
        state["messages"],
        purpose="answer",
        on_text=show,
        on_usage=context.usage.append,
    )
    if rest := label_filter.flush():
        context.on_text(rest)
    return {"messages": [message], "answer": strip_time_label(str(message.text)).strip()}
