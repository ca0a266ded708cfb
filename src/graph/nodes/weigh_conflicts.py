"""Strict mode, teaching: what is not replaced without a question."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.facts.fact import Fact
from src.graph.conversation_state import Conflict, ConversationState, TurnContext
from src.graph.new_messages import new_messages
from src.graph.tools.save_user_fact import find_said
from src.memory.memories import Memories


async def weigh_conflicts(
    state: ConversationState, runtime: Runtime[TurnContext], *, memories: Memories
) -> ConversationState:
    """Set aside the new facts that would replace a pinned fact, or one of importance 8 or more.

    It asks the memory what storing them would retire, so that what only a rule finds counts like
    what the model found. The others go on as if those had not been said.

    Reads: ``extracted_facts``, ``conflicts``, ``history``.
    Updates: ``extracted_facts``, ``conflicts``, ``disputed_facts``, ``disputes``.
    Side effects: one transaction per fact, which writes nothing.
    """
    context = runtime.context
    new = new_messages(state["history"])
    plain: list[Fact] = []
    conflicts: list[Conflict] = []
    disputed: list[Fact] = []
    disputes: list[Conflict] = []
    for number, fact in enumerate(state["extracted_facts"]):
        its = [conflict for conflict in state["conflicts"] if conflict["new"] == number]
        said = find_said(new, fact, context)
        rivals = await memories.find_important_rivals(
            context.owner, fact, said, contradicts={c["memory_id"] for c in its}
        )
        if not rivals:
            conflicts += [{**conflict, "new": len(plain)} for conflict in its]
            plain.append(fact)
            continue
        disputes += [
            {
                "new": len(disputed), "memory_id": rival.id, "text": rival.text,
                "pinned": rival.pinned, "said_in": said.message_id,
            }
            for rival in rivals
        ]  # fmt: skip
        disputed.append(fact)
    return {
        "extracted_facts": plain,
        "conflicts": conflicts,
        "disputed_facts": disputed,
        "disputes": disputes,
    }
