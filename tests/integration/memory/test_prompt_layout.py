"""The prompt as it reaches the model: its order, and that it only grows between two steps."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from src.base.owners import Owner
from src.core import Core, build_caller
from src.history.new_messages import window_start
from src.llm.quoting import form_tool
from src.memory.tools import SAVE, save_user_fact
from src.memory.writer import SourceText
from src.reading.facts import Fact
from src.talk.main_graph import Models, build_graph
from src.talk.prompt import EARLIER, SYSTEM_PROMPT
from src.talk.tools import CURRENT_TIME, ToolHistoryService, current_time
from src.talk.turn import AgentService
from tests.fakes.openai_server import ChatRequest, Reply, text_of
from tests.integration.person import USER, Rig, incoming
from tests.integration.turns import answer_turn, begin_turn, mark_turn

pytestmark = pytest.mark.core(embedding_model="openai:fake-embedding")

Json = dict[str, Any]

START = datetime(2026, 9, 1, 6, 0, tzinfo=UTC)
TURNS = 40
TOPICS = ("отчёт", "велосипед", "дача", "испанский", "щенок", "ремонт", "отпуск", "книга", "поход")
# In these turns the model uses a tool: it looks at the clock, or saves a fact of little weight.
CLOCK_TURNS, FACT_TURNS = range(7, TURNS, 11), range(5, TURNS, 13)


class Chat:
    """A long chat; the first request of every turn is kept."""

    def __init__(self, rig: Rig, agent: AgentService) -> None:
        self.rig = rig
        self.agent = agent
        self.moment = START
        self.first: list[ChatRequest] = []
        self.last_positions: list[int] = []
        rig.model.reply = reply

    async def remember(self, text: str, importance: int) -> None:
        said = self.rig.core.conversations.append_message(self.rig.conversation(), "user", text)
        fact = Fact(text=text, importance=importance)
        await self.rig.core.memory.memories.writer.remember(
            Owner(USER), fact, SourceText(said, text, self.moment), origin="tool"
        )
        self.rig.core.conversations.create_new_conversation(USER)

    async def turn(self, text: str, *replies: Reply | str) -> None:
        """A message, its answer, and what the background does with it."""
        self.moment += timedelta(minutes=37)
        self.rig.model.queue(*replies)
        turn = await begin_turn(self.agent, incoming(text, moment=self.moment))
        before = len(self.rig.model.requests)
        answer = await answer_turn(self.agent, turn)
        self.first.append(self.rig.model.requests[before])
        self.last_positions.append(turn.history[-1]["position"])
        await mark_turn(self.agent, turn, answer)
        await self.rig.core.memory.digest.digest_turn(turn.conversation_id)

    async def run(self, turns: int = TURNS) -> None:
        """Talk about everything in turn, so that there is always something to be reminded of."""
        for number in range(turns):
            topic, other = TOPICS[number % len(TOPICS)], TOPICS[(number * 5 + 2) % len(TOPICS)]
            text = f"Поговорим про {topic}, это важно. А что там {other}? Пункт {number}."
            if number in CLOCK_TURNS:
                await self.turn(text, Reply(tool_calls=[("current_time", {})]), "Уже поздно.")
            elif number in FACT_TURNS:
                fact = {"text": f"Люблю {topic}", "quote": f"Поговорим про {topic}"}
                saved = Reply(tool_calls=[("save_user_fact", {**fact, "importance": 3})])
                await self.turn(text, saved, "Запомнил.")
            else:
                await self.turn(text)

    def steps(self) -> list[bool]:
        """Whether the window moved between one turn and the next."""
        starts = [window_start(last) for last in self.last_positions]
        return [before != after for before, after in pairwise(starts)]


def reply(request: ChatRequest) -> Reply:
    """An answer of some length, a summary, or no facts."""
    if any(tool["function"]["name"] == "ExtractedFacts" for tool in request.tools):
        return Reply(tool_calls=[("ExtractedFacts", {"facts": []})])
    if SYSTEM_PROMPT not in request.system_text:
        return Reply(text=f"Пользователь говорил о разном, {len(request.raw['messages'])}.")
    return Reply(text=f"Отвечаю на {len(request.last_user_text)} букв. " * 3)


@pytest.fixture(params=[True, False], ids=["system in history", "no system in history"])
async def chat(rig: Rig, request: pytest.FixtureRequest) -> Chat:
    """A chat with a provider that takes system messages anywhere, and with one that does not."""
    return Chat(rig, agent_for(rig.core, system_in_history=request.param))


def agent_for(core: Core, *, system_in_history: bool) -> AgentService:
    """The agent as for a provider of this kind."""
    tool_runs = ToolHistoryService(core.client)
    models = Models(
        caller=build_caller(core.settings),
        compaction=core.memory.compaction,
        counter=core.counter,
        context_size=core.settings.llm_context_size,
        system_in_history=system_in_history,
    )
    memories = core.memory.memories
    tools = [form_tool(current_time, CURRENT_TIME), form_tool(save_user_fact, SAVE, memories)]
    graph = build_graph(models, tools, memories, reminders=core.reminders, tool_runs=tool_runs)
    return AgentService(
        core.client,
        graph,
        core.orders,
        settings=core.memory.settings,
        ceilings=core.ceilings,
        metrics=core.metrics,
    )


def kinds(request: ChatRequest) -> list[str]:
    return [message.get("name") or message["role"] for message in request.messages]


def up_to_the_history(request: ChatRequest) -> str:
    """The request's bytes up to the end of the history: without memories and the new message."""
    messages = request.raw["messages"][:-1]
    while messages and messages[-1].get("name") in ("memories", "user_facts"):
        messages = messages[:-1]
    return as_bytes(messages).removesuffix("]")


def as_bytes(messages: list[Json]) -> str:
    return json.dumps(messages, ensure_ascii=False, separators=(",", ":"))


# --- the order


async def test_everything_stands_in_its_place(rig: Rig) -> None:
    chat = Chat(rig, rig.core.agent)
    await chat.remember("Меня зовут Анна", 9)
    await chat.run(18)
    request = chat.first[-1]
    assert kinds(request)[:3] == ["system", "user_facts", "history_summary"]
    assert kinds(request)[-2:] == ["memories", "user"]
    history = kinds(request)[3:-2]
    assert set(history) == {"user", "assistant", "system"} and len(history) >= 16
    texts = [text_of(message["content"]) for message in request.messages]
    assert texts[0] == SYSTEM_PROMPT
    assert '"text": "Меня зовут Анна"' in texts[1]
    assert texts[2].count('{"summary": ') in (2, 3)
    assert any(note.startswith("Tools used: ") for note in history_notes(request))
    assert '"n": 3' in texts[-2] and "Поговорим про" in texts[-2]
    assert texts[-1].startswith("[Текущее время: ") and texts[-1].endswith("Пункт 17.")


def history_notes(request: ChatRequest) -> list[str]:
    messages = request.messages[3:-2]
    return [text_of(m["content"]) for m in messages if m["role"] == "system"]


# --- between two steps


@pytest.mark.parametrize("turns", [30, pytest.param(TURNS, marks=pytest.mark.proof)])
async def test_between_two_steps_the_prompt_only_grows_at_its_end(chat: Chat, turns: int) -> None:
    await chat.remember("Меня зовут Анна", 9)
    await chat.remember("У меня аллергия на арахис", 8)
    await chat.run(turns)
    steps = chat.steps()
    assert turns / 12 <= sum(steps) <= turns / 6, "the window moved every few turns"
    reminded = sum("memories" in json.dumps(request.raw["messages"][1:]) for request in chat.first)
    assert reminded > turns / 2, "there was something volatile in most prompts"
    for number, (before, after) in enumerate(pairwise(chat.first)):
        shared = up_to_the_history(before)
        if not steps[number]:
            assert as_bytes(after.raw["messages"]).startswith(shared), f"turn {number + 1}"
    longest = max(len(up_to_the_history(request)) for request in chat.first)
    assert longest > 5000


@pytest.mark.parametrize("in_history", [True, False])
async def test_a_saved_fact_costs_nothing_of_the_cached_history(
    rig: Rig, in_history: bool
) -> None:
    chat = Chat(rig, agent_for(rig.core, system_in_history=in_history))
    await chat.remember("Меня зовут Анна", 9)
    for number in range(6):
        await chat.turn(f"Пункт {number}")
    fact = {"text": "Люблю пельмени", "quote": "Люблю пельмени", "importance": 3}
    await chat.turn("Люблю пельмени", Reply(tool_calls=[("save_user_fact", fact)]), "Запомнил.")
    for number in range(3):
        await chat.turn(f"Пункт {number}")
    for before, after in pairwise(chat.first[4:]):
        assert as_bytes(after.raw["messages"]).startswith(up_to_the_history(before))
    for request in chat.first[7:]:
        below = as_bytes(request.raw["messages"][-2 if in_history else -1 :])
        assert "Люблю пельмени" in below and "Меня зовут Анна" not in below
        assert '\\"n\\": 2' in below


async def test_everything_small_is_in_view_after_new(rig: Rig) -> None:
    chat = Chat(rig, rig.core.agent)
    for text, importance in (("Люблю пельмени", 3), ("Работаю врачом", 7), ("Живу в Омске", 7)):
        await chat.remember(text, importance)
    await chat.turn("что приготовить?", "Пельмени, вы их любите [3].")
    [request] = chat.first
    assert kinds(request) == ["system", "user_facts", "user"], "nothing stands twice"
    records = [
        json.loads(line) for line in text_of(request.messages[1]["content"]).splitlines()[2:-1]
    ]
    assert [(one["n"], one["text"]) for one in records] == [
        (1, "Живу в Омске"), (2, "Работаю врачом"), (3, "Люблю пельмени"),
    ]  # fmt: skip
    assert {"kind", "said_on", "id"} <= records[0].keys()
    assert rig.rows("SELECT number, f.text FROM answer_sources s JOIN memories f"
                    " ON f.id = s.memory_id") == [(1, "Люблю пельмени")]  # fmt: skip


# --- providers without system messages in mid-history


async def test_no_system_message_stands_after_the_first_other_one(rig: Rig) -> None:
    chat = Chat(rig, agent_for(rig.core, system_in_history=False))
    await chat.remember("Меня зовут Анна", 9)
    await chat.run(20)
    notes = reminders = 0
    for request in rig.model.requests:
        roles = [message["role"] for message in request.messages]
        first = next(n for n, role in enumerate(roles) if role != "system")
        assert "system" not in roles[first:]
        answers = [m for m in request.messages if m["role"] == "assistant"]
        assert all("Tools used" not in text_of(m.get("content")) for m in answers)
    for request in chat.first:
        last = text_of(request.messages[-1]["content"])
        assert request.messages[-1]["role"] == "user" and "Пункт" in last
        reminders += "<memories>" in last
        notes += "[Tools used: current_time]\n[Текущее время: " in last
        assert "<memories>" not in str(request.messages[first:-1]), "it goes with its message"
    assert reminders > 3 and notes == len([n for n in CLOCK_TURNS if n < 19])


async def test_a_note_at_the_window_s_edge_is_not_lost_between_two_messages(rig: Rig) -> None:
    """What follows bookkeeping in the history carries it, in every later prompt as well."""
    chat = Chat(rig, agent_for(rig.core, system_in_history=False))
    await chat.turn("Который час?", Reply(tool_calls=[("current_time", {})]), "Полдень.")
    await chat.turn("Спасибо")
    await chat.turn("Пока")
    texts = [text_of(message["content"]) for message in chat.first[-1].messages]
    assert texts[3].startswith("[Tools used: current_time]\n[Текущее время: ")
    assert texts[3].endswith("Спасибо") and "Tools used" not in texts[5]


async def test_where_providers_want_it_the_history_begins_with_a_user(rig: Rig) -> None:
    rig.fill(rig.conversation(), *[("user", "вопрос"), ("assistant", "ответ")] * 15)
    chat = Chat(rig, agent_for(rig.core, system_in_history=False))
    await chat.turn("ещё вопрос")
    said = [message for message in chat.first[-1].messages if message["role"] != "system"]
    first, second, *_ = ((message["role"], text_of(message["content"])) for message in said)
    assert (first, second) == (("user", EARLIER), ("assistant", "ответ"))
