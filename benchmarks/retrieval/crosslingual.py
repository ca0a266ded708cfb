"""``python -m benchmarks.retrieval.crosslingual``: told in one language, asked in another.

``crosslingual.toml`` has forty topics in Russian, Ukrainian and English. One person told all of
them in one language, among the personal facts of that language, and asks in the two others. The
table holds the recall at 3 of what the bot finds, of words alone and of meaning alone. Rules are
tuned on the topics at even places; ``--held-back`` measures those at odd places.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.retrieval.__main__ import FACTS, by
from src.base.config import Settings
from src.base.owners import Owner
from src.core import Core, open_core
from src.memory.queries import Query

TOPICS = Path(__file__).parent / "crosslingual.toml"
LANGUAGES = ("ru", "uk", "en")
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
CUT = 3


async def tell(core: Core, owner: Owner, topics: Sequence[Any], language: str) -> list[str]:
    """Store one person's notes; the uids of the topics' messages."""
    people = json.loads(FACTS.read_text())["owners"]
    facts = [f["text"] for person in people for f in person["facts"] if f["language"] == language]
    conversation = core.conversations.get_or_create_conversation(owner.telegram_user_id)
    uids = []
    for place, text in enumerate([*facts, *(topic["told"][language] for topic in topics)]):
        moment = START + timedelta(hours=8 * place)
        uids.append(core.conversations.append_message(conversation, "user", text, said_at=moment))
    await core.memory.indexer.index_conversation(conversation)
    await core.memory.indexer.embed_pending()
    return [f"msg-{message}" for message in uids[len(facts) :]]


async def find(core: Core, owner: Owner, text: str) -> dict[str, list[str]]:
    """The uids that each way finds, best first."""
    query = Query(owner, text, START + timedelta(days=90), limit=CUT)
    retriever = core.memory.retriever
    candidates, time = await retriever.find_candidates(query)
    by_words = [hit for hit in candidates if hit.match.bm25]
    return {
        "as the bot": [hit.uid for hit in await retriever.search(query)],
        "by words": by(lambda hit: hit.match.bm25)(by_words, text, time)[:CUT],
        "by words, embedder down": [
            hit.uid for hit in await retriever.search(replace(query, by_words_only=True))
        ],
        "by meaning": by(lambda hit: hit.match.cosine or -1.0)(candidates, text, time)[:CUT],
    }


async def measure(*, held_back: bool, verbose: bool) -> None:
    """Measure; prints the table."""
    topics = tomllib.loads(TOPICS.read_text())["topics"]
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="pomni-languages-") as folder:
        async with open_core(Settings(data_dir=Path(folder))) as core:
            await core.warm_up()
            for number, told in enumerate(LANGUAGES, start=1):
                uids = await tell(core, Owner(number), topics, told)
                for place, (topic, uid) in enumerate(zip(topics, uids, strict=True)):
                    if place % 2 != held_back:
                        continue
                    for asked in LANGUAGES:
                        group = "same language" if asked == told else topic["kind"]
                        text = topic["asked"][asked]
                        for way, order in (await find(core, Owner(number), text)).items():
                            found[way, group].append(uid in order)
                            if verbose and way == "as the bot" and uid not in order:
                                print(f"missed: {topic['told'][told]} <- {text}")
    kinds = list(dict.fromkeys(group for _, group in found))
    crossed = [kind for kind in kinds if kind != "same language"]
    print(f"recall at {CUT}, %{'':25}" + "".join(f"{kind:>15}" for kind in ["crossed", *kinds]))
    for way in dict.fromkeys(way for way, _ in found):
        together = [one for kind in crossed for one in found[way, kind]]
        cells = [together, *(found[way, kind] for kind in kinds)]
        row = "".join(f"{100 * fmean(cell):15.1f}" for cell in cells)
        print(f"{way:38}{row}   ({len(together)} crossed)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval.crosslingual")
    parser.add_argument("--held-back", action="store_true", help="the topics at odd places")
    parser.add_argument("--verbose", action="store_true", help="print what is not found")
    given = parser.parse_args()
    asyncio.run(measure(held_back=given.held_back, verbose=given.verbose))


if __name__ == "__main__":
    main()
