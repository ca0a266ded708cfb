"""Locks: on an owner's rows until a transaction ends, and advisory locks held by a process."""

import threading
from collections.abc import Collection
from uuid import UUID

from psycopg2.extensions import connection as Connection

from src.base.errors import StorageUnavailableError
from src.base.owners import Owner
from src.pg.client import Transaction, connect, translate_errors

# Lock order. Locks on an owner's rows are held until the transaction ends. To avoid deadlocks, a
# transaction takes the locks it needs in this order, and several of a kind by ascending id:
#
# 1. moves of groups: one at a time;
# 2. stored updates: a starting turn, and an erasure, lock those they read;
# 3. facts of an owner: one writer at a time, even if the owner has no conversation;
# 4. conversations: shared to add to them (facts, documents), exclusive to fold, forget, purge,
#    move or erase;
# 5. messages to be indexed;
# 6. the owner's row of ``search_owners``, which ``add_documents`` updates.
#
# Transactions that set reminders take one lock per owner and no other.
#
# Pending jobs, workers and documents are locked by the statements that claim them. A lock that a
# process holds as long as it lives, such as the one for receiving updates, is an ``AdvisoryLock``.

# Lock all moves of groups: they are rare, and two can concern the same group.
LOCK_MOVES = "SELECT pg_advisory_xact_lock(hashtextextended('chat_moves', 0))"

# Lock the facts of an owner.
LOCK_FACTS = "SELECT pg_advisory_xact_lock(hashtextextended('memories:' || %(owner)s, 0))"

# Lock the facts of all topics of two chats, ordered by owner.
LOCK_FACTS_OF_CHATS = """
SELECT pg_advisory_xact_lock(hashtextextended('memories:' || id, 0))
FROM (SELECT id FROM owners WHERE telegram_user_id IN (%(old)s, %(new)s) ORDER BY id) AS chats
"""

# Lock the reminders of an owner, created if new, so that they can be counted.
LOCK_REMINDERS = """
SELECT pg_advisory_xact_lock(
    hashtextextended('reminders:' || add_owner(%(user)s, %(thread_id)s), 0))
"""

# Share the owner's conversations, so that nothing of them is forgotten or erased meanwhile.
SHARE_CONVERSATION = "SELECT id FROM conversations WHERE owner_id = %(owner)s FOR SHARE"

# Keep the owner of a conversation (against moves of groups and erasures).
KEEP_CONVERSATION = """
SELECT id FROM conversations WHERE id = %(conversation_id)s
  AND owner_id = %(owner)s FOR KEY SHARE
"""

# Lock the conversations of an owner against new facts and summaries; without a topic, those of
# all topics of a group.
LOCK_HISTORY = """
SELECT id FROM conversations
WHERE telegram_user_id = %(user)s
  AND (%(user)s > 0 OR %(thread_id)s::bigint IS NULL OR thread_id = %(thread_id)s)
ORDER BY id FOR NO KEY UPDATE
"""

# Lock conversations by id in the same way, as far as they exist.
LOCK_CONVERSATIONS = """
SELECT telegram_user_id, thread_id FROM conversations WHERE id = ANY(%(ids)s::uuid[])
ORDER BY id FOR NO KEY UPDATE
"""

# Lock the conversations of two chats against new messages, answers, documents and summaries.
LOCK_CHATS = """
SELECT id FROM conversations WHERE telegram_user_id IN (%(old)s, %(new)s)
ORDER BY id FOR UPDATE
"""

# Lock the conversations of a user in the same way, and those of other owners in which the user
# wrote, taught, is mentioned, or is forwarded.
LOCK_TRACES = """
SELECT id, telegram_user_id <> %(user)s FROM conversations
WHERE telegram_user_id = %(user)s
   OR id IN (SELECT conversation_id FROM messages
             WHERE %(user)s IN (sender_id, author_id, quoted_author_id)
                OR mentions @> jsonb_build_array(jsonb_build_object('id', %(user)s)))
   OR owner_id IN (
       SELECT f.owner_id FROM facts f JOIN memory_sources s ON s.memory_id = f.id
       WHERE %(user)s IN (s.sender_id, s.author_id)
       UNION SELECT owner_id FROM parting_messages
       WHERE %(user)s = sender_id
          OR mentions @> jsonb_build_array(jsonb_build_object('id', %(user)s)))
ORDER BY id FOR UPDATE
"""

# Lock the messages of a conversation that are to be indexed, and select whether each is
# searchable; wait for transactions that hide, show or edit them.
LOCK_MESSAGES = """
SELECT m.id, NOT m.is_forgotten AND NOT m.is_private
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = ANY(%(ids)s) AND m.conversation_id = %(conversation_id)s AND c.owner_id = %(owner)s
ORDER BY m.id FOR UPDATE OF m
"""

# Delete pending messages, also those that no longer exist, and return those that this worker got.
TAKE_UNINDEXED = """
DELETE FROM unindexed_messages w USING conversations c
WHERE w.conversation_id = %(conversation_id)s AND w.message_id = ANY(%(ids)s)
  AND c.id = w.conversation_id AND c.owner_id = %(owner)s
RETURNING w.message_id
"""


def lock_facts(transaction: Transaction, owner: Owner) -> None:
    """Lock an owner's facts: no one else can write, forget or erase them."""
    transaction.execute(LOCK_FACTS, owner.columns())
    transaction.execute(SHARE_CONVERSATION, owner.columns())


def lock_reminders(transaction: Transaction, owner: Owner) -> None:
    """Lock an owner's reminders: no one else can set them."""
    transaction.execute(LOCK_REMINDERS, owner.columns())


def lock_history(
    transaction: Transaction, telegram_user_id: int, thread_id: int | None = None
) -> None:
    """Lock an owner's history against new summaries and facts; without a topic, of all topics."""
    transaction.execute(LOCK_HISTORY, {"user": telegram_user_id, "thread_id": thread_id})


def lock_conversations(transaction: Transaction, ids: Collection[UUID]) -> list[Owner]:
    """Lock conversations as ``lock_history`` does, and return the owners of the existing ones."""
    rows = transaction.fetch_all(LOCK_CONVERSATIONS, ids=list(ids))
    return [Owner(*row) for row in rows]


def take_unindexed(
    transaction: Transaction, owner: Owner, conversation_id: UUID, ids: Collection[int]
) -> set[int]:
    """Claim messages for indexing and lock them against moves and erasure.

    Returns:
        The ids that were pending and are searchable.
    """
    params = {**owner.columns(), "conversation_id": conversation_id, "ids": list(ids)}
    transaction.execute(KEEP_CONVERSATION, params)
    shown = {id_ for id_, is_shown in transaction.fetch_all(LOCK_MESSAGES, params) if is_shown}
    return shown & {int(row[0]) for row in transaction.fetch_all(TAKE_UNINDEXED, params)}


POLLER_LOCK = 7_361_201  # first key of the lock "receives the updates of bot N"

# Take the lock, or take it once more: it is released with its session.
TRY_LOCK = "SELECT pg_try_advisory_lock(%s, %s)"

# Limit the idle time of the session. Otherwise the lock of a process cut off by the network would
# be held until TCP keepalives give up, by default after two hours.
LIMIT_IDLE = "SELECT set_config('idle_session_timeout', %s, false)"
IDLE_SECONDS = 60  # more than pass between two uses of a lock


class AdvisoryLock:
    """Advisory lock on a connection of its own.

    PostgreSQL identifies it by two 32-bit keys; ``name`` is reduced to fit one.
    """

    def __init__(self, dsn: str, kind: int, name: int = 0) -> None:
        """Identify the lock by ``kind`` and ``name``; the first call connects."""
        self._dsn = dsn
        self._keys = (kind, name % 2**31)
        self._connection: Connection | None = None
        self._busy = threading.Lock()

    def try_exclusive(self) -> bool:
        """Take the lock exclusively, or make sure that it is still held.

        Returns:
            False if another session holds it.

        Raises:
            StorageUnavailableError: No connection, or it broke; the lock is lost with it.
        """
        with self._busy:
            is_new = self._connection is None
            connection = self._connection or connect(self._dsn, application_name="pomni lock")
            self._connection = connection
            connection.autocommit = True
            try:
                with translate_errors(), connection.cursor() as cursor:
                    if is_new:
                        cursor.execute(LIMIT_IDLE, (f"{IDLE_SECONDS}s",))
                    cursor.execute(TRY_LOCK, self._keys)
                    return cursor.fetchone() == (True,)
            except StorageUnavailableError:
                connection.close()
                self._connection = None
                raise

    def release(self) -> None:
        """Release the lock by closing the connection; a second call does nothing."""
        with self._busy:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
