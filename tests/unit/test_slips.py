"""Orders as they are typed on a phone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from src.reading.reminder_phrases import read_reminder
from src.reading.requests import forget_request
from src.reading.slips import MAX_TEXT, mend_orders
from src.reminders.rules import CancelOrder, read_change

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize("typed", [
    "remid me tomorrow at 9 to call mum", "rmeind me tomorrow at 9 to call mum",
    "напомини завтра в 9 чай", "нпаомни завтра в 9 чай", "нагдай завтра о 9 купити хліб",
    "napomni zavtra v 9 kupit hleb", "nagadai zavtra o 9 hlib",
    "pls remind me tomorrow at 9 to call mum", "ping me tomorrow at 9 about mum",
    "слуш напомни завтра в 9 про счет", "маякни завтра о 9 про каву",
])  # fmt: skip
def test_a_misspelt_order_is_read(typed: str) -> None:
    request = read_reminder(typed, NOW, "UTC")
    assert request is not None and request.problem is None
    assert request.when == datetime(2026, 11, 29, 9, tzinfo=UTC)


@pytest.mark.parametrize("text", [
    "rewind the tape tomorrow at 9", "he reminds me of my dad", "forge ahead", "", "🙂" * 200,
    "напоминает отца", "забудка", "not moving", "cancels often", "забудь код під'їзду",
    f"remid me {'x' * MAX_TEXT}",
])  # fmt: skip
def test_what_is_no_slip_stays(text: str) -> None:
    assert mend_orders(text) == text


@pytest.mark.parametrize(("text", "about"), [
    ("стекло отмени", "стекло"), ("зважитись скасуй", "зважитись"), ("dentist cancel", "dentist"),
    ("отбой по стоматологу", "стоматологу"), ("скасуй оте про банк", "банк"),
    ("kill the reminder about rent", "rent"), ("get rid of the rent reminder", "rent"),
    ("отмнеи напоминание про врача", "врача"),
])  # fmt: skip
def test_an_order_to_cancel_may_stand_at_the_end(text: str, about: str) -> None:
    assert read_change(text) == CancelOrder(id=about)


@pytest.mark.parametrize(("text", "about"), [
    ("он вернул забудь про его долг", "его долг"),
    ("he paid me back forget about the 20 quid", "the 20 quid"),
    ("сдал пропуск забудь про него", "сдал пропуск"), ("то що казала про Ігоря забудь", "Ігоря"),
    ("that thing about Anna, delete it", "Anna"), ("резину вычеркни, продал", "резину"),
    ("колодки, забудь", "колодки"), ("жоржини викинь з памяті, вимерзли", "жоржини"),
    ("frget about the boat", "the boat"),
])  # fmt: skip
def test_an_order_to_forget_may_stand_behind_its_reason(text: str, about: str) -> None:
    request = forget_request(text)
    assert request is not None and request.about == about


@pytest.mark.parametrize("text", [
    "i can't forget about him", "не могу забыть про нее", "she told me to forget about it",
    "мама просила забыть про него", "мама сказала забудь", "ключи не забудь", "купил хлеб, забудь",
 "не можу забути про неї",
])  # fmt: skip
def test_a_report_of_forgetting_is_no_order(text: str) -> None:
    assert forget_request(text) is None
