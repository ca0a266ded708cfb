"""What was found, as a model sees it: data with a reference and a date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from src.dates.relative_dates import resolved_dates
from src.facts.fact import fact_uid
from src.gate.voices import UNKNOWN
from src.graph.conversation_state import TurnContext
from src.llm.prompts.memory_context import MAX_MEMORY
from src.memory.retriever import Hit
from src.time_zones import local_time


def memory_record(number: int, hit: Hit, time_zone: str) -> dict[str, Any]:
    """A hit as the model sees it."""
    record: dict[str, Any] = {"n": number, **_quote(hit, time_zone)}
    if hit.retired:
        record["note"] = "held earlier, not any more"
    if hit.successor is not None:
        record["replaced_by"] = fact_uid(hit.successor)
    if hit.kind == "summary":
        record["note"] = "a summary"
    if hit.speaker == "assistant":
        record["note"] = "your own words"
    return record


def _quote(hit: Hit, time_zone: str) -> dict[str, Any]:
    """What was said and when, and whose words they are where they are not simply the user's."""
    said_at = f"{local_time(hit.said_at, time_zone):%Y-%m-%d %H:%M}"
    text = hit.text[:MAX_MEMORY]
    record = {"id": hit_id(hit), "uid": hit.uid, "said_at": said_at, "text": text}
    if not hit.is_own:
        whose = "from_file" if hit.provenance == "file" else "words_of"
        return {**record, whose: hit.author or UNKNOWN}
    return {**record, "speaker": hit.author} if hit.author else record


def words_and_dates(hit: Hit, time_zone: str) -> dict[str, Any]:
    """Of what counts from the day on which it was said: those words, and which days they mean.

    A fact's text has the dates in their place, a message's has not.
    """
    dates = resolved_dates(hit.words, local_time(hit.said_at, time_zone))
    return {"quote": hit.words[:MAX_MEMORY], "dates": dates} if dates else {}


def hit_id(hit: Hit) -> str:
    """What names the hit itself: ``fact-12``, ``msg-12`` or ``summary-3``."""
    if hit.kind == "memory":
        return fact_uid(hit.source_id)
    return f"summary-{hit.source_id}" if hit.kind == "summary" else f"msg-{hit.source_id}"


def reference_names(hits: Sequence[Hit]) -> dict[str, int]:
    """The ids by which a model may cite the hits, and the place of each among them.

    Several facts may be told by one message; its uid stands for the first of them.
    """
    names = {hit.uid: place for place, hit in reversed(list(enumerate(hits)))}
    return names | {hit_id(hit): place for place, hit in enumerate(hits)}


def context_records(hits: list[Hit], context: TurnContext) -> list[dict[str, Any]]:
    """The quotes as the model sees them."""
    return [
        {
            **_quote(hit, context.time_zone),
            **({} if hit.is_of(context.speaker_id) else {"of_asker": False}),
            **({"note": "held earlier, not any more"} if hit.retired else {}),
            "similarity": round(hit.similarity, 2),
            "lexical": round(hit.bm25, 1),
        }
        for hit in hits
    ]
