"""Tool: remember a fact that the user told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

from src.facts.fact import Fact, fact_uid
from src.facts.sameness import normalise
from src.graph.conversation_state import TurnContext
from src.graph.findings import Finding, changes_of
from src.graph.new_messages import text_of, voice_of
from src.graph.privacy import refusal
from src.llm.prompts.time_label import read_time_label
from src.memory.memories import Memories
from src.memory.writer import Said
from src.storage.conversation_repo import HistoryMessage
from src.time_zones import local_time

DESCRIPTION = """\
Remember one fact that the user told about himself, his people or his things, or a wish of his \
about how you answer.

Call it when the user asks you to remember something, or tells something that matters for long: \
name, family, health, home, work, preferences, plans with a date; once for each fact, with his \
exact words as the quote. Relations: name, age, birthday, lives_in, works_as, works_at, \
married_to, has_child, has_pet, allergic_to, likes, dislikes, favourite_<thing>, owns, plans, \
event, wish (how he wants to be answered: brevity, language, units, form of address), ... When it \
corrects or ends known facts that you see, name their ids in replaces.

Returns JSON: whether it is saved and under which id, what it replaced, or why it was refused."""


def build_save_user_fact(memories: Memories) -> BaseTool:
    """The tool ``save_user_fact``; a fact's own schema is that of its arguments."""

    async def save_user_fact(runtime: ToolRuntime[Any, Any], **values: Any) -> tuple[str, Finding]:
        context: TurnContext = runtime.context
        fact = Fact.model_validate(values)
        said = find_said(runtime.state.get("history", ()), fact, context)
        outcome = refusal(context, fact, said) or await memories.remember(
            context.owner,
            fact,
            said,
            origin="tool",
            contradicts=fact.replaced_ids() & runtime.state.get("shown_facts", frozenset()),
        )
        is_saved = outcome.kind in ("new", "update", "same")
        ids = frozenset() if outcome.memory_id is None else frozenset({outcome.memory_id})
        told = {
            "saved": is_saved,
            "outcome": outcome.kind,
            "id": None if outcome.memory_id is None else fact_uid(outcome.memory_id),
            "text": outcome.text,
            "replaced": list(outcome.replaced),
            "reason": outcome.reason,
        }
        return json.dumps(told, ensure_ascii=False), Finding(
            shown_facts=ids, changes=changes_of([outcome]), facts_changed=is_saved
        )

    return StructuredTool.from_function(
        coroutine=save_user_fact,
        name="save_user_fact",
        description=DESCRIPTION,
        args_schema=Fact,
        response_format="content_and_artifact",
    )


def find_said(history: Sequence[HistoryMessage], fact: Fact, context: TurnContext) -> Said:
    """The message that tells a fact: the one that it names, or the newest, that holds its quote.

    Only messages that their senders typed themselves are looked at, in a group first those of
    the one who asks. Where none holds it, it is the message that is answered.
    """
    wanted = normalise(fact.quote)
    typed = [m for m in reversed(history) if m["role"] == "user" and voice_of(m).is_own]
    holders = [m for m in typed if wanted and wanted in normalise(text_of(m))]
    holders.sort(key=lambda m: m.get("sender_id") != context.speaker_id)
    named = [m for m in holders if f"msg-{m['id']}" == fact.message]
    answered = [m for m in history if m["id"] == context.message_id]
    for entry in [*named, *holders, *answered][:1]:
        return _said(entry, context)
    return Said(context.message_id, context.text, context.now)


def _said(entry: HistoryMessage, context: TurnContext) -> Said:
    moment = read_time_label(entry["content"], context.time_zone)
    if moment is None or entry["id"] == context.message_id:
        moment = context.moment  # the label tells the minute only
    return Said(entry["id"], text_of(entry), local_time(moment, context.time_zone))
