"""References in answers: what points to something stays, what the model made up goes."""

from __future__ import annotations

import pytest

from src.memory.citations import verify_numbers, verify_uids

KNOWN = {"msg-1", "msg-12", "mem-3", "sum-4"}


@pytest.mark.parametrize(
    ("answer", "expected", "numbers"),
    [
        ("Кот Барсик [1].", "Кот Барсик [1].", [1]),
        ("Кот Барсик[1].", "Кот Барсик[1].", [1]),
        ("Кот [2], пёс [1], кот [2].", "Кот [2], пёс [1], кот [2].", [1, 2]),
        ("Кот [3].", "Кот [3].", [3]),
        ("Кот [4].", "Кот.", []),
        ("Кот [0].", "Кот.", []),
        ("Кот [1][7] и пёс [999].", "Кот [1] и пёс.", [1]),
        ("Кот\t[7]\nПёс [1]", "Кот\nПёс [1]", [1]),
        ("Кот\n[7] и пёс", "Кот\n и пёс", []),
        ("[7]", "", []),
        ("", "", []),
    ],
)
def test_a_number_beyond_the_sources_goes_with_the_space_before_it(
    answer: str, expected: str, numbers: list[int]
) -> None:
    assert verify_numbers(answer, range(1, 4)) == (expected, numbers)


@pytest.mark.parametrize(
    ("answer", "expected", "numbers"),
    [
        ("Кот [1, 2].", "Кот [1][2].", [1, 2]),
        ("Кот [1,2;3].", "Кот [1][2][3].", [1, 2, 3]),
        ("Кот [1 , 9].", "Кот [1].", [1]),
        ("Кот [8, 9].", "Кот.", []),
        ("Кот [2; 7; 1]", "Кот [2][1]", [1, 2]),
    ],
)
def test_a_list_of_numbers_is_taken_apart(answer: str, expected: str, numbers: list[int]) -> None:
    assert verify_numbers(answer, range(1, 4)) == (expected, numbers)


@pytest.mark.parametrize(
    "answer",
    [
        "Смотрите [7](https://example.org/7) и [1, 2](https://example.org).",
        "В [2026] году, [01.03], [a], [x7], [-1], [1-2], [ 7 ], [], [1000]",
        "Список: [x] куплено, [ ] нет",
        "Сноска[^7]",
    ],
)
def test_other_brackets_are_no_references(answer: str) -> None:
    assert verify_numbers(answer, range(1, 4)) == (answer, [])


@pytest.mark.parametrize(
    "code",
    [
        "`names[0]`",
        "`a[1] + b[7, 8]`",
        "```python\nprint(names[0], names[9])\n```",
        "```\nx = y[7]",
        "```x[7]``` и `y[0]`",
    ],
)
def test_code_stays_as_it_is(code: str) -> None:
    assert verify_numbers(code, range(1, 4)) == (code, [])
    checked, numbers = verify_numbers(f"Вот [1][9]: {code}", range(1, 4))
    assert (checked, numbers) == (f"Вот [1]: {code}", [1])


def test_references_around_code_are_checked() -> None:
    answer = "Кот [1] `a[0]` пёс [9] ```b[9]``` рыба [2, 8] `c[7]`"
    expected = "Кот [1] `a[0]` пёс ```b[9]``` рыба [2] `c[7]`"
    assert verify_numbers(answer, range(1, 4)) == (expected, [1, 2])


@pytest.mark.parametrize(
    ("answer", "expected", "numbers"),
    [
        ("Люблю м`ясо [1] і п`ять яблук [7]", "Люблю м`ясо [1] і п`ять яблук", [1]),
        ("Кот ` один [1] и [7]", "Кот ` один [1] и", [1]),
        ("Кот `\n[1] [7]\n` и", "Кот `\n[1]\n` и", [1]),
    ],
)
def test_a_backtick_that_is_an_apostrophe_or_alone_hides_no_reference(
    answer: str, expected: str, numbers: list[int]
) -> None:
    assert verify_numbers(answer, range(1, 4)) == (expected, numbers)


def test_without_sources_no_number_stays() -> None:
    assert verify_numbers("Кот [1], пёс [2, 3].", range(1, 1)) == ("Кот, пёс.", [])


@pytest.mark.parametrize("answer", ["Кот [1].", "Кот [1, 9] `x[7]` [8]", "Кот [9] [2][3, 1]"])
def test_checking_twice_changes_nothing_more(answer: str) -> None:
    checked = verify_numbers(answer, range(1, 3))
    assert verify_numbers(checked[0], range(1, 3)) == checked


@pytest.mark.parametrize(
    ("answer", "expected", "uids"),
    [
        ("Київ [msg-1].", "Київ [msg-1].", ["msg-1"]),
        ("Київ[msg-12] [mem-3] [sum-4]", "Київ[msg-12] [mem-3] [sum-4]", None),
        ("Київ [msg-12], Львів [msg-1], Київ [msg-12]", None, ["msg-12", "msg-1"]),
        ("Київ [msg-2].", "Київ.", []),
        ("Київ [msg-1][msg-999], [mem-1].", "Київ [msg-1],.", ["msg-1"]),
        ("Київ [ msg-1 ].", "Київ [ msg-1 ].", ["msg-1"]),
        ("Київ [msg-1, msg-12].", "Київ [msg-1][msg-12].", ["msg-1", "msg-12"]),
        ("Київ [msg-1;msg-7 , mem-3].", "Київ [msg-1][mem-3].", ["msg-1", "mem-3"]),
        ("Київ [msg-7, msg-8].", "Київ.", []),
        ("Київ [msg-01] [msg-1x] [msg-]", "Київ [msg-]", []),
        ("[msg-1](https://example.org)", None, []),
        ("msg-1 (msg-12) [1]", None, []),
        ("", "", []),
    ],
)
def test_a_uid_that_was_not_in_the_context_is_dropped(
    answer: str, expected: str | None, uids: list[str] | None
) -> None:
    checked, cited = verify_uids(answer, KNOWN)
    assert checked == (answer if expected is None else expected)
    assert cited == (["msg-12", "mem-3", "sum-4"] if uids is None else uids)


def test_without_a_context_no_uid_stays() -> None:
    assert verify_uids("Київ [msg-1], [msg-12, mem-3].", ()) == ("Київ,.", [])


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "[1" * 30_000,
        "[msg-" * 20_000,
        "`" * 50_000,
        " " * 50_000,
        "[1" + " " * 50_000,
        "[msg-1" + " " * 50_000,
        "[ " * 30_000,
    ],
    ids=lambda text: text[:6],
)
def test_hostile_answers_are_read(text: str) -> None:
    assert verify_numbers(text, range(1, 1))[1] == []
    assert verify_uids(text, ())[1] == []
