"""What one run of the graph is about, what its tools have done, what is remembered of it."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from langchain_core.messages import ToolMessage

from src.base.owners import Owner
from src.base.zones import local_time
from src.history.conversation_repo import HistoryMessage
from src.history.new_messages import new_messages, strip_time_label, voice_of
from src.history.turn_repo import NO_CHANGES, Asks, Changes
from src.llm.reply import ModelUsage
from src.memory.memories import Memories
from src.memory.memory_repo import Memory
from src.memory.retrieval_repo import Hit
from src.memory.retriever import Query
from src.memory.writer import Outcome, Said
from src.pg.user_settings_repo import AnswerLength, Mode
from src.reading.facts import Fact
from src.reading.requests import asks_to_keep_private
from src.reading.words import content_words, lemmas_in, lemmas_of
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
        is_all_shown: Whether a search finds nothing that does not stand in the prompt.
        fresh_from: Facts that this message or a later one told stand below the history, so that
            what is above it stays as it is cached; None: none does.
        is_private: Whether the user wants the message remembered nowhere.
        answer_length: How long the user wants the answer.
        memory_on: Whether anything is remembered, and recalled.
        has_reminders: Whether any reminder of the owner's may wait.
        key_facts: What was read of them with the message; None: nothing was.
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
    is_all_shown: bool = False
    fresh_from: int | None = None
    is_private: bool = False
    answer_length: AnswerLength = "normal"
    memory_on: bool = True
    has_reminders: bool = True
    key_facts: Sequence[Memory] | None = None
    speaker_id: int | None = None
    on_text: Callable[[str], None] = lambda _text: None
    on_usage: Callable[[ModelUsage], None] = lambda _usage: None
    on_change: Callable[[Changes], None] = lambda _changes: None

    @property
    def now(self) -> datetime:
        """``moment`` in the owner's zone."""
        return local_time(self.moment, self.time_zone)


# What stays out of the memory is decided here, and nowhere else: messages whose sender asks for
# it, answers that repeat them, and everything while an owner has the memory switched off.

MEMORY_OFF = "memory_off"  # why a fact is not saved
REPEATED = 0.5  # of what a private message says: an answer with so much of it repeats it
WORDS = 2  # of it that no other message of the user has: so few repeat it as well


def wants_privacy(text: str, *, is_own: bool, is_taught: bool = False) -> bool:
    """Whether a message is to be remembered nowhere.

    Args:
        text: What it says.
        is_own: Whether its sender typed it; words of others ask for nothing.
        is_taught: Whether it is to be remembered as it stands, whatever it says.
    """
    return is_own and not is_taught and asks_to_keep_private(text)


def is_private_answer(answer: str, history: Sequence[HistoryMessage]) -> bool:
    """Whether an answer is remembered nowhere.

    Args:
        answer: Its text.
        history: The window, with the message that is answered at its end.
    """
    answers_private = any(voice_of(entry).is_private for entry in new_messages(history))
    return answers_private or repeats_private(answer, history)


async def recall(memories: Memories, context: TurnContext, query: Query) -> list[Hit]:
    """What was said that fits the query; nothing while the memory is off."""
    return await memories.retriever.search(query) if context.memory_on else []


async def key_facts(
    memories: Memories, context: TurnContext, *, changed: bool = False
) -> list[Memory]:
    """The key facts; none while the memory is off.

    Args:
        memories: Where they are read, unless they were with the message.
        context: Of the turn.
        changed: Whether the turn has changed them since.

    Raises:
        StorageError: The database is away.
    """
    if context.key_facts is not None and not changed:
        return list(context.key_facts)
    return await memories.get_user_facts(context.owner) if context.memory_on else []


def refusal(context: TurnContext, fact: Fact, said: Said) -> Outcome | None:
    """What becomes of a fact while the memory is off; None while it is on."""
    if context.memory_on:
        return None
    return Outcome("refused", fact.text, f"msg-{said.message_id}", reason=MEMORY_OFF)


def repeats_private(answer: str, history: Sequence[HistoryMessage]) -> bool:
    """Whether an answer says what a private message in the window said.

    Words that the user also said openly tell nothing. In doubt it is private: what an answer says
    is seldom looked for.
    """
    private = [entry for entry in history if voice_of(entry).is_private]
    if not private or not answer:
        return False
    openly = lemmas_in("private.request") | lemmas_of("\n".join(
        strip_time_label(entry["content"]) for entry in history
        if entry["role"] == "user" and not voice_of(entry).is_private
    ))  # fmt: skip
    said = lemmas_of(answer)
    return any(_repeats(entry, said, openly) for entry in private)


def _repeats(entry: HistoryMessage, said: frozenset[str], openly: frozenset[str]) -> bool:
    """Of what the bot itself answered to it, which is mostly phrases, more must be repeated."""
    words = [
        word
        for word in content_words(strip_time_label(entry["content"]))
        if not word.lemmas & openly
    ]
    repeated = sum(bool(word.lemmas & said) for word in words)
    is_much = repeated > 0 and repeated >= REPEATED * len(words)
    is_many = repeated >= WORDS
    return (is_much or is_many) if entry["role"] == "user" else (is_much and is_many)
