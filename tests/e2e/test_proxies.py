"""A network that blocks: Telegram and the model are reachable through a proxy alone."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.bot_process import World
from tests.fakes.openai_server import Reply
from tests.fakes.proxies import FakeProxy, Kind

LOGIN = ("user", "p@ss/w:rd%1")
PERSON = 7_000_000_000_001


@pytest.mark.parametrize("kind", ["socks5", pytest.param("http", marks=pytest.mark.proof)])
async def test_a_proxy_that_dies_in_mid_answer_loses_nothing_and_repeats_nothing(
    world: World, kind: Kind
) -> None:
    async with FakeProxy(kind, LOGIN) as proxy:
        bot = await world.start(
            TELEGRAM_API_BASE=f"http://telegram.test:{world.telegram.port}",
            OPENAI_BASE_URL=f"http://models.test:{world.model.port}/v1",
            TELEGRAM_PROXY=proxy.url,
            MODEL_PROXY=proxy.url,
        )
        gate = asyncio.Event()
        world.model.queue(Reply(text="Первый ответ готов.", gate=gate))
        world.model.reply = lambda request: Reply(text=f"Ответ: {request.last_user_text}")
        await world.telegram.send_text(PERSON, "Первый вопрос")
        await world.model.wait_requests(1)
        await proxy.stop()
        gate.set()
        await proxy.start()
        await world.telegram.wait_for(
            lambda: "Ответ: Первый вопрос" in " ".join(world.answers(PERSON))
        )
        await world.telegram.send_text(PERSON, "Второй вопрос")
        await world.telegram.wait_for(
            lambda: "Ответ: Второй вопрос" in " ".join(world.answers(PERSON))
        )
        await world.settled()
        told = " ".join(world.answers(PERSON))
    assert [told.count(f"Ответ: {number} вопрос") for number in ("Первый", "Второй")] == [1, 1]
    assert "p@ss" not in bot.logs() and "p%40ss" not in bot.logs()
