"""Telegram updates: stored with their jobs or not at all, and only once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from src.base.errors import StorageRejectedError
from src.history.conversation_repo import ConversationRepository
from src.history.turn_repo import TurnRepository
from src.pg.client import PgClient, Row
from src.queue.update_repo import NewUpdate, UpdateKind, UpdateRepository, WaitingUpdate
from tests.conftest import execute

BOT, CHAT, USER = 555, 2**41, 2**41

# The jobs in the order in which they were made.
JOBS = """
SELECT task_name, queue_name, priority, lock, queueing_lock, args, status::text, scheduled_at
FROM procrastinate_jobs ORDER BY id
"""


@pytest.fixture
def updates(client: PgClient) -> UpdateRepository:
    return UpdateRepository(client)


def message(update_id: int, **changes: object) -> NewUpdate:
    values = {"chat_id": CHAT, "user_id": USER, "message_id": update_id + 1000, **changes}
    kind = values.pop("kind", "message")
    payload = values.pop("payload", {"update_id": update_id})
    return NewUpdate(update_id, kind, payload, **values)  # type: ignore[arg-type]


def stored(client: PgClient) -> list[int]:
    rows = client.fetch_all("SELECT update_id FROM telegram_updates ORDER BY id")
    return [row[0] for row in rows]


def job(client: PgClient, update_id: int, served_in: int = 0, queue: str = "people") -> Row:
    (row_id,) = client.fetch_all(
        "SELECT id FROM telegram_updates WHERE update_id = %(u)s", {"u": update_id}
    )[0]
    args = {"update": row_id, "message_id": update_id + 1000}
    lock = f"chat:{BOT}:{CHAT}:0"
    return ("handle_update", queue, -served_in, lock, None, args, "todo", None)


def test_a_hundred_updates_are_one_statement_and_keep_their_order(
    updates: UpdateRepository, client: PgClient
) -> None:
    assert updates.store(BOT, []) == 0
    numbers = [*range(500, 550), *range(100, 150)]
    before = client.statements, client.transactions
    assert updates.store(BOT, [message(number) for number in numbers]) == 100
    assert (client.statements, client.transactions) == (before[0] + 1, before[1] + 1)
    assert stored(client) == numbers
    assert client.fetch_all(JOBS) == [job(client, n, place) for place, n in enumerate(numbers)]


def test_eight_receivers_of_the_same_updates_store_them_once(
    updates: UpdateRepository, client: PgClient
) -> None:
    together = threading.Barrier(8)

    def receive(_: int) -> int:
        together.wait()
        return updates.store(BOT, [message(number) for number in range(20)])

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(receive, range(8))) == 20
    assert sorted(stored(client)) == list(range(20))
    assert client.fetch_one("SELECT count(*) FROM procrastinate_jobs") == (20,)


@pytest.mark.own_database
@pytest.mark.parametrize("size", [1, 3])
def test_when_the_job_cannot_be_stored_the_update_is_not_either(
    updates: UpdateRepository, client: PgClient, dsn: str, size: int
) -> None:
    execute(dsn, "ALTER TABLE procrastinate_jobs RENAME TO away")
    batch = [message(number) for number in range(size)]
    with pytest.raises(StorageRejectedError):
        updates.store(BOT, batch)
    assert stored(client) == []
    execute(dsn, "ALTER TABLE away RENAME TO procrastinate_jobs")
    assert updates.store(BOT, batch) == size
    assert client.fetch_all(JOBS) == [job(client, number, number) for number in range(size)]


# Updates that wait to be handled: found, superseded, closed and pruned


BOT, CHAT, STRANGER = 555, 2**41, 2**41 + 1


class Inbox:
    """Stores one update after the other and gives back what waits."""

    def __init__(self, client: PgClient, updates: UpdateRepository) -> None:
        self.client = client
        self.updates = updates
        self.received = 0

    def put(self, kind: UpdateKind = "message", *, bot: int = BOT, **fields: object) -> int:
        self.received += 1
        values = {"chat_id": CHAT, "user_id": CHAT, **fields}
        self.updates.store(bot, [NewUpdate(self.received, kind, {}, **values)])  # type: ignore[arg-type]
        row = self.client.fetch_one("SELECT max(id) FROM telegram_updates")
        assert row is not None
        return int(row[0])

    def get(self, row_id: int) -> WaitingUpdate:
        found = self.updates.find_waiting(row_id)
        assert found is not None
        return found

    def newer(self, row_id: int) -> UpdateKind | None:
        return self.client.in_transaction(
            lambda transaction: self.updates.lock_update(transaction, row_id, 0).newer
        )


@pytest.fixture
def inbox(client: PgClient, updates: UpdateRepository) -> Inbox:
    return Inbox(client, updates)


def outcome(client: PgClient, row_id: int) -> str | None:
    row = client.fetch_one(
        "SELECT outcome FROM telegram_updates WHERE id = %(id)s", {"id": row_id}
    )
    assert row is not None
    return row[0]


def test_blocking_the_bot_closes_what_waits_in_that_chat_only(inbox: Inbox) -> None:
    done = inbox.put()
    inbox.updates.mark_handled(done, "done")
    closed = [inbox.put(), inbox.put(thread_id=3), inbox.put("callback")]
    kept = [inbox.put("member"), inbox.put("refused"), inbox.put(chat_id=CHAT + 1)]
    kept.append(inbox.put(bot=BOT + 1))
    assert inbox.updates.close_chat(BOT, CHAT) == 3
    assert [outcome(inbox.client, row_id) for row_id in closed] == ["chat unavailable"] * 3
    assert [outcome(inbox.client, row_id) for row_id in kept] == [None] * 4
    assert outcome(inbox.client, done) == "done"


def test_a_stranger_is_told_once_a_day(inbox: Inbox) -> None:
    first = inbox.put("refused", user_id=STRANGER)
    second = inbox.get(inbox.put("refused", user_id=STRANGER))
    assert inbox.updates.was_refused_lately(second) is False
    inbox.updates.mark_handled(first, "refused")
    assert inbox.updates.was_refused_lately(second) is True
    assert inbox.updates.was_refused_lately(inbox.get(inbox.put("refused", user_id=CHAT))) is False
    other = inbox.get(inbox.put("refused", user_id=STRANGER, bot=BOT + 1))
    assert inbox.updates.was_refused_lately(other) is False
    inbox.client.execute(
        "UPDATE telegram_updates SET handled_at = now() - interval '25 hours' WHERE id = %(id)s",
        {"id": first},
    )
    assert inbox.updates.was_refused_lately(second) is False


def test_pruning_deletes_what_was_handled_long_ago_and_never_what_waits(inbox: Inbox) -> None:
    old, young, waiting = inbox.put(), inbox.put(), inbox.put()
    for row_id in (old, young):
        inbox.updates.mark_handled(row_id, "done")
    inbox.client.execute("UPDATE telegram_updates SET received_at = now() - interval '90 days'")
    inbox.client.execute(
        "UPDATE telegram_updates SET handled_at = now() - interval '49 hours' WHERE id = %(id)s",
        {"id": old},
    )
    assert inbox.updates.prune(hours=48) == 1
    assert inbox.updates.prune(hours=48) == 0
    left = inbox.client.fetch_all("SELECT id FROM telegram_updates ORDER BY id")
    assert left == [(young,), (waiting,)]


WORDS = {"update_id": 1, "message": {"text": "слова"}}


def words_left(client: PgClient) -> list[tuple[object, ...]]:
    return client.fetch_all("SELECT id, payload FROM telegram_updates WHERE payload <> '{}'")


def test_a_handled_update_keeps_its_numbers_and_none_of_its_words(inbox: Inbox) -> None:
    for number in (1, 2, 3, 4):
        inbox.updates.store(
            BOT, [NewUpdate(number, "message", WORDS, chat_id=CHAT, message_id=number)]
        )
    rows = [row for row, _ in words_left(inbox.client)]
    inbox.updates.mark_handled(rows[0], "failed")
    conversation = ConversationRepository(inbox.client).get_or_create_conversation(CHAT)
    TurnRepository(inbox.client).mark_delivered(conversation, 1, update=rows[1])
    assert words_left(inbox.client) == [(rows[2], WORDS), (rows[3], WORDS)], (
        "those that wait keep them"
    )
    assert inbox.updates.close_chat(BOT, CHAT) == 2
    assert words_left(inbox.client) == []
    kept = inbox.client.fetch_all(
        "SELECT update_id, kind, message_id FROM telegram_updates ORDER BY id"
    )
    assert kept == [(number, "message", number) for number in (1, 2, 3, 4)]
    assert inbox.updates.store(BOT, [NewUpdate(1, "message", WORDS, chat_id=CHAT)]) == 0
    inbox.updates.store(BOT, [NewUpdate(5, "message", WORDS, CHAT)])
    for outcome_ in ("'done'", "NULL"):  # no statement can forget to forget the words
        with pytest.raises(StorageRejectedError):
            inbox.client.execute(
                f"UPDATE telegram_updates SET handled_at = now(), outcome = {outcome_}"
            )
