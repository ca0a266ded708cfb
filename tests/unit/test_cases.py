"""A table of cases that is one test runs every case, and tells of all that fail."""

from __future__ import annotations

import inspect

import pytest

from tests.cases import for_each


def test_every_failing_case_is_named_and_every_case_runs() -> None:
    ran = []

    @for_each("first", [1, 2])
    @for_each(("second", "third"), [(10, "a"), (20, "b"), (30, "c")])
    def check(first: int, second: int, third: str, given: str) -> None:
        ran.append((first, second, third, given))
        with pytest.raises(ZeroDivisionError):
            _ = 1 // (second - 10 * first)

    assert [*inspect.signature(check).parameters] == ["given"]
    with pytest.raises(AssertionError) as failed:
        check(given="x")
    assert ran == [(n, m, w, "x") for n in (1, 2) for m, w in ((10, "a"), (20, "b"), (30, "c"))]
    assert str(failed.value).startswith("2 of 2 fail:\n(1,)\n    AssertionError: 2 of 3 fail:")
    assert all(str(failed.value).count(case) == 1 for case in ("(10, 'a')", "(20, 'b')"))
    assert str(failed.value).count("(30, 'c')") == 2


async def test_an_asynchronous_check_is_awaited_and_a_passing_one_passes() -> None:
    ran = []

    @for_each("number", range(3))
    async def check(number: int) -> None:
        ran.append(number)

    await check()
    assert ran == [0, 1, 2]


def test_an_empty_table_fails() -> None:
    check = for_each("number", [])(lambda number: None)
    with pytest.raises(AssertionError, match="nothing to check"):
        check()
