"""Progress of the background work: summaries, extraction of facts, batches at providers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from src.base.owners import Owner
from src.history.conversation_repo import PastMessage, past_message
from src.memory.search_index_repo import NewDocument, add_documents
from src.pg.client import Repository, Transaction, storable
from src.pg.locks import lock_conversations
from src.texts.morphology import terms


@dataclass(frozen=True)
class Summary:
    """Summary of the messages from ``first_position`` to ``last_position``."""

    id: int
    first_position: int
    last_position: int
    content: str


# All summaries of a conversation; merging keeps them few.
SELECT_SUMMARIES = """
SELECT id, first_position, last_position, content FROM conversation_summaries
WHERE conversation_id = %(conversation_id)s ORDER BY first_position LIMIT 1000
"""

# True if a summary may be stored: the summaries that it merges exist, no other one overlaps it,
# and none of its messages was forgotten meanwhile.
SELECT_IS_VALID = """
SELECT cardinality(%(ids)s::bigint[]) = (
           SELECT count(*) FROM conversation_summaries
           WHERE conversation_id = %(conversation_id)s AND id = ANY(%(ids)s))
   AND NOT EXISTS (
           SELECT 1 FROM conversation_summaries
           WHERE conversation_id = %(conversation_id)s AND id <> ALL(%(ids)s)
             AND first_position <= %(last)s AND last_position >= %(first)s)
   AND (%(made_of)s::int IS NULL OR %(made_of)s = (
           SELECT count(*) FROM messages
           WHERE conversation_id = %(conversation_id)s
             AND position BETWEEN %(first)s AND %(last)s
             AND role IN ('user', 'assistant') AND NOT is_forgotten AND NOT is_private))
"""

# A summary, said when its last message was.
INSERT_SUMMARY = """
INSERT INTO conversation_summaries (conversation_id, first_position, last_position, content)
VALUES (%(conversation_id)s, %(first)s, %(last)s, %(content)s)
RETURNING id, coalesce((SELECT max(said_at) FROM messages
                        WHERE conversation_id = %(conversation_id)s
                          AND position BETWEEN %(first)s AND %(last)s), now())
"""

# Summaries that a merged one replaces.
DELETE_SUMMARIES = """
DELETE FROM conversation_summaries
WHERE conversation_id = %(conversation_id)s AND id = ANY(%(ids)s)
"""


def choose_for_prompt(summaries: Sequence[Summary], before: int, *, limit: int) -> list[Summary]:
    """Return the oldest and the newest summaries of messages before ``before``, in order.

    The oldest is kept because the others are merged into it in time: without it all but the last
    twenty messages would be lost.
    """
    past = [one for one in summaries if one.last_position < before and one.content]
    return [*past[:1], *past[max(1, len(past) - limit + 1) :]][: max(0, limit)]


class SummaryRepository(Repository):
    """Stores summaries; every method blocks (see ``PgClient.run``)."""

    def list_summaries(self, conversation_id: UUID) -> list[Summary]:
        """List every summary of a conversation, in order."""
        return self._all(Summary, SELECT_SUMMARIES, conversation_id=conversation_id)

    def replace(
        self,
        conversation_id: UUID,
        content: str,
        *,
        first: int,
        last: int,
        merged: Sequence[int] = (),
        made_of: int | None = None,
    ) -> bool:
        """Store a summary of positions ``first`` to ``last``, in place of the ``merged`` ones.

        Args:
            conversation_id: The conversation.
            content: The summary; empty for messages without text.
            first: The first position that it covers.
            last: The last one.
            merged: Ids of the summaries that it replaces.
            made_of: The number of messages that were summarised, to detect forgotten ones.

        Returns:
            False if nothing was stored: another summary overlaps, a message was forgotten
            meanwhile, or the conversation was deleted.
        """
        parameters = {
            "conversation_id": conversation_id,
            "first": first,
            "last": last,
            "content": storable(content),
            "ids": list(merged),
            "made_of": made_of,
        }

        def work(transaction: Transaction) -> bool:
            owners = lock_conversations(transaction, [conversation_id])
            if not owners or transaction.fetch_one(SELECT_IS_VALID, parameters) != (True,):
                return False
            transaction.execute(DELETE_SUMMARIES, parameters)
            [(number, said_at)] = transaction.fetch_all(INSERT_SUMMARY, parameters)
            if content:
                summary = NewDocument("summary", number, "user", said_at, terms(content))
                add_documents(transaction, owners[0], [summary])
            return True

        return self._client.in_transaction(work)


@dataclass(frozen=True)
class DigestState:
    """Progress of a conversation's digestion, as positions of messages.

    Attributes:
        conversation_id: The conversation.
        owner: The owner of the conversation.
        time_zone: The owner's zone; None for the default.
        extracted_position: The last position that was read for facts.
        summarised_position: The last position that has a summary.
        summaries: The number of summaries.
        last_position: The position of the newest message.
        silent_seconds: Seconds since the newest message.
        is_unanswered: True if the newest message is the user's.
        memory_on: False if the owner turned the memory off.
    """

    conversation_id: UUID
    owner: Owner
    time_zone: str | None
    extracted_position: int
    summarised_position: int
    summaries: int
    last_position: int
    silent_seconds: float
    is_unanswered: bool = False
    memory_on: bool = True

    @property
    def is_imported(self) -> bool:
        """True for a conversation that was imported: it is no part of the history."""
        return self.owner.thread_id < 0

    @classmethod
    def of(cls, conversation_id: UUID, user: int, thread: int, *state: Any) -> Self:
        """Build a state from a row of ``SELECT_STATE``."""
        return cls(conversation_id, Owner(user, thread), *state)


# The progress of conversations.
STATE = """
SELECT c.id, c.telegram_user_id, c.thread_id, s.time_zone, c.extracted_position,
       coalesce(d.last, 0), d.summaries,
       coalesce(m.position, 0), coalesce(extract(epoch FROM now() - m.created_at), 0)::float,
       coalesce(m.role = 'user', false), coalesce(s.memory_on, true)
FROM conversations c
LEFT JOIN owners o ON o.telegram_user_id = c.telegram_user_id AND o.thread_id = 0
LEFT JOIN user_settings s ON s.owner_id = o.id
LEFT JOIN LATERAL (SELECT position, created_at, role FROM messages
                   WHERE conversation_id = c.id ORDER BY position DESC, id DESC LIMIT 1) AS m
     ON true
CROSS JOIN LATERAL (SELECT max(last_position) AS last, count(*) AS summaries
                    FROM conversation_summaries WHERE conversation_id = c.id) AS d
"""

# The progress of a conversation.
SELECT_STATE = STATE + "WHERE c.id = %(conversation_id)s"

# The progress of conversations with messages to index.
TO_INDEX = """
WHERE c.id IN (
    SELECT DISTINCT conversation_id FROM (
        SELECT conversation_id FROM unindexed_messages LIMIT 10000
    ) AS waiting LIMIT %(limit)s)
ORDER BY c.id
"""
SELECT_TO_INDEX = STATE + TO_INDEX

# Seconds since anybody's newest message, and the longest of the last answers in milliseconds.
SELECT_PACE = """
SELECT extract(epoch FROM now() - max(m.created_at))::float8,
       (SELECT max(duration_ms) FROM (SELECT duration_ms FROM model_usage WHERE purpose = 'answer'
                                      ORDER BY id DESC LIMIT 20) AS answers)
FROM (SELECT created_at FROM messages ORDER BY id DESC LIMIT 1) AS m
"""

# Mark a window as read, only if the windows before it were: two workers cannot skip one.
ADVANCE = """
UPDATE conversations SET extracted_position = %(last)s
WHERE id = %(conversation_id)s AND extracted_position = %(first)s - 1
"""

# Conversations with unread messages. Without ``after``: silent for ``minutes``, or for one minute
# if a window is full (its job was lost before it was queued). With ``after``: a page, in order of
# ids, of those with a full window or silence and without a waiting batch request.
SELECT_UNREAD = """
SELECT c.id FROM conversations c
JOIN LATERAL (SELECT position, created_at FROM messages
              WHERE conversation_id = c.id ORDER BY position DESC, id DESC LIMIT 1) AS m ON true
WHERE m.position > c.extracted_position AND CASE WHEN %(after)s::uuid IS NULL
    THEN m.created_at < now() - make_interval(mins =>
             CASE WHEN m.position - c.extracted_position < %(window)s THEN %(minutes)s ELSE 1 END)
         AND m.created_at > now() - make_interval(mins => %(minutes)s, days => 7)
    ELSE (m.position - c.extracted_position >= %(window)s
          OR m.created_at < now() - make_interval(mins => %(minutes)s))
         AND NOT EXISTS (SELECT 1 FROM batch_requests r
                         WHERE r.conversation_id = c.id AND r.status = 'waiting')
         AND c.id > %(after)s::uuid END
ORDER BY CASE WHEN %(after)s::uuid IS NULL THEN m.created_at END, c.id LIMIT %(limit)s
"""

# Messages that /new left to be read, oldest first, in the shape of the conversation's messages.
SELECT_PARTING = """
SELECT message_id, position, 'user', message_text(content), said_at, 'typed', speaker
FROM parting_messages WHERE owner_id = %(owner)s
ORDER BY message_id LIMIT %(limit)s
"""

# Messages of /new that were read.
DELETE_PARTING = """
DELETE FROM parting_messages WHERE message_id = ANY(%(ids)s) AND owner_id = %(owner)s
"""

# One conversation of each owner with messages that /new left to be read.
SELECT_WITH_PARTING = """
SELECT DISTINCT ON (c.owner_id) c.id FROM conversations c
WHERE c.owner_id IN (SELECT owner_id FROM parting_messages)
ORDER BY c.owner_id, c.id LIMIT %(limit)s
"""


class ExtractionRepository(Repository):
    """Stores the progress of extraction; every method blocks (see ``PgClient.run``)."""

    def find_state(self, conversation_id: UUID) -> DigestState | None:
        """Return the progress of a conversation; None when it is gone."""
        return self._first(DigestState.of, SELECT_STATE, conversation_id=conversation_id)

    def find_pace(self) -> tuple[float | None, int | None]:
        """Return the seconds since anybody's newest message, and the longest recent answer in ms.

        None: there is no message, or no answer.
        """
        return self._client.fetch_one(SELECT_PACE) or (None, None)

    def list_to_index(self, limit: int = 200) -> list[DigestState]:
        """List conversations with messages to index, by id."""
        return self._all(DigestState.of, SELECT_TO_INDEX, limit=limit)

    def advance(self, conversation_id: UUID, *, first: int, last: int) -> bool:
        """Mark ``first`` to ``last`` as read; False when another worker has read them."""
        params = {"conversation_id": conversation_id, "first": first, "last": last}
        return self._client.execute(ADVANCE, params) > 0

    def list_unread(
        self, *, window: int, minutes: int, after: UUID | None = None, limit: int = 50
    ) -> list[UUID]:
        """List conversations with unread messages, silent for ``minutes`` up to a week more.

        One minute of silence suffices if ``window`` messages are unread. With ``after``, list
        those with a window for a batch, in order of their ids, after that id.
        """
        params = {"window": window, "minutes": minutes, "after": after}
        return self._values(SELECT_UNREAD, **params, limit=limit)

    def list_parting(self, owner: Owner, *, limit: int) -> list[PastMessage]:
        """List an owner's messages that /new left to be read, oldest first."""
        return self._all(past_message, SELECT_PARTING, owner, limit=limit)

    def delete_parting(self, owner: Owner, ids: Sequence[int]) -> int:
        """Delete messages of /new that were read; returns how many were left to delete."""
        return self._client.execute(DELETE_PARTING, owner, ids=list(ids))

    def list_with_parting(self, *, limit: int = 50) -> list[UUID]:
        """List one conversation of each owner with messages that /new left to be read."""
        return self._values(SELECT_WITH_PARTING, limit=limit)


JobStatus = Literal["intended", "submitted", "collected", "completed", "failed"]
MAX_REQUESTS = 100_000  # listed requests of one job; no provider takes more


@dataclass(frozen=True)
class BatchJob:
    """One row of ``batch_jobs``; ``age`` is in seconds, ``waiting`` counts open requests."""

    id: UUID
    batch_id: str | None
    provider: str
    model: str
    status: JobStatus
    created_at: datetime
    age: float
    waiting: int


@dataclass(frozen=True)
class BatchWindow:
    """Window of a conversation in a batch.

    Attributes:
        id: The id of the request; the provider's ``custom_id``.
        conversation_id: The conversation.
        first: The position of the first message.
        last: The position of the last one.
        known_ids: Ids of the known facts in the prompt.
    """

    id: UUID
    conversation_id: UUID
    first: int
    last: int
    known_ids: Sequence[int] = ()


# Conversations whose next window has no tries left.
SELECT_GIVEN_UP = """
SELECT r.conversation_id FROM batch_requests r JOIN conversations c ON c.id = r.conversation_id
WHERE r.status = 'failed' AND r.first_position = c.extracted_position + 1
GROUP BY r.conversation_id HAVING count(*) >= %(tries)s
ORDER BY r.conversation_id LIMIT %(limit)s
"""

# The failed tries of a window, and whether it is in an open batch.
SELECT_TRIES = """
SELECT count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'waiting')
FROM batch_requests WHERE conversation_id = %(conversation)s AND first_position = %(first)s
"""

# The intent of a batch, before it is submitted.
INSERT_JOB = """
INSERT INTO batch_jobs (id, provider, model, requests)
VALUES (%(id)s, %(provider)s, %(model)s, %(requests)s)
"""

# The windows of a batch, without those that another process took meanwhile.
INSERT_REQUESTS = """
INSERT INTO batch_requests (id, job_id, conversation_id, first_position, last_position,
                            known_ids)
SELECT w.id, %(id)s, w.conversation_id, w.first, w.last, w.known_ids
FROM jsonb_to_recordset(%(windows)s::jsonb)
     AS w (id uuid, conversation_id uuid, first int, last int, known_ids bigint[])
JOIN conversations c ON c.id = w.conversation_id
ORDER BY w.conversation_id FOR KEY SHARE OF c
ON CONFLICT (conversation_id) WHERE status = 'waiting' DO NOTHING
RETURNING id
"""

# An intent with its windows, unless another process submitted it meanwhile.
WITHDRAW = "DELETE FROM batch_jobs WHERE id = %(id)s AND status = 'intended'"

# Mark a batch as submitted, unless another process was faster.
SET_SUBMITTED = """
UPDATE batch_jobs SET status = 'submitted', batch_id = %(batch)s, submitted_at = now(),
       error_message = NULL
WHERE id = %(id)s AND status = 'intended'
"""

# Open batches, oldest first.
SELECT_OPEN = """
SELECT j.id, j.batch_id, j.provider, j.model, j.status, j.created_at,
       extract(epoch FROM now() - j.created_at)::float,
       (SELECT count(*) FROM batch_requests r WHERE r.job_id = j.id AND r.status = 'waiting')
FROM batch_jobs j WHERE j.status IN ('intended', 'submitted', 'collected')
ORDER BY j.created_at, j.id LIMIT %(limit)s
"""

# True if another batch is due: there was none, or the last one is older than the interval, or it
# was refused longer ago than the pause, or no batch is open and a failed window has tries left.
SELECT_IS_DUE = """
SELECT last.id IS NULL OR last.age >= %(interval)s OR CASE WHEN last.status = 'failed'
    THEN last.age >= %(pause)s
    ELSE NOT EXISTS (SELECT 1 FROM batch_jobs WHERE status IN ('intended', 'submitted'))
         AND EXISTS (
             SELECT 1 FROM batch_requests r JOIN conversations c ON c.id = r.conversation_id
             WHERE r.status = 'failed' AND r.first_position = c.extracted_position + 1
             GROUP BY r.conversation_id, r.first_position HAVING count(*) < %(tries)s) END
FROM (SELECT) AS one LEFT JOIN (
    SELECT id, status, extract(epoch FROM now() - created_at) AS age FROM batch_jobs
    ORDER BY created_at DESC, id LIMIT 1) AS last ON true
"""

# Windows of a batch without a result.
SELECT_WAITING = """
SELECT id, conversation_id, first_position, last_position, known_ids
FROM batch_requests WHERE job_id = %(job)s AND status = 'waiting'
ORDER BY conversation_id, id LIMIT %(limit)s
"""

# Mark windows of a batch (one, or all that wait) as read, with the conversation up to their end,
# or as failed, to be gathered again; count results without a window.
SETTLE = """
WITH settled AS (
    UPDATE batch_requests SET status = %(status)s, error = %(error)s, finished_at = now()
    WHERE job_id = %(job)s AND status = 'waiting'
      AND (%(id)s::uuid IS NULL OR id = %(id)s)
    RETURNING status, conversation_id, first_position, last_position
), advanced AS (
    UPDATE conversations c SET extracted_position = s.last_position FROM settled s
    WHERE s.status = 'applied' AND c.id = s.conversation_id
      AND c.extracted_position = s.first_position - 1
)
UPDATE batch_jobs
SET succeeded = succeeded + (SELECT count(*) FROM settled WHERE status = 'applied'),
    failed = failed + (SELECT count(*) FROM settled WHERE status = 'failed'),
    dropped = dropped + %(dropped)s
WHERE id = %(job)s RETURNING (SELECT count(*) FROM settled)
"""

# Set the status of a batch (None keeps it) and its error. Windows of a failed one were never sent.
SET_STATUS = """
WITH unsent AS (
    DELETE FROM batch_requests
    WHERE job_id = %(id)s AND status = 'waiting' AND %(status)s = 'failed'
)
UPDATE batch_jobs SET status = coalesce(%(status)s, status), error_message = %(error)s,
       completed_at = CASE WHEN coalesce(%(status)s, status) IN ('completed', 'failed')
                      THEN now() END
WHERE id = %(id)s
"""


class BatchRepository(Repository):
    """Stores batches; every method blocks (see ``PgClient.run``)."""

    def count_tries(self, conversation_id: UUID, first: int) -> tuple[int, bool]:
        """Return the failed tries of the window at ``first``, and whether it waits now."""
        [(failed, waiting)] = self._client.fetch_all(
            SELECT_TRIES, conversation=conversation_id, first=first
        )
        return failed, waiting > 0

    def list_given_up(self, tries: int, *, limit: int = 50) -> list[UUID]:
        """List conversations whose next window failed in ``tries`` batches."""
        return self._values(SELECT_GIVEN_UP, tries=tries, limit=limit)

    def add_job(
        self, job_id: UUID, *, provider: str, model: str, windows: Sequence[BatchWindow]
    ) -> frozenset[UUID]:
        """Store the intent of a batch; ``poll`` withdraws one without windows.

        Returns:
            Ids of its windows, without those that another process took.
        """

        def work(transaction: Transaction) -> frozenset[UUID]:
            job = {"id": job_id, "provider": provider, "model": model}
            transaction.execute(INSERT_JOB, job, requests=len(windows))
            requests = json.dumps([vars(window) for window in windows], default=str)
            rows = transaction.fetch_all(INSERT_REQUESTS, job, windows=requests)
            return frozenset(id_ for (id_,) in rows)

        return self._client.in_transaction(work)

    def withdraw(self, job_id: UUID) -> None:
        """Delete an intent that was not submitted; its windows are gathered again."""
        self._client.execute(WITHDRAW, id=job_id)

    def set_submitted(self, job_id: UUID, batch_id: str) -> bool:
        """Store the provider's ``batch_id``; False when another process was faster."""
        return self._client.execute(SET_SUBMITTED, id=job_id, batch=batch_id) > 0

    def list_open(self, *, limit: int = 100) -> list[BatchJob]:
        """List open batches, oldest first."""
        return self._all(BatchJob, SELECT_OPEN, limit=limit)

    def is_due(self, *, interval: float, pause: float, tries: int) -> bool:
        """Return True if another batch is due.

        Args:
            interval: Seconds between two batches.
            pause: Seconds to wait after a refused one.
            tries: Tries of a window; a failed one with tries left does not wait for the interval.
        """
        [due] = self._values(SELECT_IS_DUE, interval=interval, pause=pause, tries=tries)
        return bool(due)

    def list_waiting(self, job_id: UUID) -> list[BatchWindow]:
        """List the windows of a batch without a result."""
        return self._all(BatchWindow, SELECT_WAITING, job=job_id, limit=MAX_REQUESTS)

    def settle(
        self, job_id: UUID, request_id: UUID | None, error: str | None = None, *, dropped: int = 0
    ) -> bool:
        """Mark a window as read, after its facts were stored, or as failed.

        Args:
            job_id: The batch.
            request_id: The window; None for all that wait.
            error: A short code if the window failed and is to be gathered again.
            dropped: The number of results that belong to no window.

        Returns:
            False if no window was waiting.
        """
        status = "failed" if error else "applied"
        result = {"status": status, "error": error, "dropped": dropped}
        return bool(self._first(int, SETTLE, job=job_id, id=request_id, **result))

    def set_status(self, job_id: UUID, status: JobStatus | None, error: str | None = None) -> None:
        """Set the status of a batch (None keeps it), and its error.

        ``failed`` means that the provider refused it; its windows keep their tries.
        """
        self._client.execute(SET_STATUS, id=job_id, status=status, error=error)
