"""Strict mode, solving: searches for what the first search missed."""

from __future__ import annotations

import logging

from langgraph.runtime import Runtime

from src.errors import AppError
from src.graph.conversation_state import ConversationState, TurnContext
from src.graph.hit_rendering import context_records
from src.graph.strict_evidence import search_taught
from src.llm.chat import ModelCaller
from src.llm.prompts.reasoning import ReasoningStep, reasoning_messages
from src.memory.memories import Memories
from src.memory.retriever import Hit

logger = logging.getLogger(__name__)


async def react_loop(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    memories: Memories,
    caller: ModelCaller,
) -> ConversationState:
    """Think, search, look; as often as the settings say. The steps are not stored anywhere.

    The first search is the one that ``classify_intent`` proposed, so it costs no call; with two
    more thoughts (the settings as they begin), solving takes four calls at most.

    Reads: ``history``, ``search_query``, ``retrieved_context``.
    Updates: ``retrieved_context``.
    Side effects: at most ``strict_max_iterations`` searches, and one model call less.
    """
    context = runtime.context
    settings = await memories.settings()
    limit = settings.strict_react_limit
    hits = list(state["retrieved_context"])
    searched = [context.text]
    query = state.get("search_query", "")
    for iteration in range(settings.strict_max_iterations):
        if iteration > 0:
            query = await _next_query(caller, context, hits, searched)
            if not query:
                break
        if not query or query in searched:
            continue
        searched.append(query)
        found = await search_taught(memories, context, state["history"], query, limit=limit)
        known = {hit.uid for hit in hits}
        hits += [hit for hit in found if hit.uid not in known]
    return {"retrieved_context": hits}


async def _next_query(
    caller: ModelCaller, context: TurnContext, hits: list[Hit], searched: list[str]
) -> str:
    """What to search next; empty when the context is enough, or the model does not answer."""
    if not hits and len(searched) > 1:
        return ""  # two searches found nothing at all
    try:
        step = await caller.structured(
            reasoning_messages(context.text, context_records(hits, context), searched),
            ReasoningStep,
            purpose="reason",
            on_usage=context.on_usage,
        )
    except AppError as error:
        logger.warning("the search ends early", exc_info=error)
        return ""
    return step.query.strip()[:500] if step.action == "search" else ""
