"""Reader of our own export (``docs/export.md``)."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import pytz

from src.imports.files import walk_json
from src.imports.records import MALFORMED, Broken, Kind, Opened, Record, Records, read_moment
from src.reading.facts import MEMORY_TYPES, PRIVATE
from src.reading.recurrences import Recurrence
from src.texts import LANGUAGES

KINDS: dict[str, Kind] = {
    "facts.item": "fact",
    "messages.item": "message",
    "summaries.item": "summary",
    "reminders.item": "reminder",
    "settings": "settings",
}
TIMES = {"fact": "saved_at", "message": "said_at", "summary": "made_at", "reminder": "created_at"}
MAX_ID = 2**52
FOLLOW_UP = "follow_up"  # a question that was asked, by numbers of the other memory: left out

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_moment(value: Any) -> bool:
    return _is_text(value) and read_moment(value) is not None


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_id(value: Any) -> bool:
    return type(value) is int and abs(value) < MAX_ID


def _is_zone(value: Any) -> bool:
    return value in pytz.all_timezones_set


def _is_recurrence(value: Any) -> bool:
    return _is_text(value) and Recurrence.from_text(value) is not None


def _is_sources(value: Any) -> bool:
    return isinstance(value, list) and all(
        _is_text(one["uid"]) and _is_text(one["quote"]) and _is_moment(one["said_at"])
        for one in value
    )


# What a record of a kind must have.
REQUIRED: Mapping[Kind, tuple[str, ...]] = {
    "message": ("uid", "role"),
    "reminder": ("due_at", "time_zone", "is_waiting"),
}
# What is taken over of each kind, and how it has to look; other fields are left out.
FIELDS: Mapping[Kind, Mapping[str, Check]] = {
    "message": {
        "uid": _is_text,
        "role": ("user", "assistant", "tool", "system").__contains__,
        "provenance": ("typed", "forwarded", "bot", "file", "imported").__contains__,
        "answers": _is_text,
        "telegram_message_id": _is_id,
        "sender_id": _is_id,
        "speaker": _is_text,
        "origin": _is_text,
        "quoted": _is_text,
        "edited_at": _is_moment,
        "is_private": _is_flag,
    },
    "fact": {
        "kind": (*MEMORY_TYPES, PRIVATE).__contains__,
        "subject": _is_text,
        "relation": _is_text,
        "object": _is_text,
        "private_text": _is_text,
        "importance": range(1, 11).__contains__,
        "confidence": lambda value: 0 <= value <= 1,
        "pinned": _is_flag,
        "speaker": _is_text,
        "valid_from": _is_moment,
        "valid_until": _is_moment,
        "retired_at": _is_moment,
        "retired_reason": lambda value: _is_text(value) and value != "forgotten",
        "replaced_by": _is_text,
        "sources": _is_sources,
    },
    "reminder": {
        "kind": ("brief", FOLLOW_UP).__contains__,
        "due_at": _is_moment,
        "recurrence": _is_recurrence,
        "time_zone": _is_zone,
        "is_waiting": _is_flag,
        "message": _is_text,
        "snooze_of": _is_text,
        "delivered_at": _is_moment,
        "cancelled_at": _is_moment,
    },
    "summary": {},
    "settings": {
        "language": LANGUAGES.__contains__,
        "time_zone": _is_zone,
        "mode": ("assistant", "strict").__contains__,
        "answer_length": ("short", "normal", "long").__contains__,
        "memory_on": _is_flag,
        "follow_ups": _is_flag,
        "spoken_language": LANGUAGES.__contains__,
    },
}


def read(file: Opened) -> Records:
    """Yield facts, messages, summaries, reminders and settings, with all that is said of them."""
    for number, (prefix, value) in enumerate(walk_json(file, KINDS)):
        if isinstance(value, Broken):
            yield value
        elif prefix in KINDS:
            try:
                record = _build(KINDS[prefix], value, number)
                if record.details.get("kind") != FOLLOW_UP:
                    yield record
            except MALFORMED:
                yield Broken(f"{prefix.partition('.')[0]} {number}")


def _build(kind: Kind, value: dict[str, Any], number: int) -> Record:
    """Return a record with the known fields of a value.

    Raises:
        ValueError: A field does not have the form that it has in an export.
    """
    known = {name: value[name] for name in FIELDS[kind] if value.get(name) is not None}
    wrong = [name for name, found in known.items() if not FIELDS[kind][name](found)]
    wrong += [name for name in REQUIRED.get(kind, ()) if name not in known]
    text, said_at = value.get("text", ""), read_moment(value.get(TIMES.get(kind, "")))
    if wrong or not isinstance(text, str) or (kind in TIMES and said_at is None):
        raise ValueError(f"{kind}: {wrong}")
    topic, id_ = str(value.get("thread_id", 0)), str(value.get("id", number))
    if kind == "message":  # another bot gives out the same numbers
        written = f"{known.get('role')} {said_at} {text}"
        id_ = hashlib.sha256(written.encode("utf-8", "replace")).hexdigest()[:32]
    return Record("pomni", topic, "", id_, text, said_at, kind=kind, details=known)
