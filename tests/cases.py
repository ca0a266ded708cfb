"""Property-based tests: a few random values in ``make test``, many in ``make proof``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

Test = Callable[..., Any]


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
