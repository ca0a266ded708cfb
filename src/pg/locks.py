"""Locks: those on what is an owner's, until a transaction ends, and one that a process holds."""

import threading
import time
from collections.abc import Collection
from uuid import UUID

from src.base.errors import StorageTimeoutError, StorageUnavailableError
from src.base.owners import Owner
from src.pg.client import PreparedStatement, Transaction, wrapped_errors
from src.pg.connection import PgConnection, connect

# Who waits for whom: the locks on what is an owner's, each held until its transaction ends.
#
# A transaction takes those that it needs in this order, several of a kind by their numbers, so
# that no two of them ever wait for each other:
#
# 1. the moves of groups: one at a time;
# 2. stored updates: a turn that begins, and an erasure, lock those they read;
# 3. an owner's facts: one writer at a time, also of one without a conversation;
# 4. conversations: shared by those who add to them (facts, documents), alone for those who fold,
#    forget, purge, move or erase;
# 5. messages that go into the index;
# 6. the owner's row of ``search_owners``, which ``add_documents`` updates.
#
# Reminders are set by transactions that take no other lock: one at a time of an owner.
#
# Jobs, workers and documents that wait are locked by the statements that claim them; what one
# process holds alone for as long as it lives, such as the receiving of updates, is an
# ``AdvisoryLock``.

# One move of a group at a time: they are rare, and there may be two that meet.
LOCK_MOVES = "SELECT pg_advisory_xact_lock(hashtextextended('chat_moves', 0))"

# One writer of facts per owner.
LOCK_FACTS = """
SELECT pg_advisory_xact_lock(hashtextextended('memories:' || %(owner)s, 0))
"""

# The same for all topics of two chats, in the same order for everybody.
LOCK_FACTS_OF_CHATS = """
SELECT pg_advisory_xact_lock(hashtextextended('memories:' || id, 0))
FROM (SELECT id FROM owners WHERE telegram_user_id IN (%(old)s, %(new)s) ORDER BY id) AS chats
"""

# One setter of reminders per owner, so that they can be counted; the owner may be new.
LOCK_REMINDERS = """
SELECT pg_advisory_xact_lock(
    hashtextextended('reminders:' || add_owner(%(user)s, %(thread_id)s), 0))
"""

# Nothing of the conversation is forgotten or erased meanwhile.
SHARE_CONVERSATION = """
SELECT id FROM conversations
WHERE owner_id = %(owner)s FOR SHARE
"""

# Whose the conversation is does not change meanwhile (a group that moves, an erasure).
KEEP_CONVERSATION = PreparedStatement(
    "keep_conversation",
    """
SELECT id FROM conversations WHERE id = %(conversation_id)s
  AND owner_id = %(owner)s FOR KEY SHARE
""",
)

# Nobody makes facts or summaries of an owner's messages meanwhile; without a topic, of all topics
# of a group.
LOCK_HISTORY = """
SELECT id FROM conversations
WHERE telegram_user_id = %(user)s
  AND (%(user)s > 0 OR %(thread_id)s::bigint IS NULL OR thread_id = %(thread_id)s)
ORDER BY id FOR NO KEY UPDATE
"""

# The same for certain conversations, as far as they are there.
LOCK_CONVERSATIONS = """
SELECT telegram_user_id, thread_id FROM conversations WHERE id = ANY(%(ids)s::uuid[])
ORDER BY id FOR NO KEY UPDATE
"""

# Nobody stores messages, answers, documents or summaries in two chats meanwhile.
LOCK_CHATS = """
SELECT id FROM conversations WHERE telegram_user_id IN (%(old)s, %(new)s)
ORDER BY id FOR UPDATE
"""

# Nor in the conversations of a user, and in those of others in which they wrote, taught, are
# mentioned, or are forwarded.
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

# Messages of a conversation that this transaction indexes, and which of them may be found: one
# that is hidden, shown again or edited now is waited for.
LOCK_MESSAGES = PreparedStatement(
    "lock_messages",
    """
SELECT m.id, NOT m.is_forgotten AND NOT m.is_private
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = ANY(%(ids)s) AND m.conversation_id = %(conversation_id)s AND c.owner_id = %(owner)s
ORDER BY m.id FOR UPDATE OF m
""",
)

# They wait no more, also those that are gone; what another worker has taken does not come back.
TAKE_UNINDEXED = PreparedStatement(
    "take_unindexed",
    """
DELETE FROM unindexed_messages w USING conversations c
WHERE w.conversation_id = %(conversation_id)s AND w.message_id = ANY(%(ids)s)
  AND c.id = w.conversation_id AND c.owner_id = %(owner)s
RETURNING w.message_id
""",
)


def lock_facts(transaction: Transaction, owner: Owner) -> None:
    """Let no one else write, forget or erase this owner's facts."""
    transaction.execute(LOCK_FACTS, owner.columns())
    transaction.execute(SHARE_CONVERSATION, owner.columns())


def lock_reminders(transaction: Transaction, owner: Owner) -> None:
    """Let no one else set reminders of this owner."""
    transaction.execute(LOCK_REMINDERS, owner.columns())


def lock_history(
    transaction: Transaction, telegram_user_id: int, thread_id: int | None = None
) -> None:
    """Let no other write summaries or facts of this owner; without a topic, of all topics."""
    transaction.execute(LOCK_HISTORY, {"user": telegram_user_id, "thread_id": thread_id})


def lock_conversations(transaction: Transaction, ids: Collection[UUID]) -> list[Owner]:
    """The same for certain conversations; returns the owners of those that are there."""
    rows = transaction.fetch_all(LOCK_CONVERSATIONS, ids=list(ids))
    return [Owner(*row) for row in rows]


def take_unindexed(
    transaction: Transaction, owner: Owner, conversation_id: UUID, ids: Collection[int]
) -> set[int]:
    """Let no one else index these messages, nor move or erase them: they wait no more.

    Returns:
        Those that waited, and may be found.
    """
    messages = {**owner.columns(), "conversation_id": conversation_id, "ids": list(ids)}
    transaction.execute(KEEP_CONVERSATION, messages)
    shown = {id_ for id_, is_shown in transaction.fetch_all(LOCK_MESSAGES, messages) if is_shown}
    return shown & {int(row[0]) for row in transaction.fetch_all(TAKE_UNINDEXED, messages)}


def lock_moves(transaction: Transaction) -> None:
    """Let no other group move."""
    transaction.execute(LOCK_MOVES)


def lock_chats(transaction: Transaction, old_chat_id: int, new_chat_id: int) -> None:
    """Let no other store anything in these two groups."""
    chats = {"old": old_chat_id, "new": new_chat_id}
    for statement in (LOCK_FACTS_OF_CHATS, LOCK_CHATS):
        transaction.execute(statement, chats)


def lock_traces(transaction: Transaction, telegram_user_id: int) -> list[tuple[UUID, bool]]:
    """Let no other store anything where this owner left traces.

    Returns:
        The ids of these conversations, and whether each is another's.
    """
    return [(*row,) for row in transaction.fetch_all(LOCK_TRACES, user=telegram_user_id)]


POLLER_LOCK = 7_361_201  # first key of the lock "receives the updates of bot N"
WORKER_LOCK = 7_361_202  # first key of the lock "a worker lives"
TRIAL_LOCK = 7_361_203  # first key of the lock "a process closes its queues to try suspects"
PROOF_SECONDS = 5.0  # how long a connection is believed to live without an answer
IDLE_SECONDS = 20  # after which the server ends a session whose process it no longer hears

# The lock of a process that the network has cut off would be held for as long as the server
# believes in its connection, by default two hours. PostgreSQL knows this setting since 14.
LIMIT_IDLE = """
SELECT set_config(name, %(milliseconds)s, false) FROM pg_settings
WHERE name = 'idle_session_timeout'
"""


class AdvisoryLock:
    """One named lock on a connection of its own.

    The name is a fixed number and a second one folded into 32 bits, as PostgreSQL wants it.
    """

    def __init__(self, dsn: str, kind: int, name: int = 0) -> None:
        """Nothing connects yet."""
        self._dsn = dsn
        self._keys = (kind, name % 2**31)
        self._connection: PgConnection | None = None
        self._asking = threading.RLock()

    def try_exclusive(self) -> bool:
        """Take the lock alone; False when another holds it in any way.

        Raises:
            StorageUnavailableError: No connection.
        """
        return self._ask("SELECT pg_try_advisory_lock(%s, %s)")

    def try_shared(self) -> bool:
        """Take the lock together with others; False when another holds it alone."""
        return self._ask("SELECT pg_try_advisory_lock_shared(%s, %s)")

    def take_shared(self) -> None:
        """Take the lock together with others, waiting for one who holds it alone."""
        while True:
            try:
                self._ask("SELECT pg_advisory_lock_shared(%s, %s) IS NOT NULL")
            except StorageTimeoutError:  # each question has an end, the waiting has none
                continue
            return

    def leave_exclusive(self) -> None:
        """Give up the exclusive hold; a shared one taken meanwhile stays."""
        self._ask("SELECT pg_advisory_unlock(%s, %s)")

    def is_connected(self) -> bool:
        """Whether the connection that holds the lock still lives; costs no round trip.

        Nothing tells a connection whose server is frozen, or gone without a good-bye, from one
        that is quiet: now and then it has to be asked (``needs_proof``, ``prove``).
        """
        if not self._asking.acquire(blocking=False):
            return True  # it is being asked, and what there is to read is the answer
        try:
            return self._connection is not None and not self._connection.has_hung_up()
        finally:
            self._asking.release()

    def needs_proof(self) -> bool:
        """Whether the server has said nothing on this connection for a while."""
        connection = self._connection
        return connection is None or time.monotonic() > connection.answered_at + PROOF_SECONDS

    def prove(self) -> bool:
        """Ask the server whether it is there; False when the lock is lost with its connection."""
        if not self.is_connected():
            return False
        try:
            return self._ask("SELECT %s = %s OR true")
        except StorageUnavailableError:
            return False

    def release(self) -> None:
        """Let go by closing the connection. Releasing twice does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.closed:
            connection.close()

    def _ask(self, sql: str) -> bool:
        with self._asking:
            if not self.is_connected():
                self.release()
                self._connection = self._connect()
            assert self._connection is not None
            try:
                with wrapped_errors(), self._connection.cursor() as cursor:
                    cursor.execute(sql, self._keys)
                    row = cursor.fetchone()
            except StorageTimeoutError:
                raise
            except StorageUnavailableError:
                self.release()
                raise
        return bool(row and row[0])

    def _connect(self) -> PgConnection:
        connection = connect(self._dsn, application_name="pomni lock")
        connection.autocommit = True
        with wrapped_errors(), connection.cursor() as cursor:
            cursor.execute(LIMIT_IDLE, {"milliseconds": str(1000 * IDLE_SECONDS)})
        return connection
