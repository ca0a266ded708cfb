"""The expressions for each way of naming a time, in the order in which they are tried."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Literal

from src.dates import time_words as w

Kind = Literal[
    "habit",  # каждую пятницу: no time at all
    "narrated",  # на следующий день: a time, but not one counted from now
    "someday",  # на днях, the other day: a day that nobody can tell
    "recent",  # недавно
    "week of",  # на неделе с 23 ноября
    "days",  # с 5 по 8 мая
    "date",  # 5 марта, 2026-03-05
    "month day",  # 5 числа, on the 5th
    "ago",  # два дня назад
    "ahead",  # через два дня
    "lasting",  # последние два дня
    "day",  # вчера вечером
    "named",  # в марте, прошлым летом, next week, on Monday
    "year",  # в 2024 году
    "offset",  # за два дня до 5 мая
]

# Before a part of a month, a year …: "в начале", "until the end of".
EDGE = (
    "(?:(?:в|к|с|до|на|от) (?:самом |самого )?(?:начал[еау]|середин[еыу]|кон(?:це|ца|цу|ец))"
    "|(?:на|наприкінці|з|від|до|у|в|під) (?:поча(?:тку|ток)|середин[іиу]|кін(?:ці|ця|ець))"
    "|наприкінці|(?:(?:in|at|by|since|until|from|before|after) )?(?:the )?"
    "(?:(?:beginning|start|middle|end) of|early|mid|late))"
)
PREPOSITION = (
    f"(?:{EDGE}|начиная со?|починаючи (?:зі?|із)|в течение|протягом|[ву]продовж"
    "|около|примерно|приблизительно|где-то|близько|приблизно|десь|между|між|between|around|about"
    "|since|until|till|before|after|during|from|over|for|of|on|in|at|by"
    "|после|після|перед|со|от|во|до|на|за|ко|про|по|об|із|зі|від|в|с|к|у|з|о)"
)
AFTER_PREPOSITION = rf"(?P<prep>{PREPOSITION})(?: the)?[ -]"
P = f"(?:{AFTER_PREPOSITION})?(?:the )?"

# What a number counts cannot be a date: "за 2000 рублей", "May 5 people".
COUNTED = (
    r"(?! ?(?:%|€|\$|₽|₴|руб|р\b|грн|грив|дол|евро|євро|тыс|тис|км|кг|м\b|г\b|шт|раз|человек"
    "|людей|осіб|слов|слів|шаг|крок|кал|ккал|мл|метр|страниц|сторін|балл|балів|words|people"
    "|persons|km|kg|kilo|miles|meters|dollars|euros|bucks|rub|uah|steps|calories|kcal|pages"
    "|points|users|cats|dogs|times|more))"
)
MODAL_MAY = r"(?! (?:be|have|not|also|well|come|need|want|seem|still|take|go|get|help|i|we|you)\b)"

DAY_NUMBER = "(?:3[01]|[12][0-9]|0?[1-9])"
DAY = rf"(?:{DAY_NUMBER}(?:-?(?:го|ого|е|те)\b|st\b|nd\b|rd\b|th\b|(?!\w))|{w.ORDINAL})"
DAY_AFTER_MONTH = rf"(?:(?:the )?{DAY}(?![:%]|[./][0-9]|,[0-9](?![0-9]{{3}}\b)){COUNTED})"
DIGIT_DATE = (
    r"(?<![\w.,:/+-])(?:(?:19|20)[0-9]{2}(?:-[0-9]{2}-|\.[0-9]{2}\.|/[0-9]{2}/)[0-9]{2}"
    r"|[0-9]{1,2}(?:-[0-9]{1,2}-|\.[0-9]{1,2}\.|/[0-9]{1,2}/)(?:19|20)[0-9]{2}"
    r"|[0-9]{2}\.[0-9]{2}\.[0-9]{2})(?![\w/+-]|[.,:][0-9])"
)
YEAR_TAIL = rf"(?:(?:, ?| )(?P<year>{w.YEAR})(?:-?го\b)?(?: {w.YEAR_NOUN})?)?"
MONTH_ANY = rf"(?:{w.MONTH}|{w.MONTH_SHORT})(?!\w)"
MONTH_ENGLISH = rf"(?:{w.MONTH_ENGLISH}|{w.MONTH_SHORT_ENGLISH})(?!\w)"
DAY_OF_MONTH = rf"(?:the )?(?P<day>{DAY}) (?:of )?(?P<month>{MONTH_ANY})(?:(?<!may)|{MODAL_MAY})"
MONTH_AND_DAY = rf"(?P<month>{MONTH_ENGLISH}) (?P<day>{DAY_AFTER_MONTH})"
TO = "(?P<link> ?- ?| (?:по|до|и|та|і|й|to|till|until|through|and) )"
PART = rf"(?:,? (?:in the |at )?(?P<part>{w.PART}))?"
DAY_WORD = f"(?:{w.any_of(list(w.DAY_WORDS))}|{w.DAY_ADJECTIVE})"
NOUN = rf"(?:(?P<weekday>{w.WEEKDAY})|(?P<month>{w.MONTH})|(?P<season>{w.SEASON}))"
WHICH_NOUN = (
    rf"(?P<which>{w.WHICH}) (?:(?P<unit>{w.UNIT_ONE})|(?P<weekend>{w.WEEKEND})|{NOUN})(?! of\b)"
)
MONTH_OF_YEAR = (
    rf"(?P<month>{MONTH_ANY}),? (?:of )?(?P<year>{w.YEAR})(?:-?го\b)?(?: {w.YEAR_NOUN})?"
)
NUMBER_OF_UNITS = rf"(?P<n>{w.NUMBER}) (?P<unit>{w.UNIT})"
SOME_UNITS = rf"(?:(?P<n>{w.NUMBER}) )?(?:(?P<half>{w.HALF_YEAR})|(?P<unit>{w.UNIT}))"
HEDGE = (
    "больше|более|меньше|менее|почти|больш|більше|менше|понад|майже|almost|nearly|over"
    "|(?:more|less) than"
)
ROUGHLY = "около|примерно|приблизительно|где-то|близько|приблизно|десь|about|around|roughly"

RULES: tuple[tuple[Kind, str], ...] = (
    (
        "habit",
        r"(?:кажд[а-я]{2,3}|кожн[а-яії]{1,3}|every|each)(?: (?:other|second|друг[а-я]{2,3}"
        rf"|{w.NUMBER}))? (?:{w.UNIT}|{w.WEEKDAY}|{w.SEASON}|{w.WEEKEND}|{w.MONTH}"
        rf"|{w.PART_ENGLISH}|утро|вечер|ночь|ранок|вечір|ніч)",
    ),
    ("habit", f"через день|in a day|{w.WEEKDAY} (?:mornings|afternoons|evenings|nights)"),
    ("narrated", "на следующий день|наступного дня|(?:the )?following (?:day|week|month|year)"),
    ("narrated", "the next day"),
    (
        "someday",
        "на днях|цими днями|(?<!ими )днями(?! (?:й|і|и|та) )|(?:the )?other day"
        "|one of these days|в ближайшие дни|(?:у|в) найближчі дні|найближчими днями"
        "|in the (?:next|coming) days|(?:после){2,3}завтра|(?:після){2,3}завтра"
        "|(?:поза){2,3}вч[ео]ра|позапозавч[ео]ра",
    ),
    (
        "recent",
        "(?:совсем )?недавно|нещодавно|(?:в|за) последнее время|останнім часом|recently|lately",
    ),
    ("week of", rf"{P}(?:недел[яеюи]|тиж(?:день|ні|ня)) (?:с|з) (?P<number>{DIGIT_DATE})"),
    (
        "week of",
        rf"{P}(?:недел[яеюи]|тиж(?:день|ні|ня)|week) (?:с|з|of) {DAY_OF_MONTH}{YEAR_TAIL}",
    ),
    (
        "days",
        rf"{P}(?P<day>{DAY}){TO}(?P<last_day>{DAY}) (?:of )?(?P<month>{MONTH_ANY}){YEAR_TAIL}",
    ),
    (
        "days",
        rf"{P}(?P<month>{MONTH_ENGLISH}) (?P<day>{DAY}){TO}(?P<last_day>{DAY_AFTER_MONTH})"
        rf"{YEAR_TAIL}",
    ),
    ("date", rf"{P}(?:{w.WEEKDAY},? )?(?P<number>{DIGIT_DATE})"),
    ("date", rf"{P}(?:{w.WEEKDAY},? (?:the )?)?{DAY_OF_MONTH}{YEAR_TAIL}"),
    ("date", rf"{P}(?:{w.WEEKDAY},? )?{MONTH_AND_DAY}{YEAR_TAIL}"),
    ("month day", rf"(?:(?P<prep>с|до|к|з|від) )?(?P<day>{DAY_NUMBER}(?:-?го)?) числа"),
    (
        "month day",
        rf"(?P<prep>on|since|until|by|from) the (?P<day>{DAY_NUMBER}(?:st|nd|rd|th))"
        "(?= of (?:this|last|next) month|[,.;!?]|$)",
    ),
    (
        "ago",
        rf"(?:(?P<hedge>{HEDGE}) )?(?:(?P<prep>{ROUGHLY}) )?{SOME_UNITS}"
        " (?:(?:тому )?назад|тому(?! що)|ago)",
    ),
    ("ahead", rf"через (?:(?P<prep>{ROUGHLY}) )?{SOME_UNITS}(?! (?:после|після|від))"),
    (
        "ahead",
        rf"in (?:(?P<prep>{ROUGHLY}) )?(?:{NUMBER_OF_UNITS}|(?P<half>{w.HALF_YEAR}))"
        "(?:'s?)?(?: time)?(?! (?:of|after|from))",
    ),
    ("ahead", f"{NUMBER_OF_UNITS} from (?:now|today)"),
    (
        "lasting",
        rf"{P}(?P<side>последн[а-я]{{2,3}}|останн[а-яії]{{1,3}}|прошл[а-я]{{2,3}}|минул[а-яії]{{1,3}}"
        rf"|ближайш[а-я]{{2,3}}|найближч[а-яії]{{1,3}}|следующ[а-я]{{2,3}}|наступн[а-яії]{{1,3}}"
        rf"|last|past|next|coming) {NUMBER_OF_UNITS}",
    ),
    (
        "lasting",
        rf"{P}(?P<side>последн(?:ий|его|юю|ей|яя)|останн(?:ій|ього|я|ю)|past)"
        rf" (?P<unit>{w.UNIT_ONE})",
    ),
    ("day", rf"{P}(?P<word>{DAY_WORD})(?: (?P<noun>день|дня|дню|дне|дні))?{PART}"),
    ("named", rf"{P}{WHICH_NOUN}{PART}"),
    (
        "named",
        rf"(?P<prep>{EDGE}) (?:the )?"
        "(?P<unit>недел[ияю]|месяца|года|тижня|місяця|року|week|month|year)",
    ),
    (
        "named",
        rf"{P}(?P<season>{w.SEASON}),? (?:of )?(?P<year>{w.YEAR})(?:-(?P<year_to>{w.YEAR}))?"
        rf"(?: (?:{w.YEAR_NOUN}|годов|років))?",
    ),
    ("named", rf"{P}{MONTH_OF_YEAR}"),
    ("named", rf"{AFTER_PREPOSITION}(?:(?P<weekend>{w.WEEKEND})|{NOUN}){PART}"),
    ("named", rf"(?P<season>{w.SEASON_ADVERB})"),
    ("named", rf"(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day){PART}"),
    ("year", f"(?P<year_word>{w.any_of(list(w.YEAR_WORDS))})"),
    ("year", rf"{P}(?<![.,:/+-])(?P<year>{w.YEAR})(?: ?{w.YEAR_NOUN}|-(?:го|й|м))"),
    ("year", f"(?:in )?(?:the )?year (?P<year>{w.YEAR})"),
    ("year", rf"{AFTER_PREPOSITION}(?P<year>{w.YEAR})(?![:/]|[.,-][0-9]){COUNTED}"),
)

# What may stand before "до 5 мая" or "before 5 May": it moves the day.
OFFSET = rf"(?:(?:за|через|in) )?(?:the )?{SOME_UNITS} $"
OFFSET_LENGTH = 40  # characters; none is longer

# What may end a range whose beginning was found: "from March | to May".
LINKED_RULES: tuple[tuple[Kind, str], ...] = (
    ("date", rf"{TO}(?:the )?(?P<number>{DIGIT_DATE})"),
    ("date", rf"{TO}{DAY_OF_MONTH}{YEAR_TAIL}"),
    ("date", rf"{TO}{MONTH_AND_DAY}{YEAR_TAIL}"),
    ("day", rf"{TO}(?P<word>{DAY_WORD})"),
    ("named", rf"{TO}{WHICH_NOUN}"),
    ("named", rf"{TO}{MONTH_OF_YEAR}"),
    ("named", rf"{TO}{NOUN}"),
    ("year", rf"{TO}(?P<year>{w.YEAR})(?: {w.YEAR_NOUN})?"),
)

# How the words begin without which no rule matches; history and questions are read elsewhere.
HINTS = """
сегодн вчера позавчер позапозавч завтр послезавтр послепосл недел месяц год лет полгода пів
день дня дне дни дні сут доб діб час минут хвилин годин янв фев мар апр май мая мае маю июн июл
авг сен окт ноя дек понед втор сред четв пятн субб воскр выходн недавно нещодавно последн
останн числа утр вечер ноч ранк веч зим весн весной осен летом днями днях следующ сьогодн вчор
учор позавч післязавт післяпісля тиж місяц рік рок роц торік цьогор позатор січ лют бер квіт
трав черв лип серп вер жовт лист груд вівтор серед п'ят п’ят пʼят субот неділ вихідн літ влітку
улітку взимку узимку навесні восени осін ноч ніч найближч
today tonight yesterday tomorrow last this next week month year day hour minute half jan feb
mar apr may jun jul aug sep oct nov dec mon tue wed thu fri sat sun summer winter spring autumn
fall recent lately other following
"""
DIGIT_HINT = r"\d(?:\d{3}|\d?[./-]\d|\d?(?:st|nd|rd|th)\b)"


def beginning_with(beginnings: str, also: str) -> re.Pattern[str]:
    """A quick expression for words with these beginnings: first letters are compared once."""
    letters = groupby(sorted(set(beginnings.split())), key=lambda word: word[0])
    groups = (f"{first}(?:{'|'.join(word[1:] for word in words)})" for first, words in letters)
    return re.compile(rf"\b(?:{'|'.join(groups)}|{also})")


TIME_HINT = beginning_with(HINTS, DIGIT_HINT)
