"""The admin pages about operation: is it well, what does it cost, what failed and what then."""

from __future__ import annotations

import csv
import io
import re
import time
from decimal import Decimal
from functools import partial

from src.pg.records import RecordsRepository
from src.web import admin_figures
from src.web.admin_words import money, plain_cell, seconds, size
from tests.integration.admin_browser import USER, Browser, token, told
from tests.integration.person import Rig

# A day: four people, of whom one got an apology; one wrote before it, one pressed a button.
DAY = """
INSERT INTO telegram_updates (bot_id, update_id, kind, chat_id, user_id, payload, received_at,
                              first_word_at, handled_at, outcome)
SELECT 1, n, kind, who, who, '{}', now() - ago, now() - ago + first, now() - ago + whole, outcome
FROM (VALUES
    (1, 'message', 11, interval '23 hours', interval '1 s', interval '2 s', 'done'),
    (2, 'message', 12, interval '3 hours', interval '1 s', interval '4 s', 'done'),
    (3, 'message', 13, interval '2 hours', NULL, interval '8 s', 'done'),
    (4, 'message', 14, interval '1 hour', NULL, interval '40 s', 'failed'),
    (5, 'message', 12, interval '1 hour', NULL, interval '0 s', 'left to a later message'),
    (6, 'message', 15, interval '25 hours', interval '1 s', interval '2 s', 'done'),
    (7, 'callback', 16, interval '1 hour', NULL, interval '0 s', 'done')
) AS u (n, kind, who, ago, first, whole, outcome)
"""
FAILED = """
INSERT INTO failures (failed_at, part, event, reason, owner_id, update_id, job_id)
VALUES (now() - interval '1 hour', 'model', 'gave up on an update', 'HTTP 429', add_owner(14, 0),
        (SELECT id FROM telegram_updates WHERE update_id = 4), NULL),
       (now() - interval '2 hours', 'model', 'will try again', 'HTTP 429', NULL, NULL, NULL),
       (now() - interval '30 hours', 'telegram', 'will try again', 'no answer', NULL, NULL, NULL)
"""
CALLS = """
INSERT INTO model_usage (owner_id, purpose, model, prompt_tokens, cached_tokens,
                         completion_tokens, duration_ms, error, created_at) VALUES
    (add_owner(1, 0), 'answer', 'openai:a', 1000000, 500000, 100000, 2000, NULL, now()),
    (add_owner(1, 0), 'extract_batch', 'openai:a', 1000000, 0, 0, 0, NULL, now()),
    (add_owner(2, 0), 'answer', 'x:b', 5, 0, 5, 1, NULL, now()),
    (add_owner(2, 0), 'answer', '=x', NULL, NULL, NULL, 9, 'HTTP 503', now() + interval '1 s')
"""
HOURS = """
INSERT INTO model_usage (owner_id, purpose, model, prompt_tokens, cached_tokens,
                         completion_tokens, duration_ms, error, created_at)
SELECT add_owner(n % 7, 0), CASE n % 4 WHEN 0 THEN 'extract_batch' ELSE 'answer' END, 'm' || n % 3,
       nullif(n, 11), n / 2, n % 50, 100 + n, CASE n % 10 WHEN 0 THEN 'HTTP 500' END,
       now() - n * interval '1 hour'
FROM generate_series(0, 299) n
"""
PRICE = {"model": "openai:a", "prompt": "2", "cached": "0,5", "completion": "10"}


async def test_the_overview_tells_of_24_hours_and_of_today(rig: Rig, inside: Browser) -> None:
    empty = told((await inside.get("/")).text)
    assert "0 answers to 0 messages" in empty and "– to the first word" in empty
    for statement in (DAY, FAILED, CALLS):
        rig.client.execute(statement)
    form = {"token": await token(inside)}
    await inside.post("/prices", data={**form, **PRICE})
    rig.client.execute("UPDATE global_settings SET daily_tokens = 9000000, currency = 'EUR'")
    page = (await inside.get("/")).text
    text = told(page)
    assert "4 people who wrote" in text and "3 answers to 5 messages" in text
    assert "1.0 s to the first word, half of the time; 95 %: 7.3 s" in text
    assert "4.0 s to the whole answer" in text
    assert "1 failed messages" in text and "1 failed model calls" in text
    assert re.search(r"HTTP 429 gave up on an update 1 1 ", text)
    assert "no answer" not in text.partition("by reason")[2], "it was before"
    assert "Model : the last call failed: HTTP 503" in text
    assert "2,100,010 tokens" in text and "3.25 " in text and "no price" in text
    for place in ("/usage?days=1", "/failures", "/queue", "/users", "/settings"):
        assert f'href="{place}"' in page


async def test_what_is_not_well_is_said_first(rig: Rig, inside: Browser) -> None:
    rig.client.execute("INSERT INTO procrastinate_workers DEFAULT VALUES")
    assert "All is well." in told((await inside.get("/")).text)
    rig.core.metrics.last_poll.set(time.time() - 200)
    rig.client.execute("DELETE FROM procrastinate_workers")
    rig.client.execute(
        "INSERT INTO failures (failed_at, part, event, reason)"
        " VALUES (now(), 'embeddings', 'by words', 'the engine died')"
    )
    rig.client.execute(CALLS)
    text = told((await inside.get("/")).text).partition("Looked at")[0]
    rig.core.metrics.last_poll.set(0)
    assert "Telegram has been silent for 3 min" in text and "no worker is running" in text
    assert "Embeddings : by words: the engine died" in text


async def test_growth_since_the_day_before_is_told(rig: Rig, inside: Browser) -> None:
    rig.client.execute(
        "INSERT INTO growth_days (day, people, messages, facts, bytes)"
        " VALUES (current_date - 1, 1, 40, 100, 5000)"
    )
    RecordsRepository(rig.client).count_growth(zone="UTC", facts=112)
    page = (await inside.get("/")).text
    assert re.search(r"112 facts \+12 since \d\d\.\d\d\.", told(page))


async def test_usage_is_summed_up_by_what_is_asked_for_and_priced(
    rig: Rig, inside: Browser
) -> None:
    rig.client.execute(CALLS)
    for by in admin_figures.BY:
        unpriced = told((await inside.get("/usage", params={"by": by})).text)
        assert "no price" in unpriced.rpartition("Total" if by != "person" else "These 2")[2]
    form = {"token": await token(inside)}
    done = await inside.post("/prices", data={**form, **PRICE})
    assert "Saved: openai:a." in done.text
    lines = partial(rig.client.fetch_records, admin_figures.SELECT_USAGE, days=7, zone="UTC")
    costs = {line["key"]: line["cost"] for line in lines(by="model")}
    # 0.5 * 2 + 0.5 * 0.5 + 0.1 * 10, and half of 1 * 2.
    assert (costs["x:b"], costs["openai:a"]) == (None, Decimal("3.25"))
    by_purpose = {line["key"]: (line["calls"], line["failed"]) for line in lines(by="purpose")}
    assert by_purpose == {"answer": (2, 1), "extract_batch": (1, 0)}
    for by in admin_figures.BY:
        page = (await inside.get("/usage", params={"days": 1, "by": by})).text
        assert "3.25 USD" in told(page).rpartition("Total" if by != "person" else "These 2")[2]
        assert "Not in the cost: 1 calls" in told(page) and "<rect" in page
    assert "extraction in batches" in (await inside.get("/usage?by=purpose")).text
    asked = (await inside.get("/usage?by=model")).text
    assert 'href="/prices?model=x%3Ab">no price</a>' in asked


async def test_usage_is_downloaded_as_a_table(rig: Rig, inside: Browser) -> None:
    rig.client.execute(CALLS)
    response = await inside.get("/usage.csv?days=1")
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in response.headers["content-disposition"]
    head, *rows = csv.reader(io.StringIO(response.text))
    assert head[:5] == ["day", "model", "purpose", "calls", "failed_calls"]
    assert head[-1] == "cost_USD" and [row[1] for row in rows] == [
        "'=x", "openai:a", "openai:a", "x:b"
    ]  # fmt: skip
    people = list(csv.reader(io.StringIO((await inside.get("/usage.csv?by=person")).text)))
    assert [row[0] for row in people] == ["key", "1/0", "2/0"]
    rig.client.execute("DELETE FROM model_usage")
    assert (await inside.get("/usage.csv")).text.count("\n") == 1


def test_days_that_are_summed_up_say_the_same_as_their_calls(rig: Rig) -> None:
    rig.client.execute(HOURS)
    price = {"model": "m1", "prompt": 3, "cached": 1, "completion": 7}
    rig.client.execute(admin_figures.UPSERT_PRICE, price)
    records = RecordsRepository(rig.client)
    usage = partial(rig.client.fetch_records, admin_figures.SELECT_USAGE)
    lines = partial(usage, days=90, zone="Asia/Tokyo")
    before = [lines(by=by) for by in ("day", "model", "purpose")]
    for view in before:
        assert sum(line["calls"] for line in view) == 270
        assert sum(line["failed"] for line in view) == 30
    for _ in range(2):
        records.roll_up(zone="Asia/Tokyo")
        assert [lines(by=by) for by in ("day", "model", "purpose")] == before
    rig.client.execute("DELETE FROM model_usage WHERE created_at < now() - interval '2 days'")
    assert lines(by="day") == before[0], "the calls themselves may go"
    assert len(lines(days=7, by="day")) == 7 < len(before[0])
    assert records.prune() == 0
    rig.client.execute("UPDATE model_usage_days SET day = day - 400")
    assert records.prune() > 30


async def test_failures_are_told_by_reason_person_and_time(rig: Rig, inside: Browser) -> None:
    assert "every message got its answer" in (await inside.get("/failures")).text
    for statement in (DAY, FAILED, CALLS):
        rig.client.execute(statement)
    page = (await inside.get("/failures")).text
    assert 'href="/users/14/0"' in page and "HTTP 429" in page and "no answer" not in page
    assert re.search(r"HTTP 503 =x answer 1 1", told(page))
    longer = (await inside.get("/failures?days=7&part=telegram")).text
    assert "no answer" in longer and "HTTP 429" not in longer
    rig.client.execute(
        "INSERT INTO failures (failed_at, part, event, reason)"
        " SELECT now(), 'other', 'x', 'r' || n FROM generate_series(1, 70) n"
    )
    first = (await inside.get("/failures?part=other")).text
    older = re.search(r'href="([^"]*before=\d+)"', first)
    assert older is not None
    page = (await inside.get("/failures" + older[1].replace("&amp;", "&"))).text
    assert page.count("<tr><td>") == 20 and "Newest" in page


async def test_a_failed_job_says_why_and_is_given_back_or_dropped(
    rig: Rig, inside: Browser
) -> None:
    rig.client.execute(DAY)
    [(update,)] = rig.rows("SELECT id FROM telegram_updates WHERE update_id = 4")
    rig.client.execute(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, status, attempts, args)"
        " SELECT 'people', 'handle_update', s::procrastinate_job_status, 6,"
        "        jsonb_build_object('update', %(update)s::bigint)"
        " FROM unnest(ARRAY['failed', 'failed', 'failed', 'todo']) AS s",
        update=update,
    )
    jobs = [job for (job,) in rig.rows("SELECT id FROM procrastinate_jobs ORDER BY id")]
    rig.client.execute(
        "INSERT INTO failures (failed_at, part, event, reason, job_id)"
        " VALUES (now(), 'queue', 'job failed', 'defect (KeyError)', %(job)s)", job=jobs[0],
    )  # fmt: skip
    rig.client.execute(
        "INSERT INTO job_deaths (job_id, deaths, put_aside_at) VALUES (%(job)s, 3, now())",
        job=jobs[2],
    )
    rig.client.execute(
        "UPDATE telegram_updates SET outcome = 'put aside',"
        " payload = '{\"message\": {\"text\": \"тайна\"}}' WHERE id = %(update)s", update=update,
    )  # fmt: skip
    page = (await inside.get("/queue")).text
    text = told(page)
    assert "defect (KeyError)" in text and f"update {update}" in text and "тайна" not in page
    assert "its process died 3 times" in text and 'href="/users/14/0"' in page
    assert "Waiting for another attempt" in text
    form = {"token": await token(inside)}
    await inside.post(f"/queue/{jobs[0]}/retry", data=form)
    await inside.post(f"/queue/{jobs[2]}/retry", data=form)
    states = "SELECT status::text FROM procrastinate_jobs ORDER BY id"
    assert [state for (state,) in rig.rows(states)] == ["todo", "failed", "todo", "todo"]
    assert rig.rows("SELECT count(*) FROM job_deaths") == [(0,)]
    for job in jobs:
        await inside.post(f"/queue/{job}/drop", data=form)
    assert [job for (job,) in rig.rows("SELECT id FROM procrastinate_jobs ORDER BY id")] == [
        jobs[0], jobs[2], jobs[3]
    ], "what is to run again stays"  # fmt: skip
    assert rig.rows("SELECT payload FROM telegram_updates WHERE id = " + str(update)) == [({},)]
    audit = (await inside.get("/audit")).text
    assert "retry job" in audit and "drop job" in audit
    await inside.post("/queue/retry-put-aside", data=form)


async def test_a_batch_says_what_came_to_nothing(rig: Rig, inside: Browser) -> None:
    conversation = rig.core.conversations.get_or_create_conversation(USER)
    rig.client.execute(
        "WITH job AS (INSERT INTO batch_jobs (provider, model, status, batch_id, requests, failed)"
        "             VALUES ('openai', 'm', 'completed', 'b', 1, 1) RETURNING id)"
        " INSERT INTO batch_requests (id, job_id, conversation_id, first_position, last_position,"
        "                             status, error)"
        " SELECT gen_random_uuid(), id, %(conversation)s, 3, 22, 'failed', 'malformed' FROM job",
        conversation=str(conversation),
    )
    [(batch,)] = rig.rows("SELECT id FROM batch_jobs")
    assert f'href="/batches/{batch}"' in (await inside.get("/batches")).text
    text = told((await inside.get(f"/batches/{batch}")).text)
    assert f"{USER} 3–22 failed the reply is not the form" in text
    nowhere = await inside.get("/batches/00000000-0000-0000-0000-000000000000")
    assert nowhere.status_code == 404


def test_figures_are_said_shortly() -> None:
    assert [seconds(n) for n in (None, 0.24, 1.44, 61, 7200)] == [
        "–", "240 ms", "1.4 s", "1 min", "2.0 h",
    ]  # fmt: skip
    assert [size(n) for n in (None, 900, 2_500_000, 3e9)] == ["–", "0.9 kB", "2.5 MB", "3 GB"]
    assert [money(n, "EUR") for n in (None, 0, 0.0123, 1234.5)] == [
        "–", "0.00 EUR", "0.0123 EUR", "1,234.50 EUR",
    ]  # fmt: skip
    assert [plain_cell(one) for one in ("=1+1", -3, "a", None, "@x")] == [
        "'=1+1", "-3", "a", "", "'@x",
    ]  # fmt: skip
