"""Recurrences: daily, weekly, monthly and yearly times on the clock of a zone.

A recurrence is stored as text in a subset of RFC 5545: ``FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=8;
BYMINUTE=0``. One with an ``INTERVAL`` ("every other week") needs a day to count from, and so has
the two lines ``DTSTART:20261123T080000`` and ``RRULE:…``. One in the zone of another place ends
with the line ``TZID:Europe/London``. A day that a month lacks falls on its last one, which the
standard writes ``BYMONTHDAY=28,29,30,31;BYSETPOS=-1``. The first Monday of a month is
``BYDAY=1MO``, its last Friday ``BYDAY=-1FR``. An end is the local time ``UNTIL=20261204T235959``;
so many times end with the last one, and weekdays that are left out are missing from ``BYDAY``.
Single times that are left out stand in a line ``EXDATE:20261201T080000``.
dateutil computes naive local times and knows no gaps in a clock; ``first_moment`` maps them to
real moments.
"""

import re
from calendar import monthrange
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Literal, Self, cast

import pytz
from dateutil.rrule import rrulestr

from src.base.zones import DAY, first_moment, local_time

Frequency = Literal["daily", "weekly", "monthly", "yearly"]

MAX_INTERVALS: dict[Frequency, int] = {"daily": 3650, "weekly": 520, "monthly": 120, "yearly": 10}
FREQUENCIES: dict[str, Frequency] = {
    "day": "daily", "week": "weekly", "month": "monthly", "year": "yearly",
}  # fmt: skip
SHORTEST_MONTH = 28  # days
DAY_HOURS = 24
DAY_NAMES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
BY_DAY = re.compile(r"(-?\d)?([A-Z]{2})")
ORDINALS = (1, 2, 3, 4, -1)  # of a weekday in a month; a fifth one may be missing
STAMP = "%Y%m%dT%H%M%S"
MAX_SKIPS = 200  # times that are left out
MAX_TEXT = 300 + MAX_SKIPS * 16  # characters; enough for every hour and every weekday


@dataclass(frozen=True)
class Recurrence:
    """Recurring time in local clock time.

    Attributes:
        frequency: Unit of the interval.
        hours: Hours of the day, 0 to 23, ascending; at least one.
        minute: 0 to 59, the same in each hour.
        weekdays: Weekdays of a weekly one, ascending; Monday is 0.
        nth: Which of these weekdays in the month, if monthly without ``day``; -1 is the last.
        day: Day of the month, if monthly or yearly; shorter months use their last day.
        month: Month of a yearly one.
        interval: Number of days, weeks, months or years from one occurrence to the next.
        start: A day in a period that counts, if the interval is more than one.
        until: Last possible time, local and naive; None if it has no end.
        zone: Time zone, if it is not the user's own.
        skips: Times that are left out, local and naive.

    Raises:
        ValueError: The values make no recurrence.
    """

    frequency: Frequency
    hours: tuple[int, ...]
    minute: int = 0
    weekdays: tuple[int, ...] = ()
    day: int = 0
    month: int = 0
    interval: int = 1
    start: date | None = None
    zone: str = ""
    nth: tuple[int, ...] = ()
    until: datetime | None = None
    skips: tuple[datetime, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values that would never occur, or at another time than they say."""
        ascending = all(
            list(numbers) == sorted(set(numbers) & set(range(limit)))
            for numbers, limit in ((self.hours, DAY_HOURS), (self.weekdays, 7))
        )
        weekly, yearly = self.frequency == "weekly", self.frequency == "yearly"
        dated = yearly or self.frequency == "monthly"
        by_weekday = self.frequency == "monthly" and bool(self.nth)
        fits = bool(self.weekdays) == (weekly or by_weekday)
        fits = fits and bool(self.day) == (dated and not by_weekday)
        fits = fits and list(self.nth) == [n for n in ORDINALS if by_weekday and n in self.nth]
        fits = fits and bool(self.month) == yearly and (self.start is None) == (self.interval == 1)
        in_range = self.minute in range(60) and self.day in range(32) and self.month in range(13)
        if yearly and in_range and self.month:
            in_range = self.day <= monthrange(2024, self.month)[1]  # a leap year
        interval_ok = 1 <= self.interval <= MAX_INTERVALS[self.frequency]
        zone_ok = not self.zone or self.zone in pytz.all_timezones_set
        if not (ascending and self.hours and fits and in_range and interval_ok and zone_ok):
            raise ValueError("no recurrence")

    @classmethod
    def of(
        cls,
        unit: str,
        first: datetime,
        *,
        interval: int = 1,
        hours: Iterable[int] = (),
        weekdays: Iterable[int] = (),
        date: tuple[int, int] = (0, 0),
    ) -> Self:
        """Build a recurrence every so many units; omitted values are those of its first time.

        Args:
            unit: ``hour``, ``day``, ``week``, ``month`` or ``year``.
            first: First time, local and naive.
            interval: Number of units.
            hours: Hours of the day.
            weekdays: Days of the week; every day on certain weekdays is weekly.
            date: Day of the month, and month; 0 if not given.

        Raises:
            ValueError: The values make no recurrence; also hours that do not divide a day evenly.
        """
        days = tuple(sorted(set(weekdays)))
        if unit == "hour":
            if DAY_HOURS % interval:
                raise ValueError("no recurrence")
            hours = set(hours) or range(first.hour % interval, DAY_HOURS, interval)
            unit, interval = "day", 1
        if unit in ("day", "week"):
            unit = "day" if len(days) == 7 or (unit == "day" and not days) else "week"
        is_weekly, is_dated = unit == "week", unit in ("month", "year")
        return cls(
            FREQUENCIES[unit], tuple(sorted(set(hours) or {first.hour})), first.minute,
            weekdays=(days or (first.weekday(),)) if is_weekly else (),
            day=(date[0] or first.day) if is_dated else 0,
            month=(date[1] or first.month) if unit == "year" else 0,
            interval=interval, start=first.date() if interval > 1 else None,
        )  # fmt: skip

    def shifted_by(self, old: datetime, new: datetime) -> Self:
        """Return the recurrence shifted as one of its occurrences moves.

        Args:
            old: That occurrence, local.
            new: Its new time.
        """
        hours = tuple(sorted((hour + new.hour - old.hour) % DAY_HOURS for hour in self.hours))
        days = (new.date() - old.date()) // DAY
        weekdays = tuple(sorted((day + days) % 7 for day in self.weekdays))
        shift = new.replace(tzinfo=None) - old.replace(tzinfo=None)
        return replace(
            self, hours=hours, minute=new.minute, weekdays=weekdays,
            day=new.day if self.day and days else self.day,
            month=new.month if self.month and days else self.month,
            start=new.date() if self.start else None,
            until=self.until and self.until + shift,
            skips=tuple(skipped + shift for skipped in self.skips),
        )  # fmt: skip

    def to_text(self) -> str:
        """Return the text for the database column; ``from_text`` parses it."""
        return f"{self.to_rule()}\nTZID:{self.zone}" if self.zone else self.to_rule()

    def to_rule(self) -> str:
        """Return the rule without its zone, as dateutil parses it."""
        parts = {
            "FREQ": self.frequency.upper(),
            "INTERVAL": str(self.interval) if self.interval > 1 else "",
            "UNTIL": f"{self.until:{STAMP}}" if self.until else "",
            "BYDAY": ",".join(
                f"{nth}{DAY_NAMES[number]}" for number in self.weekdays for nth in self.nth or [""]
            ),
            "BYMONTH": str(self.month or ""),
            # Shorter months substitute their last day.
            "BYMONTHDAY": _commas(range(min(self.day or 1, SHORTEST_MONTH), self.day + 1)),
            "BYHOUR": _commas(self.hours),
            "BYMINUTE": str(self.minute),
            "BYSETPOS": _commas(range(-len(self.hours), 0)) if self.day > SHORTEST_MONTH else "",
        }
        rule = ";".join(f"{name}={value}" for name, value in parts.items() if value)
        if self.skips:
            rule = f"{rule}\nEXDATE:{','.join(f'{skipped:{STAMP}}' for skipped in self.skips)}"
        if self.start is None:
            return rule
        return f"DTSTART:{self.start:%Y%m%d}T{self.hours[0]:02}{self.minute:02}00\nRRULE:{rule}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse the text written by ``to_text``.

        Raises:
            ValueError: The text has another form.
        """
        rest, _, zone = text[:MAX_TEXT].partition("\nTZID:")
        rest, _, skipped = rest.partition("\nEXDATE:")
        head, _, rule = rest.rpartition("\nRRULE:")
        try:
            parts = dict(part.split("=") for part in rule.split(";"))
            days = BY_DAY.findall(parts.get("BYDAY", ""))
            numbers = {int(number) for number, _ in days if number}
            until = parts.get("UNTIL")
            recurrence = cls(
                cast(Frequency, parts["FREQ"].lower()),
                tuple(map(int, parts["BYHOUR"].split(","))),
                int(parts["BYMINUTE"]),
                weekdays=tuple(dict.fromkeys(DAY_NAMES.index(name) for _, name in days)),
                nth=tuple(number for number in ORDINALS if number in numbers),
                until=_read_stamp(until) if until else None,
                day=int(parts.get("BYMONTHDAY", "0").split(",")[-1]),
                month=int(parts.get("BYMONTH", 0)),
                interval=int(parts.get("INTERVAL", 1)),
                start=date.fromisoformat(head[8:16]) if head else None,
                zone=zone,
                skips=tuple(map(_read_stamp, filter(None, skipped.split(",")))),
            )
        except KeyError:
            raise ValueError("no recurrence") from None
        if recurrence.to_text() != text:
            raise ValueError("no recurrence")
        return recurrence


def next_after(recurrence: Recurrence, moment: datetime, time_zone: str) -> datetime:
    """Return the next time of a recurrence, strictly after a moment; in UTC.

    It keeps its hour on the zone's clock when the clocks change. A time that the clocks skip comes
    right after the gap; one that they show twice comes once, the first time.

    Args:
        recurrence: The recurrence.
        moment: Lower bound (aware).
        time_zone: The user's time zone, a name of the tz database; the recurrence's own wins.

    Raises:
        OverflowError: It has ended, or there is none before the end of the calendar.
    """
    time_zone = recurrence.zone or time_zone
    # From the day before: a time in a gap at midnight moves to the next day.
    first = datetime.combine(local_time(moment, time_zone).date() - DAY, time())
    # DTSTART in the rule takes precedence over ``dtstart``.
    rule = rrulestr(recurrence.to_rule(), dtstart=first)
    for local in rule.xafter(first, inc=True):
        occurrence = first_moment(local, time_zone)
        if occurrence > moment:
            return occurrence.astimezone(UTC)
    raise OverflowError("the recurrence has ended")


def last_of(recurrence: Recurrence, first: datetime, number: int, time_zone: str) -> datetime:
    """Return the last of so many times of a recurrence; local in its zone, and naive.

    Args:
        recurrence: The recurrence.
        first: Its first time (aware).
        number: Number of times, the first included.
        time_zone: The user's time zone; the recurrence's own wins.

    Raises:
        OverflowError: There are not so many before the end of the calendar.
    """
    for _ in range(number - 1):
        first = next_after(recurrence, first, time_zone)
    return local_time(first, recurrence.zone or time_zone).replace(tzinfo=None)


def _read_stamp(text: str) -> datetime:
    return datetime.strptime(text, STAMP)  # noqa: DTZ007  local


def _commas(numbers: range | tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))
