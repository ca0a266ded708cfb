"""Admin pages of usage: tokens, cost and time by day, model, purpose and person; CSV."""

import csv
import io
from collections.abc import Sequence
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from src.pg.client import Record
from src.pg.records_repo import COST, SUMS, usage_query
from src.web.admin_site import AdminSite, Values, choice_of, int_of
from src.web.admin_words import plain_cell

DAYS = (1, 7, 14, 30, 90)  # choices of the period
# Dimensions with their periods; by person every call is read, since daily sums have no owners.
BY = {"day": DAYS, "model": DAYS, "purpose": DAYS, "person": DAYS[:-1]}

# Calls of the last days with their cost; past days are stored as sums. ``key`` is the dimension
# that they are grouped by. Batches cost half.
PRICED = f"""
, classes AS (
    SELECT day, model, purpose, class, calls, failed, prompt, cached, completion, uncached
    FROM model_usage_days
    WHERE day > (now() AT TIME ZONE %(zone)s)::date - %(days)s AND day <= (SELECT day FROM rolled)
    UNION ALL SELECT * FROM fresh WHERE day > (now() AT TIME ZONE %(zone)s)::date - %(days)s
), priced AS (
    SELECT u.*, CASE %(by)s WHEN 'day' THEN day::text WHEN 'model' THEN u.model ELSE purpose END
                AS key,
           {COST} AS cost
    FROM classes u LEFT JOIN model_prices p ON p.model = u.model
)
"""  # noqa: S608  (it interpolates a constant)

# Usage by key. Percentiles of the duration come from classes that are two hundredths wide.
SELECT_USAGE = usage_query(
    PRICED,
    """
, ranked AS (
    SELECT *, sum(calls) OVER (PARTITION BY key ORDER BY class) AS so_far,
           sum(calls) OVER (PARTITION BY key) AS in_all
    FROM priced
)
SELECT key, sum(calls)::bigint AS calls, sum(failed)::bigint AS failed,
       sum(prompt)::bigint AS prompt, sum(cached)::bigint AS cached,
       sum(completion)::bigint AS completion, sum(cost) AS cost,
       coalesce(sum(calls) FILTER (WHERE cost IS NULL), 0)::bigint AS unpriced,
       exp(min(class) FILTER (WHERE calls > 0 AND so_far >= 0.5 * in_all) / 50.0) / 1000 AS median,
       exp(min(class) FILTER (WHERE calls > 0 AND so_far >= 0.95 * in_all) / 50.0) / 1000 AS high
FROM ranked GROUP BY key
ORDER BY CASE %(by)s WHEN 'day' THEN key END DESC, 7 DESC NULLS LAST, 4 DESC, key LIMIT 1000
""",
)

# Usage by day, model and purpose, for the file.
SELECT_DETAILS = usage_query(
    PRICED,
    """
SELECT day, model, purpose, sum(calls)::bigint AS calls, sum(failed)::bigint AS failed_calls,
       sum(prompt)::bigint AS prompt_tokens, sum(cached)::bigint AS cached_tokens,
       sum(completion)::bigint AS completion_tokens, sum(cost) AS cost
FROM priced GROUP BY day, model, purpose ORDER BY day, model, purpose LIMIT 20000
""",
)

# Usage by person or group, the most expensive first.
SELECT_PEOPLE = f"""
WITH spent AS (
    SELECT owner_id, model, purpose, {SUMS}
    FROM model_usage WHERE created_at >= %(since)s GROUP BY 1, 2, 3
), summed AS (
    SELECT u.owner_id, sum(u.calls)::bigint AS calls, sum(u.failed)::bigint AS failed,
           sum(u.prompt)::bigint AS prompt, sum(u.cached)::bigint AS cached,
           sum(u.completion)::bigint AS completion, sum({COST}) AS cost,
           coalesce(sum(u.calls) FILTER (WHERE p.model IS NULL), 0)::bigint AS unpriced
    FROM spent u LEFT JOIN model_prices p ON p.model = u.model GROUP BY 1
)
SELECT o.telegram_user_id || '/' || o.thread_id AS key, calls, failed, prompt, cached, completion,
       cost, unpriced
FROM summed JOIN owners o ON o.id = owner_id
ORDER BY cost DESC NULLS LAST, prompt DESC, o.id LIMIT %(limit)s
"""  # noqa: S608  (it interpolates a constant)


async def show_usage(site: AdminSite, request: Request) -> Response:
    """Show the cost of each day, and tokens, cost and durations by the requested dimension."""
    days, by = _parse_filters(request)
    settings = await site.core.live_settings.get()
    lines = by_day = await _list_lines(site, days, "day")
    if by != "day":
        lines = await _list_lines(site, days, by)
    costs = {line["key"]: line["cost"] or 0 for line in by_day}
    dates = [site.first_day(days) + timedelta(days=offset) for offset in range(days)]
    bars = {f"{day:%d.%m.}": costs.get(str(day), 0) for day in dates}
    filters: Values = {"by": by, "dimensions": BY, "days": days, "choices": BY[by]}
    return site.render(
        request, "usage.html", lines=lines, bars=bars, currency=settings.currency, **filters
    )


async def download_usage(site: AdminSite, request: Request) -> Response:
    """Send a CSV file by day, model and purpose, or by person."""
    days, by = _parse_filters(request)
    settings = await site.core.live_settings.get()
    if by == "person":
        file = f"pomni-usage-people-{days}-days.csv"
        lines = await _list_lines(site, days, by, limit=100_000)
    else:
        file = f"pomni-usage-{days}-days.csv"
        lines = await site.rows(SELECT_DETAILS, zone=site.zone, days=days, by="day")
    return _send_csv(file, lines, {"cost": f"cost_{settings.currency}"})


async def _list_lines(site: AdminSite, days: int, by: str, *, limit: int = 100) -> list[Record]:
    if by == "person":
        return await site.rows(SELECT_PEOPLE, since=site.midnight(days), limit=limit)
    return await site.rows(SELECT_USAGE, zone=site.zone, days=days, by=by)


def _parse_filters(request: Request) -> tuple[int, str]:
    """Return the number of days and the dimension."""
    days, by = int_of(request, "days"), choice_of(request, "by", BY, "day")
    if days not in DAYS:
        days = 7
    return min(days, BY[by][-1]), by


def _send_csv(file: str, lines: Sequence[Record], titles: dict[str, str]) -> Response:
    text = io.StringIO()
    table = csv.writer(text)
    names = list(lines[0]) if lines else ["day", "model", "purpose"]
    table.writerow([titles.get(name, name) for name in names])
    table.writerows([plain_cell(line[name]) for name in names] for line in lines)
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)
