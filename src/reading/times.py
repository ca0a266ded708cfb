"""The words of time and of numbers in Russian, Ukrainian and English, and whole calendar days."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Literal, NamedTuple

# The forms of a number after ``normalise``; "семью" is left out: it is a family more often.
_CARDINALS = {
    0: "ноль нуль ноля нуля zero",
    1: "один одна одно одни одного одной одному одну одним одном одне однієї одній однією one",
    2: "два две двух двум двумя двое двоих дві двох двом двома двоє two",
    3: "три трех трем тремя трое троих трьох трьом трьома троє three",
    4: "четыре четырех четырем четверо четверых чотири чотирьох чотирьом четверо four",
    5: "пять пяти пятью пятеро пятерых п'ять п'яти п'ятьох п'ятеро five",
    6: "шесть шести шестью шестеро шість шести шістьох шестеро six",
    7: "семь семи семеро сім семи сімох семеро seven",
    8: "восемь восьми восемью восьмеро вісім восьми вісьмох восьмеро eight",
    9: "девять девяти девятью дев'ять дев'яти дев'ятьох nine",
    10: "десять десяти десятью десяти десятьох ten",
    11: "одиннадцать одиннадцати одинадцять одинадцяти eleven",
    12: "двенадцать двенадцати дванадцять дванадцяти twelve",
    13: "тринадцать тринадцати тринадцять тринадцяти thirteen",
    14: "четырнадцать четырнадцати чотирнадцять чотирнадцяти fourteen",
    15: "пятнадцать пятнадцати п'ятнадцять п'ятнадцяти fifteen",
    16: "шестнадцать шестнадцати шістнадцять шістнадцяти sixteen",
    17: "семнадцать семнадцати сімнадцять сімнадцяти seventeen",
    18: "восемнадцать восемнадцати вісімнадцять вісімнадцяти eighteen",
    19: "девятнадцать девятнадцати дев'ятнадцять дев'ятнадцяти nineteen",
    20: "двадцать двадцати двадцять двадцяти twenty",
    30: "тридцать тридцати тридцять тридцяти thirty",
    40: "сорок сорока forty",
    50: "пятьдесят пятидесяти п'ятдесят п'ятдесяти fifty",
    60: "шестьдесят шестидесяти шістдесят шістдесяти sixty",
    70: "семьдесят семидесяти сімдесят сімдесяти seventy",
    80: "восемьдесят восьмидесяти вісімдесят вісімдесяти eighty",
    90: "девяносто девяноста дев'яносто дев'яноста ninety",
    100: "сто ста",
    200: "двести двухсот двісті двохсот",
    300: "триста трехсот трьохсот",
    400: "четыреста четырехсот чотириста чотирьохсот",
    500: "пятьсот пятисот п'ятсот п'ятисот",
    600: "шестьсот шестисот шістсот шестисот",
    700: "семьсот семисот сімсот семисот",
    800: "восемьсот восьмисот вісімсот восьмисот",
    900: "девятьсот девятисот дев'ятсот дев'ятисот",
}
# The beginnings of ordinal numbers; an ending of up to four letters follows.
_ORDINALS = {
    1: "перв перш first",
    2: "втор друг second",
    3: "трет third",
    4: "четверт fourth",
    5: "пят п'ят fifth",
    6: "шест шост sixth",
    7: "седьм сьом seventh",
    8: "восьм eighth",
    9: "девят дев'ят ninth",
    10: "десят tenth",
    11: "одиннадцат одинадцят eleventh",
    12: "двенадцат дванадцят twelfth",
    13: "тринадцат тринадцят thirteenth",
    14: "четырнадцат чотирнадцят fourteenth",
    15: "пятнадцат п'ятнадцят fifteenth",
    16: "шестнадцат шістнадцят sixteenth",
    17: "семнадцат сімнадцят seventeenth",
    18: "восемнадцат вісімнадцят eighteenth",
    19: "девятнадцат дев'ятнадцят nineteenth",
    20: "двадцат двадцят twentieth",
    30: "тридцат тридцят thirtieth",
    40: "сороков fortieth",
    50: "пятидесят п'ятдесят fiftieth",
}
# What multiplies the number before it, and where the next larger multiplier begins.
_SCALES = {
    (100, 1_000): "hundred",
    (
        1_000,
        10**6,
    ): "тысяча тысячи тысяч тысячу тысяче тыс тисяча тисячі тисяч тисячу тис thousand",
    (10**6, 10**9): "миллион миллиона миллионов млн мільйон мільйона мільйонів million",
}
CARDINALS = {word: value for value, words in _CARDINALS.items() for word in words.split()}
ORDINALS = {stem: value for value, stems in _ORDINALS.items() for stem in stems.split()}
SCALES = {word: scale for scale, words in _SCALES.items() for word in words.split()}
MAX_ENDING = 4  # letters of an ordinal after its beginning ("перв-ого", "трет-ьего")
MAX_DIGITS = 12  # a longer number counts no thousands


def read_numbers(words: Iterable[str], *, ordinals: bool = False) -> list[str]:
    """The words, with numbers in digits: "двадцать пять тысяч" and "25 thousand" are "25000".

    Args:
        words: The words of a normalised text.
        ordinals: Read "первое" and "fifth" as well.
    """
    read: list[str] = []
    number: int | None = None
    for word in words:
        if word in SCALES:
            if number is None and read and read[-1].isdecimal() and len(read[-1]) <= MAX_DIGITS:
                number = int(read.pop())
            number = _scaled(number or 1, *SCALES[word])
            continue
        part = _value(word, ordinals=ordinals)
        if number is not None and part is not None and _continues(number, part):
            number += part
            continue
        if number is not None:
            read.append(str(number))
        number = part
        if part is None:
            read.append(word)
    return read if number is None else [*read, str(number)]


def _value(word: str, *, ordinals: bool) -> int | None:
    """The number that a word says by itself."""
    value = CARDINALS.get(word)
    if value is not None or not ordinals:
        return value
    ends = range(len(word), max(0, len(word) - MAX_ENDING - 1), -1)
    return next((ORDINALS[word[:end]] for end in ends if word[:end] in ORDINALS), None)


def _continues(number: int, part: int) -> bool:
    """Whether ``part`` fills the zeros at the end of ``number``: 20 and 5, but not 2 and 3."""
    return number > 0 and part > 0 and number % 10 ** len(str(part)) == 0


def _scaled(number: int, scale: int, ceiling: int) -> int:
    """2 thousand; in 2,000,003 thousand the 3 alone is multiplied."""
    above, below = divmod(number, ceiling)
    return above * ceiling + (below or 1) * scale


# The words of time in Russian, Ukrainian and English: expressions that find them, and values.
#
# Everything here is for text as ``time_spans.fold`` leaves it: lower case, ``е`` for ``ё``, one
# kind of apostrophe and of dash, single spaces. A word's value is looked up by its first three
# letters, which tell all months, weekdays, seasons and units of the three languages apart.

Unit = Literal["minute", "hour", "day", "week", "month", "year"]
Which = Literal["before last", "last", "this", "coming", "next"]

MONTH_ENGLISH = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
)
MONTH = (
    "(?:(?:январ|феврал|апрел|июн|июл|сентябр|октябр|ноябр|декабр)[ьяею]|ма[йяею]"
    "|(?:март|август)[аеу]?|(?:січ|берез|квіт|трав|черв|лип|серп|верес|жовт|груд)(?:ень|ня|ні|ню)"
    f"|лют(?:ий|ого|ому)|листопад[аіу]?|{MONTH_ENGLISH})"
)
MONTH_SHORT_ENGLISH = "(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)[.]?"
MONTH_SHORT = (
    "(?:(?:янв|февр?|мар|апр|авг|сент?|окт|нояб?|дек|січ|лют|бер|квіт|черв|вер|жовт|груд)[.]?"
    f"|{MONTH_SHORT_ENGLISH})"
)
WEEKDAY = (
    "(?:понедельник[ауе]?|вторник[ауе]?|сред[ауы]|четверг[ауе]?|пятниц[ауые]|суббот[ауые]"
    "|воскресень[еяю]|понеділ(?:ок|к[ауи])|вівтор(?:ок|к[ауи])|серед[ауиі]|п'ятниц[яюі]"
    "|субот[ауиі]|неділ[яюі]|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
)
SEASON = (
    "(?:лет(?:о|а|ом|е)|(?<=к )лету|(?:зим|весн)(?:а|у|ы|ой|е|и|ою|і)|осен(?:ь|и|ью)"
    "|літ(?:о|а|ку|у)|[ву]літку|[ву]зимку|навесні|осін(?:ь|ню)|осені|восени"
    "|summer|winter|spring|autumn|fall)"
)
# Seasons that name a time without any other word.
SEASON_ADVERB = "(?:летом|зимой|весной|осенью|[ву]літку|[ву]зимку|взимку|навесні|восени)"
WEEKEND = "(?:выходны[ех]|вихідн(?:і|их)|weekend)"
UNIT_WEEK = "недел[яюиье]|тиж(?:день|ні|нів|ня|ню)|weeks?"
UNIT_MONTH = "месяц(?:а|ев|е|у)?|місяц(?:ь|я|і|ів|ю)|months?"
UNIT_YEAR = "год(?:а|у|ы|ов)?|лет|рік|рок(?:у|и|ів)|році|years?"
UNIT_ONE = (
    "(?:недел[яюие]|неделей|месяц[аеу]?|год[ау]?|тиж(?:день|ня|ні)|місяц[ьяію]|рік|року|році"
    "|week|month|year)"
)
UNIT = (
    f"(?:{UNIT_WEEK}|{UNIT_MONTH}|{UNIT_YEAR}|день|дня|дней|дні|днів|дни|сут(?:ки|ок)|доб[иау]"
    "|діб|days?|час(?:а|ов)?|годин[уаи]?|hours?|минут[уы]?|хвилин[уиа]?|minutes?)"
)
HALF_YEAR = "(?:полгода|пів ?року|half a year)"
PART_ENGLISH = "(?:morning|afternoon|evening|night|noon)"
PART = (
    f"(?:{PART_ENGLISH}|с утра|утром|днем(?! рожд)|вечером|ночью|вранці|уранці|зранку|вдень"
    "|удень|[ву]?вечері|[ву]ночі)"
)
YEAR = r"(?:19|20)\d\d(?!\d)"
YEAR_NOUN = "(?:года|году|годом|год|року|році|роком|рік|г[.])"

WHICH = (
    "(?:эт(?:от|ого|ом|ому|им|у|а|ой|и|их|о)|текущ[а-я]{2,3}|нынешн[а-я]{2,3}"
    "|ц(?:ей|ього|ьому|им|я|ю|ієї|ій|і|их|е)|поточн[а-яії]{1,3}|this (?:past|coming)|this|current"
    "|позапрошл[а-я]{2,3}|позаминул[а-яії]{1,3}"
    "|прошл[а-я]{2,3}|минувш[а-я]{2,3}|прошедш[а-я]{2,3}|предыдущ[а-я]{2,3}"
    "|минул[а-яії]{1,3}|попередн[а-яіїє]{1,4}|last|past|previous"
    "|ближайш[а-я]{2,3}|найближч[а-яії]{1,3}|предстоящ[а-я]{2,3}|coming|upcoming"
    "|следующ[а-я]{2,3}|будущ[а-я]{2,3}|наступн[а-яії]{1,3}|майбутн[а-яіїє]{1,4}|next)"
)
WHICH_BEGINNINGS: tuple[tuple[str, Which], ...] = (
    ("this past", "last"),
    ("this coming", "coming"),
    *((word, "before last") for word in ("позапрошл", "позаминул")),
    *((word, "last") for word in ("прош", "мину", "преды", "попер", "last", "past", "prev")),
    *((word, "coming") for word in ("ближ", "найбл", "предст", "coming", "upcoming")),
    *((word, "next") for word in ("след", "буд", "наст", "майб", "next")),
)

# Offsets in days; "last night" and its like belong to the day before.
DAY_WORDS = {
    **dict.fromkeys(("сегодня", "сьогодні", "today", "tonight"), 0),
    **dict.fromkeys(("вчера", "вчора", "учора", "yesterday", "last night", "last evening"), -1),
    **dict.fromkeys(("прошлой ночью", "минулої ночі"), -1),
    **dict.fromkeys(("позавчера", "позавчора", "day before yesterday"), -2),
    **dict.fromkeys(("завтра", "tomorrow"), 1),
    **dict.fromkeys(("послезавтра", "післязавтра", "day after tomorrow"), 2),
    **dict.fromkeys(("этим утром", "этим вечером", "цього ранку", "цього вечора"), 0),
    **dict.fromkeys(("this morning", "this afternoon", "this evening"), 0),
}
DAY_ADJECTIVE = "(?:сегодняшн|вчерашн|завтрашн|сьогоднішн|вчорашн|учорашн)[а-яіїє]{1,4}"
DAY_ADJECTIVES = {"се": 0, "сь": 0, "вч": -1, "уч": -1, "за": 1}
YEAR_WORDS = {"торік": -1, "цьогоріч": 0, "позаторік": -2}

# Of the cardinal numbers, the forms in which they count units of time.
COUNTING = """
один одну одна одного одной one два две двух дві двох two три трех трьох three четыре четырех
чотири чотирьох four пять пяти п'ять п'яти five шесть шести шість six семь семи сім seven восемь
восьми вісім eight девять девяти дев'ять дев'яти nine десять десяти ten одиннадцать одинадцять
eleven двенадцать дванадцять twelve тринадцать тринадцять thirteen четырнадцать чотирнадцять
fourteen пятнадцать п'ятнадцять fifteen шестнадцать шістнадцять sixteen семнадцать сімнадцять
seventeen восемнадцать вісімнадцять eighteen девятнадцать дев'ятнадцять nineteen двадцать двадцять
twenty тридцать тридцять thirty сорок forty пятьдесят п'ятдесят fifty шестьдесят шістдесят sixty
девяносто дев'яносто ninety сто
"""
NUMBER_WORDS = {"a": 1, "an": 1, "сіми": 7, "hundred": 100} | {
    word: CARDINALS[word] for word in COUNTING.split()
}
# Numbers that are meant as more or less, as the least and the most that they say.
VAGUE_NUMBERS = {
    **dict.fromkeys(("пару", "пара", "a couple of", "couple of", "a couple", "couple"), (2, 2)),
    **dict.fromkeys(("несколько", "нескольких", "кілька", "декілька", "кількох"), (2, 5)),
    **dict.fromkeys(("a few", "few", "several", "some"), (2, 5)),
    **dict.fromkeys(("полтора", "полторы", "півтора", "півтори"), (1, 2)),
}


def any_of(words: list[str]) -> str:
    """An expression for any of these words, the longest first."""
    return "(?:" + "|".join(sorted(words, key=len, reverse=True)) + ")"


def _numbered(table: str, start: int = 0) -> dict[str, int]:
    """The beginnings of words by the number of their entry in a list with commas."""
    entries = enumerate(table.split(","), start)
    return {beginning: number for number, entry in entries for beginning in entry.split()}


VAGUE_NUMBER = any_of(list(VAGUE_NUMBERS))
NUMBER_WORD = any_of(list(NUMBER_WORDS))
NUMBER = rf"(?:\d{{1,4}}(?:-\d{{1,4}})?|{VAGUE_NUMBER}|{NUMBER_WORD}(?:[ -]{NUMBER_WORD})?)"

# Ordinals of days ("пятого марта", "двадцять першого травня", "the fifth of March").
DAY_ORDINALS = {stem: number for stem, number in ORDINALS.items() if number <= 30}
ORDINAL_ENDING = "(?:ьего|ього|ого|ье|ое|є|е)?"
ORDINAL = (
    "(?:(?:двадцать|двадцять|twenty|тридцать|тридцять|thirty)[ -])?"
    rf"{any_of(list(DAY_ORDINALS))}{ORDINAL_ENDING}\b"
)

MONTHS = _numbered(
    "янв січ jan, фев лют feb, мар бер mar, апр кві apr, май мая мае маю тра may, июн чер jun, "
    "июл лип jul, авг сер aug, сен вер sep, окт жов oct, ноя лис nov, дек гру dec",
    start=1,
)
WEEKDAYS = _numbered(
    "пон mon, вто вів tue, сре сер wed, чет thu, пят п'я fri, суб sat, вос нед sun"
)
# The first month of each season; a winter bears the year of its December here.
SEASONS = {
    **dict.fromkeys(("вес", "нав", "spr"), 3),
    **dict.fromkeys(("лет", "літ", "влі", "улі", "sum"), 6),
    **dict.fromkeys(("осе", "осі", "вос", "aut", "fal"), 9),
    **dict.fromkeys(("зим", "взи", "узи", "win"), 12),
}
UNITS: dict[str, Unit] = {
    **dict.fromkeys(("мин", "хви", "min"), "minute"),
    **dict.fromkeys(("час", "hou"), "hour"),
    **dict.fromkeys(("ден", "дня", "дне", "дні", "дни", "сут", "доб", "діб", "day"), "day"),
    **dict.fromkeys(("нед", "тиж", "wee"), "week"),
    **dict.fromkeys(("мес", "міс", "mon"), "month"),
    **dict.fromkeys(("год", "лет", "рік", "рок", "роц", "yea"), "year"),
}


class Amount(NamedTuple):
    """How many units: the least, the most, and whether it is meant exactly."""

    low: int
    high: int
    exact: bool


def amount_of(words: str | None) -> Amount:
    """The amount that a match of ``NUMBER`` says; without one ("через неделю") it is one."""
    if words is None:
        return Amount(1, 1, True)
    if words in VAGUE_NUMBERS:
        return Amount(*VAGUE_NUMBERS[words], False)
    if words[0].isdigit():
        first, _, last = words.partition("-")
        return Amount(int(first), int(last or first), not last)
    number = sum(NUMBER_WORDS[word] for word in re.split("[ -]", words))
    return Amount(number, number, True)


def unit_of(word: str) -> Unit:
    """The unit of time; Ukrainian ``година`` is an hour, Russian ``год`` a year."""
    return "hour" if word.startswith("годин") else UNITS[word[:3]]


def which_of(words: str) -> Which:
    """What "this", "last", "next" and their like say."""
    found = (which for beginning, which in WHICH_BEGINNINGS if words.startswith(beginning))
    return next(found, "this")


def day_number(words: str) -> int:
    """The day of a month: ``5``, ``5-го``, ``5th``, ``пятого``, ``двадцять першого``."""
    digits = re.match(r"\d+", words)
    if digits is not None:
        return int(digits[0])
    *tens, last = re.split("[ -]", words)
    stem = re.sub(f"{ORDINAL_ENDING}$", "", last)
    return sum(NUMBER_WORDS[word] for word in tens) + DAY_ORDINALS.get(
        last, DAY_ORDINALS.get(stem, 0)
    )


# Whole calendar days: a day, a week from its Monday, a month, a season, a year.
#
# Spring is March to May, and a winter begins in December.

DAY = timedelta(days=1)
WEEK = timedelta(days=7)
DECEMBER = WINTER = 12  # a winter begins in it
YEAR_DIGITS = 4
LAST_CENTURY = 69  # years of two digits from here on belong to it, as POSIX has it


class Days(NamedTuple):
    """Whole days: from the first to the one before ``after``."""

    first: date
    after: date


def day(first: date) -> Days:
    """One day."""
    return Days(first, first + DAY)


def week_of(moment: date) -> Days:
    """The week that a day lies in."""
    monday = moment - DAY * moment.weekday()
    return Days(monday, monday + WEEK)


def month_of(moment: date) -> Days:
    """The month that a day lies in."""
    first = moment.replace(day=1)
    return Days(first, months_later(first, 1))


def season_of(year: int, month: int) -> Days:
    """The season that begins in a month."""
    first = date(year, month, 1)
    return Days(first, months_later(first, 3))


def year_of(year: int) -> Days:
    """A calendar year."""
    return Days(date(year, 1, 1), date(year + 1, 1, 1))


def around(moment: date, unit: Unit) -> Days:
    """The calendar unit that a day lies in; the day itself for hours and minutes."""
    if unit == "week":
        return week_of(moment)
    if unit == "month":
        return month_of(moment)
    return year_of(moment.year) if unit == "year" else day(moment)


def shifted(now: datetime, unit: Unit, number: int) -> date:
    """The day that lies a number of units after (or, if negative, before) a moment.

    Raises:
        ValueError, OverflowError: There is no such day in the calendar.
    """
    if unit in ("minute", "hour"):
        return (now + timedelta(**{f"{unit}s": number})).date()
    if unit in ("day", "week"):
        return now.date() + (DAY if unit == "day" else WEEK) * number
    return months_later(now.date(), number * (12 if unit == "year" else 1))


def months_later(moment: date, number: int) -> date:
    """The same day of another month, or the last one that this month has."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + number, 12)
    # ``date`` is asked first: it knows which years there are.
    last = monthrange(date(year, month + 1, 1).year, month + 1)[1]
    return date(year, month + 1, min(moment.day, last))


def digit_date(text: str) -> date:
    """The date of ``05.03.2026``, ``5/3/2026``, ``05.03.26`` or ``2026-03-05``.

    The day stands before the month, unless only the other way round makes sense: ``03/15/2026``.

    Raises:
        ValueError: There is no such day in the calendar.
    """
    numbers = re.split("[-./]", text)
    if len(numbers[0]) != YEAR_DIGITS:
        numbers.reverse()
    year, month, number = map(int, numbers)
    if len(numbers[0]) != YEAR_DIGITS:
        year += 1900 if year >= LAST_CENTURY else 2000
    if month > DECEMBER:
        month, number = number, month
    return date(year, month, number)
