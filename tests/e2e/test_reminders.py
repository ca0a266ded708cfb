"""A reminder without a model; see ``kill_matrix`` and ``test_workers`` for deaths and workers."""

from __future__ import annotations

from src.base.config import OFFLINE_MODEL
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
    assert confirmed.startswith("⏰ Напомню ") and ": снять чайник\n\n🕒" in confirmed
    await eventually(lambda: not world.query(WAITING), "the delivery to be noted")
    [(delay,)] = world.query(DELAYS)
    assert delay >= 0, "nothing comes too early"
