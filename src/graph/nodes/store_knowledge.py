"""Strict mode, teaching: the only place where knowledge is stored."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext
from src.graph.new_messages import new_messages
from src.graph.tools.save_user_fact import MEMORY_OFF, find_said
from src.memory.memories import Memories
from src.memory.writer import Outcome


async def store_knowledge(
    state: ConversationState, runtime: Runtime[TurnContext], *, memories: Memories
) -> ConversationState:
    """Store each fact with its source, the episode ``teach_msg-<id>``.

    Reads: ``extracted_facts``, ``accepted_conflicts``, ``history``.
    Updates: ``outcomes``.
    Side effects: one transaction per fact; the turn's ``replacements``.
    """
    context = runtime.context
    outcomes: list[Outcome] = []
    new = new_messages(state["history"])
    for number, fact in enumerate(state["extracted_facts"]):
        said = find_said(new, fact, context)
        if not context.memory_on:
            uid = f"msg-{said.message_id}"
            outcomes.append(Outcome("refused", fact.text, uid, reason=MEMORY_OFF))
            continue
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
