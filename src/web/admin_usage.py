"""Admin pages of cost: usage by day, model, purpose and person, as CSV too; prices of models."""

import csv
import io
import re
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from src.pg.client import Record
from src.pg.records import COST, SUMS, usage_query
from src.web.admin_site import AdminSite, Fields, Values, choice_of, int_of
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
    text = io.StringIO()
    table = csv.writer(text)
    names = list(lines[0]) if lines else ["day", "model", "purpose"]
    titles = {"cost": f"cost_{settings.currency}"}
    table.writerow([titles.get(name, name) for name in names])
    table.writerows([plain_cell(line[name]) for name in names] for line in lines)
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


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


# Prices.

KINDS = {"prompt": "Prompt", "cached": "Cached", "completion": "Completion"}
PRICE = re.compile(r"[0-9]{1,8}(?:\.[0-9]{1,6})?")  # as in the table
MAX_MODEL = 200  # characters, as in the table
NO_PRICES = dict.fromkeys(KINDS, "")
WRONG_MODEL = (
    "Write a model without spaces, as the table of usage by model calls it, such as "
    "openai:gpt-5-mini."
)
WRONG_PRICE = "Write numbers such as 0.25, with six digits behind the point at most."
INCOMPLETE = "Write all three prices of a model, 0 where it costs nothing, or none of them."

# Prices of all models.
SELECT_PRICES = """
SELECT model, prompt, cached, completion FROM model_prices ORDER BY model LIMIT 200
"""
# Store or delete the prices of a model.
UPSERT_PRICE = """
INSERT INTO model_prices (model, prompt, cached, completion)
VALUES (%(model)s, %(prompt)s, %(cached)s, %(completion)s)
ON CONFLICT (model) DO UPDATE
SET prompt = EXCLUDED.prompt, cached = EXCLUDED.cached, completion = EXCLUDED.completion
"""
DELETE_PRICE = "DELETE FROM model_prices WHERE model = %(model)s"


async def change_prices(site: AdminSite, request: Request, form: Fields) -> Response:
    """Save the prices of a model, or remove them; refused input stays in the form."""
    model, typed = form.get("model", "").strip(), NO_PRICES
    if "reset" not in form:
        typed = {kind: form.get(kind, "").strip().replace(",", ".") for kind in KINDS}
    prices, problem = [price for price in typed.values() if price], ""
    if not _is_model(model):
        problem = WRONG_MODEL
    elif not all(map(PRICE.fullmatch, prices)):
        problem = WRONG_PRICE
    elif 0 < len(prices) < len(KINDS):
        problem = INCOMPLETE
    if problem:
        return await show_prices(site, request, model=model, typed=typed, problem=problem)
    statement = DELETE_PRICE
    if any(typed.values()):
        statement = UPSERT_PRICE
    await site.rows(statement, typed, model=model)
    await site.note(request, "change prices", model)
    return await show_prices(site, request, done=f"Saved: {model}.")


async def show_prices(
    site: AdminSite,
    request: Request,
    *,
    model: str = "",
    typed: Fields = NO_PRICES,
    problem: str = "",
    done: str = "",
) -> Response:
    """Show all prices with the result of a form, and a row for ``?model=``."""
    rows: dict[str, Fields] = {}
    for row in await site.rows(SELECT_PRICES):
        rows[row["model"]] = {kind: f"{row[kind].normalize():f}" for kind in KINDS}
    model = model or request.query_params.get("model", "")
    if problem or (model not in rows and _is_model(model)):
        rows[model if _is_model(model) else ""] = typed
    rows[""] = rows.pop("", NO_PRICES)
    status, currency = 200, (await site.core.live_settings.get()).currency
    if problem:
        status = 422
    values = {"rows": rows, "kinds": KINDS, "currency": currency, "typed_model": model}
    return site.render(request, "prices.html", status=status, problem=problem, done=done, **values)


def _is_model(text: str) -> bool:
    return text.isprintable() and text.split() == [text] and len(text) <= MAX_MODEL
