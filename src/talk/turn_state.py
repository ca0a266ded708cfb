"""State of a turn: the message, its view, its control, the graph's state, the result."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from operator import add, or_
from typing import Annotated, Any, Literal, Self, TypedDict, TypeVar
from uuid import UUID

from langchain_core.messages import AnyMessage, RemoveMessage
from langchain_core.tools import BaseTool
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from src.base.owners import Caller, WithCaller
from src.history.conversation_repo import HistoryMessage, NearbyMessage, TelegramOrigin
from src.history.new_messages import asked_text, new_messages
from src.history.turn_repo import NO_CHANGES, AnswerSource, Asks, Changes, StoredAnswer
from src.llm.reply import ModelUsage
from src.media.attachments import EnclosedText
from src.memory import digest_repo, memory_repo, prompts, question_repo, retrieval_repo
from src.memory.turn_context import WHOLE, TurnContext, Window, wants_privacy
from src.memory.writer import Outcome, SourceText
from src.pg.client import storable
from src.queue.update_repo import NewerUpdates
from src.reading import facts, gate, plain_facts
from src.reading.gate import MASK, holds_secret, read_announced_secret, redact, refers_back
from src.texts import say

T = TypeVar("T")

NOWHERE = UUID(int=0)  # conversation of a message that is not stored yet


@dataclass(frozen=True)
class Teaching:
    """Mark of a message that is remembered as written, without a model.

    Attributes:
        corrects: The fact that it replaces.
        is_wish: True if it is a wish about answers.
    """

    corrects: int | None = None
    is_wish: bool = False


@dataclass(frozen=True)
class IncomingMessage(WithCaller):
    """Message to answer.

    Attributes:
        caller: Its sender, with the owner's settings; ``moment`` is when it was written.
        text: Its text.
        origin: Its origin in Telegram; None in the console.
        voice: Whose words it holds.
        teaching: Set if it is remembered as written; then it is answered for itself.
        enclosed: Text read out of its attachment.
        heard: Text heard in it, shown with the answer.
        is_masked: True if a secret in it was masked.
        is_code: True if it is a door code announced by the message before it.
        announced_secret: The secret that it was, if the message before announced it.
        revealed_secret: The adjacent message that it reveals to be a secret.
        kept_private: The text before a door code in it was masked, stored as a private fact.
        problem: Sentence about its attachment, shown under the answer.
    """

    caller: Caller
    text: str
    origin: TelegramOrigin | None = None
    voice: gate.Voice = gate.TYPED
    teaching: Teaching | None = None
    enclosed: EnclosedText | None = None
    heard: str = ""
    problem: str = ""
    is_masked: bool = False
    is_code: bool = False
    announced_secret: str = field(default="", repr=False)
    revealed_secret: NearbyMessage | None = None
    kept_private: str = field(default="", repr=False)

    def without_secrets(self) -> Self:
        """Return a copy with ``MASK`` for every secret, and a note about it.

        If the user tells the code of a door or a wifi, ``kept_private`` has it.
        """
        enclosed, voice = self.enclosed, self.voice
        if enclosed is not None:
            name, text = redact(enclosed.name), redact(enclosed.text)
            enclosed = replace(enclosed, name=name, text=text)
        if voice.quoted is not None:
            voice = replace(voice, quoted=redact(voice.quoted))
        if voice.origin is not None:
            voice = replace(voice, origin=redact(voice.origin))
        text, heard = redact(self.text), redact(self.heard)
        clean = replace(self, text=text, heard=heard, enclosed=enclosed, voice=voice)
        if clean != self:
            clean = clean.with_mask_note()
        is_own = clean.voice.is_own and clean.preferences.memory_on
        if not is_own or not holds_secret(text):
            return clean
        private = text if self.teaching is not None else plain_facts.secret_to_keep(text)
        told = private or plain_facts.told_secrets(text)
        if not told:
            return clean
        masked = replace(clean, text=redact(text, household=True), kept_private=told)
        if private or told == text.strip().rstrip(".!"):
            return replace(masked, teaching=self.teaching or Teaching())
        return masked.with_note(self.describe_kept(redact(told, household=True)))

    def following(self, before: NearbyMessage) -> Self:
        """Return a copy for a message that follows ``before``, with secrets they form masked.

        If ``before`` announced a secret, this text is masked. If this text says that ``before``
        was a secret, ``revealed_secret`` is set.
        """
        if refers_back(self.text):
            is_secret = read_announced_secret(f"{self.text}:", before.text) is not None
            masked = replace(self, revealed_secret=before)
            if is_secret:
                return masked.with_mask_note()
            return self
        found = read_announced_secret(before.text, self.text)
        if found is None or found.is_household:
            return replace(self, is_code=found is not None)
        heard = MASK if self.heard else ""
        return replace(self, text=MASK, heard=heard, announced_secret=self.text).with_mask_note()

    def describe_kept(self, text: str) -> str:
        """Return the sentence that a code is kept, by its text with a mask."""
        if self.owner.is_group:
            return say("private_kept_group", self.language, text=text)
        return say("private_kept", self.language, text=text)

    def with_mask_note(self) -> Self:
        """Return a copy whose answer says that a secret was masked."""
        return replace(self.with_note(say("secret_masked", self.language)), is_masked=True)

    def with_note(self, note: str) -> Self:
        """Return a copy with another sentence under its answer."""
        return replace(self, problem="\n".join(filter(None, (self.problem, note))))

    @cached_property
    def is_private(self) -> bool:
        """True if it is remembered nowhere: on request, or since it holds the code of a door.

        Messages written while the memory is off stay private when it is switched on again.
        """
        is_taught = self.teaching is not None
        if self.is_code or not self.preferences.memory_on:
            return True
        if not is_taught and holds_secret(self.text):
            return True
        return wants_privacy(self.text, is_own=self.voice.is_own, is_taught=is_taught)

    @property
    def sender_id(self) -> int:
        """Sender; a chat, if the message is written in its name; in the console the owner."""
        if self.origin:
            return self.origin.sender_id
        return self.owner.telegram_user_id

    @property
    def update(self) -> int | None:
        """Row id of the stored update that brought it."""
        if self.origin:
            return self.origin.update
        return None


class AnswerView:
    """View of one answer: a chat in Telegram, the console; this base class shows nothing.

    Attributes:
        sent_ids: Ids of the Telegram messages that show the answer, as they arrive.
        shown_in: Telegram message in which an earlier attempt began to show the answer.
        answer_after: Moment before which the answer is not delivered, as the sender may go on.
        first_word_at: When the first piece of a growing answer arrived.
        draft: Returns the beginning of the answer, as it is to be shown.
    """

    def __init__(self) -> None:
        """Start without sent messages."""
        self.draft: Callable[[], str] = str
        self.sent_ids: list[int] = []
        self.shown_in: int | None = None
        self.answer_after: datetime | None = None
        self.first_word_at: datetime | None = None

    @property
    def is_shown(self) -> bool:
        """True if something of the growing answer is, or was, on the screen."""
        return False

    async def open(self, turn: "Turn", on_message: Callable[[int], Awaitable[None]]) -> None:
        """Start to show a growing answer.

        Args:
            turn: The turn.
            on_message: Called with the number of the message that shows the beginning, if any.
        """

    def grow(self) -> None:
        """Show the draft, which has grown."""

    def think(self) -> None:
        """Show that the model thinks, until it writes."""

    async def close(self) -> None:
        """Stop to show the growing answer; when this returns its beginning is not shown any more.

        It is idempotent, and may be called without ``open``.
        """

    async def deliver(
        self, turn: "Turn", answer: StoredAnswer, on_part: Callable[[int], Awaitable[None]]
    ) -> int:
        """Show the final answer, except for the parts that have arrived already.

        Args:
            turn: The turn.
            answer: The answer.
            on_part: Called with the number of arrived parts, after each but the last.

        Returns:
            The number of parts.

        Raises:
            DeliveryError: Worth a retry, which does not send arrived parts again.
        """
        del turn, answer, on_part  # for the views that show something
        return 1


class TurnStoppedError(Exception):
    """The user stopped the answer (/stop, the Stop button, /new)."""


class TurnCutError(Exception):
    """The answer reached one of its bounds."""


class TurnControl:
    """Cancellation of what is run through it, by the user's Stop or by a bound.

    Storing, and a request on its way to Telegram, are not cancelled. One Stop ends one thing:
    what was written by then is still delivered, until there is another Stop.

    Attributes:
        stopped: True if the user stopped anything of this turn.
        is_left: True if the sender went on before any of the answer was shown.
        has_acted: True if a tool has changed something, which is not to be done twice.
    """

    def __init__(self) -> None:
        """Create the control of one turn."""
        self.stopped = False
        self.is_left = False
        self.has_acted = False
        self._pending = False  # a Stop that has ended nothing yet
        self._timer: asyncio.Timeout | None = None  # of what runs
        self._left: float | None = None  # seconds, while the timer is paused

    def stop(self) -> None:
        """Handle the user's Stop: end what runs, or what would run next."""
        self.stopped = self._pending = True
        self.cut()

    def cut(self) -> None:
        """Handle a reached bound: end what runs."""
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(asyncio.get_running_loop().time())

    def wait(self, waits: bool) -> None:
        """Pause the timer while a slow server reads its input, and resume it once it writes."""
        timer, now = self._timer, asyncio.get_running_loop().time()
        if timer is None or timer.expired():
            return
        end = timer.when()
        if waits and end is not None and end > now:
            self._left = end - now
            timer.reschedule(None)
        elif not waits and end is None and self._left is not None:
            timer.reschedule(now + self._left)

    def check(self) -> None:
        """Check for a Stop between two steps that are not run through here.

        Raises:
            TurnStoppedError: There was a Stop.
        """
        if self._pending:
            self._pending = False
            raise TurnStoppedError

    async def run(self, work: Coroutine[Any, Any, T], *, seconds: float | None = None) -> T:
        """Run a coroutine that a Stop or a bound may cancel.

        Raises:
            TurnStoppedError: The user stopped it.
            TurnCutError: It took longer than ``seconds``, or ``cut`` was called.
        """
        if self._pending:
            work.close()
        self.check()
        self._timer, self._left = asyncio.timeout(seconds), None
        try:
            async with self._timer:
                return await work
        except TimeoutError:
            if not self._timer.expired():
                raise
            self.check()
            raise TurnCutError from None
        finally:
            self._timer = None


@dataclass(frozen=True)
class TurnResult:
    """Result of a turn before it is stored.

    Attributes:
        text: The answer; ``check_sources`` numbers its references.
        found: Hits that the model was shown: its [1] is the first.
        recall: Record of what was recalled (see ``recall_record``); None without a run.
        sources: Sources of the references, once they are verified.
        changes: Changes in the memory.
        asks: Question of the text, if an answer to it is expected.
        disputes: New facts that it asks about.
        usage: The model calls.
        tools: Names of the tools that ran, in order.
        intent: In strict mode, the message's intent.
        ended: How the turn ended.
        is_filtered: True if the provider's filter cut the answer.
        is_wordless: True if the model said nothing, so that the text is our own sentence.
    """

    text: str
    found: Sequence[retrieval_repo.Hit] = ()
    recall: Mapping[str, Any] | None = None
    sources: tuple[AnswerSource, ...] = ()
    changes: Changes = NO_CHANGES
    asks: Asks | None = None
    disputes: Sequence[question_repo.Dispute] = ()
    usage: tuple[ModelUsage, ...] = ()
    tools: tuple[str, ...] = ()
    intent: prompts.Intent | None = None
    ended: Literal["answered", "stopped", "over ceiling", "erased"] = "answered"
    is_filtered: bool = False
    is_wordless: bool = False


@dataclass
class Turn:
    """Message on its way to its answer, through the steps of ``AgentService``.

    Attributes:
        incoming: The message.
        view: View of its answer.
        control: Control by which a Stop ends what runs.
        conversation_id: Conversation of the stored message. It and the following are set by
            ``store_message``.
        message_id: Id of the stored message.
        is_new: True if it was stored just now, so that this is the first attempt.
        behind: Later updates that are answered instead, with this one in the history, or end it.
        history: The last 30 messages, oldest first, this one last.
        window: The part of the conversation that the model sees.
        summaries: Summaries of the messages before the window, oldest first.
        wish: Wish that the message teaches, to be offered below the answer; "" for none.
        lead: What is said before the answer: that the message has set the zone.
        result: Result, set by the first step that has an answer.
        answer: Stored answer, set by ``save``, or by ``store_message`` if an earlier attempt
            stored it.
    """

    incoming: IncomingMessage
    view: AnswerView = field(default_factory=AnswerView)
    control: TurnControl = field(default_factory=TurnControl)
    conversation_id: UUID = NOWHERE
    message_id: int = 0
    is_new: bool = True
    behind: NewerUpdates = field(default_factory=NewerUpdates)
    history: tuple[HistoryMessage, ...] = ()
    window: Window = WHOLE
    summaries: Sequence[digest_repo.Summary] = ()
    wish: str = ""
    lead: TurnResult | None = None
    result: TurnResult | None = None
    answer: StoredAnswer | None = None

    @property
    def has_answer(self) -> bool:
        """True if this attempt, or an earlier one, has an answer."""
        return self.result is not None or self.answer is not None

    @property
    def may_be_left(self) -> bool:
        """True while the user notices nothing if a later message is answered instead."""
        has_said = self.lead is not None or self.view.is_shown
        return not (self.control.is_left or self.control.has_acted or has_said)

    @property
    def new_ids(self) -> list[int]:
        """Ids of the messages since the last answer."""
        return [entry["id"] for entry in new_messages(self.history)]

    @property
    def asked(self) -> str:
        """Text that the asker typed since the last answer."""
        return asked_text(new_messages(self.history), storable(self.incoming.text))

    def build_context(self) -> TurnContext:
        """Return the context of the graph."""
        return TurnContext(
            caller=self.incoming.caller,
            conversation_id=self.conversation_id,
            message_id=self.message_id,
            text=self.asked,
            window=self.window,
            is_private=self.incoming.is_private,
        )

    def initial_state(self) -> "ConversationState":
        """Return the state with which the graph begins."""
        summaries = [summary.content for summary in self.summaries]
        return {"history": list(self.history), "summaries": summaries}

    def source(self) -> SourceText:
        """Return the message as the source of a fact."""
        text = storable(self.incoming.text).strip()
        return SourceText(self.message_id, text, self.incoming.caller.now)


Resolution = Literal["replace", "both", "old"]
RESOLUTIONS: tuple[Resolution, ...] = ("replace", "both", "old")  # in the order of the buttons


class Conflict(TypedDict):
    """New fact, by its index in ``extracted_facts``, and the known one that it denies."""

    new: int
    memory_id: int
    text: str


class PromptState(TypedDict, total=False):
    """Prompt of a turn, and what is measured to build it.

    Attributes:
        history: The last 30 messages, oldest first, the one to answer last. Set by the
            service, read by ``init_state`` and the nodes of strict mode.
        summaries: Summaries of the messages before them, oldest first. Set by the service, cut
            to those in ``messages`` by ``init_state``.
        messages: The prompt as it grows: system prompt, key facts, summaries, history, memories,
            the model's messages and tool results of this turn. Owned by ``init_state``,
            ``load_facts``, ``retrieve_memories``, ``summarize``, ``assistant`` and ``tools``.
        pending_facts: Key facts to be put into ``messages``. Owned by ``check_facts``.
        facts_loaded: True if the key facts are in ``messages``. Owned by ``load_facts``.
        fact_added_in_last_run: True if a tool has just saved a fact, or forgotten one. Owned by
            ``update_state_after_tool``, reset by ``check_facts``.
        current_token_count: Tokens of ``messages``. Updated by every node that changes them.
        llm_context_size: Size of the model's context in tokens. Owned by ``init_state``.
        system_in_history: True if the provider takes system messages in mid-history. Owned by
            ``init_state``.
        last_summary_ts: When ``summarize`` ran last. Owned by it.
        lent_tools: Tools of servers that the model may call in this turn, set at its first
            call. Owned by ``assistant``, read by ``tools``.
        by_form: True if the model is given forms instead of tools. Owned by ``init_state``.
    """

    history: list[HistoryMessage]
    summaries: list[str]
    messages: Annotated[list[AnyMessage], add_messages]
    pending_facts: list[memory_repo.StoredFact]
    facts_loaded: bool
    fact_added_in_last_run: bool
    current_token_count: int
    llm_context_size: int
    system_in_history: bool
    last_summary_ts: datetime
    lent_tools: tuple[BaseTool, ...]
    by_form: bool


class StrictState(TypedDict, total=False):
    """State that only strict mode uses.

    Attributes:
        intent: Intent of the message. Owned by ``classify_intent``.
        search_query: First query to search for. Owned by ``classify_intent``.
        extracted_facts: Facts that the message teaches. Owned by ``classify_intent``,
            completed by ``extract_facts``.
        conflicts: Known facts that the new ones deny. Owned by ``check_conflicts``.
        accepted_conflicts: Those in which the new fact wins. Owned by ``auto_resolve``.
        outcomes: Outcome of storing each fact. Owned by ``store_knowledge``.
        retrieved_context: Hits for the task. Owned by ``retrieve_context`` and ``react_loop``.
        references: Uids that the answer cites, verified. Owned by ``generate_answer``.
    """

    intent: prompts.Intent | None
    search_query: str
    extracted_facts: list[facts.Fact]
    conflicts: list[Conflict]
    accepted_conflicts: list[Conflict]
    outcomes: list[Outcome]
    retrieved_context: list[retrieval_repo.Hit]
    references: list[str]


class ConversationState(PromptState, StrictState, total=False):
    """State that the nodes read and write; LangGraph merges annotated fields by their reducer.

    A run starts with ``history`` and ``summaries`` alone: nothing is carried over from earlier
    turns.

    Attributes:
        relevant_memories: Hits for the new message; absent: not searched yet. Owned by
            ``retrieve_memories``, read by the service.
        tools_used: Names of the tools that ran, in order. Owned by
            ``update_state_after_tool``, read by the service.
        sources: Hits that the model was shown, in the order of its numbers: [1] is the first.
            Owned by ``load_facts``, ``retrieve_memories``, ``update_state_after_tool`` and, in
            strict mode, ``generate_answer``; read by the service.
        key_facts: Ids of the key facts that the model was shown. Owned by ``load_facts``, read
            by the service.
        shown_facts: Ids of the facts that the model was shown; it may name no others. Owned by
            ``load_facts``, ``retrieve_memories`` and ``update_state_after_tool``, read by the
            tools.
        asks: Question of the answer, if a reply to it is expected. Owned by
            ``update_state_after_tool`` and ``forget_knowledge``, read by the service.
        disputes: New facts that would replace important ones, so that the user is asked first.
            Owned by ``store_knowledge`` and ``update_state_after_tool``, read by the service.
        is_answered: True if the calls that run were added to an answer, which they complete.
            Owned by ``assistant`` and ``answer_by_form``.
        answer: The final text. Owned by ``assistant``, ``answer_by_form``, ``complete_answer``,
            ``generate_confirmation``, ``generate_answer`` and ``forget_knowledge``, read by the
            service.
    """

    relevant_memories: list[retrieval_repo.Hit]
    tools_used: Annotated[list[str], add]
    sources: list[retrieval_repo.Hit]
    key_facts: Annotated[frozenset[int], or_]
    shown_facts: Annotated[frozenset[int], or_]
    asks: Asks | None
    disputes: Annotated[list[question_repo.Dispute], add]
    is_answered: bool
    answer: str


def replace_all_messages(messages: Sequence[AnyMessage]) -> list[Any]:
    """Return the update of ``messages`` that replaces all of them instead of appending."""
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages]
