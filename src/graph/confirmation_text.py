"""What a user is told of the facts that he taught; no model is asked, so it cannot be wrong."""

from __future__ import annotations

from collections.abc import Sequence

from src.memory.writer import Outcome
from src.texts import Language, say


def confirmation_text(outcomes: Sequence[Outcome], language: Language) -> str:
    """What became of the facts of a message, a line each."""
    lines = dict.fromkeys(_line(outcome, language) for outcome in outcomes)
    return "\n".join(lines) or say("taught_nothing", language)


def _line(outcome: Outcome, language: Language) -> str:
    if outcome.kind == "update":
        old = "; ".join(outcome.replaced)
        return say("taught_update", language, text=outcome.text, old=old)
    if outcome.kind == "refused":
        key = f"refused_{outcome.reason}"
        return say(key, language) if key in REFUSALS else say("refused_other", language)
    return say(f"taught_{outcome.kind}", language, text=outcome.text)


# Refusals that have a sentence of their own.
REFUSALS = frozenset(
    {
        "refused_secret", "refused_others_words", "refused_unclear_date", "refused_too_long",
        "refused_question", "refused_memory_off",
    }
)  # fmt: skip
