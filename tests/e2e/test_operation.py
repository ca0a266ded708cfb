"""What an operator sees and sets: access, health, webhook, shutdown, the embedded database."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from src.texts import say
from tests.attacks.half_open import attack as attack_half_open
from tests.conftest import execute
from tests.e2e.bot_process import World, eventually
from tests.fakes.openai_server import Reply

USER, STRANGER = 2**41 + 1, 2**41 + 2
SECRET = "СЕКРЕТ-незнакомца"
# Every column of every table of ours as text: what a stranger wrote may stand in none.
COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = 'public'
"""


def rows_that_mention(world: World, text: str) -> list[str]:
    """The columns of any table in which a text stands."""
    found = []
    for table, column in world.query(COLUMNS):
        sql = f'SELECT 1 FROM "{table}" WHERE "{column}"::text ILIKE %s LIMIT 1'
        if world.query(sql, f"%{text}%"):
            found.append(f"{table}.{column}")
    return found


async def test_a_stranger_gets_one_sentence_and_leaves_no_word(world: World) -> None:
    bot = await world.start(ALLOWED_USER_IDS=str(USER), LOG_LEVEL="DEBUG")
    telegram = world.telegram
    for text in (SECRET, f"/new {SECRET}", f"ещё {SECRET}"):
        await telegram.send_text(STRANGER, text, first_name=SECRET, language_code="uk")
    await telegram.send_message(STRANGER, caption=SECRET, photo=[], first_name=SECRET)
    await telegram.send_text(USER, "привет")
    await telegram.wait_sent(USER)
    await telegram.wait_sent(STRANGER)
    await world.settled()
    assert world.answers(STRANGER) == [say("not_allowed", "uk", user_id=STRANGER)]
    assert world.answers(USER) == ["эхо: привет"]
    assert rows_that_mention(world, SECRET) == []
    assert rows_that_mention(world, "привет"), "the search would find it"
    assert SECRET not in json.dumps(bot.lines, ensure_ascii=False)
    assert all(SECRET not in str(request.messages) for request in world.model.requests)


async def test_the_log_holds_no_text_and_no_token(world: World) -> None:
    bot = await world.start(LOG_LEVEL="DEBUG")
    world.model.queue(Reply(status=500, error=SECRET), Reply(status=400, error=SECRET))
    await world.telegram.send_text(USER, SECRET, first_name=SECRET)
    await world.telegram.wait_sent(USER)
    await world.settled()
    log = json.dumps(bot.lines, ensure_ascii=False)
    assert world.answers(USER) == [say("error_model", "ru")]
    assert len(bot.lines) >= 3 and SECRET not in log and world.telegram.token not in log


async def test_health_readiness_and_metrics(world: World, postgres_server: str) -> None:
    bot = await world.start()
    await world.telegram.send_text(USER, "привет")
    await world.telegram.wait_sent(USER)
    await world.settled()
    async with httpx.AsyncClient(base_url=bot.http) as http:
        assert (await http.get("/healthz")).text == "ok"
        ready = await http.get("/readyz")
        assert ready.status_code == 200
        assert ready.json() == {"ready": True, "database": "ok", "telegram": "ok", "worker": "ok"}
        metrics = (await http.get("/metrics")).text
        assert 'pomni_turns_total{outcome="answered"} 1.0' in metrics
        assert 'pomni_updates_total{kind="message"} 1.0' in metrics
        assert "pomni_queue_waiting 0.0" in metrics
        assert str(USER) not in metrics and "привет" not in metrics
        assert (await http.post("/telegram/webhook", json={})).status_code == 404

        name = world.dsn.partition("?")[0].rpartition("/")[2]
        execute(
            postgres_server,
            f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        away, health, metrics_now = await asyncio.gather(
            *(http.get(path, timeout=30) for path in ("/readyz", "/healthz", "/metrics"))
        )
        assert away.status_code == 503 and away.json()["ready"] is False
        assert away.json()["database"] != "ok"
        assert (health.status_code, metrics_now.status_code) == (200, 200)
        execute(postgres_server, f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
        async with asyncio.timeout(30):
            while (await http.get("/readyz", timeout=30)).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
    await world.telegram.send_text(USER, "снова")
    await world.telegram.wait_sent(USER, 2, timeout=30)
    assert await bot.terminate() == 0


async def test_a_bot_that_telegram_never_answered_is_not_ready(world: World) -> None:
    world.telegram.fail_next("getUpdates", times=1000, status=500)
    bot = await world.start()
    async with httpx.AsyncClient(base_url=bot.http) as http:
        ready = await http.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["telegram"] == "Telegram has not answered getUpdates yet"
    assert ready.json()["database"] == "ok"


async def test_a_webhook_end_to_end_with_a_drain_at_the_end(world: World) -> None:
    telegram, model = world.telegram, world.model
    bot = await world.start(
        TELEGRAM_WEBHOOK_URL="http://127.0.0.1:1/telegram/webhook",
        TELEGRAM_WEBHOOK_SECRET="a-secret_0123456789",
    )
    await telegram.wait_for(lambda: telegram.webhook.url and len(telegram.commands) == 3)
    telegram.webhook.url = f"{bot.http}/telegram/webhook"  # as a proxy in front would do
    assert telegram.webhook.secret_token == "a-secret_0123456789"
    await telegram.send_text(USER, "раз")
    await telegram.wait_sent(USER)
    assert telegram.calls_of("getUpdates") == []
    async with httpx.AsyncClient(base_url=bot.http) as http:
        forged = await http.post("/telegram/webhook", json={"update_id": 1})
        assert forged.status_code == 403
        assert (await http.get("/readyz")).status_code == 200

    gate = asyncio.Event()
    model.queue(Reply(text="доскажу", chunk_size=4, gate=gate, gate_after_chunks=1))
    await telegram.send_text(USER, "два")
    await model.wait_for(lambda: model.waiting_at_gate)
    bot.ask_to_stop()
    await bot.wait_event("stopping: finishing the turns that are under way")
    gate.set()
    assert await bot.wait_end() == 0
    assert world.answers(USER) == ["эхо: раз", "доскажу"]
    await world.settled()


async def test_sigterm_finishes_the_answer_and_leaves_the_rest_for_later(world: World) -> None:
    telegram, model = world.telegram, world.model
    bot = await world.start()
    gate = asyncio.Event()
    model.queue(Reply(text="доскажу", chunk_size=4, gate=gate, gate_after_chunks=1))
    await telegram.send_text(USER, "раз")
    await model.wait_for(lambda: model.waiting_at_gate)
    bot.ask_to_stop()
    await bot.wait_event("stopping: finishing the turns that are under way")
    await telegram.wait_for(lambda: not telegram.polling)
    await telegram.send_text(USER, "два")
    gate.set()
    assert await bot.wait_end() == 0
    assert world.answers(USER) == ["доскажу"]
    await world.start()
    await telegram.wait_sent(USER, 2)
    await world.settled()
    assert world.answers(USER) == ["доскажу", "эхо: два"]


async def test_a_turn_that_does_not_end_in_time_is_done_after_the_restart(world: World) -> None:
    telegram, model = world.telegram, world.model
    bot = await world.start(SHUTDOWN_TIMEOUT="0.5")
    model.queue(Reply(hang=True))
    await telegram.send_text(USER, "раз")
    await model.wait_for(lambda: model.active)
    assert await bot.terminate() == 0
    assert world.answers(USER) == []
    await world.start()
    await telegram.wait_sent(USER)
    await world.settled()
    assert world.answers(USER) == ["эхо: раз"]


async def test_a_model_that_is_down_for_good_is_apologised_for(world: World) -> None:
    await world.start()
    soon = {"Retry-After": "0.1"}  # else the back-off would take half a minute
    world.model.reply = lambda _request: Reply(status=503, headers=soon)
    await world.telegram.send_text(USER, "вопрос", language_code="uk")
    await world.telegram.wait_sent(USER, timeout=90)
    await world.settled()
    assert world.answers(USER) == [say("error_busy", "uk")]
    assert world.model.request_count == 6
    failed = "SELECT role, message_text(content), failed_at IS NOT NULL FROM messages"
    assert world.query(failed) == [("user", "вопрос", True)]
    world.model.reply = lambda request: f"эхо: {request.last_user_text}"
    await world.telegram.send_text(USER, "ещё", language_code="uk")
    await world.telegram.wait_sent(USER, 2)
    assert world.answers(USER)[1] == "эхо: ещё"
    assert "вопрос" in str(world.model.requests[-1].messages)


async def test_the_embedded_database_keeps_everything_over_restarts(
    world: World, tmp_path: Path
) -> None:
    settings = {"DATABASE_URL": "", "DATA_DIR": str(tmp_path)}
    for number, text in enumerate(("раз", "два"), start=1):
        bot = await world.start(**settings)
        await world.telegram.send_text(USER, text)
        await world.telegram.wait_sent(USER, number)
        assert await bot.terminate() == 0, bot.logs()
    assert "раз" in str(world.model.requests[-1].messages)
    assert not (tmp_path / "postgres" / "postmaster.pid").exists(), "the server has stopped"


@pytest.mark.parametrize("what", ["token", "port"])
async def test_settings_that_cannot_work_end_the_process_with_a_sentence(
    world: World, what: str
) -> None:
    if what == "token":
        bot = world.process(TELEGRAM_BOT_TOKEN="43:WRONG")
    else:
        bot = world.process(HTTP_PORT=str(world.telegram.port))
    await bot.spawn()
    assert await bot.wait_end() == 2
    name = "TELEGRAM_BOT_TOKEN" if what == "token" else "HTTP_PORT"
    assert any(line["event"].startswith(name) for line in bot.lines), bot.logs()


async def test_a_telegram_that_is_away_at_the_start_is_waited_for(world: World) -> None:
    await world.telegram.stop()
    bot = world.process()
    await bot.spawn()
    await bot.wait_log(lambda line: "did not answer getMe" in line["event"], what="the complaint")
    await world.telegram.start()
    await bot.wait_started()
    await world.telegram.send_text(USER, "привет")
    await world.telegram.wait_sent(USER)
    assert await bot.terminate() == 0
    await eventually(lambda: not bot.running, "the end")


async def test_half_open_connections_take_no_place_from_health_and_turns(world: World) -> None:
    found = await attack_half_open(world, n=1100, descriptors=400, seconds=0)
    assert found["refused"] == 0 and found["status"] == 0
    assert found["half_open"] >= 1000 and found["most_descriptors"] < 400
