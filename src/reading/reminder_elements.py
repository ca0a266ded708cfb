"""The pieces of time in a request for a reminder: a day, a clock, a wait, a habit.

Times of day are read in Russian, Ukrainian and English: "в 9", "без четверти девять", "half past
eight".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from src.reading import time_spans as p
from src.reading import times as w
from src.reading.times import CARDINALS, DAY_ORDINALS, SCALES, any_of, read_numbers

# Times of day in Russian, Ukrainian and English: "в 9", "без четверти девять", "half past eight".
#
# Everything here is for text as ``time_spans.fold`` leaves it, with the digits 0 to 9. The
# conventions, where people differ:
#
# - "7:30" is what a clock of 24 hours shows, in every language; "at 3:30 pm" is 15:30.
# - A bare hour from 1 to 6 ("в 3", "at five") is in the afternoon, a later one as the clock of 24
#   hours has it ("в 9" is 9:00): a reminder is for the time that people are awake.
# - A part of the day without an hour has the hour of ``PART_HOURS``. The parts are those of the
#   CLDR's day periods (morning until 12, afternoon until 18), the hour in each is our own choice:
#   the beginning of a working day, after lunch, after work, before midnight.
# - Midnight ends the day that is named: "завтра в полночь" is the moment in which tomorrow ends.
# - English "half eight" is 8:30, as in Britain; "пів на дев'яту" and "половина девятого" too.

Part = Literal["morning", "afternoon", "evening", "night"]

PART_HOURS: dict[Part, int] = {"morning": 9, "afternoon": 13, "evening": 19, "night": 23}
# Until when a part goes on: "сегодня вечером", said at eight, is later this evening.
PART_ENDS: dict[Part, int] = {"morning": 12, "afternoon": 18, "evening": 24, "night": 24}
DAY_HOURS = 24
NOON = 12
LAST_AFTERNOON = 6  # the last bare hour that is taken for one in the afternoon
FIRST_EVENING = 4  # "в 4 вечера"; at "3 вечера" nobody agrees
LATE = 10  # "в 10 ночи" is before midnight, "в 5 ночи" after it
HOUR = 60  # minutes

ONES = any_of([word for word, value in CARDINALS.items() if 0 < value < 10])
BELOW_SIXTY = any_of([word for word, value in CARDINALS.items() if value < 60])
TENS = (
    "(?:двадцат[ьи]|двадцять|двадцяти|тридцать|тридцять|сорок|пятьдесят|п'ятдесят"
    "|twenty|thirty|forty|fifty)"
)
NUMBER = rf"(?:\d{{1,2}}|{TENS}[ -]{ONES}|{BELOW_SIXTY})(?:(?!\w)|(?=[ap][.]?m\b))"
STEM = any_of([stem for stem, value in DAY_ORDINALS.items() if value <= DAY_HOURS])
STEM = rf"(?:(?:двадцать|двадцять) )?{STEM}"
OF_HOUR = rf"(?:{STEM}(?:ого|его|ьего)|\d{{1,2}}(?:-?го)?)(?!\w)"  # "половина девятого"
UKRAINIAN_HOUR = rf"(?:{STEM}[а-яії]{{1,3}}|\d{{1,2}}(?:-?[а-яії]{{1,2}})?)(?!\w)"
MORNING = "утра|утром|с утра|ранку|вранці|уранці|зранку|a[.]?m[.]?|in the morning"
DAYTIME = "дня|днем|вдень|удень|in the afternoon|p[.]?m[.]?"
EVENING = "вечера|вечером|вечора|[ву]вечері|in the evening"
NIGHT = "ночи|ночью|ночі|[ву]ночі|at night"
HALF_DAY = rf"(?P<half_day>{MORNING}|{DAYTIME}|{EVENING}|{NIGHT})(?![\w'])"
# With a bare number in front, "дня" counts days.
HALF_DAY_OF_NUMBER = HALF_DAY.replace("дня|", "").replace("днем|", "")
PREPOSITION = (
    "(?:часов |часам |годині )?(?:в|во|к|ко|у|о|об|около|близько|at|by|around|about|for|@)"
)
AT = f"(?:(?:{PREPOSITION}|на|до) )?"
MINUTE_NOUN = "(?:минут[уы]?|мин|хвилин[иау]?|хв|minutes?)"
HOUR_NOUN = "(?:час(?:а|ов|ам)?|годин[аіиу]|o'?clock|ч)"
# What is counted cannot be a time: "в 5 магазинах", "at 3 shops".
COUNTED = (
    r"(?! ?(?:%|€|\$|₽|₴|раз|руб|грн|кг|км|шт|школ|магаз|класс|клас|кварт|дом|этаж|поверх|комнат"
    r"|кімнат|человек|людей|осіб|день(?! рожд| народж)|дней|днів|дні|мес|міс|год[ау]?\b"
    r"|лет\b|рок|недел|тиж|секунд"
    r"|shop|store|people|places|times|days|weeks|months|years|seconds|percent)|[.,/]\d)"
)
BARE_HOUR = rf"(?P<hour>{NUMBER}|час(?! пик)(?!\w)|{STEM}ій(?!\w)|\d{{1,2}}-?(?:й|ій)(?!\w))"

# Each way of saying it, by how its parts are put together.
CLOCK_RULES: tuple[tuple[str, str], ...] = (
    (
        "midnight",
        f"{AT}(?:полночь|полуночи|опівночі|півночі|midnight|(?:12|двенадцать|дванадцят[ьуа]"
        f"|дванадцятій)(?: {HOUR_NOUN})? (?:ночи|ночі))",
    ),
    ("noon", f"{AT}(?:полдень|полудню|опівдні|полудень|noon|midday)"),
    ("lunch", "(?:в обед|в обід|після обіду|после обеда|at lunch(?:time)?|after lunch)"),
    (
        "to",
        rf"(?:(?:в|к) )?без (?P<minute>{NUMBER}|четверти)(?: {MINUTE_NOUN})?"
        rf" (?P<hour>{NUMBER}|час)(?: {HALF_DAY})?",
    ),
    (
        "to",
        rf"за (?P<minute>{NUMBER}|чверть)(?: {MINUTE_NOUN})? (?:до )?"
        rf"(?P<hour>{STEM}(?:а|я|ої|ьої|у))(?: {HALF_DAY})?",
    ),
    (
        "to",
        rf"{AT}(?:a )?(?P<minute>{NUMBER}|quarter)(?: {MINUTE_NOUN})? (?:to|before|till)"
        rf" (?P<hour>{NUMBER})(?: ?{HALF_DAY})?",
    ),
    ("half to", rf"{AT}(?:половин[еуа] |пол-?)(?P<hour>{OF_HOUR})(?: {HALF_DAY})?"),
    ("half to", rf"{AT}пів(?: на | до | )(?P<hour>{UKRAINIAN_HOUR})(?: {HALF_DAY})?"),
    ("half past", rf"{AT}half(?: past)? (?P<hour>{NUMBER})(?: ?{HALF_DAY})?"),
    (
        "of",
        rf"{AT}(?:(?P<minute>{NUMBER}) {MINUTE_NOUN}|(?P<quarter>четверть)) (?P<hour>{OF_HOUR})"
        rf"(?: {HALF_DAY})?",
    ),
    (
        "of",
        rf"{AT}(?:(?P<minute>{NUMBER}) {MINUTE_NOUN}|(?P<quarter>чверть)) на"
        rf" (?P<hour>{UKRAINIAN_HOUR})(?: {HALF_DAY})?",
    ),
    (
        "past",
        rf"{AT}(?P<minute>{NUMBER}|чверть)(?: {MINUTE_NOUN})? по (?P<hour>{STEM}ій)"
        rf"(?: {HALF_DAY})?",
    ),
    (
        "past",
        rf"{AT}(?:a )?(?P<minute>{NUMBER}|quarter)(?: {MINUTE_NOUN})? (?:past|after)"
        rf" (?P<hour>{NUMBER})(?: ?{HALF_DAY})?",
    ),
    (
        "digital",
        rf"(?:{AT})(?<![\d:.,/+-])(?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})(?!:?\d)"
        rf"(?: ?{HALF_DAY})?",
    ),
    (
        "digital",
        rf"{PREPOSITION} (?P<hour>\d{{1,2}})[.](?P<minute>\d{{2}})(?![\d:]|[.,]\d){COUNTED}"
        rf"(?: ?{HALF_DAY})?",
    ),
    (
        "hour",
        rf"(?:{PREPOSITION}|на|до) {BARE_HOUR}(?: {HOUR_NOUN})?"
        rf"(?: (?:и |і )?(?P<minute>{NUMBER}) {MINUTE_NOUN})(?: {HALF_DAY})?",
    ),
    (
        "hour",
        rf"(?:{PREPOSITION}|на|до) {BARE_HOUR}(?: {HOUR_NOUN})?"
        rf" (?P<minute>[0-5]\d|(?:двадцат[ьи]|тридцать|сорок|пятьдесят|пятнадцать|десять|двадцять"
        r"|тридцять|п'ятдесят|п'ятнадцять|ten|fifteen|twenty|thirty|forty|fifty)"
        rf"(?:[ -](?:пять|п'ять|five))?)(?![\w:.,]){COUNTED}(?: ?{HALF_DAY})?",
    ),
    ("hour", rf"(?:{PREPOSITION}|на|до) {BARE_HOUR}(?: {HOUR_NOUN})? ?{HALF_DAY}"),
    ("hour", rf"на (?P<hour>{STEM}у)(?!\w)(?: {HALF_DAY})?(?! [а-яії]+у\b)"),
    ("hour", rf"до (?P<hour>{STEM}(?:ої|ьої))(?!\w)(?: {HALF_DAY})?(?= годин|$|[,.!?])"),
    (
        "hour",
        rf"{PREPOSITION} {BARE_HOUR}(?: {HOUR_NOUN}(?!\w))?(?!:\d|[/%^]|-\d){COUNTED}"
        rf"(?: (?:и|і|та|й|and) (?P<also>\d{{1,2}})(?![:\w]|[.,]\d){COUNTED})?",
    ),
    ("hour", rf"(?<![\w:.,-])(?P<hour>{NUMBER})(?: {HOUR_NOUN})? ?{HALF_DAY_OF_NUMBER}"),
)
PART_WORDS: dict[Part, str] = {
    "morning": "(?:рано )?(?:с утра|утром|вранці|уранці|зранку)|in the morning|this morning"
    "|этим утром|цього ранку",
    "afternoon": "днем(?! рожд)|вдень(?! народж)|удень(?! народж)|in the afternoon|this afternoon",
    "evening": "(?:поздно )?(?:вечером|[ву]вечері|надвечір)|к вечеру|in the evening|this evening"
    "|tonight|этим вечером|цього вечора",
    "night": "ночью|[ву]ночі|at night",
}
# In English these stand behind the day: "tomorrow morning", "on Friday night".
BARE_PARTS: dict[Part, str] = {
    "morning": "morning", "afternoon": "afternoon", "evening": "evening", "night": "night",
}  # fmt: skip


@dataclass(frozen=True)
class Clock:
    """A time of day.

    Attributes:
        minutes: Since the day began; 1440 is the midnight that ends it.
        half_day: The half of the day was said, or the clock has 24 hours: it is not 12 hours off.
        in_night: After midnight, and called a night: "сегодня в 2 ночи" is before tomorrow.
    """

    minutes: int
    half_day: bool = True
    in_night: bool = False


def read_clock(rule: str, words: dict[str, str], part: Part | None = None) -> Clock | None:
    """The time that a match of a rule of ``CLOCK_RULES`` says; None: there is no such time.

    Args:
        rule: Its name.
        words: The named groups that matched.
        part: The part of the day that is said elsewhere: "вечером … в 8".
    """
    fixed = {"midnight": DAY_HOURS, "noon": NOON, "lunch": PART_HOURS["afternoon"]}
    if rule in fixed:
        return Clock(fixed[rule] * HOUR)
    hour = 1 if words["hour"].startswith("час") else _number(words["hour"])
    minute = _minute(words)
    if rule in ("half to", "half past"):
        minute = HOUR // 2
    if hour > DAY_HOURS or minute >= HOUR:
        return None
    if rule in ("to", "half to", "of"):
        # The hour that is named is the one that ends.
        minute, hour = (HOUR - minute if rule == "to" else minute), (hour - 1) % DAY_HOURS or 12
    named = part_of(words.get("half_day", "")) or part
    return _of_half_day(hour, minute, named, is_digital=rule == "digital", words=words)


def part_of(words: str) -> Part | None:
    """The part of the day that words name."""
    table: tuple[tuple[Part, str], ...] = (
        ("morning", MORNING), ("afternoon", DAYTIME), ("evening", EVENING), ("night", NIGHT),
        *PART_WORDS.items(), *BARE_PARTS.items(),
    )  # fmt: skip
    return next((part for part, said in table if re.fullmatch(said, words)), None)


def _of_half_day(
    hour: int, minute: int, part: Part | None, *, is_digital: bool, words: dict[str, str]
) -> Clock | None:
    """A time in the half of the day that was said, or in the likelier one."""
    minutes = hour * HOUR + minute
    if minutes > DAY_HOURS * HOUR or (part and hour == 0 and not is_digital):
        return None
    if hour > NOON or hour == 0:
        return Clock(minutes)
    half = NOON * HOUR
    noon = minutes % half  # what the hour 12 is, counted from noon or midnight
    if part == "morning":
        return Clock(noon if words.get("half_day", "").startswith("a") else minutes)
    if part == "afternoon" or (part == "evening" and hour != NOON):
        return Clock(noon + half if hour < LATE or _is_pm(words) or part == "evening" else minutes)
    if part == "evening":
        return Clock(noon + 2 * half)
    if part == "night":
        late = hour >= LATE and hour != NOON
        english = "at night" in words.get("half_day", "") and hour > LAST_AFTERNOON
        return Clock(noon + half) if late or english else Clock(noon, in_night=True)
    if not is_digital and hour <= LAST_AFTERNOON:
        return Clock(minutes + half, half_day=False)
    return Clock(minutes, half_day=is_digital)


def _is_pm(words: dict[str, str]) -> bool:
    return words.get("half_day", "").startswith("p") or words["hour"] in ("12",)


def _minute(words: dict[str, str]) -> int:
    said = words.get("minute", "")
    if "quarter" in words or said in ("четверти", "чверть", "quarter"):
        return HOUR // 4
    return _number(said) if said else 0


def _number(words: str) -> int:
    """The number that digits or words say: ``9``, ``9-й``, ``двадцять першій``."""
    digits = re.match(r"\d+", words)
    if digits is not None:
        return int(digits[0])
    read = read_numbers(re.split("[ -]", words), ordinals=True)
    return int(read[0]) if read and read[0].isdecimal() else DAY_HOURS * HOUR


# Each piece is found by one expression, built of the words and the patterns that dates in facts
# and in questions are read by. No expression repeats a repetition, so all are quick on any text.

Slot = Literal["date", "clock", "part", "after", "before", "every"]

MAX_ELEMENTS = 60  # of a text that are looked at
ALL_NUMBERS = w.any_of([*CARDINALS, *SCALES, *w.NUMBER_WORDS])
COUNT = (
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
    rf"(?:(?P<half>{HALF})(?!\w)|(?:(?P<n>{COUNT})(?: (?P<and_half>{AND_A_HALF}))? ?)?"
    rf"(?P<unit>{UNIT})(?: (?P<half_more>{AND_A_HALF}))?"
    r"(?:-(?:полтора|полторы|півтори|два|дві|две|two|другой|другий|другую))?"
    rf"(?:,? (?:(?:и|і|та|й|and) )?(?P<n2>{COUNT}) ?(?P<unit2>{MINUTES})(?!\w))?)"
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
    rf"(?:(?:(?P<times>{COUNT}) )?раз(?:а|и|у)?|(?P<once>once)|(?P<twice>twice|двічі|дважды)"
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
    ("unit", rf"{EVERY}(?: (?P<other>{OTHER}))?(?: (?P<n>{COUNT}))? (?P<unit>{UNIT})"),
    ("part", rf"{EVERY} (?:(?P<days>{WEEKDAYS}) )?(?P<part>{EVERY_PART})"),
    ("weekdays", rf"що(?P<days>{EACH_UKRAINIAN}(?:{JOINT}(?:що)?{EACH_UKRAINIAN}){{0,6}})"),
    ("weekdays", rf"(?:(?:с|со|з|із|from) )?(?P<days>{WEEKDAY} (?:по|to|through) {WEEKDAY})"),
    ("weekdays", rf"(?:по|on) (?P<days>{WEEKDAYS_MANY}(?:{JOINT}{WEEKDAYS_MANY}){{0,6}})"),
    ("weekdays", "(?P<days>(?:mon|tues|wednes|thurs|fri|satur|sun)days)"),
    ("part", PARTS_MANY),
    ("adverb", rf"(?P<word>{w.any_of([*ADVERBS, *PART_ADVERBS])})"),
    (
        "unit",
        rf"{TIMES} (?:в|на|у|a|an|per|every|each|per each)(?: (?P<n>{COUNT}))? (?P<unit>{UNIT})",
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
    ("after", rf"(?:(?P<unit>{UNIT})) через (?P<n>{COUNT})"),
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
