"""The first node: the prompt from the stored history."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from src.graph.conversation_state import ConversationState
from src.storage.conversation_repo import HistoryMessage


async def init_state(
    state: ConversationState, *, system_prompt: str, system_in_history: bool
) -> ConversationState:
    """Build the prompt: the static system prompt, then the history in order.

    Reads: ``history``.
    Updates: ``messages``, ``tools_used``.
    Side effects: none.
    """
    history = _render_history(state["history"], system_in_history=system_in_history)
    return {"messages": [SystemMessage(system_prompt), *history], "tools_used": []}


def _render_history(
    history: Sequence[HistoryMessage], *, system_in_history: bool
) -> list[AnyMessage]:
    """The stored messages as the model sees them.

    ``Tools used: ...`` (role ``system``) stays a system message where the provider takes one in
    mid-history. Elsewhere it stands in brackets before the user message that follows it: never in
    an assistant message, where the model would learn to imitate it.
    """
    messages: list[AnyMessage] = []
    note = ""
    for entry in history:
        role, content = entry["role"], entry["content"]
        if role == "user":
            messages.append(HumanMessage(f"{note}{content}"))
            note = ""
        elif role == "assistant":
            messages.append(AIMessage(content))
        elif role == "system" and system_in_history:
            messages.append(SystemMessage(content))
        elif role == "system":
            note = f"[{content}]\n"
    return messages
