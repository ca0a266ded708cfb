"""The memory in the graph, from a message to what the model is shown of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import pytest
from langchain_core.messages import HumanMessage
from langgraph.runtime import Runtime

from src.base.errors import StorageError
from src.base.metrics import Metrics
from src.base.owners import Caller, Owner, Preferences
from src.core import build_caller
from src.memory.memories import Memories
from src.memory.memory_repo import StoredFact
from src.memory.retriever import Retriever
from src.memory.turn_context import TurnContext, Window
from src.memory.writer import MemoryWriter
from src.pg.client import PgClient
from src.talk.main_graph import Models, build_graph, route_summary
from src.talk.prompt import SYSTEM_PROMPT, TAIL, check_facts
from src.talk.tools import ToolHistoryService, build_tools
from src.talk.turn_state import ConversationState, Turn
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import Person, called, fact, named, open_person, saved

pytestmark = pytest.mark.core(summary_model="openai:fake-summary")

M = TypeVar("M", bound=Memories)

ROOMY, SMALL = 128_000, 2560  # tokens of a context
NAME = fact("Меня зовут Анна", importance=9, relation="name", object="Анна")
HOME = fact("Живу в Омске", importance=7, relation="lives_in", object="Омск")
SECRET = fact("Пароль от почты: hunter2", importance=9)


class CountingMemories(Memories):
    fetched = 0

    async def get_user_facts(self, owner: Owner) -> list[StoredFact]:
        self.fetched += 1
        return await super().get_user_facts(owner)


class Step(NamedTuple):
    """A node that ran: its update, and the state after it."""

    node: str
    update: dict[str, Any]
    state: ConversationState


@pytest.fixture
def counting(person: Person) -> CountingMemories:
    return memories_of(CountingMemories, person)


def memories_of(kind: type[M], person: Person, client: PgClient | None = None) -> M:
    """The memory of the rig, as another class or on another client."""
    client = client or person.client
    core = person.core.memory
    return kind(
        client,
        Retriever(client, core.space, Metrics()),
        MemoryWriter(client, core.space, core.settings),
        core.settings,
    )


def context_of(person: Person, turn: Turn | None = None) -> TurnContext:
    return TurnContext(
        caller=Caller(person.owner, Preferences(person.language, person.time_zone), person.moment),
        conversation_id=person.conversation(),
        message_id=turn.message_id if turn else 1,
        text=turn.incoming.text if turn else "",
        window=turn.window if turn else Window(),
    )


def runtime_of(person: Person) -> Runtime[TurnContext]:
    return Runtime(context=context_of(person))


async def run_graph(
    person: Person, memories: Memories, text: str, *replies: Reply | str, context_size: int = ROOMY
) -> list[Step]:
    """One turn through a graph of its own; the nodes in the order in which they ran."""
    person.model.queue(*replies)
    return await run_turn(person, memories, await person.begin(text), context_size)


async def run_turn(
    person: Person, memories: Memories, turn: Turn, context_size: int = ROOMY
) -> list[Step]:
    """A begun turn through the graph; nothing of it is stored, so that it can run again."""
    settings = person.core.settings
    models = Models(
        caller=build_caller(settings),
        compaction=person.core.memory.compaction,
        counter=person.core.counter,
        context_size=context_size,
    )
    reminders = person.core.reminders
    tools = build_tools(memories, reminders, person.core.zones, person.core.attachments)
    tool_runs = ToolHistoryService(person.client)
    graph = build_graph(models, tools, memories, reminders=reminders, tool_runs=tool_runs)
    steps: list[Step] = []
    state: ConversationState = {}
    async for mode, data in graph.astream(
        {"history": list(turn.history), "summaries": list(turn.summaries)},
        context=context_of(person, turn),
        stream_mode=["updates", "values"],
    ):
        if mode == "updates":
            steps += [Step(node, update or {}, state) for node, update in data.items()]
            continue
        state = data  # it comes after the update, and only when that changed anything
        if steps:
            steps[-1] = steps[-1]._replace(state=state)
    return steps


def nodes(steps: Sequence[Step]) -> list[str]:
    return [step.node for step in steps]


def fill(person: Person, count: int, words: int = 25) -> list[str]:
    """A talk before this one: the user's and the bot's messages in turns, all of one length."""
    texts = [f"{number}-е: " + "слово " * words for number in range(1, count + 1)]
    roles = ("user", "assistant")
    person.rig.fill(
        person.conversation(), *[(roles[place % 2], text) for place, text in enumerate(texts)]
    )
    return texts


# get_user_facts at the first run, with facts_loaded=False


@pytest.mark.parametrize(("state", "fetched"), [
    ({}, 1), ({"facts_loaded": False, "fact_added_in_last_run": False}, 1),
    ({"facts_loaded": True, "fact_added_in_last_run": False}, 0),
    ({"facts_loaded": True, "fact_added_in_last_run": True}, 1),
    ({"facts_loaded": False, "fact_added_in_last_run": True}, 1),
])  # fmt: skip
async def test_the_facts_are_fetched_at_the_first_run_and_after_one_was_added(
    person: Person, counting: CountingMemories, state: ConversationState, fetched: int
) -> None:
    await person.remember(NAME)
    update = await check_facts(state, runtime_of(person), memories=counting)
    assert counting.fetched == fetched
    assert [known.text for known in update["pending_facts"]] == [NAME["text"]] * fetched
    assert update["fact_added_in_last_run"] is False


@pytest.mark.parametrize(
    "reply", [called("current_time"), saved(SECRET)], ids=["another tool", "a refused fact"]
)
async def test_a_tool_that_saved_nothing_leads_straight_back_to_the_model(
    person: Person, counting: CountingMemories, reply: Reply
) -> None:
    steps = await run_graph(person, counting, SECRET["text"], reply, "готово")
    assert nodes(steps)[-4:] == ["assistant", "tools", "update_state_after_tool", "assistant"]
    assert counting.fetched == 1 and nodes(steps).count("check_facts") == 1


async def test_a_saved_fact_is_in_the_prompt_of_the_same_turn(
    person: Person, counting: CountingMemories
) -> None:
    await person.remember(HOME)
    steps = await run_graph(person, counting, NAME["text"], saved(NAME), "Приятно!")
    assert counting.fetched == 2
    assert nodes(steps)[4:] == [
        "assistant", "tools", "update_state_after_tool",
        "check_facts", "load_facts", "retrieve_memories", "assistant",
    ]  # fmt: skip
    before, after = (dict(named(request))["user_facts"] for request in person.requests)
    assert HOME["text"] in before and NAME["text"] not in before
    assert HOME["text"] in after and NAME["text"] in after
    assert [name for name, _ in named(person.requests[1])].count("user_facts") == 1


# fact_added_in_last_run after save_user_fact


@pytest.mark.parametrize(
    ("reply", "expected", "tools"),
    [
        (saved(NAME), True, ["save_user_fact"]),
        (saved(SECRET, NAME), True, ["save_user_fact", "save_user_fact"]),
        (saved(SECRET), False, ["save_user_fact"]),
        (saved(fact("Живу на Марсе")), False, ["save_user_fact"]),
        (called("save_user_fact", text="без цитаты"), False, ["save_user_fact"]),
        (called("current_time"), False, ["current_time"]),
        (called("forget_fact", about="кот Барсик"), True, ["forget_fact"]),
        (called("forget_fact", about="дом в Омске"), False, ["forget_fact"]),
        (called("keep_private"), True, ["keep_private"]),
    ],
)
async def test_a_tool_says_what_it_really_did(
    person: Person, counting: CountingMemories, reply: Reply, expected: bool, tools: list[str]
) -> None:
    await person.remember(fact("У меня есть кот Барсик"))
    text = f"{NAME['text']}. {SECRET['text']}"
    steps = await run_graph(person, counting, text, reply, "готово")
    [update] = [step.update for step in steps if step.node == "update_state_after_tool"]
    assert (update["fact_added_in_last_run"], update["tools_used"]) == (expected, tools)
    assert steps[-1].state["fact_added_in_last_run"] is False


# current_token_count


async def test_the_token_count_is_that_of_the_messages_after_every_node_that_changes_them(
    person: Person, counting: CountingMemories
) -> None:
    await person.say("Мою собаку зовут Рекс")
    await person.index()
    person.core.conversations.create_new_conversation(person.user)
    await person.remember(fact("Аллергия на орехи", importance=9))
    fill(person, 24)
    steps = await run_graph(
        person, counting, "Меня зовут Анна, помнишь, на что у меня аллергия?",
        "Говорили о словах.", saved(NAME), "Говорили об именах.", "Привет!", context_size=SMALL,
    )  # fmt: skip
    count = person.core.counter.count_messages
    counted = {}
    for step in steps:
        if "current_token_count" in step.update:
            assert step.state["current_token_count"] == count(step.state["messages"]), step.node
            counted[step.node] = step.state["current_token_count"]
    assert {"init_state", "load_facts", "summarize", "assistant"} <= set(counted)
    assert "last_summary_ts" in steps[-1].state


# token_count / llm_context_size == 0.6


@pytest.mark.parametrize("size", [5, 8_190, 1_000_000])
async def test_sixty_per_cent_exactly_is_summarised_and_a_token_less_is_not(size: int) -> None:
    boundary = size * 3 // 5
    assert boundary * 5 == size * 3, "the boundary is a whole number"
    state: ConversationState = {"current_token_count": boundary, "llm_context_size": size}
    assert route_summary(state) == "summarize"
    assert route_summary({**state, "current_token_count": boundary - 1}) == "assistant"
    assert route_summary({**state, "llm_context_size": size + 1}) == "assistant"


# an error in get_user_facts


async def test_a_memory_whose_database_is_away_costs_only_the_memory(
    person: Person, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    away = PgClient(dsn)
    away.open()
    away.close()
    steps = await run_graph(person, memories_of(Memories, person, away), "кто я?", "Не знаю.")
    assert steps[-1].state["answer"] == "Не знаю." and steps[-1].state["pending_facts"] == []
    assert [name for name, _ in named(person.requests[0])] == ["system", "user"]
    [record] = [r for r in caplog.records if r.name == check_facts.__module__]
    assert record.levelno == logging.WARNING and record.exc_info is not None
    assert isinstance(record.exc_info[1], StorageError)


# the full cycle with a summary


@asynccontextmanager
async def open_forgetful(client: PgClient) -> AsyncIterator[Person]:
    """Somebody whose model takes little, after a talk of which it takes but the end."""
    async with open_person(
        client, summary_model="openai:fake-summary", llm_context_size=SMALL
    ) as person:
        await person.remember(NAME)
        person.core.conversations.create_new_conversation(person.user)
        yield person


def asked(person: Person, model: str) -> list[ChatRequest]:
    return [request for request in person.requests if request.model == model]


async def test_a_long_talk_is_summarised_and_answered_with_what_matters(shared: PgClient) -> None:
    async with open_forgetful(shared) as person:
        talk = fill(person, 24)
        answer = await person.say("Так как меня зовут?", "Говорили о словах.", "Анна")
        assert answer.text == "Анна"
        [summary], [chat] = asked(person, "fake-summary"), asked(person, "fake-model")
        names, texts = zip(*named(chat), strict=True)
        tokens = person.core.counter.count_messages([HumanMessage(text) for text in texts[3:]])
        usage = person.rows(
            "SELECT purpose, model FROM model_usage WHERE owner_id = %(owner)s ORDER BY id"
        )
    assert tokens <= TAIL * SMALL + 100, "it leaves room"
    assert usage == [("summary", "openai:fake-summary"), ("answer", "openai:fake-model")]

    assert names[:4] == ("system", "user_facts", "history_summary", "user")
    assert texts[0] == SYSTEM_PROMPT
    assert NAME["text"] in texts[1] and "Говорили о словах." in texts[2]
    assert texts[-1] == "[Текущее время: 2026-11-20 09:01] Так как меня зовут?"
    kept = texts[3:-1]
    assert kept == tuple(talk[-len(kept) :]), "the newest messages stay as they are"
    folded = named(summary)[-1][1]
    gone = talk[: -len(kept)]
    assert len(gone) > 5
    assert all(text.strip() in folded for text in gone), "what left the prompt was summarised"
    assert not any(text.strip() in folded for text in kept), "what stayed was not"


async def test_a_summary_that_fails_does_not_fail_the_turn(
    shared: PgClient, caplog: pytest.LogCaptureFixture
) -> None:
    def reply(request: ChatRequest) -> Reply:
        is_summary = request.model == "fake-summary"
        return Reply(status=503) if is_summary else Reply(text="Анна")

    async with open_forgetful(shared) as person:
        talk = fill(person, 24)
        person.model.reply = reply
        answer = await person.say("Так как меня зовут?")
        assert answer.text == "Анна"
        assert len(asked(person, "fake-summary")) == 1
        [chat] = asked(person, "fake-model")
    names, texts = zip(*named(chat), strict=True)
    assert names[:3] == ("system", "user_facts", "user") and "history_summary" not in names
    assert texts[0] == SYSTEM_PROMPT and NAME["text"] in texts[1]
    assert texts[2:-1] == tuple(talk[-len(texts[2:-1]) :])
    assert texts[-1].endswith("Так как меня зовут?")
    assert "the history is cut without a summary" in caplog.messages


async def test_a_message_that_fills_the_context_alone_is_answered_without_a_summary(
    shared: PgClient,
) -> None:
    async with open_forgetful(shared) as person:
        person.core.conversations.create_new_conversation(person.user)
        long = "слово " * 600
        assert (await person.say(long, "Ничего себе!")).text == "Ничего себе!"
        assert asked(person, "fake-summary") == []
        [chat] = asked(person, "fake-model")
    assert [name for name, _ in named(chat)] == ["system", "user_facts", "user"]


async def test_a_call_and_its_result_are_not_torn_apart_by_a_summary(shared: PgClient) -> None:
    async with open_forgetful(shared) as person:
        fill(person, 25)
        answer = await person.say(
            HOME["text"], "Говорили о словах.", saved(HOME), "Говорили.", "Хорошо."
        )
        assert answer.text == "Хорошо." and answer.tools == ("save_user_fact",)
        chat = asked(person, "fake-model")[-1]
    assert [name for name, _ in named(chat)][-3:] == ["user", "assistant", "tool"]
    assert HOME["text"] in dict(named(chat))["user_facts"]
