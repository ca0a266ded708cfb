"""What one run of the graph is about, and what its tools have found and done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from langchain_core.messages import ToolMessage

from src.base.owners import Owner
from src.base.zones import local_time
from src.history.turn_repo import NO_CHANGES, Asks, Changes
from src.llm.reply import ModelUsage
from src.memory.retriever import Hit
from src.memory.writer import Outcome
from src.pg.user_settings_repo import AnswerLength, Mode
from src.texts import Language


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


@dataclass(frozen=True)
class TurnContext:
    """What one run of the graph is about; LangGraph hands it to nodes and tools as it is.

    It is read-only. What a run finds is its state; only what has happened for good, however the
    run ends, is told at once: text that was shown, tokens that were spent, changes that were
    stored.

    Attributes:
        owner: A person, or a group and topic.
        conversation_id: The conversation.
        message_id: The user message that is answered.
        text: What its sender typed since the last answer, without labels; where they only
            forwarded something, that.
        moment: When it was written (aware).
        time_zone: The owner's zone, a tz database name.
        language: For the sentences that the bot says itself.
        mode: Which way the graph takes.
        window_start: Position of the first message that the model sees.
        is_private: Whether the user wants the message remembered nowhere.
        answer_length: How long the user wants the answer.
        memory_on: Whether anything is remembered, and recalled.
        speaker_id: In a group, who asks: "I" in the message.
        on_text: Called with each piece of the answer as the model writes it.
        on_usage: Called with what each model call cost.
        on_change: Called with what is stored, and can be taken back.
    """

    owner: Owner
    conversation_id: UUID
    message_id: int
    text: str
    moment: datetime
    time_zone: str
    language: Language
    mode: Mode
    window_start: int = 1
    is_private: bool = False
    answer_length: AnswerLength = "normal"
    memory_on: bool = True
    speaker_id: int | None = None
    on_text: Callable[[str], None] = lambda _text: None
    on_usage: Callable[[ModelUsage], None] = lambda _usage: None
    on_change: Callable[[Changes], None] = lambda _changes: None

    @property
    def now(self) -> datetime:
        """``moment`` in the owner's zone."""
        return local_time(self.moment, self.time_zone)
