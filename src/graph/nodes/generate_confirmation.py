"""Strict mode, teaching: what was learned, what it replaced, what was refused."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.confirmation_text import confirmation_text
from src.graph.conversation_state import ConversationState, TurnContext


async def generate_confirmation(
    state: ConversationState, runtime: Runtime[TurnContext]
) -> ConversationState:
    """Say what became of the facts; no model is asked, so the confirmation cannot be wrong.

    The same outcome is said once, such as one refusal of several facts.

    Reads: ``outcomes``.
    Updates: ``answer``, ``references``.
    Side effects: none.
    """
    outcomes = state["outcomes"]
    answer = confirmation_text(outcomes, runtime.context.language)
    stored = [outcome.uid for outcome in outcomes if outcome.kind in ("new", "update")]
    return {"answer": answer, "references": list(dict.fromkeys(stored))}
