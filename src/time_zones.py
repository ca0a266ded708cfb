"""Times in a user's own zone (pytz)."""

from __future__ import annotations

from datetime import datetime

import pytz


def local_time(moment: datetime, time_zone: str) -> datetime:
    """An aware moment in a zone of the tz database."""
    return moment.astimezone(pytz.timezone(time_zone))
