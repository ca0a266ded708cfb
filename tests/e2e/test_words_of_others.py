"""Forwards, groups and bursts as Telegram brings them, and a bot process that has no model."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from tests.e2e.bot_process import World, eventually, open_world
from tests.fakes.telegram_people import Sender

ANNA, BORIS = 2**41 + 9101, 2**41 + 9102
NAME = "@pomni_test_bot"
ORIGIN = {"type": "hidden_user", "date": 1, "sender_user_name": "Илон"}
_people = itertools.count(2**41 + 9200)
FACTS = """
SELECT text FROM facts WHERE telegram_user_id = %s AND retired_at IS NULL ORDER BY text
"""


@pytest.fixture(scope="module")
async def quiet_world(shared_dsn: str) -> AsyncIterator[World]:
    """One bot that has no language model."""
    async with open_world(shared_dsn) as opened:
        await opened.start(LLM_MODEL="offline")
        yield opened


def facts(world: World, owner: int) -> list[str]:
    return [text for (text,) in world.query(FACTS, owner)]


async def test_what_is_forwarded_becomes_nobody_s_home(quiet_world: World) -> None:
    telegram, person = quiet_world.telegram, next(_people)
    await telegram.send_message(person, text="Я живу на Марсе", forward_origin=ORIGIN)
    await telegram.wait_sent(person)
    await telegram.send_text(person, "Где я живу?")
    [_, answer] = await telegram.wait_sent(person, 2)
    assert "Марс" not in answer.text and facts(quiet_world, person) == []
    stored = "SELECT provenance, origin FROM messages WHERE chat_id = %s ORDER BY id LIMIT 1"
    assert quiet_world.query(stored, person) == [("forwarded", "Илон")]
    await quiet_world.settled()


async def test_one_member_s_allergy_does_not_answer_another(quiet_world: World) -> None:
    telegram, chat = quiet_world.telegram, -1_009_000_000_001
    place = Sender(chat_id=chat, chat_type="supergroup")
    await telegram.send_text(BORIS, f"{NAME} запомни: у меня аллергия на орехи", **place)
    await telegram.wait_sent(chat)
    await telegram.send_text(ANNA, f"{NAME} есть ли у меня аллергия?", **place)
    [_, answer] = await telegram.wait_sent(chat, 2)
    assert "орех" not in answer.text
    await telegram.send_text(BORIS, f"{NAME} на что у меня аллергия?", **place)
    [*_, answer] = await telegram.wait_sent(chat, 3)
    assert "орех" in answer.text
    await quiet_world.settled()


@pytest.mark.parametrize("ending", ["", "/new"])
async def test_quick_messages_are_all_learnt(quiet_world: World, ending: str) -> None:
    telegram, person = quiet_world.telegram, next(_people)
    burst = ["Меня зовут Анна", "Мой день рождения 5 мая"]
    for text in [*burst, *([ending] if ending else [])]:
        await telegram.send_text(person, text)
    await telegram.wait_sent(person)
    await eventually(lambda: facts(quiet_world, person) == sorted(burst), "the facts")
    await quiet_world.settled()
    left = "SELECT 1 FROM parting_messages WHERE owner_id = add_owner(%s, 0)"
    await eventually(lambda: quiet_world.query(left, person) == [], "nothing is left of /new")


async def test_a_reminder_is_confirmed_and_delivered(quiet_world: World) -> None:
    telegram, person = quiet_world.telegram, next(_people)
    await telegram.send_text(person, "напомни через 2 секунды снять чайник")
    await telegram.wait_sent(person, 2)
    reminder, confirmed = sorted(quiet_world.answers(person), key=len)  # whichever came first
    assert reminder == "⏰ снять чайник"
    assert confirmed.startswith("⏰ Напомню ") and ": снять чайник\n\n🕒" in confirmed
    of_person = "FROM reminders WHERE owner_id = add_owner(%s, 0)"
    waiting = f"SELECT 1 {of_person} AND is_waiting"
    await eventually(lambda: not quiet_world.query(waiting, person), "the delivery to be noted")
    assert quiet_world.query(f"SELECT delivered_at >= due_at {of_person}", person) == [(True,)]
