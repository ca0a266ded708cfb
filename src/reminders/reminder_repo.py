"""Repository of reminders and of the jobs that deliver them.

A job per reminder from the day on which it is set would slow the queue down, since every fetch
scans all pending jobs. So jobs are made only for reminders due within ``AHEAD``: by the
transaction that sets or moves a reminder, and every minute for all others, also for those that
lost their job. A job names a reminder and its due time. It does nothing if the row has another due
time, so moving a reminder needs no search for its job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, Self

from src.base.errors import StorageRejectedError
from src.base.owners import Owner
from src.base.zones import first_moment, local_time
from src.memory.change_repo import ChangeRepository
from src.pg import locks
from src.pg.client import PATIENT, Repository, Transaction
from src.queue.job_repo import CONTROL_QUEUE, REMINDER_PRIORITY, UNIQUE_VIOLATION
from src.reading.recurrences import MAX_SKIPS, Recurrence, next_after
from src.reading.time_expressions import Period
from src.texts import Language, choose_language

REMIND = "remind"  # name of the task
AHEAD = timedelta(minutes=2)  # twice the pause between two plans, so that one can be missed
BATCH = 1000  # jobs per statement
REMINDER_UID = "reminder-"
MAX_WAITING = 200  # pending reminders per owner
Kind = Literal["reminder", "brief", "follow_up"]

# Columns of a reminder, in the order of ``Reminder.from_row``.
COLUMNS = """r.id, (SELECT telegram_user_id FROM owners WHERE id = r.owner_id), r.thread_id,
       r.asker_id, r.text, r.due_at, r.recurrence, r.time_zone, r.language,
       r.is_waiting, r.cancelled_at IS NOT NULL, r.kind"""
# Select an owner's reminders of any kind; the start of other statements.
OWN = f"""
SELECT {COLUMNS} FROM reminders r
WHERE r.owner_id = %(owner)s"""  # noqa: S608  (it holds a constant of ours)

# Count the owner's pending reminders.
COUNT_WAITING = """SELECT count(*) FROM reminders
WHERE owner_id = %(owner)s AND is_waiting AND kind = 'reminder'"""

# Select an identical pending reminder: a turn that was killed is retried.
SELECT_SAME = f"""{OWN}
  AND r.kind = 'reminder' AND r.is_waiting AND r.due_at = %(due_at)s AND r.text = %(text)s
  AND r.asker_id IS NOT DISTINCT FROM %(asker_id)s
  AND r.recurrence IS NOT DISTINCT FROM %(recurrence)s
ORDER BY r.id LIMIT 1
"""

# Insert a reminder, unless the owner has too many; its message is stored only if it still exists
# and is the owner's.
INSERT_REMINDER = f"""
INSERT INTO reminders AS r (owner_id, thread_id, asker_id, text, due_at, recurrence, time_zone,
                            language, message_id)
SELECT %(owner)s, %(thread_id)s, %(asker_id)s, %(text)s, %(due_at)s, %(recurrence)s,
       %(time_zone)s, %(language)s,
       (SELECT m.id FROM messages m JOIN conversations c ON c.id = m.conversation_id
        WHERE m.id = %(message_id)s AND c.owner_id = %(owner)s)
WHERE ({COUNT_WAITING}) < {MAX_WAITING}
RETURNING {COLUMNS}
"""  # noqa: S608  (it holds a constant of ours)

# Insert a reminder of an export, unless the owner has it, or too many.
RESTORE_REMINDER = f"""
INSERT INTO reminders (owner_id, kind, text, due_at, recurrence, time_zone, language, message_id,
                       snooze_of, is_waiting, created_at, delivered_at, cancelled_at)
SELECT %(owner)s, %(kind)s, %(text)s, date_trunc('second', %(due_at)s::timestamptz),
       %(recurrence)s, %(time_zone)s, %(language)s, %(message_id)s, %(snooze_of)s, %(is_waiting)s,
       %(created_at)s, %(delivered_at)s, %(cancelled_at)s
WHERE NOT EXISTS (SELECT 1 FROM reminders WHERE owner_id = %(owner)s AND text = %(text)s
                  AND created_at = %(created_at)s)
  AND (NOT %(is_waiting)s OR ({COUNT_WAITING}) < {MAX_WAITING})
ON CONFLICT DO NOTHING RETURNING id
"""  # noqa: S608  (it holds a constant of ours)

# Delete reminders that an import brought.
DELETE_REMINDERS = "DELETE FROM reminders WHERE owner_id = %(owner)s AND id = ANY(%(ids)s)"

# Select the pending reminders, the next one first.
SELECT_WAITING = f"""{OWN}
  AND r.kind = 'reminder' AND r.is_waiting
ORDER BY r.due_at, r.id LIMIT %(limit)s
"""

# Select finished reminders delivered since a time, the newest first.
SELECT_DELIVERED = f"""{OWN}
  AND r.kind = 'reminder' AND NOT r.is_waiting AND r.cancelled_at IS NULL
  AND r.delivered_at IS NOT NULL AND r.due_at > %(since)s
ORDER BY r.due_at DESC, r.id DESC LIMIT %(limit)s
"""

# Select one reminder of the owner, pending or not.
SELECT_ONE = f"{OWN} AND r.kind = 'reminder' AND r.id = %(id)s"

# Cancel pending reminders, if they are still due at a given time.
UPDATE_CANCELLED = f"""
UPDATE reminders r SET is_waiting = false, cancelled_at = now()
WHERE r.id = ANY(%(ids)s) AND r.owner_id = %(owner)s AND r.is_waiting
  AND r.due_at = coalesce(%(due_at)s, r.due_at)
RETURNING {COLUMNS}
"""  # noqa: S608  (it holds a constant of ours)

# Finish a reminder: one that does not recur, or the snoozed occurrence of one that does.
UPDATE_FINISHED = """
UPDATE reminders SET is_waiting = false, cancelled_at = now()
WHERE owner_id = %(owner)s AND is_waiting
  AND (snooze_of = %(id)s OR (id = %(id)s AND recurrence IS NULL))
"""

# Move a reminder to another time and recurrence; one that was delivered is pending again, by an
# undo also one that was cancelled.
UPDATE_MOVED = f"""
UPDATE reminders r SET is_waiting = true, due_at = %(due_at)s, time_zone = %(time_zone)s,
                       recurrence = %(recurrence)s, attempts = 0, cancelled_at = NULL
WHERE r.id = %(id)s AND r.owner_id = %(owner)s
  AND (r.cancelled_at IS NULL OR (%(is_undo)s AND r.snooze_of IS NULL))
RETURNING {COLUMNS}
"""  # noqa: S608  (it holds a constant of ours)

# Snooze one occurrence of a recurring reminder, as a reminder of its own; snoozed again, it moves.
UPSERT_SNOOZED = f"""
INSERT INTO reminders AS r (owner_id, thread_id, asker_id, text, due_at, time_zone, language,
                            message_id, snooze_of)
SELECT owner_id, thread_id, asker_id, text, %(due_at)s, %(time_zone)s, language, message_id, id
FROM reminders WHERE id = %(id)s AND owner_id = %(owner)s AND recurrence IS NOT NULL
ON CONFLICT (snooze_of) WHERE is_waiting AND snooze_of IS NOT NULL
DO UPDATE SET due_at = EXCLUDED.due_at, time_zone = EXCLUDED.time_zone
RETURNING {COLUMNS}
"""  # noqa: S608  (it holds a constant of ours)

# Select the reminders that move with the owner's time zone, in all topics: recurring ones, and
# those set to a whole minute of a guessed zone ("in ten minutes" is not).
SELECT_TO_MOVE = f"""
SELECT {COLUMNS} FROM reminders r
WHERE r.owner_id IN (SELECT id FROM owners WHERE telegram_user_id = %(user)s)
  AND r.is_waiting AND r.due_at > %(now)s
  AND (r.recurrence IS NOT NULL
       OR (r.time_zone = %(guessed)s AND r.due_at = date_trunc('minute', r.due_at)))
ORDER BY r.id FOR UPDATE
"""  # noqa: S608  (it holds a constant of ours)
# Update the due time of one reminder.
UPDATE_DUE = """
UPDATE reminders SET due_at = %(due_at)s
WHERE id = %(id)s AND owner_id IN (SELECT id FROM owners WHERE telegram_user_id = %(user)s)
"""
# Update the time zone of the owner's pending reminders.
UPDATE_ZONE = """
UPDATE reminders SET time_zone = %(time_zone)s
WHERE owner_id IN (SELECT id FROM owners WHERE telegram_user_id = %(user)s) AND is_waiting
"""

# Make a job for each reminder that is due soon and has none.
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
        array_agg(ROW(%(queue)s, %(task)s, %(priority)s, lock, work, args, due_at)
                  ::procrastinate_job_to_defer_v1 ORDER BY due_at)) AS ids
    FROM soon
)
SELECT (SELECT count(*) FROM soon), (SELECT count(*) FROM deferred)
"""

# Select a due reminder with its chat's settings and, in a group, the message that asked for it.
SELECT_DUE = f"""
SELECT {COLUMNS}, s.language,
       s.inactive_since IS NOT NULL OR o.blocked_at IS NOT NULL,
       CASE WHEN m.chat_id = o.telegram_user_id AND o.telegram_user_id < 0
            THEN m.telegram_message_id END, r.about
FROM reminders r
JOIN owners o ON o.id = r.owner_id
LEFT JOIN owners chat ON chat.telegram_user_id = o.telegram_user_id AND chat.thread_id = 0
LEFT JOIN user_settings s ON s.owner_id = chat.id
LEFT JOIN messages m ON m.id = r.message_id
WHERE r.id = %(id)s AND r.due_at = %(due_at)s AND r.is_waiting FOR UPDATE OF r
"""  # noqa: S608  (it holds a constant of ours)

# Record that a reminder was sent (or given up), with its next time or none; no row if a brief was
# sent for that day.
UPDATE_DELIVERED = """
UPDATE reminders
SET delivered_at = CASE WHEN %(is_sent)s THEN %(now)s ELSE delivered_at END, attempts = 0,
    day = CASE WHEN kind = 'brief' THEN coalesce(%(day)s::date, day) ELSE day END,
    due_at = coalesce(%(next)s, due_at), is_waiting = %(next)s IS NOT NULL
WHERE id = %(id)s
  AND (kind <> 'brief' OR %(day)s::date IS NULL OR day IS NULL OR day < %(day)s::date)
"""

# Count a failed attempt to send a reminder.
COUNT_FAILURE = """
UPDATE reminders SET attempts = least(attempts + 1, 1000)
WHERE id = %(id)s AND due_at = %(due_at)s RETURNING attempts
"""

# Delete reminders finished long ago; their buttons then say that the reminder is gone. What the
# user wants no question about stays.
DELETE_OLD = """
DELETE FROM reminders
WHERE NOT is_waiting AND NOT (kind = 'follow_up' AND cancelled_at IS NOT NULL)
  AND coalesce(cancelled_at, delivered_at, created_at) < now() - make_interval(days => %(days)s)
"""

# Delete the pending reminders of an edited message, which is answered again.
DELETE_OF_MESSAGE = """
DELETE FROM reminders WHERE message_id = %(id)s AND owner_id = %(owner)s AND is_waiting
"""


@dataclass(frozen=True)
class NewReminder:
    """Reminder to be stored.

    Attributes:
        text: Subject of the reminder.
        due_at: First time (aware, a whole second).
        repeats: Recurrence, or None.
        time_zone: Zone of the clock it follows, a tz database name.
        language: Language of the request.
        asker_id: Member who asks, in a group.
        message_id: Message that asks.
    """

    text: str
    due_at: datetime
    repeats: Recurrence | None
    time_zone: str
    language: Language
    asker_id: int | None = None
    message_id: int | None = None

    def columns(self) -> dict[str, Any]:
        """Return the parameters of the statements that store it."""
        recurrence = self.repeats.to_text() if self.repeats else None
        return {**vars(self), "repeats": None, "recurrence": recurrence}


@dataclass(frozen=True)
class Reminder:
    """Stored reminder.

    Attributes:
        id: Its number.
        owner: Its owner, to whose chat it is sent.
        asker_id: Member who asked for it, in a group.
        text: Subject of the reminder.
        due_at: Next time, in UTC; the last one if it is no longer pending.
        repeats: Recurrence, or None.
        time_zone: Zone of the clock it follows.
        language: Language of the request.
        is_waiting: True if it is pending.
        is_cancelled: True if it was cancelled.
        kind: ``brief`` and ``follow_up`` are the bot's own; they come once a day at most.
    """

    id: int
    owner: Owner
    asker_id: int | None
    text: str
    due_at: datetime
    repeats: Recurrence | None
    time_zone: str
    language: Language
    is_waiting: bool
    is_cancelled: bool
    kind: Kind = "reminder"

    def may_be_changed_by(self, member: int | None) -> bool:
        """Return True if a member is allowed to change it: in a group, the one who asked for it.

        Args:
            member: The member, or None in a private chat.
        """
        return None in (member, self.asker_id) or member == self.asker_id

    @classmethod
    def from_row(cls, *row: Any) -> Self:
        """Build a reminder from a row of ``COLUMNS``."""
        id_, user, thread, asker, text, due, recurrence, zone, language, *state = row
        owner, due_at = Owner(user, thread), due.astimezone(UTC)
        repeats = Recurrence.from_text(recurrence) if recurrence else None
        spoken = choose_language(language)
        return cls(id_, owner, asker, text, due_at, repeats, zone, spoken, *state)

    @property
    def uid(self) -> str:
        """Id for models, such as ``reminder-12``."""
        return f"{REMINDER_UID}{self.id}"

    @property
    def zone(self) -> str:
        """Zone of its clock: the one that was named for it, or the owner's."""
        named = self.repeats.zone if self.repeats else ""
        return named or self.time_zone


@dataclass(frozen=True)
class DueReminder:
    """Reminder to be sent now.

    Attributes:
        reminder: The reminder.
        language: Language to send it in.
        is_inactive: True if its chat is known to be unreachable.
        reply_to: Telegram's number of the message that asked for it, in a group.
        about: The fact, message or reminder that a follow-up asks about.
    """

    reminder: Reminder
    language: Language
    is_inactive: bool
    reply_to: int | None
    about: str | None = None


class ReminderRepository(Repository):
    """Repository of reminders and their jobs; its methods block (see ``PgClient.run``)."""

    def add(self, owner: Owner, new: NewReminder, *, now: datetime) -> Reminder | None:
        """Store a reminder, and its job if it is due soon.

        Returns:
            The reminder, or an identical pending one; None if the owner has too many.
        """

        def work(transaction: Transaction) -> Reminder | None:
            locks.lock_reminders(transaction, owner)
            steps = ReminderRepository(transaction)
            return steps._change(owner, SELECT_SAME, INSERT_REMINDER, now=now, **new.columns())

        return self._client.in_transaction(work)

    def restore(self, owner: Owner, columns: dict[str, Any]) -> int | None:
        """Store a reminder or the brief of an export; None if the owner has it, or too many."""
        return self._first(int, RESTORE_REMINDER, owner, **{"kind": "reminder", **columns})

    def remove(self, owner: Owner, ids: Sequence[int]) -> None:
        """Delete reminders for good."""
        self._client.execute(DELETE_REMINDERS, owner, ids=list(ids))

    def list_waiting(self, owner: Owner, *, limit: int = MAX_WAITING) -> list[Reminder]:
        """Return the pending reminders, the next one first."""
        return self._all(Reminder.from_row, SELECT_WAITING, owner, limit=limit)

    def list_delivered(self, owner: Owner, since: datetime, *, limit: int) -> list[Reminder]:
        """Return delivered reminders due after ``since`` (aware) that are over, newest first."""
        return self._all(Reminder.from_row, SELECT_DELIVERED, owner, since=since, limit=limit)

    def find(self, owner: Owner, number: int) -> Reminder | None:
        """Return a reminder of the owner, pending or not, or None."""
        return self._first(Reminder.from_row, SELECT_ONE, owner, id=number)

    def cancel(
        self, owner: Owner, *numbers: int, due_at: datetime | None = None, asker: int | None = None
    ) -> bool:
        """Cancel reminders, which can be undone; return False if none is pending.

        Args:
            owner: Owner of the reminders.
            numbers: Their ids.
            due_at: The time at which they are due; None for any.
            asker: In a group, the member who cancels them, and may undo it.
        """

        def work(transaction: Transaction) -> bool:
            params = {"ids": list(numbers), "due_at": due_at}
            rows = transaction.fetch_all(UPDATE_CANCELLED, owner, **params)
            _record(transaction, owner, asker, [Reminder.from_row(*row) for row in rows])
            return bool(rows)

        return self._client.in_transaction(work)

    def undo(
        self,
        owner: Owner,
        *,
        now: datetime,
        number: int | None = None,
        reminder: int | None = None,
        asker: int | None = None,
    ) -> list[Reminder]:
        """Undo a cancellation or a move; return the reminders that are pending again.

        Args:
            owner: Owner of the reminders.
            now: The current time, aware.
            number: The number of the change; None for the last one.
            reminder: A reminder that it must have changed.
            asker: In a group, the member who asks, and who must have made the change.
        """
        holds = {} if reminder is None else {"reminders": [{"id": reminder}]}

        def work(transaction: Transaction) -> list[Reminder]:
            changes = ChangeRepository(transaction, owner)
            change = changes.find(asker, number=number, kinds=("reminder",), **holds)
            if change is None:
                return []
            changes.close(change)
            steps = ReminderRepository(transaction)
            restored = [
                steps._change(owner, UPDATE_MOVED, now=now, is_undo=True, **was)
                for was in change.before["reminders"]  # one that recurs comes late once
                if was["recurrence"] or datetime.fromisoformat(was["due_at"]) > now
            ]
            return [one for one in restored if one is not None]

        return self._client.in_transaction(work)

    def finish(self, owner: Owner, number: int) -> None:
        """Finish a reminder; a recurring one goes on, but its snoozed occurrence is cancelled."""
        self._client.execute(UPDATE_FINISHED, owner, id=number)

    def snooze(
        self, owner: Owner, number: int, due_at: datetime, *, time_zone: str, now: datetime
    ) -> Reminder | None:
        """Snooze a reminder, or this occurrence of a recurring one.

        Args:
            owner: Owner of the reminder.
            number: Its id.
            due_at: New time (aware), to the second.
            time_zone: The owner's current zone.
            now: The current time, aware.

        Returns:
            The snoozed reminder; None if there is none, or it was cancelled.
        """
        to = {"id": number, "due_at": due_at.replace(microsecond=0), "time_zone": time_zone}
        values = {**to, "recurrence": None, "is_undo": False}
        return self._change(owner, UPSERT_SNOOZED, UPDATE_MOVED, now=now, **values)

    def move(
        self, owner: Owner, number: int, new: NewReminder, *, now: datetime
    ) -> Reminder | None:
        """Move a reminder to the times of ``new``; return None if it was cancelled.

        The move can be undone.
        """

        def work(transaction: Transaction) -> Reminder | None:
            steps = ReminderRepository(transaction)
            was = steps.find(owner, number)
            to = {"id": number, "is_undo": False, **new.columns()}
            moved = steps._change(owner, UPDATE_MOVED, now=now, **to)
            if was is not None and moved is not None:
                _record(transaction, owner, new.asker_id, [was])
            return moved

        return self._client.in_transaction(work)

    def _change(
        self, owner: Owner, *statements: str, now: datetime, **values: Any
    ) -> Reminder | None:
        """Run statements until one returns a reminder, and make that one's job."""

        def work(transaction: Transaction) -> Reminder | None:
            for sql in statements:
                if row := transaction.fetch_one(sql, owner, now=now, **values):
                    reminder = Reminder.from_row(*row)
                    defer(transaction, now, reminder.id)
                    return reminder
            return None

        return self._client.in_transaction(work)

    def change_zone(
        self, owner: Owner, time_zone: str, *, now: datetime, guessed: str | None = None
    ) -> int:
        """Move an owner's reminders to another time zone; recurring ones keep their hour there.

        A reminder that does not recur stays at its moment, unless it was set by a guessed zone.
        One that is already due is delivered first, unchanged. In a group all topics are changed,
        like the setting. The method is idempotent.

        Args:
            owner: Owner whose zone changed.
            time_zone: A tz database name.
            now: The current time, aware.
            guessed: The previous zone if it was a guess.

        Returns:
            The number of reminders moved.
        """

        def work(transaction: Transaction) -> int:
            moved = 0
            for row in transaction.fetch_all(SELECT_TO_MOVE, owner, guessed=guessed, now=now):
                reminder = Reminder.from_row(*row)
                due_at = next_time(reminder, now, time_zone)
                if reminder.repeats is None:
                    local = local_time(reminder.due_at, reminder.time_zone).replace(tzinfo=None)
                    due_at = first_moment(local, time_zone)
                if due_at not in (None, reminder.due_at) and due_at > now:
                    moved += transaction.execute(UPDATE_DUE, owner, id=reminder.id, due_at=due_at)
                    defer(transaction, now, reminder.id)
            transaction.execute(UPDATE_ZONE, owner, time_zone=time_zone)
            return moved

        return self._client.in_transaction(work)

    def defer_soon(self, now: datetime) -> int:
        """Make a job for each reminder that is due soon and has none; return their number.

        A call makes at most BATCH; call again after a full batch.
        """
        try:
            return self._client.in_transaction(lambda t: defer(t, now), limits=PATIENT)
        except StorageRejectedError as error:
            if error.sqlstate != UNIQUE_VIOLATION:
                raise
            return 0  # another process is planning at the same time

    def find_due(self, number: int, due: int) -> DueReminder | None:
        """Return the reminder to be sent for its time ``due`` (seconds since 1970).

        Returns:
            The reminder; None if it was finished, cancelled or moved.
        """
        row = self._client.fetch_one(SELECT_DUE, job_key(number, due))
        if row is None:
            return None
        *columns, language, is_inactive, reply_to, about = row
        reminder = Reminder.from_row(*columns)
        chosen = choose_language(language, reminder.language)
        return DueReminder(reminder, chosen, is_inactive, reply_to, about)

    def mark_delivered(
        self,
        number: int,
        due: int,
        *,
        now: datetime,
        is_sent: bool = True,
        day: date | None = None,
    ) -> bool:
        """Record that a reminder was sent, or given up; schedule the next time of a recurring one.

        Missed times are skipped.

        Args:
            number: Its id.
            due: Its planned time, in seconds since 1970.
            now: The current time, aware.
            is_sent: False if it was given up.
            day: Day of a brief on the owner's clock, of which there is one a day.

        Returns:
            False if the user has already moved or finished it, or a brief was sent that day.
        """

        def work(transaction: Transaction) -> bool:
            row = transaction.fetch_one(SELECT_DUE, job_key(number, due))
            if row is None:
                return False
            found = Reminder.from_row(*row[:-4])
            later = next_time(found, max(now, found.due_at), found.time_zone)
            values = {"id": number, "now": now, "next": later, "is_sent": is_sent, "day": day}
            is_marked = transaction.execute(UPDATE_DELIVERED, values) > 0
            defer(transaction, now, number)
            return is_marked

        return self._client.in_transaction(work)

    def count_failure(self, number: int, due: int) -> int:
        """Count a failed attempt to send it; return the number of attempts."""
        return self._first(int, COUNT_FAILURE, job_key(number, due)) or 0

    def prune(self, *, days: int) -> int:
        """Delete reminders finished that many days ago; return their number."""
        return self._client.execute(DELETE_OLD, days=days, limits=PATIENT)


def _record(
    transaction: Transaction, owner: Owner, asker: int | None, reminders: Sequence[Reminder]
) -> None:
    """Record a change of these reminders as they were, for its undo."""
    if reminders:
        before = [
            {
                "id": one.id,
                "due_at": one.due_at.isoformat(),
                "recurrence": one.repeats.to_text() if one.repeats else None,
                "time_zone": one.time_zone,
            }
            for one in reminders
        ]
        changes = ChangeRepository(transaction, owner)
        changes.record("reminder", asked_by=asker, reminders=before)


def delete_of_message(transaction: Transaction, owner: Owner, message_id: int) -> None:
    """Delete the pending reminders that an edited message asked for."""
    transaction.execute(DELETE_OF_MESSAGE, owner, id=message_id)


def defer(transaction: Transaction, now: datetime, number: int | None = None) -> int:
    """Make jobs for reminders due soon: for one, or for all; return their number."""
    row = transaction.fetch_one(
        DEFER_SOON,
        until=now + AHEAD,
        id=number,
        limit=BATCH,
        queue=CONTROL_QUEUE,
        task=REMIND,
        priority=REMINDER_PRIORITY,
    )
    return int(row[0]) if row else 0


def next_time(reminder: Reminder, after: datetime, time_zone: str) -> datetime | None:
    """Return the next time of a recurring reminder after a moment; None without one."""
    if reminder.repeats is None:
        return None
    try:
        return next_after(reminder.repeats, after, time_zone)
    except OverflowError:
        return None


def times_in(reminder: Reminder, days: Period | None) -> list[datetime]:
    """Return the coming times of a reminder in a period, at most MAX_SKIPS; none without one."""
    times: list[datetime] = []
    at: datetime | None = reminder.due_at
    while days is not None and at is not None and at < days.end and len(times) < MAX_SKIPS:
        if at >= days.start:
            times.append(at)
        at = next_time(reminder, at, reminder.time_zone)
    return times


def job_key(number: int, due: int) -> dict[str, Any]:
    """Return the parameters that select a reminder for its time, in seconds since 1970."""
    return {"id": number, "due_at": datetime.fromtimestamp(due, UTC)}
