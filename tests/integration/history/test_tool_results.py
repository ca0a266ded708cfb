"""The newest tool calls of a conversation: cut to size, bounded in number, cleared by /new."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from src.history.conversation_repo import ConversationRepository
from src.history.timeline_repo import (
    KEEP,
    MAX_ARGUMENTS,
    MAX_RESULT,
    ToolResult,
    ToolResultRepository,
)
from src.pg.client import PgClient

OWNER = 2**41


@pytest.fixture
def repo(client: PgClient) -> ConversationRepository:
    return ConversationRepository(client)


@pytest.fixture
def results(client: PgClient) -> ToolResultRepository:
    return ToolResultRepository(client)


@pytest.fixture
def conversation(repo: ConversationRepository) -> UUID:
    return repo.get_or_create_conversation(OWNER)


@pytest.fixture
def question(repo: ConversationRepository, conversation: UUID) -> int:
    return repo.append_message(conversation, "user", "What time is it?")


def stored(client: PgClient, conversation: UUID) -> list[ToolResult]:
    """The calls of a conversation, oldest first."""
    rows = client.fetch_all(
        "SELECT name, arguments, result, duration_ms, error FROM tool_results"
        " WHERE conversation_id = %(id)s ORDER BY id",
        {"id": str(conversation)},
    )
    return [ToolResult(*row) for row in rows]


def test_a_call_is_stored_as_it_was(
    results: ToolResultRepository, client: PgClient, conversation: UUID, question: int
) -> None:
    calls = [
        ToolResult("current_time", {"zone": "Europe/Kyiv", "n": [1, None, 2.5]}, "12:00", 3),
        ToolResult("search", {}, "", 30_000, "TimeoutError"),
        ToolResult("поиск", {"q": "кіт 😀 %s"}, "нашёл \\ '", 0),
    ]
    for call in calls:
        results.add(conversation, question, call)
    assert stored(client, conversation) == calls
    odd = ToolResult("a\x00b", {"\ud83d": conversation, "x": [float("nan"), 1]}, "\ud83d\ude00", 1)
    results.add(conversation, question, odd)
    last = stored(client, conversation)[-1]
    assert (last.name, last.result) == ("a\ufffdb", "😀"), (
        "nothing that JSON knows not loses a call"
    )


def test_only_the_newest_calls_of_a_conversation_are_kept(
    results: ToolResultRepository,
    repo: ConversationRepository,
    client: PgClient,
    conversation: UUID,
    question: int,
) -> None:
    other = repo.get_or_create_conversation(OWNER + 1)
    asked = repo.append_message(other, "user", "And here?")
    results.add(other, asked, ToolResult("old", {}, "", 1))
    for number in range(KEEP + 5):
        results.add(conversation, question, ToolResult("tool", {}, str(number), 1))
        kept = client.fetch_one(
            "SELECT count(*) FROM tool_results WHERE conversation_id = %(id)s",
            {"id": str(conversation)},
        )
        assert kept == (min(number + 1, KEEP),)
    newest = [call.result for call in stored(client, conversation)]
    assert newest == [str(number) for number in range(5, KEEP + 5)]
    assert [call.name for call in stored(client, other)] == ["old"]


def test_everything_long_is_cut(
    results: ToolResultRepository, client: PgClient, conversation: UUID, question: int
) -> None:
    whole = {"q": "x" * (MAX_ARGUMENTS - len(json.dumps({"q": ""})))}
    results.add(conversation, question, ToolResult("t", whole, "", 1))
    huge = "щ😀" * 50_000
    results.add(conversation, question, ToolResult(huge, {"q": huge, '"': "\\" * 9}, huge, 1))
    kept, call = stored(client, conversation)
    assert kept.arguments == whole
    assert call.name == huge[:200]
    assert call.result == huge[:MAX_RESULT]
    assert call.arguments == {"cut": ('{"q": "' + huge)[:MAX_ARGUMENTS]}
