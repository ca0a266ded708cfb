"""The pieces of time in a request for a reminder: a day, a clock, a wait, a habit.

Each piece is found by one expression, built of the words and the patterns that dates in facts and
in questions are read by. No expression repeats a repetition, so all are quick on any text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from src.dates import time_patterns as p
from src.dates import time_words as w
from src.dates.clock_phrases import BARE_PARTS, CLOCK_RULES, PART_WORDS
from src.language.number_words import CARDINALS, SCALES

Slot = Literal["date", "clock", "part", "after", "before", "every"]

MAX_ELEMENTS = 60  # of a text that are looked at
ALL_NUMBERS = w.any_of([*CARDINALS, *SCALES, *w.NUMBER_WORDS])
NUMBER = (
    rf"(?:\d{{1,18}}(?:[.,]\d{{1,2}})?(?:\^\d{{1,4}})?(?:-\d{{1,4}})?|{w.VAGUE_NUMBER}"
    rf"|{ALL_NUMBERS}(?:[ -]{ALL_NUMBERS}){{0,2}})"
)
MINUTES = "минут[уы]?|мин|хвилин[иу]?|хв|minutes?|mins?"
UNIT = f"(?:{w.UNIT}|секунд[уыи]?|сек|seconds?|secs?|{MINUTES}|ч|hrs?|h)(?!\\w)"
HALF = (
    "пол-?часа|пол часа|полчасика|пів ?години|half an hour|a half hour|четверть часа"
    "|чверть години|a quarter of an hour|пол ?года|пів ?року|half a year"
)
AND_A_HALF = "с половиной|з половиною|and a half"
LENGTH = (
    rf"(?:(?P<half>{HALF})(?!\w)|(?:(?P<n>{NUMBER})(?: (?P<and_half>{AND_A_HALF}))? ?)?"
    rf"(?P<unit>{UNIT})(?: (?P<half_more>{AND_A_HALF}))?"
    r"(?:-(?:полтора|полторы|півтори|два|дві|две|two|другой|другий|другую))?"
    rf"(?:,? (?:(?:и|і|та|й|and) )?(?P<n2>{NUMBER}) ?(?P<unit2>{MINUTES})(?!\w))?)"
)
COUNTED_LENGTH = LENGTH.replace(")? ?)?(?P<unit>", ")? ?)(?P<unit>")
UKRAINIAN_LENGTH = COUNTED_LENGTH.replace(UNIT, "(?:хвилин[уиа]?|хв|годин[уаи]?|днів|дні)")

DAY_NAMES = ("пн mon", "вт tue tues", "ср wed", "чт thu thurs", "пт fri", "сб sat", "вс нд sun")
SHORT_DAYS = {day: number for number, days in enumerate(DAY_NAMES) for day in days.split()}
WEEKDAY = rf"(?:{w.WEEKDAY}|{w.any_of(list(SHORT_DAYS))})(?!\w)"
JOINT = r"(?:,? (?:(?:и|і|й|та|and|&|в|во|у|on) )?|, ?| ?- ?| (?:по|to|through) )"
WEEKDAYS = rf"{WEEKDAY}(?:{JOINT}{WEEKDAY}){{0,6}}"
WEEKDAYS_MANY = (
    "(?:(?:понедельник|вторник|четверг|воскресень)[ая]м|(?:сред|пятниц|суббот)ам"
    "|понеділках|вівторках|середах|четвергах|п'ятницях|суботах|неділях"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days)"
)
EACH_UKRAINIAN = "(?:понеділка|вівторка|середи|четверга|п'ятниці|суботи|неділі)"
EVERY = (
    "(?:(?:on|of|in|at) )?(?:кажд(?:ый|ую|ое|ые|ого|ой|ому|ым)|кож(?:ен|на|ну|не|ні|ного|ної)"
    "|every(?: single)?|each)"
)
OTHER = "(?:other|second|2nd|втор(?:ой|ую|ое)|друг(?:ий|у|е|ую))"
WORKDAY = (
    "(?:(?:будн(?:ий|ій|ый|и|і)|рабоч(?:ий|ие)|робоч(?:ий|і)) (?:день|дни|дні)|будень"
    "|week ?days?|work(?:ing)? ?days?|business days?)"
)
AT_WORKDAYS = (
    "(?:(?:по|в|у|на) (?:будням|буднях|будни|будні)|по (?:будним|рабочим) дням"
    "|[ву] (?:рабочие|будние|робочі|будні) (?:дни|дні)|по (?:будніх|робочих) днях"
    "|(?:on )?week ?days|on work(?:ing)? ?days)"
)
AT_WEEKENDS = "(?:по (?:выходным|вихідних)|(?:on|at) (?:the )?weekends|weekends)"
PARTS_MANY = "по (?P<part>утрам|вечерам|ночам|ранках|вечорах|ночах)"
HALF_PERIOD = "пол-?часа|пів ?години|half(?: an)? hour|пол-?года|пів ?року|half(?: a)? year"
EVERY_PART = "(?:утро|вечер|ночь|ранок|вечір|ніч|morning|afternoon|evening|night)"
ADVERBS = {
    **dict.fromkeys(("ежесекундно", "щосекунди"), "second"),
    **dict.fromkeys(("ежеминутно", "щохвилини"), "minute"),
    **dict.fromkeys(("ежечасно", "щогодини", "hourly"), "hour"),
    **dict.fromkeys(("ежедневно", "щодня", "щоденно", "daily"), "day"),
    **dict.fromkeys(("еженедельно", "щотижня", "щотижнево", "weekly"), "week"),
    **dict.fromkeys(("ежемесячно", "щомісяця", "щомісячно", "monthly"), "month"),
    **dict.fromkeys(("ежегодно", "щороку", "щорічно", "yearly", "annually"), "year"),
}
PART_ADVERBS = {"щоранку": "morning", "щовечора": "evening", "щоночі": "night", "nightly": "night"}
MONTH_DAY = rf"(?P<day>{p.DAY_NUMBER})"
TIMES = (
    rf"(?:(?:(?P<times>{NUMBER}) )?раз(?:а|и|у)?|(?P<once>once)|(?P<twice>twice|двічі|дважды)"
    r"|(?P<n_times>three|four|five|\d) times)"
)

EVERY_RULES: tuple[tuple[str, str], ...] = (
    (
        "month day",
        rf"{EVERY} {MONTH_DAY}(?:st|nd|rd|th)(?=$|[,.!]| (?:at|to|about|remind|that)\b)",
    ),
    ("month day", rf"{EVERY} {MONTH_DAY}(?:-?(?:го|е))? (?:число|числа)"),
    ("month day", rf"(?P<day>{p.DAY}) числа (?:каждого|кожного) (?:месяца|місяця)"),
    (
        "month day",
        rf"(?:on |every |each )?(?:the )?(?P<day>{p.DAY}) of (?:every|each|the) month",
    ),
    (
        "last day",
        "(?:в |on )?(?:the )?(?:последн(?:ий день|его числа)|останн(?:ій день|ього дня)|last day)"
        "(?: of)?(?: (?:каждого|кожного|every|each|the))? (?:месяца|місяця|month)",
    ),
    ("year day", f"{EVERY} {p.DAY_OF_MONTH}"),
    (
        "year day",
        f"{p.DAY_OF_MONTH} (?:каждого|кожного|of every|every|of each) (?:года|року|year)",
    ),
    ("year day", f"{EVERY} {p.MONTH_AND_DAY}"),
    ("unit", rf"{EVERY} (?P<half>{HALF_PERIOD})"),
    ("workdays", f"{EVERY} {WORKDAY}|{AT_WORKDAYS}"),
    ("weekends", f"{EVERY} {w.WEEKEND}(?: day)?|{AT_WEEKENDS}"),
    (
        "weekdays",
        rf"{EVERY}(?: (?P<other>{OTHER}))? (?P<days>{WEEKDAYS})"
        "(?P<nth> (?:месяца|місяця|(?:of|in) (?:the|every|each|a) month))?",
    ),
    ("unit", rf"{EVERY}(?: (?P<other>{OTHER}))?(?: (?P<n>{NUMBER}))? (?P<unit>{UNIT})"),
    ("part", rf"{EVERY} (?:(?P<days>{WEEKDAYS}) )?(?P<part>{EVERY_PART})"),
    ("weekdays", rf"що(?P<days>{EACH_UKRAINIAN}(?:{JOINT}(?:що)?{EACH_UKRAINIAN}){{0,6}})"),
    ("weekdays", rf"(?:(?:с|со|з|із|from) )?(?P<days>{WEEKDAY} (?:по|to|through) {WEEKDAY})"),
    ("weekdays", rf"(?:по|on) (?P<days>{WEEKDAYS_MANY}(?:{JOINT}{WEEKDAYS_MANY}){{0,6}})"),
    ("weekdays", "(?P<days>(?:mon|tues|wednes|thurs|fri|satur|sun)days)"),
    ("part", PARTS_MANY),
    ("adverb", rf"(?P<word>{w.any_of([*ADVERBS, *PART_ADVERBS])})"),
    (
        "unit",
        rf"{TIMES} (?:в|на|у|a|an|per|every|each|per each)(?: (?P<n>{NUMBER}))? (?P<unit>{UNIT})",
    ),
    ("other day", "через день"),
)

TO_DAY = "(?:(?:в|во|у|на|к|on|for|by|from|с|со|з|зі|із) )?(?:the )?"
FUTURE_DAYS = w.any_of([word for word in w.DAY_WORDS if word not in ("tonight", "this morning")])
DAY_MONTH_DIGITS = (
    rf"(?<![\w.,:/+-])(?P<day>{p.DAY_NUMBER})[.](?P<month_number>0[1-9]|1[0-2])(?![\w:/]|[.,]\d)"
    rf"{p.COUNTED}"
)
WEEKDAY_ENGLISH = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
DATE_RULES: tuple[tuple[str, str], ...] = (
    ("date", rf"{TO_DAY}(?:{w.WEEKDAY},? )?(?P<number>{p.DIGIT_DATE})"),
    ("date", rf"{TO_DAY}(?:{w.WEEKDAY},? (?:the )?)?{p.DAY_OF_MONTH}{p.YEAR_TAIL}"),
    ("date", rf"{TO_DAY}(?:{w.WEEKDAY},? )?{p.MONTH_AND_DAY}{p.YEAR_TAIL}"),
    ("digits", rf"(?:(?:на|on|for|к) )?{DAY_MONTH_DIGITS}"),
    ("month day", rf"(?:(?:на|к) )?(?P<day>{p.DAY}) (?:числа|число)"),
    ("month day", rf"(?:on )?the (?P<day>{p.DAY_NUMBER}(?:st|nd|rd|th))(?! (?:of|time|floor))"),
    ("day", rf"(?:{TO_DAY})(?P<word>{FUTURE_DAYS})(?: (?:день|дня|дню|дні))?(?!')"),
    ("named", rf"(?:(?:в|во|у|на|к|on|by|for) )?{p.WHICH_NOUN}"),
    ("named", rf"(?:в|во|у|на|к|ко|on|by|for) (?:the )?(?P<weekday>{WEEKDAY})(?!')"),
    ("named", rf"(?:в|на|по|у|at|on|over|for) (?:the )?(?P<weekend>{w.WEEKEND})"),
    ("named", rf"(?P<weekday>{WEEKDAY_ENGLISH})(?!')"),
    ("named", rf"(?:в|во|у|in) (?P<month>{w.MONTH})(?: (?P<year>{w.YEAR})(?: {w.YEAR_NOUN})?)?"),
    ("year", rf"(?:в|у|in) (?P<year>{w.YEAR})(?: {w.YEAR_NOUN})?(?![:.\d])"),
)
AFTER_RULES: tuple[tuple[str, str], ...] = (
    ("after", rf"(?:через|спустя) (?:(?:{p.ROUGHLY}) )?{LENGTH}"),
    ("after", rf"(?:in|after) (?:(?:{p.ROUGHLY}) )?{COUNTED_LENGTH}(?:'s?)?(?: time)?"),
    ("after", rf"(?:(?P<unit>{UNIT})) через (?P<n>{NUMBER})"),
    ("after", rf"за {UKRAINIAN_LENGTH}(?! (?:до|перед))"),
    ("after", r"за (?P<unit>хвилину|годину|тиждень|місяць)(?= (?!до |перед )\w)"),
)
BEFORE_RULES: tuple[tuple[str, str], ...] = (
    ("before", rf"за {LENGTH} (?:до|перед)"),
    ("earlier", rf"за {LENGTH}(?=[ .!]*$)"),
)
# A length tells by its end what it is; one rule for all, since it costs most to look for.
COUNTED_RULE = (
    rf"{COUNTED_LENGTH} (?:(?P<ago>(?:тому )?назад|тому(?! що)|ago)"
    r"|(?P<after>from (?:now|today)|later|спустя)|(?P<before>before|ahead of|prior to)(?= \w)"
    r"|(?P<earlier>before|earlier|in advance)(?=[ .!]*$))"
)
COUNTED_SLOTS: dict[str, Slot] = {
    "ago": "date", "after": "after", "before": "before", "earlier": "before",
}  # fmt: skip
RULES: tuple[tuple[Slot, str, str], ...] = (
    *(("every", rule, pattern) for rule, pattern in EVERY_RULES),
    *(("date", rule, pattern) for rule, pattern in DATE_RULES),
    *(("after", rule, pattern) for rule, pattern in AFTER_RULES),
    *(("clock", rule, pattern) for rule, pattern in CLOCK_RULES),
    ("date", "counted", COUNTED_RULE),
    *(("before", rule, pattern) for rule, pattern in BEFORE_RULES),
    *(("part", part, pattern) for part, pattern in PART_WORDS.items()),
    *(("part", f"bare {part}", pattern) for part, pattern in BARE_PARTS.items()),
)


@dataclass(frozen=True)
class Element:
    """A piece of time at ``[start, end)`` of a folded text.

    Attributes:
        start: Where it begins, its preposition included.
        end: Where it ends.
        slot: What it says of a time.
        rule: The way of saying it.
        words: Its parts by name, as they stand there.
        text: All of it.
    """

    start: int
    end: int
    slot: Slot
    rule: str
    words: Mapping[str, str]
    text: str


def find_elements(folded: str) -> list[Element]:
    """The pieces of time in a folded text, in order, not overlapping; the first 60 of them."""
    scanner, rules = _scanner()
    found: list[Element] = []
    position = 0
    while len(found) < MAX_ELEMENTS:
        hit = scanner.search(folded, position)
        if hit is None:
            break
        slot, rule, pattern = rules[int((hit.lastgroup or "r0")[1:])]
        match = pattern.match(folded, hit.start())
        if match is None:  # cannot be: it is the alternative that just matched here
            break
        words = {name: word for name, word in match.groupdict().items() if word}
        if rule == "counted":
            rule = next(name for name in COUNTED_SLOTS if name in words)
            slot = COUNTED_SLOTS[rule]
        found.append(Element(match.start(), match.end(), slot, rule, words, match[0]))
        position = match.end()
    return found


@cache
def _scanner() -> tuple[re.Pattern[str], list[tuple[Slot, str, re.Pattern[str]]]]:
    """One expression that finds where any rule begins, and the rules themselves."""
    nameless = (re.sub(r"\(\?P<\w+>", "(?:", pattern) for _, _, pattern in RULES)
    either = "|".join(f"(?P<r{number}>(?:{text})(?!\\w))" for number, text in enumerate(nameless))
    return re.compile(rf"(?<![\w'])(?:{either})"), [
        (slot, rule, re.compile(rf"(?:{pattern})(?!\w)")) for slot, rule, pattern in RULES
    ]
