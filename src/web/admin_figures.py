"""Admin pages of figures: overview; usage by day, model, purpose, person, as CSV too; prices."""

import csv
import io
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from src.base.config import OFFLINE_MODEL
from src.pg.client import Record
from src.pg.records import COST, SUMS, usage_query
from src.queue.job_repo import JobRepository
from src.web.admin_lists import SELECT_REASONS
from src.web.admin_site import AdminSite, Fields, Values, choice_of, int_of
from src.web.admin_words import count, labels, plain_cell, seconds, size
from src.web.http_server import HEARTBEAT_SECONDS, POLL_SECONDS, find_disk_shortage

# The overview: health of the parts, today's cost, users, response times.

RECENT = 600.0  # seconds during which a failure counts as a current problem
MAX_WAIT = 60.0  # seconds of an update in the queue
MAX_REASONS = 6  # of the failures of 24 hours, the most frequent first

# Messages that were handled in 24 hours, without buttons and commands. An answer that was not
# streamed has its first word at the same time as its last.
SELECT_DAY = """
WITH handled AS (
    SELECT user_id, outcome,
           extract(epoch FROM coalesce(first_word_at, handled_at) - received_at)::float8 AS first,
           extract(epoch FROM handled_at - received_at)::float8 AS whole
    FROM telegram_updates
    WHERE handled_at > now() - interval '24 hours' AND kind IN ('message', 'teach')
)
SELECT count(*) AS messages, count(*) FILTER (WHERE outcome = 'done') AS answered,
       count(*) FILTER (WHERE outcome IN ('failed', 'put aside')) AS failed,
       count(DISTINCT user_id) AS people,
       percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY first)
           FILTER (WHERE outcome = 'done') AS first,
       percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY whole)
           FILTER (WHERE outcome = 'done') AS whole
FROM handled
"""

# Tokens and cost since midnight, number of calls of models without a price, size of the database.
SELECT_TODAY = f"""
WITH spent AS (
    SELECT model, purpose, {SUMS} FROM model_usage WHERE created_at >= %(since)s GROUP BY 1, 2
)
SELECT coalesce(sum(u.prompt + u.completion), 0)::bigint AS tokens, sum({COST}) AS cost,
       pg_database_size(current_database()) AS bytes,
       coalesce(sum(u.calls) FILTER (WHERE p.model IS NULL), 0)::bigint AS unpriced,
       (SELECT coalesce(sum(messages), 0)::bigint FROM daily_messages
        WHERE day = (now() AT TIME ZONE %(zone)s)::date) AS messages
FROM spent u LEFT JOIN model_prices p ON p.model = u.model
"""  # noqa: S608  (it interpolates constants)

# Last failure of each part.
SELECT_LAST = """
SELECT wanted.part, f.failed_at, f.event, f.reason
FROM unnest(%(parts)s) AS wanted (part), LATERAL (
    SELECT failed_at, event, reason FROM failures
    WHERE part = wanted.part ORDER BY failed_at DESC LIMIT 1) AS f
"""

# Last failed model call, time of the last successful one, and number of failures in 24 hours.
SELECT_CALLS = """
SELECT f.created_at AS failed_at, f.purpose AS event, f.error AS reason,
       (SELECT created_at FROM model_usage WHERE error IS NULL
        ORDER BY created_at DESC LIMIT 1) AS worked_at,
       (SELECT count(*) FROM model_usage
        WHERE error IS NOT NULL AND created_at > now() - interval '24 hours') AS failed
FROM (SELECT) AS one LEFT JOIN LATERAL (
    SELECT created_at, purpose, error FROM model_usage WHERE error IS NOT NULL
    ORDER BY created_at DESC LIMIT 1) AS f ON true
"""

# Totals of the last day that was counted, and of the one before.
SELECT_GROWTH = """
SELECT day, counted_at, people, messages, facts, bytes FROM growth_days ORDER BY day DESC LIMIT 2
"""


@dataclass(frozen=True)
class Health:
    """Health of one part of the bot.

    Attributes:
        name: Name of the part.
        now: Its current state.
        trouble: Its problem; empty: none.
        last: Its last failure: ``failed_at``, ``event``, ``reason``.
        link: Path of the page with details.
    """

    name: str
    now: str
    trouble: str = ""
    last: Mapping[str, Any] | None = None
    link: str = "/failures"


async def show_overview(site: AdminSite, request: Request) -> Response:
    """Show the overview."""
    rows = site.rows
    [day] = await rows(SELECT_DAY)
    [today] = await rows(SELECT_TODAY, zone=site.zone, since=site.midnight())
    [calls] = await rows(SELECT_CALLS)
    put_aside = await site.run(site.core.dead_jobs.count)
    last = {row["part"]: row for row in await rows(SELECT_LAST, parts=list(labels()["parts"]))}
    start = time.monotonic()
    await rows("SELECT 1")
    database = f"answers in {seconds(time.monotonic() - start)}, {size(today['bytes'])}"
    failed = last.get("database")
    shortage = find_disk_shortage(site.core) or _describe(failed)
    health = [
        _examine_receiver(site, last.get("telegram")),
        await _examine_queue(site, last.get("queue"), put_aside),
        Health("Database", database, shortage, failed),
        _examine_model(site, calls),
        _examine_embeddings(site, last.get("embeddings")),
    ]
    return site.render(
        request,
        "overview.html",
        health=health,
        day=day,
        today=today,
        calls=calls,
        put_aside=put_aside,
        now=datetime.now(UTC),
        reasons=await rows(SELECT_REASONS, days=1, part="", limit=MAX_REASONS),
        growth=await rows(SELECT_GROWTH),
        settings=await site.core.live_settings.get(),
    )


def _examine_receiver(site: AdminSite, last: Record | None) -> Health:
    sample = site.core.metrics.registry.get_sample_value
    heard_at = sample("pomni_last_receive_timestamp_seconds")
    if not heard_at:
        return Health("Receiver", "nothing received by this process yet", last=last)
    silence = time.time() - heard_at
    trouble = ""
    if silence > POLL_SECONDS and site.core.settings.telegram_webhook_url is None:
        trouble = f"Telegram has been silent for {seconds(silence)}"
    return Health("Receiver", f"Telegram answered {seconds(silence)} ago", trouble, last)


async def _examine_queue(site: AdminSite, last: Record | None, put_aside: int) -> Health:
    waiting, oldest = await site.run(site.core.updates.count_waiting)
    age = await site.run(JobRepository(site.core.client).seconds_since_heartbeat)
    troubles, now = [], "nothing is waiting"
    if waiting:
        now = f"{count(waiting)} waiting, the oldest for {seconds(oldest)}"
    if age is None or age > HEARTBEAT_SECONDS:
        troubles.append("no worker is running: start the bot, or python bot.py worker")
    if waiting and oldest > MAX_WAIT:
        troubles.append(f"the oldest message has waited for {seconds(oldest)}")
    if put_aside:
        troubles.append(f"{count(put_aside)} put aside, waiting for your decision")
    return Health("Queue", now, "; ".join(troubles), last, "/queue")


def _examine_model(site: AdminSite, calls: Record) -> Health:
    name = site.core.settings.chat_model_name
    if name == OFFLINE_MODEL:
        return Health("Model", "none is connected: the notebook answers")
    if not calls["failed_at"]:
        return Health("Model", name, link="/failures?part=model")
    trouble = ""
    if calls["worked_at"] is None or calls["worked_at"] < calls["failed_at"]:
        trouble = f"the last call failed: {calls['reason']}"
    return Health("Model", name, trouble, calls, "/failures?part=model")


def _examine_embeddings(site: AdminSite, last: Record | None) -> Health:
    by_words = site.core.metrics.registry.get_sample_value("pomni_searches_by_words_total")
    now = site.core.settings.embedding_model
    if by_words:
        now += f"; {count(by_words)} searches went by words alone since the start"
    return Health("Embeddings", now, _describe(last), last, "/failures?part=embeddings")


def _describe(last: Record | None) -> str:
    """Describe a failure if it is recent."""
    if last is None or (datetime.now(UTC) - last["failed_at"]).total_seconds() > RECENT:
        return ""
    return ": ".join(dict.fromkeys((last["event"], last["reason"])))


# Usage.

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
