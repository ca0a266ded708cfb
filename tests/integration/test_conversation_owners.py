"""Nothing that is done for one owner changes or shows what belongs to another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from src.storage.conversation_repo import ConversationRepository, TelegramOrigin
from src.storage.message_search_repo import MessageSearchRepository
from src.storage.pg_client import PgClient, Row
from src.storage.tool_result_repo import ToolResult, ToolResultRepository
from src.storage.turn_repo import ModelUsage, NewAnswer, TurnRepository

ME, OTHER, BOT = 2**40 + 7, 2**40 + 8, 555

# Every row that belongs to an owner, each as one text with all of its columns.
ROWS_OF_OWNER = """
SELECT 'conversation ' || c.* ::text FROM conversations c WHERE telegram_user_id = %(owner)s
UNION ALL SELECT 'message ' || m.* ::text FROM messages m
JOIN conversations c ON c.id = m.conversation_id WHERE c.telegram_user_id = %(owner)s
UNION ALL SELECT 'tool ' || t.* ::text FROM tool_results t
JOIN conversations c ON c.id = t.conversation_id WHERE c.telegram_user_id = %(owner)s
UNION ALL SELECT 'usage ' || u.* ::text FROM model_usage u WHERE telegram_user_id = %(owner)s
ORDER BY 1
"""
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


def rows_of(client: PgClient, owner: int) -> list[Row]:
    return client.fetch_all(ROWS_OF_OWNER, {"owner": owner})


def fill(client: PgClient, owner: int, *, thread_id: int = 0, message_id: int = 1) -> UUID:
    """Give an owner one question with everything that can hang on it."""
    repo, turns = ConversationRepository(client), TurnRepository(client)
    conversation = repo.get_or_create_conversation(owner, thread_id=thread_id)
    origin = TelegramOrigin(BOT, owner, message_id, owner)
    question = repo.append_message(conversation, "user", f"cats of {owner}", origin=origin)
    turns.save_answer(NewAnswer(conversation, question, "Purr", ("search",), (USAGE,)))
    ToolResultRepository(client).add(
        conversation, question, ToolResult("search", {"q": "cat"}, "found", 12)
    )
    return conversation


def test_new_deletes_everything_of_the_owner_and_nothing_else(
    client: PgClient, repo: ConversationRepository
) -> None:
    mine = fill(client, ME)
    topic = fill(client, ME, thread_id=9, message_id=2)
    fill(client, OTHER)
    others = rows_of(client, OTHER)
    new = repo.create_new_conversation(ME)
    assert new not in (mine, topic)
    assert repo.get_or_create_conversation(ME) == new
    assert rows_of(client, OTHER) == others
    for table in ("messages", "tool_results"):
        left = client.fetch_all(f"SELECT DISTINCT conversation_id::text FROM {table}")
        assert (str(mine),) not in left
        assert (str(topic),) in left
    assert len(repo.load_last_messages(topic)) == 3
    assert client.fetch_one(
        "SELECT count(*) FROM conversations WHERE telegram_user_id = %(owner)s", {"owner": ME}
    ) == (2,)


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
    before = rows_of(client, OTHER)
    assert len(before) == 6
    origin = TelegramOrigin(BOT, ME, 2, ME)
    question = repo.append_message(mine, "user", "a cat again", origin=origin)
    assert repo.append_message(mine, "user", "a cat again", origin=origin) == question
    assert repo.edit_message(ME, origin, "a dog") is True
    answer = turns.save_answer(NewAnswer(mine, question, "Wuff", ("search",), (USAGE,), True))
    turns.add_usage(mine, (USAGE,))
    turns.mark_delivered_parts(mine, answer.id, 1)
    turns.mark_delivered(mine, answer.id, parts=2)
    turns.mark_stopped(mine, question)
    turns.mark_failed(BOT, ME, 2)
    turns.set_stream_message(mine, question, 77)
    tools.add(mine, question, ToolResult("search", {}, "", 1))
    found = MessageSearchRepository(client).search(mine, "cats", limit=20)
    assert [message.text for message in found] == [f"cats of {ME}"]
    assert len(repo.load_last_messages(mine)) == 6
    assert tools.clear(ME) == 2
    assert repo.clear_conversation_messages(mine) == 6
    assert repo.create_new_conversation(ME) != mine
    assert repo.migrate_owner(ME, -100) == 1
    assert rows_of(client, OTHER) == before
    assert repo.get_or_create_conversation(OTHER) == theirs


def test_the_conversation_of_another_owner_protects_his_rows(
    client: PgClient, repo: ConversationRepository, turns: TurnRepository
) -> None:
    """Ids of somebody else's messages, given together with my conversation, do nothing."""
    mine = fill(client, ME)
    theirs = fill(client, OTHER)
    question, answer, _ = client.fetch_all(
        "SELECT id FROM messages WHERE conversation_id = %(id)s ORDER BY id", {"id": str(theirs)}
    )
    before = rows_of(client, OTHER)
    turns.mark_delivered(mine, answer[0], parts=3)
    turns.mark_delivered_parts(mine, answer[0], 3)
    turns.mark_stopped(mine, question[0])
    turns.set_stream_message(mine, question[0], 5)
    assert repo.edit_message(ME, TelegramOrigin(BOT, OTHER, 1, OTHER), "hacked") is False
    assert turns.find_answer(mine, question[0]) is None
    assert turns.find_stream_message(mine, question[0]) is None
    assert rows_of(client, OTHER) == before


def test_a_group_takes_its_conversations_along_when_it_becomes_a_supergroup(
    client: PgClient, repo: ConversationRepository
) -> None:
    first = repo.get_or_create_conversation(-5)
    topic = repo.get_or_create_conversation(-5, thread_id=3)
    stranger = repo.get_or_create_conversation(-6)
    assert repo.migrate_owner(-5, -1_000_000_000_005) == 2
    assert repo.get_or_create_conversation(-1_000_000_000_005) == first
    assert repo.get_or_create_conversation(-1_000_000_000_005, thread_id=3) == topic
    assert repo.get_or_create_conversation(-6) == stranger
    assert repo.get_or_create_conversation(-5) != first


def test_a_supergroup_that_has_a_conversation_already_keeps_it(
    repo: ConversationRepository,
) -> None:
    old, new = repo.get_or_create_conversation(-5), repo.get_or_create_conversation(-7)
    assert repo.migrate_owner(-5, -7) == 0
    assert repo.get_or_create_conversation(-5) == old
    assert repo.get_or_create_conversation(-7) == new
