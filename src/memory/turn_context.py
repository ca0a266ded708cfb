"""What one run of the graph is about: LangGraph hands it to nodes and tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from langchain_core.tools import BaseTool

from src.base.owners import Owner
from src.base.zones import local_time
from src.history.turn_repo import Asks
from src.llm.reply import ModelUsage
from src.memory.retriever import Hit
from src.memory.writer import Outcome
from src.pg.user_settings_repo import AnswerLength, Mode
from src.texts import Language


@dataclass
class TurnContext:
    """What one run of the graph is about; LangGraph hands it to nodes and tools as it is.

    Attributes:
        owner: A person, or a group and topic.
        conversation_id: The conversation.
        message_id: The user message that is answered.
        text: What its sender typed since the last answer, without labels; where he only
            forwarded something, that.
        moment: When it was written (aware).
        time_zone: The owner's zone, a tz database name.
        language: For the sentences that the bot says itself.
        mode: Which way the graph takes.
        window_start: Position of the first message that the model sees.
        on_text: Called with each piece of the answer as the model writes it.
        usage: Filled with one entry per model call.
        sources: What the model was shown, in the order of its numbers: [1] is the first.
        is_private: Whether the user wants the message remembered nowhere.
        answer_length: How long the user wants the answer.
        memory_on: Whether anything is remembered, and recalled.
        speaker_id: In a group, who asks: he is "I" there.
        replacements: Filled with the ids of the facts that replaced others.
        saved: Filled with the ids of the other facts that are new.
        shown_facts: Ids of the facts that the model was shown; it may name no others.
        reminders: Filled with the ids of the reminders that are set.
        forgetting: What was forgotten in this turn, if anything, by its number.
        asks: What the bot asks with its answer, if an answer to it is to mean something.
        facts_changed: Whether a tool of this round changed what is known; the tool notes it, and
            ``update_state_after_tool`` takes it.
        lent_tools: Tools of servers that the model may call in this turn; None before it is
            asked for the first time.
    """

    owner: Owner
    conversation_id: UUID
    message_id: int
    text: str
    moment: datetime
    time_zone: str
    language: Language
    mode: Mode
    window_start: int
    on_text: Callable[[str], None]
    usage: list[ModelUsage] = field(default_factory=list)
    sources: list[Hit] = field(default_factory=list)
    is_private: bool = False
    answer_length: AnswerLength = "normal"
    memory_on: bool = True
    speaker_id: int | None = None
    replacements: list[int] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    shown_facts: set[int] = field(default_factory=set)
    reminders: list[int] = field(default_factory=list)
    forgetting: int | None = None
    asks: Asks | None = None
    facts_changed: bool = False
    lent_tools: tuple[BaseTool, ...] | None = None

    @property
    def now(self) -> datetime:
        """``moment`` in the owner's zone."""
        return local_time(self.moment, self.time_zone)

    def number(self, hit: Hit) -> int:
        """The number by which the answer cites a hit; the same one when it comes up again."""
        if hit.kind == "memory":
            self.shown_facts.add(hit.source_id)
        for number, known in enumerate(self.sources, start=1):
            if (known.kind, known.source_id) == (hit.kind, hit.source_id):
                return number
        self.sources.append(hit)
        return len(self.sources)

    def find_lent_tool(self, name: str) -> BaseTool | None:
        """The tool of a server that the model was offered under this name."""
        return next((tool for tool in self.lent_tools or () if tool.name == name), None)

    def ask_to_erase(self) -> bool:
        """Ask with the answer whether all is to be erased; in a group nobody may, so False."""
        if not self.owner.is_group:
            self.asks = "erase_all"
        return not self.owner.is_group

    def note_change(self) -> None:
        """Say that a tool changed what is known, so that the key facts are read again."""
        self.facts_changed = True

    def take_change(self) -> bool:
        """Whether a tool said so since this was asked last."""
        changed, self.facts_changed = self.facts_changed, False
        return changed

    def note(self, outcome: Outcome) -> None:
        """Keep in mind what was stored or replaced, so that the user can take it back."""
        if outcome.memory_id is None:
            return
        self.shown_facts.add(outcome.memory_id)
        changed = {"update": self.replacements, "new": self.saved}.get(outcome.kind)
        if changed is not None:
            changed.append(outcome.memory_id)
