"""/settings: what a user chooses, and that it is so from then on."""

from __future__ import annotations

import pytest

from src.base.zones import first_zone, place_of_zone
from src.memory.prompts import LENGTHS as LENGTH_WISHES
from src.talk.settings import CHOICES, LENGTHS
from src.texts import Language, say
from tests.fakes.openai_server import Reply
from tests.fakes.telegram_people import Sender
from tests.fakes.telegram_types import SentMessage
from tests.integration.phone import STRANGER, USER, Phone, buttons
from tests.languages import WRITTEN

GROUP = -1_001_234_567_892
NAMES = {"ru": "Русский", "uk": "Українська", "en": "English"}


async def open_choice(phone: Phone, key: str, language: Language = "ru") -> SentMessage:
    await phone.write("/settings", language_code=language)
    return await phone.tap(say(key, language))


@pytest.mark.parametrize("language", WRITTEN)
async def test_the_page_names_every_choice_and_the_time(phone: Phone, language: Language) -> None:
    await phone.write("/settings", language_code=language)
    text = phone.last.text
    assert text.startswith(say("settings_title", language)) and NAMES[language] in text
    zone = first_zone(language, "Europe/Moscow")
    assert place_of_zone(zone, language) in text and len(buttons(phone.last)) == len(CHOICES)


@pytest.mark.parametrize(("off", "on", "language"), [
    ("выключи память", "Включи память!", "ru"), ("вимкни пам’ять", "увімкни пам'ять", "uk"),
    ("please turn memory off", "Turn your memory back on", "en"),
])  # fmt: skip
async def test_memory_is_switched_in_words_without_a_model(
    phone: Phone, off: str, on: str, language: Language
) -> None:
    for said, is_on, switch in ((off, False, "off"), (on, True, "on")):
        await phone.write(said, language_code=language)
        assert phone.last.text == say(f"memory_switched_{switch}", language)
        assert phone.rig.core.user_settings.get(USER).memory_on is is_on
    assert phone.rig.model.requests == []


async def test_a_question_for_the_zone_is_known_by_its_place_not_by_its_words(
    phone: Phone,
) -> None:
    await open_choice(phone, "settings_zone")
    question = phone.last
    phone.rig.model.queue(f"{question.text} Да?", "Хорошо.")
    await phone.write("Повтори вопрос, пожалуйста")
    await phone.write("Рига", reply_to=phone.last.message_id)
    assert phone.last.text == "Хорошо."
    await phone.write("Рига", reply_to=question.message_id)
    assert place_of_zone("Europe/Riga", "ru") in phone.last.text
    assert len(phone.rig.model.requests) == 2


async def test_a_zone_is_set_by_a_place_and_rules_from_then_on(phone: Phone) -> None:
    await open_choice(phone, "settings_zone")
    place = {"latitude": 38.72, "longitude": -9.14}
    await phone.send(location=place, reply_to=phone.last.message_id)
    assert "Лиссабон" in phone.last.text
    await phone.write("Который час?")
    [(content,)] = phone.rig.rows("SELECT content FROM messages WHERE role = 'user'")
    [(local,)] = phone.rig.rows(
        "SELECT to_char(said_at AT TIME ZONE 'Europe/Lisbon', 'YYYY-MM-DD HH24:MI')"
        " FROM messages WHERE role = 'user'"
    )
    assert local in content


@pytest.mark.parametrize("said", ["Нарния", "?", "x" * 4000, "+99"])
async def test_an_unknown_place_is_asked_for_again(phone: Phone, said: str) -> None:
    await open_choice(phone, "settings_zone")
    await phone.write(said, reply_to=phone.last.message_id)
    assert say("zone_unknown", "ru") in phone.last.text
    await phone.write("Рига", reply_to=phone.last.message_id)
    assert "Рига" in phone.last.text


@pytest.mark.parametrize("length", LENGTHS)
async def test_the_length_of_answers_is_told_to_the_model(phone: Phone, length: str) -> None:
    screen = await open_choice(phone, "settings_length")
    await phone.tap(say(f"length_{length}", "ru"), under=screen)
    await phone.write("Привет")
    told = str(phone.rig.model.requests[-1].messages)
    assert [wish for name, wish in LENGTH_WISHES.items() if wish in told] == [
        LENGTH_WISHES[name] for name in LENGTH_WISHES if name == length
    ]


async def test_without_memory_nothing_is_kept_nor_recalled(phone: Phone) -> None:
    text = "Я живу в городе Киев"
    fact = {"text": text, "quote": text, "subject": "user", "relation": "lives_in",
            "object": "Киев", "importance": 9}  # fmt: skip
    phone.rig.model.queue(Reply(tool_calls=[("save_user_fact", fact)]), "Понял.")
    await phone.write(text)
    screen = await open_choice(phone, "settings_remembering")
    await phone.tap(say("remembering_off", "ru"), under=screen)
    phone.rig.core.conversations.create_new_conversation(USER)
    pet = {"text": "Мою собаку зовут Рекс", "quote": "Мою собаку зовут Рекс"}
    phone.rig.model.queue(Reply(tool_calls=[("save_user_fact", pet)]), "Ага.")
    await phone.write("Мою собаку зовут Рекс, а живу я где?")
    assert phone.facts() == [text]
    asked = [str(request.messages) for request in phone.rig.model.requests[-2:]]
    assert not any("городе Киев" in messages for messages in asked)
    assert '"reason": "memory_off"' in asked[-1].replace("\\", "")
    conversation = phone.rig.conversation(USER)
    phone.rig.client.execute("UPDATE messages SET created_at = now() - interval '1 day'")
    calls = len(phone.rig.model.requests)
    await phone.rig.core.memory.digest.digest_turn(conversation)
    assert len(phone.rig.model.requests) == calls, "it is not read for facts"
    await phone.tap(say("settings_remembering", "ru"), under=screen)
    await phone.tap(say("remembering_on", "ru"), under=screen)
    await phone.rig.core.memory.digest.digest_turn(conversation)
    assert len(phone.rig.model.requests) == calls, "nor later, when it is on again"


async def test_in_strict_mode_too(phone: Phone) -> None:
    phone.rig.core.user_settings.change(USER, memory_on=False)
    phone.rig.core.user_settings.change(USER, mode="strict")
    taught = {"intent": "teach", "facts": [{"text": "Я люблю чай", "quote": "Я люблю чай"}]}
    phone.rig.model.queue(Reply(tool_calls=[("Understanding", taught)]))
    await phone.write("Я люблю чай")
    assert phone.last.text == say("refused_memory_off", "ru") and phone.facts() == []


async def test_in_a_group_admins_choose_for_all(phone: Phone) -> None:
    phone.place = Sender(chat_id=GROUP, chat_type="supergroup")
    await phone.write("/settings")
    assert phone.told == say("only_admins", "ru")
    phone.fake.state.admins[GROUP] = {USER}
    await phone.write("/settings")
    screen = phone.last
    await phone.fake.press_button(STRANGER, screen.message_id, "language:2", chat_id=GROUP)
    await phone.work()
    assert phone.told == say("only_admins", "ru")
    await phone.press("language:2", under=screen)
    assert screen.text.startswith(say("settings_title", "en"))
