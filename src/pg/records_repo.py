"""Records for the operator: usage, growth, and what was done on the admin page."""

from src.pg.client import Repository
from src.pg.connection import PATIENT

# Calls of models summed up, within another statement; those that failed count apart.
SUMS = """
           count(*) FILTER (WHERE error IS NULL) AS calls, count(error) AS failed,
           coalesce(sum(prompt_tokens), 0) AS prompt, coalesce(sum(cached_tokens), 0) AS cached,
           coalesce(sum(completion_tokens), 0) AS completion,
           coalesce(sum(prompt_tokens - cached_tokens), 0) AS uncached"""

# The last day that was summed up, and the calls since then by day, model, purpose and time they
# took.
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


# What calls ``u`` of a model with the prices ``p`` cost; batches cost half.
COST = (
    "(u.uncached * p.prompt + u.cached * p.cached + u.completion * p.completion) / 1000000"
    " * CASE WHEN u.purpose = 'extract_batch' THEN 0.5 ELSE 1 END"
)


def usage_query(*parts: str) -> str:
    """A statement that reads ``rolled`` and ``fresh``."""
    return "\n".join((USAGE_CLASSES, *parts))


ROLL_UP = usage_query("""
INSERT INTO model_usage_days (day, model, purpose, class, calls, failed, prompt, cached,
                              completion, uncached)
SELECT * FROM fresh WHERE day < (now() AT TIME ZONE %(zone)s)::date
ON CONFLICT DO NOTHING
""")

# How much there is now; the last count of a day is its own.
COUNT_GROWTH = """
INSERT INTO growth_days (day, people, messages, facts, bytes)
SELECT (now() AT TIME ZONE %(zone)s)::date, (SELECT count(*) FROM owners),
       (SELECT count(*) FROM messages),
       %(facts)s,
       pg_database_size(current_database())
ON CONFLICT (day) DO UPDATE
SET counted_at = now(), people = EXCLUDED.people, messages = EXCLUDED.messages,
    facts = EXCLUDED.facts, bytes = EXCLUDED.bytes
"""

# What is deleted, and how many days after which moment. Updates, reminders and what was said are
# deleted by their own rooms.
RECORD_DAYS, FAILURE_DAYS = 400, 14
KEPT = (
    ("admin_actions", "done_at", RECORD_DAYS),
    ("admin_logouts", "ended_at", 1),
    ("batch_jobs", "completed_at", 90),  # with their requests
    ("cached_contents", "coalesce(expires_at, claimed_at)", 1),
    ("daily_messages", "day", 60),
    ("failures", "failed_at", FAILURE_DAYS),
    ("growth_days", "day", RECORD_DAYS),
    ("model_usage", "created_at", RECORD_DAYS),
    ("model_usage_days", "day", RECORD_DAYS),
)
PRUNE = "DELETE FROM {table} WHERE {moment} < now() - make_interval(days => %(days)s)"


class RecordsRepository(Repository):
    """Sums the usage up and prunes; every method blocks."""

    def sum_up(self, *, zone: str) -> None:
        """Sum up the usage of the days (of ``zone``) that are over."""
        self._client.execute(ROLL_UP, zone=zone, days=RECORD_DAYS, limits=PATIENT)

    def count_growth(self, *, zone: str, facts: int) -> None:
        """Note what there is on this day of ``zone`` until now, ``facts`` among it."""
        self._client.execute(COUNT_GROWTH, zone=zone, facts=facts, limits=PATIENT)

    def prune(self) -> int:
        """Delete what has been kept for long enough; returns how much."""
        gone = 0
        for table, moment, days in KEPT:
            statement = PRUNE.replace("{table}", table).replace("{moment}", moment)
            gone += self._client.execute(statement, days=days, limits=PATIENT)
        return gone
