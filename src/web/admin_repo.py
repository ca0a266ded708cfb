"""What the admin page shows: one bounded statement a view, by index, however much there is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from src.base.owners import Owner
from src.pg.client import Repository
from src.pg.records_repo import usage_query

BATCH_DISCOUNT = Decimal("0.5")  # of what a batch API takes, of the price of the same call at once


@dataclass(frozen=True)
class OwnerLine:
    """An owner in the list, and since when their conversation runs."""

    telegram_user_id: int
    thread_id: int
    conversation_id: UUID
    created_at: datetime
    last_at: datetime | None
    messages: int


@dataclass(frozen=True)
class Bubble:
    """A message of a conversation, as the page shows it.

    ``sources`` are uids of what it cites, ``tools`` what ran for it; the tokens are those of all
    the calls that made it, None where there were none.
    """

    id: int
    position: int
    role: str
    text: str
    created_at: datetime
    speaker: str | None
    is_forgotten: bool
    is_private: bool
    state: str
    sources: list[str]
    tools: list[str]
    prompt: int | None
    completion: int | None


@dataclass(frozen=True)
class UsageLine:
    """What models cost on a day: tokens, money by the price table, milliseconds."""

    day: date
    model: str
    calls: int
    prompt: int
    cached: int
    completion: int
    cost: Decimal | None
    median_ms: float
    high_ms: float


@dataclass(frozen=True)
class Price:
    """Of a million tokens."""

    model: str
    prompt: Decimal
    cached: Decimal
    completion: Decimal


# Owners by their ids; what they have is looked up for the page's few alone.
SELECT_OWNERS = """
SELECT c.telegram_user_id, c.thread_id, c.id, c.created_at, m.created_at, coalesce(m.position, 0)
FROM (SELECT * FROM conversations
      WHERE (telegram_user_id, thread_id) > (%(user)s, %(thread)s)
      ORDER BY telegram_user_id, thread_id LIMIT %(limit)s) AS c
LEFT JOIN LATERAL (SELECT created_at, position FROM messages WHERE conversation_id = c.id
                   ORDER BY position DESC, id DESC LIMIT 1) AS m ON true
ORDER BY c.telegram_user_id, c.thread_id
"""

# A page of a conversation, upwards from a position; with how each message ended. An answer is
# stored by one statement with what it cost, so both have the same moment.
SELECT_BUBBLES = """
SELECT m.id, m.position, m.role, message_text(m.content), m.created_at, m.speaker,
       m.is_forgotten, m.is_private,
       CASE WHEN m.failed_at IS NOT NULL THEN 'given up'
            WHEN m.stopped_at IS NOT NULL THEN 'stopped'
            WHEN m.role = 'assistant' AND m.delivered_at IS NULL THEN 'not delivered'
            ELSE '' END,
       ARRAY(SELECT CASE WHEN s.memory_id IS NOT NULL THEN 'fact-' || s.memory_id
                         ELSE 'msg-' || s.message_id END
             FROM answer_sources s WHERE s.answer_id = m.id ORDER BY s.number),
       ARRAY(SELECT t.name FROM tool_results t WHERE t.message_id = m.reply_to_id ORDER BY t.id),
       u.prompt, u.completion
FROM messages m JOIN conversations c ON c.id = m.conversation_id
LEFT JOIN LATERAL (SELECT sum(prompt_tokens) AS prompt, sum(completion_tokens) AS completion
                   FROM model_usage
                   WHERE owner_id = c.owner_id AND created_at = m.created_at
                     AND m.role = 'assistant') AS u ON true
WHERE c.telegram_user_id = %(user)s AND c.thread_id = %(thread_id)s
  AND m.position < %(before)s
ORDER BY m.position DESC, m.id DESC LIMIT %(limit)s
"""

# What the gate refused of an owner's, the newest first.
SELECT_REJECTED = """
SELECT id, created_at, reason, coalesce(text, ''), message_id, origin FROM rejected_facts
WHERE owner_id = %(owner)s
ORDER BY id DESC LIMIT %(limit)s
"""

# What an owner's data weighs: rows, counted up to a bound.
WEIGH = """
SELECT (SELECT count(*) FROM (SELECT 1 FROM messages m JOIN conversations c
                              ON c.id = m.conversation_id
                              WHERE c.owner_id = %(owner)s
                              LIMIT %(bound)s) AS a),
       (SELECT coalesce(sum(octet_length(content)), 0)
        FROM (SELECT content FROM messages m JOIN conversations c ON c.id = m.conversation_id
              WHERE c.owner_id = %(owner)s
              LIMIT %(bound)s) AS b),
       (SELECT count(*) FROM (SELECT 1 FROM facts WHERE owner_id = %(owner)s
                              LIMIT %(bound)s) AS d),
       (SELECT count(*) FROM (SELECT 1 FROM document_embeddings
                              WHERE owner_id = %(owner)s
                              LIMIT %(bound)s) AS e)
"""

# How much there is, as the planner knows it: counting would read everything.
ESTIMATE = """
SELECT relname, greatest(reltuples, 0)::bigint, pg_total_relation_size(oid)
FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
  AND relname = ANY(%(tables)s) ORDER BY relname
"""

# Tokens, money and time by day and model, the newest first; days that are over were summed up.
# Batches cost half. The percentiles are of classes of times, each two hundredths wide.
SELECT_USAGE = usage_query("""
, classes AS (
    SELECT * FROM model_usage_days
    WHERE day > (now() AT TIME ZONE %(zone)s)::date - %(days)s AND day <= (SELECT day FROM rolled)
    UNION ALL SELECT * FROM fresh
), ranked AS (
    SELECT *, sum(calls) OVER (PARTITION BY day, model ORDER BY class) AS so_far,
           sum(calls) OVER (PARTITION BY day, model) AS in_all
    FROM classes
)
SELECT u.day, u.model, sum(u.calls)::bigint, sum(u.prompt)::bigint, sum(u.cached)::bigint,
       sum(u.completion)::bigint,
       sum((u.uncached * p.prompt + u.cached * p.cached + u.completion * p.completion) / 1000000
           * CASE WHEN u.is_batch THEN %(discount)s ELSE 1 END),
       round(exp(min(u.class) FILTER (WHERE u.so_far >= 0.5 * u.in_all) / 50.0)),
       round(exp(min(u.class) FILTER (WHERE u.so_far >= 0.95 * u.in_all) / 50.0))
FROM ranked u LEFT JOIN model_prices p ON p.model = u.model
GROUP BY 1, 2 ORDER BY 1 DESC, 4 DESC, 2 LIMIT 1000
""")

# Those who cost most.
SELECT_SPENDERS = """
SELECT o.telegram_user_id, count(*), coalesce(sum(prompt_tokens), 0)::bigint,
       coalesce(sum(completion_tokens), 0)::bigint
FROM model_usage u JOIN owners o ON o.id = u.owner_id
WHERE u.created_at >= now() - make_interval(days => %(days)s)
GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT 20
"""

SELECT_PRICES = (
    "SELECT model, prompt, cached, completion FROM model_prices ORDER BY model LIMIT 500"
)

UPSERT_PRICE = """
INSERT INTO model_prices (model, prompt, cached, completion)
VALUES (%(model)s, %(prompt)s, %(cached)s, %(completion)s)
ON CONFLICT (model) DO UPDATE
SET prompt = EXCLUDED.prompt, cached = EXCLUDED.cached, completion = EXCLUDED.completion
"""

DELETE_PRICE = "DELETE FROM model_prices WHERE model = %(model)s"

# What waits, by queue and state.
SELECT_QUEUE = """
SELECT queue_name, status::text, count(*), min(scheduled_at)
FROM procrastinate_jobs WHERE status <> 'succeeded' GROUP BY 1, 2 ORDER BY 1, 2
"""

# Jobs that failed for good, the newest first.
SELECT_FAILED = """
SELECT id, queue_name, task_name, attempts FROM procrastinate_jobs
WHERE status = 'failed' ORDER BY id DESC LIMIT %(limit)s
"""

RETRY_FAILED = """
SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL) FROM procrastinate_jobs
WHERE id = %(id)s AND status = 'failed'
"""

# Batches, the newest first.
SELECT_BATCHES = """
SELECT created_at, provider, model, status, requests, succeeded, failed, dropped,
       coalesce(error_message, ''), completed_at
FROM batch_jobs ORDER BY created_at DESC, id LIMIT %(limit)s
"""

INSERT_ACTION = """
INSERT INTO admin_actions (address, action, target)
VALUES (%(address)s, %(action)s, %(target)s)
"""

SELECT_ACTIONS = """
SELECT done_at, address, action, target FROM admin_actions ORDER BY id DESC LIMIT %(limit)s
"""

FIRST = -(2**62)
TABLES = ("conversations", "messages", "memories", "document_embeddings", "model_usage")


class AdminRepository(Repository):
    """Reads for the admin page, and does what it is told; every method blocks."""

    def list_owners(self, *, after: Owner | None = None, limit: int = 50) -> list[OwnerLine]:
        """Owners by id, those after ``after``."""
        user, thread = after or Owner(FIRST, 0)
        rows = self._client.fetch_all(SELECT_OWNERS, user=user, thread=thread, limit=limit)
        return [OwnerLine(*row) for row in rows]

    def list_bubbles(
        self, owner: Owner, *, before: int | None = None, limit: int = 50
    ) -> list[Bubble]:
        """The messages before a position, the oldest of them first."""
        position = 2**31 - 1 if before is None else before
        rows = self._client.fetch_all(SELECT_BUBBLES, owner, before=position, limit=limit)
        return [Bubble(*row) for row in reversed(rows)]

    def list_rejected(self, owner: Owner, *, limit: int = 100) -> list[tuple[Any, ...]]:
        """``(id, created_at, reason, text, message_id, origin)`` of what was refused."""
        return self._client.fetch_all(SELECT_REJECTED, {**owner.columns(), "limit": limit})

    def weigh(self, owner: Owner, *, bound: int = 10_000) -> dict[str, int]:
        """How much of what an owner has, each up to ``bound`` rows."""
        [row] = self._client.fetch_all(WEIGH, {**owner.columns(), "bound": bound})
        names = ("messages", "bytes of messages", "facts", "vectors")
        return {name: int(value) for name, value in zip(names, row, strict=True)}

    def estimate(self) -> list[tuple[str, int, int]]:
        """``(table, rows, bytes)`` of the large tables, about."""
        rows = self._client.fetch_all(ESTIMATE, tables=list(TABLES))
        return [(str(name), int(count), int(size)) for name, count, size in rows]

    def list_usage(self, *, days: int, zone: str) -> list[UsageLine]:
        """What models cost by day and model, the newest day first."""
        rows = self._client.fetch_all(SELECT_USAGE, days=days, zone=zone, discount=BATCH_DISCOUNT)
        return [UsageLine(*row) for row in rows]

    def list_spenders(self, *, days: int) -> list[tuple[Any, ...]]:
        """``(owner, calls, prompt tokens, completion tokens)`` of those with most."""
        return self._client.fetch_all(SELECT_SPENDERS, days=days)

    def list_prices(self) -> list[Price]:
        """The price table."""
        return [Price(*row) for row in self._client.fetch_all(SELECT_PRICES)]

    def set_price(self, price: Price) -> None:
        """What a model costs."""
        self._client.execute(UPSERT_PRICE, vars(price))

    def delete_price(self, model: str) -> None:
        """A model has no price any more."""
        self._client.execute(DELETE_PRICE, model=model)

    def list_queue(self) -> list[tuple[Any, ...]]:
        """``(queue, status, jobs, since)``."""
        return self._client.fetch_all(SELECT_QUEUE)

    def list_failed(self, *, limit: int = 50) -> list[tuple[Any, ...]]:
        """``(id, queue, task, attempts)`` of jobs that failed for good."""
        return self._client.fetch_all(SELECT_FAILED, limit=limit)

    def retry_failed(self, job_id: int) -> bool:
        """Give a failed job back to the queue; False when it is none."""
        return bool(self._client.fetch_all(RETRY_FAILED, id=job_id))

    def list_batches(self, *, limit: int = 50) -> list[tuple[Any, ...]]:
        """Batches as the page shows them, the newest first."""
        return self._client.fetch_all(SELECT_BATCHES, limit=limit)

    def add_action(self, address: str, action: str, target: str = "") -> None:
        """An operator did something."""
        self._client.execute(
            INSERT_ACTION, address=address[:100], action=action, target=target[:200]
        )

    def list_actions(self, *, limit: int = 200) -> list[tuple[Any, ...]]:
        """``(when, from where, what, to what)``, the newest first."""
        return self._client.fetch_all(SELECT_ACTIONS, limit=limit)
