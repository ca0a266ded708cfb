"""A language that begins with its code and one sentence: everything else is said in English."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from src.texts import say
from tests.e2e.bot_process import World
from tests.e2e.nursery import ROOT

CODE, SENTENCE = "xx", "Nothing to stop, in a language that nobody speaks."  # CLDR lacks it too
USER = 2**41 + 9601
# What is said in the language of this Telegram, and a part of the answer.
TALK = {
    "/start": say("start", "en"),
    "/stop": SENTENCE,
    "/settings": say("settings_title", "en"),
    "/help": say("help_new", "en"),
    "/memory": say("memory_empty", "en"),
    "My name is Emily": say("taught_new", "en", text="My name is Emily"),
    "What is my name?": say("offline_quote_one", "en"),
    "What time is it in Tokyo?": "(Tokyo, UTC+09:00)",
    "/remind every Monday and Friday at 9:00 water the plants": "water the plants",
    "/reminders": "water the plants",
    "My time zone is London": say("zone_set", "en", zone="London").removesuffix("."),
    "/forget my name": "My name is Emily",
}


def add_language(folder: Path) -> Path:
    """Copy the program into a folder, add the code and the sentence; return its ``bot.py``."""
    shutil.copytree(ROOT / "migrations", folder / "migrations")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for file, old, new in (
        ("src/texts/__init__.py", 'Literal["ru", ', f'Literal["{CODE}", "ru", '),
        (
            "src/talk/sentences.toml",
            "[stop_nothing]\n",
            f'[stop_nothing]\n{CODE} = "{SENTENCE}"\n',
        ),
    ):
        path = folder / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, file
        path.write_text(text.replace(old, new), encoding="utf-8")
    return Path(shutil.copy(ROOT / "bot.py", folder))


@pytest.mark.proof
async def test_a_language_begins_with_one_sentence(world: World, tmp_path: Path) -> None:
    bot = world.process(program=add_language(tmp_path), cold=True, LLM_MODEL="offline")
    await bot.start()
    for number, (line, answer) in enumerate(TALK.items(), 1):
        await world.telegram.send_text(USER, line, language_code=CODE)
        *_, shown = await world.telegram.wait_sent(USER, number)
        await world.settled()
        assert answer in shown.text, line
    start, _, settings, *_ = world.telegram.sent_to(USER)
    cities = [button["text"] for row in start.reply_markup["inline_keyboard"] for button in row]
    assert cities == ["London", "New York", "Los Angeles", say("zone_other", "en")]
    assert f"Language: {CODE.title()}" in settings.text

    # The user chooses it, so that it is stored, and then Telegram speaks Ukrainian.
    for label in ("Language", CODE.title()):
        await press(world, settings.message_id, label)
    await world.telegram.send_text(USER, "/stop", language_code="uk")
    assert (await world.telegram.wait_sent(USER, len(TALK) + 1))[-1].text == SENTENCE
    assert [line for line in bot.lines if line.get("level") in ("warning", "error")] == []


async def press(world: World, message_id: int, label: str) -> None:
    """Press the button of a message with this label, its tick aside."""
    [message] = [one for one in world.telegram.sent_to(USER) if one.message_id == message_id]
    for row in message.reply_markup["inline_keyboard"]:
        for button in row:
            if button["text"].removeprefix("✓ ") == label:
                data = button["callback_data"]
                update = await world.telegram.press_button(USER, message_id, data)
                await world.telegram.wait_confirmed(update)
                await world.settled()
                return
    raise AssertionError(f"no button {label} in {message.reply_markup}")
