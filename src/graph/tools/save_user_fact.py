"""Tool: remember a fact that the user told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolRuntime

from src.graph.conversation_state import TurnContext
from src.llm.prompts.extraction import ExtractedFact
from src.llm.prompts.time_label import read_time_label, strip_time_label
from src.memory.candidates import as_candidate
from src.memory.memories import Memories
from src.memory.sameness import normalise
from src.memory.writer import Said
from src.storage.conversation_repo import HistoryMessage
from src.time_zones import local_time


def build_save_user_fact(memories: Memories) -> BaseTool:
    """The tool ``save_user_fact``."""

    @tool
    async def save_user_fact(  # noqa: PLR0913  (these are what a fact consists of)
        text: str,
        quote: str,
        runtime: ToolRuntime[Any, Any],
        memory_type: str = "user_fact",
        importance: int = 5,
        subject: str = "user",
        relation: str = "other",
        object: str = "",  # noqa: A002  (the model reads these names)
    ) -> str:
        """Remember one fact that the user told about himself, his people or his things.

        Call it when the user asks you to remember something, or tells something that matters
        for long: name, family, health, home, work, preferences, plans with a date.

        Args:
            text: The fact as one short sentence in the user's own language.
            quote: The user's exact words that say it, copied from his message.
            memory_type: user_fact, preference, event or conversation_insight.
            importance: 1 to 10; name, family, health 8 to 9, home and work 7, others 3 to 6.
            subject: "user", or whom it is about, such as "brother" or a name.
            relation: In English: name, age, birthday, lives_in, works_as, works_at, has_child,
                has_pet, allergic_to, likes, dislikes, favourite_<thing>, owns, plans, event, ...
            object: What the relation leads to, as the user wrote it.

        Returns:
            JSON: whether it is saved, what it replaced, or why it was refused.
        """
        context: TurnContext = runtime.context
        fact = ExtractedFact.model_validate(
            {
                "text": text,
                "quote": quote,
                "memory_type": memory_type,
                "importance": importance,
                "subject": subject,
                "relation": relation,
                "object": object,
            }
        )
        candidate = as_candidate(fact)
        said = find_said(runtime.state.get("history", ()), candidate.quote, context)
        outcome = await memories.remember(context.owner, candidate, said, origin="tool")
        context.note(outcome)
        return json.dumps(
            {
                "saved": outcome.kind in ("new", "update", "same"),
                "outcome": outcome.kind,
                "text": outcome.text,
                "replaced": list(outcome.replaced),
                "reason": outcome.reason,
            },
            ensure_ascii=False,
        )

    return save_user_fact


def find_said(history: Sequence[HistoryMessage], quote: str, context: TurnContext) -> Said:
    """The newest of the user's messages that holds the quote; else the one that is answered."""
    wanted = normalise(quote)
    for entry in reversed(history):
        text = strip_time_label(entry["content"])
        if entry["role"] == "user" and wanted and wanted in normalise(text):
            moment = read_time_label(entry["content"], context.time_zone)
            if moment is None or entry["id"] == context.message_id:
                moment = context.moment  # the label tells the minute only
            return Said(entry["id"], text, local_time(moment, context.time_zone))
    return Said(context.message_id, context.text, local_time(context.moment, context.time_zone))
