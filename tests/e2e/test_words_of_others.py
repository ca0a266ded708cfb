"""Forwards, groups and bursts as Telegram brings them, and a bot process that has no model."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from tests.e2e.bot_process import World, open_world

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
