"""``python -m benchmarks.retrieval.persona_mem FOLDER > FILE``: PersonaMem in LoCoMo's format.

FOLDER holds ``documents.json`` and ``queries.json`` of a size (32k) of the repository
``vectorize-io/agent-memory-benchmark``: chats of 37 people with an assistant. Its gold ids are all
talks before a question, so that they tell no message from another. Here the evidence of a question
is the user's message in these talks that shares most with the right answer, by words that no wrong
answer has (rare ones count more); questions whose answers are new ideas have none, and are left
out. FILE goes to ``benchmarks.retrieval`` and ``benchmarks.retrieval.facts``.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from src.texts.morphology import terms

MESSAGE = re.compile(r"^\[(USER|ASSISTANT)\] (?:\w+: )?", re.M)
OPTION = re.compile(r"\n\([a-d]\) ")
NEW_IDEAS = "suggest_new_ideas"
FIRST_DAY = datetime(2025, 1, 6, 12, tzinfo=UTC)
MIN_SHARED = 3  # words of the right answer
QUESTION_CATEGORY = 1


def read_talk(content: str) -> list[tuple[str, str]]:
    """The speakers and texts of a talk."""
    _, *parts = MESSAGE.split(content)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [(role.lower(), text.strip()) for role, text in pairs]


def find_evidence(query: Mapping[str, Any], told: Mapping[str, str]) -> list[str]:
    """The id of the message that the right answer is about; none if no message shares enough."""
    if query["meta"]["question_type"] == NEW_IDEAS:
        return []
    right = query["gold_answers"][0][len("(a) ") :]
    wrong = [option for option in OPTION.split(query["query"])[1:] if option.strip() != right]
    own = {*terms(right)} - {term for option in wrong for term in terms(option)}
    words = {id_: {*terms(text)} for id_, text in told.items()}
    known = Counter(term for found in words.values() for term in found)
    scores = {
        id_: sum(math.log(1 + len(told) / known[term]) for term in own & found)
        for id_, found in words.items()
        if len(own & found) >= MIN_SHARED
    }
    return [max(scores, key=lambda id_: scores[id_])] if scores else []


def build_sample(
    documents: Sequence[Mapping[str, Any]], queries: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One person's talks and questions."""
    conversation: dict[str, Any] = {}
    told: dict[str, dict[str, str]] = {}
    for number, document in enumerate(documents, start=1):
        moment = FIRST_DAY + timedelta(weeks=number)
        conversation[f"session_{number}_date_time"] = f"{moment:%I:%M %p on %d %B, %Y}"
        turns = [
            {"speaker": speaker, "dia_id": f"D{number}:{place}", "text": text}
            for place, (speaker, text) in enumerate(read_talk(document["content"]), start=1)
        ]
        conversation[f"session_{number}"] = turns
        own = [turn for turn in turns if turn["speaker"] == "user"]
        told[document["id"]] = {turn["dia_id"]: turn["text"] for turn in own}
    asked = []
    for query in queries:
        before = {id_: t for gold in query["gold_ids"] for id_, t in told.get(gold, {}).items()}
        question = query["meta"]["retrieval_query"].partition("\n\n")[2].removeprefix("User: ")
        asked.append(
            {
                "question": question,
                "answer": query["gold_answers"][0],
                "evidence": find_evidence(query, before),
                "category": QUESTION_CATEGORY,
            }
        )
    return {"sample_id": documents[0]["user_id"], "conversation": conversation, "qa": asked}


def main() -> None:
    """Convert and print."""
    folder = Path(sys.argv[1])
    documents, queries = defaultdict(list), defaultdict(list)
    for document in json.loads((folder / "documents.json").read_text()):
        documents[document["user_id"]].append(document)
    for query in json.loads((folder / "queries.json").read_text()):
        queries[query["user_id"]].append(query)
    samples = [build_sample(documents[user], queries[user]) for user in documents]
    json.dump(samples, sys.stdout, ensure_ascii=False)


if __name__ == "__main__":
    main()
