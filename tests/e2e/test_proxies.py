"""A network that blocks: Telegram and the model are reachable through a proxy alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.bot_command import Machine
from tests.e2e.bot_process import World
from tests.fakes.openai_server import Reply
from tests.fakes.proxies import FakeProxy, Fault, Kind
from tests.fakes.telegram_server import FakeTelegram

LOGIN = ("user", "p@ss/w:rd%1")
PERSON = 7_000_000_000_001


@pytest.mark.parametrize("kind", ["socks5", "http"])
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


FAULTS: list[tuple[Fault | str, str]] = [
    ("none", "leads to telegram.test"), ("login", "its login is refused"),
    ("name", "its name is unknown"), ("down", "nobody listens at its port"),
    ("refuse", "it refuses to lead to telegram.test"),
    ("away", "telegram.test behind it cannot be reached"),
    ("html", "it answers, but not as a proxy"),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["socks5", pytest.param("http", marks=pytest.mark.proof)])
@pytest.mark.parametrize(("fault", "sentence"), FAULTS)
async def test_the_doctor_says_which_hop_fails(
    dsn: str, tmp_path: Path, kind: Kind, fault: Fault, sentence: str
) -> None:
    async with FakeTelegram() as telegram, FakeProxy(kind, LOGIN) as proxy:
        url = proxy.url
        if fault in ("refuse", "away", "html"):
            proxy.fault = fault
        elif fault == "login":  # type: ignore[comparison-overlap]
            proxy.login = ("user", "another")
        elif fault == "name":  # type: ignore[comparison-overlap]
            url = url.replace("127.0.0.1", "proxy.invalid")
        elif fault == "down":  # type: ignore[comparison-overlap]
            await proxy.stop()
        variables = {
            "DATABASE_URL": dsn,
            "TELEGRAM_BOT_TOKEN": telegram.token,
            "TELEGRAM_API_BASE": f"http://telegram.test:{telegram.port}",
            "TELEGRAM_PROXY": url,
        }
        done = await Machine(tmp_path, variables).run_beside("doctor")
    [line] = [line for line in done.stdout.splitlines() if line.startswith("proxy ")]
    assert sentence in line and ("MEND" in line) == (fault != "none")
    assert done.status == int(fault != "none")
    assert "p@ss" not in done.stdout + done.stderr and "p%40ss" not in done.stdout + done.stderr
