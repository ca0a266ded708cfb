"""The admin pages about how it goes: the overview, what it costs, what waits and what failed."""

from collections import Counter
from decimal import Decimal, InvalidOperation

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from src.pg.records_repo import usage_query
from src.web.admin_access import Role
from src.web.admin_site import PAGE, AdminSite, Fields, number_of

DAYS = (1, 7, 14, 30, 90)  # that usage is shown of

# How much there is, as the planner knows it: counting would read everything.
ESTIMATE = """
SELECT relname AS name, greatest(reltuples, 0)::bigint AS rows,
       pg_total_relation_size(oid) AS bytes
FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
  AND relname IN ('conversations', 'messages', 'memories', 'document_embeddings', 'model_usage')
ORDER BY relname
"""

# Tokens, money and time by day and model, the newest first; days that are over were summed up.
# Batches cost half. The percentiles are of classes of times, each two hundredths wide.
SELECT_USAGE = usage_query("""
, classes AS (
    SELECT day, model, purpose, class, calls, failed, prompt, cached, completion, uncached
    FROM model_usage_days
    WHERE day > (now() AT TIME ZONE %(zone)s)::date - %(days)s AND day <= (SELECT day FROM rolled)
    UNION ALL SELECT * FROM fresh
), ranked AS (
    SELECT *, sum(calls) OVER (PARTITION BY day, model ORDER BY class) AS so_far,
           sum(calls) OVER (PARTITION BY day, model) AS in_all
    FROM classes
)
SELECT u.day, u.model, sum(u.calls)::bigint AS calls, sum(u.prompt)::bigint AS prompt,
       sum(u.cached)::bigint AS cached, sum(u.completion)::bigint AS completion,
       sum((u.uncached * p.prompt + u.cached * p.cached + u.completion * p.completion) / 1000000
           * CASE WHEN u.purpose = 'extract_batch' THEN 0.5 ELSE 1 END) AS cost,
       round(exp(min(u.class) FILTER (WHERE u.calls > 0 AND u.so_far >= 0.5 * u.in_all) / 50.0))
           AS median_ms,
       round(exp(min(u.class) FILTER (WHERE u.calls > 0 AND u.so_far >= 0.95 * u.in_all) / 50.0))
           AS high_ms
FROM ranked u LEFT JOIN model_prices p ON p.model = u.model
GROUP BY 1, 2 ORDER BY 1 DESC, 4 DESC, 2 LIMIT 1000
""")

# Those who cost most.
SELECT_SPENDERS = """
SELECT o.telegram_user_id AS "user", count(*) AS calls,
       coalesce(sum(prompt_tokens), 0)::bigint AS prompt,
       coalesce(sum(completion_tokens), 0)::bigint AS completion
FROM model_usage u JOIN owners o ON o.id = u.owner_id
WHERE u.created_at >= now() - make_interval(days => %(days)s)
GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT 20
"""

# What a million tokens of a model cost.
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
SELECT queue_name, status::text, count(*) AS jobs, min(scheduled_at) AS since
FROM procrastinate_jobs WHERE status <> 'succeeded' GROUP BY 1, 2 ORDER BY 1, 2
"""

# Jobs that failed for good, the newest first.
SELECT_FAILED = """
SELECT id, queue_name, task_name, attempts FROM procrastinate_jobs
WHERE status = 'failed' ORDER BY id DESC LIMIT 50
"""
RETRY_FAILED = """
SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL) FROM procrastinate_jobs
WHERE id = %(id)s AND status = 'failed'
"""

# Batches, the newest first.
SELECT_BATCHES = """
SELECT created_at, provider, model, status, requests, succeeded, failed, dropped,
       coalesce(error_message, '') AS error
FROM batch_jobs ORDER BY created_at DESC, id LIMIT %(limit)s
"""


class OperationPages:
    """How the bot is, and what an operator may do about it."""

    def __init__(self, site: AdminSite) -> None:
        """Draw on ``site``."""
        self._site = site
        self._client = site.core.client

    def routes(self) -> list[Route]:
        """Their addresses."""
        shown, done = self._site.shown, self._site.done
        return [
            shown("/", self.overview, role=Role.READER),
            shown("/usage", self.usage, role=Role.READER),
            shown("/queue", self.queue, role=Role.READER),
            shown(
                "/batches",
                self._site.listing("batches.html", SELECT_BATCHES, limit=PAGE),
                role=Role.READER,
            ),
            done("/prices", self.change_price),
            done("/queue/{job:int}/retry", self.retry_job),
            done("/queue/put-aside/{number:int}/retry", self.retry_put_aside),
        ]

    async def overview(self, request: Request) -> Response:
        """How it goes, on one page."""
        run = self._client.run
        waiting, oldest = await run(self._site.core.updates.count_waiting)
        return self._site.render(
            request, "overview.html", waiting=waiting, oldest=oldest,
            usage=await self._site.rows(SELECT_USAGE, days=1, zone=self._site.zone),
            put_aside=await run(self._site.core.put_aside.count),
            by_words=self._site.core.metrics.registry.get_sample_value("pomni_searches_by_words_total"),
            tables=await self._site.rows(ESTIMATE),
            batches=await self._site.rows(SELECT_BATCHES, limit=3),
            settings=await self._site.core.live_settings.get(),
        )  # fmt: skip

    async def usage(self, request: Request) -> Response:
        """Tokens, money and time by day, model and user."""
        days = number_of(request, "days") or 7
        days = days if days in DAYS else 7
        lines = await self._site.rows(SELECT_USAGE, days=days, zone=self._site.zone)
        by_day: dict[str, Counter[str]] = {}
        for line in reversed(lines):
            sums = by_day.setdefault(f"{line['day']:%d.%m.}", Counter())
            sums.update({part: line[part] for part in ("cached", "prompt", "completion")})
        return self._site.render(
            request, "usage.html", lines=lines, days=days, choices=DAYS,
            by_day=by_day,
            most=max((one["prompt"] + one["completion"] for one in by_day.values()), default=0),
            prices=await self._site.rows(SELECT_PRICES),
            spenders=await self._site.rows(SELECT_SPENDERS, days=days),
            problem=request.query_params.get("problem") == "price",
        )  # fmt: skip

    async def change_price(self, request: Request, form: Fields) -> str:
        """What a million tokens of a model cost."""
        model = form.get("model", "").strip()
        if not model.isprintable() or len(model) > 200 or model.split() != [model]:
            return "/usage?problem=price"
        if form.get("delete"):
            await self._site.rows(DELETE_PRICE, model=model)
        else:
            try:
                price = {
                    one: _money(form.get(one, "")) for one in ("prompt", "cached", "completion")
                }
            except (InvalidOperation, ValueError):
                return "/usage?problem=price"
            await self._site.rows(UPSERT_PRICE, price, model=model)
        await self._site.note(request, "change price", model)
        return "/usage"

    async def queue(self, request: Request) -> Response:
        """What waits, what failed, what is put aside."""
        return self._site.render(
            request, "queue.html", queue=await self._site.rows(SELECT_QUEUE),
            failed=await self._site.rows(SELECT_FAILED),
            put_aside=await self._client.run(self._site.core.put_aside.list_all),
        )  # fmt: skip

    async def retry_job(self, request: Request, _form: Fields) -> str:
        """Give a failed job back."""
        await self._site.rows(RETRY_FAILED, id=request.path_params["job"])
        await self._site.note(request, "retry job", str(request.path_params["job"]))
        return "/queue"

    async def retry_put_aside(self, request: Request, _form: Fields) -> str:
        """Give back what kills its process."""
        await self._client.run(self._site.core.put_aside.retry, int(request.path_params["number"]))
        await self._site.note(request, "retry put aside", str(request.path_params["number"]))
        return "/queue"


def _money(text: str) -> Decimal:
    value = Decimal(text.strip().replace(",", ".") or "0")
    if not 0 <= value < 10**8:
        raise ValueError("no price")
    return value
