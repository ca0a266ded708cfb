"""Time zones by the names that people give them in the settings."""

from __future__ import annotations

import pytest
import pytz
from hypothesis import given, settings
from hypothesis import strategies as st

from src.base.zones import TABLE, find_time_zones
from src.reading.requests import asked_place, describe_time
from src.texts import Language

CITIES = {
    "Europe/Moscow": "Сочи, Москва, в Москве, в Нижнем Новгороде, Ростове-на-Дону, "
    "Ростов-на-Дону, Санкт-Петербурге, "
    "питер, спб, Казань, из Казани, Краснодаре, Туле, я живу в Сочи, Sochi",
    "Europe/Kyiv": "Київ, Львові, у Львові, "
    "в Киеве, Kyiv, Kiev, Києві, Львів, во Львове, Lviv, Харків, в Харькове, "
    "Харкові, Дніпро, у Дніпрі, в Днепре, Запоріжжі, Івано-Франківську, Одеса, в Одессе",
    "Asia/Yekaterinburg": "Пермь, в Перми, Уфа, в Уфе, Екатеринбург, Челябинске",
    "Asia/Tbilisi": "Батуми, Batumi, Тбилиси, в Тбилиси",
    "America/Sao_Paulo": "São Paulo, Sao Paulo, Сан-Паулу",
    "Asia/Makassar": "Бали, на Бали, на Балі, Bali, Денпасар",
    "Asia/Nicosia": "Кипр, на Кипре, на Кіпрі, Cyprus",
    "Atlantic/Canary": "на Тенерифе, Tenerife",
    "Asia/Colombo": "на Шри-Ланке, Sri Lanka",
    "Europe/Warsaw": "Варшаве, Краків, в Кракове, Польща, у Польщі, польським часом",
    "America/Toronto": "London Ontario, Лондон Онтарио",
    "Asia/Irkutsk": "Иркутск Россия",
    "Asia/Tokyo": "Япония, по японскому, японським часом",
}
NAMES = {
    "+3": "Etc/GMT-3", "-4": "Etc/GMT+4", "+0": "Etc/UTC", "GMT-4": "Etc/GMT+4",
    "UTC+3": "Etc/GMT-3", "utc +3": "Etc/GMT-3", "UTC+05:30": "Asia/Kolkata",
    "+5:45": "Asia/Kathmandu", "+14": "Etc/GMT-14", "−5": "Etc/GMT+5", "мск": "Europe/Moscow",
    "МСК+2": "Etc/GMT-5", "msk-1": "Etc/GMT-2", "московское время": "Europe/Moscow",
    "по киевскому времени": "Europe/Kyiv", "Europe/Kyiv": "Europe/Kyiv", "UTC": "UTC",
    "europe/kyiv": "Europe/Kyiv", "America/New York": "America/New_York", "+3 часа": "Etc/GMT-3",
    "к\u200bи\u200bе\u200bв": "Europe/Kyiv", "Pacific Time": "America/Los_Angeles",
    "Central European Summer Time": "Europe/Berlin", "Berlin time": "Europe/Berlin",
    "Odessa": "Europe/Kyiv", "Kharkov": "Europe/Kyiv", "St. Petersburg": "Europe/Moscow",
    "St Petersburg": "Europe/Moscow", "Odessa, Texas": "America/Chicago",
}  # fmt: skip
UNKNOWN = [
    "", " ", "+15", "+99", "+3:17", "мск+5:30", "Мордор", "а" * 100_000, "+" * 100_000,
    "- " * 50_000, "9", "Mars/Olympus", "Atlantic Time", "\u202e", "٣+",
]  # fmt: skip


@pytest.mark.parametrize("zone", CITIES)
def test_a_city_is_known_in_three_languages_and_in_any_case(zone: str) -> None:
    names = CITIES[zone].split(", ")
    found = {name: find_time_zones(name)[:1] for name in names}
    assert found == {name: [zone] for name in names}


@pytest.mark.parametrize("name", NAMES)
def test_an_offset_and_a_name_of_the_database_are_known(name: str) -> None:
    assert find_time_zones(name) == [NAMES[name]]


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_names_no_zone_is_not_guessed(name: str) -> None:
    assert find_time_zones(name) == []


def test_a_form_of_one_name_is_not_the_form_of_another() -> None:
    assert find_time_zones("Львові") == ["Europe/Kyiv"]


def test_of_cities_of_one_name_all_zones_are_offered() -> None:
    assert set(find_time_zones("Springfield")) == {
        "America/Chicago", "America/New_York", "America/Los_Angeles",
    }  # fmt: skip
    assert find_time_zones("London") == ["Europe/London"]  # the one in Ontario is much smaller


def test_every_zone_of_the_table_is_one_of_the_database() -> None:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    zones = {zone for line in lines for zone in line.partition("\t")[0].split()}
    assert len(zones) > 250 and zones <= pytz.all_timezones_set


@pytest.mark.parametrize("tries", [20, pytest.param(1_000, marks=pytest.mark.proof)])
def test_no_text_breaks_it(tries: int) -> None:
    @given(st.text(max_size=120))
    @settings(max_examples=tries, deadline=None)
    def check(text: str) -> None:
        found = find_time_zones(text)
        assert len(found) <= 5 and set(found) <= pytz.all_timezones_set

    check()


ASKED = {
    "Сколько времени в Токио?": "Токио",
    "Который час в Нью-Йорке?": "Нью-Йорке",
    "Который сейчас час в Париже, пожалуйста?": "Париже",
    "Скажи, сколько времени сейчас в Праге": "Праге",
    "Сколько времени в Гадюкино?": "Гадюкино",
    "Котра година в Токіо?": "Токіо",
    "Котра зараз година у Варшаві?": "Варшаві",
    "Яка година у Відні?": "Відні",
    "What time is it now in New York?": "New York",
    "what's the time in london": "london",
    "Do you know what time it is in Paris?": "Paris",
    "Tell me the time in Berlin please": "Berlin",
    "Time in Mordor?": "Mordor",
    "Сколько времени?": "",
    "What time is it?": "",
    "Какой сегодня день недели?": "",
    "What day is it today?": "",
    "what time is it for me": "",
    "скока времени у меня": "",
    "котра година в мене": "",
    "шо по часу": "",
}
OTHER = [
    "Сколько времени лететь в Токио?", "Сколько времени в пути?", "Скільки часу у мене є?",
    "Во сколько у меня встреча?", "What time is my flight to Tokyo?", "What time do I get up?",
    "Какой день недели был 5 мая?", "Время", "В какое время я встаю?",
    "Я был в Токио. Там хорошее время.", "I had a good time in Paris", "Какое время года в Токио?",
    "How much time is left?", "сколько времени в " + "а" * 500, "",
]  # fmt: skip


@pytest.mark.parametrize("text", ASKED)
def test_a_question_for_the_time_names_its_place(text: str) -> None:
    assert asked_place(text) == ASKED[text]


@pytest.mark.parametrize("text", OTHER)
def test_other_questions_about_time_are_not_taken_for_it(text: str) -> None:
    assert asked_place(text) is None


@pytest.mark.parametrize(("language", "expected"), [
    ("ru", "01:38, понедельник, 23 ноября (Токио, UTC+09:00)"),
    ("uk", "01:38, понеділок, 23 листопада (Токіо, UTC+09:00)"),
    ("en", "01:38, Monday, 23 November (Tokyo, UTC+09:00)"),
])  # fmt: skip
def test_the_time_is_told_in_the_user_s_language(language: Language, expected: str) -> None:
    assert describe_time("2026-11-23 01:38, Monday (Asia/Tokyo, UTC+0900)", language) == expected
    assert describe_time("midnight", language) == ""
