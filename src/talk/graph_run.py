"""The graph's run within a turn: streaming, bounds, verified references, what was recalled."""

import logging
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.errors import GraphRecursionError

from src.base import errors, logs, metrics
from src.history.turn_repo import NO_CHANGES, AnswerSource, Changes, TurnRepository
from src.llm import chat, reply
from src.llm.reply import ModelUsage
from src.memory.citations import References, hit_id, number_references, reference_names
from src.memory.ranking import score_record
from src.memory.retrieval_repo import Hit
from src.memory.turn_context import TurnContext, get_finding
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettingsRepository
from src.reading.facts import fact_uid
from src.talk import strict
from src.talk.forms import describe_results
from src.talk.main_graph import Graph
from src.talk.prompt import messages_to_send
from src.talk.turn_state import ConversationState, Turn, TurnCutError, TurnResult, TurnStoppedError
from src.texts import Language, say
from src.texts.plain_text import is_visible

logger = logging.getLogger(__name__)

FENCE = "```"
CLOSED_CODE = re.compile(r"```|(?<!\w)`[^`\n]+`")
# A possible beginning of a reference, a list of references, a link, or inline code.
UNFINISHED = re.compile(r"(?:(?<!\w)`{1,2}[^`\n]{0,60}|[ \t]*\[[^\[\]\n]{0,60}\]?|[ \t]+)\Z")
# Steps of the graph, a safety net below ``assistant.MAX_ROUNDS``: eight rounds that each save a
# fact take six steps each, and the nodes before and after them ten.
MAX_STEPS = 60
# Those that call a model first.
MODEL_NODES = ("assistant", "answer_by_form", "summarize", "classify_intent")


def resolve_citations(
    text: str, hits: Sequence[Hit], *, asked: str
) -> tuple[str, tuple[AnswerSource, ...]]:
    """Return the answer with references numbered 1, 2, 3, and their sources.

    Only messages of the user are sources, neither summaries nor the bot's messages; other
    references are dropped.

    Args:
        text: The answer as the model wrote it.
        hits: The hits that the model was shown: its [1] is the first.
        asked: The message that is answered; brackets in it are no references.
    """
    numbered, cited = number_references(text, _citable(hits), said=_quotable(asked, hits))
    sources = []
    for number, index in enumerate(cited, start=1):
        hit = hits[index]
        memory_id = None
        if hit.kind == "memory":
            memory_id = hit.source_id
        source = AnswerSource(number, hit.uid, hit.words, hit.said_at, hit.message_id, memory_id)
        sources.append(source)
    return numbered, tuple(sources)


class StreamedReferences:
    """Display of a streamed answer with the numbers that its references will have in the end."""

    def __init__(
        self, on_text: Callable[[str], None], sources: Callable[[], Sequence[Hit]], *, asked: str
    ) -> None:
        """Pass text that answers ``asked`` on to ``on_text``.

        ``sources`` returns the hits the model has been shown so far: it may search in between.
        """
        self._on_text = on_text
        self._sources = sources
        self._asked = asked
        self._references = References()
        self._before = ""  # the last character that was shown
        self._buffer = ""
        self._is_code = False

    def feed(self, piece: str) -> None:
        """Take the next piece; what may become a reference or code waits for its end."""
        self._buffer += piece
        flat = CLOSED_CODE.sub(lambda code: "." * len(code[0]), self._before + self._buffer)
        match = UNFINISHED.search(flat, len(self._before))
        self._show(len(self._buffer) if match is None else match.start() - len(self._before))

    def flush(self) -> None:
        """Show what is still held back at the end of the answer."""
        self._show(len(self._buffer))

    def _show(self, end: int) -> None:
        ready, self._buffer = self._buffer[:end], self._buffer[end:]
        self._before = (self._before + ready)[-1:]
        parts = []
        for number, part in enumerate(ready.split(FENCE)):
            self._is_code ^= number > 0
            parts.append(part if self._is_code else self._number(part))
        if any(parts) or len(parts) > 1:
            self._on_text(FENCE.join(parts))

    def _number(self, part: str) -> str:
        if "[" not in part:
            return part
        hits = self._sources()
        return self._references.number(part, _citable(hits), said=_quotable(self._asked, hits))


def _citable(hits: Sequence[Hit]) -> dict[str, int]:
    """Map each number and id by which the model may cite a hit to the hit's index."""
    citable = {index for index, hit in enumerate(hits) if _is_citable(hit)}
    names = {name: index for name, index in reference_names(hits).items() if index in citable}
    return {str(index + 1): index for index in citable} | names


def _quotable(text: str, hits: Sequence[Hit]) -> list[str]:
    return [text, *(hit.words for hit in hits if _is_citable(hit))]


def _is_citable(hit: Hit) -> bool:
    return hit.kind != "summary" and hit.speaker != "assistant"


def truncate(text: str, limit: int, language: Language) -> str:
    """Return the text, cut to ``limit`` characters and with a notice if it is longer."""
    if len(text) <= limit:
        return text
    return _append(text[:limit], say("cut_long", language))


def _append(text: str, sentence: str) -> str:
    """Append a sentence to the text, outside an open code block."""
    body = text.rstrip()
    if body.count(FENCE) % 2:
        body += f"\n{FENCE}"
    return f"{body}\n\n{sentence}"


class Progress:
    """Text, state and changes of a run so far, kept for the case that it ends early.

    Attributes:
        state: State after the last node that has ended.
        text: What the model has written, up to the limit.
        usage: Model calls so far.
        references: Display of the text.
    """

    def __init__(self, turn: Turn, limit: int) -> None:
        """Begin a run that may write ``limit`` characters."""
        self.state = ConversationState()
        self.text = ""
        self.usage: list[reply.ModelUsage] = []
        self.references = StreamedReferences(turn.show, self.list_sources, asked=turn.asked)
        self._turn = turn
        self._limit = limit
        self._is_full = False
        self._changes: list[Changes] = []

    def add_text(self, piece: str) -> None:
        """Show the next piece; at the limit the run is cut."""
        accepted = piece[: self._limit - len(self.text)]
        if accepted:
            self.text += accepted
            self.references.feed(accepted)
        if len(accepted) < len(piece):
            self._is_full = True
            self._turn.control.cut()

    def add_change(self, changes: Changes) -> None:
        """Take a stored change, so that nothing is done again."""
        self._changes.append(changes)
        self._turn.control.has_acted = True

    def list_sources(self) -> Sequence[Hit]:
        """List the hits that the model was shown so far."""
        return self.state.get("sources", ())

    def cut_text(self, language: Language) -> str:
        """Return the answer of a model stopped at a bound: its visible text and the reason.

        Without a text it is told what its tools have done.
        """
        if not is_visible(self.text):
            done = describe_results(self.state.get("messages", ()), language, with_facts=True)
            return done or say("took_too_long", language)
        return _append(self.text, say("cut_long" if self._is_full else "cut_slow", language))

    def result(self, text: str, **values: Any) -> TurnResult:
        """Build the turn's result with this text and what the run has done so far.

        Of several forgettings only the last one can be undone.
        """
        changes, usage = sum(self._changes, NO_CHANGES), tuple(self.usage)
        reminders = tuple(sorted(set(changes.reminders)))  # in any order, if set in parallel
        zones = tuple(dict.fromkeys(changes.zones))
        values.setdefault("asks", self.state.get("asks"))
        return TurnResult(
            text,
            self.list_sources(),
            recall_record(self._turn, self.state, usage),
            changes=replace(changes, reminders=reminders, zones=zones),
            usage=usage,
            **values,
        )

    def final_result(self, text: str, language: Language) -> TurnResult:
        """Build the result of a finished run; a question to the user is worded here."""
        state = self.state
        asks, disputes = state.get("asks"), state.get("disputes", [])
        last = next(reversed(state.get("messages", ())), None)
        if asks == "erase_all":
            text = say("erase_ask", language)
        if disputes:
            text = f"{text}\n\n{strict.question_text(disputes, language)}".strip()
            asks = "conflict"
        return self.result(
            text,
            asks=asks,
            disputes=disputes,
            tools=tuple(state.get("tools_used", ())),
            intent=state.get("intent"),
            is_filtered=isinstance(last, AIMessage) and reply.ending_of(last) == "filter",
        )


@dataclass(eq=False, repr=False)
class GraphRun:
    """Runs of the graph on the last 30 messages of a turn."""

    _client: PgClient
    _graph: Graph
    _settings: GlobalSettingsRepository
    _metrics: metrics.Metrics

    async def run(self, turn: Turn) -> TurnResult:
        """Let the graph answer, streamed to the turn's view.

        If the user stops it, or the answer reaches a bound, what was written, found and stored so
        far is kept.

        Raises:
            ModelUnavailableError: Worth a retry.
            ModelError: The model refused.
            ConversationGoneError: /new wiped the conversation meanwhile.
        """
        limits, language = self._settings.last_known, turn.incoming.language
        turns = TurnRepository(self._client)
        progress = Progress(turn, limits.answer_max_characters)
        # Another attempt continues in the message that shows the beginning.
        store = partial(turns.set_stream_message, turn.conversation_id, turn.message_id)
        await turn.view.open(turn, partial(self._client.run, store))
        try:
            await turn.control.run(
                self._run_graph(turn, progress), seconds=limits.answer_max_seconds
            )
        except TurnStoppedError:
            return progress.result(progress.text, ended="stopped")
        except TurnCutError:
            is_wordless = not is_visible(progress.text)
            return progress.result(progress.cut_text(language), is_wordless=is_wordless)
        except GraphRecursionError:
            return progress.result(say("too_many_steps", language))
        except Exception:
            try:
                usage = tuple(progress.usage)
                await self._client.run(turns.add_usage, turn.conversation_id, usage)
            except errors.StorageError as error:  # which must not hide the first one
                logger.warning("model usage not recorded", exc_info=error)
            raise
        text = truncate(progress.state.get("answer", ""), limits.answer_max_characters, language)
        if turn.incoming.preferences.mode == "strict":  # verified as a whole before it is shown
            progress.references.feed(text)
        progress.references.flush()
        return progress.final_result(text, language)

    async def preview(self, turn: Turn) -> list[AnyMessage]:
        """Return the prompt of a turn; no model is called."""
        state: Any = await self._graph.ainvoke(
            _initial_state(turn), context=_build_context(turn), interrupt_before=MODEL_NODES
        )
        return messages_to_send(state)

    async def _run_graph(self, turn: Turn, progress: Progress) -> None:
        chat.WAITING.set(turn.control.wait)  # in the context of the current task
        chat.THINKING.set(turn.view.think)
        ids = logs.log_extra(conversation_id=str(turn.conversation_id), message_id=turn.message_id)
        context = replace(
            _build_context(turn),
            on_text=progress.add_text,
            on_usage=progress.usage.append,
            on_change=progress.add_change,
        )
        steps: Any = self._graph.astream(
            _initial_state(turn),
            context=context,
            config={"recursion_limit": MAX_STEPS},
            stream_mode="values",
        )
        with self._metrics.stage("model"), ids:
            async with aclosing(steps) as states:
                async for state in states:
                    progress.state = state


def _build_context(turn: Turn) -> TurnContext:
    incoming = turn.incoming
    return TurnContext(
        caller=incoming.caller,
        conversation_id=turn.conversation_id,
        message_id=turn.message_id,
        text=turn.asked,
        window=turn.window,
        is_private=incoming.is_private,
    )


def _initial_state(turn: Turn) -> ConversationState:
    summaries = [summary.content for summary in turn.summaries]
    return {"history": list(turn.history), "summaries": summaries}


def recall_record(
    turn: Turn, state: ConversationState, usage: Sequence[ModelUsage]
) -> dict[str, Any]:
    """Build the record of a run: ids and numbers only, since texts may be forgotten meanwhile.

    Args:
        turn: The turn.
        state: State at the end of the run.
        usage: The model calls.

    Returns:
        ``model``: the one that answered; ``since``: id of the first message that it saw (None in
        strict mode, which shows the last few); ``found``: the documents, each once, with ``by``,
        what led to it and its place there, its scores if it was ranked, and ``shown``.
    """
    taught = state.get("retrieved_context", [])
    shown = {hit_id(hit) for hit in [*state.get("sources", ()), *(taught if usage else ())]}
    documents: dict[str, dict[str, Any]] = {}

    def add(name: str, by: str, *, is_shown: bool, **scores: float | None) -> None:
        known = documents.setdefault(name, {"id": name, "by": by, "shown": is_shown, **scores})
        if known["by"] != by:
            documents[name] = {**scores, **known, "by": f"{known['by']}, {by}"}

    for fact in sorted(state.get("key_facts", ())):
        add(fact_uid(fact), "key", is_shown=True)
    is_assistant = turn.incoming.preferences.mode == "assistant"
    for summary in turn.summaries if is_assistant else ():
        is_shown = summary.content in state.get("summaries", ())
        add(f"summary-{summary.id}", "summary", is_shown=is_shown)
    searches = [("search", [*state.get("relevant_memories", ()), *taught])]
    searches += [(m.name or "", list(get_finding(m).hits)) for m in state.get("messages", ())]
    for by, hits in searches:
        for place, hit in enumerate(hits, start=1):
            name = hit_id(hit)
            add(name, f"{by} {place}", is_shown=name in shown, **score_record(hit))
    seen = (entry["id"] for entry in turn.history if entry["position"] >= turn.window.start)
    return {
        "model": next((call.model for call in reversed(usage) if call.error is None), None),
        "since": next(seen, None) if is_assistant else None,
        "found": list(documents.values()),
    }
