"""Admin pages of usage: tokens, cost and time by day, model, purpose and person; CSV."""

import csv
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from src.pg.client import Record
from src.pg.records_repo import COST, SUMS, usage_query
from src.web.admin_site import AdminSite, Values, choice_of, int_of
from src.web.admin_words import Chart, build_chart, labels, money, plain_cell

DAYS = (1, 7, 14, 30, 90)  # choices of the period
MAX_BY_PERSON = 30  # days: by person every call is read, since daily sums have no owners
BY = ("day", "model", "purpose", "person")
# Titles of the chart by the dimension.
TITLES = {"model": "Tokens by day and model", "purpose": "Tokens by day and purpose"}
MAX_KEYS, OTHERS = 5, "others"  # keys in a chart, and the name of the rest

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

# Usage by day, model and purpose, for the file and the chart.
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
    """Show tokens, cost and durations by the requested dimension."""
    days, by = _parse_filters(request)
    settings = await site.core.live_settings.get()
    lines = await _list_lines(site, days, by, limit=100)
    values: Values = {"lines": lines, "total": _sum_lines(lines), "currency": settings.currency}
    values["chart"] = await _build_chart(site, days, by, settings.currency)
    values |= {"by": by, "dimensions": BY, "days": days, "choices": _list_day_choices(by)}
    return site.render(request, "usage.html", **values)


async def download_usage(site: AdminSite, request: Request) -> Response:
    """Send a CSV file by day, model and purpose, or by person."""
    days, by = _parse_filters(request)
    if by == "person":
        file = f"pomni-usage-people-{days}-days.csv"
        lines = await _list_lines(site, days, by, limit=100_000)
    else:
        file = f"pomni-usage-{days}-days.csv"
        lines = await _list_details(site, days)
    settings = await site.core.live_settings.get()
    text = io.StringIO()
    table = csv.writer(text)
    names = list(lines[0]) if lines else ["day", "model", "purpose"]
    table.writerow([f"cost_{settings.currency}" if name == "cost" else name for name in names])
    table.writerows([plain_cell(line[name]) for name in names] for line in lines)
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


async def _list_lines(site: AdminSite, days: int, by: str, *, limit: int) -> list[Record]:
    if by == "person":
        since = site.midnight(days)
        return await site.rows(SELECT_PEOPLE, since=since, limit=limit)
    return await site.rows(SELECT_USAGE, zone=site.zone, days=days, by=by)


async def _list_details(site: AdminSite, days: int) -> list[Record]:
    return await site.rows(SELECT_DETAILS, zone=site.zone, days=days, by="day")


async def _build_chart(site: AdminSite, days: int, by: str, currency: str) -> Chart | None:
    rows, is_split = await _list_details(site, days), by in ("model", "purpose")
    is_priced = is_split and any(row["cost"] for row in rows)
    sums: defaultdict[str, float] = defaultdict(float)
    heights: defaultdict[tuple[date, str], float] = defaultdict(float)
    for row in rows:
        for part, value in _split(row, by, is_priced=is_priced).items():
            sums[part] += value
            heights[row["day"], part] += value
    parts = list(sums)
    if is_split:
        parts = sorted(filter(sums.get, sums), key=lambda part: -sums[part])[:MAX_KEYS]
    for (day, part), value in list(heights.items()):
        if part not in parts:
            heights[day, OTHERS] += value
    if len(sums) > MAX_KEYS:
        parts.append(OTHERS)
    first = site.first_day(days)
    dates = [first + timedelta(days=offset) for offset in range(days)]
    bars = {f"{day:%d.%m.}": [heights[day, part] for part in parts] for day in dates}
    purposes = labels()["purposes"]
    names = [purposes.get(part, part) for part in parts]
    if is_priced:
        form = partial(money, currency=currency)
        return build_chart(f"Cost by day and {by}", names, bars, form=form)
    return build_chart(TITLES.get(by, "Tokens by day"), names, bars)


def _parse_filters(request: Request) -> tuple[int, str]:
    """Return the number of days and the dimension."""
    days, by = int_of(request, "days"), choice_of(request, "by", BY, "day")
    if days not in DAYS:
        return 7, by
    return min(days, _list_day_choices(by)[-1]), by


def _list_day_choices(by: str) -> Sequence[int]:
    return [days for days in DAYS if by != "person" or days <= MAX_BY_PERSON]


def _sum_lines(lines: Sequence[Record]) -> Record:
    names = ("calls", "failed", "prompt", "cached", "completion", "unpriced")
    sums: Record = {name: sum(line[name] for line in lines) for name in names}
    costs = [line["cost"] for line in lines if line["cost"] is not None]
    sums["cost"] = None
    if costs:
        sums["cost"] = sum(costs, Decimal())
    return sums


def _split(row: Record, by: str, *, is_priced: bool) -> Mapping[str, float]:
    """Return the value of each part of a bar."""
    if is_priced:
        return {row[by]: float(row["cost"] or 0)}
    prompt, cached, completion = (
        row[f"{kind}_tokens"] for kind in ("prompt", "cached", "completion")
    )
    if by in ("model", "purpose"):
        return {row[by]: prompt + completion}
    return {"cached": cached, "prompt": prompt - cached, "completion": completion}
