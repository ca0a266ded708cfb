"""Readers of the chats that Telegram Desktop and WhatsApp export."""

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from functools import cache, partial
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, Self

from src.base.zones import first_moment
from src.imports import records
from src.imports.files import read_lines, walk_json

# Telegram Desktop's ``result.json``, of one chat or of all.

LISTS = ("", "chats.list.item.", "left_chats.list.item.")  # prefixes of a chat
MESSAGES = frozenset(f"{prefix}messages.item" for prefix in LISTS)
FIELDS = frozenset(f"{prefix}{field}" for prefix in LISTS for field in ("name", "type", "id"))
OTHERS = ("forwarded_from", "forwarded_from_id", "saved_from", "via_bot")


def read_telegram(file: records.Opened, reading: records.Reading) -> records.Records:
    """Yield what people wrote themselves; ``who`` and ``details`` name writers but the user.

    It may be the export of another person, or of the user's other account.
    """
    own, chat = f"user{reading.user_id}", dict[str, Any]()
    for prefix, value in walk_json(file, MESSAGES):
        if isinstance(value, records.Broken):
            yield value
        elif prefix in MESSAGES:
            read_one = partial(_read_message, chat=chat, own=own, reading=reading)
            title = records.title_of(chat.get("name")) or "?"
            yield from records.read_or_name(read_one, value, title)
        elif prefix in FIELDS:
            field = prefix.rpartition(".")[2]
            if field == "name" or field in chat:  # the next chat; Saved Messages has no name
                chat = {}
            chat[field] = value


def _read_message(
    message: dict[str, Any], chat: dict[str, Any], own: str, reading: records.Reading
) -> records.Records:
    """Yield a message if its sender wrote it."""
    if message.get("type", "message") != "message" or any(key in message for key in OTHERS):
        return
    text, sender = _join(message.get("text")), message.get("from_id")
    if isinstance(sender, int):  # exports until 2021
        sender = f"user{sender & 0xFFFFFFFF}"
    if not text or not str(sender).startswith("user"):  # a channel, or nobody
        return
    said_at = records.read_moment(message.get("date_unixtime"))
    said_at = said_at or records.read_moment(message["date"], reading.time_zone)
    title = records.title_of(chat.get("name"))
    chat_id = str(chat.get("id", title))
    if chat.get("type") == "saved_messages" and not title:
        title = "Saved Messages"
    source_id, name = f"{chat_id}:{message['id']}", records.title_of(message.get("from"))
    record = records.Record("telegram", chat_id, title, source_id, text, said_at)
    if sender != own:
        record = replace(record, who=str(sender), details={"name": name} if name else {})
    yield record


def _join(text: Any) -> str:
    """Return a text that is a string, or a list of strings and of objects with a text."""
    parts = text if isinstance(text, list) else [text]
    words = []
    for part in parts:
        word = part.get("text") if isinstance(part, dict) else part
        if isinstance(word, str):
            words.append(word)
    return "".join(words).strip()


# WhatsApp's exported chats, which have no schema.

SPACES: dict[int, str | None] = {
    **dict.fromkeys(map(ord, "\u202f\u00a0\u2009"), " "),
    **dict.fromkeys(map(ord, "\u2068\u2069")),  # around the name of somebody who is mentioned
}
INVISIBLE = "\u200e\u200f\u202a\u202c\ufeff"
LINE = re.compile(
    rf"[{INVISIBLE}]*(\[)?(\d{{1,4}})([./-])\s?(\d{{1,2}})[./-]\s?(\d{{2,4}})\.?(?:,|\s\w{{1,3}})?\s+"
    r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?\s?([ap]\.?\s?m\.?|[дп]п)?"
    r"(?(1)\]\s?|\s[-–—]\s)(.*)",
    re.IGNORECASE | re.DOTALL,
)
MARKED = re.compile("\u200e.*")  # words of the program, as iPhones mark them
PATTERNS = Path(__file__).with_name("whatsapp.toml")
HALF_DAY = 12
CENTURY = 2000


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of some of the program's own words."""
    words = tomllib.loads(PATTERNS.read_text("utf-8"))[name]
    return re.compile(rf"(?:{'|'.join(words)})\.?", re.IGNORECASE)


@dataclass(frozen=True)
class _Line:
    """The beginning of a message: three numbers of its date in their order, time and words.

    ``is_clear`` is True if the form of the date says that the first one is the day. ``form`` is
    how the date is written, which is the same for all messages of a file.
    """

    date: tuple[int, int, int]
    time: tuple[int, int, int]
    words: str
    is_clear: bool
    form: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        match = LINE.fullmatch(text.translate(SPACES))
        if match is None:
            return None
        first, second, third = int(match[2]), int(match[4]), int(match[5])
        is_year_first = len(match[2]) == len("2026")
        if is_year_first:
            first, third = third, first
        hour = int(match[6])
        if match[9]:
            hour = hour % HALF_DAY
            if match[9][0] in "pPпП":
                hour += HALF_DAY
        if third < CENTURY:
            third += CENTURY
        time = hour, int(match[7]), int(match[8] or 0)
        form = re.sub(r"\w+", "0", match.string[: match.start(6)].strip(INVISIBLE))
        is_clear = is_year_first or match[3] == "."
        return cls((first, second, third), time, match[10], is_clear, form)

    def moment(self, reading: records.Reading, *, days_first: bool) -> datetime | None:
        day, month, year = self.date
        if not days_first:
            day, month = month, day
        try:
            local = datetime.combine(date(year, month, day), time(*self.time))
            return first_moment(local, reading.time_zone)
        except (ValueError, OverflowError):
            return None


def looks_like_whatsapp(text: str) -> bool:
    """Return True if the beginning of a text is that of a chat of WhatsApp."""
    lines = [_Line.parse(line) for line in text.splitlines() if line.strip(INVISIBLE + " ")][:40]
    return 2 * len(list(filter(None, lines))) > len(lines) or any(lines[:1])


def read_whatsapp(file: records.Opened, reading: records.Reading) -> records.Records:
    """Yield all messages, each with its writer's name; the user's is not known.

    Where the order of day and month is open, ``details`` has the time in the other order.
    """
    title = _pattern("chat_names").sub("", PurePosixPath(file.name).stem).strip()
    if title.lower() in ("_chat", "chat", ""):
        title = records.title_of(PurePosixPath(file.name).parent.name)
    days_first = find_order(line for line, _ in _messages(file))
    times = Counter[str]()
    for line, body in _messages(file):
        name, colon, text = line.words.partition(": ")
        if not colon:
            continue
        if _pattern("placeholders").fullmatch(text.strip(INVISIBLE + " \n")):
            # A caption may follow.
            text = ""
        text = MARKED.sub("", "\n".join([text, *body]))
        text = _pattern("edited").sub("", text).strip(INVISIBLE + " \n")
        name = name.strip(INVISIBLE + "~ ") or "?"
        said_at = line.moment(reading, days_first=days_first is not False)
        if said_at is None or not text:
            continue
        details: dict[str, str] = {"name": name}
        if days_first is None:
            other = line.moment(reading, days_first=False)
            details["other_order"] = (other or said_at).isoformat()
        key = f"{line.date}{line.time}{name}\n{text}"
        times[key] += 1
        source_id = hashlib.sha256(f"{key}{times[key]}".encode()).hexdigest()[:32]
        yield records.Record(
            "whatsapp", title, title, source_id, text, said_at, name, details=details
        )


def find_order(lines: Iterable[_Line]) -> bool | None:
    """Return whether the day is first in the dates of a file; None if nothing tells it.

    A number above twelve tells it, else the order in time, as long as it fits one of both.
    """
    dates = [date for date, _ in groupby((line.date, line.is_clear) for line in lines)]
    for (first, second, _), _ in dates:
        if max(first, second) > HALF_DAY:
            return first > HALF_DAY
    days = [(year, second, first) for (first, second, year), _ in dates]
    months = [(year, first, second) for (first, second, year), _ in dates]
    if days == months or all(is_clear for _, is_clear in dates):
        return True
    is_ordered = days == sorted(days)
    if is_ordered == (months == sorted(months)):
        return None
    return is_ordered


def _messages(file: records.Opened) -> Iterator[tuple[_Line, list[str]]]:
    """Yield the first line of each message, and the lines after it."""
    line: _Line | None = None
    body: list[str] = []
    for text in read_lines(file):
        found = _Line.parse(text)
        if found is None or (line is not None and found.form != line.form):
            body.append(text)
            continue
        if line is not None:
            yield line, body
        line, body = found, []
    if line is not None:
        yield line, body
