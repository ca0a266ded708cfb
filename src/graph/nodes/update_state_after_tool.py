"""The node after the tools: what their results mean for the rest of the turn."""

from __future__ import annotations

from langchain_core.messages import ToolMessage
from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext
from src.graph.tool_calls import NOT_RUN, may_go_on
from src.llm.tokens import TokenCounter


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
