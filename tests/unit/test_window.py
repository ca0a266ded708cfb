"""The rendered window: at most 30 messages, and its start moves in steps."""

from __future__ import annotations

from itertools import pairwise

from src.history.new_messages import window_start
from tests.cases import for_each

LONG = 1000  # messages of a conversation
WINDOW = 30  # ``global_settings.history_messages``
STEPS = (1, 2, 3, 7, 10, 15, 29)  # of ``global_settings.history_step``, which allows 1 to 29


def starts(step: int, *, window: int = WINDOW) -> list[int]:
    """Where the window starts when the newest message is the first, the second, ..."""
    return [window_start(last, window=window, step=step) for last in range(1, LONG + 1)]


def test_a_conversation_that_fits_is_rendered_from_its_beginning() -> None:
    assert starts(10)[:WINDOW] == [1] * WINDOW
    assert window_start(0) == 1, "nothing was said yet"


def test_by_default_the_start_moves_by_ten_and_21_to_30_messages_are_rendered() -> None:
    assert starts(10)[29:52] == [1] + [11] * 10 + [21] * 10 + [31] * 2
    rendered = {last: last - start + 1 for last, start in enumerate(starts(10), start=1)}
    assert {count for last, count in rendered.items() if last > WINDOW} == set(range(21, 31))
    assert all(count == last for last, count in rendered.items() if last <= WINDOW)


@for_each("step", STEPS)
def test_the_start_only_moves_forward_and_only_by_whole_steps(step: int) -> None:
    moves = {after - before for before, after in pairwise(starts(step))}
    assert moves == {0, step} if step > 1 else moves == {0, 1}


@for_each("window", [30, 31, 100])
@for_each("step", STEPS)
def test_never_more_than_the_window_and_never_a_whole_step_less(step: int, window: int) -> None:
    for last, start in enumerate(starts(step, window=window), start=1):
        rendered = last - start + 1
        assert rendered <= window
        assert rendered > min(last, window) - step
        assert start % step == 1 % step, "a start is the first message of a step"


@for_each("step", STEPS)
def test_between_two_steps_the_window_stays_as_long_as_it_can(step: int) -> None:
    for last, (before, after) in enumerate(pairwise(starts(step)), start=2):
        if after > before:
            assert last - before + 1 > WINDOW, "it moved although the newest message fitted"
