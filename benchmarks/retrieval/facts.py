"""``python -m benchmarks.retrieval.facts FILE``: whether facts help the search, and wishes show.

An imperfect oracle stands for the model that reads messages for facts: of each message one
sentence is a fact, without what it asks; where the message answers questions, the sentence that
shares most words with the answers, else the longest. A third of the facts are missing, and a tenth
say what another message says. Every question is asked before there are facts, and after, beside
plain BM25 and the nearest vectors. FILE is in LoCoMo's format (BEAM with the ``kind`` of each
question; PersonaMem by ``benchmarks.retrieval.persona_mem``). All in a throw-away database.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.runtime import Runtime

from benchmarks.retrieval.__main__ import FOUND, TURN_LEVEL, bm25_orders, by, show
from src.base.config import Settings
from src.base.owners import Caller, Owner, Preferences
from src.core import Core, open_core
from src.memory.queries import Query
from src.memory.turn_context import TurnContext, Window
from src.memory.writer import SourceText
from src.operate.evaluation import (
    FIRST_TEMPORARY_ID,
    LocomoConversation,
    LocomoTurn,
    Report,
    load_conversations,
    store_conversation,
)
from src.reading.facts import WISH, Fact
from src.reading.sentences import sentences
from src.talk import prompt
from src.talk.turn_state import ConversationState
from src.texts.morphology import terms

CUT = 10
ROWS = ("BM25 (bm25s)", "nearest vectors", "without facts", "with facts")
MISSED, WRONG = 33, 43  # of a hundred messages: no fact; a tenth more: a fact of another message
MIN_FACT = 20  # characters of a fact that answers nothing
PREFERENCES = ("instruction_following", "preference_following")  # they ask for no words


@dataclass
class Outcome:
    """What was found before there were facts and after, and what is in view without a search."""

    reports: dict[str, Report] = field(default_factory=lambda: {name: Report() for name in ROWS})
    moves: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)
    in_view: dict[str, Counter[str]] = field(
        default_factory=lambda: {kind: Counter() for kind in PREFERENCES}
    )


def oracle(turn: LocomoTurn, asked: Sequence[Mapping[str, Any]]) -> Fact:
    """The fact of a message that answers these questions."""
    answers = {term for entry in asked for term in terms(str(entry.get("answer", "")))}
    told = max(
        sentences(turn.text),
        key=lambda line: (len(answers & {*terms(line)}), len(line)),
        default="",
    )
    if told.endswith("?"):  # "I have two cats, what do they eat?": what is asked is no fact
        told = max(
            told.rstrip("?").split(", "),
            key=lambda part: (len(answers & {*terms(part)}), len(part)),
        )
    kinds = {str(entry.get("kind")) for entry in asked}
    if "instruction_following" in kinds:
        return Fact(text=told, quote=told, memory_type="preference", relation=WISH)
    is_liked = "preference_following" in kinds
    return Fact(text=told, quote=told, memory_type="preference" if is_liked else "user_fact")


def extract(
    turns: Sequence[LocomoTurn], answered: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Fact]:
    """The facts of messages, by the ids of the messages, imperfect as those of a model."""
    facts: dict[str, Fact] = {}
    previous = ""
    for turn in turns:
        fact = oracle(turn, answered.get(turn.dia_id, ()))
        chance = zlib.crc32(f"{turn.dia_id} {turn.text}".encode()) % 100
        is_told = turn.dia_id in answered or len(fact.text) >= MIN_FACT
        if turn.role == "user" and is_told and chance >= WRONG:
            facts[turn.dia_id] = fact
        elif turn.role == "user" and previous and chance >= MISSED:
            facts[turn.dia_id] = fact.model_copy(update={"text": previous})
        previous = fact.text
    return facts


async def nearest_vectors(
    core: Core, owner: Owner, conversation: LocomoConversation, ids: Mapping[str, str]
) -> list[list[str]]:
    """The ids of the messages whose vectors are nearest to each question."""
    now = conversation.turns[-1].said_at + timedelta(days=1)
    found = []
    for question in conversation.questions:
        query = Query(owner, question.text, now)
        candidates, time = await core.memory.retriever.find_candidates(query)
        order = by(lambda hit: hit.match.cosine or -1.0)(candidates, question.text, time)
        found.append([ids[uid] for uid in order[:FOUND]])
    return found


async def ask(
    core: Core, owner: Owner, conversation: LocomoConversation, ids: Mapping[str, str]
) -> list[list[str]]:
    """The ids of the messages that each question finds, best first."""
    now = conversation.turns[-1].said_at + timedelta(days=1)
    found = []
    for question in conversation.questions:
        query = Query(owner, question.text, now, limit=FOUND)
        hits = await core.memory.retriever.search(query)
        found.append(list(dict.fromkeys(ids[hit.uid] for hit in hits if hit.uid in ids)))
    return found


async def in_view(
    core: Core, owner: Owner, conversation: LocomoConversation, question: str
) -> tuple[set[str], set[str]]:
    """The messages whose facts a prompt shows unasked, and those that it quotes for a question."""
    now = conversation.turns[-1].said_at + timedelta(days=1)
    stored = core.conversations.find_conversation(owner)
    assert stored is not None
    beyond = 10**6  # what is asked is the newest message: all others left the window
    caller = Caller(owner, Preferences("en", "UTC"), now)
    context = TurnContext(caller, stored, 0, question, window=Window(beyond))
    runtime, memories = Runtime(context=context), core.memory.memories
    messages: list[AnyMessage] = [HumanMessage(question)]
    asked = ConversationState(messages=messages)
    facts = await prompt.check_facts(asked, runtime, memories=memories)
    keys = await prompt.load_facts({**asked, **facts}, runtime, counter=core.counter)
    state: ConversationState = {
        **asked,
        **facts,
        **keys,
        "messages": messages,
        "llm_context_size": 128_000,
    }
    told = await prompt.retrieve_memories(state, runtime, memories=memories, counter=core.counter)
    key = {hit.uid for hit in keys.get("sources", ())}
    return key, {hit.uid for hit in told.get("sources", ())} - key


async def remember(
    core: Core, owner: Owner, conversation: LocomoConversation, told: Mapping[str, Fact],
    uids: Mapping[str, str],
) -> Counter[str]:  # fmt: skip
    """Store the facts; returns how many of them became what."""
    kinds: Counter[str] = Counter()
    for turn in conversation.turns:
        if turn.dia_id in told:
            number = int(uids[turn.dia_id].removeprefix("msg-"))
            outcome = await core.memory.memories.writer.remember(
                owner, told[turn.dia_id], SourceText(number, turn.text, turn.said_at),
                origin="extraction",
            )  # fmt: skip
            kinds[outcome.kind] += 1
    return kinds


async def measure_conversation(
    core: Core,
    owner: Owner,
    conversation: LocomoConversation,
    sample: Mapping[str, Any],
    sum_: Outcome,
) -> None:
    """Ask, remember, ask again."""
    ids = store_conversation(core.conversations, core.memory.index, owner, conversation)
    await core.memory.indexer.embed_pending()
    answered: dict[str, list[Mapping[str, Any]]] = {}
    for entry in sample["qa"]:
        for dia_id in entry.get("evidence") or ():
            answered.setdefault(dia_id, []).append(entry)
    told = extract(conversation.turns, answered)
    near = await nearest_vectors(core, owner, conversation, ids)
    before = await ask(core, owner, conversation, ids)
    uids = {dia_id: uid for uid, dia_id in ids.items()}
    sum_.facts += await remember(core, owner, conversation, told, uids)
    await core.memory.indexer.embed_pending()
    after = await ask(core, owner, conversation, ids)
    plain = bm25_orders(conversation)
    for question, *found in zip(conversation.questions, plain, near, before, after, strict=True):
        for report, order in zip(sum_.reports.values(), found, strict=True):
            report.add(question, order, {})
        old, new = found[2:]
        was, is_ = question.evidence & {*old[:CUT]}, question.evidence & {*new[:CUT]}
        sum_.moves += Counter(gained=len(is_ - was), lost=len(was - is_))
    for entry in sample["qa"]:
        if (kind := entry.get("kind")) in PREFERENCES and entry["evidence"]:
            right = {uids[dia_id] for dia_id in entry["evidence"]}
            key, found = await in_view(core, owner, conversation, str(entry["question"]))
            sum_.in_view[kind] += Counter(
                questions=1, key=bool(right & key), either=bool(right & (key | found))
            )


async def measure(path: Path, conversations: int | None) -> Outcome:
    """Measure a file, or its first conversations; prints the table."""
    outcome = Outcome()
    samples = json.loads(path.read_text())  # noqa: ASYNC240
    with tempfile.TemporaryDirectory(prefix="pomni-facts-") as folder:
        async with open_core(Settings(data_dir=Path(folder))) as core:
            await core.warm_up()
            loaded = load_conversations(path)[:conversations]
            for number, conversation in enumerate(loaded):
                owner = Owner(FIRST_TEMPORARY_ID + number)
                await measure_conversation(core, owner, conversation, samples[number], outcome)
    rows = {name: report.percentages()["overall"] for name, report in outcome.reports.items()}
    show(f"{path.stem}: the search with and without facts (%)", rows, TURN_LEVEL)
    print(f"facts: {dict(outcome.facts)}; right messages within {CUT}: {dict(outcome.moves)}")
    for kind, counted in outcome.in_view.items():
        if not counted:
            continue
        print(
            f"{kind}: {counted['questions']} questions, {counted['key']} have the fact among "
            f"the key facts, {counted['either']} there or among what the message finds"
        )
    return outcome


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval.facts")
    parser.add_argument("file", type=Path, help="a JSON file in LoCoMo's format, with kinds")
    parser.add_argument("--conversations", type=int, help="how many, from the first on")
    given = parser.parse_args()
    asyncio.run(measure(given.file, given.conversations))


if __name__ == "__main__":
    main()
