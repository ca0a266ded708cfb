"""Strict mode, teaching: what was learned, what it replaced, what was refused."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext
from src.memory.writer import Outcome
from src.texts import Language, say


async def generate_confirmation(
    state: ConversationState, runtime: Runtime[TurnContext]
) -> ConversationState:
    """Say what became of the facts; no model is asked, so the confirmation cannot be wrong.

    The same outcome is said once, such as one refusal of several facts.

    Reads: ``outcomes``.
    Updates: ``answer``, ``references``.
    Side effects: the text goes to the turn's ``on_text``.
    """
    context = runtime.context
    outcomes = state["outcomes"]
    lines = dict.fromkeys(_line(outcome, context.language) for outcome in outcomes)
    answer = "\n".join(lines) or say("taught_nothing", context.language)
    context.on_text(answer)
    stored = [outcome.uid for outcome in outcomes if outcome.kind in ("new", "update")]
    return {"answer": answer, "references": list(dict.fromkeys(stored))}


def _line(outcome: Outcome, language: Language) -> str:
    if outcome.kind == "update":
        old = "; ".join(outcome.replaced)
        return say("taught_update", language, text=outcome.text, old=old)
    if outcome.kind == "refused":
        key = f"refused_{outcome.reason}"
        return say(key, language) if key in REFUSALS else say("refused_other", language)
    return say(f"taught_{outcome.kind}", language, text=outcome.text)


# Refusals that have a sentence of their own.
REFUSALS = frozenset({"refused_secret", "refused_others_words", "refused_unclear_date"})
