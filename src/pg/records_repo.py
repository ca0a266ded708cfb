"""Operator's records: model usage, growth, and their retention."""

from psycopg2.sql import SQL, Identifier

from src.pg.client import Repository
from src.pg.connection import PATIENT

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
