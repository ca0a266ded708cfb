"""A reminder as a model orders it: the schema of its arguments, and what they mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from pydantic import Field

from src.dates.recurrences import Recurrence
from src.dates.reminder_phrases import ReminderRequest
from src.llm.prompts.form import Form
from src.time_zones import first_moment, local_time

Repeats = Literal["no", "hourly", "daily", "workdays", "weekly", "monthly", "yearly"]
Weekday = Literal[
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
]  # fmt: skip

MAX_TEXT = 1000  # characters; the bound of the column
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)
WORKDAYS = (0, 1, 2, 3, 4)
HOURS = 24
MAX_MINUTES = 60 * 24 * 366  # a year; farther moments have a date


class ReminderOrder(Form):
    """When to remind of what."""

    text: str = Field(
        min_length=1, max_length=MAX_TEXT,
        description="what to remind him of, in his words, without the time",
    )  # fmt: skip
    when: str = Field(
        default="", max_length=40,
        description="his local wall time of the first reminder: 2026-11-24T09:00",
    )  # fmt: skip
    in_minutes: int = Field(
        default=0, ge=0, le=MAX_MINUTES,
        description='instead of when: "in 20 minutes" is 20',
    )  # fmt: skip
    repeats: Repeats = "no"
    every: int = Field(
        default=1, ge=1, le=3650,
        description="2: every second day, week, month, year; 3 with hourly: every 3 hours",
    )  # fmt: skip
    weekdays: list[Weekday] = Field(
        default_factory=list, description="of weekly; by default that of when"
    )
    hours: list[int] = Field(
        default_factory=list, description="several hours of the day: [9, 21]; by default when's"
    )
    day: int = Field(
        default=0, ge=0, le=31,
        description="of monthly, when other than that of when; 31 is the last day",
    )  # fmt: skip

    def moment(self, now: datetime, time_zone: str) -> datetime | None:
        """The first time, aware; None where none is said.

        Raises:
            ValueError: It is no time.
        """
        if self.in_minutes:
            return now + timedelta(minutes=self.in_minutes)
        if not self.when.strip():
            return None
        try:
            written = datetime.fromisoformat(self.when.strip())
            if written.tzinfo is not None:
                return written.astimezone(UTC)
            return first_moment(written, time_zone)
        except (ValueError, OverflowError):
            raise ValueError("when: write it as 2026-11-24T09:00") from None

    def recurrence(self, first: datetime, time_zone: str) -> Recurrence | None:
        """How it comes again, by the clock of its first time; None: once.

        Raises:
            ValueError: These do not make a recurrence.
        """
        if self.repeats == "no":
            return None
        try:
            return self._recurrence(local_time(first, time_zone))
        except ValueError:
            raise ValueError("repeats, every, weekdays, hours, day: they do not fit") from None

    def _recurrence(self, local: datetime) -> Recurrence:
        hours = tuple(sorted(set(self.hours) or {local.hour}))
        values: dict[str, Any] = {"minute": local.minute}
        if self.every > 1 and self.repeats != "hourly":
            values |= {"interval": self.every, "start": local.date()}
        named = sorted({WEEKDAYS.index(one) for one in self.weekdays})
        day = self.day or local.day
        match self.repeats:
            case "hourly":
                return Recurrence("daily", self._hours_from(local.hour), **values)
            case "daily":
                return Recurrence("daily", hours, **values)
            case "workdays":
                return Recurrence("weekly", hours, weekdays=WORKDAYS, **values)
            case "weekly":
                days = tuple(named or [local.weekday()])
                return Recurrence("weekly", hours, weekdays=days, **values)
            case "monthly":
                return Recurrence("monthly", hours, day=day, **values)
        return Recurrence("yearly", hours, day=day, month=local.month, **values)

    def _hours_from(self, hour: int) -> tuple[int, ...]:
        if HOURS % self.every:
            raise ValueError("the day has no whole number of these")
        return tuple(range(hour % self.every, HOURS, self.every))


def order_arguments(request: ReminderRequest, time_zone: str) -> dict[str, Any]:
    """The arguments that order what a phrase asks for; its time is exact, with its offset.

    Args:
        request: One without a problem.
        time_zone: The user's.
    """
    assert request.when is not None
    when = local_time(request.when.replace(microsecond=0), time_zone)
    arguments: dict[str, Any] = {"text": request.what[:MAX_TEXT], "when": when.isoformat()}
    again = request.repeats
    if again is None:
        return arguments
    its = {
        "repeats": again.frequency,
        "every": again.interval,
        "hours": list(again.hours),
        "weekdays": [WEEKDAYS[number] for number in again.weekdays],
        "day": again.day,
    }
    return arguments | {name: value for name, value in its.items() if value}
