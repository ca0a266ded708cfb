"""SIGKILL at the worst moments: after a restart each message is answered once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg2
import pytest

from src.storage.embedded_pg import EmbeddedPostgres
from src.storage.migrations import migrate
from tests.conftest import execute
from tests.e2e.bot_process import World, eventually
from tests.e2e.conftest import open_world
from tests.fakes.openai_server import Reply
from tests.fakes.telegram_people import Sender

USER, GROUP = 2**41 + 1, -1_001_234_567_890
NAME = "@pomni_test_bot"


async def check_tables(world: World, owner: int, expected: list[tuple[str, str]]) -> None:
    """The queue is empty, and the history has each message and each answer once."""
    await world.settled()
    assert world.history(owner) == expected
    assert world.undelivered() == []


async def test_killed_before_the_message_was_stored(world: World) -> None:
    bot = await world.start()
    blocker = psycopg2.connect(world.dsn)
    with blocker.cursor() as cursor:
        cursor.execute("LOCK TABLE telegram_updates IN SHARE MODE")
    await world.telegram.send_text(USER, "раз")
    waits = "SELECT 1 FROM pg_locks WHERE NOT granted"
    await eventually(lambda: world.query(waits), "the insert to wait")
    await bot.kill()
    assert len(world.telegram.pending_updates) == 1, "it was not confirmed"
    blocker.close()
    await world.start()
    await world.telegram.wait_sent(USER)
    await check_tables(world, USER, [("user", "раз"), ("assistant", "эхо: раз")])
    assert world.answers(USER) == ["эхо: раз"]


@pytest.mark.parametrize("pieces", [0, 2], ids=["before the answer began", "in mid-stream"])
async def test_killed_while_the_model_answers(world: World, pieces: int) -> None:
    telegram, model = world.telegram, world.model
    bot = await world.start()
    gate = asyncio.Event()
    model.queue(Reply(text="незаконченное", chunk_size=3, gate=gate, gate_after_chunks=pieces))
    await telegram.send_text(USER, "раз")
    await model.wait_for(lambda: model.waiting_at_gate)
    await telegram.send_text(USER, "два")
    await telegram.wait_for(lambda: not telegram.pending_updates)
    await bot.kill()
    await world.start()
    await telegram.wait_sent(USER)
    await world.settled()
    assert world.answers(USER) == ["эхо: два"], "the later message answers for both"
    assert [text for role, text in world.history(USER) if role == "user"] == ["раз", "два"]
    assert world.undelivered() == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_while_the_answer_is_sent(world: World, when: str) -> None:
    telegram, model = world.telegram, world.model
    bot = await world.start()
    telegram.hang_next("sendMessage", when=when)  # type: ignore[arg-type]
    await telegram.send_text(USER, "раз")
    await telegram.wait_for(lambda: telegram.calls_of("sendMessage"))
    assert len(world.undelivered()) == 1, "it was stored before it was sent"
    await bot.kill()
    await world.start()
    sent = 2 if when == "after" else 1  # what may have arrived is sent again: never none
    await telegram.wait_sent(USER, sent)
    await check_tables(world, USER, [("user", "раз"), ("assistant", "эхо: раз")])
    assert world.answers(USER) == ["эхо: раз"] * sent
    assert model.request_count == 1, "the model is not asked again"


async def test_killed_between_the_parts_of_a_long_answer(world: World) -> None:
    telegram, model = world.telegram, world.model
    text = "\n\n".join(f"абзац {number} " + "слово " * 100 for number in range(20))
    model.queue(Reply(text=text, chunk_size=500))
    bot = await world.start()
    telegram.delay("sendMessage", 0.3, when="before")
    await telegram.send_text(USER, "расскажи")
    await telegram.wait_sent(USER, 2)
    parts = "SELECT delivered_parts FROM messages WHERE role = 'assistant'"
    await eventually(lambda: world.query(parts) >= [(2,)], "the count of parts")
    await bot.kill()
    telegram.delay("sendMessage", 0)
    await world.start()
    await world.settled()
    whole = "".join(world.answers(USER))
    assert all(whole.count(f"абзац {number} ") == 1 for number in range(20))
    assert model.request_count == 1
    assert world.undelivered() == []


@pytest.mark.parametrize("place", ["group", "private chat without drafts"])
async def test_killed_while_a_message_shows_the_growing_answer(world: World, place: str) -> None:
    telegram, model = world.telegram, world.model
    if place == "group":
        chat, sender = GROUP, Sender(chat_id=GROUP, chat_type="supergroup")
    else:
        chat, sender = USER, Sender()
        telegram.disable_method("sendMessageDraft")
    bot = await world.start()
    if place != "group":  # the first answer learns that there are no drafts
        model.queue(Reply(text="Первый ответ", chunk_size=3, chunk_delay=0.3))
        await telegram.send_text(USER, "раз")
        await telegram.wait_sent(chat)
        await world.settled()
    before = len(telegram.sent_to(chat))
    gate = asyncio.Event()
    model.queue(Reply(text="Начало и конец", chunk_size=6, gate=gate, gate_after_chunks=1))
    await telegram.send_text(USER, f"{NAME} расскажи", **sender)
    await telegram.wait_sent(chat, before + 1)
    shown = "SELECT 1 FROM messages WHERE stream_message_id IS NOT NULL"
    await eventually(lambda: world.query(shown), "the message to be remembered")
    await bot.kill()
    await world.start()
    await telegram.wait_for(lambda: telegram.sent_to(chat)[-1].text == "эхо: расскажи")
    await world.settled()
    assert len(telegram.sent_to(chat)) == before + 1, "one message shows the answer"


@pytest.fixture
async def own_world(tmp_path: Path) -> AsyncIterator[tuple[World, EmbeddedPostgres]]:
    """A world whose PostgreSQL may be restarted."""
    server = EmbeddedPostgres(tmp_path)
    dsn = await asyncio.to_thread(server.start)
    execute(dsn, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    await asyncio.to_thread(migrate, dsn)
    async with open_world(dsn) as world:
        yield world, server
    await asyncio.to_thread(server.stop)


async def test_a_restart_of_postgresql_in_the_middle_of_work_loses_nothing(
    own_world: tuple[World, EmbeddedPostgres],
) -> None:
    world, server = own_world
    telegram, model = world.telegram, world.model
    bot = await world.start()
    model.reply = lambda request: Reply(
        text=f"эхо: {request.last_user_text}", chunk_size=3, chunk_delay=0.05
    )
    people, messages = range(USER, USER + 10), 5

    async def talk(person: int) -> None:
        for number in range(messages):
            await telegram.send_text(person, f"№{number}")
            await telegram.wait_sent(person, number + 1, timeout=60)

    talks = asyncio.gather(*(talk(person) for person in people))
    await telegram.wait_for(lambda: len(telegram.sent) >= 12, timeout=30)
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    await talks
    await world.settled(60)
    for person in people:
        assert world.answers(person) == [f"эхо: №{number}" for number in range(messages)]
        assert len(world.history(person)) == 2 * messages
    assert world.undelivered() == []
    assert await bot.terminate() == 0
