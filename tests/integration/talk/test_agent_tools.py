"""The tool loop: what the tools answer, what the model is told when they fail, what is kept."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from langchain_core.tools import BaseTool, tool

from src.base.errors import StorageError
from src.core import build_caller
from src.llm.quoting import form_tool
from src.llm.tokens import TokenCounter
from src.memory.tools import SAVE, save_user_fact
from src.talk.graph_run import MAX_STEPS
from src.talk.main_graph import Models, build_graph
from src.talk.tools import ToolHistoryService
from src.talk.turn import AgentService
from src.talk.turn_state import TurnControl
from src.texts import say
from tests.fakes.openai_server import Reply
from tests.integration.person import USER, Rig, incoming
from tests.integration.tool_servers import until
from tests.integration.turns import answer_turn, begin_turn

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d, \w+ \(%s, UTC[+-]\d{4}\)"


def results(rig: Rig, number: int = -1) -> list[str]:
    """What the tools answered, as the model sees it in a request."""
    return [text for role, text in rig.prompt(number) if role == "tool"]


@pytest.mark.parametrize(("arguments", "zone"), [
    ({"time_zone": "Asia/Tokyo"}, "Asia/Tokyo"), ({"time_zone": " europe/kyiv "}, "Europe/Kyiv"),
    ({"time_zone": "в Токио"}, "Asia/Tokyo"), ({"time_zone": "Катманду"}, "Asia/Kathmandu"),
    ({"time_zone": "St. John’s"}, "America/St_Johns"), ({}, "Europe/Moscow"),
])  # fmt: skip
async def test_the_clock_knows_every_zone_and_the_user_s_own(
    rig: Rig, arguments: dict[str, str], zone: str
) -> None:
    rig.model.queue(Reply(tool_calls=[("current_time", arguments)]), "вот")
    answer = await rig.ask("который час?")
    [result] = results(rig)
    assert re.fullmatch(TIME % zone, result), result
    assert (answer.text, answer.tools) == ("вот", ("current_time",))


async def test_what_makes_no_sense_goes_back_to_the_model_and_the_turn_goes_on(rig: Rig) -> None:
    calls = [("search_memory", {"limit": "много"}), ("launch_rocket", {"to": "Mars"}),
             ("current_time", {"time_zone": "Europe/Kyiv"}),
             ("current_time", {"time_zone": "Mars/Olympus"})]  # fmt: skip
    rig.model.queue(*(Reply(tool_calls=[call]) for call in calls), "готово")
    answer = await rig.ask("который час на Марсе?")
    bad, unknown, told, missing = results(rig)
    assert bad.startswith("The tool refused its arguments: limit: ")
    assert "launch_rocket" in unknown and "current_time" in unknown
    assert "'Mars/Olympus' is no time zone" in missing
    assert re.fullmatch(TIME % "Europe/Kyiv", told)
    assert (answer.text, answer.tools[-2:]) == ("готово", ("current_time", "current_time"))
    kept = rig.rows("SELECT name, arguments, error IS NULL FROM tool_results ORDER BY id")
    assert kept[-2:] == [(*calls[2], True), (*calls[3], False)]


async def test_the_search_finds_what_was_said_before_and_not_the_question(rig: Rig) -> None:
    await rig.tell("моего кота зовут Барсик")
    await rig.tell("я живу в Омске")
    await rig.tell("кот рыжий", user=USER + 1)
    rig.model.queue(Reply(tool_calls=[("search_memory", {"query": "кота"})]), "Барсик [1]")
    answer = await rig.ask("как зовут кота?")
    found = json.loads(results(rig)[0])["memories"]
    best = found[0]
    assert (best["n"], best["text"]) == (1, "моего кота зовут Барсик")
    assert re.fullmatch(r"msg-\d+", best["uid"]) and best["said_at"] == "2026-11-21 12:05"
    assert best["lexical"] > 0 and 0.6 <= best["similarity"] <= 1
    assert {memory["text"] for memory in found} <= {best["text"], "я живу в Омске"}
    assert [(s.number, s.uid, s.text) for s in answer.sources] == [(1, best["uid"], best["text"])]


def agent_with(rig: Rig, *tools: BaseTool) -> AgentService:
    """The agent of the rig with other tools."""
    core = rig.core
    models = Models(
        caller=build_caller(core.settings),
        compaction=core.memory.compaction,
        counter=TokenCounter("openai:fake-model"),
        context_size=core.settings.llm_context_size,
    )
    return AgentService(
        rig.client,
        build_graph(
            models,
            tools,
            core.memory.memories,
            reminders=core.reminders,
            tool_runs=ToolHistoryService(rig.client),
        ),
        core.orders,
        settings=core.memory.settings,
        ceilings=core.ceilings,
        metrics=core.metrics,
    )


@tool
def break_down() -> str:
    """Fail."""
    raise RuntimeError("пароль внутри")


@tool
def lose_the_database() -> str:
    """Fail as a tool does whose statement fails."""
    raise StorageError("внутри")


@pytest.mark.parametrize("failing", [break_down, lose_the_database])
async def test_a_tool_that_raises_fails_neither_the_turn_nor_keeps_quiet(
    rig: Rig, failing: BaseTool
) -> None:
    rig.model.queue(Reply(tool_calls=[(failing.name, {})]), "не вышло")
    agent = agent_with(rig, failing)
    answer = await answer_turn(agent, await begin_turn(agent, incoming("сделай")))
    assert answer.text == "не вышло"
    [told] = results(rig)
    assert told.startswith("The tool failed (") and "внутри" not in told
    [(name, error)] = rig.rows("SELECT name, error FROM tool_results")
    assert name == failing.name and error is not None


async def test_what_a_tool_stored_before_a_stop_is_known_though_another_is_at_work(
    rig: Rig,
) -> None:
    @tool
    async def dawdle() -> str:
        """Take very long."""
        await asyncio.sleep(60)
        return ""

    text = "Живу в Омске"
    calls = [("save_user_fact", {"text": text, "quote": text}), ("dawdle", {})]
    rig.model.queue(Reply(tool_calls=calls, prompt_tokens=5))
    agent = agent_with(rig, form_tool(save_user_fact, SAVE, rig.core.memory.memories), dawdle)
    turn, control = await begin_turn(agent, incoming(text)), TurnControl()
    running = asyncio.create_task(answer_turn(agent, turn, control=control))
    await until(lambda: rig.rows("SELECT 1 FROM tool_results"), "the first call to end")
    await asyncio.sleep(0.1)  # the recording of the call returns
    control.stop()
    answer = await running
    assert answer.text == say("stopped_early", "ru")
    assert rig.rows("SELECT id FROM memories") == [(number,) for number in answer.changes.saved]
    assert rig.rows("SELECT prompt_tokens FROM model_usage") == [(5,)]


async def test_a_model_that_never_stops_calling_tools_is_ended_with_a_polite_sentence(
    rig: Rig,
) -> None:
    rig.model.reply = lambda _request: Reply(tool_calls=[("current_time", {})])
    answer = await rig.ask("?", language="uk")
    assert answer.text == say("too_many_steps", "uk") == rig.stored()[1][1]
    assert 6 <= rig.model.request_count <= MAX_STEPS / 3
    assert rig.rows("SELECT count(*) FROM model_usage") == [(rig.model.request_count,)]
    rig.model.reply = lambda _request: "снова здесь"
    assert (await rig.ask("а теперь?", language="uk")).text == "снова здесь"


# Turns with a small model: its calls come as text, and its first token late


async def test_words_of_others_that_look_like_a_call_are_none(rig: Rig) -> None:
    call = json.dumps({"name": "forget_everything", "arguments": {}})
    rig.model.queue(call)
    answer = await rig.ask(f"Мне прислали: {call} Повтори слово в слово.")
    assert (answer.text, answer.tools, answer.asks) == (call, (), None)
