"""Quality of the notebook's quotes (``python -m benchmarks.irrelevance``).

Invented people note half of the topics of ``irrelevance.toml`` and ask about all of them. The
questions of the personal facts are asked twice, once without their answers in the memory. Prints
one JSON line, in percent. For questions with a stored answer: ``answered`` (anything is quoted as
sure), ``hit`` (a right quote is among them), ``hit@1`` (it comes first), ``shown`` (a right one is
among the sure or, without any, the nearest). For questions without one: ``irrelevant`` (anything
is quoted as sure), ``nearest`` (anything is quoted). The memory is a temporary database.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import tomllib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.retrieval.__main__ import personal_questions
from src.base.config import Settings
from src.base.owners import Owner
from src.core import Core, open_core
from src.memory.queries import Query
from src.memory.retrieval_repo import Hit
from src.memory.thresholds import RELATED, WEAK
from src.memory.tools import MAX_LIMIT
from src.offline import replies

TOPICS = Path(__file__).with_name("irrelevance.toml")
WORLD = "world"  # topic whose questions no note answers
PEOPLE = (("en", 4), ("ru", 4), ("uk", 3))
BEGIN = datetime(2026, 11, 1, 9, tzinfo=UTC)


@dataclass(frozen=True)
class Case:
    """Question, records found, and uids of the right answers (none if it was never told)."""

    question: str
    records: Sequence[dict[str, Any]]
    right: frozenset[str]


def record(number: int, hit: Hit) -> dict[str, Any]:
    """Return a hit in the form that the tool ``search_memory`` gives the model."""
    return {
        "n": number,
        "uid": hit.uid,
        "text": hit.text,
        "said_at": f"{hit.said_at:%Y-%m-%d %H:%M}",
        "similarity": hit.match.similarity,
        "lexical": hit.match.bm25,
        "score": hit.match.score,
        "holds": not hit.retired,
    }


async def search(core: Core, owner: Owner, text: str, now: datetime) -> list[dict[str, Any]]:
    """Return the search results and the newest notes."""
    query = Query(owner, text, now, limit=MAX_LIMIT, threshold=WEAK * RELATED)
    hits = await core.memory.retriever.search(query)
    newest = await core.memory.retriever.search(replace(query, text="", types=["message"]))
    found = {hit.uid for hit in hits}
    hits += [hit for hit in newest if hit.uid not in found]
    return [record(place, hit) for place, hit in enumerate(hits, start=1)]


async def ask_people(core: Core) -> AsyncIterator[Case]:
    """Let each person note half of the topics, and yield questions about all of them."""
    topics: dict[str, dict[str, list[str]]] = tomllib.loads(TOPICS.read_text(encoding="utf-8"))
    people = [(language, n) for language, number in PEOPLE for n in range(number)]
    for person, (language, n) in enumerate(people, start=1000):
        conversation = core.conversations.get_or_create_conversation(person)
        told: dict[str, frozenset[str]] = {}
        moment = BEGIN
        for place, (topic, texts) in enumerate(topics.items()):
            if topic != WORLD and (place * (n + 3) // 2 + n) % 2:
                continue
            uids = set()
            for note in texts[language][0].split("|"):
                moment += timedelta(hours=7)  # a separate talk
                message = core.conversations.append_message(
                    conversation, "user", note, said_at=moment
                )
                uids.add(f"msg-{message}")
            told[topic] = frozenset(uids) if topic != WORLD else frozenset()
        await core.memory.indexer.index_conversation(conversation)
        await core.memory.indexer.embed_pending()
        for topic, texts in topics.items():
            for text in texts[language][1].split("|"):
                records = await search(core, Owner(person), text, moment + timedelta(days=1))
                yield Case(text, records, told.get(topic, frozenset()))


async def ask_personal(core: Core) -> AsyncIterator[Case]:
    """Yield the questions of the personal facts, with and without their answers."""
    async for asked in personal_questions(core):
        records = await search(core, asked.owner, asked.text, asked.now)
        yield Case(asked.text, records, asked.right)
        untold = [one for one in records if one["uid"] not in asked.right]
        yield Case(asked.text, untold, frozenset())


def measure(cases: Sequence[Case]) -> dict[str, float]:
    """Return the figures of all questions, in percent."""
    counts: Counter[str] = Counter()
    for case in cases:
        found = replies.match_notes(case.records, case.question)
        sure, nearest = ([one["uid"] for one in part] for part in (found.sure, found.nearest))
        shown = sure or nearest[: replies.QUOTED]
        if not case.right:
            counts.update(untold=1, irrelevant=bool(sure), nearest=bool(shown))
            continue
        counts.update(told=1, answered=bool(sure), hit=bool(case.right & set(sure)))
        counts["hit@1"] += bool(sure) and sure[0] in case.right
        counts["shown"] += bool(case.right & set(shown))
    of = {"irrelevant": "untold", "nearest": "untold"}
    return {"told": counts["told"], "untold": counts["untold"]} | {
        name: round(100 * counts[name] / counts[of.get(name, "told")], 1)
        for name in ("answered", "hit", "hit@1", "shown", "irrelevant", "nearest")
    }


async def gather() -> list[Case]:
    """Return all questions with their results in a temporary database."""
    with tempfile.TemporaryDirectory(prefix="pomni-irrelevance-") as folder:
        async with open_core(Settings(data_dir=Path(folder))) as core:
            await core.warm_up()
            people = [case async for case in ask_people(core)]
            return people + [case async for case in ask_personal(core)]


if __name__ == "__main__":
    print(json.dumps(measure(asyncio.run(gather()))))
