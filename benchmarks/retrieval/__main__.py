"""``python -m benchmarks.retrieval [FILE ...]``: the table of what each part of the search adds.

The personal facts (``personal_facts.json``: Russian, Ukrainian, English) are always measured;
conversations in LoCoMo's format (``bot.py eval``) when their files are given, with plain BM25
beside them. All in a throw-away database.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from src.base.config import Settings
from src.base.owners import Owner
from src.core import Core, open_core
from src.llm.tokens import TokenCounter
from src.memory.prompts import fit_memories
from src.memory.queries import Query
from src.memory.retrieval_repo import Hit
from src.memory.retriever import rank
from src.memory.thresholds import LEXICAL_WEIGHT
from src.operate.evaluation import (
    BUDGETS,
    FIRST_TEMPORARY_ID,
    LocomoConversation,
    LocomoQuestion,
    Report,
    load_conversations,
    store_conversation,
)
from src.reading.time_expressions import TimeQuery
from src.texts.morphology import stem_english

FACTS = Path(__file__).parent / "personal_facts.json"
FULL = "full (with priors, as the bot)"
FOUND = 20  # hits of each ranking that count
HIT_RATES = ("hit@1", "hit@3", "hit@10")
SHOWN = tuple(f"shown@{tokens}" for tokens in BUDGETS)  # recall of what a prompt shows
TURN_LEVEL = ("questions", "recall@5", "recall@10", "any@10", "all@10", *SHOWN)
Ranking = Callable[[Sequence[Hit], str, TimeQuery], list[str]]


@dataclass(frozen=True)
class Asked:
    """A question with what the channels found, and what is right.

    ``plain`` is what plain BM25 finds, of a conversation's ``question``.
    """

    candidates: Sequence[Hit]
    text: str
    time: TimeQuery
    right: frozenset[str]
    kind: str = ""
    question: LocomoQuestion | None = None
    plain: Sequence[str] = ()


def by(score: Callable[[Hit], float]) -> Ranking:
    """A ranking by one number."""

    def order(documents: Sequence[Hit], _text: str, _time: TimeQuery) -> list[str]:
        best_first = sorted(documents, key=lambda d: (-score(d), d.uid))
        return [document.uid for document in best_first]

    return order


def full(documents: Sequence[Hit], text: str, time: TimeQuery) -> list[str]:
    """What the bot does."""
    return [entry.uid for entry in rank(documents, text, time)]


RANKINGS: dict[str, Ranking] = {
    "dense (centred cosine)": by(lambda d: d.match.cosine or -1.0),
    "lexical (BM25F)": by(lambda d: d.match.bm25),
    "A: dense + lexical": by(lambda d: (d.match.cosine or 0.0) + LEXICAL_WEIGHT * d.match.bm25),
    FULL: full,
}


@dataclass(frozen=True)
class PersonalQuestion:
    """A question about an owner's facts, which are stored; ``right`` are uids of messages."""

    owner: Owner
    text: str
    now: datetime
    right: frozenset[str]
    kind: str


async def personal_questions(core: Core) -> AsyncIterator[PersonalQuestion]:
    """Store each owner's facts as his messages, then yield the questions about them."""
    for number, owner_data in enumerate(json.loads(FACTS.read_text())["owners"], start=1):
        conversation = core.conversations.get_or_create_conversation(number)
        ids, moment = {}, None
        for fact in owner_data["facts"]:
            moment = datetime.fromisoformat(fact["said_at"])
            message = core.conversations.append_message(
                conversation, "user", fact["text"], said_at=moment
            )
            ids[fact["id"]] = f"msg-{message}"
        await core.memory.indexer.index_conversation(conversation)
        await core.memory.indexer.embed_pending()
        assert moment is not None
        for question in owner_data["questions"]:
            right = frozenset(ids[answer] for answer in question["answers"])
            now = moment + timedelta(days=1)
            yield PersonalQuestion(Owner(number), question["text"], now, right, question["kind"])


async def ask_personal(core: Core) -> list[Asked]:
    """Ask all questions about the personal facts."""
    asked: list[Asked] = []
    async for question in personal_questions(core):
        query = Query(question.owner, question.text, question.now)
        candidates, time = await core.memory.retriever.find_candidates(query)
        asked.append(Asked(candidates, query.text, time, question.right, question.kind))
    return asked


async def ask_conversations(core: Core, path: Path) -> list[Asked]:
    """Store the conversations of a file, ask the questions of categories 1 to 4."""
    asked: list[Asked] = []
    for conversation in load_conversations(path):
        owner = Owner(FIRST_TEMPORARY_ID + secrets.randbelow(2**60))
        ids = store_conversation(core.conversations, core.memory.index, owner, conversation)
        uids = {dia_id: uid for uid, dia_id in ids.items()}
        await core.memory.indexer.embed_pending()
        now = conversation.turns[-1].said_at + timedelta(days=1)
        orders = bm25_orders(conversation)
        for question, order in zip(conversation.questions, orders, strict=True):
            query = Query(owner, question.text, now)
            candidates, time = await core.memory.retriever.find_candidates(query)
            right = frozenset(uids[dia_id] for dia_id in question.evidence)
            plain = [uids[dia_id] for dia_id in order]
            asked.append(
                Asked(candidates, query.text, time, right, question=question, plain=plain)
            )
    return asked


def bm25_orders(conversation: LocomoConversation) -> list[list[str]]:
    """For each question what plain BM25 (bm25s, its own tokens) finds of what people said."""
    import bm25s  # of requirements-dev.txt: only this table needs it

    told = [turn for turn in conversation.turns if turn.role == "user"]
    tokens = partial(
        bm25s.tokenize, stopwords="en", stemmer=lambda words: [*map(stem_english, words)],
        show_progress=False,
    )  # fmt: skip
    searcher = bm25s.BM25()
    searcher.index(tokens([turn.text for turn in told]), show_progress=False)
    asked = tokens([question.text for question in conversation.questions], return_ids=False)
    found, _ = searcher.retrieve(asked, k=min(FOUND, len(told)), show_progress=False)
    return [[told[place].dia_id for place in row] for row in found]


def hits(asked: Sequence[Asked], ranking: Ranking) -> dict[str, float]:
    """Percentages of questions with a right answer among the first 1, 3 and 10."""
    figures = dict.fromkeys(HIT_RATES, 0.0)
    for entry in asked:
        order = ranking(entry.candidates, entry.text, entry.time)
        for cut in (1, 3, 10):
            figures[f"hit@{cut}"] += bool(entry.right & set(order[:cut]))
    return {name: round(100 * value / max(len(asked), 1), 1) for name, value in figures.items()}


def report(
    asked: Sequence[Asked], ranking: Ranking | None, counter: TokenCounter
) -> dict[str, Any]:
    """The figures of ``eval`` of a ranking; without one, of plain BM25, which shows nothing."""
    figures = Report()
    for entry in asked:
        assert entry.question is not None
        found = ranking(entry.candidates, entry.text, entry.time) if ranking else entry.plain
        hit_of = {hit.uid: hit for hit in entry.candidates}
        ranked = [hit_of[uid] for uid in found if uid in hit_of]
        shown = {
            tokens: [hit.uid for hit in fit_memories(ranked, counter, tokens, "UTC")]
            for tokens in BUDGETS
            if ranking
        }
        question = replace(entry.question, evidence=entry.right)
        figures.add(question, found[:FOUND], shown)
    return figures.percentages()


def show(title: str, rows: dict[str, dict[str, float]], names: Sequence[str] = HIT_RATES) -> None:
    """A table."""
    print(f"\n{title}")
    print(f"{'':34}" + "".join(f"{name:>11}" for name in names))
    for label, figures in rows.items():
        cells = (f"{figures[name]:.1f}" if name in figures else "–" for name in names)
        print(f"{label:34}" + "".join(f"{cell:>11}" for cell in cells))


async def measure(files: Sequence[Path]) -> dict[str, Any]:
    """Measure all sets; prints the tables, returns the figures."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="pomni-retrieval-") as folder:
        async with open_core(Settings(data_dir=Path(folder))) as core:
            await core.warm_up()
            personal = await ask_personal(core)
            results["personal"] = {n: hits(personal, r) for n, r in RANKINGS.items()}
            show(f"Personal facts, {len(personal)} questions (%)", results["personal"])
            kinds = sorted({entry.kind for entry in personal})
            by_kind = {
                kind: hits([entry for entry in personal if entry.kind == kind], full)
                for kind in kinds
            }
            show("  the full ranking, by kind of question", by_kind)
            for path in files:
                results[path.stem] = await measure_file(core, path)
    return results


async def measure_file(core: Core, path: Path) -> dict[str, Any]:
    """Measure the conversations of a file; prints the tables, returns the figures."""
    asked = await ask_conversations(core, path)
    rankings: dict[str, Ranking | None] = {"BM25 (bm25s), people's messages": None, **RANKINGS}
    reports = {name: report(asked, ranking, core.counter) for name, ranking in rankings.items()}
    overall = {name: figures["overall"] for name, figures in reports.items()}
    show(f"{path.stem}, turn level, {len(asked)} questions (%)", overall, TURN_LEVEL)
    for group in ("categories", "evidence"):
        show(f"  the full ranking, by {group}", reports[FULL][group], TURN_LEVEL)
    return overall


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval")
    parser.add_argument("files", type=Path, nargs="*", help="JSON files in LoCoMo's format")
    asyncio.run(measure(parser.parse_args().files))


if __name__ == "__main__":
    main()
