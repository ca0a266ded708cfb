"""The bot keeps within Telegram's limits by itself."""

from __future__ import annotations

import asyncio

import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramForbiddenError

from src.base.metrics import Metrics
from src.telegram.setup import GROUP_BURST, MAX_CHATS, PRIVATE_BURST, ThrottleMiddleware
from tests.fakes.telegram_server import FakeTelegram

USER = 2**41 + 7
GROUP = -1_001_234_567_890


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def limit(bot: Bot, metrics: Metrics, messages_per_second: int) -> ThrottleMiddleware:
    throttle = ThrottleMiddleware(messages_per_second, metrics)
    bot.session.middleware(throttle)
    return throttle


async def sent_within(fake: FakeTelegram, sends: list, seconds: float) -> int:
    """How many of the sends get through in so many seconds; the others are given up."""
    tasks = [asyncio.ensure_future(send) for send in sends]
    await asyncio.wait(tasks, timeout=seconds)
    count = len(fake.sent)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return count


async def test_one_chat_gets_a_burst_and_then_one_message_a_second(
    fake: FakeTelegram, bot: Bot, metrics: Metrics
) -> None:
    limit(bot, metrics, 1000)
    sends = [bot.send_message(USER, str(number)) for number in range(30)]
    count = await sent_within(fake, sends, 2)
    assert PRIVATE_BURST <= count <= PRIVATE_BURST + 3


async def test_groups_get_twenty_a_minute(fake: FakeTelegram, bot: Bot, metrics: Metrics) -> None:
    limit(bot, metrics, 1000)
    sends = [bot.send_message(GROUP, str(number)) for number in range(40)]
    count = await sent_within(fake, sends, 2)
    assert GROUP_BURST <= count <= GROUP_BURST + 2


async def test_all_chats_together_keep_the_bot_s_limit(
    fake: FakeTelegram, bot: Bot, metrics: Metrics
) -> None:
    limit(bot, metrics, 10)
    sends = [bot.send_message(USER + number, "привет") for number in range(100)]
    count = await sent_within(fake, sends, 2)
    assert 10 <= count <= 10 + 2 * 10 + 2


async def test_a_chat_that_waits_does_not_hold_up_the_others(
    fake: FakeTelegram, bot: Bot, metrics: Metrics
) -> None:
    limit(bot, metrics, 30)
    waiting = [asyncio.ensure_future(bot.send_message(USER, str(number))) for number in range(40)]
    await fake.wait_sent(USER, PRIVATE_BURST)
    await bot.send_message(USER + 1, "а я?")
    assert sum(task.done() for task in waiting) < len(waiting) / 2
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_edits_count_as_messages_and_typing_does_not(
    fake: FakeTelegram, bot: Bot, metrics: Metrics
) -> None:
    shown = await bot.send_message(USER, "0")
    limit(bot, metrics, 1000)
    for _ in range(3 * PRIVATE_BURST):
        await bot.send_chat_action(USER, "typing")
    edits = [
        bot.edit_message_text(text=f"{number}.", chat_id=USER, message_id=shown.message_id)
        for number in range(30)
    ]
    await sent_within(fake, edits, 1)
    assert PRIVATE_BURST <= len(fake.sent[0].edits) <= PRIVATE_BURST + 2


async def test_the_limiters_of_many_chats_do_not_pile_up(bot: Bot, metrics: Metrics) -> None:
    throttle = limit(bot, metrics, 1000)
    for chat_id in range(1, MAX_CHATS + 50):
        throttle._limiter_of(chat_id)
    assert throttle._limiter_of.cache_info().currsize == MAX_CHATS


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
