"""The node that fetches the key facts when they may have changed."""

from __future__ import annotations

import logging

from langgraph.runtime import Runtime

from src.errors import StorageError
from src.graph.conversation_state import ConversationState, TurnContext
from src.graph.privacy import key_facts
from src.memory.memories import Memories

logger = logging.getLogger(__name__)


async def check_facts(
    state: ConversationState, runtime: Runtime[TurnContext], *, memories: Memories
) -> ConversationState:
    """Fetch the key facts, at first and after one was saved or forgotten.

    A failure costs only them: those that are in the prompt stay there.

    Reads: ``facts_loaded``, ``fact_added_in_last_run``.
    Updates: ``pending_facts``, ``facts_loaded``, ``fact_added_in_last_run``.
    Side effects: one query, when the facts may have changed.
    """
    is_current = state.get("facts_loaded", False) and not state.get("fact_added_in_last_run")
    if is_current:
        return {"pending_facts": [], "fact_added_in_last_run": False}
    try:
        facts = await key_facts(memories, runtime.context)
    except StorageError as error:
        logger.warning("the key facts could not be fetched", exc_info=error)
        return {"pending_facts": [], "fact_added_in_last_run": False}
    return {"pending_facts": facts, "facts_loaded": False, "fact_added_in_last_run": False}
