"""What Telegram refuses while an answer grows, moves and waits, in a running bot."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.e2e.bot_process import World
from tests.e2e.conftest import is_of_a_turn
from tests.fakes.openai_server import Reply
from tests.fakes.telegram_people import Sender
from tests.integration.phone import buttons

NAME = "@pomni_test_bot"
GROWING = "слово " * 60 + "конец"
_people = itertools.count(2**41 + 90_001)


async def begin(world: World, person: int, place: Sender, text: str = GROWING) -> asyncio.Event:
    """Ask for an answer that stops growing after its beginning; returns the gate to its rest."""
    other, gate = next(_people), asyncio.Event()
    await world.telegram.send_text(other, "привет")  # a model's first reply shows its thoughts
    await world.telegram.wait_sent(other)
    world.model.queue(Reply(text=text, chunk_size=60, gate=gate, gate_after_chunks=2))
    await world.telegram.send_text(person, f"{NAME} расскажи", **place)
    return gate


def topic_of(person: int) -> Sender:
    return Sender(chat_id=-person, chat_type="supergroup", thread_id=7)


@pytest.mark.parametrize("refusal", [
    "message can't be edited", "message to edit not found", "message thread not found",
    "TOPIC_CLOSED", "not enough rights to send text messages to the chat", "NEW_REASON_OF_2027",
    "Too Many Requests: retry after 2",
])  # fmt: skip
async def test_an_answer_that_cannot_go_on_growing_arrives_once(
    shared_world: World, refusal: str
) -> None:
    telegram, person = shared_world.telegram, next(_people)
    gate = await begin(shared_world, person, topic_of(person))
    [growing] = await telegram.wait_sent(-person)
    if refusal == "TOPIC_CLOSED":
        telegram.close_topic(-person, 7)
    wait = {"retry_after": 2} if refusal.startswith("Too") else None
    status = 429 if wait else 400
    telegram.fail_next("editMessageText", status=status, description=refusal, parameters=wait)
    gate.set()
    await shared_world.settled()
    ends = [one for one in telegram.sent if one.chat_id in (person, -person)
            and one.text.endswith("конец")]  # fmt: skip
    assert len(ends) == 1 and growing.text.startswith("слово")


@pytest.mark.parametrize("streaming", ["edits", "drafts", "off"])
async def test_a_slow_answer_grows_and_stops_as_it_is_set(world: World, streaming: str) -> None:
    telegram, person = world.telegram, next(_people)
    world.model.takes_queued = is_of_a_turn
    await world.start(STREAMING=streaming)
    for place in (topic_of(person), Sender(chat_id=person)):
        chat = place["chat_id"] or 0
        is_draft = streaming == "drafts" and chat == person
        gate = await begin(world, person, place)
        if streaming == "off":
            await world.model.wait_for(lambda: world.model.waiting_at_gate)
            assert telegram.sent_to(chat) == []
        elif is_draft:
            await telegram.wait_for(lambda: telegram.drafts)
        else:
            [answer] = await telegram.wait_sent(chat)
            [[(label, data)]] = buttons(answer)
            assert "⏹" in label
            await telegram.press_button(person, answer.message_id, data, chat_id=chat)
            await telegram.wait_for(lambda answer=answer: not answer.reply_markup)
        gate.set()
        await world.settled()
        [answer] = telegram.sent_to(chat)
        assert answer.text.startswith("слово") and not answer.reply_markup
        assert bool(telegram.drafts) == is_draft


async def test_a_long_answer_grows_in_one_message_and_goes_on_in_others(
    shared_world: World,
) -> None:
    telegram, person = shared_world.telegram, next(_people)
    gate = await begin(shared_world, person, Sender(), "слово " * 1500 + "конец")
    [growing] = await telegram.wait_sent(person)
    assert buttons(growing)
    gate.set()
    await shared_world.settled()
    sent = telegram.sent_to(person)
    assert sent[0] is growing and not buttons(growing) and len(sent) == 3
    assert " ".join(one.text for one in sent).split() == ["слово"] * 1500 + ["конец"]


async def test_a_group_that_was_upgraded_is_answered_in_its_new_chat(shared_world: World) -> None:
    telegram, member, group = shared_world.telegram, next(_people), -next(_people)
    new, place = -1_000_000_000_000 + group, Sender(chat_id=group, chat_type="group")
    await telegram.send_text(member, f"/remind{NAME} завтра в 9 чай", **place)
    await telegram.wait_sent(group)
    telegram.fail_next(
        "sendMessage",
        status=400,
        description="Bad Request: group chat was upgraded to a supergroup chat",
        parameters={"migrate_to_chat_id": new},
    )
    await telegram.send_text(member, f"{NAME} ты здесь?", **place)
    [answer] = await telegram.wait_sent(new)
    await shared_world.settled()
    assert "ты здесь?" in answer.text
    owners = "SELECT telegram_user_id FROM reminders JOIN owners o ON o.id = owner_id"
    assert (new,) in shared_world.query(owners) and (group,) not in shared_world.query(owners)


async def test_menus_that_must_wait_keep_nobody_waiting(world: World) -> None:
    telegram, person = world.telegram, next(_people)
    telegram.fail_next("setMyCommands", status=429, parameters={"retry_after": 490})
    await world.start()
    await telegram.wait_for(lambda: telegram.calls_of("setMyCommands"))
    for count in (1, 2, 3):
        await telegram.send_text(person, "привет")
        await telegram.wait_sent(person, count)
    assert len(telegram.calls_of("setMyCommands")) == 1
