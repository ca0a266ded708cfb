"""Jobs that ran when their process died: counted, suspected, tried, put aside and given back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar
from uuid import UUID

from src.base.errors import StorageRejectedError
from src.pg.client import PgClient, Repository, Row, Transaction
from src.queue.job_repo import QUARANTINE_QUEUE, UNIQUE_VIOLATION

T = TypeVar("T")

TWIN_RACES = 3  # times that a job may come under a queueing lock while we clear it

Step = tuple[Literal["message", "document"], int]


@dataclass(frozen=True)
class PutAside:
    """Something that is put aside; ids only.

    Attributes:
        id: What ``retry`` takes.
        task: The task's name.
        job_id: The queue's number of the job; None for a message or document.
        chat_id: Where the update came from that the job handles.
        conversation_id: Whose memory it is.
        step: The message or document, when it is one of a job for all.
        since: When it was put aside.
        deaths: How often its process died.
    """

    id: int
    task: str
    job_id: int | None
    chat_id: int | None
    conversation_id: UUID | None
    step: Step | None
    since: datetime
    deaths: int


# Work that comes again and again is tried again, after one hour, two, four, at most a day: what
# killed it may have been the machine's fault.
REVIVE = """
SELECT procrastinate_retry_job_v2(j.id, now(), NULL, %(queue)s, NULL)
FROM job_deaths d JOIN procrastinate_jobs j ON j.id = d.job_id
WHERE d.put_aside_at IS NOT NULL AND j.status = 'failed' AND j.queueing_lock IS NOT NULL
  AND d.last_at < now() - least(interval '1 hour' * power(2, least(d.deaths, 10) - 3),
                                interval '1 day')
  AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs t
                  WHERE t.queueing_lock = j.queueing_lock AND t.status = 'todo')
ORDER BY j.id LIMIT 100
"""

# Everything that is put aside, oldest first, or one of it.
SELECT_PUT_ASIDE = """
SELECT d.id, d.task, d.job_id, u.chat_id, d.conversation_id, d.message_id, d.document_id,
       d.put_aside_at, d.deaths
FROM job_deaths d LEFT JOIN telegram_updates u ON u.id = d.update_id
WHERE d.put_aside_at IS NOT NULL AND (%(id)s::bigint IS NULL OR d.id = %(id)s)
ORDER BY d.put_aside_at, d.id LIMIT 1000
"""

# Those that can be given back: not the ones that are being tried at this moment.
LOCK_RETRIED = """
SELECT d.id FROM job_deaths d LEFT JOIN procrastinate_jobs j ON j.id = d.job_id
WHERE d.put_aside_at IS NOT NULL AND (d.job_id IS NULL OR j.status = 'failed')
  AND (%(id)s::bigint IS NULL OR d.id = %(id)s)
ORDER BY d.id FOR UPDATE OF d
"""

# Their updates wait again, and their messages for the index (documents for their vector anyway).
REOPEN = (
    """
    UPDATE telegram_updates u SET handled_at = NULL, outcome = NULL
    FROM job_deaths d WHERE d.id = ANY(%(ids)s) AND u.id = d.update_id AND u.outcome = 'put aside'
    """,
    """
    UPDATE messages m SET indexed_at = NULL
    FROM job_deaths d WHERE d.id = ANY(%(ids)s) AND m.id = d.message_id
    """,
)

# New jobs in place of the failed ones, in the queues where those stood.
DEFER_RETRIED = """
SELECT procrastinate_defer_jobs_v1(
    array_agg(ROW(d.queue, j.task_name, j.priority, j.lock, j.queueing_lock, j.args, NULL)
              ::procrastinate_job_to_defer_v1 ORDER BY d.id))
FROM job_deaths d JOIN procrastinate_jobs j ON j.id = d.job_id
WHERE d.id = ANY(%(ids)s)
  AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs t
                  WHERE t.queueing_lock = j.queueing_lock AND t.status = 'todo')
HAVING count(*) > 0
"""

# The failed jobs, and what was counted.
DELETE_RETRIED = (
    """
    DELETE FROM procrastinate_jobs j USING job_deaths d
    WHERE d.id = ANY(%(ids)s) AND j.id = d.job_id
    """,
    "DELETE FROM job_deaths WHERE id = ANY(%(ids)s)",
)

# How much is put aside.
COUNT_PUT_ASIDE = "SELECT count(*) FROM job_deaths WHERE put_aside_at IS NOT NULL"


class PutAsideRepository(Repository):
    """Keeps what is put aside; every method blocks (see ``PgClient.run``)."""

    def revive(self) -> int:
        """Have recurring work that was put aside a while ago tried again; returns how much."""
        return len(self._client.fetch_all(REVIVE, {"queue": QUARANTINE_QUEUE}))

    def list_all(self) -> list[PutAside]:
        """What is put aside, oldest first, at most a thousand."""
        rows = self._client.fetch_all(SELECT_PUT_ASIDE, {"id": None})
        return [as_put_aside(row) for row in rows]

    def count(self) -> int:
        """How much is put aside."""
        row = self._client.fetch_one(COUNT_PUT_ASIDE)
        return int(row[0]) if row else 0

    def retry(self, number: int | None = None) -> int:
        """Give what is put aside back to the queue, with a clean count; returns how much.

        Args:
            number: The id of one; None for all.
        """

        def work(transaction: Transaction) -> int:
            rows = transaction.fetch_all(LOCK_RETRIED, {"id": number})
            ids = {"ids": [row[0] for row in rows]}
            for statement in (*REOPEN, DEFER_RETRIED, *DELETE_RETRIED):
                transaction.execute(statement, ids)
            return len(rows)

        return despite_twins(self._client, work)


def as_put_aside(row: Row) -> PutAside:
    """A row of ``SELECT_PUT_ASIDE``."""
    number, task, job, chat, conversation, message, document, since, deaths = row
    step: Step | None = None
    if message is not None:
        step = ("message", message)
    elif document is not None:
        step = ("document", document)
    owner = None if conversation is None else UUID(str(conversation))
    return PutAside(number, task, job, chat, owner, step, since, deaths)


def despite_twins(client: PgClient, work: Callable[[Transaction], T]) -> T:
    """``work`` in a transaction, again when a job came under a queueing lock meanwhile."""
    for _ in range(TWIN_RACES):
        try:
            return client.in_transaction(work)
        except StorageRejectedError as error:
            if error.sqlstate != UNIQUE_VIOLATION:
                raise
    return client.in_transaction(work)


SUSPECT_DEATHS = 2  # deaths after which a job is tried away from all others


@dataclass(frozen=True)
class Recovered:
    """Jobs that were given back: how many there were, how many died, how many are suspects."""

    jobs: int = 0
    deaths: int = 0
    suspects: int = 0


@dataclass(frozen=True)
class Suspects:
    """Suspects that could be tried now, and the most deaths that one of them has."""

    waiting: int
    most_deaths: int


# Jobs in the hands of workers that are dead (no heartbeat), or that went without giving them back
# (no worker: that is no death). A death is counted for each, or for the work that comes again
# under its queueing lock; two make a suspect. A suspect in quarantine has not run in the process
# that died here, or it would be its parent that says so.
COUNT_DEATHS = """
WITH stalled AS (
    SELECT j.id, j.task_name, j.queue_name, j.queueing_lock, j.args,
           coalesce(j.queueing_lock, 'job ' || j.id) AS work,
           j.worker_id IS NOT NULL AND j.queue_name <> %(quarantine)s AND %(counts)s AS is_death
    FROM procrastinate_jobs j LEFT JOIN procrastinate_workers w ON w.id = j.worker_id
    WHERE j.status = 'doing'
      AND (j.worker_id IS NULL
           OR w.last_heartbeat < now() - make_interval(secs => %(dead_after)s))
    FOR UPDATE OF j SKIP LOCKED
), counted AS (
    INSERT INTO job_deaths AS d (work, task, queue, job_id, update_id, conversation_id)
    SELECT DISTINCT ON (s.work) s.work, s.task_name, s.queue_name, s.id,
           (SELECT id FROM telegram_updates
            WHERE id = coalesce(s.args ->> 'update', s.args ->> 'before')::bigint),
           (SELECT id FROM conversations WHERE id = (s.args ->> 'conversation_id')::uuid)
    FROM stalled s WHERE s.is_death
    ORDER BY s.work, s.id DESC
    ON CONFLICT (work) DO UPDATE
    SET deaths = greatest(d.deaths, %(suspect)s), job_id = EXCLUDED.job_id, last_at = now()
    RETURNING job_id, deaths
)
SELECT s.id, s.queueing_lock, s.is_death, coalesce(c.deaths, 0)
FROM stalled s LEFT JOIN counted c ON c.job_id = s.id
ORDER BY s.id
"""

# Other jobs under the queueing locks of those that are given back, which do the work of all.
DELETE_TWINS = """
DELETE FROM procrastinate_jobs
WHERE queueing_lock = ANY(%(locks)s) AND (status = 'todo' OR id = ANY(%(jobs)s))
  AND NOT id = ANY(%(kept)s)
"""

# The jobs wait again, in another queue where one is named.
GIVE_BACK = """
SELECT procrastinate_retry_job_v2(j.id, now(), NULL, j.queue, NULL)
FROM unnest(%(jobs)s::bigint[], %(queues)s::text[]) AS j (id, queue)
"""

# The workers of processes that died; none of them lives any more.
DELETE_WORKERS = "DELETE FROM procrastinate_workers"

# Their process died although these did not run in it: something else kills, such as an operator.
# They lose a death and go back to their queue, or they would wait for a process that is killed
# again and again before it has tried them.
ACQUIT = """
WITH acquitted AS (
    UPDATE job_deaths d SET deaths = %(suspect)s - 1
    FROM procrastinate_jobs j
    WHERE j.id = d.job_id AND j.queue_name = %(quarantine)s AND j.status = 'todo'
      AND d.deaths = %(suspect)s AND d.put_aside_at IS NULL AND d.last_at < now()
    RETURNING d.job_id, d.queue
)
UPDATE procrastinate_jobs j SET queue_name = a.queue FROM acquitted a WHERE j.id = a.job_id
"""

# Whether the work under a queueing lock is suspected or put aside, so that only its own job, which
# is tried elsewhere, may do it.
SELECT_SUSPECTED = """
SELECT 1 FROM job_deaths
WHERE work = %(work)s AND deaths >= %(suspect)s AND job_id IS DISTINCT FROM %(job)s
"""

# Suspects that ``fetch_job`` would hand out now.
COUNT_SUSPECTS = """
SELECT count(*), coalesce(max(d.deaths), 0)
FROM procrastinate_jobs j LEFT JOIN job_deaths d ON d.job_id = j.id
WHERE j.queue_name = %(queue)s AND j.status = 'todo'
  AND (j.scheduled_at IS NULL OR j.scheduled_at <= now())
  AND NOT EXISTS (
      SELECT 1 FROM procrastinate_jobs o
      WHERE o.lock = j.lock AND (o.status = 'doing' OR (o.status = 'todo'
            AND (o.priority, -o.id) > (j.priority, -j.id))))
"""

# Which of a dead process's jobs it left unfinished.
LOCK_IN_HAND = """
SELECT id FROM procrastinate_jobs
WHERE id = ANY(%(jobs)s) AND queue_name = %(queue)s AND status = 'doing'
ORDER BY id FOR UPDATE
"""

# The worker in whose hands they were.
DELETE_THEIR_WORKER = """
DELETE FROM procrastinate_workers
WHERE id IN (SELECT worker_id FROM procrastinate_jobs WHERE id = ANY(%(jobs)s))
"""

# They died away from all others: alone, or (none is put aside then) among suspects.
COUNT_SUSPECTS_DEATHS = """
INSERT INTO job_deaths AS d (work, task, queue, job_id, update_id, conversation_id, deaths,
                             put_aside_at)
SELECT coalesce(j.queueing_lock, 'job ' || j.id), j.task_name, j.queue_name, j.id,
       (SELECT id FROM telegram_updates
        WHERE id = coalesce(j.args ->> 'update', j.args ->> 'before')::bigint),
       (SELECT id FROM conversations WHERE id = (j.args ->> 'conversation_id')::uuid),
       1, CASE WHEN %(put_aside)s THEN now() END
FROM procrastinate_jobs j WHERE j.id = ANY(%(jobs)s)
ON CONFLICT (work) DO UPDATE
SET deaths = d.deaths + 1, job_id = EXCLUDED.job_id, last_at = now(),
    put_aside_at = coalesce(d.put_aside_at, EXCLUDED.put_aside_at)
RETURNING id
"""

# The job ends; it stays in the table until it is pruned, or given back by hand.
FAIL_JOB = "SELECT procrastinate_finish_job_v1(%(job)s, 'failed', false)"

# Its update is done with: the chat goes on, and nobody defers it again. The payload stays, for a
# retry by hand.
CLOSE_UPDATE = """
UPDATE telegram_updates u SET handled_at = now(), outcome = 'put aside'
FROM job_deaths d
WHERE d.id = %(id)s AND d.task = 'handle_update' AND u.id = d.update_id AND u.handled_at IS NULL
RETURNING u.id, u.bot_id, u.chat_id, u.thread_id, u.message_id, u.kind
"""

# The message leaves the conversation, with an answer that nobody got: whatever is wrong with it
# would meet the next turn, the index and the summaries too. A retry stores it again.
DELETE_MESSAGE = """
DELETE FROM messages
WHERE bot_id = %(bot_id)s AND chat_id = %(chat_id)s AND telegram_message_id = %(message_id)s
"""

# The user is told, before anything else happens in the chat.
DEFER_APOLOGY = """
SELECT procrastinate_defer_jobs_v1(ARRAY[
    ROW('control', 'apologise', 100, format('chat:%%s:%%s:%%s', %(bot_id)s::bigint,
        %(chat_id)s::bigint, %(thread_id)s::bigint), NULL,
        jsonb_build_object('update', %(update)s::bigint), NULL)::procrastinate_job_to_defer_v1])
"""

# One message or document of a job for all is put aside; the job goes on without it.
PUT_STEP_ASIDE = """
INSERT INTO job_deaths AS d (work, task, queue, conversation_id, message_id, document_id, deaths,
                             put_aside_at)
SELECT %(work)s, j.task_name, j.queue_name, m.conversation_id, m.id, s.id,
       coalesce(own.deaths, %(suspect)s) + 1, now()
FROM procrastinate_jobs j
LEFT JOIN job_deaths own ON own.job_id = j.id
LEFT JOIN messages m ON m.id = %(message)s::bigint
LEFT JOIN search_documents s ON s.id = %(document)s::bigint
WHERE j.id = %(job)s AND (m.indexed_at IS NULL AND m.id IS NOT NULL OR s.id IS NOT NULL)
ON CONFLICT (work) DO UPDATE SET deaths = d.deaths + 1, last_at = now()
RETURNING id
"""

# It counts as indexed; a document that was put aside is left out where vectors are asked for.
MARK_INDEXED = "UPDATE messages SET indexed_at = now() WHERE id = %(message)s"


class JobDeathRepository(Repository):
    """Keeps the deaths of jobs; every method blocks (see ``PgClient.run``)."""

    def recover(self, *, dead_after: float, counts: bool = True) -> Recovered:
        """Count the deaths of dead workers' jobs and give the jobs back: suspects apart.

        Args:
            dead_after: Seconds without a heartbeat; 0 when no other worker lives.
            counts: False when the workers died and their process did not.
        """

        def work(transaction: Transaction) -> Recovered:
            quarantine = {"quarantine": QUARANTINE_QUEUE, "suspect": SUSPECT_DEATHS}
            times = {"dead_after": dead_after, "counts": counts}
            rows = transaction.fetch_all(COUNT_DEATHS, {**quarantine, **times})
            newest = {lock: job for job, lock, _, _ in rows if lock is not None}
            kept = {job: deaths for job, lock, _, deaths in rows if newest.get(lock, job) == job}
            jobs = [row[0] for row in rows]
            if newest:
                locks = {"locks": list(newest), "jobs": jobs, "kept": list(kept)}
                transaction.execute(DELETE_TWINS, locks)
            suspects = {job for job, deaths in kept.items() if deaths >= SUSPECT_DEATHS}
            _give_back(transaction, list(kept), suspects)
            if dead_after == 0 and transaction.execute(DELETE_WORKERS):
                transaction.execute(ACQUIT, quarantine)
            deaths = sum(is_death for _, _, is_death, _ in rows)
            return Recovered(len(rows), deaths, len(suspects))

        return despite_twins(self._client, work)

    def is_suspected(self, work: str, job: int | None) -> bool:
        """Whether ``work`` is left to a job other than ``job``, which is tried elsewhere."""
        parameters = {"work": work, "job": job, "suspect": SUSPECT_DEATHS}
        return self._client.fetch_one(SELECT_SUSPECTED, parameters) is not None

    def count_suspects(self) -> Suspects:
        """The suspects that could be tried now."""
        row = self._client.fetch_one(COUNT_SUSPECTS, {"queue": QUARANTINE_QUEUE})
        return Suspects(*row) if row else Suspects(0, 0)

    def judge(self, jobs: Sequence[int], step: Step | None = None) -> PutAside | None:
        """The process of the suspects died by itself: put aside what did it, if that is proven.

        It is when there was only one job in hand. Of several the death is counted; they are given
        back, to be tried one by one.

        Args:
            jobs: What it had taken.
            step: The message or document that its last job was at.

        Returns:
            What is put aside now.
        """

        def work(transaction: Transaction) -> PutAside | None:
            taken = {"jobs": list(jobs), "queue": QUARANTINE_QUEUE}
            unfinished = [row[0] for row in transaction.fetch_all(LOCK_IN_HAND, taken)]
            transaction.execute(DELETE_THEIR_WORKER, {"jobs": unfinished})
            if len(unfinished) == 1:
                return _put_aside(transaction, unfinished[0], step)
            counted = {"jobs": unfinished, "put_aside": False}
            transaction.execute(COUNT_SUSPECTS_DEATHS, counted)
            _give_back(transaction, unfinished, set(unfinished))
            return None

        return despite_twins(self._client, work)


def _give_back(transaction: Transaction, jobs: Collection[int], suspects: Collection[int]) -> None:
    queues = [QUARANTINE_QUEUE if job in suspects else None for job in jobs]
    transaction.execute(GIVE_BACK, {"jobs": list(jobs), "queues": queues})


def _put_aside(transaction: Transaction, job: int, step: Step | None) -> PutAside | None:
    """Put the job aside, or only the step of it at which its process died."""
    number = _put_step_aside(transaction, job, step) if step else None
    number = number or _put_job_aside(transaction, job)
    row = transaction.fetch_one(SELECT_PUT_ASIDE, {"id": number}) if number else None
    return as_put_aside(row) if row else None


def _put_step_aside(transaction: Transaction, job: int, step: Step) -> int | None:
    """Returns None when the message is gone or done, so that something else did it."""
    kind, number = step
    parameters: dict[str, Any] = {"job": job, "suspect": SUSPECT_DEATHS}
    parameters |= {"work": f"{kind} {number}", "message": None, "document": None, kind: number}
    row = transaction.fetch_one(PUT_STEP_ASIDE, parameters)
    if row is None:
        return None
    transaction.execute(MARK_INDEXED, parameters)
    _give_back(transaction, [job], {job})
    return int(row[0])


def _put_job_aside(transaction: Transaction, job: int) -> int | None:
    counted = transaction.fetch_one(COUNT_SUSPECTS_DEATHS, {"jobs": [job], "put_aside": True})
    transaction.execute(FAIL_JOB, {"job": job})
    if counted is None:
        return None
    closed = transaction.fetch_one(CLOSE_UPDATE, {"id": counted[0]})
    if closed is not None:
        names = ("update", "bot_id", "chat_id", "thread_id", "message_id", "kind")
        update = dict(zip(names, closed, strict=True))
        if update["kind"] == "message":
            transaction.execute(DELETE_MESSAGE, update)
        if update["chat_id"] is not None:
            transaction.execute(DEFER_APOLOGY, update)
    return int(counted[0])
