"""Times of day in Russian, Ukrainian and English: "в 9", "без четверти девять", "half past eight".

Everything here is for text as ``time_spans.fold`` leaves it, with the digits 0 to 9. The
conventions, where people differ:

- "7:30" is what a clock of 24 hours shows, in every language; "at 3:30 pm" is 15:30.
- A bare hour from 1 to 6 ("в 3", "at five") is in the afternoon, a later one as the clock of 24
  hours has it ("в 9" is 9:00): a reminder is for the time that people are awake.
- A part of the day without an hour has the hour of ``PART_HOURS``. The parts are those of the
  CLDR's day periods (morning until 12, afternoon until 18), the hour in each is our own choice:
  the beginning of a working day, after lunch, after work, before midnight.
- Midnight ends the day that is named: "завтра в полночь" is the moment in which tomorrow ends.
- English "half eight" is 8:30, as in Britain; "пів на дев'яту" and "половина девятого" too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from src.dates.time_words import ORDINALS, any_of
from src.language.number_words import CARDINALS, read_numbers

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
STEM = any_of([stem for stem, value in ORDINALS.items() if value <= DAY_HOURS])
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
