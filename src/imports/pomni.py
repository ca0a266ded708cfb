"""Reader of our own export (``docs/export.md``)."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, get_type_hints

import pytz
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from src.base.owners import Chosen
from src.imports import records
from src.imports.files import walk_json
from src.reading.facts import MEMORY_TYPES, PRIVATE
from src.reading.recurrences import Recurrence
from src.texts import Language

KINDS: dict[str, records.Kind] = {
    "facts.item": "fact",
    "messages.item": "message",
    "summaries.item": "summary",
    "reminders.item": "reminder",
    "settings": "settings",
}
TIMES = {"fact": "saved_at", "message": "said_at", "summary": "made_at", "reminder": "created_at"}
MAX_ID = 2**52
FOLLOW_UP = "follow_up"  # a question that was asked, by numbers of the other memory: left out


def _check(is_right: Callable[[Any], object]) -> AfterValidator:
    def check(value: Any) -> Any:
        if not is_right(value):
            raise ValueError("it is not as an export has it")
        return value

    return AfterValidator(check)


Id = Annotated[int, Field(gt=-MAX_ID, lt=MAX_ID)]
FactKind = Annotated[str, _check((*MEMORY_TYPES, PRIVATE).__contains__)]
Moment = Annotated[str, _check(lambda text: records.read_moment(text) is not None)]
Rule = Annotated[str, _check(lambda text: Recurrence.from_text(text) is not None)]
Zone = Annotated[str, _check(pytz.all_timezones_set.__contains__)]


class _Fields(BaseModel):
    """Fields of a kind that are taken over; others are left out."""

    model_config = ConfigDict(strict=True)


class _Message(_Fields):
    uid: str
    role: Literal["user", "assistant", "tool", "system"]
    provenance: Literal["typed", "forwarded", "bot", "file", "imported"] = "typed"
    answers: str | None = None
    telegram_message_id: Id | None = None
    sender_id: Id | None = None
    speaker: str | None = None
    origin: str | None = None
    quoted: str | None = None
    edited_at: Moment | None = None
    is_private: bool | None = None


class _Source(_Fields):
    uid: str
    quote: str
    said_at: Moment


class _Claim(_Fields):
    subject: str | None = None
    relation: str | None = None
    object: str | None = None
    importance: Annotated[int, Field(ge=1, le=10)] | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    pinned: bool | None = None
    valid_from: Moment | None = None
    valid_until: Moment | None = None


class _Fact(_Claim):
    kind: FactKind | None = None
    private_text: str | None = None
    speaker: str | None = None
    retired_at: Moment | None = None
    retired_reason: Annotated[str, _check("forgotten".__ne__)] | None = None
    replaced_by: str | None = None
    sources: list[_Source] | None = None


class _Reminder(_Fields):
    kind: Literal["brief", "follow_up"] | None = None
    due_at: Moment
    recurrence: Rule | None = None
    time_zone: Zone
    is_waiting: bool
    message: str | None = None
    snooze_of: str | None = None
    delivered_at: Moment | None = None
    cancelled_at: Moment | None = None


class _Settings(_Fields):
    language: Language | None = None
    time_zone: Zone | None = None
    spoken_language: Language | None = None


CHOSEN: dict[str, Any] = {
    name: (kind | None, None) for name, kind in get_type_hints(Chosen).items()
}
FIELDS: Mapping[records.Kind, type[_Fields]] = {
    "message": _Message,
    "fact": _Fact,
    "reminder": _Reminder,
    "summary": _Fields,
    "settings": create_model("_ChosenSettings", __base__=_Settings, **CHOSEN),
}


def read(file: records.Opened, reading: records.Reading) -> records.Records:
    """Yield facts, messages, summaries, reminders and settings, with all that is said of them.

    An export of a group holds words of others, and yields nothing. In that of another account
    ``who`` names it.
    """
    who = ""
    for number, (prefix, value) in enumerate(walk_json(file, KINDS)):
        if isinstance(value, records.Broken):
            yield value
        elif prefix == "telegram_user_id" and isinstance(value, int):
            if value < 0:
                return
            if value != reading.user_id:
                who = f"Telegram {value}"
        elif prefix in KINDS:
            read_one = partial(_read, KINDS[prefix], number, who)
            title = f"{prefix.partition('.')[0]} {number}"
            yield from records.read_or_name(read_one, value, title)


def _read(kind: records.Kind, number: int, who: str, value: dict[str, Any]) -> records.Records:
    record = _build(kind, value, number)
    if record.details.get("kind") != FOLLOW_UP:
        yield replace(record, who=who)


def _build(kind: records.Kind, value: dict[str, Any], number: int) -> records.Record:
    """Return a record with the known fields of a value.

    Raises:
        ValueError: A field does not have the form that it has in an export.
    """
    known = FIELDS[kind].model_validate(value).model_dump(exclude_none=True)
    text, said_at = value.get("text", ""), records.read_moment(value.get(TIMES.get(kind, "")))
    if not isinstance(text, str) or (kind in TIMES and said_at is None):
        raise ValueError(f"{kind}: no text, or no time")
    topic, id_ = str(value.get("thread_id", 0)), str(value.get("id", number))
    if kind == "message":  # another bot gives out the same numbers
        written = f"{known.get('role')} {said_at} {text}"
        id_ = hashlib.sha256(written.encode("utf-8", "replace")).hexdigest()[:32]
    return records.Record("pomni", topic, "", id_, text, said_at, kind=kind, details=known)
