"""The tool loop: what the tools answer, what the model is told when they fail, what is kept."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta

import pytest
from langchain_core.tools import BaseTool, tool

from src.base.errors import StorageError
from src.base.metrics import Metrics
from src.base.owners import Owner
from src.core import build_caller
from src.llm.quoting import form_tool
from src.llm.tokens import TokenCounter
from src.memory.tools import SAVE, save_user_fact
from src.talk.graph_run import MAX_STEPS
from src.talk.main_graph import Models, build_graph
from src.talk.tools import ToolHistoryService
from src.talk.turn import AgentService
from src.talk.turn_control import TurnControl
from src.texts import Language, say
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import NOON, USER, Rig, incoming
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


async def test_a_zone_that_does_not_exist_goes_back_to_the_model_the_turn_goes_on(
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


async def test_a_memory_keeps_its_number_however_often_it_is_found(rig: Rig) -> None:
    await rig.tell("моего кота зовут Барсик")
    await rig.tell("а собаку зовут Рекс")
    first, *others = (
        ("search_memory", {"query": query}) for query in ("собаку", "кота", "собаку Рекс")
    )
    rig.model.queue(
        Reply(tool_calls=[first]), Reply(tool_calls=[first, *others]), "Рекс [1], а не [7]"
    )
    answer = await rig.ask("как зовут собаку?")
    found = [memory for text in results(rig) for memory in json.loads(text)["memories"]]
    numbers = {memory["text"]: memory["n"] for memory in found}
    assert numbers == {"а собаку зовут Рекс": 1, "моего кота зовут Барсик": 2}
    assert len(found) >= 4 and all(numbers[memory["text"]] == memory["n"] for memory in found)
    assert answer.text == "Рекс [1], а не"
    assert [(s.number, s.text) for s in answer.sources] == [(1, "а собаку зовут Рекс")]


async def test_the_search_returns_one_to_twenty_memories(rig: Rig) -> None:
    conversation = rig.conversation()
    rig.fill(conversation, *[("user", f"у кота {number} котят") for number in range(25)])
    await rig.core.memory.digest.digest_turn(conversation)
    found = {}
    for limit in (-3, 0, 2, 20, 1000):
        search = Reply(tool_calls=[("search_memory", {"query": "кот", "limit": limit})])
        rig.model.queue(search, "да")
        await rig.ask("сколько котят?")
        found[limit] = len(json.loads(results(rig)[-1])["memories"])
    assert found == {-3: 1, 0: 1, 2: 2, 20: 20, 1000: 20}


async def test_a_saved_fact_is_in_the_prompt_of_the_very_next_model_call(rig: Rig) -> None:
    fact = {"text": "Меня зовут Анна", "quote": "меня зовут Анна", "importance": 9}
    rig.model.queue(Reply(tool_calls=[("save_user_fact", fact)]), "Запомнил.")
    answer = await rig.ask("привет, меня зовут Анна")
    [(number,)] = rig.rows("SELECT id FROM memories")
    assert json.loads(results(rig)[0]) == {
        "saved": True, "outcome": "new", "id": f"fact-{number}", "text": "Меня зовут Анна",
        "replaced": [], "reason": None,
    }  # fmt: skip
    assert rig.block("user_facts", 0) == "" and "Меня зовут Анна" in rig.block("user_facts", 1)
    assert (answer.text, answer.tools) == ("Запомнил.", ("save_user_fact",))
    [(text, owner)] = rig.rows("SELECT text, telegram_user_id FROM facts")
    assert (text, owner) == ("Меня зовут Анна", USER)
    assert rig.rows("SELECT uid, quote FROM memory_sources") == [
        (f"msg-{rig.rows('SELECT min(id) FROM messages')[0][0]}", "меня зовут Анна")
    ]


async def test_a_fact_is_as_old_as_its_message_and_not_as_old_as_the_minute(rig: Rig) -> None:
    """So what is said later in the same minute is not taken for something older."""
    home = {"relation": "lives_in", "importance": 7}
    old = {"text": "Я живу в Омске", "quote": "Я живу в Омске", "object": "Омске", **home}
    rig.model.queue(Reply(tool_calls=[("Understanding", {"intent": "teach", "facts": [old]})]))
    await rig.ask("Я живу в Омске", mode="strict", moment=NOON + timedelta(seconds=10))
    new = {"text": "Я живу в Томске", "quote": "Я живу в Томске", "object": "Томске", **home}
    rig.model.queue(Reply(tool_calls=[("save_user_fact", new)]), "Запомнил.")
    await rig.ask("Я живу в Томске", moment=NOON + timedelta(seconds=40))
    assert json.loads(results(rig)[0])["outcome"] == "update"
    living = "SELECT f.text, s.said_at FROM memories f JOIN memory_sources s ON s.memory_id = f.id"
    assert rig.rows(f"{living} WHERE f.retired_at IS NULL") == [
        ("Я живу в Томске", NOON + timedelta(seconds=40))
    ]


@pytest.mark.parametrize(("said", "fact", "reason"), [
    ("меня зовут Анна", {"text": "Меня зовут Ольга", "quote": "Ольга"}, "quote_not_said"),
    ("мой пин-код 4821", {"text": "Пин-код 4821", "quote": "пин-код 4821"}, "secret"),
])  # fmt: skip
async def test_a_fact_that_is_refused_says_why_and_is_not_stored(
    rig: Rig, said: str, fact: dict[str, str], reason: str
) -> None:
    rig.model.queue(Reply(tool_calls=[("save_user_fact", fact)]), "ладно")
    await rig.ask(said)
    result = json.loads(results(rig)[0])
    assert (result["saved"], result["outcome"], result["reason"]) == (False, "refused", reason)
    assert rig.block("user_facts") == ""
    assert rig.rows("SELECT count(*) FROM memories") == [(0,)]
    assert rig.rows("SELECT reason FROM rejected_facts") == [(reason,)]


async def forget_the_cat(rig: Rig) -> None:
    """Two users tell the same; the first one has it forgotten, by references to both."""
    for user in (USER, USER + 1):
        await rig.tell("моего кота зовут Барсик", user)
    uids = [f"msg-{id_}" for (id_,) in rig.rows("SELECT id FROM messages WHERE role = 'user'")]
    rig.model.queue(Reply(tool_calls=[("forget_fact", {"ids": uids})]), "забыл")
    await rig.ask("забудь, что моего кота зовут Барсик")
    assert json.loads(results(rig)[0])["forgotten"] == ["моего кота зовут Барсик"]


async def test_what_is_forgotten_is_found_no_more_and_others_keep_theirs(rig: Rig) -> None:
    rig.model.reply = lambda _request: "понятно"
    await forget_the_cat(rig)
    for user, found in ((USER, 0), (USER + 1, 1)):
        rig.model.queue(Reply(tool_calls=[("search_memory", {"query": "кота Барсик"})]), "вот")
        await rig.ask("как зовут кота?", user)
        assert len(json.loads(results(rig)[0])["memories"]) == found
        assert ("Барсик" in str(rig.prompt(-2))) is bool(found)


async def test_what_is_forgotten_is_gone_from_the_answers_that_repeated_it(rig: Rig) -> None:
    await forget_the_cat(rig)  # the model echoes
    await rig.ask("как зовут кота?")
    assert "Барсик" not in str(rig.prompt())


async def test_bad_arguments_go_back_to_the_model(rig: Rig) -> None:
    rig.model.queue(Reply(tool_calls=[("search_memory", {"limit": "много"})]), "ладно")
    assert (await rig.ask("найди")).text == "ладно"
    assert re.match(r"The tool refused its arguments: limit: .+", results(rig)[0])


async def test_a_tool_that_does_not_exist_is_answered_with_the_ones_that_do(rig: Rig) -> None:
    rig.model.queue(Reply(tool_calls=[("launch_rocket", {"to": "Mars"})]), "не умею")
    answer = await rig.ask("запусти ракету")
    assert answer.text == "не умею"
    assert "launch_rocket" in results(rig)[0] and "current_time" in results(rig)[0]


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
        core.memory.memories,
        settings=core.memory.settings,
        questions=core.questions,
        ceilings=core.ceilings,
        metrics=Metrics(),
        zones=core.zones,
        briefs=core.briefs,
        follow_ups=core.follow_ups,
        has_model=True,
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


@pytest.mark.parametrize("language", ["ru", "uk", "en"])
async def test_a_model_that_never_stops_calling_tools_is_ended_with_a_polite_sentence(
    rig: Rig, language: Language
) -> None:
    rig.model.reply = lambda _request: Reply(tool_calls=[("current_time", {})])
    answer = await rig.ask("?", language=language)
    assert answer.text == say("too_many_steps", language) == rig.stored()[1][1]
    assert 5 <= rig.model.request_count <= MAX_STEPS / 3
    assert rig.rows("SELECT count(*) FROM model_usage") == [(rig.model.request_count,)]

    rig.model.reply = lambda _request: "снова здесь"
    assert (await rig.ask("а теперь?", language=language)).text == "снова здесь"


@pytest.mark.parametrize("name", ["current_time", "save_user_fact"])
async def test_six_rounds_of_tools_fit_into_a_turn(rig: Rig, name: str) -> None:
    """As when somebody introduces himself, and the model saves one fact after the other."""
    people = ("брат Олег", "сестра Вера", "кот Барсик", "друг Иван", "сын Пётр", "дочь Анна")
    said = "; ".join(f"у меня есть {person}" for person in people)

    def arguments(person: str) -> dict[str, str]:
        text = f"у меня есть {person}"
        return {} if name == "current_time" else {"text": text, "quote": text}

    rig.model.queue(*(Reply(tool_calls=[(name, arguments(person))]) for person in people), "всё")
    answer = await rig.ask(said)
    assert (answer.text, answer.tools) == ("всё", (name,) * 6)


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
    call = ("search_memory", {"query": "кот", "limit": 2})
    for user in (USER, USER + 1):
        rig.model.queue(Reply(tool_calls=[call]), "нет")
        await rig.ask("где кот?", user)
    turn = await rig.begin("ещё")
    [(*result, duration_ms)] = rig.rows(
        "SELECT name, arguments, result, error, duration_ms FROM tool_results"
        " WHERE conversation_id = %(id)s",
        id=str(turn.conversation_id),
    )
    assert result == [*call, '{"memories": []}', None] and duration_ms >= 0

    await rig.core.commands.forgetting.start_new_conversation(Owner(USER))
    left = rig.rows(
        "SELECT c.telegram_user_id FROM tool_results t"
        " LEFT JOIN conversations c ON c.id = t.conversation_id"
    )
    assert left == [(USER + 1,)], "the other user's stay"
