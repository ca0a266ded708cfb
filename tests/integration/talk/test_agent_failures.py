"""Turns that fail, are repeated, are stopped, or lose their conversation."""

from __future__ import annotations

import asyncio

import pytest

from src.base.errors import ConversationGoneError, ModelError, ModelUnavailableError
from src.base.owners import Mode, Owner
from src.history.conversation_repo import TelegramOrigin
from src.talk.command_service import COMMANDS
from src.talk.commands import Command, parse_command
from src.talk.turn_control import TurnControl, TurnStoppedError
from src.texts import LANGUAGES, Language, say
from tests.fakes.openai_server import Reply
from tests.help_pages import help_of
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


async def test_a_refusing_model_is_an_error_that_is_not_repeated(rig: Rig) -> None:
    rig.model.queue(Reply(status=413))
    with pytest.raises(ModelError):
        await rig.ask("?")
    assert rig.model.request_count == 1 and len(rig.stored()) == 1


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


async def test_two_workers_on_one_message_store_one_answer(rig: Rig) -> None:
    gate = asyncio.Event()
    rig.model.queue(Reply(text="первый", gate=gate), Reply(text="второй", gate=gate))
    turn = await rig.begin("привет", origin=ORIGIN)
    both = [asyncio.create_task(answer_turn(rig.core.agent, turn)) for _ in range(2)]
    await rig.model.wait_for(lambda: rig.model.waiting_at_gate == 2)
    gate.set()
    one, other = await asyncio.gather(*both)
    assert (one.id, one.text) == (other.id, other.text)
    assert [role for role, _ in rig.stored()] == ["user", "assistant"]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_stop_in_mid_answer_keeps_what_was_written(rig: Rig, language: Language) -> None:
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
    control = TurnControl()
    control.stop()
    turn = await rig.begin("считай")
    answer = await answer_turn(rig.core.agent, turn, control=control)
    assert (answer.text, rig.model.request_count) == (say("stopped_early", "ru"), 0)
    assert await find_stop(rig) == "shown"


async def test_a_stop_that_comes_too_late_changes_nothing(rig: Rig) -> None:
    control = TurnControl()
    turn = await rig.begin("привет")
    answer = await answer_turn(rig.core.agent, turn, control=control)
    control.stop()
    assert rig.stored()[-1] == ("assistant", answer.text)
    assert await find_stop(rig) is None


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


async def test_a_stopped_control_runs_nothing() -> None:
    async def generate() -> None:
        raise AssertionError("it must not run")

    control = TurnControl()
    control.stop()
    with pytest.raises(TurnStoppedError):
        await control.run(generate())


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


async def test_new_forgets_one_owner_s_words_and_nobody_else_s(rig: Rig) -> None:
    await rig.ask("тайна")
    await rig.ask("другое", USER + 1)
    await rig.command("new", USER, language="ru")
    await rig.ask("что я говорил?")
    assert "тайна" not in str(rig.model.requests[-1].raw)
    assert len(rig.stored(USER + 1)) == 2


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("command", "key"), [
    ("start", "start"), ("mode", "mode_is_assistant"), ("undo", "undo_nothing"),
    ("new", "new_done"), ("stop", "stop_nothing"), ("launch", "unknown_command"),
])  # fmt: skip
async def test_commands_answer_in_the_user_s_language(
    rig: Rig, command: str, key: str, language: Language
) -> None:
    reply = await rig.command(command, USER, language=language)
    assert reply.startswith(say(key, language))
    page = await rig.command("help", USER, language=language)
    assert page == help_of(language)
    assert rig.model.request_count == 0


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_mode_is_set_said_and_kept_for_each_user(rig: Rig, language: Language) -> None:
    async def mode(argument: str = "", user: int = USER) -> str:
        return await rig.command("mode", user, language=language, argument=argument)

    assert (await rig.core.commands.settings.get(Owner(USER))).mode == "assistant"
    assert await mode("STRICT") == say("mode_set_strict", language)
    assert await mode() == say("mode_is_strict", language)
    unknown = f"{say('mode_unknown', language)}\n{say('mode_is_strict', language)}"
    assert await mode("nonsense") == unknown, "and nothing changes"
    assert (await rig.core.commands.settings.get(Owner(USER))).mode == "strict"
    assert (await rig.core.commands.settings.get(Owner(USER + 1))).mode == "assistant"
    assert await mode("assistant") == say("mode_set_assistant", language)
    assert (await rig.core.commands.settings.get(Owner(USER))).mode == "assistant"


@pytest.mark.parametrize(("word", "mode"), [
    ("строгий", "strict"), ("Строго", "strict"), ("суворий", "strict"), ("обычный", "assistant"),
    ("звичайний", "assistant"), ("асистент", "assistant"),
])  # fmt: skip
async def test_the_mode_has_names_in_every_language(rig: Rig, word: str, mode: Mode) -> None:
    other = "assistant" if mode == "strict" else "strict"
    await rig.command("mode", USER, language="ru", argument=other)
    await rig.command("mode", USER, language="ru", argument=word)
    assert (await rig.core.commands.settings.get(Owner(USER))).mode == mode


async def save(rig: Rig, text: str) -> None:
    """The user tells where he lives, and the model saves it."""
    fact = {"text": text, "quote": text, "relation": "lives_in", "object": text.split()[-1]}
    rig.model.queue(Reply(tool_calls=[("save_user_fact", fact)]), "ок")
    await rig.ask(text)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_undo_brings_back_what_was_replaced_once(rig: Rig, language: Language) -> None:
    def living() -> list[tuple[str]]:
        return rig.rows("SELECT text FROM memories WHERE retired_at IS NULL")

    await save(rig, "Я живу в Омске")
    await save(rig, "Я живу в Томске")
    assert living() == [("Я живу в Томске",)]
    assert await rig.command("undo", USER + 1, language=language) == say("undo_nothing", language)
    assert await rig.command("undo", USER, language=language) == say(
        "undo_done", language, text="Я живу в Томске", restored="Я живу в Омске"
    )
    assert living() == [("Я живу в Омске",)]
    assert await rig.command("undo", USER, language=language) == say("undo_nothing", language)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_new_says_how_many_facts_survive_it(rig: Rig, language: Language) -> None:
    await save(rig, "Я живу в Омске")
    expected = f"{say('new_done', language)} {say('new_facts', language, count=1)}"
    assert await rig.command("new", USER, language=language) == expected
    assert rig.stored() == []
    await rig.ask("где я живу?")
    assert "Омске" in rig.block("user_facts") and "Омске" not in str(rig.prompt()[-1])
    assert await rig.command("new", USER + 1, language=language) == say("new_done", language)


@pytest.mark.parametrize(("text", "expected"), [
    ("/new", Command("new")), ("/NEW please", Command("new", argument="please")),
    ("/new@Pomni_bot\nx", Command("new", "Pomni_bot", "x")),
    ("/mode  strict \n", Command("mode", argument="strict")),
    ("/mode@Pomni_bot Строгий режим", Command("mode", "Pomni_bot", "Строгий режим")),
    ("/mode@Pomni_bot", Command("mode", "Pomni_bot")), ("/launch_2", Command("launch_2")),
    ("/new!", None), ("/новый", None), (" /new", None), ("/", None), ("/tmp/file", None),
    ("new", None),
])  # fmt: skip
def test_a_command_is_a_slash_and_a_name_at_the_very_beginning(
    text: str, expected: Command | None
) -> None:
    assert parse_command(text) == expected


def test_a_command_is_for_the_bot_that_it_names() -> None:
    assert Command("new").is_for("pomni_bot") and "new" in COMMANDS
    assert Command("new", "Pomni_Bot").is_for("pomni_bot")
    assert not Command("new", "other_bot").is_for("pomni_bot")
