"""Cities of the time zones, as people write them, and questions for the time there."""

from __future__ import annotations

from src.base.zone_names import find_time_zone
from src.reading.requests import asked_place, describe_time
from src.texts import Language
from tests.cases import for_each

CITIES = {
    "Asia/Tokyo": "Токио Токіо Tokyo ТОКИО токио",
    "Europe/London": "Лондон Лондоне Лондоні Лондона London",
    "America/New_York": "Нью-Йорке Нью-Йорку Нью-Йорк нью-йорке",
    "Europe/Kyiv": "Киеве Києві Києва Киев Kyiv Kiev киеве",
    "Europe/Warsaw": "Варшаве Варшаві Варшаву Warsaw",
    "Europe/Prague": "Праге Празі Прагу Prague",
    "Europe/Vienna": "Вене Відні Vienna",
    "Europe/Athens": "Афинах Афінах Афины Athens",
    "Europe/Chisinau": "Кишинёве Кишиневе Кишиневі",
    "Europe/Helsinki": "Хельсинки Гельсінкі",
    "Asia/Yerevan": "Ереване Єревані",
    "Asia/Seoul": "Сеуле Сеулі",
    "Asia/Kolkata": "Калькутте Kolkata Calcutta",
    "Asia/Jerusalem": "Иерусалиме Єрусалимі",
    "America/Mexico_City": "Мехико Мехіко",
}
NAMES = {
    "New York": "America/New_York",
    "São Paulo": "America/Sao_Paulo",
    "Ho Chi Minh City": "Asia/Ho_Chi_Minh",
    "St. John’s": "America/St_Johns",
    "UTC": "UTC",
    " городе Лондоне, пожалуйста ": "Europe/London",
}
# Other words, and what looks like a city and is none.
UNKNOWN = """
Марсе Мухосранске Мордоре Гадюкино
пути работе школе отпуске поезде Japanistan Narnia morning Mars/Olympus 🙂 ' /
"""


@for_each("zone", CITIES)
def test_a_city_is_known_in_every_form(zone: str) -> None:
    forms = CITIES[zone].split()
    assert {form: find_time_zone(form) for form in forms} == dict.fromkeys(forms, zone)


@for_each("name", NAMES)
def test_a_name_of_several_words_is_known(name: str) -> None:
    assert find_time_zone(name) == NAMES[name]


@for_each("name", ["", "   ", "a" * 10_000, "в " * 5_000, *UNKNOWN.split()])
def test_what_is_no_city_of_a_zone_is_not_guessed(name: str) -> None:
    assert find_time_zone(name) is None


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


@for_each("text", ASKED)
def test_a_question_for_the_time_names_its_place(text: str) -> None:
    assert asked_place(text) == ASKED[text]


@for_each("text", OTHER)
def test_other_questions_about_time_are_not_taken_for_it(text: str) -> None:
    assert asked_place(text) is None


@for_each(("language", "expected"), [
    ("ru", "01:38, понедельник, 23 ноября (Токио, UTC+09:00)"),
    ("uk", "01:38, понеділок, 23 листопада (Токіо, UTC+09:00)"),
    ("en", "01:38, Monday, 23 November (Tokyo, UTC+09:00)"),
])  # fmt: skip
def test_the_time_is_told_in_the_user_s_language(language: Language, expected: str) -> None:
    assert describe_time("2026-11-23 01:38, Monday (Asia/Tokyo, UTC+0900)", language) == expected
    assert describe_time("midnight", language) == ""
