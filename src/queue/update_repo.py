"""Telegram updates: stored together with their jobs, handled once, pruned later."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from src.base.errors import ConversationGoneError, MessageMovedError
from src.base.owners import Owner
from src.pg.client import PATIENT, Repository, Transaction
from src.texts.reply import Question

UpdateKind = Literal[
    "message",
    "media",
    "teach",
    "command",
    "new",
    "stop",
    "edit",
    "callback",
    "member",
    "refused",
    "other",
]
# Result of handling an update, as the operator sees it.
UpdateOutcome = (
    Literal["done", "explained", "left to a later message", "stopped", "wiped", "failed"]
    | Literal["ignored", "refused", "refused silently", "chat unavailable", "put aside", "erased"]
)
# Kinds that supersede an unanswered message before them: another message of the same sender, and
# whatever ends the answer. A taught message gets an answer of its own, so a message is not left to
# anything that follows one. A part of an album that names the bot nowhere is "media".
SUPERSEDING: tuple[UpdateKind, ...] = ("message", "new", "stop")
ANSWERED_SEPARATELY: tuple[UpdateKind, ...] = ("teach",)
TEXT_FIELDS = ("text", "caption")  # of Telegram's messages


@dataclass(frozen=True)
class NewUpdate:
    """An update to store.

    Attributes:
        update_id: Telegram's number of the update.
        kind: Kind of the update; decides its queue.
        payload: The update as Telegram sent it; emptied when it is handled.
        interrupts: True if it stops the running answer of its chat at once.
        draft_id: The draft whose Stop button was pressed, if any.
        at_once: True if its order within the chat does not matter, so that it need not wait for an
            answer that is being written there.
    """

    update_id: int
    kind: UpdateKind
    payload: dict[str, Any]
    chat_id: int
    thread_id: int = 0
    user_id: int | None = None
    message_id: int | None = None
    media_group_id: str | None = None
    interrupts: bool = False
    draft_id: int | None = None
    at_once: bool = False


@dataclass(frozen=True)
class WaitingUpdate:
    """A stored update that is not handled yet.

    Attributes:
        home_id: The chat, or the supergroup that it became.
        revision: Number of erasures that have redacted it.
        asked_before: What the bot asked after the user's previous update, as in ``Question``.
    """

    id: int
    bot_id: int
    update_id: int
    kind: UpdateKind
    chat_id: int
    thread_id: int
    user_id: int | None
    message_id: int | None
    media_group_id: str | None
    payload: dict[str, Any] = field(repr=False)
    received_at: datetime
    home_id: int
    revision: int = 0
    asked_before: str = ""

    @property
    def owner(self) -> Owner:
        """Owner of the memory that the update belongs to."""
        return Owner(self.home_id, self.thread_id)

    @property
    def age(self) -> float:
        """Seconds since the update was received."""
        return (datetime.now(UTC) - self.received_at).total_seconds()

    @property
    def sender_language(self) -> str | None:
        """Language of the sender's Telegram client, if known."""
        content = next((one for one in self.payload.values() if isinstance(one, dict)), {})
        sender = content.get("from") or content.get("user")  # the latter of a reaction
        if isinstance(sender, dict):
            return sender.get("language_code")
        return None


@dataclass(frozen=True)
class NewerUpdates:
    """Updates that follow one in its chat.

    Attributes:
        newer: Kind of the next one that will be answered instead of it, if any.
        is_ended: True if /new or /stop is among them.
    """

    newer: UpdateKind | None = None
    is_ended: bool = False


# Store a batch of updates with their jobs, all or nothing. Updates of one chat (and topic) share a
# lock, so they are handled in order of arrival; updates whose order does not matter share a lock
# of their sender. The job that interrupts a running answer has no lock.
#
# Interruptions, commands, buttons and all updates without a model call have a queue of their own,
# whose slots turns cannot fill. Each pending update of the user lowers the priority by one: a
# user's second message ranks behind the first one of another. The priority is never higher than
# that of an earlier job under the same lock, as procrastinate would otherwise take the later job
# first.
INSERT_UPDATES = """
WITH incoming AS (
    SELECT * FROM jsonb_to_recordset(%(updates)s::jsonb) AS u (
        position int, update_id bigint, kind text, chat_id bigint, thread_id bigint,
        user_id bigint, message_id bigint, media_group_id text, payload jsonb,
        interrupts boolean, draft_id bigint, at_once boolean)
    WHERE NOT EXISTS (SELECT FROM owners o WHERE o.telegram_user_id IN (u.user_id, u.chat_id)
                                             AND o.blocked_at IS NOT NULL)
), stored AS (
    INSERT INTO telegram_updates (bot_id, update_id, kind, chat_id, thread_id, user_id,
                                  message_id, media_group_id, payload)
    SELECT %(bot_id)s, update_id, kind, chat_id, thread_id, user_id, message_id,
           media_group_id, payload
    FROM incoming ORDER BY position
    ON CONFLICT ON CONSTRAINT telegram_updates_once DO NOTHING
    RETURNING id, update_id, kind, served_as, chat_id, thread_id, message_id
), wanted AS (
    SELECT s.*, i.interrupts, i.draft_id,
           CASE WHEN s.kind IN ('message', 'media', 'edit') THEN 'people'
                ELSE 'control' END AS queue,
           CASE WHEN i.at_once THEN format('person:%%s:%%s', %(bot_id)s, s.served_as)
                ELSE format('chat:%%s:%%s:%%s', %(bot_id)s, s.chat_id, s.thread_id) END AS lock
    FROM stored s JOIN incoming i USING (update_id)
), people AS MATERIALIZED (
    SELECT p.served_as, count(u.id) AS pending
    FROM (SELECT DISTINCT served_as FROM wanted) AS p
    LEFT JOIN telegram_updates u
        ON u.bot_id = %(bot_id)s AND u.served_as = p.served_as AND u.handled_at IS NULL
           AND u.received_at > now() - interval '1 day'
    GROUP BY p.served_as
), ranked AS (
    SELECT w.*, 1 - p.pending - row_number() OVER (
               PARTITION BY w.served_as ORDER BY w.id) AS priority
    FROM wanted w JOIN people p USING (served_as)
), jobs AS (
    SELECT r.id, 1 AS part, r.queue, 'handle_update' AS task,
           least(min(r.priority) OVER (PARTITION BY r.lock ORDER BY r.id),
                 earlier.priority)::int AS priority, r.lock,
           jsonb_build_object('update', r.id, 'message_id', r.message_id) AS args
    FROM ranked r LEFT JOIN LATERAL (
        SELECT min(j.priority) AS priority FROM procrastinate_jobs j
        WHERE j.lock = r.lock AND j.status IN ('todo', 'doing')) AS earlier ON true
    UNION ALL
    SELECT w.id, 0, 'control', 'interrupt_turn', 10, NULL,
           jsonb_build_object(
               'lock', format('chat:%%s:%%s:%%s', %(bot_id)s, w.chat_id, w.thread_id),
               'before', w.id, 'draft_id', w.draft_id)
    FROM wanted w WHERE w.interrupts
), deferred AS (
    SELECT procrastinate_defer_jobs_v1(
        array_agg(ROW(queue, task, priority, lock, NULL, args, NULL)
                  ::procrastinate_job_to_defer_v1 ORDER BY id, part)) AS ids
    FROM jobs
)
SELECT (SELECT count(*) FROM stored), (SELECT count(*) FROM deferred)
"""

# An unhandled update, or one whose job is put aside.
SELECT_WAITING = """
SELECT u.id, u.bot_id, u.update_id, u.kind, u.chat_id, u.thread_id, u.user_id, u.message_id,
       u.media_group_id, u.payload, u.received_at,
       coalesce(v.new_chat_id, u.chat_id) AS home_id, u.revision,
       coalesce((SELECT p.asked ->> 'asks' FROM telegram_updates p
        WHERE p.id < u.id AND p.id > u.id - 1000 AND p.bot_id = u.bot_id
          AND p.chat_id = u.chat_id AND p.thread_id = u.thread_id AND p.user_id = u.user_id
        ORDER BY p.id DESC LIMIT 1), '') AS asked_before
FROM telegram_updates u
LEFT JOIN chat_moves v ON v.old_chat_id = u.chat_id
WHERE u.id = %(update)s
  AND CASE WHEN %(put_aside)s THEN u.outcome = 'put aside' ELSE u.handled_at IS NULL END
"""

# The revision of an update, and in order the kinds of the later unhandled updates of its chat that
# will be answered (or wipe it).
SELECT_NEWER = """
SELECT u.revision, ARRAY(
    SELECT n.kind FROM telegram_updates n
    WHERE n.bot_id = u.bot_id AND n.chat_id = u.chat_id AND n.thread_id = u.thread_id
      AND n.id > u.id AND n.handled_at IS NULL AND n.kind = ANY(%(kinds)s)
      AND (n.user_id IS NOT DISTINCT FROM u.user_id OR n.kind IN ('new', 'stop'))
    ORDER BY n.id)
FROM telegram_updates u WHERE u.id = %(update)s
"""
# The same of an update that is being handled, locked against erasures until the transaction ends
# (waiting for an erasure in progress).
LOCK_UPDATE = SELECT_NEWER + "AND u.handled_at IS NULL FOR SHARE OF u"

# Count the parts of albums that name the bot nowhere as messages, once another part names it.
PROMOTE_ALBUMS = """
UPDATE telegram_updates u SET kind = 'message'
WHERE u.bot_id = %(bot_id)s AND u.kind = 'media' AND u.handled_at IS NULL
  AND u.media_group_id = ANY(%(albums)s)
  AND EXISTS (SELECT 1 FROM telegram_updates a
              WHERE a.bot_id = u.bot_id AND a.chat_id = u.chat_id AND a.user_id = u.user_id
                AND a.media_group_id = u.media_group_id AND a.kind = 'message')
"""

# Kind of the first update that brought the same message, and was not ignored.
SELECT_HEARD = """
SELECT e.kind FROM telegram_updates u JOIN telegram_updates e
    ON e.bot_id = u.bot_id AND e.chat_id = u.chat_id AND e.message_id = u.message_id
       AND e.id < u.id
WHERE u.id = %(update)s AND e.kind NOT IN ('callback', 'other')
  AND coalesce(e.outcome, '') NOT IN ('ignored', 'explained')
ORDER BY e.id LIMIT 1
"""

# Mark an update as handled and empty its payload: ``messages`` holds the text now, if any table.
UPDATE_HANDLED = """
UPDATE telegram_updates SET handled_at = now(), outcome = %(outcome)s, payload = '{}'
WHERE id = %(update)s AND handled_at IS NULL
"""

# Store the question that the reply to an update asks.
UPDATE_ASKED = "UPDATE telegram_updates SET asked = %(asked)s WHERE id = %(update)s"

# Questions of the bot, by the Telegram messages that show them.
SELECT_ASKED = """
SELECT chat_id, (asked ->> 'message_id')::bigint, asked - 'message_id'
FROM jsonb_array_elements(%(messages)s::jsonb) AS given
JOIN telegram_updates ON chat_id = (given ->> 0)::bigint AND asked -> 'message_id' = given -> 1
WHERE bot_id = %(bot_id)s AND asked IS NOT NULL
ORDER BY id LIMIT 1000
"""

# Payload of an unhandled update, locked for a rewrite: a secret that is redacted in a message must
# be redacted here, too.
SELECT_PAYLOAD = """
SELECT payload FROM telegram_updates WHERE id = %(update)s AND handled_at IS NULL FOR UPDATE
"""
# Replace a payload.
UPDATE_PAYLOAD = "UPDATE telegram_updates SET payload = %(payload)s WHERE id = %(update)s"

# Count that Telegram refused the reply to an update for an unknown reason.
COUNT_REFUSAL = """
UPDATE telegram_updates SET refusals = least(refusals + 1, 1000) WHERE id = %(update)s
RETURNING refusals
"""

# Close all unhandled updates of a chat to which nothing can be sent (the user blocked the bot).
UPDATE_CHAT_HANDLED = """
UPDATE telegram_updates SET handled_at = now(), outcome = 'chat unavailable', payload = '{}'
WHERE bot_id = %(bot_id)s AND chat_id = %(chat_id)s AND handled_at IS NULL
  AND kind NOT IN ('member', 'refused')
"""

# An earlier update within a day at which this stranger was told that the bot is private.
SELECT_REFUSED = """
SELECT 1 FROM telegram_updates
WHERE bot_id = %(bot_id)s AND user_id = %(user_id)s AND kind = 'refused'
  AND id < %(update)s AND outcome = 'refused' AND handled_at > now() - interval '1 day'
LIMIT 1
"""

# Jobs of a chat that an interruption ends: running ones and those pending for a retry, if they are
# older than it and, for a Stop button, answer in its draft. Teaching is never interrupted.
SELECT_INTERRUPTIBLE = """
SELECT id, status = 'doing', (args ->> 'update')::bigint FROM procrastinate_jobs
WHERE lock = %(lock)s AND (status = 'doing' OR (status = 'todo' AND attempts > 0))
  AND (args ->> 'update')::bigint < %(before)s
  AND (%(draft_id)s::bigint IS NULL OR (args ->> 'message_id')::bigint = %(draft_id)s)
  AND NOT EXISTS (SELECT 1 FROM telegram_updates u
                  WHERE u.id = (args ->> 'update')::bigint AND u.kind = 'teach')
ORDER BY id LIMIT 100
"""

# Defer new jobs for unhandled updates without one (theirs failed, or was cancelled by a stop that
# met a dead worker), for at most a day, as long as Telegram itself would retry. They are older
# than everything else that is pending in their chats, so their priority is above all others.
# Updates before a handled /new of their chat are closed instead, as the /new has wiped the rest.
REQUEUE_ORPHANED = """
WITH jobless AS (
    SELECT u.id, u.kind, u.bot_id, u.chat_id, u.thread_id, u.message_id, u.received_at
    FROM telegram_updates u
    WHERE u.handled_at IS NULL AND u.received_at < now() - make_interval(secs => %(seconds)s)
      AND NOT EXISTS (
          SELECT 1 FROM procrastinate_jobs j
          WHERE j.task_name = 'handle_update' AND j.status IN ('todo', 'doing')
            AND (j.args ->> 'update')::bigint = u.id)
), wiped AS (
    UPDATE telegram_updates u SET handled_at = now(), outcome = 'wiped', payload = '{}'
    FROM jobless j WHERE u.id = j.id AND u.kind IN ('message', 'media', 'edit') AND EXISTS (
        SELECT 1 FROM telegram_updates n
        WHERE n.bot_id = u.bot_id AND n.chat_id = u.chat_id AND n.thread_id = u.thread_id
          AND n.id > u.id AND n.kind = 'new' AND n.handled_at IS NOT NULL)
    RETURNING u.id
), forgotten AS (
    SELECT id, bot_id, chat_id, thread_id, message_id FROM jobless
    WHERE received_at > now() - interval '1 day' AND id NOT IN (SELECT id FROM wiped)
    ORDER BY id LIMIT 1000
), deferred AS (
    SELECT procrastinate_defer_jobs_v1(
        array_agg(ROW('people', 'handle_update', 1,
                      format('chat:%%s:%%s:%%s', bot_id, chat_id, thread_id), NULL,
                      jsonb_build_object('update', id, 'message_id', message_id), NULL)
                  ::procrastinate_job_to_defer_v1 ORDER BY id)) AS ids
    FROM forgotten
)
SELECT (SELECT count(*) FROM forgotten), (SELECT count(*) FROM deferred)
"""

# Delete handled updates after some hours, as Telegram may deliver one again within a day. Updates
# of jobs put aside stay, so that they can be retried.
DELETE_OLD = """
DELETE FROM telegram_updates WHERE handled_at < now() - make_interval(hours => %(hours)s)
  AND id NOT IN (SELECT (j.args ->> 'update')::bigint
                 FROM job_deaths d JOIN procrastinate_jobs j ON j.id = d.job_id
                 WHERE j.args ? 'update' AND d.put_aside_at IS NOT NULL)
"""

# Number of unhandled updates, and the age of the oldest in seconds.
COUNT_WAITING = """
SELECT count(*), coalesce(extract(epoch FROM now() - min(received_at)), 0)
FROM telegram_updates WHERE handled_at IS NULL
"""


class UpdateRepository(Repository):
    """Stores updates with their jobs; every method blocks (see ``PgClient.run``)."""

    def store(self, bot_id: int, updates: Sequence[NewUpdate]) -> int:
        """Store the updates with their jobs in one transaction.

        Known updates and those of blocked users or chats are skipped.

        Returns:
            The number of stored updates.

        Raises:
            StorageError: Nothing is stored; do not confirm the updates.
        """
        if not updates:
            return 0
        records = [{**vars(update), "position": index} for index, update in enumerate(updates)]
        [row] = self._client.fetch_all(INSERT_UPDATES, bot_id=bot_id, updates=json.dumps(records))
        albums = {one.media_group_id for one in updates if one.media_group_id is not None}
        if albums:  # a process that dies before this receives the updates again
            self._client.execute(PROMOTE_ALBUMS, bot_id=bot_id, albums=sorted(albums))
        return int(row[0])

    def find_waiting(self, update: int, *, put_aside: bool = False) -> WaitingUpdate | None:
        """Return the update with row id ``update``, or None if it is handled (or pruned).

        With ``put_aside`` it is returned only if its job is put aside.
        """
        values = {"update": update, "put_aside": put_aside}
        return self._first(WaitingUpdate, SELECT_WAITING, values)

    def find_newer(
        self, update: int, *, kinds: Sequence[UpdateKind] = SUPERSEDING
    ) -> UpdateKind | None:
        """Return the kind of the chat's next unhandled update of the given kinds, or None."""
        row = self._client.fetch_one(SELECT_NEWER, update=update, kinds=list(kinds))
        return next(iter(row[1]), None) if row is not None else None

    def lock_update(self, transaction: Transaction, update: int, revision: int) -> NewerUpdates:
        """Lock an update until the transaction ends, and return the updates that follow it.

        Raises:
            ConversationGoneError: It is handled or erased.
            MessageMovedError: An erasure has changed it since ``revision``; read it again.
        """
        kinds = [*SUPERSEDING, *ANSWERED_SEPARATELY]
        row = transaction.fetch_one(LOCK_UPDATE, update=update, kinds=kinds)
        if row is None:
            raise ConversationGoneError("the update is gone")
        stored, found = row
        if stored != revision:
            raise MessageMovedError("the update was changed while it was handled")
        newer = next((kind for kind in found[:1] if kind in SUPERSEDING), None)
        return NewerUpdates(newer, "new" in found or "stop" in found)

    def rewrite(self, transaction: Transaction, update: int, change: Callable[[str], str]) -> None:
        """Apply ``change`` to all texts in the payload of an unhandled update."""
        row = transaction.fetch_one(SELECT_PAYLOAD, update=update)
        if row is not None:
            payload = json.dumps(_rewrite(row[0], change))
            transaction.execute(UPDATE_PAYLOAD, update=update, payload=payload)

    def list_interruptible(
        self, lock: str, *, before: int, draft_id: int | None = None
    ) -> list[tuple[int, bool, int]]:
        """List the jobs under a chat's lock that an interruption ends.

        Args:
            lock: Lock of the chat.
            before: Row id of the update that interrupts; later ones are left alone.
            draft_id: Restricts them to the answer of this draft.

        Returns:
            Tuples of the job's id, True if it runs (else it is pending for a retry), and the row
            id of its update.
        """
        values = {"lock": lock, "before": before, "draft_id": draft_id}
        rows = self._client.fetch_all(SELECT_INTERRUPTIBLE, values)
        return [(job, runs, update) for job, runs, update in rows]

    def mark_handled(self, update: int, outcome: UpdateOutcome) -> None:
        """Mark the update as handled and empty its payload."""
        self._client.execute(UPDATE_HANDLED, update=update, outcome=outcome)

    def set_asked(self, update: int, message_id: int, asked: Question) -> None:
        """Store that the reply to an update asks something, in this Telegram message."""
        question = json.dumps({**asked, "message_id": message_id})
        self._client.execute(UPDATE_ASKED, update=update, asked=question)

    def find_asked(
        self, bot_id: int, messages: Iterable[tuple[int, int] | None]
    ) -> dict[tuple[int, int] | None, Question]:
        """Return the questions among Telegram messages, each given by its chat and number."""
        given = json.dumps([message for message in messages if message is not None])
        rows = self._client.fetch_all(SELECT_ASKED, bot_id=bot_id, messages=given)
        return {(chat, number): question for chat, number, question in rows}

    def heard_as(self, update: int) -> UpdateKind | None:
        """Return the kind of the first update that brought the same message, if it was heard."""
        return self._first(lambda kind: kind, SELECT_HEARD, update=update)

    def count_refusal(self, update: int) -> int:
        """Count one more refusal of the reply by Telegram and return the total."""
        return self._first(int, COUNT_REFUSAL, update=update) or 0

    def close_chat(self, bot_id: int, chat_id: int) -> int:
        """Mark all unhandled updates of an unavailable chat as handled; return their number."""
        return self._client.execute(UPDATE_CHAT_HANDLED, bot_id=bot_id, chat_id=chat_id)

    def was_refused_lately(self, update: WaitingUpdate) -> bool:
        """Return True if this stranger was told within a day that the bot is private."""
        stranger = {"bot_id": update.bot_id, "user_id": update.user_id, "update": update.id}
        return self._client.fetch_one(SELECT_REFUSED, stranger) is not None

    def requeue_orphaned(self, *, older_than: float) -> int:
        """Defer a new job for every unhandled update without one and return the number of updates.

        Updates before a handled /new get none.

        Args:
            older_than: Least age of the updates in seconds.
        """
        [(found, _)] = self._client.fetch_all(REQUEUE_ORPHANED, seconds=older_than, limits=PATIENT)
        return int(found)

    def prune(self, *, hours: int) -> int:
        """Delete updates that were handled more than ``hours`` ago and return their number."""
        return self._client.execute(DELETE_OLD, hours=hours, limits=PATIENT)

    def count_waiting(self) -> tuple[int, float]:
        """Return the number of unhandled updates and the age of the oldest in seconds."""
        [(number, seconds)] = self._client.fetch_all(COUNT_WAITING)
        return int(number), float(seconds)


def _rewrite(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [_rewrite(one, change) for one in value]
    if not isinstance(value, dict):
        return value
    rewritten = {key: _rewrite(one, change) for key, one in value.items()}
    for key in TEXT_FIELDS:
        if isinstance(value.get(key), str):
            rewritten[key] = change(value[key])
    return rewritten
