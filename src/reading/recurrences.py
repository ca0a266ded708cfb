"""What comes again: daily, weekly, monthly and yearly times on the clock of a zone.

A recurrence is kept as text in a subset of RFC 5545: ``FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=8;
BYMINUTE=0``. Every other week (``INTERVAL``) needs a day to count from, and so has the two lines
``DTSTART:20261123T080000`` and ``RRULE:…``. One that was asked for by the clock of another place
ends with the line ``TZID:Europe/London``. A day that a month lacks is its last one, which the
standard writes ``BYMONTHDAY=28,29,30,31;BYSETPOS=-1``. dateutil counts the times as the clock on
the wall shows them; it knows no gaps in a clock, so ``first_moment`` says when each of them is.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Literal, cast

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
MAX_TEXT = 300  # characters; each hour, each weekday


@dataclass(frozen=True)
class Recurrence:
    """When something comes again, by the clock on the user's wall.

    Attributes:
        frequency: What it is counted in.
        hours: Of the day, 0 to 23, ascending; at least one.
        minute: 0 to 59, the same in each hour.
        weekdays: Of a weekly one, ascending; Monday is 0.
        day: Of the month, of a monthly or a yearly one; shorter months have it on their last day.
        month: Of a yearly one.
        interval: Every so many days, weeks, months or years.
        start: A day in a period that counts, when the interval is more than one.
        zone: By whose clock, where that is not the user's own.

    Raises:
        ValueError: These do not make a recurrence.
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

    def __post_init__(self) -> None:
        """Refuse what would never come, or come at another time than it says."""
        lists = _is_ascending(self.hours, DAY_HOURS) and _is_ascending(self.weekdays, 7)
        weekly, yearly = self.frequency == "weekly", self.frequency == "yearly"
        dated = yearly or self.frequency == "monthly"
        fits = bool(self.weekdays) == weekly and bool(self.day) == dated
        fits = fits and bool(self.month) == yearly and (self.start is None) == (self.interval == 1)
        ranges = self.minute in range(60) and self.day in range(32) and self.month in range(13)
        if yearly and ranges and self.month:
            ranges = self.day <= monthrange(2024, self.month)[1]  # a leap year
        counted = 1 <= self.interval <= MAX_INTERVALS[self.frequency]
        zoned = not self.zone or self.zone in pytz.all_timezones_set
        if not (lists and self.hours and fits and ranges and counted and zoned):
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
    ) -> Recurrence:
        """What comes every so many units; what is not said is as at its first time.

        Args:
            unit: ``hour``, ``day``, ``week``, ``month`` or ``year``.
            first: By the clock on the user's wall, naive.
            interval: So many units.
            hours: Of the day.
            weekdays: Of a week; every day on certain weekdays is weekly.
            date: The day of the month, and the month; 0 where it is not said.

        Raises:
            ValueError: These make no recurrence; hours that do not fill a day evenly, too.
        """
        if unit == "hour":
            if DAY_HOURS % interval:
                raise ValueError("no recurrence")
            times = range(first.hour % interval, DAY_HOURS, interval)
            return cls("daily", tuple(times), first.minute)
        days = tuple(sorted(set(weekdays)))
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

    def moved(self, old: datetime, new: datetime) -> Recurrence:
        """The same, all of it so much later or earlier as one time of it moves.

        Args:
            old: That time, by the clock on the user's wall.
            new: When it comes instead.
        """
        hours = tuple(sorted((hour + new.hour - old.hour) % DAY_HOURS for hour in self.hours))
        days = (new.date() - old.date()) // DAY
        weekdays = tuple(sorted((day + days) % 7 for day in self.weekdays))
        return replace(
            self, hours=hours, minute=new.minute, weekdays=weekdays,
            day=new.day if self.day and days else self.day,
            month=new.month if self.month and days else self.month,
            start=new.date() if self.start else None,
        )  # fmt: skip

    def to_text(self) -> str:
        """The recurrence for a column of the database; ``from_text`` reads it."""
        return f"{self.to_rule()}\nTZID:{self.zone}" if self.zone else self.to_rule()

    def to_rule(self) -> str:
        """The same without its zone, as dateutil reads it."""
        parts = {
            "FREQ": self.frequency.upper(),
            "INTERVAL": str(self.interval) if self.interval > 1 else "",
            "BYDAY": ",".join(DAY_NAMES[number] for number in self.weekdays),
            "BYMONTH": str(self.month or ""),
            "BYMONTHDAY": self._month_days(),
            "BYHOUR": _joined(self.hours),
            "BYMINUTE": str(self.minute),
            "BYSETPOS": _joined(range(-len(self.hours), 0)) if self.day > SHORTEST_MONTH else "",
        }
        rule = ";".join(f"{name}={value}" for name, value in parts.items() if value)
        if self.start is None:
            return rule
        return f"DTSTART:{self.start:%Y%m%d}T{self.hours[0]:02}{self.minute:02}00\nRRULE:{rule}"

    def _month_days(self) -> str:
        """The day of the month, behind those on which shorter months have it."""
        first = min(self.day, SHORTEST_MONTH)
        return _joined(range(first, self.day + 1)) if self.day else ""

    @classmethod
    def from_text(cls, text: str) -> Recurrence:
        """The recurrence that ``to_text`` wrote.

        Raises:
            ValueError: It wrote no such text.
        """
        dated, _, zone = text[:MAX_TEXT].partition("\nTZID:")
        head, _, rule = dated.rpartition("\nRRULE:")
        try:
            parts = dict(part.split("=") for part in rule.split(";"))
            days = parts.get("BYDAY", "").split(",")
            found = cls(
                cast(Frequency, parts["FREQ"].lower()),
                tuple(map(int, parts["BYHOUR"].split(","))),
                int(parts["BYMINUTE"]),
                weekdays=tuple(DAY_NAMES.index(name) for name in days if name),
                day=int(parts.get("BYMONTHDAY", "0").split(",")[-1]),
                month=int(parts.get("BYMONTH", 0)),
                interval=int(parts.get("INTERVAL", 1)),
                start=date.fromisoformat(head[8:16]) if head else None,
                zone=zone,
            )
        except KeyError:
            raise ValueError("no recurrence") from None
        if found.to_text() != text:
            raise ValueError("no recurrence")
        return found


def next_after(recurrence: Recurrence, moment: datetime, time_zone: str) -> datetime:
    """The next time of a recurrence, strictly after a moment; in UTC.

    It stays at its hour on the clock of the zone when the clocks change. A time that the clocks
    skip comes right after the gap; one that they show twice comes once, the first time.

    Args:
        recurrence: What comes again.
        moment: Aware.
        time_zone: Of the user, a name of the tz database; the recurrence may have its own.

    Raises:
        OverflowError: There is none before the end of the calendar.
    """
    time_zone = recurrence.zone or time_zone
    # From the day before: what falls into a gap at midnight comes on the next day.
    first = datetime.combine(local_time(moment, time_zone).date() - DAY, time())
    # A start in the text has the precedence.
    rule = rrulestr(recurrence.to_rule(), dtstart=first)
    for written in rule.xafter(first, inc=True):
        found = first_moment(written, time_zone)
        if found > moment:
            return found.astimezone(UTC)
    raise OverflowError("the recurrence has ended")


def _is_ascending(numbers: tuple[int, ...], limit: int) -> bool:
    """Whether numbers are below a limit, in order, and each is there once."""
    return list(numbers) == sorted(set(numbers) & set(range(limit)))


def _joined(numbers: range | tuple[int, ...]) -> str:
    """Numbers with commas between them."""
    return ",".join(map(str, numbers))
