"""Table-driven tests that report all failing rows, and property-based tests."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

Test = Callable[..., Any]


class Failures:
    """Failures of independent checks."""

    def __init__(self) -> None:
        self._found: list[tuple[str, BaseException]] = []
        self._checks = 0

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Run a check and record its failure."""
        self._checks += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  (reported)
            self._found.append((name, error))

    def report(self) -> None:
        """Raise if a check failed or if no check was run.

        Raises:
            AssertionError: With the name and failure of each check, and the first one's traceback.
        """
        assert self._checks, "there is nothing to check"
        if self._found:
            texts = [f"{name}\n    {type(e).__name__}: {e}" for name, e in self._found]
            head = f"{len(texts)} of {self._checks} fail:"
            raise AssertionError("\n".join([head, *texts])) from self._found[0][1]


def for_each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each row, as ``pytest.mark.parametrize`` does, but within one test.

    Collecting thousands of parametrized tests takes longer than running them. Fixtures are created
    once for all rows. Two of these decorators form a product.
    """
    fields = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    table = [(row,) if len(fields) == 1 and isinstance(names, str) else (*row,) for row in rows]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures = Failures()
            for row in table:
                with failures.of(f"{row!r:.300}"):
                    test(**fixtures, **dict(zip(fields, row, strict=True)))
            failures.report()

        @functools.wraps(test)
        async def run_async(**fixtures: Any) -> None:
            failures = Failures()
            for row in table:
                with failures.of(f"{row!r:.300}"):
                    await test(**fixtures, **dict(zip(fields, row, strict=True)))
            failures.report()

        wrapper = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        fixture_parameters = [p for name, p in signature.parameters.items() if name not in fields]
        wrapper.__signature__ = signature.replace(parameters=fixture_parameters)  # type: ignore[attr-defined]
        return wrapper

    return decorate


def for_random(
    *values: SearchStrategy[Any], few: int, many: int
) -> Callable[[Test], Callable[[int], None]]:
    """Run a test with random values: ``few`` in ``make test``, ``many`` in ``make proof``."""

    def decorate(test: Test) -> Callable[[int], None]:
        @pytest.mark.parametrize("tries", [few, pytest.param(many, marks=pytest.mark.proof)])
        def run(tries: int) -> None:
            settings(max_examples=tries, deadline=None)(given(*values)(test))()

        run.__name__, run.__qualname__, run.__doc__ = (
            test.__name__, test.__qualname__, test.__doc__,
        )  # fmt: skip
        run.__module__ = test.__module__
        return run

    return decorate
