"""What comes again: on the clock of a zone, across its changes; its text; its words."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given
from hypothesis import strategies as st

from src.base.zones import first_moment, local_time, zone_at
from src.reading.recurrences import Recurrence, next_after
from src.reminders.reminder_service import describe_reminder_time
from src.texts import LANGUAGES, Language
from tests.cases import for_random

ZONES = [
    "UTC", "Europe/Moscow", "Europe/Kyiv", "Europe/Lisbon", "America/New_York", "Asia/Kathmandu",
    "Australia/Lord_Howe", "Pacific/Apia", "America/Havana", "Africa/Casablanca", "Asia/Beirut",
]  # fmt: skip
EPOCH = datetime(2010, 1, 1, tzinfo=UTC)
MONDAY = date(2026, 11, 23)
NOW = datetime(2026, 11, 23, 7, tzinfo=UTC)  # ten in the morning in Moscow
MOSCOW = "Europe/Moscow"
END = datetime.fromisoformat("2026-11-30T23:59:59")

MOMENTS = st.integers(0, 25 * 365 * 86_400).map(lambda n: EPOCH + timedelta(seconds=n))
HOURS = st.sets(st.integers(0, 23), min_size=1, max_size=4).map(lambda s: tuple(sorted(s)))
WEEKDAYS = st.sets(st.integers(0, 6), min_size=1).map(lambda s: tuple(sorted(s)))
DAYS = st.dates(date(2009, 1, 1), date(2036, 1, 1))
LENGTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


@st.composite
def recurrences(draw: st.DrawFn) -> Recurrence:
    frequency = draw(st.sampled_from(["daily", "weekly", "monthly", "yearly"]))
    interval = draw(st.sampled_from([1, 1, 1, 2, 3]))
    month = draw(st.integers(1, 12)) if frequency == "yearly" else 0
    last = LENGTHS[month - 1] if month else 31
    return Recurrence(
        frequency,
        draw(HOURS),
        draw(st.integers(0, 59)),
        weekdays=draw(WEEKDAYS) if frequency == "weekly" else (),
        day=draw(st.integers(1, last)) if frequency in ("monthly", "yearly") else 0,
        month=month,
        interval=interval,
        start=draw(DAYS) if interval > 1 else None,
    )


@for_random(recurrences(), MOMENTS, st.sampled_from(ZONES), few=100, many=300)
def test_the_next_time_is_later_and_shown_by_the_clock(
    recurrence: Recurrence, moment: datetime, zone: str
) -> None:
    found = next_after(recurrence, moment, zone)
    assert found > moment and found.utcoffset() == timedelta()
    local = local_time(found, zone)
    on_time = (local.hour in recurrence.hours, local.minute) == (True, recurrence.minute)
    before = local_time(found - timedelta(microseconds=1), zone)
    assert on_time or local.utcoffset() != before.utcoffset()  # it fell into a gap


@given(recurrences())
def test_the_text_is_read_back(recurrence: Recurrence) -> None:
    assert Recurrence.from_text(recurrence.to_text()) == recurrence


@pytest.mark.parametrize(("recurrence", "text"), [
    (Recurrence("weekly", (8,), weekdays=(0, 2)), "FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=8;BYMINUTE=0"),
    (Recurrence("daily", (9, 21), 30), "FREQ=DAILY;BYHOUR=9,21;BYMINUTE=30"),
    (Recurrence("monthly", (9,), day=5), "FREQ=MONTHLY;BYMONTHDAY=5;BYHOUR=9;BYMINUTE=0"),
    (
        Recurrence("monthly", (9, 21), day=31),
        "FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYHOUR=9,21;BYMINUTE=0;BYSETPOS=-2,-1",
    ),
    (
        Recurrence("yearly", (9,), day=8, month=3),
        "FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=8;BYHOUR=9;BYMINUTE=0",
    ),
    (
        Recurrence("daily", (8,), interval=2, start=MONDAY),
        "DTSTART:20261123T080000\nRRULE:FREQ=DAILY;INTERVAL=2;BYHOUR=8;BYMINUTE=0",
    ),
    (
        Recurrence("monthly", (9,), weekdays=(0,), nth=(1, 3)),
        "FREQ=MONTHLY;BYDAY=1MO,3MO;BYHOUR=9;BYMINUTE=0",
    ),
    (
        Recurrence("weekly", (9,), weekdays=(0,), until=END.replace(month=12, day=5)),
        "FREQ=WEEKLY;UNTIL=20261205T235959;BYDAY=MO;BYHOUR=9;BYMINUTE=0",
    ),
    (
        Recurrence("daily", (9,), skips=(END,)),
        "FREQ=DAILY;BYHOUR=9;BYMINUTE=0\nEXDATE:20261130T235959",
    ),
])  # fmt: skip
def test_the_text_is_a_rule_of_the_standard(recurrence: Recurrence, text: str) -> None:
    assert recurrence.to_text() == text
    assert rrulestr(text, dtstart=datetime.combine(MONDAY, time())) is not None


@pytest.mark.parametrize("text", [
    "", "FREQ=DAILY", "FREQ=SECONDLY;BYHOUR=1;BYMINUTE=0", "FREQ=DAILY;BYHOUR=24;BYMINUTE=0",
    "FREQ=DAILY;BYHOUR=9;BYMINUTE=60", "FREQ=DAILY;BYHOUR=9,9;BYMINUTE=0", "freq=daily",
    "FREQ=DAILY;BYHOUR=9,8;BYMINUTE=0", "FREQ=DAILY;BYHOUR=09;BYMINUTE=0",
    "FREQ=DAILY;INTERVAL=2;BYHOUR=9;BYMINUTE=0", "FREQ=WEEKLY;BYHOUR=9;BYMINUTE=0",
    "FREQ=WEEKLY;BYDAY=XX;BYHOUR=9;BYMINUTE=0", "FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=9;BYMINUTE=0",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=28,29,30;BYHOUR=9;BYMINUTE=0;BYSETPOS=-1",
    "FREQ=MONTHLY;BYDAY=5MO;BYHOUR=9;BYMINUTE=0", "FREQ=WEEKLY;BYDAY=1MO;BYHOUR=9;BYMINUTE=0",
    "FREQ=DAILY;UNTIL=20261205;BYHOUR=9;BYMINUTE=0",
    "FREQ=DAILY;BYHOUR=9;BYMINUTE=0\n", "FREQ=DAILY;BYHOUR=٩;BYMINUTE=0", "x" * 100_000,
    "FREQ=DAILY;BYHOUR=" + "1," * 50_000 + "1;BYMINUTE=0",
    "DTSTART:99999999T080000\nRRULE:FREQ=DAILY;INTERVAL=2;BYHOUR=8;BYMINUTE=0",
    "DTSTART:20261123T080000\nRRULE:FREQ=DAILY;INTERVAL=9999;BYHOUR=8;BYMINUTE=0",
])  # fmt: skip
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Recurrence.from_text(text)


@pytest.mark.parametrize(("zone", "wall", "moment"), [
    ("Europe/Berlin", "2026-03-29T02:30", "2026-03-29T01:00"),  # skipped: right after the gap
    ("Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30"),  # twice: the first
    ("Europe/Berlin", "2026-07-01T02:30", "2026-07-01T00:30"),
    ("Australia/Lord_Howe", "2026-10-04T02:15", "2026-10-03T15:30"),  # half an hour is skipped
    ("Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00"),  # all of the day is
    ("Europe/Moscow", "2014-10-26T01:30", "2014-10-25T21:30"),  # twice, and not for the summer
    ("America/Havana", "2026-03-08T00:30", "2026-03-08T05:00"),  # skipped at midnight
])  # fmt: skip
def test_a_time_that_the_clocks_skip_or_repeat_has_one_moment(
    zone: str, wall: str, moment: str
) -> None:
    found = first_moment(datetime.fromisoformat(wall), zone)
    assert found == datetime.fromisoformat(f"{moment}+00:00")


def test_nine_stays_nine_when_the_clocks_change() -> None:
    nine = Recurrence("daily", (9,))
    for begin in (datetime(2026, 3, 26, 12, tzinfo=UTC), datetime(2026, 10, 22, 12, tzinfo=UTC)):
        moment, offsets = begin, set()
        for _ in range(6):
            moment = next_after(nine, moment, "Europe/Kyiv")
            local = local_time(moment, "Europe/Kyiv")
            offsets.add(local.utcoffset())
            assert (local.hour, local.minute) == (9, 0)
        assert len(offsets) == 2


def test_a_recurrence_ends_when_it_should() -> None:
    three_days = Recurrence("daily", (9,), until=END.replace(month=11, day=25))
    last = next_after(three_days, datetime(2026, 11, 24, 12, tzinfo=UTC), MOSCOW)
    assert last == datetime(2026, 11, 25, 6, tzinfo=UTC)
    with pytest.raises(OverflowError):
        next_after(three_days, last, MOSCOW)


def test_a_time_that_is_left_out_does_not_come() -> None:
    skips = (END.replace(day=24, hour=9, minute=0, second=0),)
    daily = Recurrence("daily", (9,), skips=skips)
    next_one = next_after(daily, datetime(2026, 11, 23, 12, tzinfo=UTC), MOSCOW)
    assert next_one == datetime(2026, 11, 25, 6, tzinfo=UTC)


def test_a_moved_recurrence_takes_its_end_along() -> None:
    until = END.replace(month=11, day=25)
    moved = Recurrence("daily", (9,), until=until, skips=(until,)).shifted_by(
        datetime(2026, 11, 24, 9, tzinfo=UTC), datetime(2026, 11, 26, 9, tzinfo=UTC)
    )
    assert moved.until == END.replace(month=11, day=27)
    assert moved.skips == (moved.until,)


def test_a_recurrence_ends_with_the_calendar() -> None:
    with pytest.raises(OverflowError):
        next_after(Recurrence("daily", (9,)), datetime(9999, 12, 31, 12, tzinfo=UTC), "UTC")


DESCRIBED = [
    (None, "2026-11-23 12:00", "сегодня, 23 ноября, в 12:00", "сьогодні, 23 листопада, о 12:00",
     "today, 23 November, at 12:00"),
    (None, "2026-11-25 11:00", "в среду, 25 ноября, в 11:00", "у середу, 25 листопада, об 11:00",
     "on Wednesday, 25 November, at 11:00"),
    (None, "2027-03-05 10:00", "в пятницу, 5 марта 2027 года, в 10:00",
     "у п’ятницю, 5 березня 2027 року, о 10:00", "on Friday, 5 March 2027, at 10:00"),
    (Recurrence("weekly", (8,), weekdays=(0,)), "2026-11-30 08:00",
     "каждый понедельник в 08:00 (ближайшее: 30 ноября)",
     "щопонеділка о 08:00 (найближче: 30 листопада)",
     "every Monday at 08:00 (next: 30 November)"),
    (Recurrence("weekly", (8,), weekdays=(0, 2, 4)), "2026-11-25 08:00",
     "по понедельникам, средам и пятницам в 08:00 (ближайшее: 25 ноября)",
     "щопонеділка, щосереди і щоп’ятниці о 08:00 (найближче: 25 листопада)",
     "every Monday, Wednesday, and Friday at 08:00 (next: 25 November)"),
    (Recurrence("weekly", (8,), weekdays=(0, 1, 2, 3, 4)), "2026-11-24 08:00",
     "по будням в 08:00 (ближайшее: 24 ноября)", "по буднях о 08:00 (найближче: 24 листопада)",
     "every weekday at 08:00 (next: 24 November)"),
    (Recurrence("weekly", (8,), weekdays=(0,), interval=21, start=MONDAY), "2027-04-19 08:00",
     "раз в 21 неделю, в понедельник в 08:00 (ближайшее: 19 апреля 2027 года)",
     "раз на 21 тиждень, у понеділок о 08:00 (найближче: 19 квітня 2027 року)",
     "every 21 weeks on Monday at 08:00 (next: 19 April 2027)"),
    (Recurrence("daily", (9, 21)), "2026-11-23 21:00",
     "каждый день в 09:00 и 21:00 (ближайшее: 23 ноября в 21:00)",
     "щодня о 09:00 і 21:00 (найближче: 23 листопада о 21:00)",
     "every day at 09:00 and 21:00 (next: 23 November at 21:00)"),
    (Recurrence("daily", tuple(range(24)), 20), "2026-11-23 10:20",
     "каждый час (ближайшее: 23 ноября в 10:20)", "щогодини (найближче: 23 листопада о 10:20)",
     "every hour (next: 23 November at 10:20)"),
    (Recurrence("monthly", (9,), day=2), "2026-12-02 09:00",
     "каждый месяц, 2-го числа в 09:00 (ближайшее: 2 декабря)",
     "щомісяця, 2-го числа о 09:00 (найближче: 2 грудня)",
     "every month on the 2nd at 09:00 (next: 2 December)"),
    (Recurrence("monthly", (9,), day=31), "2026-11-30 09:00",
     "каждый месяц, в последний день в 09:00 (ближайшее: 30 ноября)",
     "щомісяця, останнього дня о 09:00 (найближче: 30 листопада)",
     "every month on the last day at 09:00 (next: 30 November)"),
    (Recurrence("daily", (9,), until=END.replace(month=11, day=30)), "2026-11-24 09:00",
     "каждый день в 09:00, по 30 ноября включительно (ближайшее: 24 ноября)",
     "щодня о 09:00, до 30 листопада включно (найближче: 24 листопада)",
     "every day at 09:00, until 30 November (next: 24 November)"),
    (Recurrence("daily", tuple(range(24)), until=datetime.fromisoformat("2026-11-23T18:00")),
     "2026-11-23 11:00",
     "каждый час, по 23 ноября в 18:00 включительно (ближайшее: 23 ноября в 11:00)",
     "щогодини, до 23 листопада о 18:00 включно (найближче: 23 листопада об 11:00)",
     "every hour, until 23 November at 18:00 (next: 23 November at 11:00)"),
    (Recurrence("monthly", (9,), weekdays=(2,), nth=(1, -1)), "2026-11-25 09:00",
     "каждый месяц, в среду, первую и последнюю в месяце, в 09:00 (ближайшее: 25 ноября)",
     "щомісяця, у середу, першу і останню в місяці, о 09:00 (найближче: 25 листопада)",
     "every month on Wednesday, the first and last in the month, at 09:00 (next: 25 November)"),
    (Recurrence("yearly", (9,), day=5, month=3), "2027-03-05 09:00",
     "каждый год, 5 марта в 09:00 (ближайшее: 5 марта 2027 года)",
     "щороку, 5 березня о 09:00 (найближче: 5 березня 2027 року)",
     "every year on 5 March at 09:00 (next: 5 March 2027)"),
]  # fmt: skip


@pytest.mark.parametrize(("repeats", "when", "ru", "uk", "en"), DESCRIBED)
def test_a_time_is_told_in_three_languages(
    repeats: Recurrence | None, when: str, ru: str, uk: str, en: str
) -> None:
    moment = datetime.fromisoformat(f"{when}+03:00")
    if repeats is not None:
        assert next_after(repeats, NOW, MOSCOW) == moment
    told = {
        language: describe_reminder_time(
            moment, repeats, language=language, time_zone=MOSCOW, now=NOW
        )
        for language in LANGUAGES
    }
    assert told == {"ru": ru, "uk": uk, "en": en}


@for_random(
    recurrences(), MOMENTS, st.sampled_from(LANGUAGES), st.sampled_from(ZONES), few=30, many=100
)
def test_every_recurrence_can_be_told(
    recurrence: Recurrence, moment: datetime, language: Language, zone: str
) -> None:
    when = next_after(recurrence, moment, zone)
    told = describe_reminder_time(when, recurrence, language=language, time_zone=zone, now=moment)
    assert told and "{" not in told and "  " not in told


@pytest.mark.parametrize(("latitude", "longitude", "zone"), [
    (38.72, -9.14, "Europe/Lisbon"), (50.45, 30.52, "Europe/Kyiv"), (43.6, 39.73, MOSCOW),
    (0.0, -30.0, "Etc/GMT+2"), (91.0, 0.0, None), (0.0, 181.0, None), (float("nan"), 0.0, None),
    (0.0, float("inf"), None),
])  # fmt: skip
def test_a_place_has_a_zone(latitude: float, longitude: float, zone: str | None) -> None:
    assert zone_at(latitude, longitude) == zone
