"""Which of the memories that the model was shown stand behind its answer."""

from __future__ import annotations

from src.graph.conversation_state import TurnContext
from src.graph.quotes import reference_names
from src.memory.citations import number_references
from src.memory.retriever import Hit
from src.storage.turn_repo import AnswerSource


def cited_sources(text: str, context: TurnContext) -> tuple[str, tuple[AnswerSource, ...]]:
    """The answer with references 1, 2, 3 that all lead somewhere, and what they stand for.

    A reference leads to a message of the user's; neither a summary nor what the bot said is one.
    """
    hits = context.sources
    told = {
        place
        for place, hit in enumerate(hits)
        if hit.kind != "summary" and hit.speaker != "assistant"
    }
    known = {str(place + 1): place for place in told}
    known |= {name: place for name, place in reference_names(hits).items() if place in told}
    said = [context.text, *(hits[place].words for place in told)]
    numbered, cited = number_references(text, known, said=said)
    return numbered, tuple(
        _source(number, hits[place]) for number, place in enumerate(cited, start=1)
    )


def _source(number: int, hit: Hit) -> AnswerSource:
    memory_id = hit.source_id if hit.kind == "memory" else None
    return AnswerSource(number, hit.uid, hit.words, hit.said_at, hit.message_id, memory_id)
