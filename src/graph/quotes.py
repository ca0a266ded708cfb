"""What was found, as a model sees it: data with a reference and a date."""

from __future__ import annotations

from typing import Any

from src.graph.conversation_state import TurnContext
from src.llm.prompts.memory_context import MAX_MEMORY
from src.memory.retriever import Hit
from src.time_zones import local_time


def memory_record(number: int, hit: Hit, time_zone: str) -> dict[str, Any]:
    """A hit as the model sees it."""
    record: dict[str, Any] = {
        "n": number,
        "uid": hit.uid,
        "said_at": f"{local_time(hit.said_at, time_zone):%Y-%m-%d %H:%M}",
        "text": hit.text[:MAX_MEMORY],
    }
    if hit.retired:
        record["note"] = "replaced by something newer"
    if hit.kind == "summary":
        record["note"] = "a summary"
    if hit.speaker == "assistant":
        record["note"] = "your own words"
    return record


def context_records(hits: list[Hit], context: TurnContext) -> list[dict[str, Any]]:
    """The quotes as the model sees them."""
    return [
        {
            "uid": hit.uid,
            "said_at": f"{local_time(hit.said_at, context.time_zone):%Y-%m-%d %H:%M}",
            "text": hit.text[:MAX_MEMORY],
            "similarity": round(hit.similarity, 2),
            "lexical": round(hit.channels["lexical"], 1),
        }
        for hit in hits
    ]
