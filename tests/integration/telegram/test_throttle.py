"""The bot keeps within Telegram's limits by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramForbiddenError

from src.base.metrics import Metrics
from src.telegram.requests import GROUP_BURST, PRIVATE_BURST, ThrottleMiddleware
from tests.fakes.telegram_server import FakeTelegram

USER = 2**41 + 7
GROUP = -1_001_234_567_890
Act = Callable[[Bot, int], Coroutine[Any, Any, Any]]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def limit(bot: Bot, metrics: Metrics, messages_per_second: int) -> ThrottleMiddleware:
    throttle = ThrottleMiddleware(messages_per_second, metrics)
    bot.session.middleware(throttle)
    return throttle


def edit(bot: Bot, number: int) -> Coroutine[Any, Any, Any]:
    return bot.edit_message_text(text=f"{number}.", chat_id=USER, message_id=1)


@pytest.mark.parametrize(("rate", "count", "least", "act"), [
    pytest.param(1000, PRIVATE_BURST + 1, 1, lambda bot, n: bot.send_message(USER, str(n)),
                 id="a message a second to one chat"),
    pytest.param(1000, PRIVATE_BURST + 1, 1, edit, id="edits are messages"),
    pytest.param(1000, GROUP_BURST + 1, 3, lambda bot, n: bot.send_message(GROUP, str(n)),
                 id="twenty a minute to a group"),
    pytest.param(10, 20, 1, lambda bot, n: bot.send_message(USER + n, "привет"),
                 id="all chats together"),
])  # fmt: skip
async def test_after_a_burst_each_has_to_wait(
    fake: FakeTelegram, bot: Bot, metrics: Metrics, rate: int, count: int, least: int,
    act: Act,
) -> None:  # fmt: skip
    await bot.send_message(USER, "0")
    limit(bot, metrics, rate)
    for _ in range(3 * PRIVATE_BURST):
        await bot.send_chat_action(USER, "typing")  # which does not count
    start, before = time.monotonic(), len(fake.calls)
    tasks = [asyncio.ensure_future(act(bot, number)) for number in range(count)]
    await asyncio.gather(*tasks)
    assert len(fake.calls) == before + count
    assert fake.calls[-1].at - start >= 0.99 * least


async def test_a_chat_that_waits_does_not_hold_up_the_others(
    fake: FakeTelegram, bot: Bot, metrics: Metrics
) -> None:
    limit(bot, metrics, 1000)
    waiting = [asyncio.ensure_future(bot.send_message(USER, str(number))) for number in range(90)]
    await fake.wait_sent(USER, PRIVATE_BURST)
    await bot.send_message(USER + 1, "а я?")
    assert not all(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_requests_are_counted_by_method_and_result(
    fake: FakeTelegram, bot: Bot, metrics: Metrics
) -> None:
    limit(bot, metrics, 1000)
    await bot.send_message(USER, "раз")
    fake.block(USER)
    with pytest.raises(TelegramForbiddenError):
        await bot.send_message(USER, "два")
    counted = metrics.render().decode()
    assert 'requests_total{method="sendMessage",result="ok"} 1.0' in counted
    assert 'requests_total{method="sendMessage",result="error"} 1.0' in counted
