"""Admin pages that are lists, a table of them: failures, queue, batches, the audit.

A new one is an entry of ``LIST_PAGES``: its queries with their columns, and its filters. Its path,
its place in the menu and its template follow from that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from src.pg.client import Record
from src.pg.records import FAILURE_DAYS
from src.web.admin_access import Role
from src.web.admin_site import LAST, PAGE, AdminSite, Fields, Values, choice_of, int_of, next_page
from src.web.admin_words import labels

# Messages that got an apology or killed their process, newest first, with the last reason.
SELECT_MESSAGES = """
SELECT u.handled_at, u.kind, u.outcome, u.chat_id AS telegram_user_id, u.thread_id,
       coalesce(f.reason, 'not on record') AS reason, coalesce(f.tries::text, '–') AS tries
FROM telegram_updates u CROSS JOIN LATERAL (
    SELECT (array_agg(reason ORDER BY failed_at DESC))[1] AS reason, sum(times)::int AS tries
    FROM failures WHERE update_id = u.id) AS f
WHERE u.outcome IN ('failed', 'put aside')
  AND u.handled_at > now() - make_interval(days => %(days)s)
ORDER BY u.handled_at DESC, u.id DESC LIMIT %(limit)s
"""

# Failed model calls, by model, purpose and reason.
SELECT_CALLS = """
SELECT model, purpose, error AS reason, count(*) AS times, count(DISTINCT owner_id) AS people,
       max(created_at) AS last
FROM model_usage WHERE error IS NOT NULL AND created_at > now() - make_interval(days => %(days)s)
GROUP BY 1, 2, 3 ORDER BY times DESC, last DESC, 1, 2, 3 LIMIT %(limit)s
"""

# Logged warnings by reason; their owners are counted without sorting.
SELECT_REASONS = """
WITH each AS (
    SELECT part, event, reason, owner_id, sum(times) AS times, min(failed_at) AS first,
           max(failed_at) AS last
    FROM failures WHERE failed_at > now() - make_interval(days => %(days)s)
      AND (part = %(part)s OR %(part)s = '')
    GROUP BY 1, 2, 3, 4
)
SELECT part, event, reason, sum(times)::bigint AS times, count(owner_id) AS people,
       min(first) AS first, max(last) AS last
FROM each GROUP BY 1, 2, 3 ORDER BY times DESC, last DESC, 2, 3 LIMIT %(limit)s
"""

# Single failures, newest first.
SELECT_FAILURES = """
SELECT f.id, f.failed_at, f.part, f.event, f.reason, f.times, f.job_id, o.telegram_user_id,
       o.thread_id
FROM failures f LEFT JOIN owners o ON o.id = f.owner_id
WHERE f.failed_at > now() - make_interval(days => %(days)s)
  AND (f.part = %(part)s OR %(part)s = '') AND f.id < %(before)s
ORDER BY f.failed_at DESC, f.id DESC LIMIT %(limit)s
"""

# Waiting and running jobs, by queue and state.
SELECT_QUEUE = """
SELECT queue_name, CASE status WHEN 'todo' THEN 'waiting' ELSE 'running' END AS state,
       count(*) AS jobs, min(scheduled_at) AS due
FROM procrastinate_jobs WHERE status IN ('todo', 'doing') GROUP BY 1, 2 ORDER BY 1, 2 DESC
"""

# Jobs that failed for good, are put aside, or wait for their next attempt, with their chat and
# their last error.
SELECT_JOBS = """
SELECT j.id, j.queue_name, j.task_name, j.attempts, j.args, j.scheduled_at, d.deaths,
       CASE WHEN d.put_aside_at IS NOT NULL THEN 'put aside'
            WHEN j.status = 'failed' THEN 'failed' ELSE 'retrying' END AS state,
       coalesce(d.put_aside_at, f.failed_at, e.at) AS since, f.reason,
       coalesce(u.chat_id, c.telegram_user_id) AS telegram_user_id,
       coalesce(u.thread_id, c.thread_id) AS thread_id
FROM procrastinate_jobs j
LEFT JOIN job_deaths d ON d.job_id = j.id AND d.put_aside_at IS NOT NULL
LEFT JOIN telegram_updates u ON u.id = (j.args ->> 'update')::bigint
LEFT JOIN conversations c ON c.id = (j.args ->> 'conversation_id')::uuid
LEFT JOIN LATERAL (SELECT reason, failed_at FROM failures
                   WHERE job_id = j.id OR update_id = u.id
                   ORDER BY failed_at DESC, id DESC LIMIT 1) AS f ON true
LEFT JOIN LATERAL (SELECT max(at) AS at FROM procrastinate_events WHERE job_id = j.id) AS e ON true
WHERE j.status = 'failed' OR d.job_id IS NOT NULL OR (j.status = 'todo' AND j.attempts > 0)
ORDER BY d.job_id IS NULL, j.status = 'todo', j.id DESC LIMIT 100
"""

# Retry a failed job.
RETRY_FAILED = """
SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL) FROM procrastinate_jobs
WHERE id = %(id)s AND status = 'failed'
"""

# Delete a job that failed or was put aside, and the payload of its update.
DROP_JOB = """
WITH dropped AS (
    DELETE FROM procrastinate_jobs j
    WHERE j.id = %(id)s AND (j.status = 'failed' OR j.status = 'todo' AND EXISTS (
        SELECT 1 FROM job_deaths WHERE job_id = j.id AND put_aside_at IS NOT NULL))
    RETURNING (j.args ->> 'update')::bigint AS update
)
UPDATE telegram_updates u
SET payload = '{}', handled_at = coalesce(u.handled_at, now()), outcome = 'failed'
FROM dropped d WHERE u.id = d.update
"""

# Batches, newest first.
SELECT_BATCHES = """
SELECT id::text, created_at, provider, model, status, requests, succeeded, failed, dropped,
       coalesce(error_message, '') AS error
FROM batch_jobs ORDER BY created_at DESC, id LIMIT %(limit)s
"""

# One batch.
SELECT_BATCH = """
SELECT created_at, submitted_at, completed_at, provider, model, status, requests, succeeded,
       failed, dropped, coalesce(error_message, '') AS error
FROM batch_jobs WHERE id = %(id)s
"""

# Windows of a batch, the failed ones first.
SELECT_WINDOWS = """
SELECT c.telegram_user_id, c.thread_id, r.first_position, r.last_position, r.error,
       CASE r.status WHEN 'applied' THEN 'read' ELSE r.status END AS status,
       coalesce(r.finished_at, r.created_at) AS at,
       (SELECT count(*) FROM batch_requests t WHERE t.conversation_id = r.conversation_id
        AND t.first_position = r.first_position) AS tries
FROM batch_requests r JOIN conversations c ON c.id = r.conversation_id
WHERE r.job_id = %(id)s
ORDER BY r.status <> 'failed', r.created_at, r.id LIMIT %(limit)s
"""

# Actions of sessions, or wrong passwords, newest first.
SELECT_ACTIONS = """
SELECT id, done_at, who, address, action, target FROM admin_actions
WHERE (action = 'wrong password') = (%(of)s = 'guesses') AND id < %(before)s
ORDER BY id DESC LIMIT %(limit)s
"""


@dataclass(frozen=True)
class Listing:
    """List of a page.

    Attributes:
        query: Takes ``limit``, ``before`` and the filters of the page.
        columns: Title, name of the value in a row, and a format of ``table.html``.
        empty: Sentence instead of rows.
    """

    query: str
    columns: Sequence[tuple[str, str, str]] = ()
    empty: str = "Nothing."


@dataclass(frozen=True)
class ListPage:
    """Page of lists.

    Attributes:
        path: Its path.
        title: Its title, and its name in the menu.
        lists: Its lists by heading. The last one is paginated by its ids.
        filters: Labels of the choices by name of the query parameter; the first is the default.
        note: Sentence below the lists.
        role: Who may open it.
        template: A template of its own, which lays out the columns itself.
    """

    path: str
    title: str
    lists: Mapping[str, Listing]
    filters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    note: str = ""
    role: Role = Role.READER
    template: str = "list.html"

    async def __call__(self, site: AdminSite, request: Request) -> Response:
        """Show the page as filtered by the address."""
        asked: Values = {
            name: choice_of(request, name, choices, next(iter(choices)))
            for name, choices in self.filters.items()
        }
        before, rows = int_of(request, "before") or LAST, dict[str, list[Record]]()
        for name, one in self.lists.items():
            rows[name] = await site.rows(one.query, before=before, limit=PAGE, **asked)
        older = next_page([row["id"] for row in rows[name] if "id" in row])
        values: Values = {"asked": asked, "older": older, "is_first": before == LAST}
        return site.render(request, self.template, page=self, rows=rows, **values)


LIST_PAGES = (
    ListPage(
        "/failures",
        "Failures",
        {
            "messages": Listing(SELECT_MESSAGES),
            "calls": Listing(SELECT_CALLS),
            "reasons": Listing(SELECT_REASONS),
            "failures": Listing(SELECT_FAILURES),
        },
        {
            "days": {"1": "24 hours", "7": "7 days", str(FAILURE_DAYS): f"{FAILURE_DAYS} days"},
            "part": {"": "Everything", **labels()["parts"]},
        },
        template="failures.html",
    ),
    ListPage(
        "/queue",
        "Queue",
        {"queue": Listing(SELECT_QUEUE), "jobs": Listing(SELECT_JOBS)},
        template="queue.html",
    ),
    ListPage(
        "/batches",
        "Batches",
        {
            "Batches": Listing(
                SELECT_BATCHES,
                (
                    ("Begun", "created_at", "batch"),
                    ("Provider", "provider", ""),
                    ("Model", "model", ""),
                    ("State", "status", ""),
                    ("Windows", "requests", "number"),
                    ("Read", "succeeded", "number"),
                    ("Failed", "failed", "number"),
                    ("For nobody", "dropped", "number"),
                    ("Problem", "error", ""),
                ),
                "None yet: they begin once “Read by” in the settings names a provider, which "
                "reads messages for facts at half the price and within a day.",
            )
        },
        note="A window is some messages of one conversation, read for facts. What failed is asked "
        "again in the next batches by itself.",
    ),
    ListPage(
        "/audit",
        "Audit",
        {
            "Audit": Listing(
                SELECT_ACTIONS,
                (
                    ("When", "done_at", "moment"),
                    ("Who", "who", ""),
                    ("Address", "address", ""),
                    ("What", "action", ""),
                    ("To what", "target", "target"),
                ),
                "Nothing yet: logins, wrong passwords, what was read of people and what was "
                "changed will stand here, for 400 days.",
            )
        },
        {"of": {"": "Done inside", "guesses": "Wrong passwords"}},
        role=Role.OPERATOR,
    ),
)


async def show_batch(site: AdminSite, request: Request) -> Response:
    """Show a batch and its windows."""
    id_, rows = str(request.path_params["batch"]), site.rows
    batch = await rows(SELECT_BATCH, id=id_)
    if not batch:
        raise HTTPException(404)
    windows = await rows(SELECT_WINDOWS, id=id_, limit=200)
    return site.render(request, "batch.html", batch=batch[0], windows=windows)


async def retry_job(site: AdminSite, request: Request, _form: Fields) -> str:
    """Give a job back to its queue."""
    job = request.path_params["job"]
    if not await site.run(site.core.dead_jobs.retry, job):
        await site.rows(RETRY_FAILED, id=job)
    await site.note(request, "retry job", str(job))
    return "/queue"


async def retry_put_aside(site: AdminSite, request: Request, _form: Fields) -> str:
    """Give all jobs that were put aside back to their queues."""
    await site.run(site.core.dead_jobs.retry)
    await site.note(request, "retry all put aside")
    return "/queue"


async def drop_job(site: AdminSite, request: Request, _form: Fields) -> str:
    """Delete a job for good."""
    await site.rows(DROP_JOB, id=request.path_params["job"])
    await site.note(request, "drop job", str(request.path_params["job"]))
    return "/queue"
