"""Updates that wait to be handled: found, superseded, closed and pruned."""

from __future__ import annotations

import pytest

from src.base.errors import StorageRejectedError
from src.history.conversation_repo import ConversationRepository
from src.history.turn_repo import TurnRepository
from src.pg.client import PgClient
from src.queue.update_repo import NewUpdate, UpdateKind, UpdateRepository, WaitingUpdate

BOT, CHAT, STRANGER = 555, 2**41, 2**41 + 1


@pytest.fixture
def updates(client: PgClient) -> UpdateRepository:
    return UpdateRepository(client)


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


def test_a_waiting_update_is_found(inbox: Inbox) -> None:
    row_id = inbox.put("command", thread_id=4, message_id=9, media_group_id="album")
    found = inbox.get(row_id)
    assert (found.id, found.bot_id, found.update_id, found.kind) == (row_id, BOT, 1, "command")
    assert (found.chat_id, found.thread_id, found.user_id) == (CHAT, 4, CHAT)
    assert (found.message_id, found.media_group_id, found.payload) == (9, "album", {})
    assert 0 <= found.age < 1000


def test_a_handled_update_no_longer_waits_and_keeps_its_first_outcome(
    inbox: Inbox, updates: UpdateRepository, client: PgClient
) -> None:
    row_id, other = inbox.put(), inbox.put()
    updates.mark_handled(row_id, "done")
    updates.mark_handled(row_id, "failed")
    assert updates.find_waiting(row_id) is None
    assert outcome(client, row_id) == "done"
    assert inbox.get(other).update_id == 2
    assert updates.find_waiting(10**9) is None


def test_a_newer_message_of_a_place_is_found(inbox: Inbox, updates: UpdateRepository) -> None:
    first = inbox.get(inbox.put())
    inbox.put(chat_id=CHAT + 1)
    inbox.put(thread_id=1)
    inbox.put(bot=BOT + 1)
    inbox.put("edit")
    inbox.put("media")
    inbox.put("message", user_id=STRANGER)
    assert updates.find_newer(first.id) is None
    assert inbox.newer(first.id) is None
    assert updates.find_newer(first.id, kinds=["edit", "media"]) == "edit"
    newer = inbox.put("new")
    inbox.put("message")
    assert updates.find_newer(first.id) == "new"
    updates.mark_handled(newer, "done")
    assert updates.find_newer(first.id) == "message"
    assert updates.find_newer(inbox.put()) is None


def test_nothing_is_left_beyond_what_gets_an_answer_of_its_own(
    inbox: Inbox, updates: UpdateRepository
) -> None:
    first = inbox.put("message")
    between = inbox.put("teach")
    inbox.put("message")
    assert inbox.newer(first) is None
    updates.mark_handled(between, "done")
    assert inbox.newer(first) == "message"


def test_parts_of_an_album_become_messages_once_one_names_the_bot(
    inbox: Inbox, updates: UpdateRepository
) -> None:
    album = {"media_group_id": "a"}
    before, other = inbox.put("media", **album), inbox.put("media", media_group_id="b")
    foreign = [inbox.put("media", **album, chat_id=CHAT + 1)]
    foreign.append(inbox.put("media", **album, user_id=STRANGER))
    ignored = inbox.put("media", **album)
    updates.mark_handled(ignored, "ignored")
    inbox.put("message", **album)
    after = inbox.put("media", **album)
    kinds = [inbox.get(row).kind for row in (before, after, other, *foreign)]
    assert kinds == ["message", "message", "media", "media", "media"]


def test_a_message_was_heard_unless_it_was_ignored(
    inbox: Inbox, updates: UpdateRepository
) -> None:
    first = inbox.put("edit", message_id=7)
    assert not updates.was_heard(first)
    updates.mark_handled(first, "ignored")
    inbox.put("callback", message_id=7)
    inbox.put("message", message_id=7, chat_id=CHAT + 1)
    second = inbox.put("edit", message_id=7)
    assert not updates.was_heard(second)
    updates.mark_handled(second, "done")
    assert updates.was_heard(inbox.put("edit", message_id=7))


def test_blocking_the_bot_closes_what_waits_in_that_chat_only(
    inbox: Inbox, updates: UpdateRepository, client: PgClient
) -> None:
    done = inbox.put()
    updates.mark_handled(done, "done")
    closed = [inbox.put(), inbox.put(thread_id=3), inbox.put("callback")]
    kept = [inbox.put("member"), inbox.put("refused"), inbox.put(chat_id=CHAT + 1)]
    kept.append(inbox.put(bot=BOT + 1))
    assert updates.close_chat(BOT, CHAT) == 3
    assert [outcome(client, row_id) for row_id in closed] == ["chat unavailable"] * 3
    assert [outcome(client, row_id) for row_id in kept] == [None] * 4
    assert outcome(client, done) == "done"


def test_a_stranger_is_told_once_a_day(
    inbox: Inbox, updates: UpdateRepository, client: PgClient
) -> None:
    first = inbox.put("refused", user_id=STRANGER)
    second = inbox.get(inbox.put("refused", user_id=STRANGER))
    assert updates.was_refused_lately(second) is False
    updates.mark_handled(first, "refused")
    assert updates.was_refused_lately(second) is True
    assert updates.was_refused_lately(inbox.get(inbox.put("refused", user_id=CHAT))) is False
    other = inbox.get(inbox.put("refused", user_id=STRANGER, bot=BOT + 1))
    assert updates.was_refused_lately(other) is False
    client.execute(
        "UPDATE telegram_updates SET handled_at = now() - interval '25 hours' WHERE id = %(id)s",
        {"id": first},
    )
    assert updates.was_refused_lately(second) is False


def test_pruning_deletes_what_was_handled_long_ago_and_never_what_waits(
    inbox: Inbox, updates: UpdateRepository, client: PgClient
) -> None:
    old, young, waiting = inbox.put(), inbox.put(), inbox.put()
    for row_id in (old, young):
        updates.mark_handled(row_id, "done")
    client.execute("UPDATE telegram_updates SET received_at = now() - interval '90 days'")
    client.execute(
        "UPDATE telegram_updates SET handled_at = now() - interval '49 hours' WHERE id = %(id)s",
        {"id": old},
    )
    assert updates.prune(hours=48) == 1
    assert updates.prune(hours=48) == 0
    left = client.fetch_all("SELECT id FROM telegram_updates ORDER BY id")
    assert left == [(young,), (waiting,)]


WORDS = {"update_id": 1, "message": {"text": "слова"}}


def words_left(client: PgClient) -> list[tuple[object, ...]]:
    return client.fetch_all("SELECT id, payload FROM telegram_updates WHERE payload <> '{}'")


def test_a_handled_update_keeps_its_numbers_and_none_of_its_words(
    inbox: Inbox, updates: UpdateRepository, client: PgClient
) -> None:
    for number in (1, 2, 3, 4):
        updates.store(BOT, [NewUpdate(number, "message", WORDS, chat_id=CHAT, message_id=number)])
    rows = [row for row, _ in words_left(client)]
    updates.mark_handled(rows[0], "failed")
    conversation = ConversationRepository(client).get_or_create_conversation(CHAT)
    TurnRepository(client).mark_delivered(conversation, 1, update=rows[1])
    assert words_left(client) == [(rows[2], WORDS), (rows[3], WORDS)], "those that wait keep them"
    assert updates.close_chat(BOT, CHAT) == 2
    assert words_left(client) == []
    kept = client.fetch_all("SELECT update_id, kind, message_id FROM telegram_updates ORDER BY id")
    assert kept == [(number, "message", number) for number in (1, 2, 3, 4)]
    assert updates.store(BOT, [NewUpdate(1, "message", WORDS, chat_id=CHAT)]) == 0
    updates.store(BOT, [NewUpdate(5, "message", WORDS, CHAT)])
    for outcome_ in ("'done'", "NULL"):  # no statement can forget to forget the words
        with pytest.raises(StorageRejectedError):
            client.execute(f"UPDATE telegram_updates SET handled_at = now(), outcome = {outcome_}")
