"""Turns that fail, are repeated, are stopped, or lose their conversation."""

from __future__ import annotations

import asyncio

import pytest

from src.base.errors import ConversationGoneError, ModelUnavailableError
from src.base.owners import Owner
from src.history.conversation_repo import TelegramOrigin
from src.talk.turn_state import TurnControl
from src.texts import Language, say
from tests.fakes.openai_server import Reply
from tests.integration.person import USER, Rig, Watcher
from tests.integration.turns import answer_turn

ORIGIN = TelegramOrigin(bot_id=42, chat_id=USER, message_id=7, sender_id=USER)


async def find_stop(rig: Rig) -> str | None:
    return await rig.core.client.run(rig.core.turns.find_stop, Owner(USER))


async def test_a_failing_model_leaves_the_question_the_usage_and_no_answer(rig: Rig) -> None:
    rig.model.queue(Reply(tool_calls=[("current_time", {})], prompt_tokens=5), Reply(status=503))
    with pytest.raises(ModelUnavailableError):
        await rig.ask("который час?")
    assert [role for role, _ in rig.stored()] == ["user"]
    usage = rig.rows(
        "SELECT prompt_tokens, error LIKE '%%HTTP 503%%' FROM model_usage ORDER BY id"
    )
    assert usage == [(5, None), (0, True)]


async def test_a_retry_after_a_failure_stores_the_message_once(rig: Rig) -> None:
    rig.model.queue(Reply(status=503))
    first = await rig.begin("привет", origin=ORIGIN)
    with pytest.raises(ModelUnavailableError):
        await answer_turn(rig.core.agent, first)
    again = await rig.begin("привет", origin=ORIGIN)
    assert (again.message_id, first.is_new, again.is_new) == (first.message_id, True, False)
    assert again.answer is None

    answer = await answer_turn(rig.core.agent, again)
    assert [content.rpartition("] ")[2] for _, content in rig.stored()] == ["привет", answer.text]
    assert sum("привет" in text for _, text in rig.prompt()) == 1


async def test_a_turn_that_has_its_answer_makes_no_model_call(rig: Rig) -> None:
    answer = await rig.ask("привет", origin=ORIGIN)
    again = await rig.begin("привет", origin=ORIGIN)
    assert again.answer is not None and not again.is_new
    assert (again.answer.id, again.answer.text) == (answer.id, answer.text)
    assert again.answer.delivered and again.answer.delivered_parts == 1
    before = rig.client.statements
    assert await answer_turn(rig.core.agent, again) == again.answer
    assert (rig.model.request_count, rig.client.statements) == (1, before)


async def test_a_stop_in_mid_answer_keeps_what_was_written(rig: Rig) -> None:
    language: Language = "uk"
    gate = asyncio.Event()
    rig.model.queue(Reply(text="раз два три", chunk_size=8, gate=gate, gate_after_chunks=1))
    watcher = Watcher(stop_at="два")
    turn = await rig.begin("считай", language=language)
    answer = await answer_turn(rig.core.agent, turn, control=watcher.control, on_text=watcher.show)
    assert answer.text == f"раз два\n\n{say('stopped_early', language)}"
    assert rig.stored()[-1] == ("assistant", answer.text)
    assert rig.rows("SELECT stopped_at IS NOT NULL FROM messages ORDER BY id") == [
        (True,),
        (False,),
    ]
    assert await find_stop(rig) == "shown"
    await rig.model.wait_for(lambda: rig.model.abandoned == 1, what="the connection's end")
    assert await rig.command("stop", USER, language=language) == "", "the answer says it"
    await rig.ask("дальше", language=language)
    assert ("assistant", answer.text) in rig.prompt()
    assert await find_stop(rig) is None


async def test_a_stop_before_the_model_begins_makes_no_call(rig: Rig) -> None:
    turn, control = await rig.begin("привет"), TurnControl()
    answer = await answer_turn(rig.core.agent, turn, control=control)
    control.stop()
    assert answer.text == "эхо: привет" and await find_stop(rig) is None, "it came too late"
    rig.model.requests.clear()
    turn = await rig.begin("считай")
    answer = await answer_turn(rig.core.agent, turn, control=control)
    assert (answer.text, rig.model.requests) == (say("stopped_early", "ru"), [])
    assert await find_stop(rig) == "shown"


@pytest.mark.parametrize("status", [200, 503])
async def test_new_while_the_model_writes_leaves_no_old_turn(rig: Rig, status: int) -> None:
    gate = asyncio.Event()
    calls = [("current_time", {})]
    rig.model.queue(Reply(tool_calls=calls, gate=gate), Reply(text="поздно", status=status))
    turn = await rig.begin("тайна")
    answering = asyncio.create_task(answer_turn(rig.core.agent, turn))
    await rig.model.wait_for(lambda: rig.model.waiting_at_gate == 1)
    fresh = await rig.core.commands.forgetting.start_new_conversation(Owner(USER))
    gate.set()
    expected = ConversationGoneError if status == 200 else ModelUnavailableError
    with pytest.raises(expected):
        await answering
    assert fresh != turn.conversation_id and rig.stored() == []
    assert rig.rows("SELECT id::text FROM conversations") == [(str(fresh),)]
    for table in ("messages", "tool_results", "model_usage"):
        assert rig.rows(f"SELECT count(*) FROM {table}") == [(0,)], table


async def test_a_shutdown_is_no_stop_of_the_user_s(rig: Rig) -> None:
    rig.model.queue(Reply(hang=True))
    turn = await rig.begin("привет")
    control = TurnControl()
    task = asyncio.create_task(answer_turn(rig.core.agent, turn, control=control))
    await rig.model.wait_for(lambda: rig.model.active == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await rig.model.wait_for(lambda: rig.model.abandoned == 1)
    assert [role for role, _ in rig.stored()] == ["user"] and not control.stopped
