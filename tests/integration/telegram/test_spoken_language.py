"""The language of the bot's own sentences: chosen, else spoken, else that of the phone."""

from __future__ import annotations

import pytest

from src.texts import Language, say
from tests.fakes.telegram_people import Sender
from tests.integration.phone import USER, Phone

UKRAINIAN, RUSSIAN = "Де лежить мій паспорт?", "Где лежит мой паспорт?"
ENGLISH = "Where did I put my passport?"
GROUP = -1_001_234_567_899
pytestmark = pytest.mark.core(llm_model="offline")


async def write(phone: Phone, text: str, code: str | None) -> str:
    await phone.write(text, language_code=code)
    return phone.last.text


LANGUAGE_OF: dict[str, Language] = {UKRAINIAN: "uk", RUSSIAN: "ru", ENGLISH: "en"}


@pytest.mark.parametrize("code", ["ru", "uk", "en", "de", None])
async def test_a_strict_bot_answers_in_the_language_of_the_message(
    phone: Phone, code: str | None
) -> None:
    await write(phone, "/mode strict", code)
    for text, language in LANGUAGE_OF.items():
        assert await write(phone, text, code) == say("strict_unknown", language)


async def test_commands_and_short_words_keep_the_language_spoken_before(phone: Phone) -> None:
    await write(phone, UKRAINIAN, "ru")
    assert await write(phone, "/summary nonsense", "ru") != ""
    assert await write(phone, "/stop", "ru") == say("stop_nothing", "uk")
    await write(phone, "ok", "ru")
    await write(phone, "спасибо", "ru")
    assert await write(phone, "/stop", "ru") == say("stop_nothing", "uk")
    await write(phone, "/remind завтра в 9 позвонить маме, если не забуду", "ru")
    assert await write(phone, "/stop", "ru") == say("stop_nothing", "ru")


@pytest.mark.parametrize("text", ["Купил хлеб", "Где ключи?", "отмени напоминание про хлеб"])
async def test_a_few_words_of_a_dictionary_turn_the_language_back(phone: Phone, text: str) -> None:
    await write(phone, UKRAINIAN, "ru")
    await write(phone, text, "ru")
    assert await write(phone, "/stop", "ru") == say("stop_nothing", "ru")


async def test_a_chosen_language_stays_whatever_is_written(phone: Phone) -> None:
    phone.rig.core.user_settings.change(USER, language="en")
    for text in (UKRAINIAN, RUSSIAN):
        await write(phone, text, "ru")
        assert await write(phone, "/stop", "ru") == say("stop_nothing", "en")


async def test_words_of_others_are_no_sign(phone: Phone) -> None:
    origin = {"type": "hidden_user", "sender_user_name": "Ann", "date": 1_700_000_000}
    await phone.send(text=ENGLISH, forward_origin=origin)
    assert await write(phone, "/stop", "ru") == say("stop_nothing", "ru")


async def test_without_a_code_a_first_word_decides(phone: Phone) -> None:
    await write(phone, "Привет", None)
    assert await write(phone, "/stop", None) == say("stop_nothing", "en"), "one word is not kept"
    await write(phone, "Я живу в Москве", None)
    assert await write(phone, "/stop", None) == say("stop_nothing", "ru")


@pytest.mark.parametrize(("text", "language"), [
    ("купила молоко та яйця", "uk"), ("дай номер майстра", "uk"), ("додай: взяти паспорт", "uk"),
    ("купила молоко", "ru"), ("дай номер мастера", "ru"),
])  # fmt: skip
async def test_a_first_line_is_answered_in_the_language_that_alone_has_its_words(
    phone: Phone, text: str, language: Language
) -> None:
    told = await write(phone, text, None)
    assert told.partition("\n")[0] in {
        say(key, language) for key in ("offline_noted", "offline_unknown", "offline_unsure")
    }


async def test_the_clock_does_not_move_with_the_language(phone: Phone) -> None:
    for text in (RUSSIAN, UKRAINIAN, ENGLISH):
        await write(phone, text, "ru")
        caller = phone.rig.core.caller(phone.owner, phone.rig.core.user_settings.get(USER), "ru")
        assert caller.time_zone == "Europe/Moscow"
    phone.rig.core.user_settings.change(USER, language="uk")
    chosen = phone.rig.core.user_settings.get(USER)
    assert phone.rig.core.caller(phone.owner, chosen, "ru").time_zone == "Europe/Moscow"
    assert phone.rig.core.caller(phone.owner, chosen, "uk").time_zone == "Europe/Kyiv"


async def test_a_group_has_one_clock_whoever_writes(phone: Phone) -> None:
    phone.place = Sender(chat_id=GROUP, chat_type="supergroup")
    core = phone.rig.core
    zones = {core.caller(phone.owner, core.user_settings.get(GROUP), code).time_zone
             for code in ("ru", "uk", "en", None)}  # fmt: skip
    assert zones == {"Europe/Moscow"}
