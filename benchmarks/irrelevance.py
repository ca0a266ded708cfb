"""``python -m benchmarks.irrelevance``: what the offline model answers when it was never told.

Each question of the personal facts is asked twice of a memory that holds a person's facts: once
as it is, once as if its answer had never been told. Prints one JSON line, in percent:
``answered`` (some quote is given), ``hit`` (the right one is among them), ``hit@1`` (it is the
first), ``searched@1`` (it is the search's first, for comparison), and ``irrelevant``: something is
quoted although nothing of it was told. The memory is a throw-away database.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.retrieval.__main__ import personal_questions
from src.base.config import Settings
from src.core import Core, open_core
from src.memory.retriever import Hit, Query
from src.memory.tools import LEAST, MAX_LIMIT
from src.offline.replies import quote_found
from src.texts import detect_language


def record(number: int, hit: Hit) -> dict[str, Any]:
    """A hit as the tool ``search_memory`` hands it to the model."""
    return {
        "n": number,
        "uid": hit.uid,
        "text": hit.text,
        "said_at": f"{hit.said_at:%Y-%m-%d %H:%M}",
        "similarity": hit.similarity,
        "holds": not hit.retired,
    }


def quoted(records: list[dict[str, Any]], question: str) -> list[str]:
    """The messages that the answer quotes, in its order; none when it says it does not know."""
    answer = quote_found({"memories": records}, question, detect_language(question, "ru"))
    uids = {str(entry["n"]): str(entry["uid"]) for entry in records}
    lines = (answer or "").splitlines()
    numbers = (line.rpartition("[")[2].rstrip("]") for line in lines if line.endswith("]"))
    return [uids[number] for number in numbers]


async def measure(core: Core) -> dict[str, float]:
    """Ask all questions, with and without the answer."""
    counts: Counter[str] = Counter()
    async for question in personal_questions(core):
        query = Query(
            question.owner, question.text, question.now, limit=MAX_LIMIT, threshold=LEAST
        )  # fmt: skip
        hits = await core.memory.retriever.search(query)
        records = [record(place, hit) for place, hit in enumerate(hits, start=1)]
        given = quoted(records, question.text)
        untold = quoted([r for r in records if r["uid"] not in question.right], question.text)
        counts.update(
            questions=1,
            answered=bool(given),
            hit=bool(question.right & set(given)),
            **{"hit@1": bool(given) and given[0] in question.right},
            **{"searched@1": bool(hits) and hits[0].uid in question.right},
            irrelevant=bool(untold),
        )
    total = counts.pop("questions")
    return {"questions": total} | {
        name: round(100 * count / total, 1) for name, count in counts.items()
    }


async def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="pomni-irrelevance-") as folder:
        async with open_core(Settings(_env_file=None, data_dir=Path(folder))) as core:
            await core.warm_up()
            print(json.dumps(await measure(core)))


if __name__ == "__main__":
    asyncio.run(main())
