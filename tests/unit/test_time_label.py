"""The time label: written before what users say, taken out of what models write."""

from __future__ import annotations

from datetime import UTC, datetime

from src.history.new_messages import LabelFilter, add_time_label, read_time_label, strip_time_label
from tests.cases import for_each

MOMENT = datetime(2026, 1, 31, 21, 30, tzinfo=UTC)
LABEL = "[Текущее время: 2026-02-01 00:30]"


def filtered(pieces: list[str]) -> list[str]:
    """What is shown after each piece, and at the end."""
    label_filter = LabelFilter()
    return [*(label_filter.feed(piece) for piece in pieces), label_filter.flush()]


@for_each(("zone", "expected"), [
    ("Europe/Moscow", "2026-02-01 00:30"), ("UTC", "2026-01-31 21:30"),
    ("America/New_York", "2026-01-31 16:30"), ("Asia/Kathmandu", "2026-02-01 03:15"),
])  # fmt: skip
def test_the_label_is_the_local_time_of_the_message(zone: str, expected: str) -> None:
    assert add_time_label("привет", MOMENT, zone) == f"[Текущее время: {expected}] привет"


def test_summer_time_counts() -> None:
    summer = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
    assert "15:00" in add_time_label("", summer, "Europe/Kyiv")
    assert "23:30" in add_time_label("", MOMENT, "Europe/Kyiv")


@for_each("zone", ["Europe/Moscow", "UTC", "America/New_York", "Asia/Kathmandu"])
def test_a_label_is_read_back_as_the_moment_that_it_names(zone: str) -> None:
    summer = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
    for moment in (MOMENT, summer):
        assert read_time_label(add_time_label("привет", moment, zone), zone) == moment


@for_each("text", [
    "", "привет", f"привет {LABEL}", "[Текущее время: вчера] привет",
    "[Текущее время: 2026-02-30 00:30] привет", "[Текущее время: 2026-02-01 24:30] привет",
    "[Current time: 2026-02-01 00:30] hi",
])  # fmt: skip
def test_where_no_label_stands_no_moment_is_read(text: str) -> None:
    assert read_time_label(text, "Europe/Moscow") is None


def test_a_label_of_any_text_comes_off_again() -> None:
    for text in ("привет", "[ссылка] и текст", "two\nlines", "", "] ["):
        assert strip_time_label(add_time_label(text, MOMENT, "UTC")) == text


@for_each(("text", "expected"), [
    (f"{LABEL} Привет", "Привет"), (f"  \n{LABEL}\n\nПривет", "Привет"),
    (f"{LABEL} {LABEL}Привет", "Привет"), ("[2026-02-01 00:30] Привет", "Привет"),
    ("[2026-02-01] Привет", "[2026-02-01] Привет"), (f"Привет {LABEL}", f"Привет {LABEL}"),
    ("[Текущее время: не закрыто", "[Текущее время: не закрыто"),
    ("[Текущее время:\n12] Привет", "[Текущее время:\n12] Привет"), ("[1] Привет", "[1] Привет"),
])  # fmt: skip
def test_only_labels_at_the_beginning_are_stripped(text: str, expected: str) -> None:
    assert strip_time_label(text) == expected


@for_each("size", [1, 2, 3, 7, 16, 33, 34, 35, 100])
@for_each("labels", [LABEL, "[2026-02-01 00:30] ", f"{LABEL} {LABEL}\n", f"\n {LABEL} "])
def test_a_streamed_label_never_shows_however_it_is_cut(size: int, labels: str) -> None:
    text = f"{labels} Привет, [Текущее] мир"
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert "".join(filtered(pieces)) == "Привет, [Текущее] мир"


def test_other_text_is_shown_as_soon_as_it_can_be_no_label() -> None:
    assert filtered(["[", "1", "] да"]) == ["", "[1", "] да", ""]
    assert filtered(["При", "вет"]) == ["При", "вет", ""]
    assert filtered(["[Текущее ", "положение"]) == ["", "[Текущее положение", ""]


def test_a_label_later_in_the_text_stays() -> None:
    assert "".join(filtered(["Привет ", LABEL, " мир"])) == f"Привет {LABEL} мир"


def test_an_unfinished_label_is_shown_at_the_end_or_when_it_grows_too_long() -> None:
    assert filtered(["[Текущее время: "]) == ["", "[Текущее время: "]
    long = f"[Текущее время: {'о' * 60}"
    assert filtered([long, "!"]) == [long, "!", ""]


def test_an_answer_that_is_nothing_but_a_label_shows_nothing() -> None:
    assert "".join(filtered([LABEL])) == "" and filtered([]) == [""]
