"""Facts out of closed windows: one model call each, only what the user said, nothing skipped."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from src.base.errors import (
    AppError,
    ModelReplyError,
    ModelSetupError,
    ModelUnavailableError,
    StorageError,
)
from src.base.owners import Owner
from src.core import build_caller
from src.memory.extraction import ExtractionService
from src.memory.memories import Memories
from src.memory.writer import MemoryWriter
from src.pg.settings_repo import GlobalSettingsRepository
from tests.fakes.openai_server import ChatRequest, Reply, text_of
from tests.integration.person import FAKE_EMBEDDINGS, USER, Json, Person, Rig, records

pytestmark = pytest.mark.core(embedding_model=FAKE_EMBEDDINGS)

SAID_AT = datetime(2026, 11, 20, 22, 30, tzinfo=UTC)  # in Moscow it is the 21st already


class Talk(Person):
    """One conversation, and what is remembered of it."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig)
        self.id, self.service = self.conversation(), self.worker()
        rig.model.reply = lambda _request: found()

    def worker(self) -> ExtractionService:
        """Another process, which has not read the settings yet."""
        client, core = self.client, self.core
        settings = GlobalSettingsRepository(client)
        writer = MemoryWriter(client, core.memory.space, settings)
        memories = Memories(client, core.memory.retriever, writer, settings)
        return ExtractionService(
            client,
            memories,
            lambda _name: build_caller(core.settings),
            core.ceilings,
            "Europe/Moscow",
        )

    def add(self, text: str, role: str = "user", *, said_at: datetime = SAID_AT) -> int:
        """Store a message, with its label if it is the user's; returns its id."""
        label = f"[Текущее время: {said_at + timedelta(hours=3):%Y-%m-%d %H:%M}] "
        content = f"{label if role == 'user' else ''}{text}"
        add = self.core.conversations.append_message
        return add(self.id, role, content, said_at=said_at)  # type: ignore[arg-type]

    def chat(self, messages: int) -> None:
        for number in range(messages):
            self.add(f"реплика {number}", "user" if number % 2 == 0 else "assistant")

    def pass_time(self, minutes: int) -> None:
        self.client.execute(
            "UPDATE messages SET created_at = created_at - make_interval(mins => %(m)s)",
            {"m": minutes},
        )

    def position(self) -> int:
        return int(self.rows("SELECT extracted_position FROM conversations")[0][0])

    def set(self, **settings: Any) -> None:
        self.rig.set(**settings)
        self.service = self.worker()


@pytest.fixture
def talk(rig: Rig) -> Talk:
    return Talk(rig)


def found(*facts: Json) -> Reply:
    return Reply(tool_calls=[("ExtractedFacts", {"facts": list(facts)})])


def fact(text: str, message: int | str = "", **changes: Any) -> Json:
    """A fact as the model writes it; ``message`` is the id of its source."""
    uid = f"msg-{message}" if isinstance(message, int) else message
    fields = {"quote": text, "object": text, "relation": "other", "message": uid}
    return {"text": text, **fields, **changes}


def read_by_model(request: ChatRequest) -> list[Json]:
    """The messages of the window in a request."""
    return records(request, "messages")


# --- windows


async def test_twenty_messages_are_one_window_and_one_model_call(talk: Talk) -> None:
    ids = [talk.add(f"реплика {n}", "assistant" if n % 2 else "user") for n in range(20)]
    assert await talk.service.extract(talk.id) == 1
    assert (talk.position(), len(talk.requests)) == (20, 1)
    records = read_by_model(talk.requests[0])
    assert [record["uid"] for record in records] == [f"msg-{number}" for number in ids]
    assert records[0] == {
        "uid": f"msg-{ids[0]}",
        "role": "user",
        "said_at": "2026-11-21 01:30",
        "text": "реплика 0",
    }
    assert await talk.service.extract(talk.id) == 0
    assert len(talk.requests) == 1


async def test_an_operator_can_turn_it_off(talk: Talk) -> None:
    talk.set(memory_extraction_enabled=False)
    talk.chat(40)
    talk.pass_time(120)
    assert await talk.service.extract(talk.id) == 0
    assert (talk.position(), talk.requests) == (0, [])
    talk.set(memory_extraction_enabled=True)
    assert await talk.service.extract(talk.id) == 2
    assert talk.position() == 40, "nothing was skipped"


async def test_a_window_in_which_only_the_bot_spoke_costs_no_call(talk: Talk) -> None:
    for number in range(20):
        talk.add(f"ответ {number}", "assistant")
    assert await talk.service.extract(talk.id) == 1
    assert (talk.position(), talk.requests) == (20, [])


# --- what becomes a fact


async def extract_from(talk: Talk, *facts: Json) -> list[str]:
    talk.chat(19)
    talk.model.queue(found(*facts))
    await talk.service.extract(talk.id)
    return talk.facts()


async def test_a_fact_is_stored_in_the_user_s_language_with_its_source(talk: Talk) -> None:
    text, quote = "Мій син народився п'ятого травня", "мій син народився п’ятого травня"
    message = talk.add(f"До речі, {quote}")
    assert await extract_from(talk, fact(text, message, quote=quote)) == [text]
    [source] = talk.rows("SELECT uid, episode, quote, said_at, message_id FROM memory_sources")
    assert source == (f"msg-{message}", f"teach_msg-{message}", quote, SAID_AT, message)
    assert talk.rows("SELECT origin, language FROM memories") == [("extraction", "uk")]


async def test_what_the_assistant_said_is_context_and_never_a_fact(talk: Talk) -> None:
    talk.add("Что ты обо мне знаешь?")
    answer = talk.add("Вы любите кофе и живёте в Праге", "assistant")
    question = talk.add("Допустим")
    stored = await extract_from(
        talk,
        fact("Пользователь любит кофе", answer, quote="Вы любите кофе"),
        fact("Пользователь живёт в Праге", question, quote="живёте в Праге"),
        fact("Вы любите кофе", ""),
        fact("Вы любите кофе", "msg-999999"),
        fact("Вы любите кофе", "nonsense"),
    )
    assert stored == []
    assert {"assistant", "user"} == {record["role"] for record in read_by_model(talk.requests[0])}
    assert talk.rows("SELECT count(*) FROM memory_sources") == [(0,)]


@pytest.mark.parametrize("named", ["nothing", "another message", "made up"])
async def test_a_quote_finds_its_message_whatever_uid_is_written(talk: Talk, named: str) -> None:
    other = talk.add("Люблю горы")
    message = talk.add("А ещё у меня есть собака Рекс")
    uid: int | str = {"nothing": "", "another message": other, "made up": "msg-999999"}[named]
    assert await extract_from(talk, fact("У меня есть собака Рекс", uid)) == [
        "У меня есть собака Рекс"
    ]
    assert talk.rows("SELECT message_id FROM memory_sources") == [(message,)]


async def test_tomorrow_is_the_day_after_the_message_in_the_user_s_own_zone(talk: Talk) -> None:
    message = talk.add("Завтра у меня собеседование")
    stored = await extract_from(
        talk, fact("Завтра у меня собеседование", message, memory_type="event")
    )
    assert ["(22 ноября 2026)" in text for text in stored] == [True]
    talk.client.execute(
        "INSERT INTO user_settings (owner_id, time_zone)"
        " VALUES (add_owner(%(user)s, 0), 'America/New_York')",
        {"user": USER},
    )
    message = talk.add("Завтра иду к врачу")
    stored = await extract_from(talk, fact("Завтра иду к врачу", message, memory_type="event"))
    assert ["(21 ноября 2026)" in text for text in stored[1:]] == [True]
    assert read_by_model(talk.requests[1])[0]["said_at"] == "2026-11-20 17:30"


async def test_the_model_is_told_what_is_known_and_may_repeat_it(talk: Talk) -> None:
    message = talk.add("У меня есть кот Барсик")
    await extract_from(talk, fact("У меня есть кот Барсик", message))
    again = talk.add("Напоминаю: у меня есть кот Барсик")
    stored = await extract_from(talk, fact("У меня есть кот Барсик", again))
    prompt = text_of(talk.requests[1].messages[-1]["content"])
    assert '"text": "У меня есть кот Барсик"}' in prompt.partition("<messages>")[0]
    assert stored == ["У меня есть кот Барсик"]
    assert len(talk.rows("SELECT 1 FROM memory_sources")) == 2, "said twice"


async def test_what_is_forgotten_while_the_model_reads_it_becomes_no_fact(talk: Talk) -> None:
    message = talk.add("Я развожусь")
    kept = talk.add("У меня есть дача")
    talk.chat(18)
    gate = asyncio.Event()
    reply = found(fact("Я развожусь", message), fact("У меня есть дача", kept))
    reply.gate = gate
    talk.model.queue(reply)
    working = asyncio.create_task(talk.service.extract(talk.id))
    await talk.model.wait_for(lambda: talk.model.waiting_at_gate)
    await talk.core.memory.memories.forget(Owner(USER), [f"msg-{message}"])
    gate.set()
    await working
    assert talk.facts() == ["У меня есть дача"]
    assert "развожусь" not in str(talk.written())


# --- crashes and outages

REFUSE_PROGRESS = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION 'the process died'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE OF extracted_position ON conversations
FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def rich_window(talk: Talk) -> list[Json]:
    """Twenty messages with facts of every fate."""
    lives = talk.add("Я живу в Москве")
    moved = talk.add("Я переехал и теперь живу в Казани")
    cat = talk.add("У меня есть кот Барсик")
    secret = talk.add("Мой пароль от почты: Qwerty12345")
    talk.chat(16)
    return [
        fact("Я живу в Москве", lives, relation="lives_in", object="Москва"),
        fact("Я теперь живу в Казани", moved, relation="lives_in", object="Казань",
             quote="теперь живу в Казани"),
        fact("У меня есть кот Барсик", cat, relation="has_pet", object="кот Барсик"),
        fact("Мой пароль от почты: Qwerty12345", secret),
        fact("Я люблю устриц", cat),
    ]  # fmt: skip


@pytest.mark.own_database
async def test_a_death_before_the_progress_is_noted_repeats_the_window_without_a_trace(
    talk: Talk,
) -> None:
    facts = rich_window(talk)
    talk.model.queue(found(*facts), found(*facts))
    talk.client.execute(REFUSE_PROGRESS)
    with pytest.raises(StorageError):
        await talk.service.extract(talk.id)
    assert (talk.position(), len(talk.facts())) == (0, 2)
    before = talk.written()
    talk.client.execute("DROP TRIGGER refuse ON conversations")
    assert await talk.service.extract(talk.id) == 1
    assert talk.written() == before
    assert (talk.position(), len(talk.requests)) == (20, 2)


# What happens to a fact about the cat.
ON_CAT = """
CREATE FUNCTION happen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {what} END $$;
CREATE TRIGGER happens BEFORE INSERT ON memories FOR EACH ROW
    WHEN (NEW.text LIKE '%%кот%%') EXECUTE FUNCTION happen()
"""


@pytest.mark.own_database
async def test_a_fact_that_the_database_refuses_holds_up_nothing(talk: Talk) -> None:
    facts = rich_window(talk)
    talk.client.execute(ON_CAT.format(what="RAISE EXCEPTION 'a strange value';"))
    cat_first = sorted(facts, key=lambda fact: "кот" not in fact["text"])
    talk.model.queue(found(*cat_first))
    await talk.service.extract(talk.id)
    assert (talk.position(), talk.facts()) == (20, ["Я теперь живу в Казани"])


@pytest.mark.parametrize(("reply", "error"), [
    (Reply(status=503), ModelUnavailableError), (Reply(status=401), ModelSetupError),
])  # fmt: skip
async def test_a_provider_that_is_away_makes_nothing_be_skipped(
    talk: Talk, reply: Reply, error: type[AppError]
) -> None:
    message = talk.add("У меня есть дача")
    talk.chat(39)
    talk.model.queue(reply, found(fact("У меня есть дача", message)))
    with pytest.raises(error):
        await talk.service.extract(talk.id)
    assert (talk.position(), talk.facts()) == (0, [])
    assert await talk.service.extract(talk.id) == 2
    assert (talk.position(), talk.facts()) == (40, ["У меня есть дача"])


@pytest.mark.parametrize(("reply", "tries"), [
    (Reply(status=400, error="content policy"), 1), (Reply(text="я не понял"), 3),
    (Reply(tool_calls=[("ExtractedFacts", {"facts": "нет"})]), 3),
    (Reply(tool_calls=[("ExtractedFacts", {"facts": "слово " * 30_000})], chunk_size=10**6), 3),
])  # fmt: skip
async def test_a_window_that_the_model_cannot_read_does_not_hold_up_the_next(
    talk: Talk, reply: Reply, tries: int
) -> None:
    talk.chat(20)
    message = talk.add("У меня есть дача")
    talk.chat(19)
    talk.model.queue(*[reply] * tries, found(fact("У меня есть дача", message)))
    for _ in range(tries - 1):
        with pytest.raises(ModelReplyError):
            await talk.service.extract(talk.id)
    assert await talk.service.extract(talk.id) == 2
    assert talk.facts() == ["У меня есть дача"]


async def test_a_summary_model_that_is_away_keeps_no_facts_from_being_read(talk: Talk) -> None:
    message = talk.add("У меня есть дача")
    talk.chat(39)
    talk.model.reply = lambda request: (
        found(fact("У меня есть дача", message)) if request.tools else Reply(status=503)
    )
    with pytest.raises(ModelUnavailableError):
        await talk.core.memory.digest.digest(talk.id)
    assert (talk.facts(), talk.position()) == (["У меня есть дача"], 40)
