"""Strict mode, teaching: the facts of the message."""

from __future__ import annotations

from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext
from src.graph.new_messages import new_messages, record
from src.llm.chat import ModelCaller
from src.llm.prompts.extraction import ExtractedFacts, extraction_messages

MAX_FACTS = 20  # of one message


async def extract_facts(
    state: ConversationState, runtime: Runtime[TurnContext], *, caller: ModelCaller
) -> ConversationState:
    """Take over the facts that ``classify_intent`` found; ask for them when it found none.

    Reads: ``extracted_facts``, ``history``.
    Updates: ``extracted_facts``.
    Side effects: at most one model call.
    """
    facts = state.get("extracted_facts", [])
    if not facts:
        context = runtime.context
        said_at = {"said_at": context.moment.isoformat()}
        messages = [record(entry) | said_at for entry in new_messages(state["history"])]
        extracted = await caller.structured(
            extraction_messages(messages, {}),
            ExtractedFacts,
            purpose="extract",
            on_usage=context.on_usage,
        )
        facts = [fact for fact in extracted.facts if fact.text]
    return {"extracted_facts": facts[:MAX_FACTS]}
