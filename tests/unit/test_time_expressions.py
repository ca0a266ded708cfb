"""Time expressions: periods in questions, and dates in facts, in three languages."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from types import FrameType
from zoneinfo import ZoneInfo

import pytest
from hypothesis import strategies as st

from src.base.zones import local_time
from src.reading.relative_dates import Validity, resolve_dates, when_valid
from src.reading.time_expressions import EARLIEST, Period, TimeQuery, read_time
from src.reading.times import MAX_TEXT, find_spans, fold, tidy
from src.reading.words import mended
from tests.cases import for_random

KYIV = ZoneInfo("Europe/Kyiv")
NOW = datetime(2026, 11, 22, 14, 30, tzinfo=KYIV)  # a Sunday
NOW_WORD = "now"


def day_of(text: str) -> date:
    """The date of ``YYYY-MM-DD``."""
    return date.fromisoformat(text)


def midnight(text: str, zone: ZoneInfo = KYIV) -> datetime:
    """The first moment of a day; ``now`` is NOW."""
    if text == NOW_WORD:
        return NOW
    return datetime.combine(day_of(text), datetime.min.time(), tzinfo=zone)


def day_after(text: str) -> str:
    """The next day."""
    return (day_of(text) + timedelta(days=1)).isoformat()


def shown(query: TimeQuery) -> list[tuple[str, str]]:
    """The periods as pairs of local dates, with times that are no midnight."""
    pairs = [(p.start, p.end) for p in query.periods]
    return [(f"{start:%F %R}", f"{end:%F %R}") for start, end in pairs]


DAYS = [
    # today, yesterday and around
    ("Що я робив сьогодні?", "2026-11-22"), ("What did I do today?", "2026-11-22"),
    ("вчера", "2026-11-21"), ("Що я купив учора ввечері?", "2026-11-21"), ("вчора", "2026-11-21"),
    ("What did I eat last night?", "2026-11-21"), ("yesterday evening", "2026-11-21"),
    ("позавчера", "2026-11-20"), ("позавчора вранці", "2026-11-20"),
    ("the day before yesterday", "2026-11-20"), ("this morning", "2026-11-22"),
    ("сегодня утром", "2026-11-22"), ("цього ранку", "2026-11-22"), ("этим утром", "2026-11-22"),
    ("вчорашній день", "2026-11-21"), ("сегодняшняя погода", "2026-11-22"),
    ("tomorrow", "2026-11-23"), ("завтра", "2026-11-23"), ("послезавтра", "2026-11-24"),
    ("day after tomorrow", "2026-11-24"), ("післязавтра", "2026-11-24"),
    # counted days
    ("3 дня назад", "2026-11-19"), ("four days ago", "2026-11-18"),
    ("через три дня", "2026-11-25"), ("in three days", "2026-11-25"),
    ("двадцать один день назад", "2026-11-01"), ("20 minutes ago", "2026-11-22"),
    # weekdays
    ("в понедельник", "2026-11-16"), ("on Monday", "2026-11-16"), ("у п’ятницю", "2026-11-20"),
    ("what will I do on Friday?", "2026-11-27"), ("что было в пт", "2026-11-20"),
    ("last Monday", "2026-11-16"), ("в прошлую среду", "2026-11-18"),
    ("в эту субботу", "2026-11-21"), ("минулої середи", "2026-11-18"),
    ("в следующий вторник", "2026-11-24"), ("next Friday", "2026-11-27"),
    ("наступного вівторка", "2026-11-24"), ("в понедельник на прошлой неделе", "2026-11-09"),
    ("минулого тижня в понеділок", "2026-11-09"), ("что у меня на пятницу", "2026-11-27"),
    # dates
    ("пятого марта", "2026-03-05"), ("Mar 5", "2026-03-05"), ("on 5 March", "2026-03-05"),
    ("May 2nd, 2025", "2025-05-02"), ("5 сент. 2025", "2025-09-05"),
    ("5 марта прошлого года", "2025-03-05"), ("2026-03-05", "2026-03-05"),
    ("03.15.26", "2026-03-15"), ("в пятницу, 6 марта 2026", "2026-03-06"),
    ("23 ноября", "2025-11-23"), ("29 февраля", "2024-02-29"), ("25 числа", "2026-10-25"),
    ("on the 5th of last month", "2026-10-05"), ("двадцать первого мая", "2026-05-21"),
    ("15/11", "2026-11-15"), ("05.03.2026", "2026-03-05"),
    ("05.03.69", "1969-03-05"), ("05.03.68", "2068-03-05"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), DAYS)
def test_a_day_is_found(text: str, expected: str) -> None:
    expected_period = Period(midnight(expected), midnight(day_after(expected)))
    assert read_time(text, NOW).periods == (expected_period,)


PERIODS = [
    # weeks
    ("last week's meeting", "2026-11-09", "2026-11-16"),
    ("a couple of weeks ago", "2026-11-02", "2026-11-09"),
    ("на этой неделе", "2026-11-16", "2026-11-23"), ("this week", "2026-11-16", "2026-11-23"),
    ("на позапрошлой неделе", "2026-11-02", "2026-11-09"),
    ("наступного тижня", "2026-11-23", "2026-11-30"),
    ("на следующей неделе", "2026-11-23", "2026-11-30"),
    ("a few weeks ago", "2026-10-12", "2026-11-09"),
    ("через два тижні", "2026-11-30", "2026-12-07"),
    ("in 3 weeks' time", "2026-12-07", "2026-12-14"),
    ("plans for next wk", "2026-11-23", "2026-11-30"),
    ("2 weeks back", "2026-11-02", "2026-11-09"),
    ("что я делал на прош неделе", "2026-11-09", "2026-11-16"),
    ("что у меня в ближайшие дни", "2026-11-22", "2026-12-06"),
    # months
    ("в прошлом месяце", "2026-10-01", "2026-11-01"), ("у березні", "2026-03-01", "2026-04-01"),
    ("Что я купил в марте?", "2026-03-01", "2026-04-01"),
    ("in December", "2025-12-01", "2026-01-01"),
    ("через месяц", "2026-12-01", "2027-01-01"), ("півроку тому", "2026-05-01", "2026-06-01"),
    ("last year in March", "2025-03-01", "2025-04-01"),
    ("два года назад в марте", "2024-03-01", "2024-04-01"),
    ("next May", "2027-05-01", "2027-06-01"),
    # years
    ("в этом году", "2026-01-01", "2027-01-01"), ("цього року", "2026-01-01", "2027-01-01"),
    ("в прошлом году", "2025-01-01", "2026-01-01"), ("торік", "2025-01-01", "2026-01-01"),
    ("рік тому", "2025-01-01", "2026-01-01"), ("в 2024 году", "2024-01-01", "2025-01-01"),
    # seasons
    ("минулого літа", "2026-06-01", "2026-09-01"), ("прошлым летом", "2026-06-01", "2026-09-01"),
    ("этим летом", "2026-06-01", "2026-09-01"), ("last winter", "2025-12-01", "2026-03-01"),
    ("минулої зими", "2025-12-01", "2026-03-01"), ("in the spring", "2026-03-01", "2026-06-01"),
    ("summer of 2024", "2024-06-01", "2024-09-01"),
    ("летом прошлого года", "2025-06-01", "2025-09-01"),
    ("зимой 2025–2026 годов", "2025-12-01", "2026-03-01"),
    # weekends
    ("на выходных", "2026-11-21", "2026-11-23"), ("минулих вихідних", "2026-11-14", "2026-11-16"),
    ("на прошлых выходных", "2026-11-14", "2026-11-16"),
    ("next weekend", "2026-11-28", "2026-11-30"),
    # ranges
    ("с марта по май", "2026-03-01", "2026-06-01"),
    ("с 5 по 8 мая", "2026-05-05", "2026-05-09"), ("May 5-8", "2026-05-05", "2026-05-09"),
    ("between March 5 and April 8", "2026-03-05", "2026-04-09"),
    ("31 октября – 1 ноября 2026", "2026-10-31", "2026-11-02"),
    ("from Monday to Friday", "2026-11-16", "2026-11-21"),
    # until now, and open at the beginning
    ("since March", "2026-03-01", NOW_WORD), ("до марта 2025", EARLIEST.isoformat(), "2025-03-01"),
    ("с прошлой недели", "2026-11-09", NOW_WORD),
    ("после 5 мая", "2026-05-06", NOW_WORD),
    ("before 2020", EARLIEST.isoformat(), "2020-01-01"),
    ("до конца года", "2026-11-22", "2027-01-01"), ("недавно", "2026-11-08", "2026-11-23"),
    ("за последние две недели", "2026-11-08", "2026-11-23"),
    ("останні два тижні", "2026-11-08", "2026-11-23"),
    ("in the last two weeks", "2026-11-08", "2026-11-23"),
    ("next three days", "2026-11-22", "2026-11-26"),
    # moved from another day
    ("за два дня до 5 марта", "2026-03-03", "2026-03-04"),
    ("за тиждень до 5 травня", "2026-04-27", "2026-05-04"),
    ("the week before 16 November 2023", "2023-11-06", "2023-11-13"),
    ("three days after March 30, 2025", "2025-04-02", "2025-04-03"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "start", "end"), PERIODS)
def test_a_period_is_found(text: str, start: str, end: str) -> None:
    assert read_time(text, NOW).periods == (Period(midnight(start), midnight(end)),)


@pytest.mark.parametrize("text", [
    "May I ask you something?", "мая собака", "моя собака", "my second brother", "второй брат",
    "1500 рублей", "за 2000 рублей", "до 2000 гривень", "2 cats", "+380 50 123 45 67",
    "050-12-03-2026", "python 3.11", "python 3.11.12", "version 2026", "192.168.20.26",
    "цена 12.50", "$19.99", "в 15:00", "at 15:00", "march on", "we march to the sea",
    "April said hello", "I sat down", "a mar of wine", "I think 10 may be enough",
    "you may 5 times", "мне 20 лет", "сын на лету поймал мяч", "my last name", "next door",
    "every Monday", "каждую пятницу", "щоп'ятниці", "кожного року", "по понедельникам",
    "on Fridays", "хожу в зал через день", "через два дня после свадьбы", "31 июня",
    "29 лютого 2023 року", "31.04.2025", "00.01.2026", "32.01.20", "2026-02-30", "30.02.2026",
    "99.99.2026", "день рождения брата", "в среде разработки", "for three years", "9999 лет назад",
    "", "   ",
])  # fmt: skip
def test_what_names_no_time_is_left_alone(text: str) -> None:
    query = read_time(text, NOW)
    assert query.periods == ()
    assert query.content.strip() == text.strip()


@pytest.mark.parametrize(("text", "content"), [
    ("Что я купил вчера?", "Что я купил?"),
    ("Вчера, кажется, я купил чай", "кажется, я купил чай"),
    ("What did I buy in March 2025 for Anna?", "What did I buy for Anna?"),
    ("last week's meeting", "meeting"), ("з березня до травня я жив у Львові", "я жив у Львові"),
    ("что я говорил в понедельник на прошлой неделе о работе", "что я говорил о работе"),
    ("завтра в 15:00 встреча", "в 15:00 встреча"), ("Где ключи?", "Где ключи?"),
    ("every Monday in March", "every Monday"), ("вчера", ""), ("«Вчора?»", ""),
    ("  yesterday\n\tin   Kyiv ", "in Kyiv"),
])  # fmt: skip
def test_the_content_is_what_remains(text: str, content: str) -> None:
    assert read_time(text, NOW).content == content


def test_a_text_may_name_several_periods() -> None:
    query = read_time("this week and last week, and again this week", NOW)
    assert shown(query) == [
        ("2026-11-16 00:00", "2026-11-23 00:00"),
        ("2026-11-09 00:00", "2026-11-16 00:00"),
    ]


@pytest.mark.parametrize("text", [
    "Где я жил раньше?", "моя прежняя работа", "где я работал до этого", "прошлая работа",
    "история моих переездов", "where did I live before", "where I used to live",
    "what was my previous job", "Where did I live before 2020?", "де я жив колись",
    "де я працював раніше", "моя попередня робота", "колишній начальник", "де я жив до 2020 року",
])  # fmt: skip
def test_history_is_wanted(text: str) -> None:
    assert read_time(text, NOW).wants_history


@pytest.mark.parametrize("text", [
    "Где я живу?", "what did I do the day before yesterday", "прошлым летом я был в Грузии",
    "минулого тижня", "на прошлой неделе", "I'm used to it", "до конца года", "where do I live",
])  # fmt: skip
def test_history_is_not_wanted(text: str) -> None:
    assert not read_time(text, NOW).wants_history


@pytest.mark.parametrize("text", [
    "Когда я купил машину?", "С каких пор я живу в Киеве?", "какого числа у мамы день рождения",
    "в каком году я женился", "сколько лет назад это было", "Коли я купив машину?",
    "якого числа іспит", "у якому році я одружився", "When did I move?", "what date is the exam",
    "In which year did I marry?", "how long ago did I call her",
])  # fmt: skip
def test_a_time_is_asked_for(text: str) -> None:
    assert read_time(text, NOW).asks_when


@pytest.mark.parametrize(
    "text",
    ["когда-то я жил в Киеве", "никогда", "иногда бегаю", "інколи", "колись", "whenever", "кот"],
)
def test_no_time_is_asked_for(text: str) -> None:
    assert not read_time(text, NOW).asks_when


@pytest.mark.parametrize(("zone", "day", "hours"), [
    ("Europe/Kyiv", "2025-03-30", 23), ("Europe/Kyiv", "2025-10-26", 25),
    ("America/New_York", "2025-03-09", 23), ("America/New_York", "2025-11-02", 25),
    ("Asia/Kathmandu", "2025-03-30", 24),
    # Clocks change at midnight: the day has no 00:00, or two.
    ("Africa/Cairo", "2025-04-25", 23), ("Africa/Cairo", "2025-10-30", 25),
    ("America/Havana", "2025-03-09", 23), ("America/Havana", "2025-11-02", 25),
])  # fmt: skip
@pytest.mark.parametrize("library", ["pytz", "zoneinfo"])
def test_a_day_is_as_long_as_clocks_make_it(library: str, zone: str, day: str, hours: int) -> None:
    noon = datetime.combine(day_of(day), datetime.min.time(), tzinfo=UTC) + timedelta(hours=12)
    now = local_time(noon, zone) if library == "pytz" else noon.astimezone(ZoneInfo(zone))
    (period,) = read_time("сегодня", now).periods
    assert period.end.astimezone(UTC) - period.start.astimezone(UTC) == timedelta(hours=hours)
    assert period.start.date() == day_of(day)
    just_before = period.start.astimezone(UTC) - timedelta(microseconds=1)
    assert just_before.astimezone(now.tzinfo).date() < day_of(day)


@pytest.mark.parametrize(("typed", "meant"), [
    ("what did I do yesteday", "what did I do yesterday"),
    ("what happened on wendesday?", "what happened on wednesday?"),
    ("что я делал вчеар", "что я делал вчера"), ("что было в четвег", "что было в четверг"),
    ('що було у п"ятницю', "що було у п'ятницю"), ("що було у п ятницю", "що було у п'ятницю"),
    ("що я робив у вівторк", "що я робив у вівторок"),
])  # fmt: skip
def test_a_typo_of_one_letter_names_the_same_days(typed: str, meant: str) -> None:
    assert read_time(typed, NOW).periods == read_time(meant, NOW).periods != ()


@pytest.mark.parametrize("text", [
    "a sundae with Augusta", "завтрак с Серёжей", "парта и карта", "где мой март", "середина",
])  # fmt: skip
def test_another_word_is_no_typo(text: str) -> None:
    assert mended(text) == text


def test_today_is_the_day_of_the_user() -> None:
    moment = datetime(2025, 11, 22, 23, 30, tzinfo=UTC)
    kyiv = read_time("today", local_time(moment, "Europe/Kyiv")).periods[0]
    new_york = read_time("today", local_time(moment, "America/New_York")).periods[0]
    assert (kyiv.start.day, new_york.start.day) == (23, 22)
    assert kyiv.start.utcoffset() == timedelta(hours=2)


@pytest.mark.parametrize(("text", "now", "start"), [
    ("вчера", "2026-01-01", "2025-12-31"), ("завтра", "2026-12-31", "2027-01-01"),
    ("last week", "2026-01-01", "2025-12-22"), ("на этой неделе", "2026-01-01", "2025-12-29"),
    ("в прошлом месяце", "2026-01-31", "2025-12-01"), ("a month ago", "2026-03-31", "2026-02-01"),
    ("через месяц", "2026-01-31", "2026-02-01"), ("год назад", "2028-02-29", "2027-01-01"),
    ("в декабре", "2026-01-15", "2025-12-01"), ("last winter", "2026-02-10", "2024-12-01"),
    ("этой зимой", "2026-02-10", "2025-12-01"), ("29 февраля", "2028-02-29", "2028-02-29"),
    ("29 лютого", "2103-01-10", "2096-02-29"), ("on Monday", "2026-11-23", "2026-11-16"),
    ("на выходных", "2026-11-25", "2026-11-21"),
    ("с ноября по январь", "2026-03-10", "2025-11-01"), ("31 числа", "2026-03-10", "2026-01-31"),
])  # fmt: skip
def test_boundaries_of_years_and_months(text: str, now: str, start: str) -> None:
    at_night = midnight(now) + timedelta(hours=23, minutes=59)
    assert read_time(text, at_night).periods[0].start == midnight(start)


# Facts with the dates that stand beside their words; without them, they are as they were said.
FACTS = """
в пт (27 ноября 2026) в 7 кино
через 2 нед (6 декабря 2026) переезд
moved here 2 yrs ago (2024)
Учора (21 листопада 2026) купив машину, він щасливий
I bought a car yesterday (21 November 2026).
Today (22 November 2026) is my birthday
послезавтра (24 ноября 2026) суд
с завтрашнего дня (23 ноября 2026) на диете
завтра вечером (23 ноября 2026) концерт
Tomorrow evening (23 November 2026) I sing
tonight (22 November 2026) I cook
этим утром (22 ноября 2026) бегал
прошлой ночью (21 ноября 2026) не спал
цього вечора (22 листопада 2026) йду в кіно
на следующей неделе (23–29 ноября 2026) отпуск
На наступному тижні (23–29 листопада 2026) іспит
Наступного тижня (23–29 листопада 2026) їду до Львова
In two weeks (6 December 2026) I am moving
два дні тому (20 листопада 2026) захворів
год назад (2025) женился
I fell two days before last Friday (20 November 2026)
через час (22 ноября 2026) встреча
последние три дня (19–22 ноября 2026) болит голова
my head has hurt for the last three days (19–22 November 2026)
в прошлую пятницу (20 ноября 2026) концерт
last Friday (20 November 2026): a concert
the meeting is Friday (27 November 2026) at 5pm
on Monday last week (9 November 2026) I fell
в прошлом месяце (октябрь 2026) переехал
минулого місяця (жовтень 2026) переїхав
к следующему месяцу (декабрь 2026) допишу
в этом году (2026) заканчиваю учёбу
торік (2025) народився син Іван
in March last year (March 2025) I moved
до конца года (2026) сдам на права
прошлым летом (июнь – август 2026) был в Грузии
прошлой зимой (декабрь 2025 – февраль 2026) катался
next summer (June – August 2027) we go to Spain
на выходных (21–22 ноября 2026) едем в Одессу
минулих вихідних (14–15 листопада 2026) їздив
this weekend (21–22 November 2026) we hike
5 числа прошлого месяца (5 октября 2026)
booked a haircut for friday (27 November 2026)
I'm free on Saturday (28 November 2026), not on Friday
в пятницу (27 ноября 2026) иду к врачу, записалась вчера (21 ноября 2026)
завтрашний (23 ноября 2026) экзамен перенесли
с завтра (23 ноября 2026) по пятницу (27 ноября 2026) в отпуске
завтра (23 ноября 2026) экзамен, а через пару недель отпуск
"""


@pytest.mark.parametrize("resolved", FACTS.strip().splitlines())
def test_a_relative_date_becomes_absolute_once(resolved: str) -> None:
    said = re.sub(r" \([^)]*\d{4}\)", "", resolved)
    assert said != resolved
    assert resolve_dates(said, NOW) == resolve_dates(resolved, NOW) == resolved


@pytest.mark.parametrize("text", [
    "Сын родился 5 марта 2020 года", "мамин день рождения 5 марта", "In March I was in Rome",
    "в марте у меня отпуск", "летом люблю плавать", "скоро еду в отпуск", "недавно купил машину",
    "I am busy now, soon free", "иногда бегаю", "every Friday I swim",
    "обычно в пятницу хожу в бассейн", "зазвичай на вихідних сплю",
    "работаю с понедельника по пятницу", "I work from Monday to Friday",
    "My favourite day is Friday", "по пятницам бассейн", "зарплата 5 числа",
    "I learned it in three days", "за последние несколько лет похудел", "встреча в 2027-03-05",
    "люблю  чай\nи кофе", "",
])  # fmt: skip
def test_what_is_not_relative_stays(text: str) -> None:
    assert resolve_dates(text, NOW) == text


@pytest.mark.parametrize("text", [
    "через пару недель экзамен", "через кілька днів іспит", "in a few days I leave",
    "несколько дней назад заболел", "2-3 дня назад заболел", "послепослезавтра",
    "післяпіслязавтра", "на днях купил велосипед", "цими днями їду", "the other day I met Anna",
    "больше года назад", "almost a year ago", "на следующий день уехал", "9999 лет назад",
    "несколько лет назад жил в Риге", "около двух недель назад заболел",
    "завтра " + "очень " * 400,
    "не завтра", "not on Friday", "встреча не в пятницу", "зустріч не у п'ятницю",
    "Кот заболел, к ветеринару в пятницу", "договорились встретиться в пятницу",
    "записалась к врачу в пятницу", "I was supposed to fly on Friday",
    "сестра приїхала, свято у суботу", "I heard the concert is on Friday",
])  # fmt: skip
def test_a_day_that_cannot_be_told_for_certain_has_no_date(text: str) -> None:
    assert resolve_dates(text, NOW) == text


def test_a_fact_is_resolved_in_the_zone_of_the_user() -> None:
    moment = datetime(2026, 12, 31, 23, 30, tzinfo=UTC)
    kyiv, new_york = (local_time(moment, zone) for zone in ("Europe/Kyiv", "America/New_York"))
    assert resolve_dates("завтра", kyiv) == "завтра (2 января 2027)"
    assert resolve_dates("tomorrow", new_york) == "tomorrow (1 January 2027)"


@pytest.mark.parametrize(("text", "start", "end"), [
    ("23 ноября 2026 у меня экзамен", "2026-11-23", "2026-11-24"),
    ("завтра (23 ноября 2026) экзамен", "2026-11-23", "2026-11-24"),
    ("conference on 3 May", "2027-05-03", "2027-05-04"),
    ("в октябре 2026 переехал", "2026-10-01", "2026-11-01"),
    ("зимой 2025-2026 годов катался", "2025-12-01", "2026-03-01"),
    ("на выходных едем на дачу", "2026-11-21", "2026-11-23"),
    ("5 марта свадьба", "2027-03-05", "2027-03-06"),
    ("5 марта была свадьба", "2026-03-05", "2026-03-06"),
    ("купил билеты, 5 марта едем в Рим", "2027-03-05", "2027-03-06"),
    ("in May we will go to Rome", "2027-05-01", "2027-06-01"),
    ("до пятницы я в Риге", "2026-11-22", "2026-11-28"),
    ("from 3 to 5 May we are in Rome", "2027-05-03", "2027-05-06"),
    ("с марта 2025 живёт в Риге", "2025-03-01", None),
    ("день рождения мамы 5 марта", "2027-03-05", None),
    ("my birthday is on 3 May", "2027-05-03", None),
])  # fmt: skip
def test_when_an_event_holds(text: str, start: str, end: str | None) -> None:
    expected = Validity(midnight(start), None if end is None else midnight(end))
    assert when_valid(text, NOW, is_event=True) == expected


@pytest.mark.parametrize(("text", "end"), [
    ("до пятницы я в Риге", "2026-11-28"), ("I am in Riga until Friday", "2026-11-28"),
    ("у відпустці до 5 грудня", "2026-12-06"), ("с 3 по 5 мая живу у мамы", "2027-05-06"),
    ("I stay with mum from 3 May to 5 May", "2027-05-06"), ("завтра экзамен", None),
    ("с пятницы на диете", None), ("живу в Риге с 2020 года", None),
])  # fmt: skip
def test_another_fact_ends_only_with_an_end_in_words(text: str, end: str | None) -> None:
    expected = Validity(None, None if end is None else midnight(end))
    assert when_valid(text, NOW, is_event=False) == expected


@pytest.mark.parametrize("text", [
    "люблю чай", "каждую пятницу бассейн", "usually on Friday I swim",
    "I work from Monday to Friday", "My favourite day is Friday", "недавно переехал",
    "31 июня 2026", "встреча не в пятницу", "записалась к врачу в пятницу",
    "несколько лет назад жил в Риге", "",
])  # fmt: skip
def test_a_fact_without_a_certain_time_has_no_period(text: str) -> None:
    assert when_valid(text, NOW, is_event=True) == Validity()


WORDS = """
    завтра вчера через три дня недели 5 мая марта 2026 2025 в на с по до between and from to
    last next this week month year monday of the in a couple ago days назад тому тиждень минулого
    n'est п’ятницю 05.03.2026 2026-03-05 31 29 февраля лютого - — , . ? 's выходных summer зимой
    99999999999 0 00 полгода несколько последние years 9999
"""
TEXTS = st.text(max_size=300) | st.lists(st.sampled_from(WORDS.split()), max_size=40).map(" ".join)


@for_random(TEXTS, few=100, many=300)
def test_no_text_breaks_it(text: str) -> None:
    query = read_time(text, NOW)
    assert all(period.start < period.end for period in query.periods)
    assert all(period.start.tzinfo is KYIV for period in query.periods)
    resolve_dates(text, NOW)
    when_valid(text, NOW, is_event=True)


@for_random(TEXTS, few=100, many=300)
def test_spans_lie_in_the_text_one_after_the_other(text: str) -> None:
    source = tidy(text)
    folded = fold(source)
    assert len(folded) == len(source)
    position = 0
    for span in find_spans(folded):
        assert position <= span.start < span.end <= len(source)
        position = (span.to or span).end


@pytest.mark.parametrize("now", ["0001-01-01", "9999-12-31"])
def test_the_ends_of_the_calendar_do_not_break_it(now: str) -> None:
    moment = datetime.combine(day_of(now), datetime.min.time(), tzinfo=UTC)
    for text in ("вчера", "завтра", "last week", "next year", "год назад", "in 3 weeks", "зимой"):
        assert len(read_time(text, moment).periods) <= 1
        resolve_dates(text, moment)


def calls_in(work: Callable[[], object]) -> int:
    """How many functions it calls: what it costs, the same on every machine."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_only_the_beginning_of_a_huge_text_is_read() -> None:
    text = "слово " * 1000 + "вчера"
    assert read_time(text, NOW).periods == ()
    assert len(read_time(text, NOW).content) <= MAX_TEXT


def test_a_text_with_time_costs_little() -> None:
    text = "Что я говорил о работе на прошлой неделе, 5 марта и с марта по май 2025?"
    read_time(text, NOW)
    assert calls_in(partial(read_time, text, NOW)) < 5_000


def test_a_unit_of_another_language_is_resolved_all_the_same() -> None:
    said_at = datetime(2026, 11, 22, 12, tzinfo=ZoneInfo("Europe/Kyiv"))
    assert resolve_dates("прошлый month", said_at) == "прошлый month (октябрь 2026)"
