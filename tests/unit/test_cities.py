"""Cities of the time zones, as people write them, and questions for the time there."""

from __future__ import annotations

from src.base.zone_names import find_time_zone
from src.reading.requests import asked_place, describe_time
from src.texts import Language
from tests.cases import for_each

CITIES = {
    "Asia/Tokyo": "Токио Токіо Tokyo ТОКИО токио",
    "Europe/London": "Лондон Лондоне Лондоні Лондона London",
    "Europe/Paris": "Париже Парижі Парижем Paris париж",
    "America/New_York": "Нью-Йорке Нью-Йорку Нью-Йорк нью-йорке",
    "America/Los_Angeles": "Лос-Анджелесе Лос-Анджелесі",
    "Europe/Kyiv": "Киеве Києві Києва Киев Kyiv Kiev киеве",
    "Europe/Moscow": "Москве Москві Москвой Moscow",
    "Europe/Warsaw": "Варшаве Варшаві Варшаву Warsaw",
    "Europe/Berlin": "Берлине Берліні Berlin",
    "Europe/Prague": "Праге Празі Прагу Prague",
    "Europe/Vienna": "Вене Відні Vienna",
    "Europe/Rome": "Риме Римі Rome",
    "Europe/Madrid": "Мадриде Мадриді",
    "Europe/Lisbon": "Лиссабоне Лісабоні Lisbon",
    "Europe/Athens": "Афинах Афінах Афины Athens",
    "Europe/Riga": "Риге Ризі",
    "Europe/Vilnius": "Вильнюсе Вільнюсі",
    "Europe/Tallinn": "Таллине Таллінні",
    "Europe/Minsk": "Минске Мінську",
    "Europe/Chisinau": "Кишинёве Кишиневе Кишиневі",
    "Europe/Bucharest": "Бухаресте Бухаресті",
    "Europe/Helsinki": "Хельсинки Гельсінкі",
    "Europe/Istanbul": "Стамбуле Стамбулі",
    "Atlantic/Reykjavik": "Рейкьявике Reykjavik",
    "Asia/Tbilisi": "Тбилиси Тбілісі",
    "Asia/Yerevan": "Ереване Єревані",
    "Asia/Dubai": "Дубае Дубаї",
    "Asia/Tashkent": "Ташкенте Ташкенті",
    "Asia/Almaty": "Алматы Almaty",
    "Asia/Yekaterinburg": "Екатеринбурге Екатеринбурга",
    "Asia/Novosibirsk": "Новосибирске",
    "Asia/Vladivostok": "Владивостоке Владивостоку",
    "Asia/Seoul": "Сеуле Сеулі",
    "Asia/Shanghai": "Шанхае Шанхаї",
    "Asia/Kolkata": "Калькутте Kolkata Calcutta",
    "Asia/Kathmandu": "Катманду Kathmandu",
    "Asia/Singapore": "Сингапуре Сінгапурі",
    "Asia/Bangkok": "Бангкоке Бангкоку",
    "Asia/Jerusalem": "Иерусалиме Єрусалимі",
    "Australia/Sydney": "Сиднее Сіднеї Sydney",
    "Africa/Cairo": "Каире Каїрі",
    "Africa/Nairobi": "Найроби",
    "America/Toronto": "Торонто Toronto",
    "America/Chicago": "Чикаго Chicago",
    "America/Havana": "Гаване Гавані",
    "America/Mexico_City": "Мехико Мехіко",
}
NAMES = {
    "New York": "America/New_York",
    "Buenos Aires": "America/Argentina/Buenos_Aires",
    "São Paulo": "America/Sao_Paulo",
    "Port of Spain": "America/Port_of_Spain",
    "Ho Chi Minh City": "Asia/Ho_Chi_Minh",
    "St. John’s": "America/St_Johns",
    "Asia/Tokyo": "Asia/Tokyo",
    "europe/kyiv": "Europe/Kyiv",
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
    "сколько сейчас времени в лондоне": "лондоне",
    "Который час в Нью-Йорке?": "Нью-Йорке",
    "Который сейчас час в Париже, пожалуйста?": "Париже",
    "А в Берлине сколько времени?": "Берлине",
    "Какое сейчас время в Риме?": "Риме",
    "Скажи, сколько времени сейчас в Праге": "Праге",
    "Привет! Сколько времени в Варшаве сейчас?": "Варшаве",
    "Время в Токио": "Токио",
    "Сколько времени в Гадюкино?": "Гадюкино",
    "Котра година в Токіо?": "Токіо",
    "Котра зараз година у Варшаві?": "Варшаві",
    "Скільки зараз часу в Лондоні?": "Лондоні",
    "Яка година у Відні?": "Відні",
    "А у Києві котра година?": "Києві",
    "What time is it in Tokyo?": "Tokyo",
    "What time is it now in New York?": "New York",
    "what's the time in london": "london",
    "What is the current time in São Paulo?": "São Paulo",
    "Do you know what time it is in Paris?": "Paris",
    "Tell me the time in Berlin please": "Berlin",
    "Time in Mordor?": "Mordor",
    "Который час?": "",
    "Сколько времени?": "",
    "Котра зараз година?": "",
    "What time is it?": "",
    "Какой сегодня день недели?": "",
    "какое сегодня число": "",
    "Який сьогодні день?": "",
    "What day is it today?": "",
    "what's today's date?": "",
    "what's the time": "",
    "what time is it for me": "",
    "скока времени у меня": "",
    "сколько у меня щас времени": "",
    "котра година в мене": "",
    "шо по часу": "",
}
OTHER = [
    "Сколько времени лететь в Токио?", "Сколько времени я провёл в пути?",
    "Сколько времени в пути?", "Сколько времени в сутках?", "Скільки часу у мене є?",
    "Во сколько у меня встреча?", "What time is my flight to Tokyo?", "What time do I get up?",
    "Какой день недели был 5 мая?", "Какое число отмечено?", "What day is my appointment?",
    "Время", "В какое время я встаю?", "Я был в Токио. Там хорошее время.", "Время лечит",
    "I had a good time in Paris", "Какое время года в Токио?", "How much time is left?",
    "сколько времени в " + "а" * 500, "",
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
