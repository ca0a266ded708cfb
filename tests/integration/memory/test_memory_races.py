"""Two workers at once, and a bot that quotes its memories: nothing twice, nothing invented."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import pytest

from src.history.conversation_repo import TelegramOrigin
from src.pg.client import PgClient
from src.pg.locks import lock_facts
from tests.conftest import open_client
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import (
    FAKE_EMBEDDINGS,
    ME,
    Person,
    edit,
    forms,
    incoming,
    open_teller,
    records,
)
from tests.integration.polling import eventually
from tests.integration.turns import begin_turn

COUNTS = pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.proof)])


@pytest.fixture
def second_client(dsn: str) -> Iterator[PgClient]:
    """Another process's connections to the same database."""
    yield from open_client(dsn)


@pytest.fixture
async def workers(
    client: PgClient, second_client: PgClient
) -> AsyncIterator[tuple[Person, Person]]:
    """Two cores on one database, and one owner for both."""
    async with (
        open_teller(client, embedding_model=FAKE_EMBEDDINGS) as first,
        open_teller(second_client, embedding_model=FAKE_EMBEDDINGS) as second,
    ):
        yield first, second


def things(count: int) -> list[str]:
    return [f"Купила вещь номер {number}" for number in range(count)]


@COUNTS
async def test_two_workers_teaching_the_same_facts_store_each_once(
    workers: tuple[Person, Person], count: int
) -> None:
    first, _ = workers
    facts = things(count)
    said = {text: first.write(text) for text in facts}
    outcomes = await asyncio.gather(
        *(worker.tell(text, said=said[text]) for text in facts for worker in workers)
    )
    kinds = [outcome.kind for outcome in outcomes]
    assert (kinds.count("new"), kinds.count("same")) == (count, count)
    assert sorted(await first.texts()) == sorted(facts)
    sources = first.rows("SELECT count(*), count(DISTINCT uid) FROM memory_sources")
    assert sources == [(count, count)]
    assert first.rows("SELECT count(*), count(DISTINCT memory_id) FROM search_documents") == [
        (count, count)
    ]
    assert first.rows("SELECT count(*) FROM memories") == [(count,)], "none was retired either"


async def test_of_values_that_two_workers_teach_at_once_the_newest_stands_alone(
    workers: tuple[Person, Person],
) -> None:
    first, second = workers
    said = [first.write(f"Живу в городе {number}") for number in range(20)]
    await asyncio.gather(
        *(
            (first, second)[number % 2].tell(
                source.text, said=source, relation="lives_in", object=f"город {number}"
            )
            for number, source in enumerate(said)
        )
    )
    assert await first.texts() == ["Живу в городе 19"]
    retired = "SELECT count(*) FROM memories WHERE retired_at IS NOT NULL AND superseded_by > 0"
    assert first.rows(retired) == [(19,)]


async def test_an_edit_waits_for_the_facts_and_holds_no_conversation_meanwhile(
    workers: tuple[Person, Person],
) -> None:
    first, second = workers
    origin = TelegramOrigin(1, ME.telegram_user_id, 5, ME.telegram_user_id)
    await begin_turn(first.core.agent, incoming("Люблю чай", ME.telegram_user_id, origin=origin))
    with first.client.transaction() as held:
        lock_facts(held, ME)
        waiting = asyncio.create_task(
            asyncio.to_thread(edit, second.client, ME, origin, "Люблю кофе")
        )
        locked = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        await eventually(lambda: first.rows(locked), "the edit to wait")
        held.execute("SELECT id FROM conversations FOR NO KEY UPDATE NOWAIT")
    assert await waiting == "last"


def fill(teller: Person, count: int) -> UUID:
    conversations = teller.core.conversations
    conversation = conversations.get_or_create_conversation(ME.telegram_user_id)
    for number in range(count):
        role = "assistant" if number % 2 else "user"
        conversations.append_message(conversation, role, f"слово {number}")  # type: ignore[arg-type]
    return conversation


async def test_two_workers_reading_one_conversation_for_facts_store_each_once(
    workers: tuple[Person, Person],
) -> None:
    first, _ = workers
    conversation = fill(first, 60)
    for worker in workers:
        worker.rig.model.reply = propose_what_users_said
    turns = [worker.rig.core.memory.digest for worker in workers]
    await asyncio.gather(*(turn.digest(conversation) for turn in turns))
    assert sorted(await first.texts()) == sorted(f"слово {n}" for n in range(0, 60, 2))
    assert first.rows("SELECT count(*) FROM memory_sources") == [(30,)]
    assert first.rows("SELECT extracted_position FROM conversations") == [(60,)]


async def test_two_workers_indexing_one_conversation_make_one_document_of_each_message(
    workers: tuple[Person, Person],
) -> None:
    first, _ = workers
    fill(first, 500)
    turns = [worker.rig.core.memory.digest for worker in workers]
    while any(await asyncio.gather(*(turn.index_pending() for turn in turns))):
        pass
    assert first.rows(
        "SELECT count(*), count(DISTINCT message_id), count(DISTINCT position)"
        " FROM search_documents"
    ) == [(500, 500, 500)]
    assert first.rows("SELECT count(*) FROM unindexed_messages") == [(0,)]
    assert await asyncio.gather(*(turn.indexer.embed_pending() for turn in turns))
    assert first.rows("SELECT count(*), count(DISTINCT document_id) FROM document_embeddings") == [
        (250, 250)
    ]


def propose_what_users_said(request: ChatRequest) -> Reply:
    """Every message of a user becomes a fact."""
    if forms([request]) != ["ExtractedFacts"]:
        return Reply(text="Говорили о словах.")
    facts = [
        {"text": one["text"], "quote": one["text"], "message": one["uid"]}
        for one in records(request, "messages")
        if one["role"] == "user"
    ]
    return Reply(tool_calls=[("ExtractedFacts", {"facts": facts})], chunk_size=10_000)
