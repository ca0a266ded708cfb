"""Which of the memories that the model was shown stand behind its answer."""

from __future__ import annotations

from src.graph.conversation_state import TurnContext
from src.memory.citations import verify_numbers
from src.memory.retriever import Hit
from src.storage.turn_repo import AnswerSource


def cited_sources(text: str, context: TurnContext) -> tuple[str, tuple[AnswerSource, ...]]:
    """The answer without references to nothing, and what of the user's the others stand for.

    In strict mode the references are uids, which ``generate_answer`` has verified.
    """
    if context.mode == "strict":
        return text, tuple(_source(n, hit) for n, hit in enumerate(context.sources, start=1))
    verified, numbers = verify_numbers(text, len(context.sources))
    hits = [(n, context.sources[n - 1]) for n in numbers]
    return verified, tuple(_source(n, hit) for n, hit in hits if hit.speaker != "assistant")


def _source(number: int, hit: Hit) -> AnswerSource:
    memory_id = hit.source_id if hit.kind == "memory" else None
    return AnswerSource(number, hit.uid, hit.text, hit.said_at, hit.message_id, memory_id)
