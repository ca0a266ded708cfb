"""Strict mode, teaching: the new fact wins."""

from __future__ import annotations

from src.graph.conversation_state import ConversationState


async def auto_resolve(state: ConversationState) -> ConversationState:
    """Accept what the user teaches now, once per known fact: strict mode knows nothing better.

    The old fact is retired, not deleted, and one tap takes it back.

    Reads: ``conflicts``.
    Updates: ``accepted_conflicts``.
    Side effects: none.
    """
    by_memory = {conflict["memory_id"]: conflict for conflict in state["conflicts"]}
    return {"accepted_conflicts": list(by_memory.values())}
