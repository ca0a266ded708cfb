"""Reminders, and the jobs that deliver them.

The queue would bear a job for each reminder from the day on which it is set, but every look for
work passes all jobs that wait. So jobs are made for what is due within ``AHEAD``: by the
transaction that sets or moves a reminder, and every minute for all others (which also finds those
that lost theirs). A job says which reminder, and which time of it: one for another time than
stands in the row does nothing, so moving a reminder needs no search for its job.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from src.base.errors import StorageRejectedError
from src.base.owners import Owner
from src.base.zones import first_moment, local_time
from src.memory.purge_repo import UNDO_SECONDS
from src.pg.client import Repository, Row, Transaction
from src.pg.connection import PATIENT
from src.pg.locks import lock_reminders
from src.queue.job_repo import REMINDERS_QUEUE, UNIQUE_VIOLATION
from src.reading.recurrences import Recurrence, next_after
from src.texts import Language, choose_language

REMIND = "remind"  # the task
AHEAD = timedelta(minutes=2)  # twice the pause between two plans, so that one may be missed
BATCH = 1000  # jobs of one statement
REMINDER_UID = "reminder-"
MAX_WAITING = 200  # reminders of one owner

COLUMNS = """r.id, (SELECT telegram_user_id FROM owners WHERE id = r.owner_id), r.thread_id,
       r.asker_id, r.text, r.due_at, r.recurrence, r.time_zone, r.language, r.snooze_of,
       r.is_waiting, r.cancelled_at"""
OWN = f"""
SELECT {COLUMNS} FROM reminders r
WHERE r.owner_id = %(owner)s"""  # noqa: S608  (it holds a constant of ours)

# How many of an owner wait.
COUNT_WAITING = """
SELECT count(*) FROM reminders
WHERE owner_id = %(owner)s AND is_waiting
"""

# The very same reminder, which waits already: a turn that was killed is run again.
SELECT_SAME = f"""{OWN}
  AND r.is_waiting AND r.due_at = %(due_at)s AND r.text = %(text)s
  AND r.asker_id IS NOT DISTINCT FROM %(asker_id)s
  AND r.recurrence IS NOT DISTINCT FROM %(recurrence)s
ORDER BY r.id LIMIT 1
"""

# A new one; of its message, only one of the owner's own that is still there.
INSERT_REMINDER = f"""
INSERT INTO reminders AS r (owner_id, thread_id, asker_id, text, due_at, recurrence, time_zone,
                            language, message_id)
VALUES (%(owner)s, %(thread_id)s, %(asker_id)s, %(text)s, %(due_at)s, %(recurrence)s,
        %(time_zone)s, %(language)s,
        (SELECT m.id FROM messages m JOIN conversations c ON c.id = m.conversation_id
         WHERE m.id = %(message_id)s AND c.owner_id = %(owner)s))
RETURNING {COLUMNS}
"""  # noqa: S608  (it holds a constant of ours)

# Those that wait, the next one first.
SELECT_WAITING = f"""{OWN}
  AND r.is_waiting
ORDER BY r.due_at, r.id LIMIT %(limit)s OFFSET %(offset)s
"""

# Those that came lately and come no more, the newest first.
SELECT_CAME = f"""{OWN}
  AND NOT r.is_waiting AND r.cancelled_at IS NULL
  AND r.delivered_at IS NOT NULL AND r.due_at > %(since)s
ORDER BY r.due_at DESC, r.id DESC LIMIT %(limit)s
"""

# One of the owner's, waiting or not.
SELECT_ONE = f"{OWN} AND r.id = %(id)s"

# It comes no more.
UPDATE_CANCELLED = """
UPDATE reminders SET is_waiting = false, cancelled_at = now()
WHERE id = %(id)s AND owner_id = %(owner)s AND is_waiting
"""

# It comes after all: for some seconds after it was cancelled, and while its time is ahead.
UPDATE_RESTORED = f"""
UPDATE reminders r SET is_waiting = true, cancelled_at = NULL
WHERE r.id = %(id)s AND r.owner_id = %(owner)s AND NOT r.is_waiting AND r.snooze_of IS NULL
  AND r.cancelled_at > now() - make_interval(secs => %(seconds)s)
  AND r.due_at > %(now)s
RETURNING {COLUMNS}
"""  # noqa: S608  (it holds a constant of ours)

# It is done: so is the time of a recurring one that was put off, which itself goes on.
UPDATE_FINISHED = """
UPDATE reminders SET is_waiting = false, cancelled_at = now()
WHERE owner_id = %(owner)s AND is_waiting
  AND (snooze_of = %(id)s OR (id = %(id)s AND recurrence IS NULL))
"""

# It comes (again) at another time, and perhaps by another rule.
UPDATE_MOVED = f"""
UPDATE reminders r SET is_waiting = true, due_at = %(due_at)s, time_zone = %(time_zone)s,
                       recurrence = %(recurrence)s, attempts = 0
WHERE r.id = %(id)s AND r.owner_id = %(owner)s AND r.cancelled_at IS NULL
RETURNING {COLUMNS}
"""  # noqa: S608  (it holds a constant of ours)

# One time of a recurring one comes later, as a reminder of its own; put off again, it moves.
UPSERT_SNOOZED = f"""
INSERT INTO reminders AS r (owner_id, thread_id, asker_id, text, due_at, time_zone, language,
                            message_id, snooze_of)
SELECT owner_id, thread_id, asker_id, text, %(due_at)s, %(time_zone)s, language, message_id, id
FROM reminders WHERE id = %(id)s AND owner_id = %(owner)s AND recurrence IS NOT NULL
ON CONFLICT (snooze_of) WHERE is_waiting AND snooze_of IS NOT NULL
DO UPDATE SET due_at = EXCLUDED.due_at, time_zone = EXCLUDED.time_zone
RETURNING {COLUMNS}
"""  # noqa: S608  (it holds a constant of ours)

# What moves with the time zone of an owner, in all topics: what recurs, and what was set to a
# whole minute of a clock that was only a guess ("in ten minutes" is none).
SELECT_TO_MOVE = f"""
SELECT {COLUMNS} FROM reminders r
WHERE r.owner_id IN (SELECT id FROM owners WHERE telegram_user_id = %(user)s)
  AND r.is_waiting AND r.due_at > %(now)s
  AND (r.recurrence IS NOT NULL
       OR (r.time_zone = %(guessed)s AND r.due_at = date_trunc('minute', r.due_at)))
ORDER BY r.id FOR UPDATE
"""  # noqa: S608  (it holds a constant of ours)
UPDATE_DUE = """
UPDATE reminders SET due_at = %(due_at)s
WHERE id = %(id)s AND owner_id IN (SELECT id FROM owners WHERE telegram_user_id = %(user)s)
"""
UPDATE_ZONE = """
UPDATE reminders SET time_zone = %(time_zone)s
WHERE owner_id IN (SELECT id FROM owners WHERE telegram_user_id = %(user)s) AND is_waiting
"""

# A job for each reminder that is due soon and has none.
DEFER_SOON = """
WITH soon AS (
    SELECT 'reminder:' || r.id AS lock, 'reminder:' || r.id || ':' || d.due AS work, r.due_at,
           jsonb_build_object('reminder', r.id, 'due', d.due) AS args
    FROM reminders r CROSS JOIN LATERAL (SELECT extract(epoch FROM r.due_at)::bigint AS due) AS d
    WHERE r.is_waiting AND r.due_at < %(until)s AND (%(id)s::bigint IS NULL OR r.id = %(id)s)
      AND NOT EXISTS (
          SELECT 1 FROM procrastinate_jobs j
          WHERE j.lock = 'reminder:' || r.id AND j.status IN ('todo', 'doing')
            AND j.queueing_lock = 'reminder:' || r.id || ':' || d.due)
    ORDER BY r.due_at, r.id LIMIT %(limit)s
), deferred AS (
    SELECT procrastinate_defer_jobs_v1(
        array_agg(ROW(%(queue)s, %(task)s, 0, lock, work, args, due_at)
                  ::procrastinate_job_to_defer_v1 ORDER BY due_at)) AS ids
    FROM soon
)
SELECT (SELECT count(*) FROM soon), (SELECT count(*) FROM deferred)
"""

# One that is due, with what its chat has chosen; in a group, as a reply to who asked.
SELECT_DUE = f"""
SELECT {COLUMNS}, s.language,
       s.inactive_since IS NOT NULL OR o.blocked_at IS NOT NULL,
       CASE WHEN m.chat_id = o.telegram_user_id AND o.telegram_user_id < 0
            THEN m.telegram_message_id END
FROM reminders r
JOIN owners o ON o.id = r.owner_id
LEFT JOIN owners chat ON chat.telegram_user_id = o.telegram_user_id AND chat.thread_id = 0
LEFT JOIN user_settings s ON s.owner_id = chat.id
LEFT JOIN messages m ON m.id = r.message_id
WHERE r.id = %(id)s AND r.due_at = %(due_at)s AND r.is_waiting FOR UPDATE OF r
"""  # noqa: S608  (it holds a constant of ours)

# It was sent (or given up): the next time, or none.
UPDATE_DELIVERED = """
UPDATE reminders
SET delivered_at = CASE WHEN %(is_sent)s THEN %(now)s ELSE delivered_at END, attempts = 0,
    due_at = coalesce(%(next)s, due_at), is_waiting = %(next)s IS NOT NULL
WHERE id = %(id)s
"""

# Nothing can be sent to its chat.
UPDATE_UNREACHABLE = """
UPDATE reminders SET is_waiting = false, cancelled_at = now()
WHERE id = %(id)s AND due_at = %(due_at)s AND is_waiting
"""

# Sending it failed for a reason that may not pass.
COUNT_FAILURE = """
UPDATE reminders SET attempts = least(attempts + 1, 1000)
WHERE id = %(id)s AND due_at = %(due_at)s RETURNING attempts
"""

# What came or was cancelled long ago: its buttons say then that it is gone.
DELETE_OLD = """
DELETE FROM reminders
WHERE NOT is_waiting
  AND coalesce(cancelled_at, delivered_at, created_at) < now() - make_interval(days => %(days)s)
"""

# The message that asked is edited, and will be answered anew.
DELETE_OF_MESSAGE = """
DELETE FROM reminders
WHERE message_id = %(id)s AND owner_id = %(owner)s
  AND is_waiting
"""


@dataclass(frozen=True)
class NewReminder:
    """A reminder to be stored.

    Attributes:
        text: What to remind of.
        due_at: The first time (aware, a whole second).
        repeats: How it comes again.
        time_zone: On whose clock; a name of the tz database.
        language: Of the request.
        asker_id: In a group, who asks.
        message_id: The message that asks.
    """

    text: str
    due_at: datetime
    repeats: Recurrence | None
    time_zone: str
    language: Language
    asker_id: int | None = None
    message_id: int | None = None

    def columns(self, owner: Owner) -> dict[str, Any]:
        """The parameters of the statements that store it."""
        recurrence = self.repeats.to_text() if self.repeats else None
        return {**owner.columns(), **vars(self), "repeats": None, "recurrence": recurrence}


@dataclass(frozen=True)
class Reminder:
    """A stored reminder.

    Attributes:
        id: Its number.
        owner: Whose it is, and where it is sent.
        asker_id: In a group, who asked for it.
        text: What to remind of.
        due_at: The next time, in UTC; of one that waits no more, the last one.
        repeats: How it comes again.
        time_zone: On whose clock.
        language: Of the request.
        snooze_of: The recurring reminder of which this is one time, put off.
        is_waiting: Whether it comes (again).
        is_cancelled: Whether it was cancelled.
    """

    id: int
    owner: Owner
    asker_id: int | None
    text: str
    due_at: datetime
    repeats: Recurrence | None
    time_zone: str
    language: Language
    snooze_of: int | None
    is_waiting: bool
    is_cancelled: bool

    def may_be_changed_by(self, member: int | None) -> bool:
        """Whether a member may: in a group only the one who asked cancels it or snoozes it.

        Args:
            member: Who wants to; None in a private chat.
        """
        return None in (member, self.asker_id) or member == self.asker_id

    @classmethod
    def from_row(cls, *row: Any) -> Self:
        """The row of ``COLUMNS``."""
        id_, user, thread, asker, text, due, recurrence, zone, language, *state = row
        snooze_of, is_waiting, cancelled_at = state
        return cls(
            id_, Owner(user, thread), asker, text, due.astimezone(UTC), _repeats(recurrence), zone,
            choose_language(language), snooze_of, is_waiting, cancelled_at is not None,
        )  # fmt: skip

    @property
    def uid(self) -> str:
        """The name by which models know it: ``reminder-12``."""
        return f"{REMINDER_UID}{self.id}"


@dataclass(frozen=True)
class DueReminder:
    """A reminder that is to be sent now.

    Attributes:
        reminder: It.
        language: In which it is told.
        is_inactive: Whether nothing can be sent to its chat, as far as is known.
        reply_to: Telegram's number of the message that asked for it, in a group.
    """

    reminder: Reminder
    language: Language
    is_inactive: bool
    reply_to: int | None


class ReminderRepository(Repository):
    """Stores reminders with their jobs; every method blocks (see ``PgClient.run``)."""

    def add(self, owner: Owner, new: NewReminder, *, now: datetime) -> Reminder | None:
        """Store a reminder, and its job when it is due soon; None: there are too many.

        The very same one that waits already is found instead.
        """
        values = new.columns(owner)

        def work(transaction: Transaction) -> Reminder | None:
            lock_reminders(transaction, owner)
            if (same := transaction.fetch_one(SELECT_SAME, values)) is not None:
                return Reminder.from_row(*same)
            counted = transaction.fetch_one(COUNT_WAITING, owner)
            if counted is not None and counted[0] >= MAX_WAITING:
                return None
            return _deferred(transaction, transaction.fetch_one(INSERT_REMINDER, values), now)

        return self._client.in_transaction(work)

    def count(self, owner: Owner) -> int:
        """How many wait."""
        row = self._client.fetch_one(COUNT_WAITING, owner)
        return int(row[0]) if row else 0

    def list_waiting(self, owner: Owner, *, limit: int, offset: int = 0) -> list[Reminder]:
        """Those that wait, the next one first."""
        return self._all(Reminder.from_row, SELECT_WAITING, owner, limit=limit, offset=offset)

    def list_came(self, owner: Owner, since: datetime, *, limit: int) -> list[Reminder]:
        """Those that were due after a moment (aware) and come no more, the newest first."""
        return self._all(Reminder.from_row, SELECT_CAME, owner, since=since, limit=limit)

    def find(self, owner: Owner, number: int) -> Reminder | None:
        """One of the owner's, waiting or not."""
        return self._first(Reminder.from_row, SELECT_ONE, owner, id=number)

    def cancel(self, owner: Owner, number: int) -> bool:
        """Let one come no more; False when it does not wait."""
        return self._client.execute(UPDATE_CANCELLED, owner, id=number) > 0

    def restore(self, owner: Owner, number: int, *, now: datetime) -> Reminder | None:
        """Take back that one was cancelled; None when it is too late, or it was not."""
        values = {**owner.columns(), "id": number, "now": now, "seconds": UNDO_SECONDS}
        return self._change(values, UPDATE_RESTORED, now=now)

    def finish(self, owner: Owner, number: int) -> None:
        """It is done: what recurs goes on, but what was put off of it comes no more."""
        self._client.execute(UPDATE_FINISHED, owner, id=number)

    def snooze(
        self, owner: Owner, number: int, due_at: datetime, *, time_zone: str, now: datetime
    ) -> Reminder | None:
        """Let a reminder come later: itself, or of a recurring one this time of it.

        Args:
            owner: Whose it is.
            number: Its id.
            due_at: When (aware), to the second.
            time_zone: The owner's now.
            now: Aware.

        Returns:
            The one that comes; None when there is none, or it was cancelled.
        """
        values = {
            **owner.columns(), "id": number, "due_at": due_at.replace(microsecond=0),
            "time_zone": time_zone, "recurrence": None,
        }  # fmt: skip
        return self._change(values, UPSERT_SNOOZED, UPDATE_MOVED, now=now)

    def move(
        self, owner: Owner, number: int, new: NewReminder, *, now: datetime
    ) -> Reminder | None:
        """Let one that waits come at the times of ``new``; None when it was cancelled."""
        return self._change({**new.columns(owner), "id": number}, UPDATE_MOVED, now=now)

    def _change(
        self, values: Mapping[str, Any], *statements: str, now: datetime
    ) -> Reminder | None:
        """What the first statement that finds a reminder makes of it, with its job."""

        def work(transaction: Transaction) -> Reminder | None:
            rows = (transaction.fetch_one(sql, values) for sql in statements)
            return _deferred(transaction, next(filter(None, rows), None), now)

        return self._client.in_transaction(work)

    def change_zone(
        self, owner: Owner, time_zone: str, *, now: datetime, guessed: str | None = None
    ) -> int:
        """The owner lives by another clock: what recurs comes at its hour there.

        What comes once stays at its moment, unless it was set by a clock that was only a guess.
        What is due already comes first, as it was. In a group it concerns all topics, as the
        setting does. It may be called again.

        Args:
            owner: Whose zone changed.
            time_zone: A name of the tz database.
            now: Aware.
            guessed: The zone before, if they had not told it.

        Returns:
            How many reminders moved.
        """

        def work(transaction: Transaction) -> int:
            moved = 0
            for row in transaction.fetch_all(SELECT_TO_MOVE, owner, guessed=guessed, now=now):
                reminder = Reminder.from_row(*row)
                due_at = _next(reminder, now, time_zone)
                if reminder.repeats is None:
                    shown = local_time(reminder.due_at, reminder.time_zone).replace(tzinfo=None)
                    due_at = first_moment(shown, time_zone)
                if due_at not in (None, reminder.due_at) and due_at > now:
                    moved += transaction.execute(UPDATE_DUE, owner, id=reminder.id, due_at=due_at)
                    _defer(transaction, now, reminder.id)
            transaction.execute(UPDATE_ZONE, owner, time_zone=time_zone)
            return moved

        return self._client.in_transaction(work)

    def defer_soon(self, now: datetime) -> int:
        """A job for everything that is due soon and has none; returns how many there were.

        At most BATCH at once: as many ask for another call.
        """
        try:
            return self._client.in_transaction(lambda t: _defer(t, now), limits=PATIENT)
        except StorageRejectedError as error:
            if error.sqlstate != UNIQUE_VIOLATION:
                raise
            return 0  # another process plans at this very moment

    def find_due(self, number: int, due: int) -> DueReminder | None:
        """A reminder that is to be sent for its time ``due`` (seconds since 1970); None: it is
        done, cancelled or moved.
        """
        row = self._client.fetch_one(SELECT_DUE, _at(number, due))
        if row is None:
            return None
        *columns, language, is_inactive, reply_to = row
        reminder = Reminder.from_row(*columns)
        chosen = choose_language(language, reminder.language)
        return DueReminder(reminder, chosen, is_inactive, reply_to)

    def mark_delivered(
        self, number: int, due: int, *, now: datetime, is_sent: bool = True
    ) -> datetime | None:
        """It was sent (else: given up); what recurs waits for its next time after now.

        Times that were missed meanwhile are passed over. Returns the next time.
        """

        def work(transaction: Transaction) -> datetime | None:
            row = transaction.fetch_one(SELECT_DUE, _at(number, due))
            if row is None:
                return None  # the user was faster: it is snoozed, or done
            found = Reminder.from_row(*row[:-3])
            after = max(now, found.due_at)
            next_time = _next(found, after, found.time_zone)
            transaction.execute(
                UPDATE_DELIVERED, id=number, now=now, next=next_time, is_sent=is_sent
            )
            _defer(transaction, now, number)
            return next_time

        return self._client.in_transaction(work)

    def mark_unreachable(self, number: int, due: int) -> None:
        """Nothing can be sent to its chat: it comes no more."""
        self._client.execute(UPDATE_UNREACHABLE, _at(number, due))

    def count_failure(self, number: int, due: int) -> int:
        """Sending it failed once more; returns how often that is by now."""
        row = self._client.fetch_one(COUNT_FAILURE, _at(number, due))
        return int(row[0]) if row else 0

    def prune(self, *, days: int) -> int:
        """Delete what came or was cancelled so many days ago; returns how many."""
        return self._client.execute(DELETE_OLD, days=days, limits=PATIENT)


def delete_of_message(transaction: Transaction, owner: Owner, message_id: int) -> None:
    """Take back what a message asked for: it says something else now."""
    transaction.execute(DELETE_OF_MESSAGE, owner, id=message_id)


def _deferred(transaction: Transaction, row: Row | None, now: datetime) -> Reminder | None:
    if row is None:
        return None
    reminder = Reminder.from_row(*row)
    _defer(transaction, now, reminder.id)
    return reminder


def _defer(transaction: Transaction, now: datetime, number: int | None = None) -> int:
    """Jobs for what is due soon: for one reminder, or for all."""
    row = transaction.fetch_one(
        DEFER_SOON, until=now + AHEAD, id=number, limit=BATCH, queue=REMINDERS_QUEUE, task=REMIND
    )
    return int(row[0]) if row else 0


def _next(reminder: Reminder, after: datetime, time_zone: str) -> datetime | None:
    if reminder.repeats is None:
        return None
    try:
        return next_after(reminder.repeats, after, time_zone)
    except OverflowError:
        return None


def _repeats(text: str | None) -> Recurrence | None:
    """The recurrence; unreadable text, written by hand, comes once."""
    try:
        return Recurrence.from_text(text) if text else None
    except ValueError:
        return None


def _at(number: int, due: int) -> dict[str, Any]:
    return {"id": number, "due_at": datetime.fromtimestamp(due, UTC)}
