"""Strict mode: what the message does."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext, new_turn
from src.llm.chat import ModelCaller
from src.llm.prompts.teaching import Understanding, understanding_messages
from src.llm.prompts.time_label import strip_time_label

RECENT = 4  # messages before the newest one, so that "he" can be understood


async def classify_intent(
    state: ConversationState, runtime: Runtime[TurnContext], *, caller: ModelCaller
) -> ConversationState:
    """Tell teaching, asking and forgetting apart; the facts or the query come with the same call.

    Reads: ``history``.
    Updates: ``intent``, ``extracted_facts``, ``search_query``, and whatever the turn before may
    have left.
    Side effects: one model call; its cost is added to the turn's ``usage``.
    """
    context = runtime.context
    recent = [
        {"role": str(entry["role"]), "text": strip_time_label(entry["content"])[:500]}
        for entry in state["history"][-RECENT - 1 : -1]
        if entry["role"] in ("user", "assistant")
    ]
    understanding = await caller.structured(
        understanding_messages(context.text, f"msg-{context.message_id}", recent),
        Understanding,
        purpose="classify",
        on_usage=context.usage.append,
    )
    return {
        **new_turn(),
        "intent": understanding.intent,
        "extracted_facts": [fact for fact in understanding.facts if fact.text],
        "search_query": understanding.query.strip()[:500],
    }
