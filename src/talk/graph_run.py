"""The graph's run within a turn: streaming, bounds, verified references, what was recalled."""

import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from src.base import logs
from src.history.new_messages import strip_time_label
from src.history.turn_repo import NO_CHANGES, AnswerSource, Changes
from src.llm import chat, reply
from src.llm.reply import ModelUsage
from src.memory.prompts import hit_id, number_references, reference_names
from src.memory.retrieval_repo import Hit
from src.memory.retriever import score_record
from src.memory.turn_context import get_finding
from src.pg.settings_repo import GlobalSettings
from src.reading.facts import fact_uid
from src.talk import strict
from src.talk.forms import describe_results
from src.talk.main_graph import Graph
from src.talk.prompt import messages_to_send
from src.talk.turn_state import ConversationState, Turn, TurnCutError, TurnResult, TurnStoppedError
from src.texts import Language, say
from src.texts.plain_text import is_visible

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
    citable = {
        index: hit
        for index, hit in enumerate(hits)
        if hit.kind != "summary" and hit.speaker != "assistant"
    }
    known = {str(index + 1): index for index in citable}
    known |= {name: index for name, index in reference_names(hits).items() if index in citable}
    quotable = [asked, *(hit.words for hit in citable.values())]
    numbered, cited = number_references(text, known, said=quotable)
    sources = []
    for number, index in enumerate(cited, start=1):
        hit = hits[index]
        memory_id = None
        if hit.kind == "memory":
            memory_id = hit.source_id
        source = AnswerSource(number, hit.uid, hit.words, hit.said_at, hit.message_id, memory_id)
        sources.append(source)
    return numbered, tuple(sources)


def resolve_beginning(text: str, hits: Sequence[Hit], *, asked: str) -> str:
    """Return the beginning of an answer with the numbers that its references will have.

    What may become a reference or code at its end is left out (see ``resolve_citations``).
    """
    flat = CLOSED_CODE.sub(lambda code: "." * len(code[0]), text)
    match = UNFINISHED.search(flat)
    end = match.start() if match else len(text)
    return resolve_citations(text[:end], hits, asked=asked)[0]


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
        turn: The turn that is answered.
        limits: Bounds of the answer.
        state: State after the last node that has ended.
        usage: Model calls so far.
    """

    def __init__(self, turn: Turn, limits: GlobalSettings) -> None:
        """Begin a run."""
        self.turn, self.limits = turn, limits
        self.state = ConversationState()
        self.usage: list[ModelUsage] = []
        self._texts: list[tuple[list[str], Sequence[str]]] = []  # pieces, hidden beginnings
        self._left = limits.answer_max_characters
        self._is_full = False
        self._changes: list[Changes] = []

    async def follow(self, graph: Graph) -> None:
        """Run the graph on the last 30 messages, and keep its state after each node."""
        turn = self.turn
        chat.WAITING.set(turn.control.wait)  # in the context of the current task
        chat.THINKING.set(turn.view.think)
        context = replace(
            turn.build_context(),
            begin_text=self.begin_text,
            on_usage=self.usage.append,
            on_change=self.add_change,
        )
        steps: Any = graph.astream(
            turn.initial_state(),
            context=context,
            config={"recursion_limit": MAX_STEPS},
            stream_mode="values",
        )
        with logs.log_extra(conversation_id=str(turn.conversation_id), message_id=turn.message_id):
            async with aclosing(steps) as states:
                async for state in states:
                    self.state = state

    def begin_text(self, hidden: Sequence[str] = ()) -> Callable[[str], None]:
        """Begin another text of the model (see ``TurnContext``); at the limit the run is cut."""
        pieces: list[str] = []
        self._texts.append((pieces, hidden))
        view = self.turn.view

        def add(piece: str) -> None:
            pieces.append(piece[: self._left])
            if len(piece) > self._left:
                self._is_full = True
                self.turn.control.cut()
            self._left -= len(pieces[-1])
            view.first_word_at = view.first_word_at or datetime.now(UTC)
            view.grow()

        return add

    @property
    def text(self) -> str:
        """Text that the model has written so far, without time labels that it copied."""
        texts = []
        for pieces, hidden in self._texts:
            text = strip_time_label("".join(pieces)).strip()
            if not any(text.startswith(one) or one.startswith(text) for one in hidden):
                texts.append(text)
        return "\n\n".join(filter(None, texts))

    def draft(self) -> str:
        """Return the beginning of the answer with the numbers that its references will have."""
        return resolve_beginning(self.text, self.state.get("sources", ()), asked=self.turn.asked)

    def add_change(self, changes: Changes) -> None:
        """Take a stored change, so that nothing is done again."""
        self._changes.append(changes)
        self.turn.control.has_acted = True

    def cut_text(self) -> str:
        """Return the answer of a model stopped at a bound: its visible text and the reason.

        Without a text it is told what its tools have done.
        """
        language = self.turn.incoming.language
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
            self.state.get("sources", ()),
            recall_record(self.turn, self.state, usage),
            changes=replace(changes, reminders=reminders, zones=zones),
            usage=usage,
            **values,
        )


async def run(graph: Graph, progress: Progress) -> TurnResult:
    """Run the graph on the last 30 messages of a turn.

    If the user stops it, or the answer reaches a bound, what was written, found and stored so
    far is kept.
    """
    turn, limits, language = progress.turn, progress.limits, progress.turn.incoming.language
    try:
        await turn.control.run(progress.follow(graph), seconds=limits.answer_max_seconds)
    except TurnStoppedError:
        return progress.result(progress.text, ended="stopped")
    except TurnCutError:
        is_wordless = not is_visible(progress.text)
        return progress.result(progress.cut_text(), is_wordless=is_wordless)
    state = progress.state
    text = truncate(state.get("answer", ""), limits.answer_max_characters, language)
    if turn.incoming.preferences.mode == "strict":  # verified as a whole before it is shown
        progress.begin_text()(text)
    asks, disputes = state.get("asks"), state.get("disputes", [])
    if asks == "erase_all":
        text = say("erase_ask", language)
    if disputes:
        text = f"{text}\n\n{strict.question_text(disputes, language)}".strip()
        asks = "conflict"
    last = next(reversed(state.get("messages", ())), None)
    return progress.result(
        text,
        asks=asks,
        disputes=disputes,
        tools=tuple(state.get("tools_used", ())),
        intent=state.get("intent"),
        is_filtered=isinstance(last, AIMessage) and reply.ending_of(last) == "filter",
    )


async def preview(graph: Graph, turn: Turn) -> list[AnyMessage]:
    """Return the prompt of a turn; no model is called."""
    state: Any = await graph.ainvoke(
        turn.initial_state(), context=turn.build_context(), interrupt_before=MODEL_NODES
    )
    return messages_to_send(state)


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
