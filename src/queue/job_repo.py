"""Names of the queues, the job that indexes messages, and the jobs and workers of dead processes.

Each queue has a worker of its own in every process. An update's queue is chosen when it is stored
(``INSERT_UPDATES``).
"""

import random
from dataclasses import dataclass
from datetime import datetime

from src.pg.client import Repository, Transaction

PEOPLE_QUEUE = "people"  # turns
# What waits for Telegram and never for a model: interruptions, commands, buttons, reminders.
CONTROL_QUEUE = "control"
BACKGROUND_QUEUE = "background"  # the memory's jobs and housekeeping
REMINDER_PRIORITY = 1  # reminders precede what users do now, and interruptions (10) precede both
APPLICATION_NAME = "pomni queue"  # of the connections of all workers

INDEX_MESSAGES = "index_messages"
STORE_IMPORTS = "store_imports"
UNIQUE_VIOLATION = "23505"

# Defer one job for all that comes in the next two seconds, unless one is pending.
DEFER_ONCE = "SELECT defer_once(%(queue)s, %(task)s)"

# Seconds since the latest heartbeat of any worker; NULL without workers.
SELECT_HEARTBEAT = """
SELECT extract(epoch FROM now() - max(last_heartbeat))::float8 FROM procrastinate_workers
"""

# Delete all workers if no process has a connection of the queue, so that all of them are dead.
# Their jobs lose their worker, and are stalled from then on.
DELETE_DEAD_WORKERS = """
DELETE FROM procrastinate_workers WHERE NOT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = %(application)s)
"""


class JobRepository(Repository):
    """Reads and writes procrastinate's tables; its methods block (see ``PgClient.run``)."""

    def defer_indexing(self, task: str = INDEX_MESSAGES) -> None:
        """Have new messages indexed within about two seconds, or another task of its kind run."""
        self._client.fetch_all(DEFER_ONCE, queue=BACKGROUND_QUEUE, task=task)

    def seconds_since_heartbeat(self) -> float | None:
        """Return the age of the latest heartbeat, or None without workers."""
        return self._first(lambda age: age, SELECT_HEARTBEAT)

    def delete_dead_workers(self) -> int:
        """Delete the workers of killed processes and return their number.

        While a process with workers lives, none is deleted: a worker without a heartbeat is found
        by ``get_stalled_jobs`` of procrastinate. Call it before the queue is opened, as its
        connections would count.
        """
        return self._client.execute(DELETE_DEAD_WORKERS, application=APPLICATION_NAME)


# Jobs of dead workers: retried twice, then put aside until an operator retries them.
#
# A job whose process dies leaves its worker without heartbeats, so procrastinate reports it as
# stalled. Here its deaths are counted, beside its ``attempts``: those also count every retry while
# Telegram or a model is away, which proves nothing against a job.

MAX_DEATHS = 3  # beginnings without an end, after which a job is put aside
# Up to so many seconds pass before the last attempt, so that few jobs run beside a killer then.
LAST_PAUSE = 10.0
RECURRING_PAUSE = 600.0  # seconds until recurring work that was put aside is tried again


@dataclass(frozen=True)
class PutAsideJob:
    """A job that was put aside; holds ids only.

    Attributes:
        id: Procrastinate's id of the job, as ``retry`` takes it.
        task: Name of the task.
        chat_id: The chat of the update that the job handles.
        conversation_id: The conversation that the job works on.
        since: Time at which it was put aside.
        deaths: Number of its process deaths.
    """

    id: int
    task: str
    chat_id: int | None
    conversation_id: str | None
    since: datetime
    deaths: int


# Jobs that are put aside, oldest first.
SELECT_PUT_ASIDE = """
SELECT j.id, j.task_name, u.chat_id, j.args ->> 'conversation_id', d.put_aside_at, d.deaths
FROM job_deaths d JOIN procrastinate_jobs j ON j.id = d.job_id
LEFT JOIN telegram_updates u ON u.id = (j.args ->> 'update')::bigint
WHERE d.put_aside_at IS NOT NULL
ORDER BY d.put_aside_at, j.id LIMIT 1000
"""

# Requeue jobs that are put aside, except running ones; reopen their updates and forget their
# deaths.
RETRY = """
WITH given AS (
    UPDATE procrastinate_jobs j SET status = 'todo', scheduled_at = NULL, attempts = 0
    FROM job_deaths d
    WHERE d.job_id = j.id AND d.put_aside_at IS NOT NULL AND j.status IN ('failed', 'todo')
      AND (%(id)s::bigint IS NULL OR j.id = %(id)s)
    RETURNING j.id, (j.args ->> 'update')::bigint AS update
), reopened AS (
    UPDATE telegram_updates u SET handled_at = NULL, outcome = NULL
    FROM given g WHERE u.id = g.update AND u.outcome = 'put aside'
)
DELETE FROM job_deaths d USING given g WHERE d.job_id = g.id
"""

# Number of jobs that are put aside.
COUNT_PUT_ASIDE = "SELECT count(*) FROM job_deaths WHERE put_aside_at IS NOT NULL"

# Count one more death of a job that still runs on the worker (a process that rescued it first has
# changed that), and put it aside after the last one.
COUNT_DEATH = """
WITH stalled AS (
    SELECT id, queueing_lock FROM procrastinate_jobs
    WHERE id = %(job)s AND status = 'doing' AND worker_id IS NOT DISTINCT FROM %(worker)s
    FOR UPDATE
), counted AS (
    INSERT INTO job_deaths AS d (job_id) SELECT id FROM stalled
    ON CONFLICT (job_id) DO UPDATE
    SET deaths = d.deaths + 1,
        put_aside_at = CASE WHEN d.deaths + 1 >= %(most)s THEN coalesce(d.put_aside_at, now()) END
    RETURNING deaths
)
SELECT deaths, queueing_lock FROM counted, stalled
"""

# Delete the job that waits under the queueing lock: one does the work of both.
DELETE_DUPLICATE = """
DELETE FROM procrastinate_jobs WHERE queueing_lock = %(lock)s AND status = 'todo'
"""

# Requeue a job.
REQUEUE = """
SELECT procrastinate_retry_job_v2(%(job)s, now() + make_interval(secs => %(seconds)s),
                                  NULL, NULL, NULL)
"""

# The deaths of a running job that has got on since.
FORGET_DEATHS = "DELETE FROM job_deaths WHERE job_id = %(job)s"

# Mark a job as failed; it stays in the table until it is pruned or retried by an operator.
FAIL = "SELECT procrastinate_finish_job_v1(%(job)s, 'failed', false)"

# Close the update of a job that is put aside, so that its chat continues and no job defers it
# again. The payload stays, for a retry by an operator. The message is deleted with its undelivered
# answer: what is wrong with it would affect the next turn, too. Defer an apology to the user,
# before everything else of the chat.
CLOSE_UPDATE = """
WITH closed AS (
    UPDATE telegram_updates u SET handled_at = now(), outcome = 'put aside'
    FROM procrastinate_jobs j
    WHERE j.id = %(job)s AND j.task_name = 'handle_update'
      AND u.id = (j.args ->> 'update')::bigint AND u.handled_at IS NULL
    RETURNING u.id, u.bot_id, u.chat_id, u.thread_id, u.message_id, u.kind
), deleted AS (
    DELETE FROM messages m USING closed c
    WHERE c.kind = 'message' AND m.bot_id = c.bot_id AND m.chat_id = c.chat_id
      AND m.telegram_message_id = c.message_id
)
SELECT procrastinate_defer_jobs_v1(ARRAY[
    ROW('control', 'apologise', 100, format('chat:%%s:%%s:%%s', bot_id, chat_id, thread_id), NULL,
        jsonb_build_object('update', id), NULL)::procrastinate_job_to_defer_v1])
FROM closed WHERE chat_id IS NOT NULL
"""


class JobDeathRepository(Repository):
    """Stores the deaths of jobs; every method blocks."""

    def rescue(self, job: int, worker: int | None) -> int | None:
        """Count the death of a stalled job, and requeue it or put it aside.

        A job that is put aside has failed, with an apology to the user of its update. Recurring
        work waits instead: under its queueing lock no other job of it can be deferred meanwhile.

        Args:
            job: Id of the job.
            worker: Id of the worker that runs it.

        Returns:
            The number of its deaths; None if it does not run on that worker any more.
        """

        def work(transaction: Transaction) -> int | None:
            row = transaction.fetch_one(COUNT_DEATH, job=job, worker=worker, most=MAX_DEATHS)
            if row is None:
                return None
            deaths, lock = row
            if lock is None and deaths >= MAX_DEATHS:
                transaction.execute(FAIL, job=job)
                transaction.execute(CLOSE_UPDATE, job=job)
                return int(deaths)
            pauses = {MAX_DEATHS - 1: random.uniform(0, LAST_PAUSE), MAX_DEATHS: RECURRING_PAUSE}
            transaction.execute(DELETE_DUPLICATE, lock=lock)
            seconds = pauses.get(min(deaths, MAX_DEATHS), 0.0)
            transaction.execute(REQUEUE, job=job, seconds=seconds)
            return int(deaths)

        return self._client.in_transaction(work)

    def forget(self, job: int) -> None:
        """Forget the deaths of a running job: it has stored a part of its work, so it kills none.

        Args:
            job: Id of the job.
        """
        self._client.execute(FORGET_DEATHS, job=job)

    def list_all(self) -> list[PutAsideJob]:
        """List the jobs that are put aside, oldest first, at most a thousand."""
        return self._all(PutAsideJob, SELECT_PUT_ASIDE)

    def count(self) -> int:
        """Return the number of jobs that are put aside."""
        return self._first(int, COUNT_PUT_ASIDE) or 0

    def retry(self, job: int | None = None) -> int:
        """Requeue jobs that are put aside and forget their deaths.

        Args:
            job: Id of one; None for all.

        Returns:
            The number of jobs.
        """
        return self._client.execute(RETRY, id=job)
