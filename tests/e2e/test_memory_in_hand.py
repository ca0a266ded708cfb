"""A person with his memory in hand, in Ukrainian: the whole bot as a process, and its death."""

from __future__ import annotations

from src.texts import say
from tests.e2e.bot_process import World
from tests.fakes.openai_server import Reply
from tests.fakes.telegram_types import SentMessage

USER = 2**41 + 11
TEXT = "Мій брат живе в Одесі"


def data_of(message: SentMessage, key: str) -> str:
    """The data of the button with a label of the texts."""
    rows = (message.reply_markup or {})["inline_keyboard"]
    [data] = [b["callback_data"] for row in rows for b in row if b["text"] == say(key, "uk")]
    return str(data)


async def write(world: World, text: str, count: int, **fields: int) -> SentMessage:
    """Write, and wait for the message that makes ``count`` of the bot's."""
    await world.telegram.send_text(USER, text, language_code="uk", **fields)  # type: ignore[arg-type]
    await world.telegram.wait_sent(USER, count)
    await world.settled()
    return world.telegram.sent_to(USER)[-1]


async def press(world: World, message: SentMessage, data: str) -> None:
    await world.telegram.press_button(USER, message.message_id, data)
    await world.telegram.wait_for(lambda: not world.telegram.pending_updates)
    await world.settled()


def facts(world: World) -> list[str]:
    sql = (
        "SELECT text FROM memories WHERE telegram_user_id = %s AND retired_at IS NULL ORDER BY id"
    )
    return [text for (text,) in world.query(sql, USER)]


async def test_a_memory_is_taught_seen_corrected_forgotten_and_brought_back(world: World) -> None:
    await world.start()
    taught = await write(world, f"/remember {TEXT}", 1)
    assert taught.text == say("taught_new", "uk", text=TEXT) and facts(world) == [TEXT]
    listed = await write(world, "/memory", 2)
    assert TEXT in listed.text and listed.text.startswith(say("memory_title", "uk", count=1))
    await press(
        world, listed, (listed.reply_markup or {})["inline_keyboard"][0][0]["callback_data"]
    )
    assert listed.text.startswith(TEXT), "the card stands where the list stood"
    await press(world, listed, data_of(listed, "correct_button"))
    question = world.telegram.sent_to(USER)[-1]
    right = "Мій брат живе в Києві"
    corrected = await write(world, right, 4, reply_to=question.message_id)
    assert corrected.text == say("taught_update", "uk", text=right, old=TEXT)
    forgotten = await write(world, "/forget про брата", 5)
    assert forgotten.text == say("forgot", "uk", text=right) and facts(world) == []
    await press(world, forgotten, data_of(forgotten, "undo_forgot_button"))
    assert facts(world) == [right]
    assert world.model.requests == [], "no model was asked for any of it"


async def test_what_is_to_be_remembered_survives_the_death_of_the_bot(world: World) -> None:
    bot = await world.start()
    world.telegram.hang_next("sendMessage")
    await world.telegram.send_text(USER, f"/remember {TEXT}", language_code="uk")
    await world.telegram.wait_for(lambda: world.telegram.calls_of("sendMessage"))
    await bot.kill()
    await world.start()
    await world.telegram.wait_sent(USER)
    await world.settled()
    assert facts(world) == [TEXT]
    assert world.answers(USER)[-1] == say("taught_new", "uk", text=TEXT)
    await press(world, world.telegram.sent_to(USER)[-1],
                data_of(world.telegram.sent_to(USER)[-1], "undo_saved_button"))  # fmt: skip
    assert facts(world) == [], "the buttons came again, too"


async def test_what_a_turn_saved_stands_under_its_answer_also_after_a_death(world: World) -> None:
    bot = await world.start()
    call = {"text": TEXT, "quote": TEXT, "subject": "brother", "relation": "lives_in",
            "object": "Одеса", "importance": 7}  # fmt: skip
    world.model.queue(Reply(tool_calls=[("save_user_fact", call)]), "Гарне місто!")
    world.telegram.hang_next("sendMessage")
    await world.telegram.send_text(USER, TEXT, language_code="uk")
    await world.telegram.wait_for(lambda: world.telegram.calls_of("sendMessage"))
    await bot.kill()
    await world.start()
    await world.telegram.wait_sent(USER)
    await world.settled()
    answer = world.telegram.sent_to(USER)[-1]
    note = say("note_saved", "uk", text=TEXT)
    assert answer.text == f"Гарне місто!\n\n{note}"
    assert [entity["type"] for entity in answer.entities] == ["blockquote"]
    assert world.history(USER)[1] == ("assistant", "Гарне місто!"), "the model sees none of it"
    await press(world, answer, data_of(answer, "undo_saved_button"))
    assert facts(world) == []


async def test_a_picture_survives_the_death_of_the_bot_and_is_looked_at_once(world: World) -> None:
    bot = await world.start()
    world.telegram.state.files["photo"] = b"\xff\xd8\xff\xe0 a house"
    photo = [{"file_id": "photo", "file_unique_id": "p", "width": 9, "height": 9}]
    seen = "Будинок із червоним дахом."
    world.model.queue(seen, "Гарний дім!")
    world.telegram.hang_next("sendMessage")
    await world.telegram.send_message(
        USER, photo=photo, caption="Це мій новий дім", language_code="uk"
    )
    await world.telegram.wait_for(lambda: world.telegram.calls_of("sendMessage"))
    await bot.kill()
    await world.start()
    await world.telegram.wait_sent(USER)
    await world.settled()
    assert world.answers(USER) == ["Гарний дім!"] and len(world.model.requests) == 2
    assert [text for role, text in world.history(USER) if role == "user"] == [
        seen, "Це мій новий дім",
    ]  # fmt: skip
    assert "Будинок" not in bot.logs()
