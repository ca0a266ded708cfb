"""References in answers: numbered as they are mentioned; what the model made up goes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from src.memory.prompts import memory_record, number_references
from src.memory.retrieval_repo import Hit, Validity
from src.memory.search_index_repo import DocumentKind
from src.talk.graph_run import resolve_beginning, resolve_citations

SAID = datetime(2026, 3, 1, tzinfo=UTC)
NUMBERS = {"1": 1, "2": 2, "3": 3}


@pytest.mark.parametrize("answer", [
    "Смотрите [7](https://example.org/7) и [1, 2](https://example.org).",
    "В [2026] году, [01.03], [a], [x7], [-1], [1-2], [ 7 ], [], [1000]",
    "Список: [x] куплено, [ ] нет", "[msg-1](https://example.org)", "msg-1 (msg-12) [msg-]",
    "Отсортируйте [7, 4, 9]: [4, 7, 9]", "x = [1, 2], f([1, 2])", "Потом a[7] = 5",
])  # fmt: skip
def test_other_brackets_are_no_references(answer: str) -> None:
    assert number_references(answer, SHOWN) == (answer, [])


@pytest.mark.parametrize("code", [
    "`names[0]`", "`a[1] + b[7, 8]`", "```python\nprint(names[0], names[9])\n```", "```\nx = y[7]",
    "```x[7]``` и `y[0]`",
])  # fmt: skip
def test_code_stays_as_it_is(code: str) -> None:
    assert number_references(code, NUMBERS) == (code, [])
    checked, sources = number_references(f"Вот [3][9]: {code}", NUMBERS)
    assert (checked, sources) == (f"Вот [1]: {code}", [3])


@pytest.mark.parametrize("own", [
    "список [2] в файле", "[1] молоко и хлеб", "ссылка на [msg-1] и [msg-9] тут",
    "пункты [1, 2] выполнены вчера",
])  # fmt: skip
def test_what_the_user_wrote_in_brackets_stays_as_he_wrote_it(own: str) -> None:
    said = f"У меня три кота, {own}. Вот так."
    answer = f"Вы говорили: «{own}» [3], а не [2]."
    numbered = f"Вы говорили: «{own}» [1], а не [2]."
    assert number_references(answer, NUMBERS, said=[said]) == (numbered, [3, 2])


def test_a_reference_after_a_short_word_of_the_user_still_counts() -> None:
    assert number_references("Кот [2]", NUMBERS, said=["Кот [2]"]) == ("Кот [1]", [2])


def test_a_fact_that_is_over_is_told_as_past() -> None:
    hit = Hit("memory", 1, 1, "msg-1", "user", SAID, "Конференция 3 мая",
              validity=Validity(end=datetime(2026, 5, 4, tzinfo=UTC)))  # fmt: skip
    assert memory_record(1, hit, "UTC")["note"] == "past: over since 2026-05-03, say that it was"
    ahead = replace(hit, validity=Validity(end=datetime(9000, 1, 1, tzinfo=UTC)))
    assert "note" not in memory_record(1, ahead, "UTC")


SHOWN = {"1": 1, "2": 2, "3": 3, "12": 12, "msg-1": 1, "msg-12": 12, "fact-3": 3, "summary-4": 4}


@pytest.mark.parametrize(("answer", "expected", "sources"), [
    # Numbers follow the first mention, and those of nothing go.
    ("Кот Барсик[1].", "Кот Барсик[1].", [1]), ("Кот [3].", "Кот [1].", [3]),
    ("Кот [2], пёс [1], кот [2].", "Кот [1], пёс [2], кот [1].", [2, 1]),
    ("Кот [4].", "Кот.", []), ("Кот [1][7] и пёс [999].", "Кот [1] и пёс.", [1]),
    ("Кот\t[7]\nПёс [1]", "Кот\nПёс [1]", [1]), ("Кот\n[7] и пёс", "Кот\n и пёс", []),
    ("[7]", "", []),
    # A list is taken apart.
    ("Кот [1,2;3].", "Кот [1][2][3].", [1, 2, 3]), ("Кот [1 , 9].", "Кот [1].", [1]),
    ("Кот [8, 9].", "Кот.", []), ("Кот [2; 7; 1]", "Кот [1][2]", [2, 1]),
    # Code stays; a backtick that is an apostrophe or alone hides nothing.
    ("Кот [1] `a[0]` пёс [9] ```b[9]``` рыба [2, 8] `c[7]`",
     "Кот [1] `a[0]` пёс ```b[9]``` рыба [2] `c[7]`", [1, 2]),
    ("Люблю м`ясо [1] і п`ять яблук [7]", "Люблю м`ясо [1] і п`ять яблук", [1]),
    ("Кот `\n[1] [7]\n` и", "Кот `\n[1]\n` и", [1]),
    # A source is cited once in a place.
    ("Київ [1] [ msg-1 ] [1], [1]", "Київ [1], [1]", [1]), ("Київ [msg-1, 1]", "Київ [1]", [1]),
    ("Київ [1][12][1][7]", "Київ [1][2]", [1, 12]), ("Київ [1]\n[1]", "Київ [1]\n[1]", [1]),
    ("`a[1][1]` [1]", "`a[1][1]` [1]", [1]),
    # A shown id becomes a number.
    ("Київ[msg-12] [fact-3] [summary-4]", "Київ[1] [2] [3]", [12, 3, 4]),
    ("Київ [msg-12], Львів [msg-1], Київ [msg-12]", "Київ [1], Львів [2], Київ [1]", [12, 1]),
    ("Київ [msg-1][msg-999], [fact-1].", "Київ [1],.", [1]),
    ("Київ [msg-1;msg-7 , fact-3].", "Київ [1][2].", [1, 3]),
    ("Київ [msg-01] [msg-1x]", "Київ", []),
])  # fmt: skip
def test_references_are_numbered_as_they_are_mentioned(
    answer: str, expected: str, sources: list[int]
) -> None:
    assert number_references(answer, SHOWN) == (expected, sources)
    assert "[" not in number_references("Кот [1], пёс [msg-1, 3].", {})[0]


NOW = datetime(2026, 11, 20, tzinfo=UTC)


def hit(number: int, kind: DocumentKind = "message", speaker: str = "user") -> Hit:
    return Hit(kind, number, number, f"msg-{number}", speaker, NOW, "текст")


def test_a_reference_leads_to_what_the_user_said_or_it_goes() -> None:
    shown = [hit(1), hit(2, "summary"), hit(3, speaker="assistant"), hit(4, "memory")]
    text, sources = resolve_citations(
        "Да [1], так [2], эдак [3], всегда [4, 5].", shown, asked="?"
    )
    assert text == "Да [1], так, эдак, всегда [2]."
    assert [(s.number, s.uid, s.message_id, s.memory_id) for s in sources] == [
        (1, "msg-1", 1, None),
        (2, "msg-4", 4, 4),
    ]


ANSWERS = [
    "Кот [6], пёс [2][6], рыба [fact-9], ёж [msg-7] [3].",
    "Кот [2, 7; 1] и [ссылка](https://b.example/[1]) и [4](https://b.example).",
    "Код `a[0]` и `b[7]`: [5]\n```py\nx[3] = y[9]\n```\nи ещё [3] [9]", "```\nx[1]",
    "м`ясо [3] і п`ять [9] `", "Открытая [скобка [7 и всё", "Пробелы   [9]   и [1]", "[7]", "",
    "Дважды [3][3] [3], `x` [3], [3]\n[3]",
]  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_growing_answer_shows_what_the_whole_will_say(answer: str) -> None:
    shown = [hit(number) for number in range(1, 8)]
    whole, _ = resolve_citations(answer, shown, asked="?")
    for end in range(len(answer) + 1):
        assert whole.startswith(resolve_beginning(answer[:end], shown, asked="?"))


@pytest.mark.parametrize("piece", ["`", "[", "a[", " ", "[1", "``", "`a"])
def test_a_growing_answer_holds_little_back(piece: str) -> None:
    text = f"{piece}слово" * 5_000
    assert len(text) - len(resolve_beginning(text, [], asked="?")) <= 70
