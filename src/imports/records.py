"""Records of a file that is imported: what every reader yields, in the order of the file."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO, Literal

from src.base.zones import DAY, first_moment
from src.reading.time_expressions import read_time

Kind = Literal["message", "memory", "fact", "reminder", "summary", "settings"]
# Formats, with the names under which people know where their words come from.
SOURCES = {
    "chatgpt": "ChatGPT",
    "claude": "Claude",
    "gemini": "Gemini",
    "telegram": "Telegram",
    "whatsapp": "WhatsApp",
    "notes": "Markdown",
    "list": "AI",
    "mem0": "mem0",
    "pomni": "Pomni",
}
MAX_TITLE = 120  # characters
NOON = 12
YEAR = re.compile(r"\d{4}")
DAY_LENGTH = len("2026-11-28")
MILLISECONDS = 1e11  # a larger number of seconds would be far in the future
# What goes wrong in a conversation that does not have the shape of its format.
MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


@dataclass(frozen=True)
class Record:
    """One message, memory, fact and so on of a file.

    Attributes:
        source: One of ``SOURCES``.
        conversation: Id of its conversation in the source; with ``title``, for people.
        title: See ``conversation``.
        source_id: Its id in the source.
        text: The words.
        said_at: When it was written (aware); None if the file does not say.
        who: Speaker of a chat in which the user is not known; empty for the user.
        kind: What it is; a ``memory`` is what another assistant remembered.
        details: Further columns, by kind.
    """

    source: str
    conversation: str
    title: str
    source_id: str
    text: str
    said_at: datetime | None
    who: str = ""
    kind: Kind = "message"
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Broken:
    """Part of a file that cannot be read.

    Attributes:
        title: Title of a conversation, or name of a file.
        is_end: True if all that stands behind it in the file is lost, too.
    """

    title: str
    is_end: bool = False


@dataclass(frozen=True)
class Opened:
    """A file to read, or an entry of an archive; it can be opened several times.

    Attributes:
        name: Its name.
        open: Opens it at its beginning.
        changed_at: When it was last changed, if an archive says so (aware).
    """

    name: str
    open: Callable[[], BinaryIO]
    changed_at: datetime | None = None


@dataclass(frozen=True)
class Reading:
    """Conditions of a reading.

    Attributes:
        user_id: Telegram id of the user.
        time_zone: Zone of the times that name none, a tz database name.
        now: The time of the import (aware).
    """

    user_id: int
    time_zone: str
    now: datetime


Records = Iterator[Record | Broken]


def read_moment(value: Any, time_zone: str = "UTC") -> datetime | None:
    """Read a Unix time in seconds or milliseconds, or an ISO time; None for anything else.

    A time without a zone is of ``time_zone``, a day its noon, and 0 stands for none.
    """
    if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
        try:
            moment = datetime.fromisoformat(value)
            if len(value) == DAY_LENGTH:
                moment = moment.replace(hour=NOON)
            return moment if moment.tzinfo else first_moment(moment, time_zone)
        except (ValueError, OverflowError):
            return None
    try:
        seconds = float(value)
        if abs(seconds) > MILLISECONDS:
            seconds /= 1000
        return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def read_day(text: str, time_zone: str = "UTC") -> datetime | None:
    """Return noon of the first day that a text names with its year; None if it names none."""
    if YEAR.search(text) is None:  # most names of notes
        return None
    for period in read_time(text, datetime.now(UTC)).periods:
        day = period.start
        if period.end - day == DAY and str(day.year) in text:
            return first_moment(day.replace(hour=NOON, tzinfo=None), time_zone)
    return None


def read_or_name(read_one: Callable[[Any], Records], value: Any, title: str) -> Records:
    """Yield the records of a value; of a malformed one only Broken, with this title."""
    try:
        yield from list(read_one(value))
    except MALFORMED:
        yield Broken(title)


def title_of(value: Any) -> str:
    """Return a title as it is stored: a line of at most MAX_TITLE characters."""
    return " ".join(value.split())[:MAX_TITLE] if isinstance(value, str) else ""
