"""Deliveries that end: by /stop, by /new, by a bound, or by what Telegram does not want."""

from __future__ import annotations

import pytest

from tests.attacks.status_walk import list_cases, walk_buttons, walk_chats
from tests.e2e.bot_process import World, eventually
from tests.fakes.openai_server import ChatRequest, Reply

STOPPED, NEW, LONG = 2**41 + 11, 2**41 + 12, 2**41 + 13
TEN_PARTS = "\n\n".join(f"абзац {number} " + "слово " * 550 for number in range(9))
PROGRESS = (
    "SELECT a.delivered_parts, a.delivered_at IS NOT NULL, q.stopped_at IS NOT NULL"
    " FROM messages a JOIN messages q ON q.id = a.reply_to_id WHERE q.chat_id = %s"
)


@pytest.fixture
def world(shared_world: World) -> World:
    """The world of this file; its model tells long stories to who asks for one."""

    def tell(request: ChatRequest) -> Reply:
        text = request.last_user_text
        if text.startswith("расскажи"):
            return Reply(text=TEN_PARTS, chunk_size=4000)
        return Reply(text=f"эхо: {text}")

    shared_world.model.reply = tell
    return shared_world


def paragraphs(world: World, user: int) -> int:
    """How many messages of the long answer the chat has."""
    return sum("слово" in text for text in world.answers(user))


@pytest.mark.parametrize("pause", [None, 3600], ids=["in the queue of the chat", "retry_after"])
async def test_stop_ends_a_delivery_that_is_under_way(world: World, pause: int | None) -> None:
    user = STOPPED + (pause or 0)
    telegram = world.telegram
    await telegram.send_text(user, "расскажи")
    await telegram.wait_sent(user, 3)
    if pause is not None:
        telegram.fail_next("sendMessage", status=429, parameters={"retry_after": pause})
        waits = "SELECT 1 FROM procrastinate_jobs WHERE status = 'todo' AND attempts > 0"
        await eventually(lambda: world.query(waits), "the delivery to wait")
    await telegram.send_text(user, "/stop")
    await telegram.wait_for(lambda: "становлено" in world.answers(user)[-1])
    await world.settled()
    arrived = paragraphs(world, user)
    assert 3 <= arrived < 9
    assert world.query(PROGRESS, user) == [(arrived, True, True)]
    await telegram.send_text(user, "дальше")
    await telegram.wait_for(lambda: world.answers(user)[-1] == "эхо: дальше")
    await world.settled()
    assert paragraphs(world, user) == arrived and world.undelivered() == []


async def test_after_new_nothing_more_of_the_old_answer_arrives(world: World) -> None:
    telegram = world.telegram
    await telegram.send_text(NEW, "расскажи")
    await telegram.wait_sent(NEW, 3)
    await telegram.send_text(NEW, "/new")
    await telegram.wait_for(lambda: "слово" not in world.answers(NEW)[-1])
    arrived = paragraphs(world, NEW)
    await telegram.send_text(NEW, "снова")
    await telegram.wait_for(lambda: world.answers(NEW)[-1] == "эхо: снова")
    await world.settled()
    assert paragraphs(world, NEW) == arrived < 9
    assert world.history(NEW) == [("user", "снова"), ("assistant", "эхо: снова")]


async def test_every_status_and_form_of_telegram_ends_in_an_outcome(world: World) -> None:
    """A small share of ``python -m tests.attacks.status_walk``."""
    cases = list_cases(0.007, seed=5)
    result = await walk_chats(world, cases)
    assert result.cases == len(cases) >= 30
    assert result.violations == []
    assert result.answered > result.given_up > 0


async def test_buttons_that_cannot_be_confirmed_are_handled(world: World) -> None:
    result = await walk_buttons(world, 0.02, seed=5)
    assert result.cases >= 10
    assert result.violations == [] and result.answered == result.cases
