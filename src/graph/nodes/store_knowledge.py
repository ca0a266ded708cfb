"""Strict mode, teaching: the only place where knowledge is stored."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext
from src.memory.memories import Memories
from src.memory.writer import Outcome, Said
from src.time_zones import local_time


async def store_knowledge(
    state: ConversationState, runtime: Runtime[TurnContext], *, memories: Memories
) -> ConversationState:
    """Store each fact with its source, the episode ``teach_msg-<id>``.

    Reads: ``extracted_facts``, ``accepted_conflicts``.
    Updates: ``outcomes``.
    Side effects: one transaction per fact; the turn's ``replacements``.
    """
    context = runtime.context
    said = Said(context.message_id, context.text, local_time(context.moment, context.time_zone))
    outcomes: list[Outcome] = []
    for number, fact in enumerate(state["extracted_facts"]):
        contradicts = {
            conflict["memory_id"]
            for conflict in state.get("accepted_conflicts", ())
            if conflict["new"] == number
        }
        outcome = await memories.remember(
            context.owner, fact, said, origin="teach", contradicts=contradicts
        )
        context.note(outcome)
        outcomes.append(outcome)
    return {"outcomes": outcomes}
