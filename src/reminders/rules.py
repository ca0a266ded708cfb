"""A reminder as a model orders it, and without a model: the request read by rules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast, get_args

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import Field

from src.base.zone_names import find_time_zone
from src.base.zones import first_moment, in_zone, local_time
from src.history.new_messages import asked_at_of, own_words_of, strip_time_label
from src.llm.quoting import Form
from src.reading import lexicon
from src.reading.recurrences import Frequency, Recurrence
from src.reading.reminder_moments import (
    PART_HOURS,
    WORKDAYS,
    Part,
    Problem,
    ReminderRequest,
    read_timing,
)
from src.reading.reminder_phrases import read_reminder
from src.reading.sentences import FOLD, is_question
from src.reading.times import find_reminder_spans, fold
from src.reading.words import shared
from src.texts import LANGUAGES, Language, detect_language, say

Repeats = Literal["no", "hourly", "daily", "workdays", "weekly", "monthly", "yearly"]
Weekday = Literal[
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
]  # fmt: skip

MAX_TEXT = 1000  # characters; the bound of the column
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)
MAX_MINUTES = 60 * 24 * 366  # a year; farther moments have a date


class ReminderOrder(Form):
    """When to remind of what, or to when a reminder moves."""

    text: str = Field(min_length=1, max_length=MAX_TEXT, description="of what, in their words")
    when: str = Field(default="", max_length=40, description="2026-11-24T09:00; empty: no time")
    in_minutes: int = Field(default=0, ge=0, le=MAX_MINUTES, description="instead of when")
    repeats: Repeats = "no"
    every: int = Field(default=1, ge=1, le=3650, description="2: every second")
    weekdays: list[Weekday] = Field(default_factory=list)
    hours: list[int] = Field(default_factory=list)
    day: int = Field(default=0, ge=0, le=31, description="31: the last")
    time_zone: str = Field(default="", max_length=60, description="only if named")
    moves: str = Field(default="", max_length=40, description="id to move")

    def own_zone(self) -> str:
        """The zone that is named for this one; empty: none is.

        Raises:
            ValueError: There is no such place.
        """
        if not self.time_zone.strip():
            return ""
        if zone := find_time_zone(self.time_zone):
            return zone
        raise ValueError("time_zone: no such place; name a larger city, or leave it empty")

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
            return replace(self._recurrence(local_time(first, time_zone)), zone=self.own_zone())
        except ValueError:
            raise ValueError("repeats, every, weekdays, hours, day: they do not fit") from None

    def _recurrence(self, local: datetime) -> Recurrence:
        hours = tuple(sorted(set(self.hours) or {local.hour}))
        values: dict[str, Any] = {"minute": local.minute}
        if self.every > 1 and self.repeats != "hourly":
            values |= {"interval": self.every, "start": local.date()}
        weekdays = tuple(sorted({WEEKDAYS.index(one) for one in self.weekdays}))
        match self.repeats:
            case "hourly":
                return Recurrence.hourly(self.every, local.hour, local.minute)
            case "workdays":
                return Recurrence("weekly", hours, weekdays=WORKDAYS, **values)
            case "weekly":
                values["weekdays"] = weekdays or (local.weekday(),)
            case "monthly":
                values["day"] = self.day or local.day
            case "yearly":
                values |= {"day": self.day or local.day, "month": local.month}
        return Recurrence(cast(Frequency, self.repeats), hours, **values)


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
    if request.time_zone:
        arguments["time_zone"] = request.time_zone
    if again is None:
        return arguments
    its: dict[str, Any] = {
        "repeats": again.frequency,
        "every": again.interval,
        "hours": list(again.hours),
        "weekdays": [WEEKDAYS[number] for number in again.weekdays],
        "day": again.day,
    }
    return arguments | {name: value for name, value in its.items() if value}


# The tools.
SET_REMINDER, LIST_REMINDERS, CANCEL_REMINDER = "set_reminder", "list_reminders", "cancel_reminder"
MAX_LISTED = 20  # lines; /reminders has the rest
MAX_QUESTION = 80  # characters of a question for them
MAX_CANCELLING = 150  # characters of a request to cancel one
# Questions for what is set: "какие у меня напоминания?", "show my reminders".
ASKS_FOR_LIST = lexicon.Expression(
    r"\W*(?:<cancel.list>\b[\w ,']{0,30} )?<cancel.reminders>(?: <cancel.are_set>)*\W*",
    re.IGNORECASE,
)
# "Remind me": of what, and when? The answer completes it.
BARE_ORDER = lexicon.Expression("<cancel.bare_order>[.! ]*", re.IGNORECASE)
POLITE = lexicon.Expression(r"[ ,]*\b<requests.please>\b[ ,]*", re.IGNORECASE)
_OF = "(?:(?: <cancel.about>)? (?P<about>.{1,80}?))?"
# "Отмени напоминание про хлеб", "cancel the bread reminder", "больше не напоминай о хлебе".
CANCEL = tuple(
    lexicon.Expression(rf"\W*(?:<cancel.and>[ ,]+)?{source}\W*", re.IGNORECASE)
    for source in (
        "<cancel.stop> (?:<cancel.whose> )?(?:(?P<all><cancel.all>) )?(?:<cancel.whose> )?"
        "<cancel.noun>(?: (?:<cancel.about> )?(?P<about>.{1,80}?))?",
        "<cancel.stop> (?:<cancel.whose> )?(?P<about>.{1,40}?) reminders?",
        f"<cancel.no_more>{_OF}(?: <cancel.again>)?",
    )
)


@dataclass(frozen=True)
class Cancelling:
    """Which reminders shall not come.

    Attributes:
        about: Words of theirs; empty: none are named.
        is_all: Whether all are meant.
    """

    about: str
    is_all: bool


def read_cancelling(text: str) -> Cancelling | None:
    """What a message wants to be reminded of no more; None: it wants nothing of the kind."""
    if len(text) > MAX_CANCELLING or is_question(text):
        return None
    folded = POLITE.sub(" ", text.translate(FOLD)).strip()
    for pattern in CANCEL:
        if match := pattern.fullmatch(folded):
            groups = match.groupdict()
            return Cancelling(groups["about"] or "", bool(groups.get("all")))
    return None


# "Перенеси на пятницу", "move the dentist reminder to 10", "відклади на годину".
MOVE = lexicon.Expression(
    r"\W*(?:<requests.please>[ ,]+)?(?:<cancel.and>[ ,]+)?<move.verb>(?!\w)[ ,]*", re.IGNORECASE
)
NOUN = lexicon.Expression(r"\b<cancel.noun>(?!\w)", re.IGNORECASE)
BEFORE_ABOUT = lexicon.Expression(
    r"\W*(?:(?:<cancel.whose>|<move.it>|<cancel.about>|the)(?!\w)\W*)*", re.IGNORECASE
)
LENGTH = lexicon.Expression(
    r"(?:(?P<to><move.to>) )?(?P<length>.+?)(?: (?:(?P<later><move.later>)|(?P<earlier>"
    r"<move.earlier>)))?",
    re.IGNORECASE,
)
TO = lexicon.Expression(r"\b<move.to> (?P<word>\d{1,2}|[^\W\d]+)(?=\W*$)", re.IGNORECASE)
TO_END = lexicon.Expression(r"[ ,]*(?:\b(?:<move.to>|<cancel.and>))?[ ,]*$", re.IGNORECASE)
BETWEEN_TIMES = lexicon.Expression(r"[ ,]*(?:(?:<move.to>|<cancel.and>) )?", re.IGNORECASE)
# Before a length of time; "через день" alone is every other day.
IN = ("in", "через", "через 1")


@dataclass(frozen=True)
class Moving:
    """Which reminder shall come at another time.

    Attributes:
        about: Words of it; empty: none are named.
        time: When, in words that ``find_reminder_spans`` reads; empty: it is not said.
        by: Where the time is a length, whether it comes so much ``later`` or ``earlier``.
    """

    about: str
    time: str
    by: Literal["later", "earlier"] | None = None


def read_moving(text: str) -> Moving | None:
    """Which reminder a message wants to have moved, and to when; None: it wants nothing so."""
    if len(text) > MAX_CANCELLING or is_question(text):
        return None
    folded = POLITE.sub(" ", fold(text)).strip().rstrip(" .!")
    begin = MOVE.match(folded)
    if begin is None:
        return None
    rest = folded[begin.end() :]
    about, time, by = _moved_by(rest) or _moved_to(rest)
    is_named = NOUN.search(about) is not None
    about = NOUN.sub(" ", about)
    about = about[found.end() :] if (found := BEFORE_ABOUT.match(about)) else about
    return Moving(about.strip(" ,"), time, by) if time or is_named else None


def _moved_by(rest: str) -> tuple[str, str, Literal["later", "earlier"]] | None:
    """What stands before a length of time at the end, and which way that moves a reminder."""
    for word in re.finditer(r"\S+", rest):
        found = LENGTH.fullmatch(rest, word.start())
        if found is None or not (found["to"] or found["later"] or found["earlier"]):
            continue
        for phrase in (f"{before} {found['length']}" for before in IN):
            spans = find_reminder_spans(phrase)
            if [(s.slot, s.start, s.end) for s in spans] == [("after", 0, len(phrase))]:
                return rest[: word.start()], phrase, "earlier" if found["earlier"] else "later"
    return None


def _moved_to(rest: str) -> tuple[str, str, None]:
    """What stands before the time at the end, and that; the time is empty where none is said."""
    rest = TO.sub(_as_time, rest)
    start = len(rest)
    for span in reversed(find_reminder_spans(rest)):
        if BETWEEN_TIMES.fullmatch(rest, span.end, start) is None:
            break
        start = span.start
    return TO_END.sub("", rest[:start]), rest[start:], None


def _as_time(found: re.Match[str]) -> str:
    """A bare hour, or a part of the day, behind "to": "на 10", "на вечер"."""
    if found["word"].isdigit():
        return f"at {found['word']}"
    part = lexicon.values("move.part").get(found["word"].lower())
    return f"{PART_HOURS[cast(Part, part)]}:00" if part else found[0]


def move_arguments(
    wanted: Moving, due: datetime, now: datetime, time_zone: str
) -> dict[str, Any] | Problem:
    """The arguments that move a reminder, or why it cannot be moved there.

    A day alone keeps its hour, an hour alone its day.

    Args:
        wanted: What shall move.
        due: When it would come (aware).
        now: When that is asked (aware).
        time_zone: The user's.
    """
    local, words = local_time(due, time_zone), wanted.time
    slots = {span.slot for span in find_reminder_spans(words)}
    if not wanted.by and not slots & {"clock", "part", "after"}:
        words = f"{words} {local:%H:%M}"
    if not wanted.by and not slots & {"date", "every", "after"}:
        words = f"{local:%Y-%m-%d} {words}"
    counted_from = due if wanted.by else now
    request = read_timing("-", find_reminder_spans(words), counted_from, time_zone)
    if not wanted.time or request.when is None:
        return request.problem if wanted.time and request.problem else "no_time"
    if wanted.by == "earlier":
        request = replace(request, when=due - (request.when - due))
    return order_arguments(request, time_zone)


def find_meant(
    about: str, listed: Sequence[Mapping[str, Any]], said_before: str
) -> list[Mapping[str, Any]]:
    """Those of the listed reminders that a request can mean.

    Args:
        about: Words of it; where there are none, the one of which the bot spoke last is meant.
        listed: Those that wait, each with its ``text``.
        said_before: What the bot answered last.
    """
    if not about:
        spoken_of = [one for one in listed if str(one["text"]) in said_before]
        return spoken_of if len(listed) > 1 and len(spoken_of) == 1 else list(listed)
    shares = [len(shared(about, str(one["text"]))) for one in listed]
    most = max(shares, default=0)
    return [one for one, share in zip(listed, shares, strict=True) if share == most > 0]


def read_change(text: str) -> Cancelling | Moving | None:
    """The reminders that a message wants cancelled or moved; None: it wants nothing so."""
    return read_cancelling(text) or read_moving(text)


def names_reminder(text: str) -> bool:
    """Whether a message surely wants a reminder changed: it says so, and of nothing else."""
    wanted = read_change(text)
    is_of_one = isinstance(wanted, Moving) and not wanted.about
    return wanted is not None and (
        isinstance(wanted, Cancelling) or is_of_one or NOUN.search(text) is not None
    )


def change_calls(
    wanted: Cancelling | Moving,
    listed: Sequence[Mapping[str, Any]],
    asked_at: tuple[datetime, str],
    *,
    said_before: str = "",
) -> list[tuple[str, dict[str, Any]]] | Problem:
    """The calls that cancel or move it; nothing where several may be meant, or none is.

    Args:
        wanted: What shall change.
        listed: The reminders in the result of LIST_REMINDERS.
        asked_at: When, and the zone in which that list tells times.
        said_before: What the bot answered last.
    """
    meant = find_meant(wanted.about, listed, said_before)
    if isinstance(wanted, Cancelling):
        if not wanted.is_all and len(meant) != 1:
            return []
        return [(CANCEL_REMINDER, {"id": one["id"]}) for one in meant]
    if len(meant) != 1:
        return []
    now, zone = asked_at
    due = in_zone(datetime.fromisoformat(str(meant[0]["when"])), zone)
    arguments = move_arguments(wanted, due, now, zone)
    if isinstance(arguments, str):
        return arguments
    return [(SET_REMINDER, {**arguments, "text": meant[0]["text"], "moves": meant[0]["id"]})]


def next_calls(
    text: str, messages: Sequence[BaseMessage], results: Sequence[Mapping[str, Any]]
) -> list[tuple[str, dict[str, Any]]]:
    """Without a model: the calls that list the reminders, and then change what is meant.

    Args:
        text: What was typed.
        messages: The prompt.
        results: What the tools of this turn returned, the list first.
    """
    wanted = read_change(text)
    if wanted is None or len(results) > 1:
        return []
    if not results:
        return [(LIST_REMINDERS, {})]
    answers = [str(m.text) for m in messages if isinstance(m, AIMessage) and str(m.text)]
    said_before = answers[-1] if answers else ""
    listed = results[0].get("reminders") or []
    asked_at = asked_at_of(messages) or (datetime.now(UTC), "UTC")
    calls = change_calls(wanted, listed, asked_at, said_before=said_before)
    return [] if isinstance(calls, str) else calls


def reminder_request(text: str, messages: Sequence[BaseMessage]) -> ReminderRequest | None:
    """What a new message asks to be reminded of; None: nothing.

    It may be the answer to our question when, which completes the request before it.

    Args:
        text: What was typed.
        messages: The prompt, with the time at which it was.
    """
    asked_at = asked_at_of(messages)
    if asked_at is None:
        return None
    request = read_reminder(text, *asked_at)
    begun = _without_time(messages)
    if request is None and begun:
        request = read_reminder(f"{begun.rstrip('.! ')} {text}", *asked_at)
    return request


def asks_for_reminder(text: str) -> bool:
    """Whether a text asks for a reminder, at whatever time."""
    return read_reminder(text, datetime.now(UTC), "UTC") is not None


def problem_text(messages: Sequence[BaseMessage], tool_names: Sequence[str]) -> str | None:
    """What is said to a request that cannot be fulfilled as it is; None to all else.

    Args:
        messages: The prompt.
        tool_names: The tools that may be called.
    """
    said = [words["text"].strip() for words in own_words_of(messages) if words["is_asked"]]
    text = "\n".join(said)
    if SET_REMINDER in tool_names and BARE_ORDER.fullmatch(text):
        return say("reminder_no_time", detect_language(text))
    request = reminder_request(text, messages) if SET_REMINDER in tool_names else None
    if request is None or request.problem is None:
        return None
    return say(f"reminder_{request.problem}", detect_language(text))


def reminder_calls(text: str, messages: Sequence[BaseMessage]) -> list[tuple[str, dict[str, Any]]]:
    """The call of the tool that fulfils a request, or lists them; nothing to other messages."""
    if len(text) <= MAX_QUESTION and ASKS_FOR_LIST.fullmatch(text):
        return [(LIST_REMINDERS, {})]
    request, asked_at = reminder_request(text, messages), asked_at_of(messages)
    if request is None or request.problem is not None or asked_at is None:
        return []
    return [(SET_REMINDER, order_arguments(request, asked_at[1]))]


def describe_reminder(found: Mapping[str, Any], language: Language, asked: str = "") -> str:
    """What is said to the result of either tool; what ``asked`` to change one, asks which."""
    listed = found.get("reminders")
    if listed is not None:
        title = say("reminders_title", language, count=len(listed))
        if read_change(asked):
            title = say("reminder_which", language)
        lines = [f"• {one['text']}: {one['time']}" for one in listed[:MAX_LISTED]]
        lines += [say("reminders_where", language)]
        return "\n".join([title, *lines]) if listed else say("reminders_empty", language)
    if "cancelled" in found:
        key = "reminder_cancelled" if found["cancelled"] else "reminder_gone"
        return say(key, language, text=found.get("text", ""))
    if found.get("set"):
        key = "reminder_moved" if found.get("moved") else "reminder_set"
        return say(key, language, text=found["text"], time=found["time"])
    return say(f"reminder_{found.get('reason', 'no_time')}", language)


def _without_time(messages: Sequence[BaseMessage]) -> str:
    """The request of which the bot has just asked when."""
    talk = [m for m in messages if isinstance(m, HumanMessage | AIMessage) and str(m.text)]
    if len(talk) < 3 or not isinstance(talk[-2], AIMessage):  # request, question, answer
        return ""
    asked = any(str(talk[-2].text) == say("reminder_no_time", one) for one in LANGUAGES)
    return strip_time_label(str(talk[-3].text)) if asked else ""
