"""Nothing that is done for one owner changes or shows what belongs to another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from src.base.owners import Owner
from src.history.conversation_repo import KEEP_UNREAD, ConversationRepository, TelegramOrigin
from src.history.timeline_repo import ToolResult, ToolResultRepository
from src.history.turn_repo import AnswerSource, NewAnswer, TurnRepository
from src.llm.reply import ModelUsage
from src.memory.digest_repo import ExtractionRepository, SummaryRepository
from src.memory.forgetter import Forgetter
from src.memory.forgetting_repo import ForgettingRepository, UndoResult
from src.memory.group_moves import GroupMoveRepository
from src.memory.memories import KEY_FACTS
from src.memory.memory_repo import MemoryRepository, NewEntity, NewMemory, Source, StoredFacts
from src.memory.retrieval_repo import RetrievalRepository, SearchRequest
from src.memory.search_index_repo import NewDocument, SearchIndexRepository
from src.pg.client import PgClient, Transaction
from src.pg.locks import lock_facts
from src.pg.user_settings_repo import UserSettingsRepository
from src.privacy.erasure_repo import ErasureRepository
from src.reading.facts import Fact
from src.texts.morphology import terms
from tests.integration.person import edit
from tests.tables import ROWS_OF_OWNER, rows_of

ME, OTHER, GROUP, BOT = 2**40 + 7, 2**40 + 8, -(2**40), 555
NOON = datetime(2026, 11, 21, 9, 5, tzinfo=UTC)

USAGE = ModelUsage("answer", "gpt", 10, 4, 3, 250)


@pytest.fixture
def repo(client: PgClient) -> ConversationRepository:
    return ConversationRepository(client)


@pytest.fixture
def turns(client: PgClient) -> TurnRepository:
    return TurnRepository(client)


@pytest.fixture
def tools(client: PgClient) -> ToolResultRepository:
    return ToolResultRepository(client)


def fill(client: PgClient, owner: int, *, thread_id: int = 0, message_id: int = 1) -> UUID:
    """Give an owner one question with everything that can hang on it."""
    repo, turns = ConversationRepository(client), TurnRepository(client)
    conversation = repo.get_or_create_conversation(owner, thread_id=thread_id)
    origin = TelegramOrigin(BOT, owner, message_id, owner)
    question = repo.append_message(conversation, "user", f"cats of {owner}", origin=origin)
    forget(client, Owner(owner, thread_id), teach(client, Owner(owner, thread_id), question, "x"))
    memory = teach(client, Owner(owner, thread_id), question)
    source = AnswerSource(1, f"msg-{question}", "cats", NOON, question, memory)
    turns.save_answer(
        NewAnswer(conversation, question, "Purr", ("search",), (USAGE,), sources=(source,))
    )
    ToolResultRepository(client).add(
        conversation, question, ToolResult("search", {"q": "cat"}, "found", 12)
    )
    summary = f"cats of {owner}"
    assert SummaryRepository(client).replace(conversation, summary, first=1, last=1)
    index(client, Owner(owner, thread_id), conversation)
    UserSettingsRepository(client).change(owner, mode="strict")
    left = {**Owner(owner, thread_id).columns(), "limit": 10}
    assert client.execute(KEEP_UNREAD, left) == 1, "as if /new came now"
    return conversation


def forget(client: PgClient, owner: Owner, fact: int) -> int:
    """Forget a fact and nothing of its message; the number of the forgetting."""
    return client.in_transaction(
        lambda t: ForgettingRepository(t, owner).forget([fact], texts=["x"])
    )


def teach(client: PgClient, owner: Owner, message: int, text: str = "cats") -> int:
    """Store a fact about a cat, and one that was refused; returns the first one's number."""
    repository = MemoryRepository(client)
    repository.add_rejected(owner, message, reason="secret", text=None, origin="tool")
    fact = NewMemory(
        fact=Fact(text=text, subject="cat", relation="name", object=text, importance=9),
        language="en",
        origin="teach",
        content_hash=text,
        source=Source(message, text, NOON),
        terms=["cats"],
        entities=[NewEntity("Cat", [frozenset({"cat"})], "pet")],
    )

    def store(transaction: Transaction) -> int:
        lock_facts(transaction, owner)
        return StoredFacts(transaction, owner).add(fact)

    return client.in_transaction(store)


def index(client: PgClient, owner: Owner, conversation: UUID) -> int:
    """Take the messages of a conversation into the search; returns how many."""
    repository = SearchIndexRepository(client)
    messages = repository.list_unindexed(conversation)
    documents = [
        NewDocument("message", message.id, message.role, message.said_at, ["cats"])
        for message in messages
    ]
    return repository.add_messages(
        owner, conversation, documents, [message.id for message in messages]
    )


def test_new_deletes_the_conversation_of_the_owner_and_nothing_else(
    client: PgClient, repo: ConversationRepository
) -> None:
    mine = fill(client, GROUP)
    topic = fill(client, GROUP, thread_id=9, message_id=2)
    fill(client, OTHER)
    others, of_topic = rows_of(client.dsn, Owner(OTHER)), rows_of(client.dsn, Owner(GROUP, 9))
    assert {table for table, _ in others} >= {"messages", "tool_results", "search_postings"}
    new = repo.create_new_conversation(GROUP)
    assert new not in (mine, topic)
    assert repo.get_or_create_conversation(GROUP) == new
    assert rows_of(client.dsn, Owner(OTHER)) == others
    assert rows_of(client.dsn, Owner(GROUP, 9)) == of_topic
    for table in ("messages", "tool_results", "conversation_summaries"):
        left = client.fetch_all(f"SELECT DISTINCT conversation_id::text FROM {table}")
        assert (str(mine),) not in left
        assert (str(topic),) in left
    assert len(repo.load_last_messages(topic)) == 3
    assert client.fetch_one(
        "SELECT count(*) FROM conversations WHERE telegram_user_id = %(owner)s", {"owner": GROUP}
    ) == (2,)


def test_facts_survive_new_with_the_words_that_told_them(
    client: PgClient, repo: ConversationRepository
) -> None:
    fill(client, ME)
    memories = MemoryRepository(client)
    [before] = memories.list_facts(Owner(ME), KEY_FACTS)
    assert before.message_id is not None
    repo.create_new_conversation(ME)
    assert memories.list_facts(Owner(ME), KEY_FACTS) == [replace(before, message_id=None)]
    source = memories.find_source(Owner(ME), before.uid)
    assert source is not None and (source.text, source.said_at) == ("cats", NOON)
    kinds = client.fetch_all("SELECT kind FROM search_documents")
    assert kinds == [("memory",)], "neither messages nor summaries are found any more"


def test_new_works_for_an_owner_who_never_wrote(repo: ConversationRepository) -> None:
    first = repo.create_new_conversation(ME)
    assert repo.get_or_create_conversation(ME) == first
    assert repo.create_new_conversation(ME) != first


def test_new_from_eight_threads_leaves_one_conversation(
    client: PgClient, repo: ConversationRepository
) -> None:
    fill(client, ME)
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(repo.create_new_conversation, [ME] * 8))
    left = client.fetch_all("SELECT id::text FROM conversations")
    assert left == [(str(repo.get_or_create_conversation(ME)),)]
    assert UUID(left[0][0]) in made
    assert client.fetch_one("SELECT count(*) FROM messages") == (0,)


def test_every_public_method_leaves_the_rows_of_another_owner_byte_identical(
    client: PgClient,
    repo: ConversationRepository,
    turns: TurnRepository,
    tools: ToolResultRepository,
) -> None:
    mine, theirs = fill(client, ME), fill(client, OTHER)
    before = rows_of(client.dsn, Owner(OTHER))
    assert {table for table, _ in before} == set(ROWS_OF_OWNER) - {
        "telegram_updates", "job_deaths", "document_embeddings", "embedding_failures", "failures",
        "batch_requests", "daily_messages", "reminders", "unindexed_messages",
        "imports", "import_rows",
    }  # fmt: skip
    origin = TelegramOrigin(BOT, ME, 2, ME)
    question = repo.append_message(mine, "user", "a cat again", origin=origin)
    assert repo.append_message(mine, "user", "a cat again", origin=origin) == question
    assert edit(client, ME, origin, "a dog") in ("older", "last")
    answer = turns.save_answer(NewAnswer(mine, question, "Wuff", ("search",), (USAGE,), True))
    turns.add_usage(mine, (USAGE,))
    turns.mark_delivered_parts(mine, answer.id, 1)
    turns.mark_delivered(mine, answer.id, parts=2)
    turns.mark_stopped(mine, question)
    turns.mark_failed(BOT, ME, 2)
    turns.set_stream_message(mine, question, 77)
    tools.add(mine, question, ToolResult("search", {}, "", 1))
    assert len(repo.load_last_messages(mine)) == 6
    assert repo.clear_conversation_messages(mine) == 6
    assert repo.create_new_conversation(ME) != mine
    assert GroupMoveRepository(client).migrate_owner(ME, -100) == 1
    assert rows_of(client.dsn, Owner(OTHER)) == before
    assert repo.get_or_create_conversation(OTHER) == theirs


def test_every_method_of_the_memory_leaves_the_rows_of_another_owner_byte_identical(
    client: PgClient, repo: ConversationRepository
) -> None:
    mine, _theirs = fill(client, ME), fill(client, OTHER)
    before = rows_of(client.dsn, Owner(OTHER))
    me, memories = Owner(ME), MemoryRepository(client)
    [old] = memories.list_facts(me)
    said = repo.append_message(mine, "user", "the cat is Tom now")
    new = teach(client, me, said, "Tom")

    def replace_fact(transaction: Transaction) -> int:
        StoredFacts(transaction, me).touch(old.id, Fact(text="Tom", importance=10))
        source = Source(said, "Tom", NOON)
        assert StoredFacts(transaction, me).add_source(old.id, source)
        return StoredFacts(transaction, me).retire([old.id], successor=new, reason="replaced")

    assert client.in_transaction(replace_fact) == 1
    assert client.in_transaction(lambda t: ForgettingRepository(t, me).undo()) == UndoResult(
        "Tom", ["cats"]
    )
    assert client.in_transaction(lambda t: StoredFacts(t, me).retire_surplus(0)) == 1
    assert index(client, me, mine) == 1
    assert ExtractionRepository(client).advance(mine, first=1, last=3)
    uids = [f"msg-{id_}" for (id_,) in client.fetch_all("SELECT id FROM messages")]
    with client.transaction() as transaction:
        forgotten = Forgetter(transaction, me).forget(uids)
    assert set(forgotten.texts) <= {"cats", "Tom", f"cats of {ME}", "the cat is Tom now"}
    assert forgotten.number is not None
    UserSettingsRepository(client).change(ME, mode="assistant")
    assert ErasureRepository(client).erase(ME) > 0
    assert rows_of(client.dsn, me) == []
    assert rows_of(client.dsn, Owner(OTHER)) == before


def test_the_search_of_one_owner_finds_nothing_of_another_s(client: PgClient) -> None:
    mine, theirs = fill(client, ME), fill(client, OTHER)
    for conversation in (None, mine, theirs):
        request = SearchRequest(
            Owner(ME),
            [["cats", *terms("cats")]],
            ["cat"],
            conversation_id=conversation,
            before_position=100,
            with_assistant=True,
        )
        found = RetrievalRepository(client).search(request)
        assert {document.kind for document in found} == {"message", "memory", "summary"}
        assert {document.text for document in found} == {f"cats of {ME}", "cats", "Purr"}


def test_the_conversation_of_another_owner_protects_his_rows(
    client: PgClient, repo: ConversationRepository, turns: TurnRepository
) -> None:
    """Ids of somebody else's messages, given together with my conversation, do nothing."""
    mine = fill(client, ME)
    theirs = fill(client, OTHER)
    question, answer, *_ = client.fetch_all(
        "SELECT id FROM messages WHERE conversation_id = %(id)s ORDER BY id", {"id": str(theirs)}
    )
    before = rows_of(client.dsn, Owner(OTHER))
    turns.mark_delivered(mine, answer[0], parts=3)
    turns.mark_delivered_parts(mine, answer[0], 3)
    turns.mark_stopped(mine, question[0])
    turns.set_stream_message(mine, question[0], 5)
    assert edit(client, ME, TelegramOrigin(BOT, OTHER, 1, OTHER), "hacked") == "unknown"
    assert turns.find_answer(mine, question[0]) is None
    assert turns.find_stream_message(mine, question[0]) is None
    with client.transaction() as transaction:
        forgetter = Forgetter(transaction, Owner(ME))
        assert forgetter.forget([f"msg-{question[0]}"]).texts == ()
    assert MemoryRepository(client).find_source(Owner(ME), f"msg-{question[0]}") is None
    assert rows_of(client.dsn, Owner(OTHER)) == before


def test_a_group_takes_its_conversations_along_when_it_becomes_a_supergroup(
    client: PgClient, repo: ConversationRepository
) -> None:
    first = repo.get_or_create_conversation(-5)
    topic = repo.get_or_create_conversation(-5, thread_id=3)
    stranger = repo.get_or_create_conversation(-6)
    assert GroupMoveRepository(client).migrate_owner(-5, -1_000_000_000_005) == 2
    assert repo.get_or_create_conversation(-1_000_000_000_005) == first
    assert repo.get_or_create_conversation(-1_000_000_000_005, thread_id=3) == topic
    assert repo.get_or_create_conversation(-6) == stranger
    assert repo.get_or_create_conversation(-5) != first


def test_a_group_takes_its_memory_along_when_it_becomes_a_supergroup(
    client: PgClient, repo: ConversationRepository
) -> None:
    old, new = -5, -1_000_000_000_005
    for number, thread in enumerate((0, 3), start=1):
        fill(client, old, thread_id=thread, message_id=number)
    fill(client, OTHER)
    costs, others = {"model_usage"}, rows_of(client.dsn, Owner(OTHER))
    before = {thread: rows_of(client.dsn, Owner(old, thread), without=costs) for thread in (0, 3)}
    assert GroupMoveRepository(client).migrate_owner(old, new) == 2
    for thread, rows in before.items():
        assert rows_of(client.dsn, Owner(old, thread), without=costs) == []
        assert rows_of(client.dsn, Owner(new, thread), without=costs) == [
            (table, row.replace(f'"telegram_user_id": {old}', f'"telegram_user_id": {new}'))
            for table, row in rows
        ]
    assert rows_of(client.dsn, Owner(OTHER)) == others
