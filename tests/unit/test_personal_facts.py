"""The evaluation set of personal facts: its sizes, its languages, and that its labels agree."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "retrieval" / "personal_facts.json"
OWNERS = {owner["name"]: owner for owner in json.loads(PATH.read_text(encoding="utf-8"))["owners"]}


@pytest.fixture(params=OWNERS)
def owner(request: pytest.FixtureRequest) -> dict[str, Any]:
    """One person after the other, each named after the language that they mostly write."""
    return OWNERS[request.param]


def test_facts_have_unique_ids_in_the_order_in_which_they_were_said(owner: dict[str, Any]) -> None:
    facts = owner["facts"]
    assert [fact["id"] for fact in facts] == [
        f"{owner['name']}-{number:03}" for number in range(1, len(facts) + 1)
    ]
    assert [fact["said_at"] for fact in facts] == sorted({fact["said_at"] for fact in facts})
    languages = Counter(fact["language"] for fact in facts)
    assert languages[owner["name"]] >= 0.8 * len(facts) and len(languages) >= 2


def test_a_question_has_the_kind_that_its_answers_give_it(owner: dict[str, Any]) -> None:
    facts = {fact["id"]: fact for fact in owner["facts"]}
    for question in owner["questions"]:
        languages = {facts[answer]["language"] for answer in question["answers"]}
        if question["kind"] == "cross_language":
            assert question["language"] not in languages, question
        else:
            assert languages == {question["language"]}, question
    kinds = Counter(question["kind"] for question in owner["questions"])
    assert kinds["paraphrase"] >= 0.45 * kinds.total() >= 30
    assert kinds["cross_language"] >= 0.35 * kinds.total() and kinds["same_words"]


def test_no_text_stands_twice_or_looks_like_an_address_of_somebody() -> None:
    for key in ("facts", "questions"):
        texts = [item["text"].lower() for owner in OWNERS.values() for item in owner[key]]
        assert len(set(texts)) == len(texts)
        assert not any(re.search(r"\d{5}|@|https?:|www\.", text) for text in texts)
