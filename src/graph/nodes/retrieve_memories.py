"""The node that finds what was said earlier about the new message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext, in_place_of_all
from src.graph.findings import facts_among, numbered
from src.graph.hit_rendering import memory_record
from src.graph.privacy import recall
from src.graph.prompt_budget import within_budget
from src.llm.prompts.memory_context import LENGTHS, memories_text
from src.llm.tokens import TokenCounter
from src.memory.memories import Memories
from src.memory.retriever import Hit, Query

MEMORIES = "memories"
BUDGET = 1050  # tokens; see ``init_state``


async def retrieve_memories(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    memories: Memories,
    counter: TokenCounter,
    system_in_history: bool,
) -> ConversationState:
    """Search for the new message, once a turn, and put what is found right before it.

    Nothing that is volatile stands above the history, so that providers can cache all of it.

    Reads: ``messages``, ``relevant_memories``, ``summaries``, ``shown_facts``.
    Updates: ``messages``, ``current_token_count``, ``relevant_memories``, ``sources``,
    ``shown_facts``.
    Side effects: one embedding and one query.
    """
    context = runtime.context
    if state.get("relevant_memories") is not None:
        return {}
    hits = await _search(state, context, memories)
    records = _packed(hits, context, counter)
    shown = hits[: len(records)]
    numbers, sources = numbered((), shown)
    now = f"{context.now:%Y-%m-%d %H:%M, %A}"
    records = [{**record, "n": n} for n, record in zip(numbers, records, strict=True)]
    parts = [memories_text(records, now)] if records else []
    parts += [LENGTHS[context.answer_length]] if context.answer_length in LENGTHS else []
    if not parts:
        return {"relevant_memories": []}
    text = "\n\n".join(parts)
    messages = _insert(state["messages"], text, system_in_history=system_in_history)
    return {
        "messages": in_place_of_all(messages),
        "current_token_count": counter.count_messages(messages),
        "relevant_memories": hits if records else [],
        "sources": sources,
        "shown_facts": state.get("shown_facts", frozenset()) | facts_among(shown),
    }


async def _search(state: ConversationState, context: TurnContext, memories: Memories) -> list[Hit]:
    """What was said that fits the message, without summaries that the prompt shows already."""
    settings = await memories.settings()
    query = Query(
        context.owner,
        context.text,
        context.now,
        limit=settings.memory_retrieve_limit,
        threshold=settings.memory_retrieve_threshold,
        conversation_id=context.conversation_id,
        before_position=context.window_start,
        by_words_only=context.is_private,
        speaker_id=context.speaker_id,
    )
    hits = await recall(memories, context, query)
    shown = set(state.get("summaries", ()))
    return [hit for hit in hits if hit.kind != "summary" or hit.text not in shown]


def _packed(
    hits: Sequence[Hit], context: TurnContext, counter: TokenCounter
) -> list[dict[str, Any]]:
    """As many hits, from the best on, as the budget takes; none has its number yet."""
    records = (memory_record(0, hit, context.time_zone) for hit in hits)
    return within_budget(records, counter, BUDGET)


def _insert(
    messages: Sequence[AnyMessage], text: str, *, system_in_history: bool
) -> list[AnyMessage]:
    """The memories before the last user message; within it where no system message may stand."""
    place = max(i for i, message in enumerate(messages) if isinstance(message, HumanMessage))
    if system_in_history:
        block: AnyMessage = SystemMessage(text, name=MEMORIES)
        return [*messages[:place], block, *messages[place:]]
    asked = messages[place].model_copy(update={"content": f"{text}\n\n{messages[place].text}"})
    return [*messages[:place], asked, *messages[place + 1 :]]
