"""Reminders through whole processes: on time, once, after a kill, after hours, beside workers."""

from __future__ import annotations

from src.config import OFFLINE_MODEL
from tests.e2e.bot_process import World, eventually

USER = 2**41 + 1
WAITING = "SELECT id FROM reminders WHERE is_waiting"
DELAYS = "SELECT extract(epoch FROM delivered_at - due_at)::float FROM reminders"


async def test_a_phrase_without_a_model_is_confirmed_and_delivered(world: World) -> None:
    await world.start(LLM_MODEL=OFFLINE_MODEL)
    await world.telegram.send_text(USER, "напомни через 2 секунды снять чайник")
    await world.telegram.wait_sent(USER, 2)
    reminder, confirmed = sorted(world.answers(USER), key=len)  # whichever came first
    assert reminder == "⏰ снять чайник"
    assert confirmed.startswith("⏰ Напомню ") and confirmed.endswith(": снять чайник")
    await eventually(lambda: not world.query(WAITING), "the delivery to be noted")
    [(delay,)] = world.query(DELAYS)
    assert delay >= 0, "nothing comes too early"


async def test_killed_between_due_and_sent_it_arrives_once_after_the_restart(world: World) -> None:
    telegram = world.telegram
    bot = await world.start()
    await telegram.send_text(USER, "/remind через секунду снять чайник")
    await telegram.wait_sent(USER)
    telegram.hang_next("sendMessage", when="before")
    sends = len(telegram.calls_of("sendMessage"))
    await telegram.wait_for(lambda: len(telegram.calls_of("sendMessage")) > sends)
    assert len(world.query(WAITING)) == 1, "it is sent before it is noted"
    await bot.kill()
    await world.start()
    await telegram.wait_sent(USER, 2)
    await eventually(lambda: not world.query(WAITING), "the delivery to be noted")
    assert world.answers(USER)[1:] == ["⏰ снять чайник"]


async def test_what_came_due_while_nobody_worked_arrives_at_the_start_with_an_apology(
    world: World,
) -> None:
    telegram = world.telegram
    bot = await world.start()
    await telegram.send_text(USER, "/remind завтра в 9 позвонить маме")
    await telegram.send_text(USER, "/remind каждый день в 9 таблетки")
    await telegram.wait_sent(USER, 2)
    await world.settled()
    assert await bot.terminate() == 0
    world.query(
        "UPDATE reminders SET due_at = date_trunc('second', now()) - interval '3 days 1 hour'"
    )
    await world.start()
    messages = await telegram.wait_sent(USER, 4)
    texts = sorted(message.text for message in messages[2:])
    assert [text.partition("\n\n")[0] for text in texts] == ["⏰ позвонить маме", "⏰ таблетки"]
    assert all("\n\nИзвините, опоздал: это было на " in text for text in texts)
    left = "SELECT recurrence IS NOT NULL, due_at > now() FROM reminders WHERE is_waiting"
    await eventually(lambda: world.query(left) == [(True, True)], "the next regular time alone")
    assert len(telegram.sent_to(USER)) == 4, "what was missed does not come one by one"


async def test_workers_beside_a_receiver_deliver_each_once(world: World) -> None:
    processes = [await world.start(command) for command in ("run", "worker", "worker")]
    people = range(USER, USER + 30)
    for person in people:
        await world.telegram.send_text(person, "/remind через 2 секунды снять чайник")
    await world.telegram.wait_for(lambda: len(world.telegram.sent) >= 60, timeout=30)
    await eventually(lambda: not world.query(WAITING), "the deliveries to be noted")
    for person in people:
        assert [text for text in world.answers(person) if text == "⏰ снять чайник"] == [
            "⏰ снять чайник"
        ]
    assert [await process.terminate() for process in processes] == [0, 0, 0]
