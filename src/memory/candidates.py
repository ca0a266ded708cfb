"""From what a model returned to what the gate looks at."""

from __future__ import annotations

from collections.abc import Iterable

from src.llm.prompts.extraction import ExtractedFact
from src.memory.facts import CandidateFact


def as_candidates(facts: Iterable[ExtractedFact]) -> list[CandidateFact]:
    """The facts that say anything; a fact without an object stands for itself."""
    return [as_candidate(fact) for fact in facts if fact.text.strip()]


def as_candidate(fact: ExtractedFact) -> CandidateFact:
    """One fact, trimmed to lengths that the gate can judge."""
    text = fact.text.strip()
    return CandidateFact(
        text=text,
        memory_type=fact.memory_type,
        importance=fact.importance,
        quote=fact.quote.strip() or text,
        subject=fact.subject.strip()[:100] or "user",
        relation=fact.relation.strip()[:60] or "other",
        object=fact.object.strip()[:400] or text,
    )
