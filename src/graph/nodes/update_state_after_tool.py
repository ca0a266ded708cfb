"""The node after the tools: what their results mean for the rest of the turn."""

from __future__ import annotations

from langchain_core.messages import ToolMessage

from src.graph.conversation_state import ConversationState


async def update_state_after_tool(state: ConversationState) -> ConversationState:
    """Note which tools ran in the round that just ended.

    Reads: ``messages``, ``tools_used``.
    Updates: ``tools_used``.
    Side effects: none.
    """
    names: list[str] = []
    for message in reversed(state["messages"]):
        if not isinstance(message, ToolMessage):
            break
        names.append(message.name or "unknown")
    return {"tools_used": [*state["tools_used"], *reversed(names)]}
