"""Operator's records: logged failures, model usage, growth, and their retention."""

import asyncio
import json
import logging
from collections import deque
from contextlib import suppress
from typing import Any, Literal

from psycopg2.sql import SQL, Identifier

from src.base import errors
from src.base.logs import TOKEN
from src.pg.client import PATIENT, PgClient, Repository

Part = Literal["telegram", "queue", "database", "model", "embeddings", "tools", "other"]
# Parts by type of error; the first match wins.
ERRORS: dict[Part, tuple[type[errors.AppError], ...]] = {
    "database": (errors.StorageError,),
    "model": (errors.ModelError, errors.ModelUnavailableError),
    "tools": (errors.ToolServerError,),
    "telegram": (errors.DeliveryError, errors.DeliveryRefusedError),
}
# Parts by prefix of the logger's name, where the error decides nothing.
LOGGERS: dict[str, Part] = {
    "src.llm.embeddings": "embeddings",
    "src.memory.embedding_space": "embeddings",
    "src.memory.indexer": "embeddings",
    "src.memory.retriever": "embeddings",
    "src.telegram": "telegram",
    "src.app": "telegram",
    "src.outside": "tools",
    "src.pg": "database",
    "src.queue": "queue",
    "procrastinate": "queue",
}
EMBEDDING_TASKS = ("embed_documents", "reembed")
IGNORED = ("src.web",)  # the viewer of a page sees its failure
FLUSH_SECONDS = 5.0  # between two flushes
MAX_WAITING = 1000  # failures kept while the database is away

# Insert failures, equal ones of a flush as one row; the owner is found by conversation or chat.
INSERT_FAILURES = """
INSERT INTO failures (failed_at, part, event, reason, times, owner_id, update_id, job_id)
SELECT to_timestamp(max(f.at)), f.part, f.event, f.reason, count(*),
       coalesce((SELECT c.owner_id FROM conversations c WHERE c.id = f.conversation::uuid),
                (SELECT o.id FROM owners o WHERE o.telegram_user_id = f.chat
                 ORDER BY o.thread_id LIMIT 1)),
       f.update, f.job
FROM jsonb_to_recordset(%(failures)s::jsonb) AS f (
    at float8, part text, event text, reason text, chat bigint, conversation text,
    update bigint, job bigint)
GROUP BY f.part, f.event, f.reason, f.chat, f.conversation, f.update, f.job
ORDER BY max(f.at)
"""


class FailureLog(logging.Handler):
    """Log handler that stores failures in batches, some seconds later."""

    def __init__(self, client: PgClient) -> None:
        """Store through ``client``; ``run`` attaches the handler."""
        super().__init__(logging.WARNING)
        self._client = client
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MAX_WAITING)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the failure in a log record; called from any thread."""
        failure = describe_failure(record)
        if failure is not None:
            self._waiting.append(failure)

    async def run(self) -> None:
        """Collect and store failures until cancelled."""
        logging.getLogger().addHandler(self)
        try:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                await self.flush_waiting()
        finally:
            logging.getLogger().removeHandler(self)
            await self.flush_waiting()

    async def flush_waiting(self) -> None:
        """Store the queued failures; they stay queued while the database is away."""
        failures = list(self._waiting)
        if not failures:
            return
        with suppress(errors.StorageError):
            rows = json.dumps(failures)
            await self._client.run(self._client.execute, INSERT_FAILURES, failures=rows)
            for _ in failures:
                self._waiting.popleft()


def describe_failure(record: logging.LogRecord) -> dict[str, Any] | None:
    """Return a log record as a row of ``failures``, or None if its logger is not recorded.

    All texts are ours: of an error of another library only the name of its type is taken.
    """
    if not record.name.startswith(("src.", "procrastinate")) or record.name.startswith(IGNORED):
        return None
    fields, error, event = vars(record), None, record.getMessage()
    job = fields.get("job")
    if isinstance(job, dict):
        job = job.get("id")
    if record.name.startswith("procrastinate"):
        event = "job failed"
    reason = str(fields.get("cause") or event)
    if record.exc_info and record.exc_info[1]:
        error = record.exc_info[1]
        reason = f"defect ({type(error).__name__})"
        if isinstance(error, errors.AppError) and str(error):
            reason = str(error).splitlines()[0]
    return {
        "at": record.created,
        "part": part_of(record, error),
        "event": TOKEN.sub("***", event)[:200],
        "reason": TOKEN.sub("***", reason)[:200],
        "chat": _as_bigint(fields.get("chat", fields.get("chat_id"))),
        "conversation": fields.get("conversation_id"),
        "update": _as_bigint(fields.get("update")),
        "job": _as_bigint(job),
    }


def part_of(record: logging.LogRecord, error: BaseException | None) -> Part:
    """Return the part of the bot that a log record is about."""
    chain = list(errors.causes(error)) if error is not None else []
    guess = next((part for start, part in LOGGERS.items() if record.name.startswith(start)), None)
    found = (part for part, kinds in ERRORS.items() if any(isinstance(e, kinds) for e in chain))
    part = next(found, None)
    is_embedding = guess == "embeddings" or vars(record).get("task") in EMBEDDING_TASKS
    if part == "model" and is_embedding:
        return "embeddings"
    if part is None and guess == "telegram" and not isinstance(error, errors.AppError | None):
        return "other"  # a defect of ours while an update was handled
    return part or guess or "other"


def _as_bigint(value: Any) -> int | None:
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    return None


# Usage and growth.

# Columns that sum up model calls, for other statements; failed calls are counted separately.
SUMS = """
           count(*) FILTER (WHERE error IS NULL) AS calls, count(error) AS failed,
           coalesce(sum(prompt_tokens), 0) AS prompt, coalesce(sum(cached_tokens), 0) AS cached,
           coalesce(sum(completion_tokens), 0) AS completion,
           coalesce(sum(prompt_tokens - cached_tokens), 0) AS uncached"""

# The last summed-up day (``rolled``), and later calls by day, model, purpose and class of duration
# (``fresh``).
USAGE_CLASSES = f"""
WITH rolled AS (
    SELECT coalesce(max(day), (now() AT TIME ZONE %(zone)s)::date - %(days)s) AS day
    FROM model_usage_days
), fresh AS (
    SELECT (created_at AT TIME ZONE %(zone)s)::date AS day, model, purpose,
           CASE WHEN error IS NULL
                THEN round(50 * ln(greatest(duration_ms, 1)::float8))::int ELSE 0 END AS class,
           {SUMS}
    FROM model_usage, rolled
    WHERE created_at >= (rolled.day + 1)::timestamp AT TIME ZONE %(zone)s
    GROUP BY 1, 2, 3, 4
)"""  # noqa: S608  (it holds a constant of ours)


# Cost of the calls ``u`` of a model with the prices ``p``; batches cost half.
COST = (
    "(u.uncached * p.prompt + u.cached * p.cached + u.completion * p.completion) / 1000000"
    " * CASE WHEN u.purpose = 'extract_batch' THEN 0.5 ELSE 1 END"
)


def usage_query(*parts: str) -> str:
    """Return a statement that can read ``rolled`` and ``fresh``."""
    return "\n".join((USAGE_CLASSES, *parts))


ROLL_UP = usage_query("""
INSERT INTO model_usage_days (day, model, purpose, class, calls, failed, prompt, cached,
                              completion, uncached)
SELECT * FROM fresh WHERE day < (now() AT TIME ZONE %(zone)s)::date
ON CONFLICT DO NOTHING
""")

# Upsert the day's counts; the last count of a day stays.
COUNT_GROWTH = """
INSERT INTO growth_days (day, people, messages, facts, bytes)
SELECT (now() AT TIME ZONE %(zone)s)::date, (SELECT count(*) FROM owners),
       (SELECT count(*) FROM messages), %(facts)s, pg_database_size(current_database())
ON CONFLICT (day) DO UPDATE
SET counted_at = now(), people = EXCLUDED.people, messages = EXCLUDED.messages,
    facts = EXCLUDED.facts, bytes = EXCLUDED.bytes
"""

# Tables to prune: name, time column, and days of retention. Updates, reminders and messages are
# pruned by their own modules.
RECORD_DAYS, FAILURE_DAYS = 400, 14
RETENTION = (
    ("admin_actions", "done_at", RECORD_DAYS),
    ("admin_logouts", "ended_at", 1),
    ("batch_jobs", "completed_at", 90),  # and their requests, by cascade
    ("daily_messages", "day", 60),
    ("failures", "failed_at", FAILURE_DAYS),
    ("growth_days", "day", RECORD_DAYS),
    ("model_usage", "created_at", RECORD_DAYS),
    ("model_usage_days", "day", RECORD_DAYS),
    ("page_sessions", "ends_at", 1),
)
# Delete the rows of a table that are past its retention.
PRUNE = SQL("DELETE FROM {table} WHERE {moment} < now() - make_interval(days => %(days)s)")


class RecordsRepository(Repository):
    """Repository that aggregates and prunes the records; its methods block."""

    def roll_up(self, *, zone: str) -> None:
        """Aggregate the usage of finished days (of ``zone``)."""
        self._client.execute(ROLL_UP, zone=zone, days=RECORD_DAYS, limits=PATIENT)

    def count_growth(self, *, zone: str, facts: int) -> None:
        """Store the counts of this day (of ``zone``), with the given number of facts."""
        self._client.execute(COUNT_GROWTH, zone=zone, facts=facts, limits=PATIENT)

    def prune(self) -> int:
        """Delete the records past their retention and return their number."""
        deleted = 0
        for table, moment, days in RETENTION:
            statement = PRUNE.format(table=Identifier(table), moment=SQL(moment))
            deleted += self._client.execute(statement, days=days, limits=PATIENT)
        return deleted
