"""Whose clock: a user's zone told in words, offered, named, asked for, and that of a reminder."""

from __future__ import annotations

import pytest

from src.base.zones import local_time, place_of_zone
from src.reading.requests import home_zones, told_zone
from src.reminders.reminder_repo import ReminderRepository
from src.texts import LANGUAGES, Language, say
from tests.fakes.openai_server import Reply
from tests.integration.phone import USER, Phone, buttons, labels
from tests.languages import WRITTEN

TOLD = {
    "Europe/Kyiv": "мой часовой пояс Киев; Мій часовий пояс — Київ; у меня киевское время; "
    "у мене київський час; Часовой пояс: Киев; живу за київським часом; my timezone is Kiev; "
    "жартую) мій часовий пояс Київ",
    "America/New_York": "я в Нью-Йорке по времени; I'm on New York time; "
    "I am in the EST time zone; set my timezone to New York; я в нью-йорке по времени!",
    "Europe/Prague": "мій час — Прага; мое время — Прага; поставь часовой пояс Прага; "
    "у меня время как в Праге; use Prague time; постав часовий пояс Прага",
    "Europe/London": "живу по лондонскому времени; переведи часы на Лондон; "
    "btw i'm on london time now; haha kidding. my time zone is London 🌧",
    "Europe/Warsaw": "ну так мой часовой пояс Варшава; в мене часовий пояс Польща; "
    "час тепер варшавський",
    "America/Toronto": "my time zone is London, Ontario; мой часовой пояс Лондон, Онтарио",
    "Asia/Yerevan": "мой часовой пояс Армения; живу по времени Армении",
    "Europe/Lisbon": "can you set my timezone to lisbon?; use lisbon time from now on; "
    "можешь поставить часовой пояс Лиссабон?; my tz is lisbon not madrid; "
    "im in lisbon now, clock is local",
    "Europe/Istanbul": "so yeah my time zone is Istanbul",
    "Europe/Berlin": "My timezone is CET",
    "Europe/Samara": "мой часовой пояс не Москва, а Самара",
    "Europe/Dublin": "my time zone isn't London, it's Dublin",
    "Asia/Tbilisi": "я в тбилиси с весны, время у меня местное; время тбилисское; живу по тбилиси",
    "Asia/Tashkent": "я по ташкентскому времени живу",
    "Asia/Omsk": "слушай, я по омску живу",
    "Europe/Riga": "переведи годинник на Ригу",
    "Etc/GMT+5": "i'm on utc-5; utc-5; у меня UTC -5",
    "Etc/GMT-3": "мой часовой пояс +3; my time is GMT+3",
}
NOT_TOLD = [
    "моё время пришло", "my time is up", "У меня мало времени", "я в Киеве", "время в Праге?",
    "какой у меня часовой пояс?", "I had a good time in Paris", "мій час минув", "",
    "мой часовой пояс не Москва", "my time zone isn't London", "мій пояс не Київ",
    "my time is 2 hours ahead of London", "поменяй время созвона с берлином",
    "я в Киеве, ставь чайник", "живу по расписанию",
    "время детское", "я в магазине, время местное",
    "change the time of the flight to Paris", "i'm in Paris, change of plans",
    "переведи деньги в Киев",
]  # fmt: skip
HOMES = {
    "Europe/Prague": "я живу в Праге; Переехала в Прагу; живу у Празі; I live in Prague now",
    "Europe/Lisbon": "moved to Lisbon; I just moved to Lisbon; мы переехали в Лиссабон",
    "America/Chicago": "we moved to Birmingham, Alabama; i live in springfield, illinois",
    "Europe/Warsaw": "переїхала до Варшави; тепер мешкаю у Варшаві; "
    "ми з Харкова переїхали до Варшави",
    "Asia/Yekaterinburg": "привет, мы неделю как переехали из питера в екат",
    "Europe/Berlin": "im living in berlin these days; we moved from Rome to Berlin last month",
}
NO_HOMES = ["живу на даче", "переехала в комнату 306 там тихо", "I live in a small flat",
            "Аня переехала в Прагу", "я живу в Праге?",
            "я не живу в Праге", "i dont live in prague", "I used to live in Rome"]  # fmt: skip
# Who asks, and the zone and the text of what is set; NOW is theirs.
NAMED = {
    "/remind завтра о 9 по Києву подзвонити мамі": ("Europe/Kyiv", "подзвонити мамі"),
    "/remind tomorrow at 9 (London time) to call Luc": ("Europe/London", "call Luc"),
    "/remind tomorrow at 9am EST to call mum": ("America/New_York", "call mum"),
    "/remind завтра в 9 мск позвонить": ("Europe/Moscow", "позвонить"),
    "/remind завтра в 9 по нью-йоркскому времени позвонить": ("America/New_York", "позвонить"),
    "/remind every day at 9 Lisbon time to stretch": ("Europe/Lisbon", "stretch"),
    "/remind завтра погулять по Лиссабону в 9": ("Asia/Tokyo", "погулять по Лиссабону"),
    "/remind завтра в 9 по плану позвонить": ("Asia/Tokyo", "по плану позвонить"),
    "/remind tomorrow at 9 london, ontario time to call Jim": ("America/Toronto", "call Jim"),
    "/remind tomorrow at 9 local time to call Jim": ("Asia/Tokyo", "call Jim"),
    "/remind tomorrow at 9 tea time to bake": ("Asia/Tokyo", "tea time to bake"),
}


def zone_of(phone: Phone) -> str | None:
    return phone.rig.core.user_settings.get(USER).time_zone


def hours(phone: Phone) -> list[tuple[str, int, str]]:
    """Zone, hour there and text of each reminder that waits."""
    rows = ReminderRepository(phone.rig.client).list_waiting(phone.owner, limit=9)
    return [
        (zone, local_time(one.due_at, zone).hour, one.text)
        for one in rows
        for zone in [(one.repeats.zone if one.repeats else "") or one.time_zone]
    ]


@pytest.mark.parametrize("zone", TOLD)
def test_a_zone_is_read_in_words(zone: str) -> None:
    for text in TOLD[zone].split("; "):
        told = told_zone(text)
        assert told is not None and told.zones[:1] == (zone,), text


@pytest.mark.parametrize(("text", "rest"), [
    ("haha kidding. my time zone is London", ""), ("жартую) мій часовий пояс Київ", ""),
    ("Привет! Мой часовой пояс Киев", ""), ("мой часовой пояс Киев, отмени напоминание",
     "отмени напоминание"),
])  # fmt: skip
def test_what_else_a_message_with_a_zone_wants_is_answered(text: str, rest: str) -> None:
    told = told_zone(text)
    assert told is not None and told.rest == rest


@pytest.mark.parametrize("zone", HOMES)
def test_a_home_is_read_in_words(zone: str) -> None:
    for text in HOMES[zone].split("; "):
        assert home_zones(text) == [zone], text


def test_other_words_tell_neither_a_zone_nor_a_home() -> None:
    assert [text for text in NOT_TOLD if told_zone(text) is not None] == []
    assert [text for text in NO_HOMES if home_zones(text)] == []


@pytest.mark.parametrize(("language", "zone"), [
    ("uk", "Europe/Kyiv"), ("ru", "Europe/Moscow"), ("en", "Europe/Moscow"),
])  # fmt: skip
async def test_the_first_reminder_names_the_zone_and_the_second_does_not(
    phone: Phone, language: Language, zone: str
) -> None:
    words = {
        "uk": "завтра о 9 подзвонити",
        "ru": "завтра в 9 позвонить",
        "en": "tomorrow at 9 call",
    }
    await phone.write(f"/remind {words[language]}", language_code=language)
    assert place_of_zone(zone, language) in phone.last.text
    assert say("zone_not_mine", language) in labels(phone.last)
    assert hours(phone)[0][:2] == (zone, 9) and zone_of(phone) == zone
    await phone.write(f"/remind {words[language]} 2", language_code=language)
    assert say("zone_not_mine", language) not in labels(phone.last)


@pytest.mark.parametrize("words", [
    "завтра в 9 по времени Нарнии позвонить", "tomorrow at 9 mordor time to call",
    "завтра о 9 за нарнійським часом подзвонити",
])  # fmt: skip
async def test_at_the_hour_of_no_place_no_reminder_is_set(phone: Phone, words: str) -> None:
    await phone.write(f"/remind {words}")
    assert phone.last.text in {say("reminder_no_zone", one) for one in WRITTEN}
    assert hours(phone) == []


async def test_a_zone_told_right_behind_a_named_guess_moves_what_was_set_by_it(
    phone: Phone,
) -> None:
    order = {"text": "чай", "when": "завтра в 5 утра"}
    phone.rig.model.queue(Reply(tool_calls=[("set_reminder", order)]), "Напомню.")
    await phone.write("напомни завтра в 5 утра чай")
    await phone.write("живу по омску если чо")
    assert hours(phone) == [("Asia/Omsk", 5, "чай")]
    await phone.write("im on UTC-6")
    assert hours(phone) == [("Etc/GMT+6", 17, "чай")], "Omsk was no guess"


async def test_not_my_time_leads_to_cities_and_on_to_a_place(phone: Phone) -> None:
    await phone.write("/remind завтра в 9 позвонить")
    await phone.tap(say("zone_not_mine", "ru"))
    assert "Екатеринбург" in labels(phone.last)
    await phone.tap("Екатеринбург")
    assert zone_of(phone) == "Asia/Yekaterinburg"
    assert hours(phone) == [("Asia/Yekaterinburg", 9, "позвонить")], "it was meant by their clock"
    assert say("zone_moved", "ru", count=1) in phone.last.text
    await phone.write("/start")
    assert buttons(phone.last) == [], "it knows already"


async def test_start_asks_with_one_line_of_buttons(phone: Phone) -> None:
    await phone.write("/start")
    assert say("zone_start", "ru") in phone.last.text
    assert len(buttons(phone.last)) == 1 and len(labels(phone.last)) == 4
    await phone.tap(say("zone_other", "ru"))
    await phone.write("Kiev")
    assert zone_of(phone) == "Europe/Kyiv" and phone.rig.model.requests == []


async def test_the_first_answer_about_the_time_names_the_zone(phone: Phone) -> None:
    phone.rig.model.queue("12:05.", "12:06.")
    await phone.write("Который час?")
    assert "Москва" in phone.last.text and say("zone_not_mine", "ru") in labels(phone.last)
    await phone.write("Который час?")
    assert "Москва" not in phone.last.text and zone_of(phone) == "Europe/Moscow"


async def test_a_zone_told_holds_without_a_model_and_moves_what_recurs(phone: Phone) -> None:
    await phone.write("/remind every day at 9 to stretch")
    await phone.write("/remind every day at 9 London time to call")
    await phone.write("мой часовой пояс Токио")
    assert zone_of(phone) == "Asia/Tokyo" and phone.rig.model.requests == []
    assert say("zone_moved", "ru", count=1) in phone.last.text
    found = {text: (zone, hour) for zone, hour, text in hours(phone)}
    assert found == {"stretch": ("Asia/Tokyo", 9), "call": ("Europe/London", 9)}


@pytest.mark.parametrize(("told", "key", "named"), [
    ("мой часовой пояс Канада", "zone_which", "Торонто"),
    ("мой часовой пояс Нарния", "zone_unknown", "ладно, тогда Торонто"),
])  # fmt: skip
async def test_the_place_that_was_asked_for_is_taken_in_words(
    phone: Phone, told: str, key: str, named: str
) -> None:
    await phone.write(told)
    assert phone.last.text.startswith(say(key, "ru")) and zone_of(phone) is None
    await phone.write(named)
    assert zone_of(phone) == "America/Toronto" and phone.rig.model.requests == []


async def test_a_model_sets_the_zone_and_names_one_for_a_reminder(phone: Phone) -> None:
    order = {"text": "call", "when": "2036-01-05T09:00", "time_zone": "London"}
    phone.rig.model.queue(
        Reply(tool_calls=[("set_time_zone", {"place": "Токио"})]),
        Reply(tool_calls=[("set_reminder", order)]),
        "Готово.",
    )
    await phone.write("Вообще-то у нас тут Токио, часы ваши отстают")
    assert zone_of(phone) == "Asia/Tokyo" and hours(phone) == [("Europe/London", 9, "call")]
    unknown = Reply(tool_calls=[("set_time_zone", {"place": "Нарния"})])
    phone.rig.model.queue(unknown, "Не знаю такого.")
    await phone.write("А теперь мы в Нарнии, часы ваши отстают")
    assert zone_of(phone) == "Asia/Tokyo"


@pytest.mark.parametrize(("said", "language", "zone"), [
    ("я живу в Праге", "ru", "Europe/Prague"), ("moved to Lisbon", "en", "Europe/Lisbon"),
    ("переїхала до Варшави", "uk", "Europe/Warsaw"),
])  # fmt: skip
async def test_a_home_offers_its_zone_with_one_tap(
    phone: Phone, said: str, language: Language, zone: str
) -> None:
    phone.rig.model.queue("OK.")
    await phone.write(said, language_code=language)
    answer = phone.last
    await phone.tap(place_of_zone(zone, language))
    assert zone_of(phone) == zone and answer.text.startswith("OK.")
    phone.rig.model.queue("OK.")
    await phone.write(said, language_code=language)
    assert labels(phone.last) == []


@pytest.mark.parametrize("text", NAMED)
async def test_a_zone_named_in_a_reminder_holds_for_that_one(phone: Phone, text: str) -> None:
    phone.rig.core.user_settings.change(USER, time_zone="Asia/Tokyo")
    phone.rig.client.execute("DELETE FROM reminders")
    await phone.write(text)
    zone, what = NAMED[text]
    assert hours(phone) == [(zone, 9, what)] and zone_of(phone) == "Asia/Tokyo"
    places = [place_of_zone(zone, language) for language in LANGUAGES]
    assert any(place in phone.last.text for place in places) == (zone != "Asia/Tokyo")


async def test_what_is_no_city_is_answered_as_ever(phone: Phone) -> None:
    await phone.write("/settings")
    await phone.tap(say("settings_zone", "ru"))
    phone.rig.model.queue("Кот Барсик.", "Прага.")
    await phone.write("как зовут моего кота?")
    assert phone.last.text == "Кот Барсик."
    await phone.write("Прага")
    assert zone_of(phone) is None and phone.last.text == "Прага."


async def test_of_two_cities_of_one_name_one_is_tapped(phone: Phone) -> None:
    for said in ("/settings Springfield", "мой часовой пояс Спрингфилд"):
        await phone.write(said)
        assert say("zone_which", "ru") in phone.last.text
        assert any("Чикаго" in label for label in labels(phone.last))
        assert "America" not in "".join(labels(phone.last))
    await phone.tap("Чикаго")
    assert zone_of(phone) == "America/Chicago" and phone.rig.model.requests == []


async def test_what_follows_a_zone_in_a_message_goes_by_it(phone: Phone) -> None:
    reminder = {"text": "позвонить", "when": "2036-01-05T09:00"}
    phone.rig.model.queue(Reply(tool_calls=[("set_reminder", reminder)]), "Напомню.")
    await phone.write("Я в Токио по времени, напомни 5 января 2036 в 9 позвонить")
    assert hours(phone) == [("Asia/Tokyo", 9, "позвонить")] and "Токио" in phone.last.text
