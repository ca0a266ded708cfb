"""The tool loop: what the tools answer, what the model is told when they fail, what is kept."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest
from langchain_core.tools import BaseTool, tool

from src.config import Settings
from src.errors import StorageError
from src.graph.main_graph import build_graph
from src.llm.chat import ModelCaller, build_chat_model
from src.metrics import Metrics
from src.services.agent_service import MAX_STEPS, AgentService
from src.services.tool_history_service import ToolHistoryService
from src.storage.pg_client import PgClient
from src.storage.tool_result_repo import ToolResult, ToolResultRepository
from src.texts import Language, say
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.agent_rig import USER, Rig, incoming, open_rig

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d, \w+ \(%s, UTC[+-]\d{4}\)"


@pytest.fixture
async def rig(dsn: str, client: PgClient) -> AsyncIterator[Rig]:
    async with open_rig(dsn, client) as opened:
        yield opened


def results(rig: Rig, number: int = -1) -> list[str]:
    """What the tools answered, as the model sees it in a request."""
    return [text for role, text in rig.prompt(number) if role == "tool"]


@pytest.mark.parametrize(
    ("arguments", "zone"),
    [
        ({"time_zone": "Asia/Tokyo"}, "Asia/Tokyo"),
        ({"time_zone": " europe/kyiv "}, "Europe/Kyiv"),
        ({}, "Europe/Moscow"),
    ],
)
async def test_the_clock_knows_every_zone_and_the_user_s_own(
    rig: Rig, arguments: dict[str, str], zone: str
) -> None:
    rig.model.queue(Reply(tool_calls=[("current_time", arguments)]), "вот")
    answer = await rig.ask("который час?")
    [result] = results(rig)
    assert re.fullmatch(TIME % zone, result), result
    assert (answer.text, answer.tools) == ("вот", ("current_time",))


async def test_a_zone_that_does_not_exist_goes_back_to_the_model_and_the_turn_succeeds(
    rig: Rig,
) -> None:
    rig.model.queue(
        Reply(tool_calls=[("current_time", {"time_zone": "Mars/Olympus"})]),
        Reply(tool_calls=[("current_time", {"time_zone": "Europe/Kyiv"})]),
        "готово",
    )
    answer = await rig.ask("который час на Марсе?")
    assert "'Mars/Olympus' is no time zone" in results(rig, 1)[0]
    assert re.fullmatch(TIME % "Europe/Kyiv", results(rig)[1])
    assert (answer.text, answer.tools) == ("готово", ("current_time", "current_time"))
    errors = [error for (error,) in rig.rows("SELECT error FROM tool_results ORDER BY id")]
    assert errors[0] is not None and errors[1] is None


async def test_the_search_finds_what_was_said_before_and_not_the_question(rig: Rig) -> None:
    await rig.ask("моего кота зовут Барсик")
    await rig.ask("я живу в Омске")
    await rig.ask("кот рыжий", user=USER + 1)
    rig.model.queue(Reply(tool_calls=[("search_messages", {"query": "кот"})]), "Барсик")
    await rig.ask("как зовут кота?")
    [found] = json.loads(results(rig)[0])["messages"]
    assert found["text"] == "моего кота зовут Барсик"
    assert re.fullmatch(r"msg-\d+", found["uid"]) and found["said_at"].endswith("+03:00")


async def test_bad_arguments_go_back_to_the_model(rig: Rig) -> None:
    rig.model.queue(Reply(tool_calls=[("search_messages", {"limit": "много"})]), "ладно")
    assert (await rig.ask("найди")).text == "ладно"
    assert re.match(r"The tool refused its arguments: query: .+; limit: .+", results(rig)[0])


async def test_a_tool_that_does_not_exist_is_answered_with_the_ones_that_do(rig: Rig) -> None:
    rig.model.queue(Reply(tool_calls=[("launch_rocket", {"to": "Mars"})]), "не умею")
    answer = await rig.ask("запусти ракету")
    assert answer.text == "не умею"
    assert "launch_rocket" in results(rig)[0] and "current_time" in results(rig)[0]


def agent_with(rig: Rig, *tools: BaseTool) -> AgentService:
    """The agent of the rig with other tools."""
    settings: Settings = rig.core.settings
    history = ToolHistoryService(rig.client, ToolResultRepository(rig.client))
    caller = ModelCaller(build_chat_model(settings), "openai:fake-model", timeout=10)
    return AgentService(
        client=rig.client,
        conversations=rig.core.conversations,
        turns=rig.core.turns,
        graph=build_graph(caller, tools, wrap_tool_call=history.record),
        tool_history=history,
        metrics=Metrics(),
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
    answer = await agent.answer(await agent.begin_turn(incoming("сделай")))
    assert answer.text == "не вышло"
    [told] = results(rig)
    assert told.startswith("The tool failed (") and "внутри" not in told
    [(name, error)] = rig.rows("SELECT name, error FROM tool_results")
    assert name == failing.name and error is not None


@pytest.mark.parametrize("language", ["ru", "uk", "en"])
async def test_a_model_that_never_stops_calling_tools_is_ended_with_a_polite_sentence(
    rig: Rig, language: Language
) -> None:
    rig.model.reply = lambda _request: Reply(tool_calls=[("current_time", {})])
    answer = await rig.ask("?", language=language)
    assert answer.text == say("too_many_steps", language) == rig.stored()[1][1]
    assert 5 <= rig.model.request_count <= MAX_STEPS / 2
    assert rig.rows("SELECT count(*) FROM model_usage") == [(rig.model.request_count,)]

    rig.model.reply = lambda _request: "снова здесь"
    assert (await rig.ask("а теперь?", language=language)).text == "снова здесь"


async def test_the_rounds_of_one_turn_all_reach_the_model(rig: Rig) -> None:
    def reply(request: ChatRequest) -> Reply:
        rounds = sum(message["role"] == "tool" for message in request.messages)
        if rounds == 3:
            return Reply(text="три раза")
        return Reply(text=f"шаг {rounds} ", tool_calls=[("current_time", {})])

    rig.model.reply = reply
    answer = await rig.ask("?")
    assert answer.text == "три раза" and answer.tools == ("current_time",) * 3
    roles = [role for role, _ in rig.prompt()]
    assert roles == ["system", "user", *["assistant", "tool"] * 3]


async def test_tool_calls_are_recorded_with_their_results_and_cleared_by_new(rig: Rig) -> None:
    call = ("search_messages", {"query": "кот", "limit": 2})
    for user in (USER, USER + 1):
        rig.model.queue(Reply(tool_calls=[call]), "нет")
        await rig.ask("где кот?", user)
    turn = await rig.begin("ещё")
    [result] = ToolResultRepository(rig.client).list_newest(turn.conversation_id)
    expected = ToolResult(call[0], call[1], '{"messages": []}', result.duration_ms, None)
    assert result == expected and result.duration_ms >= 0

    await rig.core.agent.start_new_conversation(USER)
    left = rig.rows(
        "SELECT c.telegram_user_id FROM tool_results t"
        " LEFT JOIN conversations c ON c.id = t.conversation_id"
    )
    assert left == [(USER + 1,)], "the other user's stay"
