"""Forty slow chats, and floods: the others are served; nothing here is timed."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from src.texts import say
from tests.attacks.flood import FIRST_OTHER, FIRST_SLOW, FLOODER, FLOODS, GROUP, purpose, reply
from tests.e2e.bot_process import World
from tests.fakes.openai_server import ChatRequest, Reply
from tests.fakes.telegram_people import Sender
from tests.help_pages import help_of

TURNS = 3  # places of the bot in these tests


def held_by(gate: asyncio.Event) -> object:
    """A model whose slow answers wait for the gate."""

    def answer(request: ChatRequest) -> Reply:
        if purpose(request) == "answers" and "медленно" in request.last_user_text:
            return Reply(text=f"эхо: {request.last_user_text}", gate=gate)
        return reply(request)

    return answer


async def test_commands_and_buttons_are_answered_while_every_place_is_held(world: World) -> None:
    telegram, model, gate = world.telegram, world.model, asyncio.Event()
    model.reply = held_by(gate)  # type: ignore[assignment]
    await world.start(WORKER_CONCURRENCY=str(TURNS))
    slow = range(FIRST_SLOW, FIRST_SLOW + 2 * TURNS)
    for person in slow:
        await telegram.send_text(person, "медленно")
    await model.wait_for(lambda: model.waiting_at_gate == TURNS)
    await telegram.send_text(FIRST_OTHER, "/help")
    await telegram.send_text(FIRST_OTHER, "/mode")
    [help_message, _] = await telegram.wait_sent(FIRST_OTHER, 2)
    await telegram.press_button(FIRST_OTHER, help_message.message_id, "old:button")
    await telegram.wait_for(lambda: telegram.calls_of("answerCallbackQuery"))
    await telegram.send_text(slow[0], "/help")  # where an answer is being written
    await telegram.wait_sent(slow[0])
    assert world.answers(slow[0]) == [help_of("ru")]
    await telegram.send_text(slow[0], "/mode")  # it has an order
    gate.set()
    await world.settled()
    assert world.answers(slow[0])[1:] == ["эхо: медленно", say("mode_is_assistant", "ru")]
    assert model.waiting_at_gate == 0 and world.undelivered() == []


async def test_one_person_in_forty_chats_lets_the_first_message_of_another_pass(
    world: World,
) -> None:
    telegram, model, gate = world.telegram, world.model, asyncio.Event()
    model.reply = held_by(gate)  # type: ignore[assignment]
    await world.start(WORKER_CONCURRENCY=str(TURNS))
    for number in range(40):
        place = Sender(chat_id=GROUP - number, chat_type="supergroup")
        await telegram.send_text(FLOODER, "@pomni_test_bot медленно", **place)
    await model.wait_for(lambda: model.waiting_at_gate == TURNS)
    await telegram.send_text(FIRST_OTHER, "привет")
    await telegram.wait_for(lambda: not telegram.pending_updates)
    gate.set()
    await world.settled(120)
    assert all(world.answers(GROUP - number) for number in range(40))
    asked = [one.last_user_text for one in model.requests if purpose(one) == "answers"]
    assert asked.index("привет") <= 3 * TURNS


@pytest.mark.timeout(900)  # of what comes too fast, one a second is taken
@pytest.mark.parametrize("size", [7, pytest.param(60, marks=pytest.mark.proof)])
async def test_floods_of_every_kind_keep_nobody_waiting_for_ever(world: World, size: int) -> None:
    """A short one of each; somebody else is served meanwhile, and all of it is handled."""
    telegram, model = world.telegram, world.model
    model.reply = reply
    await world.start()
    people = itertools.count(FIRST_OTHER)
    for kind in ("buttons", "edits", "messages", "commands", "group", "groups"):
        flood, _ = FLOODS[kind]
        flooding = asyncio.create_task(flood(world, size))
        command, question = next(people), next(people)
        await telegram.send_text(command, "/help")
        await telegram.send_text(question, "привет")
        await telegram.wait_sent(command)
        await telegram.wait_sent(question)
        await flooding
    await world.settled(120)
    assert world.undelivered() == []
