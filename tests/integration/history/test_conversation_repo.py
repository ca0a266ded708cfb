"""Conversations and messages on a real PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from src.base.errors import ConversationGoneError
from src.history.conversation_repo import ConversationRepository
from src.pg.client import PgClient


@pytest.fixture
def repo(client: PgClient) -> ConversationRepository:
    return ConversationRepository(client)


def contents(repo: ConversationRepository, conversation: UUID, limit: int = 100) -> list[str]:
    return [message["content"] for message in repo.load_last_messages(conversation, limit)]


def test_the_first_call_creates_a_conversation_and_the_next_finds_it(
    repo: ConversationRepository, client: PgClient
) -> None:
    first = repo.get_or_create_conversation(7)
    assert isinstance(first, UUID)
    assert repo.get_or_create_conversation(7) == first
    assert repo.get_or_create_conversation(-1_002_345_678_901) != first
    assert repo.get_or_create_conversation(7, thread_id=3) != first
    assert client.fetch_one("SELECT count(*) FROM conversations") == (3,)


def test_sixteen_threads_at_once_make_one_conversation(
    repo: ConversationRepository, client: PgClient
) -> None:
    for owner in range(1, 11):
        with ThreadPoolExecutor(16) as threads:
            found = list(threads.map(repo.get_or_create_conversation, [owner] * 16))
        assert len(set(found)) == 1
    assert client.fetch_one("SELECT count(*) FROM conversations") == (10,)


def test_positions_count_the_messages_of_each_conversation_from_one(
    repo: ConversationRepository, client: PgClient
) -> None:
    first, second = (repo.get_or_create_conversation(owner) for owner in (7, 8))
    ids: list[int] = []
    for number in range(6):
        ids.append(repo.append_message(first, "user", str(number)))
        if number % 2:
            repo.append_message(second, "user", str(number))

    def positions(conversation: UUID) -> list[int]:
        return [message["position"] for message in repo.load_last_messages(conversation)]

    assert (positions(first), positions(second)) == ([1, 2, 3, 4, 5, 6], [1, 2, 3])
    forgotten = "UPDATE messages SET is_forgotten = true WHERE id = ANY(%(ids)s)"
    client.execute(forgotten, {"ids": [ids[2], ids[5]]})
    assert positions(first) == [1, 2, 4, 5]
    repo.append_message(first, "user", "a number is not given twice")
    assert positions(first) == [1, 2, 4, 5, 7]
    assert repo.clear_conversation_messages(first) == 7
    repo.append_message(first, "user", "afresh")
    assert positions(first) == [1]


def test_a_message_keeps_the_time_at_which_it_was_written(
    repo: ConversationRepository, client: PgClient
) -> None:
    conversation = repo.get_or_create_conversation(7)
    written = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)
    repo.append_message(conversation, "user", "stored after an outage", said_at=written)
    repo.append_message(conversation, "user", "stored at once")
    said, late = client.fetch_all("SELECT said_at, created_at - said_at FROM messages ORDER BY id")
    assert said[0] == written and said[1] > timedelta(days=1)
    assert late[1] == timedelta(0)


@pytest.mark.parametrize(("given", "stored"), [
    ("a\x00b\x00", "a\ufffdb\ufffd"), ("a\ud800b", "a\ufffdb"), ("\udfff", "\ufffd"),
    ("\ude00\ud83d", "\ufffd\ufffd"), ("split \ud83d\ude00 pair", "split 😀 pair"),
    ("\ud83d\ude00 \x00 \ud83d 😀", "😀 \ufffd \ufffd 😀"), ("", ""), (" \n\t ", " \n\t "),
    *[(text, text) for text in (
        "привіт, мир! 'quoted' \"twice\" \\ back\\n %s %(name)s {x} $1 -- ; DROP TABLE messages",
        "👩‍👩‍👧‍👦 🏳️‍🌈 🇺🇦 👍🏿", "مرحبا \u202eעברית\u202c", "Z̸̢̛͙a̷͓͐l̵̜͝g̶̱͒o e\u0301 \u00e9",
    )],
])  # fmt: skip
def test_any_text_comes_back_but_for_what_postgresql_cannot_hold(
    repo: ConversationRepository, given: str, stored: str
) -> None:
    conversation = repo.get_or_create_conversation(7)
    repo.append_message(conversation, "assistant", given)
    assert contents(repo, conversation) == [stored]


def test_the_newest_thirty_messages_come_back_oldest_first(repo: ConversationRepository) -> None:
    conversation = repo.get_or_create_conversation(7)
    for number in range(40):
        repo.append_message(conversation, "user", str(number))
    loaded = [message["content"] for message in repo.load_last_messages(conversation)]
    assert loaded == [str(number) for number in range(10, 40)]
    assert contents(repo, conversation, 1) == ["39"]
    assert contents(repo, conversation, 0) == []
    assert contents(repo, conversation, -5) == []
    assert len(contents(repo, conversation, 1000)) == 40


def test_nothing_can_be_appended_to_a_deleted_conversation(
    repo: ConversationRepository, client: PgClient
) -> None:
    conversation = repo.get_or_create_conversation(7)
    new = repo.create_new_conversation(7)
    for gone in (conversation, str(conversation), uuid4()):
        with pytest.raises(ConversationGoneError):
            repo.append_message(gone, "user", "too late")
    assert repo.load_last_messages(conversation) == []
    assert contents(repo, new) == []
    assert client.fetch_one("SELECT count(*) FROM messages") == (0,)
