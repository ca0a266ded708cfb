"""The node after the tools: what their results mean for the rest of the turn."""

from __future__ import annotations

from langchain_core.messages import ToolMessage

from src.graph.conversation_state import ConversationState

SAVE_TOOL = "save_user_fact"
FACT_SAVED = '"saved": true'  # in the tool's result


async def update_state_after_tool(state: ConversationState) -> ConversationState:
    """Note which tools ran in the round that just ended, and whether one saved a fact.

    Reads: ``messages``, ``tools_used``.
    Updates: ``tools_used``, ``fact_added_in_last_run``.
    Side effects: none.
    """
    names: list[str] = []
    saved = False
    for message in reversed(state["messages"]):
        if not isinstance(message, ToolMessage):
            break
        names.append(message.name or "unknown")
        saved = saved or (message.name == SAVE_TOOL and FACT_SAVED in str(message.text))
    return {
        "tools_used": [*state["tools_used"], *reversed(names)],
        "fact_added_in_last_run": saved,
    }
