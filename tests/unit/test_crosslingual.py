"""Terms of a question in three languages and both scripts."""

from __future__ import annotations

import pytest

from src.memory.crosslingual import may_be_same_name, term_groups
from src.texts.morphology import terms


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
    ],
)
def test_a_question_is_searched_by_the_words_of_other_languages(question: str, note: str) -> None:
    assert meets(question, note)


def test_a_word_that_stands_for_nothing_else_is_searched_as_it_is() -> None:
    assert term_groups("Почему дельтаплан?") == [("дель",)]
    assert not meets("мой материал", "my mother"), "only its own forms stand for a mother"
    assert not meets("Where is it?", "Вгерд")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("олег", "oleh", True), ("наталья", "nataliia", True), ("олег", "ivan", False),
     ("олег", "ольга", False), ("ann", "anna", False)],
)  # fmt: skip
def test_names_are_compared_across_scripts_alone(one: str, other: str, same: bool) -> None:
    assert may_be_same_name(one, other) is same
    assert may_be_same_name(other, one) is same
