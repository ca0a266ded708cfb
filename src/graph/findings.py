"""What tools have found and done, beside what they tell the model: artifacts of their results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from langchain_core.messages import ToolMessage

from src.memory.retriever import Hit
from src.memory.writer import Outcome
from src.storage.turn_repo import NO_CHANGES, Asks, Changes


@dataclass(frozen=True)
class Finding:
    """What one call of a tool has found or done; ``update_state_after_tool`` collects it.

    Attributes:
        hits: What it found, in the order of its records, which get their numbers by it.
        shown_facts: Ids of the facts that it tells the model.
        changes: What it stored and can be taken back.
        facts_changed: Whether it changed what is known, so that the key facts are read again.
        asks: What the bot is to ask with its answer.
    """

    hits: tuple[Hit, ...] = ()
    shown_facts: frozenset[int] = frozenset()
    changes: Changes = NO_CHANGES
    facts_changed: bool = False
    asks: Asks | None = None


NOTHING = Finding()


def finding_of(result: object) -> Finding:
    """What came with the result of a tool; nothing where it is no tool of ours."""
    artifact = result.artifact if isinstance(result, ToolMessage) else None
    return artifact if isinstance(artifact, Finding) else NOTHING


def changes_of(outcomes: Iterable[Outcome]) -> Changes:
    """What can be taken back of what was stored."""
    stored = [(outcome.kind, outcome.memory_id) for outcome in outcomes if outcome.memory_id]
    return Changes(
        saved=tuple(number for kind, number in stored if kind in ("new", "beside")),
        replaced_by=tuple(number for kind, number in stored if kind == "update"),
    )


def numbered(sources: Collection[Hit], hits: Iterable[Hit]) -> tuple[list[int], list[Hit]]:
    """The numbers by which an answer cites hits; one that comes up again keeps its own.

    Args:
        sources: What has a number, in their order.
        hits: What is shown now.

    Returns:
        The numbers of the hits, and the sources with those that are new.
    """
    known = list(sources)
    places = {(hit.kind, hit.source_id): number for number, hit in enumerate(known, start=1)}
    numbers = []
    for hit in hits:
        if (hit.kind, hit.source_id) not in places:
            known.append(hit)
            places[hit.kind, hit.source_id] = len(known)
        numbers.append(places[hit.kind, hit.source_id])
    return numbers, known


def facts_among(hits: Sequence[Hit]) -> frozenset[int]:
    """The ids of those that are facts."""
    return frozenset(hit.source_id for hit in hits if hit.kind == "memory")
