"""What is put aside because it kills its process: listed, given back, tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar
from uuid import UUID

from src.errors import StorageRejectedError
from src.storage.memory_job_repo import UNIQUE_VIOLATION
from src.storage.pg_client import PgClient, Row, Transaction
from src.storage.queue_names import QUARANTINE_QUEUE
from src.storage.repository import Repository

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
