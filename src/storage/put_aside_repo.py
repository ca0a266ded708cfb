"""Jobs that are put aside because they kill their process: listed, given back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from src.storage.pg_client import Row
from src.storage.repository import Repository


@dataclass(frozen=True)
class PutAside:
    """A job that is put aside; ids only.

    Attributes:
        id: What ``retry`` takes.
        task: The task's name.
        job_id: The queue's number of the job.
        chat_id: Where the update came from that the job handles.
        conversation_id: Whose memory it is.
        since: When it was put aside.
        deaths: How often its process died.
    """

    id: int
    task: str
    job_id: int
    chat_id: int | None
    conversation_id: UUID | None
    since: datetime
    deaths: int


# Everything that is put aside, oldest first.
SELECT_PUT_ASIDE = """
SELECT d.id, d.task, d.job_id, u.chat_id, d.conversation_id, d.put_aside_at, d.deaths
FROM job_deaths d LEFT JOIN telegram_updates u ON u.id = d.update_id
WHERE d.put_aside_at IS NOT NULL
ORDER BY d.put_aside_at, d.id LIMIT 1000
"""

# Jobs that are not being tried at this moment wait again in the queues where they stood, and their
# updates with them; nothing is counted of them any more.
RETRY = """
WITH given AS (
    UPDATE procrastinate_jobs j
    SET status = 'todo', queue_name = d.queue, scheduled_at = NULL, attempts = 0
    FROM job_deaths d
    WHERE d.job_id = j.id AND d.put_aside_at IS NOT NULL AND j.status IN ('failed', 'todo')
      AND (%(id)s::bigint IS NULL OR d.id = %(id)s)
    RETURNING d.id, d.update_id
), reopened AS (
    UPDATE telegram_updates u SET handled_at = NULL, outcome = NULL
    FROM given g WHERE u.id = g.update_id AND u.outcome = 'put aside'
)
DELETE FROM job_deaths d USING given g WHERE d.id = g.id
"""

# How much is put aside.
COUNT_PUT_ASIDE = "SELECT count(*) FROM job_deaths WHERE put_aside_at IS NOT NULL"


class PutAsideRepository(Repository):
    """Keeps what is put aside; every method blocks (see ``PgClient.run``)."""

    def list_all(self) -> list[PutAside]:
        """What is put aside, oldest first, at most a thousand."""
        rows = self._client.fetch_all(SELECT_PUT_ASIDE)
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
        return self._client.execute(RETRY, {"id": number})


def as_put_aside(row: Row) -> PutAside:
    """A row of ``SELECT_PUT_ASIDE``."""
    number, task, job, chat, conversation, since, deaths = row
    owner = None if conversation is None else UUID(str(conversation))
    return PutAside(number, task, job, chat, owner, since, deaths)
