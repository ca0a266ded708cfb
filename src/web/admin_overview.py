"""Overview page: health of the parts, today's cost, users, response times."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from src.base.config import OFFLINE_MODEL
from src.pg.client import Record
from src.pg.records import COST, SUMS
from src.queue.job_repo import JobRepository
from src.web.admin_lists import SELECT_REASONS
from src.web.admin_site import AdminSite
from src.web.admin_words import count, labels, seconds, size
from src.web.http_server import HEARTBEAT_SECONDS, POLL_SECONDS, find_disk_shortage

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
