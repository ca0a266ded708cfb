"""Strict mode, teaching: the user says which of two facts holds."""

from __future__ import annotations

from langgraph.types import interrupt

from src.graph.conversation_state import RESOLUTIONS, ConversationState, Doubt


async def confirm_conflicts(state: ConversationState) -> ConversationState:
    """Ask, and wait: the run pauses here, and goes on in whatever process has the answer.

    When it goes on LangGraph runs the node once more from its beginning, so it does nothing else.

    Reads: ``extracted_facts``, ``conflicts``.
    Updates: ``resolution``.
    Side effects: the run is interrupted; its state goes into the checkpoint.
    """
    facts = state["extracted_facts"]
    doubts: list[Doubt] = [
        {
            "old": conflict["text"],
            "new": facts[conflict["new"]].text,
            "pinned": conflict.get("pinned", False),
        }
        for conflict in state["conflicts"]
    ]
    resolution = interrupt(doubts)
    return {"resolution": resolution if resolution in RESOLUTIONS else "old"}
