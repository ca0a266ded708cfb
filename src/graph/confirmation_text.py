"""What a user is told, or asked, of the facts that he taught; no model writes it."""

from __future__ import annotations

from collections.abc import Sequence

from src.graph.conversation_state import Doubt
from src.memory.writer import Outcome
from src.texts import Language, say
from src.texts.visible import shortened

MAX_TEXT = 500  # characters of a fact in a question


def confirmation_text(outcomes: Sequence[Outcome], language: Language) -> str:
    """What became of the facts of a message, a line each."""
    lines = dict.fromkeys(_line(outcome, language) for outcome in outcomes)
    return "\n".join(lines) or say("taught_nothing", language)


def question_text(doubts: Sequence[Doubt], language: Language) -> str:
    """Which of the facts holds: each pair in a line, then the question."""
    lines = [
        say(
            "conflict_pinned" if doubt["pinned"] else "conflict_important",
            language,
            old=shortened(doubt["old"], MAX_TEXT),
            new=shortened(doubt["new"], MAX_TEXT),
        )
        for doubt in doubts
    ]
    return "\n".join([*lines, say("conflict_ask", language)])


def _line(outcome: Outcome, language: Language) -> str:
    if outcome.kind in ("update", "beside", "kept"):
        old = "; ".join(outcome.replaced)
        return say(f"taught_{outcome.kind}", language, text=outcome.text, old=old)
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
