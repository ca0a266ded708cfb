"""A turn: the message, who shows its answer, what stops it, the graph's state, the result."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Literal, NotRequired, Self, TypedDict, TypeVar
from uuid import UUID

from langchain_core.messages import AnyMessage, RemoveMessage
from langchain_core.tools import BaseTool
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from src.base.owners import Called, Owner
from src.history.conversation_repo import AdjacentMessage, HistoryMessage, TelegramOrigin
from src.history.new_messages import asked_text, new_messages
from src.history.turn_repo import NO_CHANGES, AnswerSource, Asks, Changes, StoredAnswer
from src.llm.reply import ModelUsage
from src.media.attachments import Enclosed
from src.memory.memory_repo import Memory
from src.memory.prompts import Intent
from src.memory.retrieval_repo import Hit
from src.memory.turn_context import wants_privacy
from src.memory.writer import Outcome
from src.pg.client import storable
from src.pg.user_settings_repo import AnswerLength, Mode
from src.queue.update_repo import UpdateKind
from src.reading.facts import Fact
from src.reading.gate import MASK, completes, holds_secret, redact, refers_back
from src.reading.plain_facts import secret_to_keep
from src.reading.voices import TYPED, Voice
from src.texts import Language, say

T = TypeVar("T")


class TurnStoppedError(Exception):
    """The user stopped the answer (/stop, the Stop button, /new)."""


class TurnCutError(Exception):
    """The answer reached one of its bounds."""


class TurnControl:
    """Lets the user's Stop, or a bound, end what is run through it, and only that.

    Storing, and a request that is on its way to Telegram, go on undisturbed. One Stop ends one
    thing: what was written by then is still delivered, until there is another one.

    Attributes:
        stopped: Whether the user stopped anything of this turn.
    """

    def __init__(self) -> None:
        """One control per turn."""
        self.stopped = False
        self._pending = False  # a Stop that has ended nothing yet
        self._is_cut = False
        self._running: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._left = 0.0  # seconds, while the clock stands

    def stop(self) -> None:
        """The user's: end what runs, or what would run next."""
        self.stopped = self._pending = True
        self._cancel()

    def cut(self) -> None:
        """A bound's: end what runs."""
        self._is_cut = True
        self._cancel()

    def wait(self, waits: bool) -> None:
        """The clock of what runs stands while a slow server reads, and goes on when it writes."""
        loop, timer = asyncio.get_running_loop(), self._timer
        if timer is None or timer.cancelled() == waits:
            return
        if waits:
            self._left = timer.when() - loop.time()
            timer.cancel()
        else:
            self._timer = loop.call_later(self._left, self.cut)

    def check(self) -> None:
        """Between two steps that are not run through here.

        Raises:
            TurnStoppedError: The user does not want the next one.
        """
        if self._pending:
            self._pending = False
            raise TurnStoppedError

    async def run(self, work: Coroutine[Any, Any, T], *, seconds: float | None = None) -> T:
        """Run something that may be ended.

        Raises:
            TurnStoppedError: It was stopped.
            TurnCutError: It took longer than ``seconds``, or ``cut`` was called.
        """
        if self._pending:
            work.close()
        self.check()
        task = asyncio.ensure_future(work)
        self._running = task
        loop = asyncio.get_running_loop()
        self._timer = None if seconds is None else loop.call_later(seconds, self.cut)
        try:
            return await task
        except asyncio.CancelledError:
            outer = asyncio.current_task()
            if outer is not None and not outer.cancelling():
                self.check()
                if self._is_cut:
                    raise TurnCutError from None
            task.cancel()
            raise
        finally:
            self._running = None
            self._is_cut = False
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    def _cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()


_delivering: ContextVar[TurnControl | None] = ContextVar("delivering", default=None)


@contextmanager
def stoppable_delivery(control: TurnControl) -> Iterator[None]:
    """Inside it, a stop of ``control`` ends the delivery where the two functions below look."""
    token = _delivering.set(control)
    try:
        yield
    finally:
        _delivering.reset(token)


async def wait_unless_stopped(waiting: Coroutine[Any, Any, T]) -> T:
    """Wait for something without an effect, such as a pause or a place in a queue.

    Raises:
        TurnStoppedError: The user stopped the answer for whose delivery this is.
    """
    control = _delivering.get()
    return await (waiting if control is None else control.run(waiting))


def check_stopped() -> None:
    """Between two parts of an answer.

    Raises:
        TurnStoppedError: The user stopped the delivery; the next one is not wanted.
    """
    control = _delivering.get()
    if control is not None:
        control.check()


# No sender, a channel's post, an anonymous admin: Telegram's ids of those who are nobody.
CHAT_VOICES = frozenset({0, 777000, 1087968824})
NOWHERE = UUID(int=0)  # the conversation of a message that is not stored yet


@dataclass(frozen=True)
class Teaching:
    """That a message is to be remembered as it stands, without a model.

    Attributes:
        corrects: The fact that it takes the place of.
    """

    corrects: int | None = None


@dataclass(frozen=True)
class IncomingMessage:
    """A message to answer.

    Attributes:
        owner: Whose memory it is: the person's, or the group and topic's.
        text: What was written.
        moment: When (aware).
        language: For the sentences that the bot says itself.
        time_zone: The owner's zone.
        has_zone: Whether the owner chose it, or was told of it.
        mode: ``assistant`` or ``strict``.
        origin: Where in Telegram it stands; None in the console.
        voice: Whose words it holds.
        newer: What was known to wait behind it, and will be answered instead of it.
        teaching: Where it is to be remembered as it stands; then it is answered for itself.
        enclosed: What was read out of its attachment.
        heard: What was heard in it, to be shown with the answer.
        answer_length: How long the user wants answers.
        memory_on: Whether anything is remembered, and recalled.
        has_reminders: Whether any reminder of the owner's may wait.
        has_past: Whether the owner may have said more than a prompt shows.
        is_masked: Whether a secret in it was masked.
        is_code: Whether it is the code of a door that the message before it announced.
        told_apart: The secret that it was, where the message before announced it.
        gives_away: The message beside it that it says to be a secret.
        kept_private: What ``text`` said before the code of a door was masked in it, to be kept.
        problem: A sentence about its attachment, to be shown under the answer.
    """

    owner: Owner
    text: str
    moment: datetime
    language: Language
    time_zone: str
    mode: Mode = "assistant"
    origin: TelegramOrigin | None = None
    voice: Voice = TYPED
    newer: UpdateKind | None = None
    teaching: Teaching | None = None
    enclosed: Enclosed | None = None
    heard: str = ""
    problem: str = ""
    has_zone: bool = True
    answer_length: AnswerLength = "normal"
    memory_on: bool = True
    has_reminders: bool = True
    has_past: bool = True
    is_masked: bool = False
    is_code: bool = False
    told_apart: str = field(default="", repr=False)
    gives_away: AdjacentMessage | None = None
    kept_private: str = field(default="", repr=False)

    def without_secrets(self) -> Self:
        """The same with ``MASK`` in the place of every secret, and a sentence that says so.

        The code of a door goes to ``kept_private`` where the user asks to have it remembered.
        """
        enclosed, quoted, origin = self.enclosed, self.voice.quoted, self.voice.origin
        clean = replace(
            self,
            text=redact(self.text),
            heard=redact(self.heard),
            enclosed=enclosed
            and replace(enclosed, name=redact(enclosed.name), text=redact(enclosed.text)),
            voice=replace(
                self.voice, quoted=quoted and redact(quoted), origin=origin and redact(origin)
            ),
        )
        return (clean if clean == self else clean.noting_mask())._keeping_private()

    def following(self, before: AdjacentMessage) -> Self:
        """The same, masked where the message before it announced the secret that it is.

        Or that one is to be masked, where this says that it was a secret.
        """
        if refers_back(self.text):
            is_secret = completes(f"{self.text}:", before.text) is not None
            masked = replace(self, gives_away=before)
            return masked.noting_mask() if is_secret else self
        found = completes(before.text, self.text)
        if found is None or found.is_household:
            return replace(self, is_code=found is not None)
        heard = MASK if self.heard else ""
        return replace(self, text=MASK, heard=heard, told_apart=self.text).noting_mask()

    def _keeping_private(self) -> Self:
        if not (self.voice.is_own and self.memory_on and holds_secret(self.text)):
            return self
        private = self.text if self.teaching is not None else secret_to_keep(self.text)
        if not private:
            return self
        masked, teaching = redact(self.text, household=True), self.teaching or Teaching()
        return replace(self, text=masked, kept_private=private, teaching=teaching)

    def noting_mask(self) -> Self:
        """The same, whose answer says that a secret was masked."""
        note = "\n".join(filter(None, (self.problem, say("secret_masked", self.language))))
        return replace(self, is_masked=True, problem=note)

    @cached_property
    def is_private(self) -> bool:
        """Whether it is to be remembered nowhere: on request, or with the code of a door.

        Nor is what is said while the memory is off, also when it is switched on again.
        """
        is_taught = self.teaching is not None
        if self.is_code or not self.memory_on or (not is_taught and holds_secret(self.text)):
            return True
        return wants_privacy(self.text, is_own=self.voice.is_own, is_taught=is_taught)

    @property
    def speaker_id(self) -> int | None:
        """Who says "I", where the owner is a group."""
        return self.called.asker

    @property
    def sender_id(self) -> int:
        """Who wrote it; the chat, where one writes in the chat's name."""
        sender = self.origin.sender_id if self.origin else 0
        return self.owner.telegram_user_id if sender in CHAT_VOICES else sender

    @property
    def called(self) -> Called:
        """Who writes, as commands and buttons know them."""
        member = self.origin.sender_id if self.origin else None
        return Called(
            self.owner, self.language, self.moment, self.time_zone, member=member,
            has_zone=self.has_zone,
        )  # fmt: skip

    @property
    def update(self) -> int | None:
        """The row id of the stored update that brought it."""
        return self.origin.update if self.origin else None


class AnswerView:
    """Where one answer appears: a chat in Telegram, the console; this one shows nothing.

    Attributes:
        sent_ids: Of the Telegram messages that show the answer, as they arrive.
    """

    def __init__(self) -> None:
        """Nothing is shown yet."""
        self.sent_ids: list[int] = []

    async def open(self, turn: "Turn", on_message: Callable[[int], Awaitable[None]]) -> None:
        """The model begins.

        Args:
            turn: What is answered.
            on_message: To be told the number of the message that shows the beginning, if any.
        """

    def feed(self, text: str) -> None:
        """The next piece of the answer."""

    async def close(self) -> None:
        """The model has ended; nothing of the beginning is shown any more when this returns.

        It may be called when nothing was opened, and again.
        """

    async def deliver(
        self,
        turn: "Turn",  # noqa: ARG002
        answer: StoredAnswer,  # noqa: ARG002
        on_part: Callable[[int], Awaitable[None]],  # noqa: ARG002
    ) -> int:
        """Show the answer for good, except for the parts that have arrived already.

        Args:
            turn: What is answered.
            answer: The answer.
            on_part: To be told how many parts have arrived, after each but the last.

        Returns:
            How many parts it took.

        Raises:
            DeliveryError: Worth another try; what has arrived is not sent again then.
        """
        return 1


Ending = Literal["settled", "over", "gone", "not_his"]


@dataclass(frozen=True)
class Settlement:
    """What came of an answer to a question.

    Attributes:
        kind: ``settled``: it is over by this; ``over``: it was before; ``gone``: it is not there
            any more; ``not_his``: another member has to answer.
        said: What is to be said of it.
        shown: What stands in the place of the question from now on.
        changes: What it changed in the memory.
        thread: What ``close`` is to end; None: nothing.
        keeps_both: Whether both facts hold.
    """

    kind: Ending
    said: str
    shown: str
    changes: Changes = NO_CHANGES
    thread: str | None = None
    keeps_both: bool = False


@dataclass(frozen=True)
class TurnResult:
    """What a turn has to say, and what it found and did on the way.

    Attributes:
        text: What is said; ``check_sources`` puts the references in order.
        found: What the model was shown: its [1] is the first.
        sources: What the references of the text stand for, once they are checked.
        changes: What it changed in the memory.
        asks: What the text asks, if an answer to it is to mean something.
        usage: What the model calls cost.
        tools: Names of the tools that ran, in order.
        intent: In strict mode, what the message does.
        settlement: The question that it settles, to be closed once it is stored.
        ended: How it came about.
    """

    text: str
    found: Sequence[Hit] = ()
    sources: tuple[AnswerSource, ...] = ()
    changes: Changes = NO_CHANGES
    asks: Asks | None = None
    usage: tuple[ModelUsage, ...] = ()
    tools: tuple[str, ...] = ()
    intent: Intent | None = None
    settlement: Settlement | None = None
    ended: Literal["answered", "stopped", "over ceiling", "erased"] = "answered"


@dataclass
class Turn:
    """A message on its way to its answer, through the steps of ``AgentService``.

    Attributes:
        incoming: The message.
        view: Where its answer appears.
        control: The user's Stop ends what runs through it.
        conversation_id: Where the message is stored. This and what follows is set by ``store``.
        message_id: Its id there.
        is_new: Whether it was stored just now, so that this is the first attempt.
        newer: What waits behind it and is answered instead of it, with it in the history.
        is_ended: Whether /new or /stop waits behind it.
        history: The last 30 messages, oldest first, this one last.
        window_start: Position of the first message that the model sees.
        is_all_shown: Whether there is nothing to search for beyond the window.
        fresh_from: That of the first one since the window moved last.
        summaries: Of what lies before it, oldest first.
        key_facts: For a prompt, best first; None: they are not read yet.
        shown_in: Telegram's number of the message in which an earlier attempt began to show it.
        lead: Stands before the answer: that the message has set the zone.
        offers: Zones that the message may mean.
        result: What is to be said, set by the first step that has an answer.
        answer: The same, stored: set by ``save``; by ``store`` when an earlier attempt got that
            far.
        parts: How many messages of the answer have arrived, set by ``show``.
        first_word_at: When the first piece of a growing answer was there.
    """

    incoming: IncomingMessage
    view: AnswerView = field(default_factory=AnswerView)
    control: TurnControl = field(default_factory=TurnControl)
    conversation_id: UUID = NOWHERE
    message_id: int = 0
    is_new: bool = True
    newer: UpdateKind | None = None
    is_ended: bool = False
    history: tuple[HistoryMessage, ...] = ()
    window_start: int = 1
    is_all_shown: bool = False
    fresh_from: int = 1
    summaries: tuple[str, ...] = ()
    key_facts: Sequence[Memory] | None = None
    shown_in: int | None = None
    lead: str = ""
    offers: tuple[str, ...] = ()
    result: TurnResult | None = None
    answer: StoredAnswer | None = None
    parts: int = 1
    first_word_at: datetime | None = None

    def show(self, piece: str) -> None:
        """The next piece of a growing answer."""
        self.first_word_at = self.first_word_at or datetime.now(UTC)
        self.view.feed(piece)

    @property
    def asked(self) -> str:
        """What the one who is answered typed since the last answer."""
        return asked_text(new_messages(self.history), storable(self.incoming.text))


# What flows through the graph.

Resolution = Literal["replace", "both", "old"]
RESOLUTIONS: tuple[Resolution, ...] = ("replace", "both", "old")  # in the order of the buttons


class Conflict(TypedDict):
    """A new fact, by its number among ``extracted_facts``, and a known one that it denies.

    Where the user is to be asked: whether that is pinned, and the message with the new one.
    """

    new: int
    memory_id: int
    text: str
    pinned: NotRequired[bool]
    said_in: NotRequired[int]


class ConversationState(TypedDict, total=False):
    """What the nodes read and write.

    A run begins with the first two alone: no turn finds anything of the one before.

    Attributes:
        history: The last 30 messages, oldest first, the one to answer last. Set by the
            service, read by ``init_state`` and the nodes of strict mode.
        summaries: Of what lies before them, oldest first. Set by the service.
        messages: The prompt as it grows: system prompt, key facts, summaries, history, memories,
            the model's messages and tool results of this turn. Owned by ``init_state``,
            ``load_facts``, ``retrieve_memories``, ``summarize``, ``assistant`` and ``tools``.
        pending_facts: Key facts on their way into ``messages``. Owned by ``check_facts``.
        facts_loaded: Whether the key facts are in ``messages``. Owned by ``load_facts``.
        fact_added_in_last_run: Whether a tool has just saved a fact, or forgotten one. Owned by
            ``update_state_after_tool``, reset by ``check_facts``.
        current_token_count: Tokens of ``messages``. Kept by every node that changes them.
        llm_context_size: Tokens that the model takes. Owned by ``init_state``.
        last_summary_ts: When ``summarize`` ran last. Owned by it.
        relevant_memories: What was found for the new message; none yet: not searched. Owned by
            ``retrieve_memories``.
        tools_used: Names of the tools that ran, in order. Owned by
            ``update_state_after_tool``, read by the service.
        tools_allowed: Whether the model may call tools now. Owned by
            ``update_state_after_tool``; before that it may.
        lent_tools: Tools of servers that the model may call in this turn, once it was asked for
            the first time. Owned by ``assistant``, read by ``tools``.
        sources: What the model was shown, in the order of its numbers: [1] is the first. Owned
            by ``load_facts``, ``retrieve_memories``, ``update_state_after_tool`` and, in strict
            mode, ``generate_answer``; read by the service.
        fresh_facts: The key facts that stand below the history, as they are written there. Owned
            by ``load_facts``.
        shown_facts: Ids of the facts that the model was shown; it may name no others. Owned by
            ``load_facts``, ``retrieve_memories`` and ``update_state_after_tool``, read by the
            tools.
        asks: What the bot asks with its answer, if an answer to it is to mean something. Owned
            by ``update_state_after_tool`` and ``forget_knowledge``, read by the service.
        intent: Strict mode: what the message does. Owned by ``classify_intent``.
        search_query: Strict mode: what to search first. Owned by ``classify_intent``.
        extracted_facts: Strict mode: what the message teaches. Owned by ``classify_intent``,
            completed by ``extract_facts``.
        conflicts: Strict mode: known facts that the new ones deny. Owned by
            ``check_conflicts``.
        accepted_conflicts: Strict mode: those in which the new fact wins. Owned by
            ``auto_resolve``.
        outcomes: Strict mode: what became of each fact. Owned by ``store_knowledge``.
        retrieved_context: Strict mode: what is known about the task. Owned by
            ``retrieve_context`` and ``react_loop``.
        references: Strict mode: uids that the answer cites, verified. Owned by
            ``generate_answer``.
        disputed_facts: Strict mode: new facts that would replace important ones, so that the user
            is asked first. Owned by ``weigh_conflicts``, read by the service.
        disputes: Strict mode: what they deny, by their numbers among ``disputed_facts``. Owned by
            ``weigh_conflicts``, read by the service.
        resolution: Strict mode: what the user decided. Owned by ``confirm_conflicts``.
        answer: The final text. Owned by ``assistant``, ``generate_confirmation``,
            ``generate_answer`` and ``forget_knowledge``, read by the service.
    """

    history: list[HistoryMessage]
    summaries: list[str]
    messages: Annotated[list[AnyMessage], add_messages]
    pending_facts: list[Memory]
    facts_loaded: bool
    fact_added_in_last_run: bool
    current_token_count: int
    llm_context_size: int
    last_summary_ts: datetime
    relevant_memories: list[Hit]
    tools_used: list[str]
    tools_allowed: bool
    lent_tools: tuple[BaseTool, ...]
    sources: list[Hit]
    fresh_facts: str
    shown_facts: frozenset[int]
    asks: Asks | None
    intent: Intent | None
    search_query: str
    extracted_facts: list[Fact]
    conflicts: list[Conflict]
    accepted_conflicts: list[Conflict]
    disputed_facts: list[Fact]
    disputes: list[Conflict]
    resolution: Resolution | None
    outcomes: list[Outcome]
    retrieved_context: list[Hit]
    references: list[str]
    answer: str


def in_place_of_all(messages: Sequence[AnyMessage]) -> list[Any]:
    """The update of ``messages`` that replaces all of them instead of appending."""
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages]
