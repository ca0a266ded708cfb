"""``python -m benchmarks.retrieval [LOCOMO]``: the table of what each part of the search adds.

The personal facts (``personal_facts.json``: Russian, Ukrainian, English) are always measured; a
file in LoCoMo's format when it is given. All in a throw-away database.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from src.base.config import Settings
from src.base.owners import Owner
from src.core import Core, open_core
from src.memory.ranking import LEXICAL_WEIGHT, RankedQuery, rank
from src.memory.retrieval_repo import CandidateDocument
from src.memory.retriever import Query
from src.memory.search_index_repo import NewDocument
from src.operate.evaluation import Conversation, Scores, load_conversations
from src.texts.morphology import terms

FACTS = Path(__file__).parent / "personal_facts.json"
Ranking = Callable[[Sequence[CandidateDocument], RankedQuery], list[str]]


@dataclass(frozen=True)
class Asked:
    """A question with what the channels found, and what is right."""

    candidates: Sequence[CandidateDocument]
    query: RankedQuery
    right: frozenset[str]
    kind: str = ""


def by(score: Callable[[CandidateDocument], float]) -> Ranking:
    """A ranking by one number."""

    def order(documents: Sequence[CandidateDocument], _query: RankedQuery) -> list[str]:
        best_first = sorted(documents, key=lambda d: (-score(d), d.uid))
        return [document.uid for document in best_first]

    return order


def full(documents: Sequence[CandidateDocument], query: RankedQuery) -> list[str]:
    """What the bot does."""
    return [entry.document.uid for entry in rank(documents, query)]


RANKINGS: dict[str, Ranking] = {
    "dense (centred cosine)": by(lambda d: d.cosine or -1.0),
    "lexical (BM25F)": by(lambda d: d.bm25),
    "A: dense + lexical": by(lambda d: (d.cosine or 0.0) + LEXICAL_WEIGHT * d.bm25),
    "full (with priors, as the bot)": full,
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
        candidates, understood = await core.memory.retriever.find_candidates(query)
        asked.append(Asked(candidates, understood, question.right, question.kind))
    return asked


async def ask_locomo(core: Core, path: Path) -> list[Asked]:
    """Store the conversations, ask the questions of categories 1 to 4."""
    asked: list[Asked] = []
    for number, conversation in enumerate(load_conversations(path), start=1000):
        owner = Owner(number)
        uids = _store(core, owner, conversation)
        await core.memory.indexer.embed_pending()
        now = conversation.turns[-1].said_at + timedelta(days=1)
        for question in conversation.questions:
            query = Query(owner, question.text, now)
            candidates, understood = await core.memory.retriever.find_candidates(query)
            right = frozenset(uids[dia_id] for dia_id in question.evidence)
            asked.append(Asked(candidates, understood, right))
    return asked


def _store(core: Core, owner: Owner, conversation: Conversation) -> dict[str, str]:
    conversation_id = core.conversations.get_or_create_conversation(owner.telegram_user_id)
    uids, documents, previous = {}, [], None
    for turn in conversation.turns:
        message = core.conversations.append_message(
            conversation_id, "user", turn.text, said_at=turn.said_at
        )
        uids[turn.dia_id] = f"msg-{message}"
        documents.append(
            NewDocument(
                "message", message, turn.speaker, turn.said_at, terms(turn.text),
                is_continued=turn.session == previous,
            )
        )  # fmt: skip
        previous = turn.session
    ids = [document.source_id for document in documents]
    core.memory.index.add_messages(owner, conversation_id, documents, ids)
    return uids


def hits(asked: Sequence[Asked], ranking: Ranking) -> dict[str, float]:
    """Percentages of questions with a right answer among the first 1, 3 and 10."""
    figures = dict.fromkeys(("hit@1", "hit@3", "hit@10"), 0.0)
    for entry in asked:
        order = ranking(entry.candidates, entry.query)
        for cut in (1, 3, 10):
            figures[f"hit@{cut}"] += bool(entry.right & set(order[:cut]))
    return {name: round(100 * value / max(len(asked), 1), 1) for name, value in figures.items()}


def turn_level(asked: Sequence[Asked], ranking: Ranking) -> dict[str, float]:
    """Turn-level recall, and whether any or all of the evidence is found, in percent."""
    scores = Scores()
    for entry in asked:
        scores.add(ranking(entry.candidates, entry.query)[:20], entry.right)
    figures = scores.percentages()
    return {
        name: figures[name] for name in ("recall@5", "recall@10", "recall@20", "any@10", "all@10")
    }


def show(title: str, rows: dict[str, dict[str, float]]) -> None:
    """A table."""
    print(f"\n{title}")
    names = list(next(iter(rows.values())))
    print(f"{'':34}" + "".join(f"{name:>11}" for name in names))
    for label, figures in rows.items():
        print(f"{label:34}" + "".join(f"{figures[name]:11.1f}" for name in names))


async def measure(locomo: Path | None) -> dict[str, Any]:
    """Measure both sets; prints the tables, returns the figures."""
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
            if locomo is not None:
                asked = await ask_locomo(core, locomo)
                results["locomo"] = {n: turn_level(asked, r) for n, r in RANKINGS.items()}
                show(f"LoCoMo, turn level, {len(asked)} questions (%)", results["locomo"])
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval")
    parser.add_argument("locomo", type=Path, nargs="?", help="a JSON file in LoCoMo's format")
    asyncio.run(measure(parser.parse_args().locomo))


if __name__ == "__main__":
    main()
