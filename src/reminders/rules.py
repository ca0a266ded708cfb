"""Reminder orders: the tools' argument schemas, and rules that read orders without a model."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, cast, get_args

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import Field

from src.base import zones
from src.history.new_messages import ASKS, last_user_index, own_words_of, strip_time_label
from src.llm.quoting import Form
from src.memory import line_kinds
from src.reading import lexicon, reminder_moments, reminder_phrases, times
from src.reading.contradictions import affirms
from src.reading.recurrences import Recurrence
from src.reading.relative_dates import has_past_verb
from src.reading.reminder_moments import SHIFT, ReminderRequest
from src.reading.requests import (
    ALL_OF_THEM,
    ASKING,
    ForgetRequest,
    asks_to_keep_private,
    forget_request,
    names_item,
    pick_option,
    place_of,
)
from src.reading.sentences import is_question, may_ask
from src.reading.time_expressions import Period, read_time
from src.reading.times import PART_HOURS, WORKDAYS, Part
from src.reading.words import content, content_words, mend_orders, mended, people_in, shared
from src.texts import Language, detect_language, say
from src.texts.morphology import parts_of_speech, words
from src.texts.plain_text import between

Repeats = Literal["no", "hourly", "daily", "workdays", "weekly", "monthly", "yearly"]
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

MAX_TEXT = 1000  # characters; the limit of the column
MAX_CHANGE = 150  # characters of a request to cancel or move a reminder
MAX_CLAUSES = 3  # at the end of a request, at which an order can begin
MAX_BESIDE_TIME = 3  # words beside the time in an answer to "when?": "ok then tomorrow please"
MAX_LEAD = 2  # words before "an hour later" in a message with nothing else
# Instead of an id: the reminder that the bot mentioned last, and all pending reminders.
IT, ALL = "it", "all"
ALL_BUT = "all but "  # before the names of those to be spared
NO_TEXT = "-"  # in place of a missing subject
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)
UNITS = {
    "hourly": "hour", "daily": "day", "workdays": "week", "weekly": "week", "monthly": "month",
    "yearly": "year",
}  # fmt: skip
MAX_MINUTES = 60 * 24 * 366  # a year; later times are given as a date


class ReminderOrder(Form):
    """When to remind of what, or to when a reminder moves."""

    text: str = Field(min_length=1, max_length=MAX_TEXT)
    when: str = Field(default="", max_length=MAX_TEXT)
    in_minutes: int = Field(default=0, ge=0, le=MAX_MINUTES)
    repeats: Repeats = "no"
    every: int = Field(default=1, ge=1, le=3650)
    weekdays: list[Weekday] = Field(default_factory=list)
    hours: list[int] = Field(default_factory=list)
    day: int = Field(default=0, ge=0, le=31)
    until: str = Field(default="", max_length=40)
    time_zone: str = Field(default="", max_length=60)
    moves: str = Field(default="", max_length=MAX_CHANGE)

    def request(self, now: datetime, time_zone: str, due: datetime | None) -> ReminderRequest:
        """Return the request; small models and the notebook write its time in words.

        Args:
            now: Current time, aware.
            time_zone: Zone of the clock.
            due: Time of the reminder to move, or None.

        Raises:
            ValueError: The time or the recurrence is invalid.
        """
        try:
            when = self.moment(now, time_zone)
        except ValueError:
            words = self.when
            found = (
                read_words(words, now, time_zone)
                if due is None
                else reminder_moments.read_new_time(words, due, now, time_zone)
            )
            if found is None or (found.when is None and not asks_for_reminder(words)):
                raise
            return replace(found, what=self.text, problem=None if found.when else found.problem)
        repeats = self.recurrence(when, time_zone) if when is not None else None
        return ReminderRequest(self.text, when, repeats, None if when else "no_time")

    def own_zone(self) -> str:
        """Return the time zone named in the order, or an empty string.

        Raises:
            ValueError: The place is unknown.
        """
        if not self.time_zone.strip():
            return ""
        if zone := zones.find_time_zone(self.time_zone):
            return zone
        raise ValueError("time_zone: no such place; name a larger city, or leave it empty")

    def moment(self, now: datetime, time_zone: str) -> datetime | None:
        """Return the first time, aware, or None if there is none.

        Raises:
            ValueError: The time is invalid.
        """
        if self.in_minutes:
            return now + timedelta(minutes=self.in_minutes)
        if not self.when.strip():
            return None
        try:
            written = datetime.fromisoformat(self.when.strip())
            if written.tzinfo is not None:
                return written.astimezone(UTC)
            return zones.first_moment(written, time_zone)
        except (ValueError, OverflowError):
            raise ValueError("when: write it as 2026-11-24T09:00") from None

    def recurrence(self, first: datetime, time_zone: str) -> Recurrence | None:
        """Return the recurrence, on the clock of its first time, or None.

        Raises:
            ValueError: The fields do not make a recurrence.
        """
        if self.repeats == "no":
            return None
        days = [WEEKDAYS.index(one) for one in self.weekdays]
        try:
            recurrence = Recurrence.of(
                UNITS[self.repeats], zones.local_time(first, time_zone), interval=self.every,
                hours=self.hours, weekdays=WORKDAYS if self.repeats == "workdays" else days,
                date=(self.day, 0),
            )  # fmt: skip
        except ValueError:
            raise ValueError("repeats, every, weekdays, hours, day: they do not fit") from None
        return replace(recurrence, zone=self.own_zone(), until=self.end())

    def end(self) -> datetime | None:
        """Return the last possible time, local and naive; None without an end.

        Raises:
            ValueError: The end is invalid.
        """
        written = self.until.strip()
        if not written:
            return None
        try:
            end = datetime.fromisoformat(written).replace(tzinfo=None, microsecond=0)
        except ValueError:
            raise ValueError("until: write it as 2026-12-05") from None
        is_day = len(written) <= len("2026-12-05")
        return end.replace(hour=23, minute=59, second=59) if is_day else end

    def by_words(self, said: str, now: datetime, time_zone: str) -> "ReminderOrder":
        """Return the order, in the user's own words where it lacks their end or exception.

        Args:
            said: The message that asks.
            now: Current time, aware.
            time_zone: Zone of the clock.
        """
        if self.repeats == "no" or self.until or len(said) > MAX_TEXT:
            return self
        found = reminder_phrases.read_reminder(said, now, time_zone)
        if found is None:
            return self
        repeats, days = found.repeats, {"daily": 7, "workdays": len(WORKDAYS)}
        number = 0 if self.weekdays else days.get(self.repeats, 0)
        has_limit = repeats is not None and bool(
            repeats.until or repeats.nth or 0 < len(repeats.weekdays) < number
        )
        if found.problem == "unclear" or has_limit:
            return ReminderOrder(text=self.text, when=said, moves=self.moves)
        return self


class CancelOrder(Form):
    """Which reminder is to be cancelled."""

    id: str = Field(max_length=MAX_CHANGE)
    on: str = Field(default="", max_length=MAX_CHANGE)


TOOLS = ("set_reminder", "list_reminders", "cancel_reminder")
SET_REMINDER, LIST_REMINDERS, CANCEL_REMINDER = TOOLS
DONE = ("skipped", "moved", "done", "set", "cancelled")  # in a tool's result; the first is told
MAX_LISTED = 20  # lines; /reminders lists the rest
MAX_QUESTION = 80  # characters of a question for the list
# Questions for the pending reminders: "какие у меня напоминания?", "show my reminders".
ASKS_FOR_LIST = lexicon.AnyCase(
    r"\W*(?:(?>(?:<lines.opener>|<reminder.greeting>)(?!\w))[ ,.]+)*"
    r"(?:(?:<cancel.list>\b[\w ,']{0,30} )?<cancel.reminders>|<cancel.asked>)"
    r"(?: <cancel.are_set>)*\W*"
)
ASKS_NEXT = lexicon.AnyCase(r"\b<cancel.next>(?!\w)")
# "Remind me", without subject and time; the user's next answer completes it.
BARE_ORDER = lexicon.AnyCase("<cancel.bare_order>[.! ]*")
# An answer to "when?" that is only an hour.
BARE_HOUR = re.compile(r"\W*(\d{1,2})\W*")
# Polite words and what separates them; with a comma only after them, they end a clause.
POLITE = lexicon.AnyCase(
    r"(?P<before>[ ,]*)\b(?:<requests.please>|<move.instead>|<move.sorry>)\b(?P<behind>[ ,]*)"
)
# The end of a clause: punctuation, before "can you", and before a verb that only gives orders.
CLAUSE_END = lexicon.AnyCase(
    r"(?:[.!?;,)(]+|\b<cancel.and>) |(?= <requests.you_may_english> )"
    r"|(?<= )(?=(?:<move.verb>|<cancel.surely>)(?<=[^\W\da-z])(?!\w)|<move.verb> <move.it>$)"
)
_LEAD = r"\W*(?:(?>(?:<lines.opener>|<reminder.greeting>|<cancel.and>)(?!\w))[ ,]+)*"
# Orders to cancel: "больше не напоминай о хлебе", "cancel the bread reminder", "напоминание про
# хлеб больше не нужно", "убери хлеб из напоминаний", "so cancel the vet", "хлеб отмени".
CANCEL = lexicon.AnyCase(
    r"\b<cancel.no_more>(?!\w)"
    rf"|^{_LEAD}(?:(?!не |don't )[\w'-]+ )?<cancel.stop>(?!\w).{{0,60}}?"
    r"\b(?:<cancel.noun>|<cancel.from_set>)(?!\w)"
    r"|\b<cancel.noun>(?!\w).{0,60}?\b(?:<cancel.unneeded>|<cancel.stop>)(?!\w)"
    rf"|^{_LEAD}<cancel.surely>(?!\w)|(?<!\bне )\b<cancel.surely>(?: <move.it>)?\W*$"
)
# The same, if the bot has just named a reminder, or an earlier request names the thing: "та не
# треба вже", "бассейн убери", "no need for the plumber".
CANCEL_KNOWN = lexicon.AnyCase(
    rf"^{_LEAD}<cancel.stop>(?!\w)|\b<cancel.stop>(?: <cancel.again>)?\W*$"
)
# Words of these orders that name no reminder.
CANCEL_WORDS = lexicon.AnyCase(
    rf"^{_LEAD}|(?<![\w'-])(?:<cancel.no_more>|<cancel.from_set>|<cancel.unneeded>|<cancel.stop>"
    r"|<cancel.surely>|<cancel.noun>|<cancel.about>|<cancel.whose>|<cancel.again>|<move.it>"
    r"|<cancel.all>|<cancel.all_of_them>|<cancel.and>|ones?)(?![\w'-])"
)
# "Everything but the gym", "все кроме зала".
AND = lexicon.AnyCase(r",? ?\b<cancel.and> ")
SPARING = lexicon.AnyCase(r",? (?:<limit.except>|but)(?: keep)? ")
CANCEL_CLAUSE = lexicon.AnyCase(r"[.!?;,:)(]+ |\b(?:<cancel.and>|<move.because>) ")
# "Торт отмени муж купит": an order behind what it cancels.
SURELY = lexicon.AnyCase(r"(?<= )<cancel.surely>(?<=[^\W\da-z])(?!\w)")
# "Paid it already cancel that".
CANCELS_IT = lexicon.AnyCase(r"\b<cancel.surely> <move.it>\W*$")
ALL_OF_ALL = lexicon.AnyCase(r"\b(?:<cancel.all>|<cancel.all_of_them>)(?!\w)")
NAMES_REMINDER = lexicon.AnyCase(r"\b(?:<cancel.noun>|<cancel.no_more>|<cancel.from_set>)(?!\w)")


# Start of an order to move: "Перенеси на пятницу", "move the dentist reminder to 10", "відклади на
# годину".
MOVE = lexicon.AnyCase(
    r"\W*(?:(?>(?:<lines.opener>|<reminder.greeting>|<requests.please>|<cancel.and>"
    r"|<lines.corrects>)(?!\w))[ ,.!]+)*"
    r"<move.verb>(?!\w)[ ,]*"
)
# A rejected time before the new one: "not at 7:45 but" at 6:30.
NOT_THEN = lexicon.AnyCase(r"\b<move.not> .{1,30}?(?:[ ,]+<move.but> |,[ ]+)")
REASON = lexicon.AnyCase(r"(?:[,;.!(]| <move.because>) .*")
OPENING = lexicon.AnyCase(
    r"^\W*(?:(?>(?:<lines.opener>|<reminder.greeting>|<cancel.about>)(?![\w'-]))\W*)*"
)
ASIDE = lexicon.AnyCase(r"(?<!\w)(?:<lines.opener>|<lines.laugh>|<lines.corrects>)(?!\w)")
PERSON = frozenset({"NOUN", "nomn", "anim"})
INFINITIVE = frozenset({"INFN", "infn"})
# Parts of speech, in OpenCorpora's terms, with which no subject of a reminder begins.
NO_THING = frozenset({"NPRO", "CONJ", "PREP", "PRCL", "ADVB", "PRED"})
NOUN = lexicon.AnyCase(r"\b<cancel.noun>(?!\w)")
# "No pool on Tuesday", "завтра в зал не иду", "skip tomorrow's pills"; what is put off to a day
# may take place on it.
NOT_HELD = lexicon.AnyCase(
    r"(?<!\w)(?:<cancel.not_held>|<cancel.unneeded>|<limit.not_needed>|<day.called_off>"
    r"|<day.put_off>(?!.* (?:<move.to>|<time.until>) ))(?!\w)"
)
UNNEEDED = lexicon.AnyCase(r"(?<!\w)<cancel.unneeded>(?!\w)")
PUT_OFF = lexicon.AnyCase(r"(?<!\w)<day.put_off>(?!\w)")
# What comes before an event at which to be: "to go to".
AT_EVENT = lexicon.AnyCase(r"(?<!\w)<cancel.at_event> ")
# A preposition with the word that belongs to it: "in physics".
BESIDE = lexicon.AnyCase(r"(?<!\w)<sameness.prepositions> (?:(?:the|my) )?[\w'-]+")
SKIPS = lexicon.AnyCase(r"(?<!\w)<cancel.skip>(?!\w)")
OPTION = re.compile(r"^• (.+): ", re.M)  # in a list that asks which reminder is meant
# What a time has at least, if it is said without "remind me".
TIMED = frozenset[times.Slot]({"clock", "every", "after"})
# Before a further request, right behind an answer about one: "and on monday ring the gp".
FURTHER = lexicon.AnyCase(r"\W*(?>(?:<reminder.second>|<reminder.beside>)[\s,]+)+")
# "About it", "об этом": something mentioned before.
THING_BEFORE = lexicon.AnyCase(r"\W*(?:<reminder.about>\s+)?<reminder.pronoun>\W*")
SENTENCE_END = re.compile(r"(?<=\w)[.!;] ")
_CORRECTING = "(?:<lines.corrects>|<move.rather>|<move.instead>|<move.moved>)"
BEFORE_TIME = lexicon.AnyCase(
    rf"^\W*(?:(?><lines.opener>(?!\w))\W*)*?{_CORRECTING}(?!\w)\W*"
    rf"(?:(?>(?:<lines.opener>|{_CORRECTING}|<cancel.bare_order>|<move.exactly>)(?!\w))\W*)*"
)
# "Thursday not Friday": a rejected time behind the new one.
NOT_BEHIND = lexicon.AnyCase(r"[ ,]+<lines.instead_of> [^,]{1,20}$")
FROM = lexicon.AnyCase(r"\b(?:<move.from> .{1,30}?|ones?) (?=<move.to> )")
BEFORE_ABOUT = lexicon.AnyCase(
    r"\W*(?:(?>(?:<cancel.whose>|<move.it>|<cancel.about>|the|ones?)(?!\w))\W*)*"
)
# An hour of the clock, which is no shift: "на 14 часов" is not "by fourteen hours".
CLOCK_HOUR = lexicon.AnyCase(
    r"\b<move.to> (?P<hour>(?:1[2-9]|2[0-3])(?= <move.hours>)|\d{1,2}(?= <move.at_hour>))"
    r" \w+"
)
TO_HOUR = lexicon.AnyCase(r".*?\b<move.to> \d{1,2}(?= [^\W\d]{3})(?! <reminder.month_day>)")
IS = lexicon.AnyCase(r"\s*<move.is>$")  # in "the party is at 8, move it"
BARE_MINUTES = re.compile(r"(?<=\d)(?=\d\d$)")  # "1830", but not "10"
TO = lexicon.AnyCase(
    r"\b<move.to> (?P<word>\d{1,2}(?:[0-5]\d)?|[^\W\d]+)(?: <move.exactly>)?(?=\W*$)"
)
# "To the 20th", "на 20-е", "to sat", "нет, четверг".
TO_DAY = lexicon.AnyCase(
    r"\b<move.to> (?:(?:the )?(?P<number>\d{1,2})-?<time.day_endings>"
    r"|(?P<day>(?<=^to )<time.weekday>|<time.weekday_short>))(?!\w)(?! <reminder.month_day>)"
)
TO_END = lexicon.AnyCase(r"[ ,]*(?:\b(?:<move.to>|<cancel.and>))?[ ,]*$")
BETWEEN_TIMES = lexicon.AnyCase(r"[ ,]*(?:(?:<move.to>|<cancel.and>) )?")


def read_change(text: str) -> CancelOrder | ReminderOrder | None:
    """Return the order to cancel or move a reminder in a message, in its words, or None."""
    if len(text) > MAX_CHANGE:
        return None
    folded = _without_polite(times.fold(mend_orders(text))).strip(" ,").rstrip(" .!?)")
    begins = any(order.match(folded) for order in (ASKING, MOVE, CANCEL))  # "перенесёшь на 19?"
    if is_question(text) and not begins:
        return None
    if (cancelled := _read_cancel(ASKING.sub("", folded), CANCEL)) is not None:
        return cancelled
    ends = [end.end() for end in CLAUSE_END.finditer(folded)][-MAX_CLAUSES:]
    clauses = [(0, 0), *zip([0, *ends], ends, strict=False)]
    moves = (_read_clause(ASKING.sub("", folded[at:]), folded[last:at]) for last, at in clauses)
    return next((move for move in moves if move is not None), None)


def _without_polite(folded: str) -> str:
    def separator(match: re.Match[str]) -> str:
        return ", " if "," in match["behind"] and "," not in match["before"] else " "

    return POLITE.sub(separator, folded)


def _read_cancel(folded: str, pattern: lexicon.Expression) -> CancelOrder | None:
    """Return the order to cancel in the clause of a text that fits a pattern, or None.

    The reminder is searched for by what the clause says besides, and by the names behind it.
    """
    head, *spared = SPARING.split(folded, maxsplit=1)
    if spared and _read_cancel(head, pattern) == CancelOrder(id=ALL):
        return CancelOrder(id=ALL_BUT + _names_in(spared[0]))
    for clause in CANCEL_CLAUSE.split(folded):
        if pattern.search(clause) is None:
            behind = SURELY.search(clause)
            if behind is None or not _is_subject(clause[: behind.start()]):
                continue
            clause = clause[: behind.end()]
        named = "" if CANCELS_IT.search(clause) else words_beside_cancel(clause)
        if not named and ALL_OF_ALL.search(clause):
            named = ALL
        also = AND.match(folded.partition(clause)[2])
        if named and also:
            named = f"{named}, {_names_in(also.string[also.end() :])}"
        return CancelOrder(id=named or IT)
    return None


def _names_in(text: str) -> str:
    """Return the names of reminders with which a text begins, as ``CancelOrder`` lists them."""
    names = AND.split(SENTENCE_END.split(text)[0])
    return ", ".join(filter(None, map(words_beside_cancel, names)))


def bare_time(said: str) -> str:
    """Return the words of a time that a text names with nothing else ("the 3pm one"), or ""."""
    about, when = _split_time(times.fold(said))
    return "" if content(about) else when


def words_beside_cancel(text: str) -> str:
    """Return what a message says beside its order to cancel: "борщ уже сняла" before "отмени"."""
    return " ".join(words(CANCEL_WORDS.sub(" ", _fold_start(text))))


def _read_clause(folded: str, before: str) -> ReminderOrder | None:
    """Return the order to move in a clause and what follows it; ``before`` precedes it."""
    begin = MOVE.match(folded)
    if begin is None:
        return None
    rest, subject = folded[begin.end() :], OPENING.sub("", before).strip()
    orders = [_read_move(rest), _read_move(REASON.sub("", rest))]
    move = next((one for one in orders if one and one.when), None)
    if move is None and (spans := times.find_reminder_spans(rest)):  # "на 18:20 дзвінок мамі"
        end = spans[-1].end
        behind = rest[end:].strip()
        if not _is_subject(subject):
            subject = behind or subject
        move = _read_move(rest[:end])
    if move is None and (hour := TO_HOUR.match(rest)):  # "the gym to 8 mate cant make 7"
        move = _read_move(hour[0])
    if move is None:  # "нет, на 6 утра перенеси"
        order = _read_move(BEFORE_TIME.sub("", before.strip(" ,")))
        named = IS.sub("", order.moves) if order else IT
        if order is not None and (
            named in (IT, "") or named != order.moves or _is_subject(subject)
        ):
            move, subject = order.model_copy(update={"text": named, "moves": named}), ""
    if move is not None and move.moves == IT and _is_subject(subject):
        return move.model_copy(update={"text": subject, "moves": subject})
    return move or orders[0]


def _is_subject(text: str) -> bool:
    """Return True for the subject of a reminder ("йогу"), False for a reason ("там пробки")."""
    if _is_place(text):
        return True
    tags = [parts_of_speech(word) for word in words(text)]
    if not tags or text.isascii() or any("VERB" in one for one in tags):
        return False
    return not tags[0] or (bool(tags[0] & {"NOUN", "ADJF", "INFN"}) and not tags[0] & NO_THING)


def _is_place(text: str) -> bool:
    """Return True for places in a list: "number 2", "1 и 3"."""
    return all(place_of(part) is not None for part in AND.split(text))


def _fold_start(text: str) -> str:
    return times.fold(mend_orders(text[:MAX_CHANGE])).strip().rstrip(" .!?)")


def _cancels_it(text: str) -> bool:
    """Return True for a bare "cancel it", which may mean the last note as well."""
    return read_change(text) == CancelOrder(id=IT) and not NAMES_REMINDER.search(text)


def _change_in_passing(text: str, messages: Sequence[BaseMessage]) -> ReminderOrder | None:
    """Return an order to move a reminder right behind an answer about one, or None.

    Args:
        text: "No sorry, at 10", "make it an hour later", "the yoga at 8 instead".
        messages: The prompt; what shares a word with an earlier request in it names that one,
            instead of the reminder mentioned last.
    """
    clause = NOT_BEHIND.sub("", NOT_THEN.sub("no ", _fold_start(text)))
    clause = _without_polite(BEFORE_TIME.sub("to ", clause)).strip(" ,")
    about, when = _split_time(clause)  # "at 6" alone as well
    spans = times.find_reminder_spans(clause)
    if not when and spans and not asks_for_reminder(text):  # "лучше через час духовку"
        about, when = clause[spans[-1].end :], clause[spans[0].start : spans[-1].end]
    is_short, named = len(words(about)) <= MAX_LEAD, ""
    if is_short and not _tells(clause) and _names_request(about, messages):
        named = about.strip(" ,")
    elif BEFORE_ABOUT.fullmatch(about) or (is_short and SHIFT.fullmatch(when)):
        named = IT
    return ReminderOrder(text=named, when=when, moves=named) if when and named else None


def _tells(clause: str) -> bool:
    """Return True for news in which nothing moves: "the gym's closed", "йога не нужна"."""
    told = PUT_OFF.sub(" ", clause)
    is_state = any("pssv" in parts_of_speech(word) for word in words(told))
    return is_state or has_past_verb(told) or UNNEEDED.search(told) is not None


def _read_move(text: str) -> ReminderOrder | None:
    """Return the order in the text after "move": the reminder, then its new time."""
    text = CLOCK_HOUR.sub(r"at \g<hour>:00", FROM.sub("", NOT_THEN.sub("", text)))
    about, when = _split_time(text)
    is_named = NOUN.search(about) is not None
    about = NOUN.sub(" ", about)
    about = about[BEFORE_ABOUT.behind(about) :].strip(" ,") or IT
    return ReminderOrder(text=about, when=when, moves=about) if when or is_named else None


def _split_time(text: str) -> tuple[str, str]:
    shift = SHIFT.search(text)
    if shift:
        return text[: shift.start()], shift[0]
    text = TO.sub(_as_time, TO_DAY.sub(_as_day, text))
    start = len(text)
    for span in reversed(times.find_reminder_spans(text)):
        if BETWEEN_TIMES.fullmatch(text, span.end, start) is None:
            break
        start = span.start
    return TO_END.sub("", text[:start]), text[start:]


def _as_day(match: re.Match[str]) -> str:
    return f"on {match['day']}" if match["day"] else f"on the {match['number']}th"


def _as_time(match: re.Match[str]) -> str:
    """Return a bare hour or part of the day after "to" as a time: "на 10", "1830", "на вечер"."""
    if match["word"].isdigit():
        return f"at {BARE_MINUTES.sub(':', match['word'])}"
    part = lexicon.values("move.part").get(match["word"].lower())
    return f"{PART_HOURS[cast(Part, part)]}:00" if part else match[0]


def changes_reminder(text: str) -> bool:
    """Return True if a message certainly orders a change of a reminder, and of nothing else."""
    order = read_change(text)
    is_of_last = isinstance(order, ReminderOrder) and order.moves == IT
    return order is not None and (is_of_last or NAMES_REMINDER.search(text) is not None)


def read_words(said: str, now: datetime, time_zone: str) -> ReminderRequest | None:
    """Return the request in a phrase, with "remind me" in it or without, or None."""
    said = said.strip()
    found = reminder_phrases.read_reminder(said, now, time_zone)
    if found is not None:
        return found
    # Prepend "remind me" to a phrase with only subject and time, as people write after /remind.
    for order in _orders_of(said):
        request = reminder_phrases.read_reminder(f"{order}{said}", now, time_zone)
        if request is not None and request.problem in (None, "no_text"):
            return request
        found = found or request
    return found


def _orders_of(said: str) -> list[str]:
    """Return the orders that may stand before a phrase in its language; the last is a label."""
    is_english = detect_language(said) == "en"
    known = lexicon.by_language("cancel.remind")
    return [order for one, own in known if (one == "en") == is_english for order in own]


def asks_for_reminder(text: str) -> bool:
    """Return True if a text asks for a reminder, at any time."""
    return reminder_phrases.read_reminder(text, datetime.now(UTC), "UTC") is not None


def asks_about_no_reminders(text: str, tool_names: Sequence[str]) -> bool:
    """Return True if a message asks to list or change reminders while none is pending."""
    none_waits = SET_REMINDER in tool_names and LIST_REMINDERS not in tool_names
    return none_waits and (_asks_for_list(text) or changes_reminder(text) or _cancels_it(text))


def named_days(text: str, now: datetime) -> Period | None:
    """Return the coming day or days that a text names; None if it names none, or several."""
    periods = read_time(text, now, ahead=True).periods
    return periods[0] if len(periods) == 1 else None


def skips(text: str) -> bool:
    """Return True for an order to leave out a time, whatever it names: "skip this tuesday"."""
    return SKIPS.search(times.fold(text)) is not None


def days_without(text: str, now: datetime) -> Period | None:
    """Return the days on which a message says that something will not be, or None."""
    if len(text) > MAX_CHANGE or is_question(text) or not NOT_HELD.search(times.fold(text)):
        return None
    if read_change(text) is not None:  # "move the gym to Friday"
        return None
    return named_days(text, now)


def denied(text: str) -> str:
    """Return the words for what will not be, in a message that says so."""
    return NOT_HELD.sub(" ", _without_times(text))


def is_off(reminder: str, told: str) -> bool:
    """Return True if the event of a reminder is among what a message says will not be.

    If something is to be done, only what comes to an end with the event counts: "пойти на курсы",
    but not "набрать воды", unless it says that there is no need.
    """
    event = reminder
    is_to_do = any(map(_is_infinitive, words(reminder)[:1]))
    if is_to_do and not UNNEEDED.search(times.fold(told)):
        event = " ".join(AT_EVENT.split(reminder)[1:])
    named = [word for word in words(denied(told)) if shared(word, event)]
    return not all(_is_infinitive(one) or people_in(one) for one in named)


def _is_infinitive(word: str) -> bool:
    return not INFINITIVE.isdisjoint(parts_of_speech(word))


def tells_of_past(text: str) -> bool:
    """Return True if a message tells what happened, and neither asks, orders nor denies."""
    if len(text) > MAX_CHANGE or is_question(text) or not has_past_verb(times.fold(text)):
        return False
    is_order = read_change(text) is not None or asks_for_reminder(text)
    return not is_order and affirms(text)


def is_done(reminder: str, told: str) -> bool:
    """Return True if a message tells that the thing to do is done: "забрал посылку".

    Its verb stands there in the past, with at least half of its other words (those behind a
    preposition need not be told), and nobody else is named who did it.
    """
    folded = times.fold(told)
    said = words(folded)
    verb = next((one for one in said if has_past_verb(one) and shared(reminder, one)), None)
    beside = BESIDE.finditer(_without_times(told))
    names_other = any(not shared(one[0], reminder) for one in beside)  # "сдал лабу по химии"
    sought = reminder if names_other else BESIDE.sub(" ", reminder)
    things, named = len(content(sought)) - 1, len(shared(reminder, told)) - 1
    if verb is None or named < max(1, things / 2):
        return False
    before = ASIDE.sub(" ", folded.partition(verb)[0])
    others = [word.text for word in content_words(before) if not shared(word.text, reminder)]
    return not any(word.isascii() or parts_of_speech(word) >= PERSON for word in others)


def cancels_note(text: str, note: str, messages: Sequence[BaseMessage]) -> bool:
    """Return True if a bare "cancel it" or "scrap that" means the note right before it.

    It means a reminder if the bot mentioned one since, or if the note can be the reason for
    cancelling it ("mum called").

    Args:
        text: The typed message.
        note: The note before it.
        messages: The prompt.
    """
    is_bare = _cancels_it(text) or forget_request(text) == ForgetRequest("", is_last=True)
    if not is_bare or _names_request(words_beside_cancel(text), messages):
        return False
    answers = [m for m in messages if m.additional_kwargs.get(ASKS) == "reminder"]
    named = [str(m.text).partition("\n")[0].partition(": ")[2] for m in answers]
    is_reason = any(shared(note, text) for text in named)
    return not is_reason and _exchange_before(messages).asks != "reminder"


def _asks_for_list(text: str) -> bool:
    question = POLITE.sub(" ", text)
    return len(text) <= MAX_QUESTION and ASKS_FOR_LIST.fullmatch(question) is not None


def _asks_for_next(text: str, messages: Sequence[BaseMessage]) -> bool:
    """Return True for "when is the next pilates?", if an earlier request names it."""
    is_asked = is_question(text) and ASKS_NEXT.search(times.fold(text)) is not None
    return is_asked and _names_request(text, messages)


def reminder_calls(
    text: str,
    messages: Sequence[BaseMessage],
    tool_names: Sequence[str] = TOOLS,
    *,
    kind: str = "",
) -> list[tuple[str, dict[str, Any]]]:
    """Return the tool call for a message about reminders, without a model; else an empty list.

    The message can also answer our question for the time, and so complete an earlier request.

    Args:
        text: The typed message.
        messages: The prompt.
        tool_names: Tools that can be called.
        kind: The kind of line that it is like; an order in other words than those of the rules.
    """
    has_reminders = LIST_REMINDERS in tool_names
    if has_reminders and (_asks_for_list(text) or _asks_for_next(text, messages)):
        return [(LIST_REMINDERS, {})]
    order = _find_change(text, messages, kind) if has_reminders else None
    if order is not None:
        name = CANCEL_REMINDER if isinstance(order, CancelOrder) else SET_REMINDER
        return [(name, order.model_dump(exclude_defaults=True))]
    if BARE_ORDER.fullmatch(text):
        return [(SET_REMINDER, {"text": NO_TEXT})]
    before = _exchange_before(messages)
    start = before.request.rstrip(".! ") if before.asks == "reminder_time" else ""
    time = _only_time(text, has_text=not BARE_ORDER.fullmatch(start))
    completed = f"{start} {time}" if start and time else ""
    for phrase in (text, completed, _further_request(text, before)):
        requests = reminder_phrases.requests_in(phrase)
        if asks_for_reminder(requests[0]):
            return [_set_call(request, messages) for request in requests]
    if has_reminders and kind == line_kinds.LIST_REMINDERS:
        return [(LIST_REMINDERS, {})]
    is_order = kind == line_kinds.REMIND and len(text) <= MAX_CHANGE
    # "My boss reminded me at 9", "shifts mon wed from 8 to 17"
    if is_order and not (has_past_verb(times.fold(text)) or _is_schedule(text)):
        return [(SET_REMINDER, {"text": _without_times(text) or NO_TEXT, "when": text})]
    return []


def _is_schedule(text: str) -> bool:
    found = read_words(text, datetime.now(UTC), "UTC")
    return found is not None and found.problem == "unclear"


def _set_call(phrase: str, messages: Sequence[BaseMessage]) -> tuple[str, dict[str, Any]]:
    request = reminder_phrases.read_reminder(phrase, datetime.now(UTC), "UTC")
    what = request.what[:MAX_TEXT] if request is not None else ""
    if THING_BEFORE.fullmatch(what):
        what = _thing_before(messages) or what
    return SET_REMINDER, {"text": what or NO_TEXT, "when": phrase[:MAX_TEXT]}


def _further_request(text: str, before: "_Exchange") -> str:
    """Return "and on monday at 9 ring the gp" as an order, behind one of which was spoken.

    Without a day it is on the day of that one.
    """
    start = FURTHER.behind(text)
    if before.asks != "reminder" or not start or is_question(text):
        return ""
    folded, spans = _find_times(text)
    slots = {span.slot for span in spans}
    if slots.isdisjoint(TIMED) or has_past_verb(folded):
        return ""
    day = ""
    if slots.isdisjoint(times.DAY_SLOTS):
        said, others = _find_times(before.request)
        days = [f"{said[one.start : one.end]} " for one in others if one.slot == "date"]
        day = "".join(days[:1])
    return f"{_orders_of(text)[-1]}{day}{text[start:]}"


def _thing_before(messages: Sequence[BaseMessage]) -> str:
    """Return what "it" means: the user's words to which they reply, or else those before."""
    replied = "".join(one.get("replied", "") for one in own_words_of(messages)[-1:])
    thing = replied or _exchange_before(messages).request
    is_thing = not is_question(thing) and not asks_to_keep_private(thing)
    return thing[:MAX_TEXT] if is_thing else ""


def describe_reminder(found: Mapping[str, Any], language: Language) -> str:
    """Return the answer for a tool's result, without a model."""
    listed = found.get("reminders")
    if listed:
        lines = [f"• {one['text']}: {one['time']}" for one in listed[:MAX_LISTED]]
        if "reason" in found:
            return "\n".join([say("reminder_which", language), *lines])
        title = say("reminders_title", language, count=len(listed))
        return "\n".join([title, *lines, say("reminders_where", language)])
    if listed is not None:
        return say("reminders_empty", language)
    done = next((one for one in DONE if found.get(one)), None)
    text, time, days = (found.get(name, "") for name in ("text", "time", "skipped"))
    outcome = done or found.get("reason", "no_time")
    return say(f"reminder_{outcome}", language, text=text, time=time, days=days)


def _find_change(
    text: str, messages: Sequence[BaseMessage], kind: str
) -> CancelOrder | ReminderOrder | None:
    order = _complete_picked(text, messages) or read_change(text)
    request, asks = forget_request(text) or ForgetRequest(""), _exchange_before(messages).asks
    if order is None and asks == "reminder" and _is_place(request.about):
        return CancelOrder(id=_names_in(request.about))  # "delete number 2" below their list
    is_item = names_item(text, request.about)
    if order is None and is_item and _names_request(request.about, messages):
        return CancelOrder(id=request.about)  # "cross off the plumber"
    if order is not None or request.about:
        return order
    if asks == "reminder":
        first = SENTENCE_END.split(text, maxsplit=1)[0]  # "no, sunday. match is on saturday"
        order = _change_in_passing(text, messages) or _change_in_passing(first, messages)
    order = order or _cancels_known(text, messages)
    if order is not None or len(text) > MAX_CHANGE:
        return order
    if kind == line_kinds.CANCEL:
        return CancelOrder(id=words_beside_cancel(text) or IT)
    move = _read_move(_fold_start(text)) if kind == line_kinds.MOVE else None
    is_clear = move is not None and move.when and (asks == "reminder" or move.moves != IT)
    return move if is_clear else None


def _cancels_known(text: str, messages: Sequence[BaseMessage]) -> CancelOrder | None:
    """Return the order of "бассейн убери", if the bot or an earlier request names a reminder."""
    order = None if is_question(text) else _read_cancel(_fold_start(text), CANCEL_KNOWN)
    if order is None or _exchange_before(messages).asks == "reminder":
        return order
    is_named = order.id not in (IT, ALL) and _names_request(order.id, messages)
    return order if is_named else None


def _names_request(about: str, messages: Sequence[BaseMessage]) -> bool:
    """Return True if words share one with an earlier request for a reminder."""
    said = [strip_time_label(str(m.text)) for m in messages if isinstance(m, HumanMessage)][:-1]
    return any(shared(about, line) and asks_for_reminder(line) for line in said)


def _complete_picked(
    text: str, messages: Sequence[BaseMessage]
) -> CancelOrder | ReminderOrder | None:
    """Return the previous order, for the reminder that the user picks from the bot's list."""
    before = _exchange_before(messages)
    if is_question(text) or before.asks != "reminder_which":
        return None
    order = read_change(before.request) or _change_in_passing(before.request, ())
    options = OPTION.findall(before.answer)
    about = pick_option(text, options)
    if isinstance(order, CancelOrder) and ALL_OF_THEM.fullmatch(text):
        return CancelOrder(id=ALL)
    if order is None or not any(shared(about, option) for option in options):
        return None
    field = "id" if isinstance(order, CancelOrder) else "moves"
    return order.model_copy(update={field: about})


def _only_time(text: str, *, has_text: bool) -> str:
    """Return an answer to "when?": a text with a time and little else; else an empty string.

    If the reminder has no text yet, the answer may name it as well.
    """
    if hour := BARE_HOUR.fullmatch(text):
        return f"at {hour[1]}:00"
    text = BEFORE_TIME.sub("", text)
    if is_question(text) and may_ask(text):
        return ""  # "кто дежурит в пятницу"
    rest = _without_times(text)
    has_time = len(words(rest)) < len(words(text[:MAX_CHANGE]))
    is_time = len(words(rest)) <= MAX_BESIDE_TIME and not has_past_verb(rest)
    return text if has_time and (is_time or not has_text) else ""


def _without_times(text: str) -> str:
    """Return the words of a text beside its times."""
    folded, spans = _find_times(text)
    return " ".join(" ".join(between(folded, [(one.start, one.end) for one in spans])).split())


def _find_times(text: str) -> tuple[str, list[times.Span]]:
    """Return the beginning of a text, mended and folded, and the times in it."""
    folded = times.fold(mended(text[:MAX_CHANGE]))
    return folded, times.find_reminder_spans(folded)


class _Exchange(NamedTuple):
    """Message before the bot's last answer, that answer, and what it asks."""

    request: str = ""
    answer: str = ""
    asks: str | None = None


def _exchange_before(messages: Sequence[BaseMessage]) -> _Exchange:
    """Return the exchange right before the newest message; empty if it follows no answer."""
    talk = [m for m in messages if isinstance(m, HumanMessage | AIMessage) and str(m.text)]
    talk = talk[: last_user_index(talk) + 1]  # without an answer that is there already
    if len(talk) < 3 or not isinstance(talk[-2], AIMessage):
        return _Exchange()
    asks = talk[-2].additional_kwargs.get(ASKS)
    return _Exchange(strip_time_label(str(talk[-3].text)), str(talk[-2].text), asks)
