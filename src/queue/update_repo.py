"""Telegram updates: stored together with their jobs, handled once, pruned later."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Self

from src.base.errors import ConversationGoneError, QuestionMovedError, StorageRejectedError
from src.base.owners import Owner
from src.pg.client import PreparedStatement, Repository, Transaction
from src.pg.connection import PATIENT
from src.pg.user_settings_repo import AnswerLength, Mode

UpdateKind = Literal["message", "media", "teach", "command", "new", "stop", "edit", "callback",
                     "member", "refused", "other"]  # fmt: skip
# How an update ended, one word or two for the operator.
UpdateOutcome = Literal[
    "done", "explained", "asked for zone", "left to a later message", "stopped", "wiped", "failed",
    "ignored", "refused", "refused silently", "chat unavailable", "put aside", "erased",
]  # fmt: skip
# Kinds whose arrival ends the wait for an answer to what was said before them; and those that get
# an answer of their own in between, so that nothing is left beyond them.
ANSWERED_LATER: tuple[UpdateKind, ...] = ("message", "new", "stop")
BETWEEN: tuple[UpdateKind, ...] = ("media", "teach")
SAID = ("text", "caption")  # what a message of Telegram calls the words in it
BEHIND = {"answered": list(ANSWERED_LATER), "kinds": [*ANSWERED_LATER, *BETWEEN]}  # parameters


@dataclass(frozen=True)
class NewUpdate:
    """An update on its way into the database.

    Attributes:
        update_id: Telegram's number of it.
        kind: What it is; decides how it is queued.
        payload: The update as Telegram sent it; emptied when it is handled.
        interrupts: Whether it stops the running answer of its chat at once.
        draft_id: The draft whose Stop button was pressed, if that is what it is.
        at_once: Whether it needs no order among what its chat wants: it does not wait for an
            answer that is being written there.
    """

    update_id: int
    kind: UpdateKind
    payload: dict[str, Any]
    chat_id: int | None = None
    thread_id: int = 0
    user_id: int | None = None
    message_id: int | None = None
    media_group_id: str | None = None
    interrupts: bool = False
    draft_id: int | None = None
    at_once: bool = False


@dataclass(frozen=True)
class WaitingUpdate:
    """A stored update that is not handled yet, with what is known of its owner.

    Attributes:
        home_id: Where it belongs: the chat, or the supergroup that the chat became.
        revision: How often an erasure has redacted it.
        newer: What waited behind it in its chat that will be answered instead of it.
        zone_asked: Whether what the user did before it made us ask for the time zone.
        has_reminders: Whether the owner, or another topic of the group, waits for any.
        has_past: Whether the owner has more in the index than a usual prompt shows.
        job: The job that handles it, which ends with it; None: it ends by itself.
    """

    id: int
    bot_id: int
    update_id: int
    kind: UpdateKind
    chat_id: int | None
    thread_id: int
    user_id: int | None
    message_id: int | None
    media_group_id: str | None
    payload: dict[str, Any] = field(repr=False)
    received_at: datetime
    language: str | None
    time_zone: str | None
    is_inactive: bool
    mode: Mode = "assistant"
    home_id: int | None = None
    revision: int = 0
    newer: UpdateKind | None = None
    answer_length: AnswerLength = "normal"
    memory_on: bool = True
    zone_asked: bool = False
    has_reminders: bool = False
    has_past: bool = True
    job: int | None = None

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Self:
        """A row of ``SELECT_WAITING`` as ``FETCH_JOB`` brings it."""
        return cls(**{**row, "received_at": datetime.fromisoformat(row["received_at"])})

    @property
    def owner(self) -> Owner:
        """Whose memory it belongs to; 0 where it comes from no chat."""
        return Owner(self.home_id or self.chat_id or 0, self.thread_id)

    @property
    def age_days(self) -> float:
        """How long ago it was received."""
        return (datetime.now(UTC) - self.received_at).total_seconds() / 86_400

    @property
    def sender_language(self) -> str | None:
        """The language of the sender's Telegram."""
        sent = next((one for one in self.payload.values() if isinstance(one, dict)), {})
        sender = sent.get("from") or sent.get("user")  # the latter of a reaction
        return sender.get("language_code") if isinstance(sender, dict) else None


@dataclass(frozen=True)
class Behind:
    """What waits behind an update in its chat.

    Attributes:
        newer: The next one that will be answered instead of it, if any.
        is_ended: Whether /new or /stop is among them.
    """

    newer: UpdateKind | None = None
    is_ended: bool = False


# A batch of updates, each with its jobs, in one statement: either all of it is there or nothing.
# Updates of one chat (and topic) share a lock, so they are handled in order of arrival; those that
# need no order share one of their sender's. The job that interrupts a running answer has none, and
# a queue of its own.
#
# Commands, buttons and all that costs no model call have a queue and places of their own; a person
# who waits in another chat already goes to a third one, so that nobody holds more than one place
# of the first two. Each queue is served round by round: whoever comes while people wait joins the
# next round, a person's n-th update that waits joins the n-th round from now. Every round ends, so
# nobody starves. The round is the job's priority, and never less than that of an earlier job under
# the same lock: procrastinate would take the later one first.
INSERT_UPDATES = PreparedStatement(
    "insert_updates",
    """
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
    RETURNING id, update_id, kind IN ('message', 'media', 'edit') AS is_turn, served_as,
              chat_id, thread_id,
              ARRAY[chat_id, thread_id] AS place, message_id
), wanted AS (
    SELECT s.*, i.at_once, i.interrupts, i.draft_id,
           CASE WHEN s.chat_id IS NULL THEN NULL
                WHEN i.at_once THEN format('person:%%s:%%s', %(bot_id)s, s.served_as)
                ELSE format('chat:%%s:%%s:%%s', %(bot_id)s, s.chat_id, s.thread_id) END AS lock
    FROM stored s JOIN incoming i USING (update_id)
), people AS MATERIALIZED (
    SELECT p.served_as, p.is_turn, w.waiting, w.first_place, w.last_place
    FROM (SELECT DISTINCT served_as, is_turn FROM wanted) AS p CROSS JOIN LATERAL (
        SELECT count(*) AS waiting, min(ARRAY[u.chat_id, u.thread_id]) AS first_place,
               max(ARRAY[u.chat_id, u.thread_id]) AS last_place
        FROM telegram_updates u
        WHERE u.bot_id = %(bot_id)s AND u.served_as = p.served_as
          AND (u.kind IN ('message', 'media', 'edit')) = p.is_turn AND u.handled_at IS NULL
          AND u.received_at > now() - interval '1 day') AS w
), queued AS (
    SELECT w.*, p.waiting + row_number() OVER person - 1 AS before,
           CASE WHEN w.at_once THEN 'commands'
                WHEN least(p.first_place, min(w.place) OVER person) < w.place
                     OR greatest(p.last_place, max(w.place) OVER person) > w.place THEN 'beside'
                WHEN w.is_turn THEN 'turns' ELSE 'commands' END AS queue
    FROM wanted w
    JOIN people p ON p.served_as IS NOT DISTINCT FROM w.served_as AND p.is_turn = w.is_turn
    WINDOW person AS (PARTITION BY w.served_as, w.is_turn ORDER BY w.id)
), clocks AS (
    SELECT q.queue, coalesce(served.round, first.round, 0)
                    + (first.round IS NOT NULL)::int AS next_round
    FROM unnest(ARRAY['turns', 'commands', 'beside']) AS q (queue)
    LEFT JOIN LATERAL (
        SELECT -priority AS round FROM procrastinate_jobs
        WHERE queue_name = q.queue AND status = 'doing' ORDER BY priority LIMIT 1
    ) AS served ON true
    LEFT JOIN LATERAL (
        SELECT -priority AS round FROM procrastinate_jobs
        WHERE queue_name = q.queue AND status = 'todo' ORDER BY priority DESC LIMIT 1
    ) AS first ON true
), rounds AS (
    SELECT q.*, greatest(
               max(c.next_round + q.before) OVER (PARTITION BY q.lock ORDER BY q.id),
               last.round) AS round
    FROM queued q JOIN clocks c USING (queue)
    LEFT JOIN LATERAL (
        SELECT -priority AS round FROM procrastinate_jobs j
        WHERE j.lock = q.lock AND j.status IN ('todo', 'doing')
        ORDER BY j.priority, j.id DESC LIMIT 1
    ) AS last ON true
), jobs AS (
    SELECT r.id, 1 AS part, r.queue, 'handle_update' AS task,
           -least(r.round, 2147483647)::int AS priority, r.lock,
           jsonb_build_object('update', r.id, 'message_id', r.message_id) AS args
    FROM rounds r
    UNION ALL
    SELECT w.id, 0, 'control', 'interrupt_turn', 10, NULL,
           jsonb_build_object(
               'lock', format('chat:%%s:%%s:%%s', %(bot_id)s, w.chat_id, w.thread_id),
               'before', w.id, 'draft_id', w.draft_id)
    FROM wanted w
    WHERE w.interrupts AND w.chat_id IS NOT NULL
), deferred AS (
    SELECT procrastinate_defer_jobs_v1(
        array_agg(ROW(queue, task, priority, lock, NULL, args, NULL)
                  ::procrastinate_job_to_defer_v1 ORDER BY id, part)) AS ids
    FROM jobs
)
SELECT (SELECT count(*) FROM stored), (SELECT count(*) FROM deferred)
""",
)

# A stored update that still waits to be handled, with its owner's settings, and what comes after
# it in its chat: of a flood, only the last message is worth preparing an answer.
SELECT_WAITING = """
SELECT u.id, u.bot_id, u.update_id, u.kind, u.chat_id, u.thread_id, u.user_id, u.message_id,
       u.media_group_id, u.payload, u.received_at, s.language, s.time_zone,
       s.inactive_since IS NOT NULL AS is_inactive, coalesce(s.mode, 'assistant') AS mode,
       coalesce(v.new_chat_id, u.chat_id) AS home_id, u.revision,
       (SELECT CASE WHEN n.kind = ANY(%(answered)s) THEN n.kind END FROM telegram_updates n
        WHERE n.bot_id = u.bot_id AND n.chat_id = u.chat_id AND n.thread_id = u.thread_id
          AND n.id > u.id AND n.handled_at IS NULL AND n.kind = ANY(%(kinds)s)
        ORDER BY n.id LIMIT 1) AS newer,
       coalesce(s.answer_length, 'normal') AS answer_length,
       coalesce(s.memory_on, true) AS memory_on,
       coalesce((SELECT p.outcome = 'asked for zone' FROM telegram_updates p
        WHERE p.id < u.id AND p.id > u.id - 1000 AND p.bot_id = u.bot_id
          AND p.chat_id = u.chat_id AND p.thread_id = u.thread_id AND p.user_id = u.user_id
        ORDER BY p.id DESC LIMIT 1), false) AS zone_asked,
       EXISTS (SELECT FROM reminders r JOIN owners w ON w.id = r.owner_id
               WHERE w.telegram_user_id = coalesce(v.new_chat_id, u.chat_id) AND r.is_waiting)
           AS has_reminders,
       coalesce((SELECT i.next_position > 30 FROM search_owners i WHERE i.owner_id = o.id), false)
           AS has_past
FROM telegram_updates u
LEFT JOIN chat_moves v ON v.old_chat_id = u.chat_id
LEFT JOIN owners o ON o.telegram_user_id = coalesce(v.new_chat_id, u.chat_id) AND o.thread_id = 0
LEFT JOIN user_settings s ON s.owner_id = o.id
WHERE u.id = %(update)s AND u.handled_at IS NULL
"""

# One that was put aside because its job killed its process.
SELECT_PUT_ASIDE = SELECT_WAITING.replace("u.handled_at IS NULL", "u.outcome = 'put aside'")

# OFFSET 0: it is looked up for the one job. Pulled up into the join, it would be computed for all
# updates that wait, where the planner believes that none does.
OF_JOB = SELECT_WAITING.replace("%(update)s", "(j.args ->> 'update')::bigint") + "OFFSET 0"

# A worker takes a job, and its update with it. What comes with it is as it was when the statement
# began, so it counts only if nothing else of the chat ran then.
FETCH_JOB = f"""
SELECT j.id, j.status, j.task_name, j.priority, j.lock, j.queueing_lock, j.args, j.scheduled_at,
       j.queue_name, j.attempts, j.worker_id,
       CASE WHEN w.id IS NOT NULL AND NOT EXISTS (
           SELECT FROM procrastinate_jobs d WHERE d.lock = j.lock AND d.status = 'doing')
       THEN to_jsonb(w) END AS waiting
FROM procrastinate_fetch_job_v2(%(queues)s::varchar[], %(worker_id)s) AS j
LEFT JOIN LATERAL ({OF_JOB}) AS w ON j.task_name = 'handle_update'
"""  # noqa: S608  (it holds a constant of ours)

# Whether something newer of the same chat waits that will be answered (or wipes it all).
SELECT_NEWER = """
SELECT n.kind FROM telegram_updates u JOIN telegram_updates n
    ON n.bot_id = u.bot_id AND n.chat_id = u.chat_id AND n.thread_id = u.thread_id AND n.id > u.id
WHERE u.id = %(update)s AND n.handled_at IS NULL AND n.kind = ANY(%(kinds)s)
ORDER BY n.id LIMIT 1
"""

# An update that is being handled, which no erasure touches before the transaction ends (one that
# is under way is waited for), and what comes after it in its chat.
HOLD_UPDATE = PreparedStatement(
    "hold_update",
    """
SELECT u.revision, CASE WHEN behind.kinds[1] = ANY(%(answered)s) THEN behind.kinds[1] END,
       behind.kinds && ARRAY['new', 'stop']
FROM telegram_updates u CROSS JOIN LATERAL (
    SELECT array_agg(n.kind ORDER BY n.id) AS kinds FROM telegram_updates n
    WHERE n.bot_id = u.bot_id AND n.chat_id = u.chat_id AND n.thread_id = u.thread_id
      AND n.id > u.id AND n.handled_at IS NULL AND n.kind = ANY(%(kinds)s)) AS behind
WHERE u.id = %(update)s AND u.handled_at IS NULL FOR SHARE OF u
""",
)

# The job that handles an update ends in the transaction that says so: its chat is free then.
FINISH_JOB = "DELETE FROM procrastinate_jobs WHERE id = %(job)s AND status = 'doing'"

# The update is done; its words are in ``messages`` now, or nowhere.
UPDATE_HANDLED = f"""
WITH finished AS ({FINISH_JOB})
UPDATE telegram_updates SET handled_at = now(), outcome = %(outcome)s, payload = '{{}}'
WHERE id = %(update)s AND handled_at IS NULL
"""  # noqa: S608  (it holds a constant of ours)

# What waits, to be rewritten: a secret in it is masked where its message is.
SELECT_PAYLOAD = """
SELECT payload FROM telegram_updates WHERE id = %(update)s AND handled_at IS NULL FOR UPDATE
"""
UPDATE_PAYLOAD = "UPDATE telegram_updates SET payload = %(payload)s WHERE id = %(update)s"

# Telegram refused the reply to it for a reason that we do not know.
COUNT_REFUSAL = """
UPDATE telegram_updates SET refusals = least(refusals + 1, 1000) WHERE id = %(update)s
RETURNING refusals
"""

# Nothing that waits in this chat can be answered: the user blocked the bot.
UPDATE_CHAT_HANDLED = """
UPDATE telegram_updates SET handled_at = now(), outcome = %(outcome)s, payload = '{}'
WHERE bot_id = %(bot_id)s AND chat_id = %(chat_id)s AND handled_at IS NULL
  AND kind NOT IN ('member', 'refused')
"""

# Whether this stranger was already told, within the given time, that the bot is private.
SELECT_REFUSED = """
SELECT 1 FROM telegram_updates
WHERE bot_id = %(bot_id)s AND user_id = %(user_id)s AND kind = 'refused'
  AND id < %(update)s AND outcome = 'refused' AND handled_at > now() - interval '1 day'
LIMIT 1
"""

# What an interruption ends in its chat: the job that runs, and one that waits for its next
# attempt, if it is older, and answers in the draft whose Stop button was pressed.
SELECT_INTERRUPTIBLE = """
SELECT id, status = 'doing', (args ->> 'update')::bigint FROM procrastinate_jobs
WHERE lock = %(lock)s AND (status = 'doing' OR (status = 'todo' AND attempts > 0))
  AND (args ->> 'update')::bigint < %(before)s
  AND (%(draft_id)s::bigint IS NULL OR (args ->> 'message_id')::bigint = %(draft_id)s)
  AND NOT EXISTS (SELECT 1 FROM telegram_updates u
                  WHERE u.id = (args ->> 'update')::bigint AND u.kind = 'teach')
ORDER BY id LIMIT 100
"""

# Updates that wait although no job will handle them (theirs failed, or was cancelled by a stop
# that met a dead worker) get a new one; given up after a day, when Telegram would give up too.
# They are older than whatever else waits in their chats, so they come before every round. What was
# said before a /new of its chat that is done was wiped with all the rest.
DEFER_FORGOTTEN = """
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
    SELECT id, kind, bot_id, chat_id, thread_id, message_id FROM jobless
    WHERE received_at > now() - interval '1 day' AND id NOT IN (SELECT id FROM wiped)
    ORDER BY id LIMIT 1000
), deferred AS (
    SELECT procrastinate_defer_jobs_v1(
        array_agg(ROW(CASE WHEN kind = 'message' THEN 'turns' ELSE 'commands' END,
                      'handle_update', 1,
                      CASE WHEN chat_id IS NOT NULL THEN
                          format('chat:%%s:%%s:%%s', bot_id, chat_id, thread_id) END,
                      NULL, jsonb_build_object('update', id, 'message_id', message_id), NULL)
                  ::procrastinate_job_to_defer_v1 ORDER BY id)) AS ids
    FROM forgotten
)
SELECT (SELECT count(*) FROM forgotten), (SELECT count(*) FROM deferred)
"""

# Handled updates are kept for a while: Telegram may deliver one again for a day. One that is put
# aside is kept as long as its job, with which it can be given back.
DELETE_OLD = """
DELETE FROM telegram_updates WHERE handled_at < now() - make_interval(hours => %(hours)s)
  AND id NOT IN (SELECT update_id FROM job_deaths
                 WHERE update_id IS NOT NULL AND put_aside_at IS NOT NULL)
"""

# Updates that wait, and seconds that the oldest has waited.
COUNT_WAITING = """
SELECT count(*), coalesce(extract(epoch FROM now() - min(received_at)), 0)
FROM telegram_updates WHERE handled_at IS NULL
"""


class UpdateRepository(Repository):
    """Stores updates with their jobs; every method blocks (see ``PgClient.run``)."""

    def store(self, bot_id: int, updates: Sequence[NewUpdate]) -> int:
        """Store the updates with their jobs in one transaction.

        Those known are passed over, and those of whom an operator has blocked.

        Returns:
            How many were stored.

        Raises:
            StorageUnavailableError: Nothing is stored; do not confirm the updates.
        """
        if not updates:
            return 0
        try:
            return self._insert(bot_id, updates)
        except StorageRejectedError:
            if len(updates) == 1:
                # What PostgreSQL refuses is kept by its number, so that it is confirmed once.
                number = updates[0].update_id
                return self._insert(bot_id, [NewUpdate(number, "other", {"update_id": number})])
            return sum(self.store(bot_id, [update]) for update in updates)

    def find_waiting(self, update: int) -> WaitingUpdate | None:
        """The update with row id ``update``, or None when it is handled (or pruned)."""
        return self._find(SELECT_WAITING, update)

    def find_put_aside(self, update: int) -> WaitingUpdate | None:
        """The update with row id ``update`` if it is put aside, else None."""
        return self._find(SELECT_PUT_ASIDE, update)

    def _find(self, sql: str, update: int) -> WaitingUpdate | None:
        row = self._client.fetch_one(sql, BEHIND, update=update)
        return WaitingUpdate(*row) if row else None

    def find_newer(
        self, update: int, *, kinds: Sequence[UpdateKind] = ANSWERED_LATER
    ) -> UpdateKind | None:
        """The kind of the next waiting update of the chat, of the given kinds, or None."""
        row = self._client.fetch_one(SELECT_NEWER, update=update, kinds=list(kinds))
        return row[0] if row else None

    def hold(self, transaction: Transaction, update: int, revision: int) -> Behind:
        """Keep an update as it was read until the transaction ends; returns what comes after it.

        Raises:
            ConversationGoneError: It is handled, or was erased.
            QuestionMovedError: An erasure changed it since; it is to be read again.
        """
        row = transaction.fetch_one(HOLD_UPDATE, BEHIND, update=update)
        if row is None:
            raise ConversationGoneError("the update is gone")
        if row[0] != revision:
            raise QuestionMovedError("the update was changed while it was handled")
        return Behind(row[1], bool(row[2]))

    def rewrite(self, transaction: Transaction, update: int, change: Callable[[str], str]) -> None:
        """Let ``change`` rewrite all that somebody wrote in an update that waits."""
        row = transaction.fetch_one(SELECT_PAYLOAD, update=update)
        if row is not None:
            payload = json.dumps(_rewritten(row[0], change))
            transaction.execute(UPDATE_PAYLOAD, update=update, payload=payload)

    def list_interruptible(
        self, lock: str, *, before: int, draft_id: int | None = None
    ) -> list[tuple[int, bool, int]]:
        """Jobs under a chat's lock that an interruption ends.

        Args:
            lock: The chat's.
            before: Row id of the update that interrupts; later ones are left alone.
            draft_id: Only the answer of this draft.

        Returns:
            Of each the job's id, whether it runs (else it waits for its next attempt), and the
            row id of its update.
        """
        rows = self._client.fetch_all(
            SELECT_INTERRUPTIBLE, lock=lock, before=before, draft_id=draft_id
        )
        return [(job, runs, update) for job, runs, update in rows]

    def mark_handled(self, update: int, outcome: UpdateOutcome, *, job: int | None = None) -> None:
        """The update is done, with the job that handles it, and its words are gone from it."""
        self._client.execute(UPDATE_HANDLED, update=update, outcome=outcome, job=job)

    def count_refusal(self, update: int) -> int:
        """Telegram refused the reply once more; returns how often that is by now."""
        row = self._client.fetch_one(COUNT_REFUSAL, update=update)
        return int(row[0]) if row else 0

    def mark_chat_handled(self, bot_id: int, chat_id: int, outcome: UpdateOutcome) -> int:
        """Everything that waits in a chat is done; returns how many updates that were."""
        return self._client.execute(
            UPDATE_CHAT_HANDLED, bot_id=bot_id, chat_id=chat_id, outcome=outcome
        )

    def was_refused_lately(self, update: WaitingUpdate) -> bool:
        """Whether this stranger was told within a day that the bot is private."""
        row = self._client.fetch_one(
            SELECT_REFUSED, bot_id=update.bot_id, user_id=update.user_id, update=update.id
        )
        return row is not None

    def defer_forgotten(self, *, older_than: float) -> int:
        """Give a new job to every waiting update that has none; returns how many there were.

        What was said before a /new that is done meanwhile gets none.

        Args:
            older_than: Seconds since it was received.
        """
        row = self._client.fetch_one(DEFER_FORGOTTEN, seconds=older_than, limits=PATIENT)
        return int(row[0]) if row else 0

    def prune(self, *, hours: int) -> int:
        """Delete updates that were handled more than ``hours`` ago; returns how many."""
        return self._client.execute(DELETE_OLD, hours=hours, limits=PATIENT)

    def count_waiting(self) -> tuple[int, float]:
        """How many updates wait, and how many seconds the oldest has waited."""
        row = self._client.fetch_one(COUNT_WAITING)
        return (int(row[0]), float(row[1])) if row else (0, 0.0)

    def _insert(self, bot_id: int, updates: Sequence[NewUpdate]) -> int:
        records = [{**vars(update), "position": place} for place, update in enumerate(updates)]
        [row] = self._client.fetch_all(INSERT_UPDATES, bot_id=bot_id, updates=json.dumps(records))
        return int(row[0])


def _rewritten(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with what somebody wrote in it changed."""
    if isinstance(value, list):
        return [_rewritten(one, change) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: change(one) if key in SAID and isinstance(one, str) else _rewritten(one, change)
        for key, one in value.items()
    }
