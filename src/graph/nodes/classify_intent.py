"""Strict mode: what the message does."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext, new_turn
from src.graph.new_messages import new_messages, own_words, record
from src.llm.chat import ModelCaller
from src.llm.prompts.teaching import Understanding, understanding_messages

RECENT = 4  # messages before the new ones, so that "he" can be understood
RECENT_TEXT = 500  # characters of each


async def classify_intent(
    state: ConversationState, runtime: Runtime[TurnContext], *, caller: ModelCaller
) -> ConversationState:
    """Tell teaching, asking and forgetting apart; the facts or the query come with the same call.

    Reads: ``history``.
    Updates: ``intent``, ``extracted_facts``, ``search_query``, and whatever the turn before may
    have left.
    Side effects: one model call.
    """
    context = runtime.context
    history = state["history"]
    new = new_messages(history)
    before = [entry for entry in history if entry not in new][-RECENT:]
    recent = [record(m, RECENT_TEXT) for m in before if m["role"] in ("user", "assistant")]
    understanding = await caller.structured(
        understanding_messages([record(entry) for entry in new], recent),
        Understanding,
        purpose="classify",
        on_usage=context.on_usage,
    )
    is_own = bool(own_words(new))  # what others say wishes nothing and asks nothing
    return {
        **new_turn(),
        "intent": understanding.intent if is_own else "solve",
        "extracted_facts": [fact for fact in understanding.facts if fact.text],
        "search_query": understanding.query.strip()[:500],
    }
