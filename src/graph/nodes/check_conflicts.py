"""Strict mode, teaching: known facts that the new ones deny."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from langgraph.runtime import Runtime

from src.errors import AppError
from src.facts.fact import Fact
from src.facts.sameness import content_hash
from src.graph.conversation_state import Conflict, ConversationState, TurnContext
from src.graph.privacy import recall
from src.llm.chat import ModelCaller
from src.llm.prompts.conflicts import Conflicts, conflict_messages
from src.memory.memories import Memories
from src.memory.retriever import Query

logger = logging.getLogger(__name__)

CANDIDATES = 5  # known facts that a new one is compared with


async def check_conflicts(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    memories: Memories,
    caller: ModelCaller,
) -> ConversationState:
    """Search known facts like the new ones; ask the model about all of them in one call.

    When nothing similar is known there is nothing to ask. A failed call finds no conflict: the
    facts are stored, and what a rule can decide is decided then.

    Reads: ``extracted_facts``.
    Updates: ``conflicts``.
    Side effects: one search per fact, at most one model call.
    """
    facts = state["extracted_facts"]
    context = runtime.context
    known = await _list_similar(facts, context, memories)
    if not known:
        return {"conflicts": []}
    try:
        verdict = await caller.structured(
            conflict_messages([fact.text for fact in facts], known),
            Conflicts,
            purpose="conflicts",
            on_usage=context.on_usage,
        )
    except AppError as error:
        logger.warning("conflicts could not be checked", exc_info=error)
        return {"conflicts": []}
    conflicts: list[Conflict] = [
        {"new": pair.new, "memory_id": pair.known, "text": known[pair.known]}
        for pair in verdict.conflicts
        if pair.known in known and 0 <= pair.new < len(facts) and pair.confidence >= 0.5
    ]
    return {"conflicts": conflicts}


async def _list_similar(
    facts: Sequence[Fact], context: TurnContext, memories: Memories
) -> dict[int, str]:
    """Texts of known facts that are close to a new one and not the same, by id."""
    threshold = (await memories.settings()).memory_dedup_threshold
    known: dict[int, str] = {}
    for fact in facts:
        query = Query(context.owner, fact.text, context.now, limit=CANDIDATES, kinds=("memory",))
        for hit in await recall(memories, context, query):
            is_same = content_hash(hit.text) == content_hash(fact.text)
            if hit.similarity >= threshold and not is_same:
                known[hit.source_id] = hit.text
    return known
