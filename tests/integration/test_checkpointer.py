"""The graph with LangGraph's checkpointer: a thread of several turns, and an interrupted one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from src.application import build_caller
from src.graph.conversation_state import TurnContext
from src.graph.main_graph import Graph, Models, build_graph, checkpoint_serde
from src.graph.tools.save_user_fact import build_save_user_fact
from src.llm.prompts.assistant import SYSTEM_PROMPT
from src.services.tool_history_service import ToolHistoryService
from src.services.turn import Turn
from src.storage.owner import Owner
from src.storage.tool_result_repo import ToolResultRepository
from src.texts import say
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import (
    Person,
    asked,
    called,
    denied,
    fact,
    named,
    results,
    saved,
    taught,
    thought,
)

pytestmark = pytest.mark.own_database

HOME = fact("Я живу в Омске", relation="lives_in", object="Омск", importance=7)
NEW_HOME = fact("Я живу в Томске", relation="lives_in", object="Томск", importance=7)
CAT = fact("Кота зовут Барсик", subject="cat", relation="name", object="Барсик")
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}, "recursion_limit": 60}


@tool
def ask_user(question: str) -> str:
    """Ask the user something, and wait for his answer."""
    return f"He says: {interrupt(question)}"


@pytest.fixture(autouse=True)
def no_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """LangGraph logs what it will not read from a checkpoint any more one day."""
    yield
    records = caplog.get_records("call")
    assert [r.message for r in records if r.name.startswith("langgraph")] == []


@pytest.fixture
def graph(person: Person) -> Graph:
    """The graph of the bot, with a checkpointer."""
    settings, client = person.core.settings, person.client
    models = Models(
        caller=build_caller(settings),
        summary_llm=build_caller(settings),
        counter=person.core.counter,
        context_size=128_000,
    )
    memories = person.core.memory.memories
    return build_graph(
        models,
        [build_save_user_fact(memories), ask_user],
        memories,
        reminders=person.core.reminders,
        wrap_tool_call=ToolHistoryService(client, ToolResultRepository(client)).record,
        checkpointer=InMemorySaver(serde=checkpoint_serde()),
    )


def context_of(person: Person, turn: Turn) -> TurnContext:
    return TurnContext(
        owner=person.owner,
        conversation_id=turn.conversation_id,
        message_id=turn.message_id,
        text=turn.incoming.text,
        moment=turn.incoming.moment,
        time_zone=person.time_zone,
        language=person.language,
        mode=person.mode,
        window_start=turn.window_start,
        on_text=lambda _text: None,
    )


async def run(person: Person, graph: Graph, text: str, *replies: Reply | str) -> dict[str, Any]:
    """One turn on the thread; the state at its end."""
    person.model.queue(*replies)
    turn = await person.begin(text)
    state = await graph.ainvoke(
        {"history": list(turn.history), "summaries": list(turn.summaries)},
        context=context_of(person, turn),
        config=THREAD,
    )
    return dict(state)


def blocks(request: ChatRequest, name: str) -> list[str]:
    """The system messages of this name (``system``: without one) in a prompt."""
    return [text for found, text in named(request) if found == name]


async def test_every_turn_on_a_thread_has_one_system_prompt_and_a_search_of_its_own(
    person: Person, graph: Graph
) -> None:
    await person.remember(HOME)
    await person.remember(CAT)
    await person.index()
    await person.core.agent.start_new_conversation(Owner(person.user))  # the facts stay
    await run(person, graph, "Как зовут кота?", "Барсик [1]")
    second = await run(person, graph, "А где я живу?", "В Омске [1]")
    for request, found in zip(person.requests, ("Барсик", "Омске"), strict=True):
        assert blocks(request, "system") == [SYSTEM_PROMPT]
        assert len(blocks(request, "user_facts")) == 1
        [memories] = blocks(request, "memories")
        assert found in memories.partition("\n{")[2].partition("\n")[0], "the best is the first"
    said = "".join(text for name, text in named(person.requests[1]) if name == "user")
    for question in ("Как зовут кота?", "А где я живу?"):
        assert said.count(question) == 1, "no message of the turn before stands there twice"
    assert second["answer"] == "В Омске [1]"
    count = person.core.counter.count_messages(second["messages"])
    assert second["current_token_count"] == count


async def test_what_a_turn_leaves_is_nothing_to_the_next(person: Person, graph: Graph) -> None:
    first = await run(person, graph, HOME["text"], saved(HOME), "Запомнил")
    assert first["tools_used"] == ["save_user_fact"]
    second = await run(person, graph, "Привет", "Привет!")
    assert second["tools_used"] == [] and second["answer"] == "Привет!"
    assert not results(person.requests[-1])


async def test_a_conflict_of_a_turn_is_not_resolved_again_in_the_next(
    person: Person, graph: Graph
) -> None:
    person.mode = "strict"
    await run(person, graph, HOME["text"], taught(HOME))
    [(old,)] = person.rows("SELECT id FROM memories WHERE telegram_user_id = %(user)s")
    update = await run(person, graph, NEW_HOME["text"], taught(NEW_HOME), denied((0, old)))
    assert update["answer"] == say("taught_update", "ru", text=NEW_HOME["text"], old=HOME["text"])
    taught_cat = await run(person, graph, CAT["text"], taught(CAT), denied())
    assert taught_cat["answer"] == say("taught_new", "ru", text=CAT["text"])
    assert taught_cat["accepted_conflicts"] == []
    unknown = await run(person, graph, "Кто президент?", asked("президент"), thought(), "UNKNOWN")
    assert (unknown["answer"], unknown["references"]) == (say("strict_unknown", "ru"), [])
    assert (unknown["intent"], unknown["outcomes"]) == ("solve", [])
    person.mode = "assistant"
    back = await run(person, graph, "Привет", "Привет!")
    assert (back["intent"], back["answer"]) == (None, "Привет!")


async def test_an_interrupted_turn_goes_on_with_the_answer(person: Person, graph: Graph) -> None:
    stopped = await run(person, graph, "Реши сам", called("ask_user", question="Омск или Томск?"))
    [wanted] = stopped["__interrupt__"]
    assert wanted.value == "Омск или Томск?"
    person.model.queue("Значит, Томск")
    turn = await person.begin("Томск")
    state = await graph.ainvoke(
        Command(resume="Томск"), context=context_of(person, turn), config=THREAD
    )
    assert results(person.requests[-1]) == ["He says: Томск"]
    assert blocks(person.requests[-1], "system") == [SYSTEM_PROMPT]
    assert (state["answer"], state["tools_used"]) == ("Значит, Томск", ["ask_user"])
