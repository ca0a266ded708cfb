"""Edited messages: history, memory and the answer follow the new words."""

from __future__ import annotations

import pytest

from src.base.errors import ModelUnavailableError
from src.texts import LANGUAGES, Language, say
from tests.fakes.openai_server import Reply
from tests.integration.phone import STRANGER, USER, Phone, buttons


def saving(city: str, *then: str) -> list[Reply | str]:
    text = f"Я живу в городе {city}"
    fact = {"text": text, "quote": text, "subject": "user", "relation": "lives_in",
            "object": city, "importance": 7}  # fmt: skip
    return [Reply(tool_calls=[("save_user_fact", fact)]), *then]


async def tell(phone: Phone, city: str) -> int:
    phone.rig.model.queue(*saving(city, f"Понятно, {city}"))
    return await phone.write(f"Я живу в городе {city}")


async def edit(phone: Phone, message: int, text: str) -> list[str]:
    await phone.fake.edit_text(USER, message, text)
    return await phone.work()


async def test_the_last_answer_is_replaced_in_place_with_its_buttons(phone: Phone) -> None:
    asked = await tell(phone, "Киев")
    answer = phone.last
    phone.rig.model.queue(*saving("Краков", "Понятно, Краков"))
    assert await edit(phone, asked, "Я живу в городе Краков") == ["done"]
    assert phone.fake.sent_to(USER) == [answer], "no second message"
    assert answer.text.startswith("Понятно, Краков")
    assert phone.facts() == ["Я живу в городе Краков"]
    assert [content for role, content in phone.rig.stored(USER) if role != "system"][1:] == [
        "Понятно, Краков"
    ]
    await phone.tap(say("undo_saved_button", "ru"), under=answer)
    assert phone.facts() == []


async def test_what_the_old_words_had_replaced_holds_again(phone: Phone) -> None:
    await tell(phone, "Одесса")
    asked = await tell(phone, "Киев")
    assert phone.facts() == ["Я живу в городе Киев"]
    phone.rig.model.queue("Хорошо.")
    await edit(phone, asked, "Я никуда не переезжаю")
    assert phone.facts() == ["Я живу в городе Одесса"]
    retired = phone.rig.rows("SELECT text, retired_reason FROM memories WHERE retired_at NOTNULL")
    assert retired == [("Я живу в городе Киев", "edited")]


async def test_a_fact_that_is_still_said_stays_and_told_back_it_is_new(phone: Phone) -> None:
    asked = await tell(phone, "Киев")
    phone.rig.model.queue("Хорошо.", "Хорошо.", *saving("Киев", "Снова Киев"))
    await edit(phone, asked, "Я живу в городе Киев, и у меня кот")
    assert phone.facts() == ["Я живу в городе Киев"]
    await edit(phone, asked, "Пошутил")
    assert phone.facts() == []
    await edit(phone, asked, "Я живу в городе Киев")
    assert phone.facts() == ["Я живу в городе Киев"]


async def test_an_older_message_is_corrected_silently(phone: Phone) -> None:
    asked = await tell(phone, "Киев")
    phone.rig.model.queue("Погода хорошая.")
    await phone.write("Как погода?")
    before, calls = len(phone.fake.sent_to(USER)), len(phone.rig.model.requests)
    assert await edit(phone, asked, "Я живу в городе Краков") == ["done"]
    assert len(phone.fake.sent_to(USER)) == before and phone.facts() == []
    assert len(phone.rig.model.requests) == calls
    phone.rig.model.queue("Понял.")
    await phone.write("А завтра?")
    asked_now = str(phone.rig.model.requests[-1].messages)
    assert "Краков" in asked_now and "городе Киев" not in asked_now


async def test_an_older_message_is_read_for_facts_again(phone: Phone) -> None:
    asked = await tell(phone, "Киев")
    phone.rig.model.queue("Погода хорошая.")
    await phone.write("Как погода?")
    phone.rig.client.execute("UPDATE conversations SET extracted_position = 100")
    await edit(phone, asked, "Мою собаку зовут Рекс")
    fact = {"text": "Мою собаку зовут Рекс", "quote": "Мою собаку зовут Рекс",
            "relation": "has_pet", "object": "Рекс", "subject": "user"}  # fmt: skip
    phone.rig.model.queue(Reply(tool_calls=[("ExtractedFacts", {"facts": [fact]})]))
    await phone.rig.core.memory.digest.read_parting()
    assert phone.facts() == ["Мою собаку зовут Рекс"]


async def test_an_edit_without_new_words_does_nothing(phone: Phone) -> None:
    asked = await tell(phone, "Киев")
    assert await edit(phone, asked, "Я живу в городе Киев") == ["ignored"]
    assert phone.facts() == ["Я живу в городе Киев"] and len(phone.rig.model.requests) == 2


async def test_a_message_that_is_not_kept_cannot_be_edited(phone: Phone) -> None:
    asked = await tell(phone, "Киев")
    await phone.write("/new")
    assert await edit(phone, asked, "Я живу в городе Краков") == ["ignored"]
    assert phone.rig.stored(USER) == []


async def test_the_words_that_a_file_gets_later_are_answered(phone: Phone) -> None:
    voice = {"file_id": "v", "file_unique_id": "v", "duration": 3}
    sent = await phone.fake.send_message(USER, voice=voice)
    assert await phone.work() == ["explained"], "nothing hears it here"
    edited = phone.fake.state.messages[USER, sent] | {"caption": "Мне завтра к врачу"}
    phone.fake.queue.add("edited_message", edited)
    assert await phone.work() == ["done"]
    assert phone.heard()[-1] == ("typed", "Мне завтра к врачу")


@pytest.mark.parametrize(("caption", "asked"), [
    ("До какого срока?", "До какого срока?"), ("/remember договор с Олей", "договор с Олей"),
])  # fmt: skip
async def test_the_first_caption_of_a_file_that_was_read_is_answered(
    phone: Phone, caption: str, asked: str
) -> None:
    phone.fake.state.files["f"] = "Аренда до мая".encode()
    file = {"file_id": "f", "file_unique_id": "f", "file_name": "a.txt"}
    sent = await phone.fake.send_message(USER, document=file)
    assert await phone.work() == ["done"]
    for words in (caption, f"{caption}!"):
        edited = phone.fake.state.messages[USER, sent] | {"caption": words}
        phone.fake.queue.add("edited_message", edited)
        assert await phone.work() == ["done"]
    assert phone.heard() == [("file", "Аренда до мая"), ("typed", f"{asked}!")]
    assert len(phone.fake.sent_to(USER)) == 2, "the second caption is answered in place"


async def test_what_was_to_be_remembered_is_corrected_by_an_edit(phone: Phone) -> None:
    asked = await phone.write("/remember Ключи у соседки")
    answer = phone.last
    await edit(phone, asked, "/remember Ключи у консьержа")
    assert phone.facts() == ["Ключи у консьержа"]
    assert answer.text == say("taught_new", "ru", text="Ключи у консьержа")
    assert phone.rig.model.requests == [] and len(buttons(answer)) == 1


async def test_the_rest_of_a_long_answer_goes(phone: Phone) -> None:
    phone.rig.model.queue("слово " * 1500, "Коротко.")
    asked = await phone.write("Расскажи подробно")
    first, *rest = phone.fake.sent_to(USER)
    assert rest
    await edit(phone, asked, "Расскажи коротко")
    assert first.text == "Коротко." and all(message.deleted for message in rest)


async def test_after_a_crash_the_edited_message_is_answered_all_the_same(phone: Phone) -> None:
    asked = await phone.write("раз")
    answer = phone.last
    phone.rig.model.queue(Reply(status=503))
    with pytest.raises(ModelUnavailableError):
        await edit(phone, asked, "два")
    assert phone.rig.stored(USER)[0][1].endswith("два") and answer.text.endswith("раз")
    phone.rig.model.queue("два сказано")
    assert await phone.work() == ["done"]  # the queue tries again
    assert answer.text == "два сказано" and phone.fake.sent_to(USER) == [answer]


async def test_nobody_edits_the_words_of_another(phone: Phone) -> None:
    asked = await tell(phone, "Киев")
    forged = {
        "message_id": asked, "date": 1, "edit_date": 2, "text": "взломано",
        "chat": {"id": STRANGER, "type": "private"},
        "from": {"id": STRANGER, "is_bot": False, "first_name": "x"},
    }  # fmt: skip
    await phone.fake.push_raw({"update_id": 7000, "edited_message": forged})
    assert await phone.work() == ["done"], "it is a message of theirs"
    assert phone.facts() == ["Я живу в городе Киев"]


@pytest.mark.parametrize(("before", "after"), [
    ("помощь", "/help"), ("/stop", "как дела?"), ("/new", "/help"), ("привет", "/new"),
])  # fmt: skip
async def test_an_edit_runs_no_command_and_says_so(phone: Phone, before: str, after: str) -> None:
    asked = await phone.write(before)
    assert await edit(phone, asked, after) == ["explained"]
    assert phone.last.text == say("command_edited", "ru")
    assert len(phone.heard()) == (not before.startswith("/"))


@pytest.mark.parametrize("language", LANGUAGES)
async def test_an_edit_of_a_command_says_that_it_changes_nothing(
    phone: Phone, language: Language
) -> None:
    phone.rig.core.user_settings.change(USER, language=language)
    asked = await phone.write("/remind завтра в 9 полить цветы")
    for words in ("/remind завтра в 10 полить фикус", "полей фикус"):
        assert await edit(phone, asked, words) == ["explained"]
        assert phone.last.text == say("command_edited", language)
    assert phone.rig.rows("SELECT text FROM reminders") == [("полить цветы",)]
