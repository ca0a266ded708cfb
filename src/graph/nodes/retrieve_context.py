"""Strict mode, solving: what the user taught about the task."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext
from src.graph.strict_evidence import search_taught
from src.memory.memories import Memories


async def retrieve_context(
    state: ConversationState, runtime: Runtime[TurnContext], *, memories: Memories
) -> ConversationState:
    """Search what the user taught for his message as it stands.

    Reads: ``history``.
    Updates: ``retrieved_context``.
    Side effects: one search.
    """
    context = runtime.context
    limit = (await memories.settings()).strict_retrieve_limit
    hits = await search_taught(memories, context, state["history"], context.text, limit=limit)
    return {"retrieved_context": hits}
