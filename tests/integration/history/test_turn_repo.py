"""Answers: stored once per question, delivered once, with their tools and their cost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from src.base.errors import ConversationGoneError
from src.base.owners import Owner
from src.history.conversation_repo import ConversationRepository, TelegramOrigin
from src.history.turn_repo import AnswerSource, ModelUsage, NewAnswer, StoredAnswer, TurnRepository
from src.memory.memory_repo import count_recalls
from src.pg.client import PgClient
from src.queue.update_repo import NewUpdate, UpdateRepository

OWNER, BOT = 2**41, 555
USAGE = (
    ModelUsage("answer", "gpt-x", 1200, 1000, 80, 950),
    ModelUsage("answer", "gpt-x", 1300, 1200, 20, 400),
)


@pytest.fixture
def repo(client: PgClient) -> ConversationRepository:
    return ConversationRepository(client)


@pytest.fixture
def turns(client: PgClient) -> TurnRepository:
    return TurnRepository(client)


@pytest.fixture
def conversation(repo: ConversationRepository) -> UUID:
    return repo.get_or_create_conversation(OWNER)


@pytest.fixture
def question(repo: ConversationRepository, conversation: UUID) -> int:
    origin = TelegramOrigin(BOT, OWNER, 1, OWNER)
    return repo.append_message(conversation, "user", "Why?", origin=origin)


def test_two_workers_that_answer_at_once_agree_on_one_answer(
    turns: TurnRepository, repo: ConversationRepository, client: PgClient, conversation: UUID
) -> None:
    for number in range(10):
        asked = repo.append_message(conversation, "user", f"question {number}")
        together = threading.Barrier(2)

        def answer(text: str, asked: int = asked, together=together) -> StoredAnswer:
            together.wait()
            return turns.save_answer(NewAnswer(conversation, asked, text, ("tool",), USAGE))

        with ThreadPoolExecutor(2) as threads:
            one, two = threads.map(answer, ["one", "two"])
        assert (one.id, one.text) == (two.id, two.text)
    assert client.fetch_one("SELECT count(*) FROM messages") == (30,)
    assert client.fetch_one("SELECT count(*) FROM model_usage") == (20,)


SAID_AT = datetime(2026, 11, 21, 9, 5, tzinfo=UTC)


def teach(client: PgClient, owner: int, message: int, text: str) -> int:
    """Store a fact without anything around it; returns its number."""
    [(memory,)] = client.fetch_all(
        "INSERT INTO memories (owner_id, memory_type, text, subject, relation, object,"
        " importance, origin, content_hash) VALUES (add_owner(%(owner)s, 0), 'user_fact',"
        " %(text)s, 'user',"
        " 'other', '', 5, 'tool', %(text)s) RETURNING id",
        {"owner": owner, "text": text},
    )
    client.execute(
        "INSERT INTO memory_sources (memory_id, message_id, uid, episode, quote, said_at)"
        " VALUES (%(memory)s, %(message)s, %(uid)s, '', '', %(said_at)s)",
        {"memory": memory, "message": message, "uid": f"msg-{message}", "said_at": SAID_AT},
    )
    return int(memory)


def test_an_answer_is_found_again_with_its_sources(
    turns: TurnRepository,
    repo: ConversationRepository,
    client: PgClient,
    conversation: UUID,
    question: int,
) -> None:
    said = repo.append_message(
        conversation, "user", "[Текущее время: 2026-11-21 12:05] I live in Omsk", said_at=SAID_AT
    )
    fact = teach(client, OWNER, said, "My name is Ann")
    sources = (
        AnswerSource(1, f"msg-{said}", "I live in Omsk", SAID_AT, message_id=said),
        AnswerSource(3, f"msg-{said}", "My name is Ann", SAID_AT, said, fact),
    )
    saved = turns.save_answer(NewAnswer(conversation, question, "Ann [3]", sources=sources))
    assert saved.sources == sources
    assert turns.find_answer(conversation, question) == replace(saved, delivered=False)

    client.execute("DELETE FROM messages WHERE id = %(id)s", {"id": said})
    found = turns.find_answer(conversation, question)
    assert found is not None, "the message is gone, the fact is not"
    assert found.sources == (replace(sources[1], message_id=None),)
    client.execute("DELETE FROM memories")
    found = turns.find_answer(conversation, question)
    assert found is not None and found.sources == ()


def test_a_fact_that_an_answer_relies_on_counts_as_recalled_once_and_only_for_its_owner(
    turns: TurnRepository, client: PgClient, conversation: UUID, question: int
) -> None:
    mine, theirs = (teach(client, owner, question, "fact") for owner in (OWNER, OWNER + 1))
    sources = tuple(
        AnswerSource(number, "msg-1", "fact", SAID_AT, memory_id=memory)
        for number, memory in enumerate((mine, mine, theirs), start=1)
    )
    answer = NewAnswer(conversation, question, "Here.", sources=sources)
    turns.save_answer(answer, count_recalls)
    turns.save_answer(answer, count_recalls)  # the second worker's does not count
    counted = client.fetch_all("SELECT id, recalls FROM memories ORDER BY id")
    assert counted == [(mine, 1), (theirs, 0)]


def test_a_wiped_conversation_takes_no_answer(
    turns: TurnRepository,
    repo: ConversationRepository,
    client: PgClient,
    conversation: UUID,
    question: int,
) -> None:
    new = repo.create_new_conversation(OWNER)
    with pytest.raises(ConversationGoneError):
        turns.save_answer(NewAnswer(conversation, question, "Too late", ("a",), USAGE))
    with pytest.raises(ConversationGoneError):
        turns.save_answer(NewAnswer(new, question, "Wrong place", ("a",), USAGE))
    turns.add_usage(conversation, USAGE)
    for table in ("messages", "model_usage"):
        assert client.fetch_one(f"SELECT count(*) FROM {table}") == (0,)


def test_a_wipe_and_an_answer_at_once_never_leave_half_of_either(
    turns: TurnRepository, repo: ConversationRepository, client: PgClient
) -> None:
    for number in range(20):
        conversation = repo.get_or_create_conversation(OWNER)
        asked = repo.append_message(conversation, "user", f"question {number}")
        together = threading.Barrier(2)

        def answer(conversation=conversation, asked=asked, together=together) -> bool:
            together.wait()
            try:
                turns.save_answer(NewAnswer(conversation, asked, "Yes", ("a",), USAGE))
            except ConversationGoneError:
                return False
            return True

        def wipe(together=together) -> UUID:
            together.wait()
            return repo.create_new_conversation(OWNER)

        with ThreadPoolExecutor(2) as threads:
            answered, wiped = threads.submit(answer), threads.submit(wipe)
            cost = 2 if answered.result() else 0
        assert repo.get_or_create_conversation(OWNER) == wiped.result()
        assert client.fetch_one("SELECT count(*) FROM messages") == (0,)
        assert client.fetch_one("SELECT count(*) FROM model_usage") == (cost,)
        client.execute("DELETE FROM model_usage")


def test_delivery_marks_the_answer_and_its_update_in_one_statement(
    turns: TurnRepository, client: PgClient, conversation: UUID, question: int
) -> None:
    updates = UpdateRepository(client)
    updates.store(BOT, [NewUpdate(n, "message", {}, chat_id=OWNER) for n in (1, 2)])
    (mine,), (other,) = client.fetch_all("SELECT id FROM telegram_updates ORDER BY id")
    saved = turns.save_answer(NewAnswer(conversation, question, "Long"))
    turns.mark_delivered_parts(conversation, saved.id, 2)
    assert turns.find_answer(conversation, question) == StoredAnswer(saved.id, "Long", False, 2)
    before = client.statements
    turns.mark_delivered(conversation, saved.id, parts=3, update=mine)
    assert client.statements == before + 1
    assert turns.find_answer(conversation, question) == StoredAnswer(saved.id, "Long", True, 3)
    assert updates.find_waiting(mine) is None
    assert updates.find_waiting(other) is not None
    outcomes = client.fetch_all("SELECT outcome FROM telegram_updates ORDER BY id")
    assert outcomes == [("done",), (None,)]


def test_only_the_newest_question_counts_as_stopped(
    turns: TurnRepository, repo: ConversationRepository, conversation: UUID, question: int
) -> None:
    assert turns.find_stop(Owner(OWNER)) is None
    turns.save_answer(NewAnswer(conversation, question, "Becau", stopped=True))
    assert turns.find_stop(Owner(OWNER)) == "shown"
    assert turns.find_stop(Owner(OWNER, 1)) is None
    assert turns.find_stop(Owner(OWNER + 1)) is None
    newer = repo.append_message(conversation, "user", "And?")
    assert turns.find_stop(Owner(OWNER)) is None
    turns.mark_stopped(conversation, newer)
    assert turns.find_stop(Owner(OWNER)) == "silent"


def test_giving_up_is_marked_on_the_message_of_that_bot_only(
    turns: TurnRepository, client: PgClient, question: int
) -> None:
    failed = "SELECT failed_at IS NOT NULL FROM messages WHERE id = %(id)s"
    turns.mark_failed(BOT + 1, OWNER, 1)
    turns.mark_failed(BOT, OWNER, 2)
    assert client.fetch_one(failed, {"id": question}) == (False,)
    turns.mark_failed(BOT, OWNER, 1)
    assert client.fetch_one(failed, {"id": question}) == (True,)
