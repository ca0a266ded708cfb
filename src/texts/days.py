"""Days as people say them."""

from __future__ import annotations

from datetime import date, datetime

from babel.dates import format_date, format_skeleton

from src.texts import Language
from src.time_zones import local_time


def day_text(moment: datetime, now: datetime, language: Language, time_zone: str) -> str:
    """The day of a moment: ``3 марта``, with the year unless it is this one."""
    day = local_time(moment, time_zone)
    if day.year == local_time(now, time_zone).year:
        return str(format_skeleton("MMMMd", day, locale=language))
    return long_day(day, language)


def long_day(day: date, language: Language) -> str:
    """A day with its year: ``3 марта 2026 г.``."""
    return str(format_date(day, "long", locale=language))
