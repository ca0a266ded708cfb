"""What belongs together and comes in pieces is one turn: one answer that knows all of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from tests.e2e.bot_process import World, open_world
from tests.e2e.conftest import is_of_a_turn
from tests.fakes.openai_server import Reply

NAME = "@pomni_test_bot"
CHANNEL = {"type": "channel", "date": 0, "message_id": 3,
           "chat": {"id": -100600, "type": "channel", "title": "News"}}  # fmt: skip
PHOTO = [{"file_id": "photo", "file_unique_id": "p", "width": 1280, "height": 900}]
COMMENT, FORWARD = {"text": "Что скажешь?"}, {"text": "Сдаю дом", "forward_origin": CHANNEL}
LONG = {"text": f"Глянь: {'подробности ' * 30}и всё"}
PASTE = "😀" * 2048  # 4,096 UTF-16 units, where Telegram cuts
_people = itertools.count(2**41 + 9001)


@pytest.fixture(scope="module")
async def patient(shared_dsn: str) -> AsyncIterator[World]:
    """A world whose bot waits as long as by default."""
    async with open_world(shared_dsn) as opened:
        opened.model.takes_queued = is_of_a_turn
        opened.telegram.state.files["photo"] = b"\xff\xd8\xff\xe0 a picture"
        await opened.start(GATHER_SECONDS="1")
        yield opened


async def answer_to(world: World, person: int) -> str:
    """The only answer that a person got, and the end of the prompt that it answers."""
    await world.telegram.wait_sent(person)
    await world.settled()
    [answer] = world.answers(person)
    [request] = [one for one in world.model.requests if one.last_user_text in answer][-1:]
    return f"{answer} {request.messages}"


@pytest.mark.parametrize("gap", [0.05, pytest.param(0.8, marks=pytest.mark.proof)])
@pytest.mark.parametrize("parts", [
    (COMMENT, FORWARD), (FORWARD, COMMENT), (COMMENT, FORWARD, FORWARD),
    ({"text": PASTE}, {"text": "конец"}), (LONG, FORWARD),
    ({"text": "🇺🇦" * 1024}, {"text": "слово " * 682 + "я"}, {"text": "ось і все"}),
    pytest.param((FORWARD, {"text": "И это?"}, FORWARD), marks=pytest.mark.proof),
])  # fmt: skip
async def test_what_comes_a_moment_later_is_answered_together(
    patient: World, parts: tuple[dict[str, str], ...], gap: float
) -> None:
    person = next(_people)
    for part in parts:
        await patient.telegram.send_message(person, **part)
        await asyncio.sleep(gap)  # between the parts: it is what is tested
    told = await answer_to(patient, person)
    assert all(part["text"] in told for part in parts)


async def test_an_answer_that_is_still_made_starts_anew(patient: World) -> None:
    telegram, model, person, gate = patient.telegram, patient.model, next(_people), asyncio.Event()
    model.queue(Reply(text="Рано.", gate=gate))
    await telegram.send_message(person, text=f"Расскажи. {'Подробно! ' * 30}")
    await model.wait_for(lambda: model.waiting_at_gate)
    await telegram.send_message(person, text="И про море.")
    told = await answer_to(patient, person)
    gate.set()
    assert told.startswith("эхо: И про море.") and "Расскажи." in told


async def test_a_kill_between_the_parts_loses_none(world: World) -> None:
    telegram, person = world.telegram, next(_people)
    bot = await world.start(GATHER_SECONDS="5")
    await telegram.send_message(person, **COMMENT)
    await world.model.wait_for(lambda: world.model.requests)
    await telegram.send_message(person, **FORWARD)
    await telegram.wait_for(lambda: not telegram.pending_updates)
    workers = world.workers()
    await bot.kill()
    assert world.answers(person) == []
    world.presume_dead(workers)
    await world.start()
    told = await answer_to(world, person)
    assert "Что скажешь?" in told and "Сдаю дом" in told
