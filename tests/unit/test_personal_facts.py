"""The evaluation set of personal facts: its sizes, its languages, and that its labels agree."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tests.cases import for_each

PATH = Path(__file__).parents[2] / "benchmarks" / "retrieval" / "personal_facts.json"
OWNERS = ("ru", "uk", "en")  # each is named after the language that this person mostly writes
KINDS = {"paraphrase", "cross_language", "same_words"}
LETTERS = {
    "ru": re.compile(r"[а-яё]", re.IGNORECASE),
    "uk": re.compile(r"[абвгґдеєжзиіїйклмнопрстуфхцчшщьюя]", re.IGNORECASE),
    "en": re.compile(r"[a-z]", re.IGNORECASE),
}
FIRST_DAY, LAST_DAY = date(2025, 12, 1), date(2026, 11, 30)
STEM = 4  # letters; a crude stem that serves all three languages

Item = dict[str, Any]


@pytest.fixture(scope="module")
def data() -> Item:
    """The whole file."""
    return json.loads(PATH.read_text(encoding="utf-8"))


@pytest.fixture(params=OWNERS)
def owner(request: pytest.FixtureRequest, data: Item) -> Item:
    """One person after the other."""
    return next(person for person in data["owners"] if person["name"] == request.param)


def every(data: Item, key: str) -> list[Item]:
    """The facts or the questions of all owners."""
    return [item for person in data["owners"] for item in person[key]]


def answers_of(owner: Item, question: Item) -> list[Item]:
    """The facts that answer the question."""
    facts = {fact["id"]: fact for fact in owner["facts"]}
    return [facts[answer] for answer in question["answers"]]


def stems(text: str) -> set[str]:
    """The beginnings of the longer words, and the numbers."""
    words = re.findall(r"\w+", re.sub("[’']", "", text.lower()))
    return {word[:STEM] for word in words if len(word) >= STEM or word.isdigit()}


def shared(owner: Item, question: Item) -> float:
    """How much of the question stands in its closest answer, 0 to 1."""
    asked = stems(question["text"])
    found = [len(asked & stems(fact["text"])) for fact in answers_of(owner, question)]
    return max(found) / max(1, len(asked))


def folded(text: str) -> str:
    """The words alone, so that case and punctuation do not hide a duplicate."""
    return " ".join(re.findall(r"\w+", text.lower()))


def test_the_file_holds_nothing_but_the_documented_fields(data: Item) -> None:
    assert data.keys() == {"about", "owners"} and data["about"].count(".") == 1
    assert [person["name"] for person in data["owners"]] == list(OWNERS)
    assert all(person.keys() == {"name", "facts", "questions"} for person in data["owners"])
    for fact in every(data, "facts"):
        assert fact.keys() == {"id", "language", "said_at", "text"}
    for question in every(data, "questions"):
        assert question.keys() == {"language", "text", "answers", "kind"}
        assert question["kind"] in KINDS


def test_there_are_enough_facts_and_questions(owner: Item) -> None:
    assert len(owner["facts"]) >= 45
    assert len(owner["questions"]) >= 75


def test_ids_are_unique_and_carry_their_owners_name(owner: Item) -> None:
    expected = [f"{owner['name']}-{number + 1:03}" for number in range(len(owner["facts"]))]
    assert [fact["id"] for fact in owner["facts"]] == expected


def test_each_question_is_answered_by_one_or_two_facts_of_its_owner(owner: Item) -> None:
    known = {fact["id"] for fact in owner["facts"]}
    for question in owner["questions"]:
        answers = question["answers"]
        assert 1 <= len(answers) <= 2, question
        assert len(set(answers)) == len(answers) and known.issuperset(answers), question


def test_the_kinds_have_their_shares(owner: Item) -> None:
    kinds = Counter(question["kind"] for question in owner["questions"])
    assert kinds["paraphrase"] >= 0.45 * kinds.total()
    assert kinds["cross_language"] >= 0.35 * kinds.total()
    assert kinds["same_words"] >= 0.05 * kinds.total()


def test_only_a_cross_language_question_leaves_the_language_of_its_answers(owner: Item) -> None:
    for question in owner["questions"]:
        languages = {fact["language"] for fact in answers_of(owner, question)}
        if question["kind"] == "cross_language":
            assert question["language"] not in languages, question
        else:
            assert languages == {question["language"]}, question


def test_a_paraphrase_shares_few_words_with_its_answer(owner: Item) -> None:
    share = {
        kind: [shared(owner, item) for item in owner["questions"] if item["kind"] == kind]
        for kind in KINDS
    }
    assert mean(share["paraphrase"]) < 0.25
    assert mean(share["same_words"]) > 0.5 and min(share["same_words"]) > 0


def test_an_owner_mostly_writes_one_language_but_knows_another(owner: Item) -> None:
    languages = Counter(fact["language"] for fact in owner["facts"])
    assert languages[owner["name"]] >= 0.8 * languages.total()
    assert len(languages) >= 2


def test_every_letter_belongs_to_the_stated_language(data: Item) -> None:
    for item in every(data, "facts") + every(data, "questions"):
        letters = [sign for sign in item["text"] if sign.isalpha()]
        strange = [sign for sign in letters if not LETTERS[item["language"]].fullmatch(sign)]
        assert letters and not strange, (item["text"], strange)


@for_each("key", ["facts", "questions"])
@for_each("letters", ["іїєґ’'", "ыэё"])
def test_ukrainian_and_russian_texts_have_letters_of_their_own(
    data: Item, key: str, letters: str
) -> None:
    language = "uk" if "і" in letters else "ru"
    texts = [item["text"].lower() for item in every(data, key) if item["language"] == language]
    own = [sum(letters.count(sign) for sign in text) for text in texts]
    assert sum(count > 0 for count in own) >= 0.4 * len(texts)


def test_facts_are_in_the_order_in_which_they_were_said(owner: Item) -> None:
    moments = [datetime.fromisoformat(fact["said_at"]) for fact in owner["facts"]]
    assert all(moment.utcoffset() is not None for moment in moments)
    assert all(earlier < later for earlier, later in pairwise(moments))
    days = [moment.date() for moment in moments]
    assert days[0] >= FIRST_DAY and days[-1] <= LAST_DAY
    assert len({(day.year, day.month) for day in days}) == 12


@for_each("key", ["facts", "questions"])
def test_no_text_stands_twice(data: Item, key: str) -> None:
    texts = Counter(folded(item["text"]) for item in every(data, key))
    assert [text for text, count in texts.items() if count > 1] == []


def test_facts_are_short_statements_and_questions_are_short_questions(data: Item) -> None:
    for fact in every(data, "facts"):
        assert 3 <= len(fact["text"].split()) <= 20 and "?" not in fact["text"], fact
    for question in every(data, "questions"):
        assert 2 <= len(question["text"].split()) <= 15, question
        assert question["text"].endswith("?"), question


def test_no_fact_contains_its_question(owner: Item) -> None:
    for question in owner["questions"]:
        for fact in answers_of(owner, question):
            assert folded(question["text"]) not in folded(fact["text"])


def test_nothing_looks_like_a_phone_number_or_an_address_on_the_net(data: Item) -> None:
    for item in every(data, "facts") + every(data, "questions"):
        assert not re.search(r"\d{5}|@|https?:|www\.", item["text"]), item
