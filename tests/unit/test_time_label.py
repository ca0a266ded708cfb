"""The time label: written before what users say, taken out of what models write."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from src.history.new_messages import (
    add_time_label,
    read_time_label,
    strip_time_label,
    window_start,
)

MOMENT = datetime(2026, 1, 31, 21, 30, tzinfo=UTC)
LABEL = "[Текущее время: 2026-02-01 00:30]"


@pytest.mark.parametrize(("zone", "expected"), [
    ("Europe/Moscow", "2026-02-01 00:30"), ("UTC", "2026-01-31 21:30"),
    ("Asia/Kathmandu", "2026-02-01 03:15"),
])  # fmt: skip
def test_the_label_is_the_local_time_of_the_message(zone: str, expected: str) -> None:
    assert add_time_label("привет", MOMENT, zone) == f"[Текущее время: {expected}] привет"
    summer = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
    assert "15:00" in add_time_label("", summer, "Europe/Kyiv")
    for text in ("привет", "[ссылка] и текст", "two\nlines", "", "] ["):
        for moment in (MOMENT, summer):
            labelled = add_time_label(text, moment, zone)
            assert (strip_time_label(labelled), read_time_label(labelled, zone)) == (text, moment)


@pytest.mark.parametrize("text", [
    "", "привет", f"привет {LABEL}", "[Текущее время: вчера] привет",
    "[Текущее время: 2026-02-30 00:30] привет", "[Текущее время: 2026-02-01 24:30] привет",
    "[Current time: 2026-02-01 00:30] hi",
])  # fmt: skip
def test_where_no_label_stands_no_moment_is_read(text: str) -> None:
    assert read_time_label(text, "Europe/Moscow") is None


@pytest.mark.parametrize(("text", "expected"), [
    (f"{LABEL} Привет", "Привет"), (f"  \n{LABEL}\n\nПривет", "Привет"),
    (f"{LABEL} {LABEL}Привет", "Привет"), ("[2026-02-01 00:30] Привет", "Привет"),
    ("[2026-02-01] Привет", "[2026-02-01] Привет"), (f"Привет {LABEL}", f"Привет {LABEL}"),
    ("[Текущее время: не закрыто", "[Текущее время: не закрыто"),
    ("[Текущее время:\n12] Привет", "[Текущее время:\n12] Привет"), ("[1] Привет", "[1] Привет"),
    ("(Текущее время: 2026-02-01 00:30) Да", "Да"), ("[Поточний час: 00:30] Так", "Так"),
    ("[Current time: 2026-02-01 00:30] Yes", "Yes"), ("(2026-02-01 00:30) Да",) * 2,
])  # fmt: skip
def test_only_labels_at_the_beginning_are_stripped(text: str, expected: str) -> None:
    assert strip_time_label(text) == expected


LONG = 1000  # messages of a conversation
WINDOW = 30  # ``global_settings.history_messages``
STEPS = (1, 2, 3, 7, 10, 15, 29)  # of ``global_settings.history_step``, which allows 1 to 29


def starts(step: int, *, window: int = WINDOW) -> list[int]:
    """Where the window starts when the newest message is the first, the second, ..."""
    return [window_start(last, window=window, step=step) for last in range(1, LONG + 1)]


def test_by_default_the_start_moves_by_ten_and_21_to_30_messages_are_rendered() -> None:
    assert starts(10)[29:52] == [1] + [11] * 10 + [21] * 10 + [31] * 2
    rendered = {last: last - start + 1 for last, start in enumerate(starts(10), start=1)}
    assert {count for last, count in rendered.items() if last > WINDOW} == set(range(21, 31))
    assert all(count == last for last, count in rendered.items() if last <= WINDOW)


@pytest.mark.parametrize("window", [30, 31, 100])
@pytest.mark.parametrize("step", STEPS)
def test_never_more_than_the_window_and_never_a_whole_step_less(step: int, window: int) -> None:
    for last, start in enumerate(starts(step, window=window), start=1):
        rendered = last - start + 1
        assert rendered <= window
        assert rendered > min(last, window) - step
        assert start % step == 1 % step, "a start is the first message of a step"
