"""Strict mode, teaching: the only place where knowledge is stored."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from langgraph.runtime import Runtime

from src.facts.fact import Fact
from src.graph.conversation_state import Conflict, ConversationState, TurnContext
from src.graph.findings import changes_of
from src.graph.new_messages import new_messages
from src.graph.privacy import refusal
from src.graph.tools.save_user_fact import find_said
from src.memory.memories import Memories
from src.memory.writer import Outcome, is_important
from src.storage.memory_rows import Memory


async def store_knowledge(
    state: ConversationState, runtime: Runtime[TurnContext], *, memories: Memories
) -> ConversationState:
    """Store each fact with its source, the episode ``teach_msg-<id>``.

    What is important is replaced only when the user said so: ``accepted_conflicts`` name it. Where
    he keeps what he said before, nothing is stored; where he keeps both, this beside it.

    Reads: ``extracted_facts``, ``conflicts``, ``accepted_conflicts``, ``resolution``, ``history``.
    Updates: ``outcomes``.
    Side effects: one transaction per fact, told to the turn's ``on_change``.
    """
    context = runtime.context
    outcomes: list[Outcome] = []
    new = new_messages(state["history"])
    resolution = state.get("resolution")
    for number, fact in enumerate(state["extracted_facts"]):
        said = find_said(new, fact, context)
        if (refused := refusal(context, fact, said)) is not None:
            outcomes.append(refused)
            continue
        denied = _of(state["conflicts"], number)
        if resolution == "old":
            outcomes.append(_kept(fact, said.message_id, denied))
            continue
        accepted = {c["memory_id"] for c in _of(state.get("accepted_conflicts", ()), number)}
        outcome = await memories.remember(
            context.owner, fact, said, origin="teach", contradicts=accepted,
            spares=partial(_is_spared, accepted=accepted),
        )  # fmt: skip
        context.on_change(changes_of([outcome]))
        is_stored = outcome.kind in ("new", "same")
        outcomes.append(
            _beside(outcome, denied) if resolution == "both" and is_stored else outcome
        )
    return {"outcomes": outcomes}


def _of(conflicts: Sequence[Conflict], number: int) -> list[Conflict]:
    return [conflict for conflict in conflicts if conflict["new"] == number]


def _is_spared(known: Memory, *, accepted: Collection[int]) -> bool:
    return is_important(known) and known.id not in accepted


def _kept(fact: Fact, message_id: int, denied: Sequence[Conflict]) -> Outcome:
    texts = tuple(conflict["text"] for conflict in denied)
    return Outcome("kept", fact.text, f"msg-{message_id}", replaced=texts)


def _beside(outcome: Outcome, denied: Sequence[Conflict]) -> Outcome:
    return replace(outcome, kind="beside", replaced=tuple(conflict["text"] for conflict in denied))
