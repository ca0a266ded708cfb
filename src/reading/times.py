"""Grammar of times: one for questions, facts and requests for reminders.

A rule is a kind of span and an expression with groups of the lexicon: ``"recent:
<time.recent>"``. A ``Span`` holds the matched words, not their meaning on a given day. ``scan``
finds all of a line; ``find_spans`` keeps the days that a question or a fact names, and
``find_reminder_spans`` what a request for a reminder means by them, with hours, habits, their ends
and exceptions. No rule nests one repetition in another, so matching stays linear.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import Literal, NamedTuple, Self, cast

from src.reading import lexicon
from src.reading.words import read_numbers

MAX_TEXT = 2000  # characters; the rest is ignored
MAX_SPANS = 99  # per text

Slot = Literal["date", "clock", "part", "after", "before", "every", "limit"]
Unit = Literal["second", "minute", "hour", "day", "week", "month", "year"]
Which = Literal["before last", "last", "this", "coming", "next"]
Role = Literal["at", "since", "after", "until"]

NAME = re.compile(r"\(\?P<\w+>")
BEGINS = r"(?<![\w'])(?=['\w]|@ )"  # holds for every rule; skips a row of dots quickly
ROLES: dict[Role, lexicon.Expression] = {
    "since": lexicon.Expression(r"<time.since>\b"),
    "after": lexicon.Expression(r"<time.after>\b"),
    "until": lexicon.Expression(r"(?:<time.until>|<limit.until>)(?!\w)"),
}


@dataclass(frozen=True)
class Span:
    """Time expression at ``[start, end)`` of a folded text.

    Attributes:
        start: Start offset, including the preposition.
        end: End offset.
        kind: Kind of its rule.
        words: Matched parts by name (``prep``, ``which``, ``unit``, ``month`` …), as written.
        slot: Role in a request for a reminder.
        within: Enclosing time ("в понедельник | на прошлой неделе").
        to: Other end of a range ("с марта | по май").
    """

    start: int
    end: int
    kind: str
    words: Mapping[str, str] = field(default_factory=dict)
    slot: Slot = "date"
    within: "Span | None" = None
    to: "Span | None" = None

    @property
    def preposition(self) -> str:
        """Words before the time, without an article; may be empty."""
        return self.words.get("prep", "")

    @property
    def which(self) -> Which | None:
        """Meaning of "this", "last", "next" and the like; None without such a word."""
        return which_of(self.words["which"]) if "which" in self.words else None

    @property
    def role(self) -> Role:
        """Relation to the time that the preposition expresses."""
        if self.kind == "days":
            return "at"
        roles = (role for role, words in ROLES.items() if words.match(self.preposition))
        return next(roles, "at")

    @property
    def starts(self) -> bool:
        """True behind "from", "starting" and the like."""
        return STARTING.fullmatch(self.preposition) is not None

    @property
    def is_row(self) -> bool:
        """True for a length or an end that makes a habit of an hour: "at 9 for 5 days"."""
        return self.slot == "every" and self.kind in ROW_KINDS


# Dates.
YEAR = r"(?:19|20)\d\d(?!\d)"
# Ordinals of days ("пятого марта", "двадцать першого травня", "the fifth of March").
ORDINAL = r"(?:<numbers.cardinals:20-30>[ -])?<numbers.ordinals:1-30><time.ordinal_endings>?\b"
# A number that counts things is no date: "за 2000 рублей", "May 5 people".
COUNTED = r"(?! ?(?:[%€$₽₴]|<time.counted>(?!\w)))"
MODAL_MAY = r"(?! <time.after_may>\b)"
DAY_NUMBER = "(?:3[01]|[12][0-9]|0?[1-9])"
ORDINAL_DAY = f"{DAY_NUMBER}(?:st|nd|rd|th)"
DAY = rf"(?:{DAY_NUMBER}(?:-?<time.day_endings>\b|(?!\w))|{ORDINAL})"
DAY_AFTER_MONTH = rf"(?:(?:the )?{DAY}(?![:%]|[./][0-9]|,[0-9](?![0-9]{{3}}\b)){COUNTED})"
DIGIT_DATE = (
    r"(?<![\w.,:/+-])(?:(?:19|20)[0-9]{2}(?:-[0-9]{2}-|\.[0-9]{2}\.|/[0-9]{2}/)[0-9]{2}"
    r"|[0-9]{1,2}(?:-[0-9]{1,2}-|\.[0-9]{1,2}\.|/[0-9]{1,2}/)(?:19|20)[0-9]{2}"
    r"|[0-9]{2}\.[0-9]{2}\.[0-9]{2})(?![\w/+-]|[.,:][0-9])"
)
SHORT_DATE = (
    rf"(?<![\w.,:/+-])(?P<day>{DAY_NUMBER})[.](?P<month_number>0[1-9]|1[0-2])(?![\w:/]|[.,]\d)"
)
IN_YEAR = rf"(?P<year>{YEAR})(?:-?<time.number_of_year>\b)?(?: <time.year_noun>)?"
YEAR_TAIL = f"(?:(?:, ?| ){IN_YEAR})?"
MONTH_ANY = r"(?:<time.month>|<time.month_short>[.]?)(?!\w)"
DAY_OF_MONTH = rf"(?:the )?(?P<day>{DAY}) (?:of )?(?P<month>{MONTH_ANY})(?:(?<!may)|{MODAL_MAY})"
MONTH_FIRST = r"(?P<month><time.month_first>(?!\w))"
MONTH_AND_DAY = f"{MONTH_FIRST} (?P<day>{DAY_AFTER_MONTH})"
NOUN = "(?:(?P<weekday><time.weekday>)|(?P<month><time.month>)|(?P<season><time.season>))"
WHICH_NOUN = (
    rf"(?P<which><time.which>) (?:(?P<unit><time.unit_one>)|(?P<weekend><time.weekend>)|{NOUN})"
    r"(?! of\b)"
)
# Lengths of time.
ONE_NUMBER = "(?:<numbers.cardinals>|<numbers.scales>|<time.article>)"
COUNT = (
    r"(?:\d{1,18}(?:[.,]\d{1,2})?(?:\^\d{1,4})?(?:-\d{1,4})?|<time.vague>"
    rf"|(?![ -])(?:(?:(?<!\w)|[ -]){ONE_NUMBER}){{1,3}})"
)
UNIT = r"(?:<time.unit>|<time.unit_short>)(?!\w)"


def _length(unit: str = UNIT, *, counted: bool = True) -> str:
    """Return an expression for a length of time, its number required or optional."""
    number = rf"(?P<n>{COUNT})(?: (?P<and_half><reminder.and_a_half>))? ?"
    return (
        rf"(?:(?P<half><reminder.half_period>)(?!\w)|(?:{number}){'' if counted else '?'}"
        rf"(?P<unit>{unit})(?: (?P<half_more><reminder.and_a_half>))?<reminder.or_so>?"
        rf"(?:,? (?:<reminder.and> )?(?P<n2>{COUNT}(?= ?<clock.minute_noun>\b)|<clock.minutes>)"
        r"(?: ?<clock.minute_noun>)?(?!\w))?)"
    )


LENGTH, COUNTED_LENGTH = _length(counted=False), _length()
NUMBER_OF_UNITS = f"(?P<n>{COUNT}) (?P<unit>{UNIT})"
ROUGHLY = "(?:(?P<rough><time.roughly>) )?"
# Prepositions; those that only join the ends of a range are taken off elsewhere.
AFTER_PREPOSITION = (
    "(?P<prep><time.edge>|<limit.until>|<limit.starting>|<time.preposition>|<time.to>)"
    "(?: the)?[ -]"
)
P = f"(?:{AFTER_PREPOSITION})?(?:the )?"
TO = "(?: ?- ?| <time.to> )"
LAST_DAY = f"(?P<last_day>{DAY}) (?:of )?(?P<month>{MONTH_ANY}){YEAR_TAIL}"
SHORT_WEEKDAY = r"(?P<weekday><time.weekday_short>)(?!\w)"
ON_SHORT_DAY = "(?P<prep><reminder.on_weekday>|<time.until>|<limit.starting>) (?:the )?"
WEEKDAY = r"(?:<time.weekday>|<time.weekday_short>)(?!\w)"
NTH_WEEKDAY = (
    f"(?P<nth><limit.nth>(?:(?:,| <reminder.and>) <limit.nth>){{0,3}}) (?P<weekday>{WEEKDAY})"
)
MONTH_AROUND = (
    f"(?:(?P<month><time.month>)(?: {IN_YEAR})?"
    "|(?:(?P<which><time.which>) )?(?P<unit><time.unit_one>))"
)


def _date_rules(before: str) -> tuple[str, ...]:
    return (
        rf"date: {before}(?:<time.weekday>,? )?(?P<number>{DIGIT_DATE})",
        rf"date: {before}(?:<time.weekday>,? (?:the )?)?{DAY_OF_MONTH}{YEAR_TAIL}",
        rf"date: {before}(?:<time.weekday>,? )?{MONTH_AND_DAY}{YEAR_TAIL}",
    )


# Dates, by kind: "recent" недавно, на днях; "days" с 5 по 8 мая; "date" 5 марта, 2026-03-05;
# "month day" 5 числа; "ago" два дня назад; "lasting" последние два дня; "day" вчера; "named" в
# марте, прошлым летом, next week, on Monday; "year" в 2024 году; "offset" за два дня до 5 мая
# moves the day that follows.
DATES = (
    "recent: <time.recent>|<time.someday>",
    rf"days: (?P<prep><time.from_day>) (?P<day>{DAY}){TO}{LAST_DAY}",
    rf"days: {P}(?P<day>{DAY}) ?- ?{LAST_DAY}",
    rf"days: {P}{MONTH_FIRST} (?P<day>{DAY}){TO}(?P<last_day>{DAY_AFTER_MONTH}){YEAR_TAIL}",
    *_date_rules(P),
    rf"short date: {P}{SHORT_DATE}{COUNTED}",
    rf"month day: {P}(?P<day>{DAY}) <reminder.month_day>",
    rf"short date: {P}(?P<day>{DAY_NUMBER}-?<time.day_of>)",
    rf"month day: {AFTER_PREPOSITION}(?P<day>{ORDINAL_DAY})"
    r"(?! (?:of(?! (?:this|last|next) month)|time|floor|day|row|grade|place|try)\b)",
    rf"month day: the (?P<day>{ORDINAL_DAY})(?=[,.;!?]|$| (?:at|to|about|in)\b)",
    f"ago: (?:(?P<hedge><time.hedge>) )?{ROUGHLY}{LENGTH} <time.ago>",
    rf"lasting: {P}(?P<side><time.last_or_next>) {NUMBER_OF_UNITS}",
    f"lasting: {P}(?P<side><time.latest>) (?P<unit><time.unit_one>)",
    f"day: {P}(?P<word><time.day>|<time.day_adjective>)(?: (?P<noun><time.day_noun>))?",
    rf"nth weekday: {P}{NTH_WEEKDAY} (?:<limit.of> )?(?:the )?{MONTH_AROUND}",
    rf"nth weekday: <reminder.on_weekday> (?:the )?{NTH_WEEKDAY}",
    rf"named: {P}{WHICH_NOUN}",
    "named: (?P<prep><time.edge>) (?:the )?(?P<unit><time.unit_one>)",
    rf"named: {P}(?P<season><time.season>),? (?:of )?(?P<year>{YEAR})(?:-(?P<year_to>{YEAR}))?"
    "(?: (?:<time.year_noun>|<time.years_noun>))?",
    rf"named: {P}(?P<month>{MONTH_ANY}),? (?:of )?{IN_YEAR}",
    rf"named: {AFTER_PREPOSITION}(?:(?P<weekend><time.weekend>)|{NOUN})",
    f"named: {ON_SHORT_DAY}{SHORT_WEEKDAY}",
    rf"named: {P}(?P<which><time.which>) {SHORT_WEEKDAY}",
    r"named: (?P<weekday><time.weekday_short>)"
    r"(?= \d{1,2}(?:[:.]\d\d| ?[ap]m)\b|(?<!sat)(?<!sun) at (?:\d|noon|midnight))",
    rf"named: (?P<prep>in|<limit.until>|<limit.starting>) (?P<month>{MONTH_ANY})",
    "feast: (?P<prep><reminder.on_weekday>|at) <time.feast>",
    "named: <limit.whole> (?P<month><time.month>)",
    "named: (?P<season><time.season_adverb>)",
    "named: (?P<weekday><time.weekday_alone>)",
    "year: (?P<year_word><time.year_word>)",
    rf"year: {P}(?<![.,:/+-])(?P<year>{YEAR})(?: ?<time.year_noun>|-<time.year_endings>)",
    rf"year: {AFTER_PREPOSITION}(?P<year>{YEAR})(?![:/]|[.,-][0-9]){COUNTED}",
    rf"offset: (?:<time.offset_before> )?(?:the )?{LENGTH}(?= <time.after>\b)",
)
# Hours, in requests for reminders: "в 9", "без четверти девять", "half past eight".
HOUR_NUMBER = (
    r"(?:\d{1,2}|<numbers.cardinals:20-50>[ -]<numbers.cardinals:1-9>|<numbers.cardinals:0-59>)"
    r"(?:(?!\w)|(?=[ap][.]?m\b))"
)
STEM = "(?:<numbers.cardinals:20-20> )?<numbers.ordinals:1-24>"
HALF_DAY = r"(?P<half_day><clock.half_day>)(?![\w'])"
# After a bare number, "дня" counts days.
HALF_DAY_OF_NUMBER = rf"(?!<clock.counts_days>(?!\w)){HALF_DAY}"
AT_HOUR = "(?:<clock.hours_before> )?(?:<clock.preposition>|@)"
AT_ANY_HOUR = f"(?:{AT_HOUR}|<clock.preposition_too>)"
AT = f"(?:{AT_ANY_HOUR} )?"
# A number that counts things is no hour: "в 5 магазинах", "at 3 shops".
NOT_COUNTED = r"(?! ?(?:[%€$₽₴]|<clock.counted>)|[.,/]\d)"
BARE_HOUR = (
    rf"(?P<hour>{HOUR_NUMBER}|<clock.one_alone>|{STEM}<clock.at_endings>(?!\w)"
    r"|\d{1,2}-?<clock.digit_endings>(?!\w))"
)
WITH_NOUN = f"{BARE_HOUR}(?: <clock.hour_noun>)?"
# Placeholders in the language-specific rules.
PIECES = {
    "at": AT,
    "half": HALF_DAY,
    "number": HOUR_NUMBER,
    "minute": f"(?:{HOUR_NUMBER}|<clock.quarter>)",
    "hour_or_one": f"(?:{HOUR_NUMBER}|<clock.one>)",
    "of_hour": rf"(?:{STEM}<clock.of_endings>|\d{{1,2}}(?:-?<clock.number_of_endings>)?)(?!\w)",
    "some_hour": rf"(?:{STEM}\w{{1,3}}|\d{{1,2}}(?:-?\w{{1,2}})?)(?!\w)",
    "till_hour": f"(?:{STEM}<clock.till_endings>)",
    "at_hour": f"(?:{STEM}<clock.at_endings>)",
    "to_hour": f"(?:{STEM}<clock.to_endings>)",
    "until_hour": f"(?:{STEM}<clock.until_endings>)",
}
# In the order of trial, after the language-specific rules ("без пяти девять").
CLOCKS = (
    f"midnight: {AT}<clock.midnight>",
    f"noon: {AT}<clock.noon>",
    "lunch: <clock.lunch>",
    rf"digital: (?:{AT})(?<![\d:.,/+-])(?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})(?!:?\d)"
    rf"(?: ?{HALF_DAY})?",
    rf"digital: {AT_HOUR} (?P<hour>\d{{1,2}})[.](?P<minute>\d{{2}})(?![\d:]|[.,]\d){NOT_COUNTED}"
    rf"(?: ?{HALF_DAY})?",
    rf"digital: (?<![\d:.,/+-])(?P<hour>\d{{1,2}})[.](?P<minute>\d{{2}}) ?{HALF_DAY}",
    rf"hour: {AT_ANY_HOUR} {WITH_NOUN}(?: (?:<reminder.and> )?(?P<minute>{HOUR_NUMBER})"
    rf" <clock.minute_noun>)(?: {HALF_DAY})?",
    rf"hour: {AT_ANY_HOUR} {WITH_NOUN} (?P<minute>[0-5]\d|<clock.minutes>(?:[ -]<clock.five>)?)"
    rf"(?![\w:.,]){NOT_COUNTED}(?: ?{HALF_DAY})?",
    rf"hour: {AT_ANY_HOUR} {WITH_NOUN} ?{HALF_DAY}",
    rf"hour: {AT_HOUR} {BARE_HOUR}(?: <clock.hour_noun>(?!\w))?(?!:\d|[/%^]|-\d){NOT_COUNTED}"
    rf"(?P<also>(?:,? \d{{1,2}}(?!\w)){{0,4}},? <reminder.and> \d{{1,2}}(?![:\w]|[.,]\d)"
    rf"{NOT_COUNTED})?",
    rf"hour: (?<![\w:.,-])(?P<hour>{HOUR_NUMBER})(?: <clock.hour_noun>)? ?{HALF_DAY_OF_NUMBER}",
)
# Clock time right after the weekday of a fact, which makes it one day ("Friday at 10:30").
CLOCK = re.compile(r",? (?:at )?\d{1,2}(?::\d\d| ?[ap]m)")

THROUGH = " <reminder.through> "
JOINT = f"(?:,? (?:<reminder.joint> )?|, ?| ?- ?|{THROUGH})"
WEEKDAYS = rf"(?P<days>{WEEKDAY}(?:{JOINT}{WEEKDAY}){{0,6}})"
EVERY = "<reminder.every>"
OTHER = "(?: (?P<other><reminder.other>))?"
SO_MANY_UNITS = rf"(?: (?P<n>{COUNT}))? (?P<unit>{UNIT})"
TIMES = (
    rf"(?:(?:(?P<times>{COUNT}) )?<reminder.times>|(?P<once>once)|(?P<twice><reminder.twice>)"
    r"|(?P<thrice><reminder.thrice>)|(?P<n_times>two|three|four|five|\d)(?: times| ?x))"
)
SHORT_DAY = r"<time.weekday_short>(?!\w)"
OF_MONTH = "<limit.of_month>"
HABITS = (
    rf"nth: (?:(?:{EVERY}|<reminder.on_weekday>) )?(?:the )?{NTH_WEEKDAY} {OF_MONTH}",
    rf"unclear: (?:(?:{EVERY}|<reminder.on_weekday>) )?(?:the )?<limit.nth> <reminder.workday>",
    rf"unclear: (?:(?:{EVERY}|<reminder.on_weekday>) )?(?:the )?<limit.before_last> "
    rf"(?:<reminder.workday>|{WEEKDAY})",
    rf"unclear: (?:on |every |each )?(?:the )?{DAY}(?:,| <reminder.and>|, <reminder.and>) "
    rf"(?:the )?{DAY} (?:<reminder.of_every_month>|<reminder.month_day>)",
    rf"unclear: (?:on )?(?:the )?{ORDINAL_DAY}(?:,| <reminder.and>) (?:the )?{ORDINAL_DAY}",
    "unclear: <reminder.some_days>",
    "quarter: <reminder.quarterly>",
    "fortnight: <reminder.fortnightly>",
    rf"weekdays: (?:<reminder.on_every> )?(?P<days>{WEEKDAY}(?:(?:{JOINT}|/){WEEKDAY}){{2,6}})",
    f"weekdays: <reminder.on_every> (?P<days>{SHORT_DAY}(?:{JOINT}{SHORT_DAY}){{1,6}})",
    rf"nth alone: {EVERY} (?!<reminder.other>){NTH_WEEKDAY}",
    rf"length: (?:<limit.for> )?{COUNTED_LENGTH} <limit.in_a_row>",
    rf"day of month: {EVERY} (?P<day>{DAY_NUMBER})(?:st|nd|rd|th)"
    r"(?=$|[,.!]| (?:at|to|about|remind|that)\b)",
    rf"day of month: {EVERY} (?P<day>{DAY_NUMBER})(?:-?<time.day_endings>)? <reminder.day_number>",
    rf"day of month: (?:on |every |each )?(?:the )?(?P<day>{DAY}) <reminder.of_every_month>",
    f"last day: (?:{EVERY} )?<reminder.last_day>",
    rf"year day: {EVERY} {DAY_OF_MONTH}",
    rf"year day: {EVERY} {MONTH_AND_DAY}",
    f"unit: {EVERY} (?P<half><reminder.every_half>)",
    f"workdays: {EVERY} <reminder.workday>|<reminder.at_workdays>",
    f"weekends: {EVERY} <time.weekend>(?: day)?|<reminder.at_weekends>",
    f"weekdays: {EVERY}{OTHER} {WEEKDAYS}",
    f"unit: {EVERY}{OTHER}{SO_MANY_UNITS}",
    rf"part: {EVERY} (?:{WEEKDAYS} )?(?P<part><reminder.every_part>)",
    rf"weekdays: (?P<days><time.weekday_each>(?:{JOINT}(?:<time.weekday_each>|{WEEKDAY})){{0,6}})",
    rf"weekdays: (?:<limit.from> )?(?P<days>{WEEKDAY}(?P<through>{THROUGH}| ?- ?){WEEKDAY})",
    "weekdays: <reminder.on_every> "
    rf"(?P<days><time.weekdays_many>(?:{JOINT}<time.weekdays_many>){{0,6}})",
    "weekdays: (?P<days><reminder.weekdays_alone>)",
    "part: <reminder.on_every> (?P<part><reminder.parts_many>)",
    "adverb: (?P<word><reminder.adverb>|<reminder.part_adverb>)",
    f"unit: {TIMES} <reminder.per>{SO_MANY_UNITS}",
    "other day: <reminder.other_day>",
    "last day alone: <limit.last_day>",
    f"some: {EVERY}(?: (?:<reminder.other>|{COUNT}))? (?:<time.season>|<time.month>)",
)
WAITS = (
    rf"ahead: <time.ahead> {ROUGHLY}{LENGTH}(?! <time.after>)",
    rf"ahead: in {ROUGHLY}{COUNTED_LENGTH}(?:'s?)?(?: time)?(?! (?:of|after|from)\b)",
    f"ahead: {COUNTED_LENGTH} from (?:now|today)",
    "some: <time.habit>",
    r"after: in (?P<n>[1-9]\d?)(?= to [^\W\d])",
    rf"after: <reminder.after> {ROUGHLY}{LENGTH}",
    rf"after: {COUNTED_LENGTH} <reminder.from_now>",
    rf"after: (?P<unit>{UNIT}) <reminder.after_number> (?P<n>{COUNT})",
    rf"after: <reminder.within> {_length('<reminder.within_length>')}",
    r"after: <reminder.within> (?P<unit><reminder.within_unit>)(?= \w)",
)
EARLIER = (
    rf"offset: (?:<time.offset_before> )?(?:the )?{LENGTH}"
    r"(?= (?:<time.until>|<reminder.before_it>) \w)",
    rf"earlier: <reminder.by> {LENGTH}(?=[ .!]*$)",
    rf"earlier: {COUNTED_LENGTH} <reminder.earlier>(?=[ .!]*$)",
)
# Ends and exceptions of habits, beside dates such as "until Friday". "time" ends one at an hour,
# "hours" has two hours, "length" is "for 5 days", "count" "4 times". "except" leaves out weekdays,
# "off" those before it, "all" none. "unclear" ones cannot be told; "perhaps" are such only beside
# another time, since "до метро" ends nothing.
UNTIL = "(?P<prep><limit.until>) (?:the )?"
EXCEPT = "(?:<limit.except>|<limit.but>)(?: <limit.on>)? (?:the )?"
ANY_DAY = (
    "(?:<time.weekday>|<time.weekdays_many>|<time.weekday_short>|<limit.weekends>|<limit.workdays>)"
    r"(?!\w)"
)
OR = (
    "(?:,? (?:<reminder.and>|<limit.or>|&) (?:<reminder.on_weekday> )?|, ?| ?- ?|/"
    f"|{THROUGH}(?!<time.weekdays_many>|<limit.weekends>))"
)
ANY_DAYS = rf"(?P<days>{ANY_DAY}(?:{OR}{ANY_DAY}){{0,6}})"


def _hour(name: str) -> str:
    """Return an expression for an hour; the names of its groups end in ``name``."""
    stem = f"{STEM}(?:<clock.till_endings>|<clock.of_endings>|<clock.until_endings>)"
    half = HALF_DAY.replace("half_day>", f"half_day{name}>", 1)
    return (
        rf"(?P<hour{name}>{HOUR_NUMBER}|{stem}(?!\w))(?:[:.](?P<minute{name}>[0-5]\d))?(?!-?\d)"
        rf"(?: <clock.hour_noun>(?!\w))?(?: ?{half})?{NOT_COUNTED}"
    )


END_HOURS = (
    "unclear: <limit.for> (?:the )?<limit.daytime>",
    rf"hours: <limit.from> {_hour('')}(?: ?- ?| <time.to> ){_hour('2')}",
    rf"length: <limit.for> (?:the )?(?:<limit.coming> )?{LENGTH}(?: <limit.in_a_row>)?",
    rf"time: {UNTIL}(?:{_hour('')}|(?P<midnight><clock.midnight>)|(?P<noon><clock.noon>))",
)
LIMITS = (
    f"new year: {UNTIL}<limit.new_year>",
    "rest: (?:<limit.for> )?<limit.rest> (?:of )?(?:the )?(?P<unit><time.unit_one>)",
    f"length beside: <limit.whole> (?P<unit>{UNIT})",
    f"bare length: {COUNTED_LENGTH}(?: (?P<row><limit.in_a_row>))?",
    "bare length: (?P<unit><limit.unit>)",
    rf"count: (?:<limit.only> )?(?P<n>{COUNT}) (?:<reminder.times>|<limit.times>)",
    "all: <limit.no_day_off>",
    "all: <limit.inclusive>",
    "off: <limit.not_needed>",
    f"unclear: {EXCEPT}{ANY_DAYS}{OR}<limit.day_off>",
    f"only: <limit.only_on> (?:<limit.on> )?{ANY_DAYS}",
    f"except: {EXCEPT}{ANY_DAYS}",
    "unclear: <limit.condition>",
    f"unclear: {EXCEPT}<limit.day_off>",
    "unclear: <limit.except> (?:<limit.on> )?(?:the )?(?:<limit.circumstance>|<time.month>)",
    *(rule.replace("date: ", "unclear: ", 1) for rule in _date_rules(EXCEPT)),
    "unclear: <limit.until_sure>",
    "unclear: <limit.until> (?:my |the )?<limit.event>",
    r"perhaps: (?:<time.until>|<limit.except>)(?= (?!<limit.daily>)\w)",
)


def _language_rules(group: str, prefix: str = "") -> Iterator[str]:
    for kind, sources in lexicon.rules(group, PIECES).items():
        yield from (f"{prefix}{kind}: {source}" for source in sources)


@cache
def _rules() -> list[tuple[Slot, str, lexicon.Expression]]:
    """Return all rules, in the order of trial, each compiled at its first match."""
    tables: list[tuple[Slot, Iterable[str]]] = [
        ("every", HABITS),
        ("date", DATES),
        ("clock", _language_rules("clock.rules")),
        ("before", EARLIER),
        ("after", WAITS),
        ("limit", END_HOURS),
        ("clock", CLOCKS),
        ("limit", LIMITS),
        ("part", _language_rules("clock.part")),
        ("part", _language_rules("clock.bare_part", "bare ")),
    ]
    parts = [(slot, *rule.partition(": ")[::2]) for slot, rules in tables for rule in rules]
    return [
        (slot, kind, lexicon.Expression(rf"(?:{source})(?!\w)")) for slot, kind, source in parts
    ]


@cache
def _any_rule() -> re.Pattern[str]:
    """Return one expression for all rules, with a group for each: the leftmost match wins."""
    sources = (NAME.sub("(?:", lexicon.expanded(rule.source)) for *_, rule in _rules())
    return re.compile(BEGINS + f"(?:{'|'.join(f'({source})' for source in sources)})")


DIGIT_HINT = r"\d(?:\d{3}|\d?[./-]\d|\d?(?:st|nd|rd|th)\b)"


# A text without a match of HINT names no time; without one of QUESTION_HINT, it asks for none.
HINT, QUESTION_HINT = (
    lexicon.Expression(rf"\b(?:{groups}|{DIGIT_HINT})")
    for groups in ("<time.hints>", "<time.hints>|<time.question_hints>")
)

FOLDED = str.maketrans("ё’ʼ‘`´–—−‑‐", "е'''''-----")
# Apostrophes of Ukrainian words as phones write them: п"ятниця, п*ятниця, "п ятниця".
APOSTROPHE = re.compile(r"(?<=[бпвмфр])[\"*″](?=[яюєї])|(?<=\bп) (?=ят)|(?<=\bдев) (?=ят)")
RANGE_GROUPS = ("time.since", "time.between")  # prepositions that begin a range
ONWARDS = lexicon.Expression(" <time.onwards>")
ADJACENT = re.compile(r",? ?")
SHORT_UNITS = ("second", "minute", "hour")
ENDLESS = 10.0**18  # of any unit: "10^9 years"
SECONDS: dict[Unit, int] = {
    "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800,
    "month": 2_629_746, "year": 31_556_952,
}  # fmt: skip
BEFORE_DAYS_OFF = lexicon.Expression(r"\b<reminder.between> $")
EDGE, SURELY_EXCEPT = lexicon.Expression("<time.edge>"), lexicon.Expression("<limit.except>")
SOME_TIME = lexicon.Expression("<time.habit>")
STARTING = lexicon.Expression("<limit.starting>")
DAY_KINDS = ("date", "short date", "days", "month day", "day")
REMINDER_KINDS = (*DAY_KINDS, "nth weekday", "named", "year", "offset", "feast")
ROW_KINDS = ("length", "days", "date", "day", "named", "month day")
NOTHING, AT_END = re.compile(r"[ ,:-]*"), re.compile(r"[ .!?)]*")


def tidy(text: str) -> str:
    """Return the beginning of a text in NFC with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text[:MAX_TEXT]).split())


def fold(text: str) -> str:
    """Return the text as the grammar expects it; offsets stay valid."""
    return APOSTROPHE.sub("'", text.replace("İ", "I").lower().translate(FOLDED))


def may_name_time(text: str) -> bool:
    """Return True if a text contains any word of time; cheap enough for every turn."""
    return HINT.search(text.lower()) is not None


def scan(folded: str) -> list[Span]:
    """Return all times in a tidy, folded text, in order and without overlap; the first 99.

    Those that belong together are one: "on Monday | last week", "с марта | по май".
    """
    spans: list[Span] = []
    position = 0
    while len(spans) < MAX_SPANS and (hit := _any_rule().search(folded, position)):
        slot, kind, rule = _rules()[int(hit.lastindex or 1) - 1]
        words = rule.match(folded, hit.start())
        named = {} if words is None else words.groupdict()
        span = Span(*hit.span(), kind, {name: word for name, word in named.items() if word}, slot)
        position = span.end
        last = spans[-1] if spans and spans[-1].slot in ("date", "before") else None
        joined = _join(last, span, folded) if last and span.slot == "date" else None
        if joined is not None:
            spans[-1] = joined
        elif span.preposition in lexicon.words("time.joint_only"):
            spans += _without_preposition(span)
        else:
            spans.append(span)
    return spans


def _join(first: Span, second: Span, folded: str) -> Span | None:
    """Return two neighbours as one span if they are a range, or one lies in the other."""
    gap = folded[(first.to or first).end : second.start]
    if first.kind == "offset" and not first.within:
        is_day = length_of(first.words).unit not in SHORT_UNITS
        moves = is_day and gap == " " and second.role in ("until", "after")
        return replace(first, end=second.end, slot="date", within=second) if moves else None
    if first.to:
        return None
    if _is_range(first, second, gap):
        return replace(first, to=second)
    if ADJACENT.fullmatch(gap) is None or second.role != "at":
        return None
    if "weekend" in first.words and second.kind in ("date", "days"):
        return replace(second, start=first.start)  # "на выходных | 28-29 ноября"
    if _lies_in(first, second):
        return replace(first, end=second.end, within=second)
    if _lies_in(second, first):
        return replace(second, start=first.start, within=first)
    return None


def _is_range(first: Span, last: Span, gap: str) -> bool:
    """Return True for the two ends of a range, as in "from March to May" or "5 мая - 8 мая"."""
    if last.kind not in ("date", "day", "named", "year"):
        return False
    begins = first.preposition.partition(" ")[0]
    is_begun = any(begins in lexicon.words(group) for group in RANGE_GROUPS)
    link = f"{gap.strip()} {last.preposition}".strip()
    if link == "-":
        return first.kind == "date" or is_begun
    return gap == " " and is_begun and link in lexicon.words("time.to")


def _lies_in(inner: Span, outer: Span) -> bool:
    """Return True if ``outer`` names the week, month or year of ``inner``."""
    if "year" in inner.words or "which" in inner.words or inner.within:
        return False
    word = outer.words.get("unit") if outer.kind in ("named", "ago") else None
    unit = unit_of(word) if word else None
    if outer.kind == "year" or unit == "year":
        return inner.kind in ("date", "days") or bool(inner.words.keys() & {"month", "season"})
    if unit == "week":
        return "weekday" in inner.words
    return inner.kind == "month day" and unit == "month"


def _without_preposition(span: Span) -> list[Span]:
    """Return a date without its preposition; nothing if it is no time without one."""
    words = span.words
    is_alone = (
        span.kind in ("date", "short date", "days", "day")
        or "which" in words
        or words.get("weekday", "") in lexicon.forms("time.weekday_alone")
    )
    rest = {name: word for name, word in words.items() if name != "prep"}
    start = span.start + len(span.preposition) + 1
    return [replace(span, start=start, words=rest)] if is_alone else []


def find_spans(folded: str) -> list[Span]:
    """Return the times in a tidy, folded question or fact, in order and without overlap."""
    spans: list[Span] = []
    for span in scan(folded):
        if span.slot == "part" and spans and spans[-1].kind in ("day", "named"):
            last = spans[-1]
            if not last.to and folded[last.end : span.start] in (" ", ", "):
                spans[-1] = replace(last, end=span.end, words={**last.words, "part": ""})
            continue
        if SOME_TIME.fullmatch(folded, span.start, span.end):
            span = replace(span, kind="some")
        is_other = span.kind == "some" or "through" in span.words
        if is_other or (span.slot in ("date", "after") and span.kind != "short date"):
            onwards = ONWARDS.match(folded, span.end) if span.preposition == "from" else None
            if onwards is not None:
                span = replace(span, end=onwards.end(), words={**span.words, "prep": "since"})
            spans.append(span)
    return spans


def find_reminder_spans(folded: str) -> list[Span]:
    """Return the times in a folded request, in order and without overlap.

    Beside a habit they include its ends and exceptions, in the slot ``limit``. A length or an end
    beside an hour is a habit of its own: "at 9 for 5 days".
    """
    spans = [one for span in scan(folded) for one in _for_reminder(span, folded)]
    if not any(span.slot == "every" for span in spans):
        spans = [_as_habit(span) for span in spans]
    if any(span.slot == "every" and not span.is_row for span in spans):
        spans = [replace(span, slot="limit") if span.is_row else span for span in spans]
        spans = _with_days_off(spans, folded)
        return [s for s in spans if s.slot != "limit" or _is_limit(s, spans, folded)]
    return [one for span in spans for one in _without_habit(span, spans, folded)]


def _for_reminder(span: Span, folded: str) -> list[Span]:
    """Return a time as a request for a reminder means it; nothing if it cannot mean it."""
    words, preposition = span.words, span.preposition
    if span.slot != "date" or span.kind == "ago":
        return [] if span.kind == "some" else [span]
    if span.to is not None:
        return [replace(span, to=None), replace(span.to, slot="limit")]
    if part := lexicon.key_of("clock.part", words.get("word", "")):
        return [replace(span, kind=part, slot="part")]
    if span.kind == "lasting" and which_of(words["side"]) in ("coming", "next"):
        is_sure = preposition in lexicon.words("limit.for")
        return [replace(span, kind="length" if is_sure else "length beside", slot="limit")]
    is_adjective = span.kind == "day" and "noun" not in words and day_offset(words["word"]) is None
    is_season = "season" in words and "which" not in words
    is_vague = span.kind == "offset" and span.within is None
    is_of_other = folded.startswith("'", span.end)  # "tomorrow's"
    if span.kind not in REMINDER_KINDS or is_adjective or is_season or is_vague or is_of_other:
        return []
    if span.role == "until" or span.kind == "days":
        return [replace(span, slot="limit")]
    is_edge = EDGE.fullmatch(preposition) is not None
    if not preposition or preposition in lexicon.words("reminder.on") or span.starts or is_edge:
        return [span]
    return _without_preposition(span)


def _as_habit(span: Span) -> Span:
    """Return "only on weekdays" as a habit."""
    return replace(span, kind="weekdays", slot="every") if span.kind == "only" else span


def _with_days_off(spans: Sequence[Span], folded: str) -> list[Span]:
    """Return the times of habits with exceptions such as "по воскресеньям | не надо" as one."""
    merged: list[Span] = []
    for span in spans:
        if span.kind == "off" and merged and _is_beside(span, merged[-1:], folded):
            days = {"days": folded[merged[-1].start : merged[-1].end]}
            others = [s for s in spans if s.slot == "every" and s is not merged[-1]]
            if weekdays_in(days["days"]) and others:
                joint = BEFORE_DAYS_OFF.search(folded, 0, merged[-1].start)
                start = joint.start() if joint else merged[-1].start
                merged[-1] = Span(start, span.end, "except", days, "limit")
                continue
        merged.append(span)
    return merged


def _without_habit(span: Span, spans: Sequence[Span], folded: str) -> list[Span]:
    """Return what the end of a habit means where there is none, and any other time as it is."""
    if span.slot != "limit":
        return [span]
    is_moved = any(s.slot == "before" and s.end + 1 == span.start for s in spans)
    is_at = span.preposition in lexicon.words("clock.preposition_too") or is_moved
    if span.kind == "time" and is_at:
        named = {"midnight": "midnight", "noon": "noon", "minute": "digital"}
        kind = next((named[word] for word in named if word in span.words), "hour")
        return [replace(span, kind=kind, slot="clock")]  # "до 18:00", "an hour before 6pm"
    dates = [other for other in spans if other.slot == "date"]
    clocks = [other for other in spans if other.slot in ("clock", "part")]
    if span.kind == "days":
        return [replace(span, slot="every" if clocks else "date")]
    begins = [date for date in dates if date.starts]
    if span.kind == "except" and clocks and SURELY_EXCEPT.match(folded, span.start):
        return [replace(span, slot="every")]
    times = [*clocks, *begins, *(date for date in dates if "weekday" in date.words)]
    if "length" in span.kind:
        is_long = length_of(span.words).unit not in SHORT_UNITS
        is_row = is_long and all(date in times for date in dates)
    else:
        times = dates if span.preposition in lexicon.words("limit.through") else begins
        is_row = span.kind in ROW_KINDS
    is_row = is_row and bool(clocks) and _is_beside(span, times, folded)
    return [replace(span, slot="every")] if is_row else []


def _is_beside(span: Span, spans: Sequence[Span], folded: str) -> bool:
    gaps = [folded[s.end : span.start] for s in spans if s.end <= span.start]
    gaps += [folded[span.end : s.start] for s in spans if s.start >= span.end]
    return any(NOTHING.fullmatch(gap) for gap in gaps)


def _is_limit(span: Span, spans: Sequence[Span], folded: str) -> bool:
    """Return True if an expression is an end or an exception, and not a part of the thing."""
    before = folded[: span.start].rstrip(" ,").rpartition(" ")[2]
    is_beside = _is_beside(span, [other for other in spans if other is not span], folded)
    period = min(period_of(habit).duration for habit in spans if habit.slot == "every")
    if "length" in span.kind:
        length = length_of(span.words)
        if length.duration <= period and (length.unit in SHORT_UNITS or not is_beside):
            return False  # "to meditate for ten minutes", "every Sunday cook for three days"
    match span.kind:
        case "time" | "hours":
            return is_beside or period < Length.of(1, "day").duration
        case "count":  # "… to pack the pads, 6 times"
            is_apart = folded[: span.start].rstrip().endswith((",", "-", "("))
            return is_beside or (is_apart and AT_END.fullmatch(folded, span.end) is not None)
        case "length beside" | "perhaps" | "off":
            return is_beside
        case "bare length":
            is_last = AT_END.fullmatch(folded, span.end) is not None
            is_sure = is_beside or is_last or not folded[span.start : span.end].isascii()
            return is_sure and before not in lexicon.words("limit.no_length_after")
    return True


# Values of the words in a span.
MANY_DAYS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
WORKDAYS, WEEKEND = (0, 1, 2, 3, 4), (5, 6)
WEEKENDS, WORKING = (lexicon.Expression(f"<limit.{days}>") for days in ("weekends", "workdays"))
RANGE_OF_DAYS = lexicon.Expression(f" ?- ?|{THROUGH}")


class Length(NamedTuple):
    """Length of time: the fewest and the most units, and the number that a reminder takes."""

    low: float
    high: float
    number: float
    unit: Unit
    exact: bool = True

    @classmethod
    def of(cls, number: float, unit: Unit) -> Self:
        """Return an exact length."""
        return cls(number, number, number, unit)

    @property
    def duration(self) -> timedelta:
        """Elapsed time; months and years have their average length."""
        return timedelta(seconds=round(self.number * SECONDS[self.unit]))


def number_of(words: str) -> float:
    """Return the number that words count: ``2,5``, ``двадцать пять``, ``a``."""
    if "^" in words:
        return ENDLESS
    if words[0].isdigit():
        return float(words.partition("-")[0].replace(",", "."))
    articles = lexicon.words("time.article")
    parts = ["1" if word in articles else word for word in re.split("[ -]", words)]
    return int(read_numbers(parts)[0])


def length_of(words: Mapping[str, str]) -> Length:
    """Return the length of time in a span: "три недели", "a couple of days", "полгода"."""
    if half := words.get("half"):
        count, _, unit = (lexicon.key_of("reminder.half_means", half) or "").partition(" ")
        return Length.of(int(count), cast(Unit, unit))
    count, unit = words.get("n", "1"), unit_of(words["unit"]) if "unit" in words else "minute"
    if vague := lexicon.values("time.vague").get(count):
        low, high = map(int, vague.split("-"))
        mean = (low + high) / 2
        return Length(low, high, mean if high <= 2 else int(mean), unit, exact=False)
    number = number_of(count)
    if "-" in count and count[0].isdigit():
        return Length(number, number_of(count.partition("-")[2]), number, unit, exact=False)
    if "and_half" in words or "half_more" in words:
        number += 0.5
    if "n2" not in words:
        return Length.of(number, unit)
    minutes = number * SECONDS[unit] / SECONDS["minute"] + number_of(words["n2"])
    return Length.of(minutes, "minute")


# Units of time between two occurrences of the kinds of habits; a week for all others.
PERIODS = {"fortnight": Length.of(2, "week"), "quarter": Length.of(3, "month")}
MONTHLY = ("day of month", "last day", "last day alone", "nth", "nth alone")
DAILY = ("part", "other day", "adverb")


def period_of(habit: Span) -> Length:
    """Return the time from one occurrence of a habit to the next."""
    words = habit.words
    number = 2.0 if "other" in words or habit.kind == "other day" else 1.0
    if "half" in words or habit.kind == "unit":
        length = length_of(words)
        return Length.of(length.number * number, length.unit)
    if habit.kind in PERIODS:
        return PERIODS[habit.kind]
    if adverb := lexicon.values("reminder.adverb").get(words.get("word", "")):
        return Length.of(number, cast(Unit, adverb))
    if habit.kind in MONTHLY:
        return Length.of(1, "month")
    if habit.kind == "year day":
        return Length.of(1, "year")
    is_daily = habit.is_row or habit.kind in DAILY
    return Length.of(number, "day" if is_daily else "week")


def number_in(words: str) -> int:
    """Return the number of a day or an hour: ``5``, ``5-го``, ``9th``, ``пятого``.

    Raises:
        ValueError: There is none.
    """
    if digits := re.match(r"\d+", words):
        return int(digits[0])
    return int(read_numbers(re.split("[ -]", words), ordinals=True)[0])


def key_in(words: str, *groups: str) -> str | None:
    """Return the key that lists the words in the first table that has them."""
    return next(filter(None, (lexicon.key_of(group, words) for group in groups)), None)


def unit_of(word: str) -> Unit:
    """Return the unit of time that a word names; Ukrainian ``година`` is an hour."""
    return cast(Unit, key_in(word, "time.unit", "time.unit_one", "time.unit_short"))


def which_of(words: str) -> Which:
    """Return the meaning of "this", "last", "next" and the like."""
    return cast(Which, lexicon.key_of("time.which", words) or "this")


def ordinals_in(words: str) -> tuple[int, ...]:
    """Return the numbers of a match of ``NTH_WEEKDAY``'s ordinals; -1 is the last."""
    keys = (lexicon.key_of("limit.nth", word.strip(",")) for word in words.split())
    return tuple(int(key) for key in keys if key is not None)


def day_offset(words: str) -> int | None:
    """Return the days from today that a word names (-1 is yesterday), or None."""
    return lexicon.numbers("time.day").get(words)


def month_number(words: str) -> int:
    """Return 1 to 12 for the name of a month or its abbreviation."""
    return int(key_in(words.removesuffix("."), "time.month", "time.month_short") or 0) + 1


def weekday_number(words: str) -> int | None:
    """Return 0 (Monday) to 6 for any form of a weekday's name, or None."""
    number = key_in(
        words, "time.weekday", "time.weekday_short", "time.weekdays_many", "time.weekday_each"
    )
    return None if number is None else int(number)


def weekdays_in(words: str) -> tuple[int, ...]:
    """Return the weekdays, 0 to 6, of a list or a range, which may hold "weekends"."""
    days: tuple[int, ...] = ()
    for word in MANY_DAYS.findall(words):
        number = weekday_number(word)
        if number is not None:
            days = (*days, number)
        elif WEEKENDS.fullmatch(word):
            days = (*days, *WEEKEND)
        elif WORKING.fullmatch(word):
            days = (*days, *WORKDAYS)
    if RANGE_OF_DAYS.search(words) and len(days) == 2 and days[0] < days[1]:
        return tuple(range(days[0], days[1] + 1))
    return days
