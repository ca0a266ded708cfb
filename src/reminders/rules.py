"""A reminder as a model orders it, and without a model: the request read by rules."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast, get_args

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import Field

from src.base.zone_names import find_time_zone
from src.base.zones import first_moment, local_time
from src.history.new_messages import strip_time_label
from src.llm.quoting import Form
from src.reading import lexicon
from src.reading.recurrences import Recurrence
from src.reading.reminder_moments import (
    PART_HOURS,
    SHIFT,
    WORKDAYS,
    Part,
    ReminderRequest,
    read_new_time,
)
from src.reading.reminder_phrases import read_reminder
from src.reading.requests import ALL_OF_THEM, ASKING, picked
from src.reading.sentences import is_question
from src.reading.times import find_reminder_spans, fold
from src.reading.words import shared
from src.texts import LANGUAGES, Language, say
from src.texts.morphology import parts_of_speech, words

Repeats = Literal["no", "hourly", "daily", "workdays", "weekly", "monthly", "yearly"]
Weekday = Literal[
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
]  # fmt: skip

MAX_TEXT = 1000  # characters; the bound of the column
MAX_CHANGE = 150  # characters of a request to cancel or to move one
MAX_CLAUSES = 3  # at its end, where it may begin
MAX_LEAD = 2  # words before "an hour later", where nothing else is said
# In place of an id: that of which the bot spoke last, and all that wait.
IT, ALL = "it", "all"
CLOCK = "⏰"  # begins an answer about reminders
NO_TEXT = "-"  # in the place of what to remind of
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)
UNITS = {
    "hourly": "hour", "daily": "day", "workdays": "week", "weekly": "week", "monthly": "month",
    "yearly": "year",
}  # fmt: skip
MAX_MINUTES = 60 * 24 * 366  # a year; farther moments have a date


class ReminderOrder(Form):
    """When to remind of what, or to when a reminder moves."""

    text: str = Field(min_length=1, max_length=MAX_TEXT, description="in their words")
    when: str = Field(default="", max_length=MAX_TEXT, description="2026-11-24T09:00")
    in_minutes: int = Field(default=0, ge=0, le=MAX_MINUTES, description="instead of when")
    repeats: Repeats = "no"
    every: int = Field(default=1, ge=1, le=3650, description="2: every second")
    weekdays: list[Weekday] = Field(default_factory=list)
    hours: list[int] = Field(default_factory=list)
    day: int = Field(default=0, ge=0, le=31, description="31: the last")
    time_zone: str = Field(default="", max_length=60, description="only if named")
    moves: str = Field(default="", max_length=MAX_CHANGE, description="id")

    def request(self, now: datetime, time_zone: str, due: datetime | None) -> ReminderRequest:
        """What is asked for; its time may be in words, as small models and the notebook write it.

        Args:
            now: Aware.
            time_zone: By whose clock.
            due: The time of the reminder that moves.

        Raises:
            ValueError: It is no time, or these do not make a recurrence.
        """
        try:
            when = self.moment(now, time_zone)
        except ValueError:
            words = self.when
            said = (
                read_words(words, now, time_zone)
                if due is None
                else read_new_time(words, due, now, time_zone)
            )
            if said is None or (said.when is None and not asks_for_reminder(words)):
                raise
            return replace(said, what=self.text, problem=None if said.when else said.problem)
        again = self.recurrence(when, time_zone) if when is not None else None
        return ReminderRequest(self.text, when, again, None if when else "no_time")

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
        days = [WEEKDAYS.index(one) for one in self.weekdays]
        try:
            again = Recurrence.of(
                UNITS[self.repeats], local_time(first, time_zone), interval=self.every,
                hours=self.hours, weekdays=WORKDAYS if self.repeats == "workdays" else days,
                date=(self.day, 0),
            )  # fmt: skip
        except ValueError:
            raise ValueError("repeats, every, weekdays, hours, day: they do not fit") from None
        return replace(again, zone=self.own_zone())


class CancelOrder(Form):
    """Which reminder is to be cancelled."""

    id: str = Field(max_length=MAX_CHANGE, description="such as reminder-12")


# The tools.
TOOLS = ("set_reminder", "list_reminders", "cancel_reminder")
SET_REMINDER, LIST_REMINDERS, CANCEL_REMINDER = TOOLS
MAX_LISTED = 20  # lines; /reminders has the rest
MAX_QUESTION = 80  # characters of a question for them
# Questions for what is set: "какие у меня напоминания?", "show my reminders".
ASKS_FOR_LIST = lexicon.AnyCase(
    r"\W*(?:(?>(?:<lines.opener>|<reminder.greeting>)(?!\w))[ ,.]+)*"
    r"(?:(?:<cancel.list>\b[\w ,']{0,30} )?<cancel.reminders>|<cancel.asked>)"
    r"(?: <cancel.are_set>)*\W*"
)
# "Remind me": of what, and when? The answer completes it.
BARE_ORDER = lexicon.AnyCase("<cancel.bare_order>[.! ]*")
# With a sign only behind it, it ends a clause.
POLITE = lexicon.AnyCase(
    r"(?P<before>[ ,]*)\b(?:<requests.please>|<move.instead>|<move.sorry>)\b(?P<behind>[ ,]*)"
)
# A clause ends at a sign, before "can you", and before a verb that only orders.
CLAUSE_END = lexicon.AnyCase(
    r"(?:[.!?;,)(]+|\b<cancel.and>) |(?= <requests.you_may_english> )"
    r"|(?<= )(?=(?:<move.verb>|<cancel.surely>)(?<=[^\W\da-z])(?!\w))"
)
_LEAD = r"\W*(?:(?>(?:<lines.opener>|<cancel.and>)(?!\w))[ ,]+)*"
_OF = "(?:(?: <cancel.about>)? (?P<about>.{1,80}?))?"
_UNNEEDED = "[ ,]+(?:<cancel.unneeded>|<cancel.stop>)(?: <cancel.again>)?"
# "Отмени напоминание про хлеб", "cancel the bread reminder", "больше не напоминай о хлебе",
# "напоминание про хлеб больше не нужно".
CANCEL = tuple(
    lexicon.AnyCase(rf"{_LEAD}{source}\W*")
    for source in (
        "<cancel.stop> (?:<cancel.whose> )?(?:(?P<all><cancel.all>) )?(?:<cancel.whose> )?"
        "<cancel.noun>(?: (?:<cancel.about> )?(?P<about>.{1,80}?))??(?: <cancel.again>)?",
        "<cancel.stop> (?:<cancel.whose> )?(?P<about>.{1,40}?) reminders?(?: <cancel.again>)?",
        "<cancel.surely> (?:<cancel.whose> )?(?P<about>.{1,40}?) reminders? .{1,80}",
        "<cancel.surely> (?:<cancel.whose> )?(?:(?P<about>.{1,40}?) )?ones?(?:[,.;!(].{0,80})?",
        "<cancel.surely> (?:<cancel.about>|<cancel.whose> <cancel.about>) (?P<about>.{1,80}?)",
        f"<cancel.no_more>{_OF}(?: <cancel.again>)?",
        f"(?:<cancel.whose> )?<cancel.noun>{_OF}{_UNNEEDED}",
        f"(?:<cancel.whose> )?(?P<about>.{{1,40}}?) reminders?{_UNNEEDED}",
        "<cancel.stop> (?P<about>.{1,40}?) <cancel.from_set>",
        "(?P<about>[^,.;]{1,40}?) <cancel.stop> <cancel.from_set>",
        "<cancel.surely> (?P<all><cancel.all_of_them>)",
        "(?P<all><cancel.all_of_them>) <cancel.surely>",
        "(?:<cancel.about> )?(?P<about>[^,.;]{1,40}?)(?: <cancel.again>)? <cancel.no_more>",
        "(?:<cancel.whose> )?<cancel.about> (?P<about>[^,.;]{1,40}?) <cancel.surely>",
    )
)


# "Перенеси на пятницу", "move the dentist reminder to 10", "відклади на годину".
MOVE = lexicon.AnyCase(
    r"\W*(?:(?>(?:<lines.opener>|<reminder.greeting>|<requests.please>|<cancel.and>)(?!\w))"
    r"[ ,.!]+)*"
    r"<move.verb>(?!\w)[ ,]*"
)
# "Not at 7:45 but" at 6:30.
NOT_THEN = lexicon.AnyCase(r"\b<move.not> .{1,30}?(?:[ ,]+<move.but> |,[ ]+)")
REASON = lexicon.AnyCase(r"(?:[,;.!(]| <move.because>) .*")
OPENING = lexicon.AnyCase(
    r"^\W*(?:(?>(?:<lines.opener>|<reminder.greeting>|<cancel.about>)(?![\w'-]))\W*)*"
)
# What no thing begins with, in OpenCorpora's terms.
NO_THING = frozenset({"NPRO", "CONJ", "PREP", "PRCL", "ADVB", "PRED"})
NOUN = lexicon.AnyCase(r"\b<cancel.noun>(?!\w)")
OPTION = re.compile(r"^• (.+): ", re.M)  # of a list that asks which is meant
# The whole of a message: "oh cancel it", "cancel the vet".
BARE_CANCEL = lexicon.Expression(
    rf"{_LEAD}<cancel.surely>"
    r"(?: (?:<move.it>|(?:<cancel.whose> )?(?P<about>[^,.;]{1,40})))?"
)
# Right behind an answer about one: "та не треба вже, він сам приїде", "never mind the kiln".
NOT_NEEDED = lexicon.Expression(
    rf"{_LEAD}<cancel.stop>(?: <cancel.again>)?"
    r"(?: <move.it>|(?: <cancel.about>)?(?: <cancel.whose>)? (?P<about>[^,.;(]{1,40}?))?"
    r"(?: <cancel.again>)?(?:[,.;(].{0,80})?"
)
_CORRECTING = "(?:<lines.corrects>|<move.rather>|<move.instead>)"
BEFORE_TIME = lexicon.Expression(
    rf"^\W*(?:(?><lines.opener>(?!\w))\W*)*?{_CORRECTING}(?!\w)\W*"
    rf"(?:(?>(?:<lines.opener>|{_CORRECTING}|<cancel.bare_order>)(?!\w))\W*)*"
)
# "They are closed till noon," better at three.
LAST_CLAUSE = lexicon.AnyCase(r"(?<=[,.] )<move.rather> [^,.]{3,40}$")
FROM = lexicon.AnyCase(r"\b(?:<move.from> .{1,30}?|ones?) (?=<move.to> )")
BEFORE_ABOUT = lexicon.AnyCase(
    r"\W*(?:(?>(?:<cancel.whose>|<move.it>|<cancel.about>|the|ones?)(?!\w))\W*)*"
)
# "На 14 часов" is no shift by fourteen.
CLOCK_HOUR = lexicon.AnyCase(
    r"\b<move.to> (?P<hour>(?:1[2-9]|2[0-3])(?= <move.hours>)|\d{1,2}(?= <move.at_hour>))"
    r" \w+"
)
TO = lexicon.AnyCase(r"\b<move.to> (?P<word>\d{1,2}|[^\W\d]+)(?=\W*$)")
TO_END = lexicon.AnyCase(r"[ ,]*(?:\b(?:<move.to>|<cancel.and>))?[ ,]*$")
BETWEEN_TIMES = lexicon.AnyCase(r"[ ,]*(?:(?:<move.to>|<cancel.and>) )?")


def read_change(text: str) -> CancelOrder | ReminderOrder | None:
    """What a message wants to be cancelled, or moved and to when, in its words; None: nothing."""
    folded = _without_polite(fold(text)).strip(" ,").rstrip(" .!?)")
    if len(text) > MAX_CHANGE or (is_question(text) and ASKING.match(folded) is None):
        return None
    ends = [end.end() for end in CLAUSE_END.finditer(folded)][-MAX_CLAUSES:]
    clauses = [(0, 0), *zip([0, *ends], ends, strict=False)]
    changes = (_change(ASKING.sub("", folded[at:]), folded[last:at]) for last, at in clauses)
    return next((change for change in changes if change is not None), None)


def _without_polite(folded: str) -> str:
    def joint(found: re.Match[str]) -> str:
        return ", " if "," in found["behind"] and "," not in found["before"] else " "

    return POLITE.sub(joint, folded)


def _change(folded: str, before: str) -> CancelOrder | ReminderOrder | None:
    """What a clause wants to be changed, with what follows it and the clause before it."""
    for pattern in CANCEL:
        if match := pattern.fullmatch(REASON.sub("", folded)) or pattern.fullmatch(folded):
            groups = match.groupdict()
            return CancelOrder(id=ALL if groups.get("all") else groups["about"] or IT)
    begin = MOVE.match(folded)
    if begin is None:
        return None
    said, thing = folded[begin.end() :], OPENING.sub("", before).strip()
    orders = [_moving(said), _moving(REASON.sub("", said))]
    moved = next((one for one in orders if one and one.when), None)
    if moved is None and (spans := find_reminder_spans(said)):  # a reason without a sign
        end = spans[-1].end
        moved, thing = _moving(said[:end]), said[end:].strip() or thing
    if moved is None:  # "нет, на 6 утра перенеси"
        order = _moving(BEFORE_TIME.sub("", before.strip(" ,")))
        if order is not None and (order.moves == IT or _is_thing(thing)):
            moved, thing = order, ""
    if moved is not None and moved.moves == IT and _is_thing(thing):
        return moved.model_copy(update={"text": thing, "moves": thing})
    return moved or orders[0]


def _is_thing(said: str) -> bool:
    """Whether it begins as what is moved, and tells no reason: "йогу", no "там пробки"."""
    tags = [parts_of_speech(word) for word in words(said)]
    if not tags or said.isascii() or any("VERB" in one for one in tags):
        return False
    return not tags[0] or (bool(tags[0] & {"NOUN", "ADJF"}) and not tags[0] & NO_THING)


def _short(text: str) -> str:
    """What may be a whole message about a reminder, folded, without its last signs."""
    return fold(text[:MAX_CHANGE]).strip().rstrip(" .!?)")


def _cancels_alone(text: str, pattern: lexicon.Expression = BARE_CANCEL) -> CancelOrder | None:
    """What a message that says no more wants to be cancelled: "cancel it", "cancel the vet"."""
    match = pattern.fullmatch(_without_polite(_short(text)))
    return CancelOrder(id=match["about"] or IT) if match else None


def _cancels_it(text: str) -> bool:
    """Whether a message says "cancel it", and no more."""
    return _cancels_alone(text) == CancelOrder(id=IT)


def _change_in_passing(text: str) -> ReminderOrder | None:
    """When the reminder that was spoken of is to come instead: "no sorry, at 10"."""
    folded = _short(text)
    shift = SHIFT.search(folded)
    if shift and shift.end() == len(folded) and len(words(folded[: shift.start()])) <= MAX_LEAD:
        return ReminderOrder(text=IT, when=shift[0], moves=IT)  # "make it an hour later"
    folded = folded[end.start() :] if (end := LAST_CLAUSE.search(folded)) else folded
    said = BEFORE_TIME.sub("to ", NOT_THEN.sub("no ", folded))
    about, when = _before_time(_without_polite(said).rstrip(" ,"))  # "at 6" alone as well
    return ReminderOrder(text=IT, when=when, moves=IT) if when and not about else None


def _moving(said: str) -> ReminderOrder | None:
    """The order in what stands behind "move": which one, then the new time."""
    said = CLOCK_HOUR.sub(r"at \g<hour>:00", FROM.sub("", NOT_THEN.sub("", said)))
    shift = SHIFT.search(said)
    about, when = (said[: shift.start()], shift[0]) if shift else _before_time(said)
    is_named = NOUN.search(about) is not None
    about = NOUN.sub(" ", about)
    about = about[BEFORE_ABOUT.behind(about) :].strip(" ,") or IT
    return ReminderOrder(text=about, when=when, moves=about) if when or is_named else None


def _before_time(said: str) -> tuple[str, str]:
    """What stands before the time at the end, and that; empty where none is said."""
    said = TO.sub(_as_time, said)
    start = len(said)
    for span in reversed(find_reminder_spans(said)):
        if BETWEEN_TIMES.fullmatch(said, span.end, start) is None:
            break
        start = span.start
    return TO_END.sub("", said[:start]), said[start:]


def _as_time(found: re.Match[str]) -> str:
    """A bare hour, or a part of the day, behind "to": "на 10", "на вечер"."""
    if found["word"].isdigit():
        return f"at {found['word']}"
    part = lexicon.values("move.part").get(found["word"].lower())
    return f"{PART_HOURS[cast(Part, part)]}:00" if part else found[0]


def names_reminder(text: str) -> bool:
    """Whether a message surely wants a reminder changed: it says so, and of nothing else."""
    wanted = read_change(text)
    is_of_other = isinstance(wanted, ReminderOrder) and wanted.moves != IT
    return wanted is not None and not (is_of_other and NOUN.search(text) is None)


def read_words(said: str, now: datetime, time_zone: str) -> ReminderRequest | None:
    """The request in a phrase: as it is, or as what would stand behind an order."""
    said = said.strip()
    found = read_reminder(said, now, time_zone)
    if found is not None:
        return found
    # What makes a request of a phrase that only says what and when, as people write after /remind.
    for order in (order for _, orders in lexicon.by_language("cancel.remind") for order in orders):
        request = read_reminder(f"{order}{said}", now, time_zone)
        if request is not None and request.problem in (None, "no_text"):
            return request
        found = found or request
    return found


def asks_for_reminder(text: str) -> bool:
    """Whether a text asks for a reminder, at whatever time."""
    return read_reminder(text, datetime.now(UTC), "UTC") is not None


def asks_in_vain(text: str, tool_names: Sequence[str]) -> bool:
    """Whether a message wants to see those that wait, or to change any, and none waits."""
    none_waits = SET_REMINDER in tool_names and LIST_REMINDERS not in tool_names
    return none_waits and (_asks_for_list(text) or names_reminder(text) or _cancels_it(text))


def cancels_note(text: str, note: str, messages: Sequence[BaseMessage]) -> bool:
    """Whether a bare "cancel it" means the note right before it, and no reminder.

    Not where the bot spoke of one since, nor where the note may be the reason ("mum called").

    Args:
        text: What was typed.
        note: What was told before.
        messages: The prompt.
    """
    if not _cancels_it(text) or read_change(text) is not None:
        return False
    told = [str(m.text).partition("\n")[0] for m in _talk(messages) if isinstance(m, AIMessage)]
    about = (one.partition(": ")[2] for one in told if one.startswith(CLOCK))
    is_reason = any(shared(note, one) for one in about)
    return not is_reason and not _answer_before(messages).startswith(CLOCK)


def _asks_for_list(text: str) -> bool:
    asked = POLITE.sub(" ", text)
    return len(text) <= MAX_QUESTION and ASKS_FOR_LIST.fullmatch(asked) is not None


def reminder_calls(
    text: str, messages: Sequence[BaseMessage], tool_names: Sequence[str] = TOOLS
) -> list[tuple[str, dict[str, Any]]]:
    """Without a model: the call that does what a message asks of reminders; else nothing.

    It may be the answer to our question when, which completes the request before it.

    Args:
        text: What was typed.
        messages: The prompt.
        tool_names: Those that may be called.
    """
    waits = LIST_REMINDERS in tool_names
    if waits and _asks_for_list(text):
        return [(LIST_REMINDERS, {})]
    wanted = _wanted_change(text, messages) if waits else None
    if wanted is not None:
        name = CANCEL_REMINDER if isinstance(wanted, CancelOrder) else SET_REMINDER
        return [(name, wanted.model_dump(exclude_defaults=True))]
    if BARE_ORDER.fullmatch(text):
        return [(SET_REMINDER, {"text": NO_TEXT})]
    begun = _without_time(messages).rstrip(".! ")
    for said in (text, f"{begun} {text}" if begun else ""):
        if request := read_reminder(said, datetime.now(UTC), "UTC"):
            what = request.what[:MAX_TEXT] or NO_TEXT
            return [(SET_REMINDER, {"text": what, "when": said[:MAX_TEXT]})]
    return []


def describe_reminder(found: Mapping[str, Any], language: Language) -> str:
    """What is said to the result of a tool, where no model words it."""
    listed = found.get("reminders")
    if listed:
        title = say("reminders_title", language, count=len(listed))
        lines = [say("reminder_which", language) if "reason" in found else title]
        lines += [f"• {one['text']}: {one['time']}" for one in listed[:MAX_LISTED]]
        return "\n".join([*lines, say("reminders_where", language)])
    if listed is not None:
        return say("reminders_empty", language)
    done = next((one for one in ("moved", "set", "cancelled") if found.get(one)), None)
    text, time = found.get("text", ""), found.get("time", "")
    outcome = done or found.get("reason", "no_time")
    return say(f"reminder_{outcome}", language, text=text, time=time)


def _wanted_change(
    text: str, messages: Sequence[BaseMessage]
) -> CancelOrder | ReminderOrder | None:
    """What is to become of one that waits; right behind an answer about one, in fewer words."""
    wanted = _picked(text, messages) or read_change(text) or _cancels_alone(text)
    if wanted is None and _answer_before(messages).startswith(CLOCK):
        return _change_in_passing(text) or _cancels_alone(text, NOT_NEEDED)
    return wanted


def _picked(text: str, messages: Sequence[BaseMessage]) -> CancelOrder | ReminderOrder | None:
    """The order of before, of the one that is named now that the bot has asked which."""
    list_before = _answer_before(messages)
    asked_which = tuple(say("reminder_which", language) for language in LANGUAGES)
    if is_question(text) or not list_before.startswith(asked_which):
        return None
    before = strip_time_label(str(_talk(messages)[-3].text))
    order = read_change(before) or _cancels_alone(before) or _change_in_passing(before)
    options = OPTION.findall(list_before)
    about = picked(text, options)
    if isinstance(order, CancelOrder) and ALL_OF_THEM.fullmatch(text):
        return CancelOrder(id=ALL)
    if order is None or not any(shared(about, option) for option in options):
        return None
    field = "id" if isinstance(order, CancelOrder) else "moves"
    return order.model_copy(update={field: about})


def _without_time(messages: Sequence[BaseMessage]) -> str:
    """The request of which the bot has just asked when."""
    asked = any(_answer_before(messages) == say("reminder_no_time", one) for one in LANGUAGES)
    return strip_time_label(str(_talk(messages)[-3].text)) if asked else ""


def _answer_before(messages: Sequence[BaseMessage]) -> str:
    """What the bot said right before the newest message, if something was asked before it."""
    talk = _talk(messages)
    return str(talk[-2].text) if len(talk) > 2 and isinstance(talk[-2], AIMessage) else ""


def _talk(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    return [m for m in messages if isinstance(m, HumanMessage | AIMessage) and str(m.text)]
