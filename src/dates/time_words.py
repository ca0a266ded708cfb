"""The words of time in Russian, Ukrainian and English: expressions that find them, and values.

Everything here is for text as ``time_spans.fold`` leaves it: lower case, ``е`` for ``ё``, one
kind of apostrophe and of dash, single spaces. A word's value is looked up by its first three
letters, which tell all months, weekdays, seasons and units of the three languages apart.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from src.language import number_words
from src.language.number_words import CARDINALS

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
ORDINALS = {stem: number for stem, number in number_words.ORDINALS.items() if number <= 30}
ORDINAL_ENDING = "(?:ьего|ього|ого|ье|ое|є|е)?"
ORDINAL = (
    "(?:(?:двадцать|двадцять|twenty|тридцать|тридцять|thirty)[ -])?"
    rf"{any_of(list(ORDINALS))}{ORDINAL_ENDING}\b"
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
    return sum(NUMBER_WORDS[word] for word in tens) + ORDINALS.get(last, ORDINALS.get(stem, 0))
