"""The graph in a turn: run, watched, bounded, with references that lead somewhere."""

import logging
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from langchain_core.messages import AnyMessage
from langgraph.errors import GraphRecursionError

from src.base.errors import StorageError
from src.base.logs import log_extra
from src.base.metrics import Metrics
from src.history.turn_repo import AnswerSource, Changes, TurnRepository
from src.llm.chat import WAITING
from src.llm.reply import ModelUsage
from src.memory.citations import References, number_references, reference_names
from src.memory.retrieval_repo import Hit
from src.memory.turn_context import TurnContext
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettingsRepository
from src.talk.main_graph import Graph
from src.talk.questions import QuestionService
from src.talk.turn_state import ConversationState, Turn, TurnCutError, TurnResult, TurnStoppedError
from src.texts import Language, say
from src.texts.plain_text import is_visible

logger = logging.getLogger(__name__)

FENCE = "```"
CLOSED_CODE = re.compile(r"```|(?<!\w)`[^`\n]+`")
# What may be the beginning of a reference, of a list of them, of a link, or of code in a line.
BEGUN = re.compile(r"(?:(?<!\w)`{1,2}[^`\n]{0,60}|[ \t]*\[[^\[\]\n]{0,60}\]?|[ \t]+)\Z")


def cited_sources(
    text: str, hits: Sequence[Hit], *, asked: str
) -> tuple[str, tuple[AnswerSource, ...]]:
    """The answer with references 1, 2, 3 that all lead somewhere, and what they stand for.

    A reference leads to a message of the user's; neither a summary nor what the bot said is one.

    Args:
        text: As the model wrote it.
        hits: What the model was shown: its [1] is the first.
        asked: What is answered; brackets in it are no references.
    """
    numbered, cited = number_references(text, _known(hits), said=_said(asked, hits))
    return numbered, tuple(
        _source(number, hits[place]) for number, place in enumerate(cited, start=1)
    )


class GrowingReferences:
    """Shows an answer while it grows, with the numbers that it will have in the end."""

    def __init__(
        self, on_text: Callable[[str], None], sources: Callable[[], Sequence[Hit]], *, asked: str
    ) -> None:
        """Pass on to ``on_text`` what answers ``asked``.

        ``sources`` tells what the model has been shown so far: it may search between two pieces.
        """
        self._on_text = on_text
        self._sources = sources
        self._asked = asked
        self._references = References()
        self._before = ""  # the last character that was shown
        self._held = ""
        self._is_code = False

    def feed(self, piece: str) -> None:
        """The next piece; what may become a reference or code waits for its end."""
        self._held += piece
        flat = CLOSED_CODE.sub(lambda code: "." * len(code[0]), self._before + self._held)
        begun = BEGUN.search(flat, len(self._before))
        self._show(len(self._held) if begun is None else begun.start() - len(self._before))

    def flush(self) -> None:
        """The end of it."""
        self._show(len(self._held))

    def _show(self, end: int) -> None:
        ready, self._held = self._held[:end], self._held[end:]
        self._before = (self._before + ready)[-1:]
        shown = []
        for number, part in enumerate(ready.split(FENCE)):
            self._is_code ^= number > 0
            shown.append(part if self._is_code else self._number(part))
        if any(shown) or len(shown) > 1:
            self._on_text(FENCE.join(shown))

    def _number(self, part: str) -> str:
        if "[" not in part:
            return part
        hits = self._sources()
        return self._references.number(part, _known(hits), said=_said(self._asked, hits))


def _known(hits: Sequence[Hit]) -> dict[str, int]:
    """What an answer may cite: the numbers and ids that the model saw, and which hit it is."""
    told = {place for place, hit in enumerate(hits) if _is_told(hit)}
    names = {name: place for name, place in reference_names(hits).items() if place in told}
    return {str(place + 1): place for place in told} | names


def _said(text: str, hits: Sequence[Hit]) -> list[str]:
    return [text, *(hit.words for hit in hits if _is_told(hit))]


def _is_told(hit: Hit) -> bool:
    return hit.kind != "summary" and hit.speaker != "assistant"


def _source(number: int, hit: Hit) -> AnswerSource:
    memory_id = hit.source_id if hit.kind == "memory" else None
    return AnswerSource(number, hit.uid, hit.words, hit.said_at, hit.message_id, memory_id)


class Writing:
    """What the model has written so far of one answer, passed on and bounded."""

    def __init__(
        self, on_text: Callable[[str], None], *, limit: int, on_limit: Callable[[], None]
    ) -> None:
        """Pass on at most ``limit`` characters to ``on_text``; call ``on_limit`` at one more."""
        self._on_text = on_text
        self._on_limit = on_limit
        self._left = limit
        self._is_full = False
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._pieces)

    def add(self, piece: str) -> None:
        """The next piece."""
        taken = piece[: self._left]
        self._left -= len(taken)
        if taken:
            self._pieces.append(taken)
            self._on_text(taken)
        if len(taken) < len(piece):
            self._is_full = True
            self._on_limit()

    def cut_text(self, language: Language) -> str:
        """The answer of a model that was stopped at a bound: what there is to see, and why."""
        if not is_visible(self.text):
            return say("took_too_long", language)
        return _with_ending(self.text, say("cut_long" if self._is_full else "cut_slow", language))


def bounded(text: str, limit: int, language: Language) -> str:
    """The text, cut with a sentence when it is longer than ``limit`` characters."""
    if len(text) <= limit:
        return text
    return _with_ending(text[:limit], say("cut_long", language))


def _with_ending(text: str, sentence: str) -> str:
    """The sentence behind the text, and outside its code."""
    body = text.rstrip()
    if body.count(FENCE) % 2:
        body += f"\n{FENCE}"
    return f"{body}\n\n{sentence}"


# Of the graph, as a net below ``assistant.MAX_ROUNDS``: eight rounds that each save a fact take
# six steps each, and what comes before and after them ten.
MAX_STEPS = 60
CALLERS = ("assistant", "summarize", "classify_intent")  # the nodes that call a model first


@dataclass
class Progress:
    """What a run has come to, wherever it ends.

    Attributes:
        state: As the last node that has ended left it.
        usage: What the model calls cost so far.
        changes: What was stored so far.
    """

    state: ConversationState = field(default_factory=lambda: ConversationState())
    usage: list[ModelUsage] = field(default_factory=list)
    changes: list[Changes] = field(default_factory=list)

    def list_sources(self) -> Sequence[Hit]:
        """What the model was shown so far."""
        return self.state.get("sources", ())

    def result(self, text: str, **values: Any) -> TurnResult:
        """It ends here, and says this."""
        asks, usage = self.state.get("asks"), tuple(self.usage)
        changes = _joined(self.changes)
        return TurnResult(
            text, self.list_sources(), changes=changes, asks=asks, usage=usage, **values
        )


@dataclass(eq=False, repr=False)
class GraphRun:
    """Runs the graph on the last 30 messages of a turn."""

    _client: PgClient
    _graph: Graph
    _questions: QuestionService
    _settings: GlobalSettingsRepository
    _metrics: Metrics

    def __post_init__(self) -> None:
        """Build what it needs on the client."""
        self._turns = TurnRepository(self._client)

    async def run(self, turn: Turn) -> TurnResult:
        """Let the graph answer, shown in the turn's view while it is written.

        What was written, found and stored before the user stops it is kept. So it is when the
        answer reaches one of its bounds.

        Raises:
            ModelUnavailableError: Worth another try.
            ModelError: The model refused.
            ConversationGoneError: /new wiped the conversation meanwhile.
        """
        limits, language = self._settings.last_known, turn.incoming.language
        progress = Progress()
        shown = GrowingReferences(turn.show, progress.list_sources, asked=turn.asked)
        writing = Writing(
            shown.feed, limit=limits.answer_max_characters, on_limit=turn.control.cut
        )
        context = replace(
            context_of(turn),
            on_text=writing.add,
            on_usage=progress.usage.append,
            on_change=progress.changes.append,
        )
        await turn.view.open(turn, partial(self._remember_message, turn))
        try:
            await turn.control.run(
                self._follow(turn, context, progress), seconds=limits.answer_max_seconds
            )
        except TurnStoppedError:
            return progress.result(writing.text, ended="stopped")
        except TurnCutError:
            return progress.result(writing.cut_text(language))
        except GraphRecursionError:
            return progress.result(say("too_many_steps", language))
        except Exception:
            await self._save_usage(turn, progress.usage)
            raise
        text = bounded(progress.state.get("answer", ""), limits.answer_max_characters, language)
        if turn.incoming.mode == "strict":  # all of it is checked before any of it is shown
            shown.feed(text)
        shown.flush()
        return await self._conclude(progress, context, text)

    async def preview(self, turn: Turn) -> list[AnyMessage]:
        """The prompt of a turn; no model is called."""
        state = await self._graph.ainvoke(
            _begun(turn), context=context_of(turn), interrupt_before=CALLERS
        )
        return list(state.get("messages", ()))

    async def _follow(self, turn: Turn, context: TurnContext, progress: Progress) -> None:
        """Run the graph to its end; the state is known after each of its nodes."""
        WAITING.set(turn.control.wait)  # of the task that this runs in
        ids = log_extra(conversation_id=str(turn.conversation_id), message_id=turn.message_id)
        steps = self._graph.astream(
            _begun(turn),
            context=context,
            config={"recursion_limit": MAX_STEPS},
            stream_mode="values",
        )
        with self._metrics.stage("model"), ids:
            async with aclosing(cast("Any", steps)) as states:
                async for state in states:
                    progress.state = state

    async def _conclude(self, progress: Progress, context: TurnContext, text: str) -> TurnResult:
        """The answer; where the user is asked something, the question is ours to word."""
        state = progress.state
        result = progress.result(
            text, tools=tuple(state.get("tools_used", ())), intent=state.get("intent")
        )
        if result.asks == "erase_all":
            result = replace(result, text=say("erase_ask", context.language))
        if not state.get("disputed_facts"):
            return result
        question = await self._questions.ask(context, state)
        return replace(result, text=f"{result.text}\n\n{question}".strip(), asks="conflict")

    async def _remember_message(self, turn: Turn, number: int) -> None:
        """Telegram shows the beginning in this message; another attempt goes on in it."""
        note = self._turns.set_stream_message
        await self._client.run(note, turn.conversation_id, turn.message_id, number)

    async def _save_usage(self, turn: Turn, usage: Sequence[ModelUsage]) -> None:
        """Record the calls of a turn that failed; its error matters more than a failure here."""
        try:
            await self._client.run(self._turns.add_usage, turn.conversation_id, tuple(usage))
        except StorageError as error:
            logger.warning("model usage not recorded", exc_info=error)


def context_of(turn: Turn) -> TurnContext:
    """What the graph is to know of a turn."""
    incoming = turn.incoming
    fresh = (entry["id"] for entry in turn.history if entry["position"] >= turn.fresh_from)
    return TurnContext(
        owner=incoming.owner,
        conversation_id=turn.conversation_id,
        message_id=turn.message_id,
        text=turn.asked,
        moment=incoming.moment,
        time_zone=incoming.time_zone,
        language=incoming.language,
        mode=incoming.mode,
        window_start=turn.window_start,
        is_all_shown=turn.is_all_shown,
        fresh_from=next(fresh, None),
        is_private=incoming.is_private,
        answer_length=incoming.answer_length,
        memory_on=incoming.memory_on,
        has_reminders=incoming.has_reminders,
        key_facts=turn.key_facts,
        speaker_id=incoming.speaker_id,
    )


def _begun(turn: Turn) -> ConversationState:
    return {"history": list(turn.history), "summaries": list(turn.summaries)}


def _joined(changes: Sequence[Changes]) -> Changes:
    """All of them; of several forgettings the last can be taken back."""
    forgettings = [one.forgetting for one in changes if one.forgetting is not None]
    return Changes(
        tuple(number for one in changes for number in one.saved),
        tuple(number for one in changes for number in one.replaced_by),
        forgettings[-1] if forgettings else None,
        # set at once, they come in any order
        tuple(sorted({number for one in changes for number in one.reminders})),
        tuple(dict.fromkeys(zone for one in changes for zone in one.zones)),
    )
