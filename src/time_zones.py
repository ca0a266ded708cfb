"""Times in a user's own zone (pytz)."""

from __future__ import annotations

from datetime import datetime

import pytz


def local_time(moment: datetime, time_zone: str) -> datetime:
    """An aware moment in a zone of the tz database."""
    return moment.astimezone(pytz.timezone(time_zone))


def in_zone(written: datetime, time_zone: str) -> datetime:
    """A wall-clock time as the aware moment that it was in a zone of the tz database."""
    return pytz.timezone(time_zone).localize(written)
