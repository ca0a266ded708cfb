"""``python -m benchmarks.retrieval.facts FILE``: whether facts help the search, and wishes show.

A fixed oracle stands for the model that reads messages for facts: of each message that answers a
question, the sentence that shares most words with the answers is a fact, without what it asks.
Every question is asked before there are facts, and after. FILE is in LoCoMo's format, with the
``kind`` of each question, as in BEAM. All in a throw-away database.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.runtime import Runtime

from benchmarks.retrieval.__main__ import FOUND, TURN_LEVEL, show
from src.base.config import Settings
from src.base.owners import Caller, Owner, Preferences
from src.core import Core, open_core
from src.memory.retriever import Query
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
PREFERENCES = ("instruction_following", "preference_following")  # they ask for no words


@dataclass
class Outcome:
    """What was found before there were facts and after, and what is in view without a search."""

    before: Report = field(default_factory=Report)
    after: Report = field(default_factory=Report)
    moves: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)
    in_view: dict[str, Counter[str]] = field(
        default_factory=lambda: {kind: Counter() for kind in PREFERENCES}
    )


def oracle(turn: LocomoTurn, asked: Sequence[Mapping[str, Any]]) -> Fact:
    """The fact of a message that answers these questions."""
    answers = {term for entry in asked for term in terms(str(entry.get("answer", "")))}
    told = max(sentences(turn.text), key=lambda line: len(answers & {*terms(line)}))
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
    state: ConversationState = {**asked, **facts, **keys, "messages": messages}
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
    told = {
        turn.dia_id: oracle(turn, answered[turn.dia_id])
        for turn in conversation.turns
        if turn.dia_id in answered
    }
    before = await ask(core, owner, conversation, ids)
    uids = {dia_id: uid for uid, dia_id in ids.items()}
    sum_.facts += await remember(core, owner, conversation, told, uids)
    await core.memory.indexer.embed_pending()
    after = await ask(core, owner, conversation, ids)
    for question, old, new in zip(conversation.questions, before, after, strict=True):
        sum_.before.add(question, old)
        sum_.after.add(question, new)
        was, is_ = question.evidence & {*old[:CUT]}, question.evidence & {*new[:CUT]}
        sum_.moves += Counter(gained=len(is_ - was), lost=len(was - is_))
        for dia_id in was - is_:
            place = (new.index(dia_id) if dia_id in new else FOUND) + 1
            print(f"lost: {dia_id} from {old.index(dia_id) + 1} to {place}: {question.text[:90]}")
    for entry in sample["qa"]:
        if (kind := entry.get("kind")) in PREFERENCES and entry["evidence"]:
            right = {uids[dia_id] for dia_id in entry["evidence"]}
            key, found = await in_view(core, owner, conversation, str(entry["question"]))
            sum_.in_view[kind] += Counter(
                questions=1, key=bool(right & key), either=bool(right & (key | found))
            )


async def measure(path: Path) -> Outcome:
    """Measure a file; prints the table."""
    outcome = Outcome()
    samples = json.loads(path.read_text())  # noqa: ASYNC240
    with tempfile.TemporaryDirectory(prefix="pomni-facts-") as folder:
        async with open_core(Settings(data_dir=Path(folder))) as core:
            await core.warm_up()
            for number, conversation in enumerate(load_conversations(path)):
                owner = Owner(FIRST_TEMPORARY_ID + number)
                await measure_conversation(core, owner, conversation, samples[number], outcome)
    reports = {"without facts": outcome.before, "with facts": outcome.after}
    rows = {name: report.percentages()["overall"] for name, report in reports.items()}
    show(f"{path.stem}: the search with and without facts (%)", rows, TURN_LEVEL)
    print(f"facts: {dict(outcome.facts)}; right messages within {CUT}: {dict(outcome.moves)}")
    for kind, counted in outcome.in_view.items():
        print(
            f"{kind}: {counted['questions']} questions, {counted['key']} have the fact among "
            f"the key facts, {counted['either']} there or among what the message finds"
        )
    return outcome


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval.facts")
    parser.add_argument("file", type=Path, help="a JSON file in LoCoMo's format, with kinds")
    asyncio.run(measure(parser.parse_args().file))


if __name__ == "__main__":
    main()
