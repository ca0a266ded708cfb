"""The node that puts the key facts into the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage, SystemMessage
from langgraph.runtime import Runtime

from src.facts.fact import WISH, fact_uid
from src.graph.conversation_state import ConversationState, TurnContext, in_place_of_all
from src.graph.prompt_budget import within_budget
from src.llm.prompts.memory_context import key_facts_text
from src.llm.tokens import TokenCounter
from src.storage.memory_rows import Memory
from src.time_zones import local_time

USER_FACTS = "user_facts"
BUDGET = 650  # tokens; see ``init_state``


async def load_facts(
    state: ConversationState, runtime: Runtime[TurnContext], *, counter: TokenCounter
) -> ConversationState:
    """Put the key facts right after the system prompt, in place of the ones there before.

    Reads: ``pending_facts``, ``facts_loaded``, ``messages``, ``shown_facts``.
    Updates: ``messages``, ``current_token_count``, ``facts_loaded``, ``shown_facts``.
    Side effects: none.
    """
    pending = state.get("pending_facts", ())
    facts = _packed(pending, counter, runtime.context.time_zone)
    shown = pending[: len(facts)]
    kept = [message for message in state["messages"] if message.name != USER_FACTS]
    are_there = len(kept) < len(state["messages"])
    if not facts and (state.get("facts_loaded", False) or not are_there):
        return {"facts_loaded": True}
    prompt = 1 if kept and isinstance(kept[0], SystemMessage) and kept[0].name is None else 0
    wishes = [record for fact, record in zip(shown, facts, strict=True) if fact.relation == WISH]
    others = [record for fact, record in zip(shown, facts, strict=True) if fact.relation != WISH]
    text = key_facts_text(others, wishes)
    block: list[AnyMessage] = [SystemMessage(text, name=USER_FACTS)] if text else []
    messages = [*kept[:prompt], *block, *kept[prompt:]]
    return {
        "messages": in_place_of_all(messages),
        "current_token_count": counter.count_messages(messages),
        "facts_loaded": True,
        "shown_facts": state.get("shown_facts", frozenset()) | {fact.id for fact in shown},
    }


def _packed(
    facts: Sequence[Memory], counter: TokenCounter, time_zone: str
) -> list[dict[str, Any]]:
    """As many facts, from the first on, as the budget takes."""
    records = (
        {
            "id": fact_uid(fact.id),
            "said_on": local_time(fact.said_at, time_zone).date().isoformat(),
            "text": fact.text,
            **({"speaker": fact.speaker} if fact.speaker else {}),
        }
        for fact in facts
    )
    return within_budget(records, counter, BUDGET)
