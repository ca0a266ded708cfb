"""Overview page: health of the parts, today's cost, users, response times."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from src.base.config import OFFLINE_MODEL
from src.pg.client import Record
from src.pg.failure_log import Part
from src.pg.records_repo import COST, SUMS
from src.queue.job_repo import JobRepository
from src.web.admin_failures import SELECT_REASONS
from src.web.admin_site import AdminSite, Values
from src.web.admin_words import Chart, build_chart, count, seconds, size
from src.web.http_server import HEARTBEAT_SECONDS, POLL_SECONDS, find_disk_shortage

RECENT = 600.0  # seconds during which a failure counts as a current problem
MAX_WAIT = 60.0  # seconds of an update in the queue
MAX_REASONS = 6  # of the failures of 24 hours, the most frequent first

# Messages that were handled in 24 hours, by hour and in total, without buttons and commands. An
# answer that was not streamed has its first word at the same time as its last.
SELECT_DAY = """
WITH handled AS (
    SELECT date_trunc('hour', handled_at AT TIME ZONE %(zone)s) AS hour, user_id, outcome,
           extract(epoch FROM coalesce(first_word_at, handled_at) - received_at)::float8 AS first,
           extract(epoch FROM handled_at - received_at)::float8 AS whole
    FROM telegram_updates
    WHERE handled_at > now() - interval '24 hours' AND kind IN ('message', 'teach')
), sums AS (
    SELECT hour, count(*) AS messages, count(*) FILTER (WHERE outcome = 'done') AS answers,
           count(*) FILTER (WHERE outcome IN ('failed', 'put aside')) AS failed
    FROM handled GROUP BY hour
), times AS (
    SELECT percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY first) AS first,
           percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY whole) AS whole
    FROM handled WHERE outcome = 'done'
)
SELECT hours.hour, coalesce(messages, 0) AS messages, coalesce(answers, 0) AS answered,
       coalesce(failed, 0) AS failed, coalesce(messages - answers - failed, 0) AS other,
       t.first, t.whole,
       (SELECT count(DISTINCT user_id) FROM handled) AS people
FROM generate_series(date_trunc('hour', (now() - interval '24 hours') AT TIME ZONE %(zone)s),
                     now() AT TIME ZONE %(zone)s, interval '1 hour') AS hours (hour)
LEFT JOIN sums USING (hour) CROSS JOIN times t ORDER BY hour
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

# Last failure of a part.
SELECT_LAST = """
SELECT failed_at, event, reason FROM failures
WHERE part = %(part)s ORDER BY failed_at DESC LIMIT 1
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

# Totals of the last days, newest first, and what each has more than the day before.
SELECT_GROWTH = """
SELECT day, counted_at, people, messages, facts, bytes, lag(day) OVER days AS day_before,
       people - lag(people) OVER days AS more_people,
       messages - lag(messages) OVER days AS more_messages,
       facts - lag(facts) OVER days AS more_facts, bytes - lag(bytes) OVER days AS more_bytes
FROM (SELECT day, counted_at, people, messages, facts, bytes FROM growth_days
      ORDER BY day DESC LIMIT 30) AS last
WINDOW days AS (ORDER BY day) ORDER BY day DESC
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
    rows, zone = site.rows, site.zone
    hours = await rows(SELECT_DAY, zone=zone)
    [today] = await rows(SELECT_TODAY, zone=zone, since=site.midnight())
    [calls] = await rows(SELECT_CALLS)
    growth = await rows(SELECT_GROWTH)
    put_aside = await site.run(site.core.dead_jobs.count)
    health = [
        _examine_receiver(site, await _last_failure(site, "telegram")),
        await _examine_queue(site, await _last_failure(site, "queue"), put_aside),
        await _examine_database(site, await _last_failure(site, "database"), today["bytes"]),
        _examine_model(site, calls),
        _examine_embeddings(site, await _last_failure(site, "embeddings")),
    ]
    figures: Values = {"today": today, "hours": hours, "growth": growth, "put_aside": put_aside}
    figures["reasons"] = await rows(SELECT_REASONS, days=1, part="", limit=MAX_REASONS)
    figures["settings"] = await site.core.live_settings.get()
    charts: Values = {"by_hour": _chart_hours(hours), "by_day": _chart_growth(growth)}
    state: Values = {"health": health, "calls": calls, "now": datetime.now(UTC)}
    return site.render(request, "overview.html", **state, **figures, **charts)


def _chart_hours(hours: Sequence[Record]) -> Chart | None:
    parts = ("answered", "failed", "other")
    bars = {f"{row['hour']:%d.%m. %H:%M}": [row[part] for part in parts] for row in hours}
    return build_chart("Messages by hour", parts, bars, tones=("part1", "bad", "part5"))


def _chart_growth(growth: Sequence[Record]) -> Chart | None:
    bars = {f"{row['day']:%d.%m.}": [max(0, row["more_facts"])] for row in reversed(growth[:-1])}
    return build_chart("Facts gained by day", ["facts"], bars)


async def _last_failure(site: AdminSite, part: Part) -> Record | None:
    """The part is a constant of the query, so that the planner sees how rare it is."""
    return next(iter(await site.rows(SELECT_LAST, part=part)), None)


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
        troubles.append(f"{count(put_aside)} quarantined, waiting for your decision")
    return Health("Queue", now, "; ".join(troubles), last, "/queue")


async def _examine_database(site: AdminSite, last: Record | None, stored: int) -> Health:
    start = time.monotonic()
    await site.rows("SELECT 1")
    now = f"answers in {seconds(time.monotonic() - start)}, {size(stored)}"
    return Health("Database", now, find_disk_shortage(site.core) or _describe(last), last)


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
