"""What counts before the question does: other things among people than with an assistant."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from src.memory.queries import may_be_same_name, term_groups
from src.memory.retrieval_repo import Hit, Match, Validity
from src.memory.retriever import rank
from src.reading.time_expressions import read_time
from src.texts.morphology import terms

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(days=9)
LONG = "We went there together and saw the old harbour with all of its many little boats"
ASKED = ("Where were we?", read_time("Where were we?", NOON))


def said(number: int, text: str, speaker: str) -> Hit:
    """A message of a talk of its own, as near to the question as all others."""
    moment = NOON + timedelta(days=number)
    return Hit(
        "message", number, number, f"msg-{number}", speaker, moment, text, match=Match(cosine=0.3)
    )


def order(speaker: str, *texts: str, question: str = "Where were we?") -> list[str]:
    documents = [said(number, text, speaker) for number, text in enumerate(texts)]
    ranked = rank(documents, question, read_time(question, NOON))
    return [entry.text for entry in ranked]


def test_a_fact_that_is_over_comes_after_one_that_holds() -> None:
    over = replace(
        said(1, "In Riga until Friday", "user"), kind="memory", validity=Validity(end=LATER)
    )
    holds = replace(said(1, "In Riga for good", "user"), kind="memory", source_id=2, uid="msg-2")
    asked = read_time("Where were we?", LATER + timedelta(days=1))
    for facts in ([over, holds], [holds, over]):
        assert [hit.text for hit in rank(facts, "Where?", asked)] == [holds.text, over.text]
    assert over.is_over(LATER) and not over.is_over(LATER - timedelta(seconds=1))
    told_later = replace(over, said_at=LATER + timedelta(days=1))
    assert not told_later.is_over(LATER + timedelta(days=2)), "it had ended when it was told"


def test_of_two_that_differ_in_the_value_the_newer_one_comes_first() -> None:
    old = replace(said(1, "My brother's hobby is chess", "user"), match=Match(0.5, 4.0))
    new = replace(said(5, "now my brother's hobby is pottery", "user"), match=Match(0.4, 4.0))
    other = replace(said(6, "my brother is home", "user"), match=Match(0.3, 1.0))
    asked = read_time("What is my brother's hobby?", LATER)
    assert [hit.text for hit in rank([old, new, other], "hobby?", asked)] == [
        new.text, old.text, other.text,
    ]  # fmt: skip
    of_sister = replace(new, text="my sister's hobby is pottery", match=Match(0.4, 2.0))
    assert rank([old, of_sister], "hobby?", asked)[0].text == old.text


def test_a_fact_counts_for_its_message_where_few_messages_told_one() -> None:
    plain = [said(number, f"word {number}", "user") for number in range(1, 9)]
    [told, *others] = [replace(hit, tells_fact=True) for hit in plain[7:]] + plain[:7]
    asked = read_time("Where?", LATER)
    assert rank([told, *others], "Where?", asked)[0].uid == told.uid
    everyone = [replace(hit, tells_fact=True) for hit in plain]
    assert len({hit.match.score for hit in rank(everyone, "Where?", asked)}) == 1


def test_among_people_long_turns_come_first_and_questions_last() -> None:
    assert order("Ann", "Boats?", "Boats.", LONG) == [LONG, "Boats.", "Boats?"]


def test_with_an_assistant_neither_length_nor_the_question_mark_counts() -> None:
    for texts in (("Boats?", "Boats.", LONG), (LONG, "Boats?", "Boats.")):
        assert order("user", *texts) == [*texts]


def test_a_number_answers_when_among_people_alone() -> None:
    texts = ("We met soon after", "We met at 9 sharp")
    assert order("Ann", *texts, question="When did we meet?")[0] == "We met at 9 sharp"
    assert order("user", *texts, question="When did we meet?") == [*texts]


@pytest.mark.parametrize("wish", [
    "Always format dates as day-month-year when I ask about deadlines.",
    "Всегда отвечай мне коротко, когда я спрашиваю о коде.",
    "Завжди відповідай коротко.",
])  # fmt: skip
def test_a_wish_about_answers_comes_before_what_is_as_near(wish: str) -> None:
    assert order("user", LONG, wish)[0] == wish
    assert order("Ann", LONG, wish)[0] == LONG, "people wish it of each other"


def test_a_wish_that_was_taken_back_gains_nothing() -> None:
    wish = said(2, "Always answer in one sentence.", "user")
    ranked = rank(
        [said(1, LONG, "user"), replace(wish, validity=Validity(retired_at=NOON))], *ASKED
    )
    assert ranked[0].text == LONG


def test_what_shares_words_and_has_no_vector_comes_before_what_is_only_near() -> None:
    near, both = said(1, "Boats", "user"), replace(said(2, LONG, "user"), match=Match(0.4, 2.0))
    answered = replace(said(3, "Take a boat", "assistant"), match=Match(None, 0.5))
    far = replace(said(4, "Bye", "user"), match=Match())
    ranked = rank([far, near, answered, both], *ASKED)
    assert [hit.source_id for hit in ranked] == [2, 3, 1, 4]
    assert ranked[1].match.cosine is None, "what is shown stays as it is"


def meets(question: str, note: str) -> bool:
    """Whether a question is searched by a word of the note."""
    told = set(terms(note))
    return any(told.intersection(group) for group in term_groups(question))


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("What did my mother bake?", "маме нравится печь"),
        ("Що в холодильнику?", "the fridge is empty"),
        ("When is Olga back?", "Ольга вернулась"),
        ("Zhenya called", "Женя звонил"),
        ("Звідки Ева?", "эва из Брно"),
        ("Где живёт Элина?", "Еліна живе в Луцьку"),
    ],
)
def test_a_question_is_searched_by_the_words_of_other_languages(question: str, note: str) -> None:
    assert meets(question, note)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("олег", "oleh", True), ("наталья", "nataliia", True), ("олег", "ivan", False),
     ("олег", "ольга", False), ("ann", "anna", False), ("эмма", "емма", True)],
)  # fmt: skip
def test_names_are_compared_across_scripts_alone(one: str, other: str, same: bool) -> None:
    assert may_be_same_name(one, other) is same
    assert may_be_same_name(other, one) is same
