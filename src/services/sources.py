"""Which of the memories that the model was shown stand behind its answer."""

from __future__ import annotations

from src.graph.conversation_state import TurnContext
from src.memory.citations import verify_numbers
from src.memory.retriever import Hit
from src.storage.turn_repo import AnswerSource


def cited_sources(text: str, context: TurnContext) -> tuple[str, tuple[AnswerSource, ...]]:
    """The answer without references that lead nowhere, and what the others stand for.

    A reference leads to a message of the user's; neither a summary nor what the bot said is one.
    In strict mode the references are uids, which ``generate_answer`` has verified.
    """
    if context.mode == "strict":
        return text, tuple(_source(n, hit) for n, hit in enumerate(context.sources, start=1))
    told = {
        number: hit
        for number, hit in enumerate(context.sources, start=1)
        if hit.kind != "summary" and hit.speaker != "assistant"
    }
    verified, numbers = verify_numbers(text, told)
    return verified, tuple(_source(number, told[number]) for number in numbers)


def _source(number: int, hit: Hit) -> AnswerSource:
    memory_id = hit.source_id if hit.kind == "memory" else None
    return AnswerSource(number, hit.uid, hit.text, hit.said_at, hit.message_id, memory_id)
