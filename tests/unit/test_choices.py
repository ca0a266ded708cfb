"""Which of two facts holds, in the words of our users."""

from __future__ import annotations

import pytest

from src.history.conversation_repo import HistoryMessage
from src.talk.orders import question_before, reads_as_choice
from src.texts import LANGUAGES, say

SAID = {
    "replace": (
        "Замени", "замени!", "Заменить", "поменяй", "Новое", "верно новое", "запомни новое",
        "Заміни", "Замінити", "замініть", "залиш нове", "нове правильне", "онови",
        "Replace it", "replace", "the new one", "use the new one", "New one is right", "update it",
    ),
    "both": (
        "оставь оба", "Оба", "обе верны", "и то и другое", "Оставить оба", "пусть будут оба",
        "Залиш обидва", "обидва", "і те, і інше", "Залишити обидва", "keep both", "Both!",
        "both are right", "save both of them",
    ),
    "old": (
        "Оставь прежнее", "оставить прежнее", "старое", "не меняй", "оставь как было",
        "залиш попереднє", "Залишити попереднє", "не змінюй", "старе", "keep the old one",
        "Keep old", "the previous one", "don't replace it", "keep it",
    ),
}  # fmt: skip
OTHER = (
    "", "нет", "yes", "Замени масло в машине", "новое платье купила", "keep both dogs inside",
    "the new one is a cat", "я живу в новом доме", "напиши новое письмо",
    "replace the tyre tomorrow", "keep", "залиш", "верно",
)  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "words"), [(choice, words) for choice, all_ in SAID.items() for words in all_]
)
def test_a_decision_is_understood(choice: str, words: str) -> None:
    assert reads_as_choice(words) == choice
    assert reads_as_choice(f" «{words}». ") == choice


@pytest.mark.parametrize("words", OTHER)
def test_anything_else_is_no_decision(words: str) -> None:
    assert reads_as_choice(words) is None


def test_what_the_buttons_and_the_question_say_is_understood() -> None:
    for language in LANGUAGES:
        for choice in SAID:
            assert reads_as_choice(say(f"conflict_{choice}", language)) == choice
        for part in say("conflict_ask", language).replace("“", "«").split("«")[1:]:
            assert reads_as_choice(part.rstrip("».”, ").rstrip("»,”")) is not None


def entry(role: str, asks: str | None = None) -> HistoryMessage:
    return {"id": 1, "role": role, "content": "x", "position": 1, "asks": asks}  # type: ignore[typeddict-item]


def test_only_the_answer_right_before_counts() -> None:
    question, told, new = entry("assistant", "conflict"), entry("assistant"), entry("user")
    assert question_before([question, new], "conflict") == question
    assert question_before([question, entry("system"), new], "conflict") == question
    assert question_before([question, entry("user"), new], "conflict") is None
    assert question_before([question, entry("user"), told, new], "conflict") is None
    assert question_before([new], "conflict") is None
