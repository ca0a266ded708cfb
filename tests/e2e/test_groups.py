"""The bot in groups: addressed only, quoting, and each chat with a history of its own."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from src.texts import say
from tests.e2e.bot_process import World, eventually
from tests.fakes.openai_server import Reply
from tests.fakes.telegram_people import Sender

ANNA, BORIS = 2**41 + 101, 2**41 + 102
NAME = "@pomni_test_bot"
_groups = itertools.count(1_001_000_000_001)


@pytest.fixture
def place() -> Sender:
    """A group in which nobody has written yet."""
    return Sender(chat_id=-next(_groups), chat_type="supergroup")


def chat_of(place: Sender) -> int:
    chat_id = place["chat_id"]
    assert chat_id is not None
    return chat_id


async def test_only_what_is_addressed_to_the_bot_is_answered_and_stored(
    shared_world: World, place: Sender
) -> None:
    telegram, group = shared_world.telegram, chat_of(place)
    await telegram.send_text(ANNA, "пойдём обедать?", **place)
    await telegram.send_text(BORIS, "/start@another_bot", **place)
    asked = await telegram.send_text(ANNA, f"{NAME}, где обед?", **place)
    [answer] = await telegram.wait_sent(group)
    again = await telegram.send_text(BORIS, "а ужин?", **place, reply_to=answer.message_id)
    await telegram.wait_sent(group, 2)
    await shared_world.settled()
    assert shared_world.answers(group) == ["эхо: где обед?", "эхо: а ужин?"]
    assert [sent.reply_to for sent in telegram.sent_to(group)] == [asked, again]
    assert "обедать" not in str(shared_world.history(group))
    senders = "SELECT sender_id FROM messages WHERE chat_id = %s ORDER BY id"
    assert shared_world.query(senders, group) == [(ANNA,), (BORIS,)]


async def test_nothing_passes_between_a_private_chat_and_a_group(
    shared_world: World, place: Sender
) -> None:
    telegram, model = shared_world.telegram, shared_world.model
    await telegram.send_text(ANNA, "секрет: сто")
    await telegram.wait_sent(ANNA)
    await telegram.send_text(ANNA, f"{NAME} открыто: два", **place)
    await telegram.wait_sent(chat_of(place))
    in_group = str(model.requests[-1].messages)
    assert "открыто: два" in in_group and "секрет" not in in_group
    await telegram.send_text(ANNA, "и ещё")
    await telegram.wait_sent(ANNA, 2)
    in_private = str(model.requests[-1].messages)
    assert "секрет: сто" in in_private and "открыто" not in in_private
    await shared_world.settled()


async def test_topics_have_histories_of_their_own(shared_world: World, place: Sender) -> None:
    telegram, model, group = shared_world.telegram, shared_world.model, chat_of(place)
    for number, (thread, text) in enumerate([(3, "о море"), (4, "о горах"), (3, "ещё")], 1):
        topic = place | Sender(thread_id=thread)
        await telegram.send_text(ANNA, f"{NAME} {text}", **topic)
        await telegram.wait_sent(group, number)
    seen = str(model.requests[-1].messages)
    assert "о море" in seen and "о горах" not in seen
    await shared_world.settled()
    assert [sent.thread_id for sent in telegram.sent_to(group)] == [3, 4, 3]
    assert len(shared_world.history(group, 3)) == 4 and len(shared_world.history(group, 4)) == 2
    telegram.state.admins[group] = {ANNA}
    await telegram.send_text(ANNA, f"/new{NAME}", **(place | Sender(thread_id=3)))
    await telegram.wait_sent(group, 4)
    await shared_world.settled()
    assert shared_world.history(group, 3) == [] and len(shared_world.history(group, 4)) == 2


async def test_a_message_that_waits_in_the_old_chat_is_answered_in_the_new_one(
    shared_world: World, place: Sender
) -> None:
    """The new chat is told of first; what was asked in the old one is answered with its memory."""
    telegram, model = shared_world.telegram, shared_world.model
    old, new = Sender(chat_id=-779, chat_type="group"), chat_of(place)
    await telegram.send_text(ANNA, f"{NAME} старое", **old)
    await telegram.wait_sent(-779)
    gate = asyncio.Event()
    model.queue(Reply(text="первый", gate=gate))
    await telegram.send_text(ANNA, f"{NAME} первый вопрос", **old)
    await model.wait_for(lambda: model.waiting_at_gate)
    await telegram.send_text(BORIS, f"{NAME} второй вопрос", **old)
    await telegram.send_message(ANNA, **place, migrate_from_chat_id=-779)
    moves = "SELECT 1 FROM chat_moves WHERE old_chat_id = -779"
    await eventually(lambda: shared_world.query(moves), "the move")
    gate.set()
    await telegram.wait_sent(new)
    await shared_world.settled()
    assert shared_world.answers(new)[-1] == "эхо: второй вопрос"
    [asked] = [one for one in model.requests if one.last_user_text.endswith("второй вопрос")]
    assert "старое" in str(asked.messages)
    assert [text for role, text in shared_world.history(new) if role == "user"] == [
        "старое", "первый вопрос", "второй вопрос",
    ]  # fmt: skip
    assert shared_world.history(-779) == []


async def test_a_sentence_for_an_unknown_command_comes_only_when_it_is_ours(
    shared_world: World, place: Sender
) -> None:
    telegram, group = shared_world.telegram, chat_of(place)
    await telegram.send_text(ANNA, "/weather", **place)
    await telegram.send_text(ANNA, f"/weather{NAME}", **place)
    await telegram.wait_sent(group)
    await shared_world.settled()
    assert shared_world.answers(group) == [say("unknown_command", "ru")]
