"""References in answers: numbered as they are mentioned; what the model made up goes."""

from __future__ import annotations

from datetime import UTC, datetime

from src.memory.citations import memory_record, number_references
from src.memory.retrieval_repo import Hit
from tests.cases import for_each

SAID = datetime(2026, 3, 1, tzinfo=UTC)
NUMBERS = {"1": 1, "2": 2, "3": 3}
KNOWN = {"msg-1": 1, "msg-12": 12, "fact-3": 3, "summary-4": 4}


@for_each(("answer", "expected", "sources"), [
    ("Кот Барсик[1].", "Кот Барсик[1].", [1]),
    ("Кот [2], пёс [1], кот [2].", "Кот [1], пёс [2], кот [1].", [2, 1]),
    ("Кот [3].", "Кот [1].", [3]), ("Кот [4].", "Кот.", []),
    ("Кот [1][7] и пёс [999].", "Кот [1] и пёс.", [1]), ("Кот\t[7]\nПёс [1]", "Кот\nПёс [1]", [1]),
    ("Кот\n[7] и пёс", "Кот\n и пёс", []), ("[7]", "", []),
])  # fmt: skip
def test_numbers_follow_the_first_mention_and_those_of_nothing_go(
    answer: str, expected: str, sources: list[int]
) -> None:
    assert number_references(answer, NUMBERS) == (expected, sources)


@for_each(("answer", "expected", "sources"), [
    ("Кот [1, 2].", "Кот [1][2].", [1, 2]), ("Кот [1,2;3].", "Кот [1][2][3].", [1, 2, 3]),
    ("Кот [1 , 9].", "Кот [1].", [1]), ("Кот [8, 9].", "Кот.", []),
    ("Кот [2; 7; 1]", "Кот [1][2]", [2, 1]),
])  # fmt: skip
def test_a_list_of_numbers_is_taken_apart(answer: str, expected: str, sources: list[int]) -> None:
    assert number_references(answer, NUMBERS) == (expected, sources)


@for_each("answer", [
    "Смотрите [7](https://example.org/7) и [1, 2](https://example.org).",
    "В [2026] году, [01.03], [a], [x7], [-1], [1-2], [ 7 ], [], [1000]",
    "Список: [x] куплено, [ ] нет", "[msg-1](https://example.org)", "msg-1 (msg-12) [msg-]",
    "Отсортируйте [7, 4, 9]: [4, 7, 9]", "x = [1, 2], f([1, 2])", "Потом a[7] = 5",
])  # fmt: skip
def test_other_brackets_are_no_references(answer: str) -> None:
    assert number_references(answer, NUMBERS | KNOWN) == (answer, [])


@for_each("code", [
    "`names[0]`", "`a[1] + b[7, 8]`", "```python\nprint(names[0], names[9])\n```", "```\nx = y[7]",
    "```x[7]``` и `y[0]`",
])  # fmt: skip
def test_code_stays_as_it_is(code: str) -> None:
    assert number_references(code, NUMBERS) == (code, [])
    checked, sources = number_references(f"Вот [3][9]: {code}", NUMBERS)
    assert (checked, sources) == (f"Вот [1]: {code}", [3])


def test_references_around_code_are_checked() -> None:
    answer = "Кот [1] `a[0]` пёс [9] ```b[9]``` рыба [2, 8] `c[7]`"
    expected = "Кот [1] `a[0]` пёс ```b[9]``` рыба [2] `c[7]`"
    assert number_references(answer, NUMBERS) == (expected, [1, 2])


@for_each(("answer", "expected", "sources"), [
    ("Люблю м`ясо [1] і п`ять яблук [7]", "Люблю м`ясо [1] і п`ять яблук", [1]),
    ("Кот ` один [1] и [7]", "Кот ` один [1] и", [1]),
    ("Кот `\n[1] [7]\n` и", "Кот `\n[1]\n` и", [1]),
])  # fmt: skip
def test_a_backtick_that_is_an_apostrophe_or_alone_hides_no_reference(
    answer: str, expected: str, sources: list[int]
) -> None:
    assert number_references(answer, NUMBERS) == (expected, sources)


@for_each(("answer", "expected", "sources"), [
    ("Київ [1][1].", "Київ [1].", [1]), ("Київ [1] [ msg-1 ] [1], [1]", "Київ [1], [1]", [1]),
    ("Київ [1][12][1][7]", "Київ [1][2]", [1, 12]), ("Київ [msg-1, 1]", "Київ [1]", [1]),
    ("Київ [1]\n[1]", "Київ [1]\n[1]", [1]), ("`a[1][1]` [1]", "`a[1][1]` [1]", [1]),
])  # fmt: skip
def test_a_source_is_cited_once_in_a_place(answer: str, expected: str, sources: list[int]) -> None:
    known = {**KNOWN, "1": 1, "12": 12}
    assert number_references(answer, known) == (expected, sources)


def test_without_sources_no_reference_stays() -> None:
    assert number_references("Кот [1], пёс [2, 3].", {}) == ("Кот, пёс.", [])
    assert number_references("Київ [msg-1], [msg-12, mem-3].", {}) == ("Київ,.", [])


@for_each("answer", ["Кот [3].", "Кот [2, 9] `x[7]` [8]", "Кот [9] [2][3, 1]"])
def test_numbering_twice_changes_nothing_more(answer: str) -> None:
    checked, sources = number_references(answer, NUMBERS)
    known = {str(number): number for number in range(1, len(sources) + 1)}
    assert number_references(checked, known) == (checked, list(known.values()))


@for_each(("answer", "expected", "sources"), [
    ("Київ [msg-1].", "Київ [1].", [1]),
    ("Київ[msg-12] [fact-3] [summary-4]", "Київ[1] [2] [3]", [12, 3, 4]),
    ("Київ [msg-12], Львів [msg-1], Київ [msg-12]", "Київ [1], Львів [2], Київ [1]", [12, 1]),
    ("Київ [msg-1][msg-999], [fact-1].", "Київ [1],.", [1]),
    ("Київ [msg-1;msg-7 , fact-3].", "Київ [1][2].", [1, 3]),
    ("Київ [1] [msg-1]", "Київ [1]", [1]), ("Київ [msg-01] [msg-1x]", "Київ", []),
])  # fmt: skip
def test_a_shown_id_becomes_a_number(answer: str, expected: str, sources: list[int]) -> None:
    assert number_references(answer, KNOWN) == (expected, sources)


@for_each("own", [
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


@for_each("text", [
    "[" * 50_000, "[1" * 30_000, "[msg-" * 20_000, "`" * 50_000, " " * 50_000, "[1" + " " * 50_000,
    "[msg-1" + " " * 50_000, "[ " * 30_000, "a b [1] c, " * 5_000,
])  # fmt: skip
def test_hostile_answers_are_read(text: str) -> None:
    assert number_references(text, {})[1] == []
    assert number_references(text, {}, said=[text])[1] == []


def test_a_fact_that_is_over_is_told_as_past() -> None:
    hit = Hit("memory", 1, 1, "msg-1", "user", SAID, "Конференция 3 мая",
              valid_until=datetime(2026, 5, 4, tzinfo=UTC))  # fmt: skip
    assert memory_record(1, hit, "UTC")["note"] == "past: over since 2026-05-03, say that it was"
    ahead = Hit(**{**vars(hit), "valid_until": datetime(9000, 1, 1, tzinfo=UTC)})
    assert "note" not in memory_record(1, ahead, "UTC")
