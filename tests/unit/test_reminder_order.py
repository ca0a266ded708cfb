"""A reminder as a model orders it: what its arguments mean, and which the offline model writes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from pydantic import ValidationError

from src.reading.reminder_phrases import read_reminder
from src.reminders.rules import MAX_TEXT, ReminderOrder, reminder_calls

ZONE = "Europe/Kyiv"
NOW = datetime(2026, 11, 23, 12, 5, 40, tzinfo=UTC)  # 14:05 in Kyiv, a Monday


def read(**arguments: Any) -> tuple[str, str | None]:
    """The first time in UTC, and the recurrence."""
    asked = ReminderOrder.model_validate({"text": "чай", **arguments}).request(NOW, ZONE, None)
    assert asked.when is not None and asked.what == "чай" and asked.problem is None
    repeats = asked.repeats.to_text() if asked.repeats else None
    return f"{asked.when.astimezone(UTC):%Y-%m-%d %H:%M:%S}", repeats


@pytest.mark.parametrize(("arguments", "when", "recurrence"), [
    ({"when": "2026-11-24T09:00"}, "2026-11-24 07:00:00", None),
    ({"when": "2026-11-24 09:00"}, "2026-11-24 07:00:00", None),
    ({"when": "2026-11-24T09:00:30+00:00"}, "2026-11-24 09:00:30", None),
    ({"when": "2026-11-24T09:00Z"}, "2026-11-24 09:00:00", None),
    ({"in_minutes": 20}, "2026-11-23 12:25:40", None),
    ({"in_minutes": 20, "when": None, "weekdays": None}, "2026-11-23 12:25:40", None),
    # The clocks skip 03:30 on that day, and show it twice on the other.
    ({"when": "2027-03-28T03:30"}, "2027-03-28 01:00:00", None),
    ({"when": "2026-10-25T03:30"}, "2026-10-25 00:30:00", None),
    ({"when": "2026-11-24T09:00", "repeats": "daily"},
     "2026-11-24 07:00:00", "FREQ=DAILY;BYHOUR=9;BYMINUTE=0"),
    ({"when": "2026-11-24T09:15", "repeats": "daily", "hours": [21, 9]},
     "2026-11-24 07:15:00", "FREQ=DAILY;BYHOUR=9,21;BYMINUTE=15"),
    ({"when": "2026-11-24T09:00", "repeats": "workdays"},
     "2026-11-24 07:00:00", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0"),
    ({"when": "2026-11-30T08:00", "repeats": "weekly"},
     "2026-11-30 06:00:00", "FREQ=WEEKLY;BYDAY=MO;BYHOUR=8;BYMINUTE=0"),
    ({"when": "2026-11-30T08:00", "repeats": "weekly", "weekdays": ["friday", "monday"]},
     "2026-11-30 06:00:00", "FREQ=WEEKLY;BYDAY=MO,FR;BYHOUR=8;BYMINUTE=0"),
    ({"when": "2026-11-30T08:00", "repeats": "weekly", "every": 2}, "2026-11-30 06:00:00",
     "DTSTART:20261130T080000\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=8;BYMINUTE=0"),
    ({"when": "2026-11-30T08:00", "repeats": "monthly", "day": 31}, "2026-11-30 06:00:00",
     "FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYHOUR=8;BYMINUTE=0;BYSETPOS=-1"),
    ({"when": "2026-12-31T08:00", "repeats": "yearly"}, "2026-12-31 06:00:00",
     "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=28,29,30,31;BYHOUR=8;BYMINUTE=0;BYSETPOS=-1"),
    ({"when": "2026-11-24T09:00", "repeats": "daily", "until": "2026-11-30"},
     "2026-11-24 07:00:00", "FREQ=DAILY;UNTIL=20261130T235959;BYHOUR=9;BYMINUTE=0"),
    ({"when": "2026-11-23T16:00", "repeats": "hourly", "every": 2, "until": "2026-11-23T18:00"},
     "2026-11-23 14:00:00",
     "FREQ=DAILY;UNTIL=20261123T180000;BYHOUR=0,2,4,6,8,10,12,14,16,18,20,22;BYMINUTE=0"),
    ({"when": "2026-11-23T15:05", "repeats": "hourly", "every": 6},
     "2026-11-23 13:05:00", "FREQ=DAILY;BYHOUR=3,9,15,21;BYMINUTE=5"),
    # As small models write it, which know no calendar.
    ({"when": "tomorrow"}, "2026-11-24 07:00:00", None),
    ({"when": "в пятницу в 18"}, "2026-11-27 16:00:00", None),
    ({"when": "24.11.2026 9:00"}, "2026-11-24 07:00:00", None),
    ({"when": "щопонеділка о 8"}, "2026-11-30 06:00:00",
     "FREQ=WEEKLY;BYDAY=MO;BYHOUR=8;BYMINUTE=0"),
])  # fmt: skip
def test_what_an_order_means(arguments: dict[str, Any], when: str, recurrence: str | None) -> None:
    assert read(**arguments) == (when, recurrence)


@pytest.mark.parametrize("arguments", [
    {"when": "soon"}, {"when": "9999-99-99T99:99"}, {"when": "0001-01-01T00:00"},
    {"when": "когда-нибудь"}, {"when": "25:99"},
    {"when": "2026-11-24T09:00", "repeats": "hourly", "every": 5},
    {"when": "2026-11-24T09:00", "repeats": "daily", "hours": [24]},
    {"when": "2026-11-24T09:00", "repeats": "yearly", "every": 11},
    {"when": "2026-02-24T09:00", "repeats": "yearly", "day": 31},
])  # fmt: skip
def test_what_makes_no_sense_is_told_to_the_model(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"when: write|do not fit"):
        read(**arguments)


@pytest.mark.parametrize("arguments", [
    {"text": ""}, {"text": "x" * (MAX_TEXT + 1)}, {"in_minutes": -1}, {"every": 0},
    {"repeats": "sometimes"}, {"weekdays": ["Monday!"]}, {"when": "2" * 1001}, {"day": 32},
    {"in_minutes": 10**9},
])  # fmt: skip
def test_the_schema_refuses_what_is_out_of_bounds(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ReminderOrder.model_validate({"text": "чай", "when": "2026-11-24T09:00", **arguments})


def test_without_a_time_there_is_none() -> None:
    asked = ReminderOrder(text="чай", when="  ").request(NOW, ZONE, None)
    assert (asked.when, asked.problem) == (None, "no_time")


@pytest.mark.parametrize("phrase", [
    "напомни завтра в 9 позвонить маме", "напомни через 20 секунд выключить чай",
    "нагадуй щопонеділка о 8 полити квіти", "remind me every 2 weeks on Monday at 8 to report",
    "напомни каждый день в 9 и 21 таблетки", "напомни каждые 3 часа пить воду",
    "напомни 31 числа каждого месяца в 9 сдать отчёт", "напоминай по будням в 7:30 зарядку",
    "remind me every year on 29 February at 10 to celebrate",
])  # fmt: skip
def test_the_offline_model_orders_exactly_what_a_phrase_says(phrase: str) -> None:
    request = read_reminder(phrase, NOW, ZONE)
    assert request is not None and request.when is not None and request.problem is None
    [(_, arguments)] = reminder_calls(phrase, [HumanMessage(phrase)])
    assert ReminderOrder.model_validate(arguments).request(NOW, ZONE, None) == request
