"""Context of one run of the graph, results of its tools, and rules for what stays private."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from langchain_core.messages import ToolMessage

from src.base.owners import Caller, WithCaller
from src.base.zones import local_time
from src.history.conversation_repo import HistoryMessage
from src.history.new_messages import new_messages, strip_time_label, voice_of
from src.history.turn_repo import NO_CHANGES, Asks, Changes
from src.llm.reply import ModelUsage
from src.memory.memories import Memories
from src.memory.memory_repo import StoredFact
from src.memory.queries import Query
from src.memory.question_repo import Dispute
from src.memory.retrieval_repo import Hit
from src.memory.thresholds import REPEATED
from src.memory.writer import Outcome, SourceText
from src.reading.facts import Fact
from src.reading.requests import asks_to_keep_private
from src.reading.words import content_words, lemmas_in, lemmas_of


@dataclass(frozen=True)
class Finding:
    """Result of one call of a tool, for the state; ``update_state_after_tool`` collects it.

    Attributes:
        hits: The hits, in the order of their records, which are numbered by it.
        shown_facts: Ids of the facts that the model sees in the result.
        changes: Stored changes that can be undone.
        facts_changed: True if facts changed, so that the key facts are read again.
        asks: The question that the bot asks with its answer.
        disputes: Facts that are not stored, since they would replace important ones.
    """

    hits: tuple[Hit, ...] = ()
    shown_facts: frozenset[int] = frozenset()
    changes: Changes = NO_CHANGES
    facts_changed: bool = False
    asks: Asks | None = None
    disputes: tuple[Dispute, ...] = ()


NOTHING = Finding()


def get_finding(result: object) -> Finding:
    """Return the finding that came with a tool's result; an empty one for tools of others."""
    artifact = result.artifact if isinstance(result, ToolMessage) else None
    return artifact if isinstance(artifact, Finding) else NOTHING


def changes_of(outcomes: Iterable[Outcome]) -> Changes:
    """Return the changes by stored facts that can be undone."""
    stored = [(outcome.kind, outcome.memory_id) for outcome in outcomes if outcome.memory_id]
    return Changes(
        saved=tuple(number for kind, number in stored if kind in ("new", "beside")),
        replaced_by=tuple(number for kind, number in stored if kind == "update"),
    )


def number_hits(sources: Collection[Hit], hits: Iterable[Hit]) -> tuple[list[int], list[Hit]]:
    """Number hits for citation; a hit that has a number keeps it.

    Args:
        sources: The numbered sources, in order.
        hits: The hits to number.

    Returns:
        The numbers of the hits, and the sources extended by the new ones.
    """
    extended = list(sources)
    number_of = {(hit.kind, hit.source_id): number for number, hit in enumerate(extended, start=1)}
    numbers = []
    for hit in hits:
        if (hit.kind, hit.source_id) not in number_of:
            extended.append(hit)
            number_of[hit.kind, hit.source_id] = len(extended)
        numbers.append(number_of[hit.kind, hit.source_id])
    return numbers, extended


def facts_among(hits: Sequence[Hit]) -> frozenset[int]:
    """Return the ids of the hits that are facts."""
    return frozenset(hit.source_id for hit in hits if hit.kind == "memory")


@dataclass(frozen=True)
class Window:
    """Part of a conversation that the model sees.

    Attributes:
        start: Position of its first message.
        fresh_from: Facts told by this message or a later one are shown below the history, so that
            the prompt above it stays cached; None if there are none.
    """

    start: int = 1
    fresh_from: int | None = None


WHOLE = Window()


def show_nothing(_text: str) -> None:
    """Default of what ``TurnContext.begin_text`` returns: nobody sees the text."""


@dataclass(frozen=True)
class TurnContext(WithCaller):
    """Context of one run of the graph, which LangGraph passes to nodes and tools unchanged.

    It is read-only. Results of a run are its state; only effects that last, however the run ends,
    are reported at once: text that was shown, tokens that were spent, changes that were stored.

    Attributes:
        caller: Who asks, for whom, when, with which settings.
        conversation_id: The conversation.
        message_id: The user message that is answered.
        text: The sender's own text since the last answer, without labels; or the forwarded text,
            if they only forwarded something.
        window: The part of the conversation that the model sees.
        is_private: True if the user wants the message not to be remembered.
        begin_text: Begins another text of the answer, which is not shown if it begins like one of
            these; what it returns is called with each piece as the model writes it.
        on_usage: Called with the usage of each model call.
        on_change: Called with stored changes that can be undone.
    """

    caller: Caller
    conversation_id: UUID
    message_id: int
    text: str
    window: Window = WHOLE
    is_private: bool = False
    begin_text: Callable[[Sequence[str]], Callable[[str], None]] = lambda _hidden: show_nothing
    on_usage: Callable[[ModelUsage], None] = lambda _usage: None
    on_change: Callable[[Changes], None] = lambda _changes: None

    @property
    def now(self) -> datetime:
        """``moment`` in the owner's zone."""
        return local_time(self.moment, self.time_zone)


# The only place that keeps texts out of the memory: messages whose sender asks for it,
# answers that repeat them, and everything while an owner has the memory switched off.

MEMORY_OFF = "memory_off"  # reason of a refusal
# An answer repeats a private message by a share of its words, or by this number of those that no
# other message of the user has.
REPEATED_WORDS = 2


def wants_privacy(text: str, *, is_own: bool, is_taught: bool = False) -> bool:
    """Return True if a message must not be remembered.

    Args:
        text: Its text.
        is_own: True if its sender typed it; words of others request nothing.
        is_taught: True if it is to be remembered verbatim, whatever it says.
    """
    return is_own and not is_taught and asks_to_keep_private(text)


def is_private_answer(answer: str, history: Sequence[HistoryMessage]) -> bool:
    """Return True if an answer must not be remembered.

    Args:
        answer: Its text.
        history: The window, which ends with the message that is answered.
    """
    answers_private = any(voice_of(entry).is_private for entry in new_messages(history))
    return answers_private or repeats_private(answer, history)


async def recall(memories: Memories, context: TurnContext, query: Query) -> list[Hit]:
    """Return hits for the query; none while the memory is off."""
    return await memories.retriever.search(query) if context.preferences.memory_on else []


async def key_facts(memories: Memories, context: TurnContext) -> list[StoredFact]:
    """Return the key facts; none while the memory is off.

    Raises:
        StorageError: The database is away.
    """
    return await memories.get_user_facts(context.owner) if context.preferences.memory_on else []


def refusal(context: TurnContext, fact: Fact, said: SourceText) -> Outcome | None:
    """Return the outcome for a fact while the memory is off; None while it is on."""
    if context.preferences.memory_on:
        return None
    return Outcome("refused", fact.text, f"msg-{said.message_id}", reason=MEMORY_OFF)


def repeats_private(answer: str, history: Sequence[HistoryMessage]) -> bool:
    """Return True if an answer repeats a private message of the window.

    Words that the user also said openly do not count. More must be repeated of the bot's own
    answers, which are mostly phrases. In doubt the answer is private: it is seldom searched for.
    """
    private = [entry for entry in history if voice_of(entry).is_private]
    if not private or not answer:
        return False
    openly = lemmas_in("private.request") | lemmas_of(
        "\n".join(
            strip_time_label(entry["content"])
            for entry in history
            if entry["role"] == "user" and not voice_of(entry).is_private
        )
    )
    said = lemmas_of(answer)
    for entry in private:
        text = strip_time_label(entry["content"])
        words = [word for word in content_words(text) if not word.lemmas & openly]
        repeated = sum(bool(word.lemmas & said) for word in words)
        is_much = repeated > 0 and repeated >= REPEATED * len(words)
        is_many = repeated >= REPEATED_WORDS
        if (is_much and is_many) or (entry["role"] == "user" and (is_much or is_many)):
            return True
    return False
