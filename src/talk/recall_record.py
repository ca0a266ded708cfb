"""Record of what was recalled for an answer, which is stored with it."""

from collections.abc import Sequence
from typing import Any

from src.llm.reply import ModelUsage
from src.memory.citations import hit_id
from src.memory.ranking import score_record
from src.memory.turn_context import get_finding
from src.reading.facts import fact_uid
from src.talk.turn_state import ConversationState, Turn


def recall_record(
    turn: Turn, state: ConversationState, usage: Sequence[ModelUsage]
) -> dict[str, Any]:
    """Build the record of a run: ids and numbers only, since texts may be forgotten meanwhile.

    Args:
        turn: The turn.
        state: State at the end of the run.
        usage: The model calls.

    Returns:
        ``model``: the one that answered; ``since``: id of the first message that it saw (None in
        strict mode, which shows the last few); ``found``: the documents, each once, with ``by``,
        what led to it and its place there, its scores if it was ranked, and ``shown``.
    """
    taught = state.get("retrieved_context", [])
    shown = {hit_id(hit) for hit in [*state.get("sources", ()), *(taught if usage else ())]}
    documents: dict[str, dict[str, Any]] = {}

    def add(name: str, by: str, *, is_shown: bool, **scores: float | None) -> None:
        known = documents.setdefault(name, {"id": name, "by": by, "shown": is_shown, **scores})
        if known["by"] != by:
            documents[name] = {**scores, **known, "by": f"{known['by']}, {by}"}

    for fact in sorted(state.get("key_facts", ())):
        add(fact_uid(fact), "key", is_shown=True)
    is_assistant = turn.incoming.preferences.mode == "assistant"
    for summary in turn.summaries if is_assistant else ():
        is_shown = summary.content in state.get("summaries", ())
        add(f"summary-{summary.id}", "summary", is_shown=is_shown)
    searches = [("search", [*state.get("relevant_memories", ()), *taught])]
    searches += [(m.name or "", list(get_finding(m).hits)) for m in state.get("messages", ())]
    for by, hits in searches:
        for place, hit in enumerate(hits, start=1):
            name = hit_id(hit)
            add(name, f"{by} {place}", is_shown=name in shown, **score_record(hit))
    seen = (entry["id"] for entry in turn.history if entry["position"] >= turn.window.start)
    return {
        "model": next((call.model for call in reversed(usage) if call.error is None), None),
        "since": next(seen, None) if is_assistant else None,
        "found": list(documents.values()),
    }
