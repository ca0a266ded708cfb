"""What an operator sees and sets: access, the log, health, webhook, a start that fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from src.texts import say
from tests.conftest import execute
from tests.e2e.bot_process import BotProcess, World, eventually, open_world
from tests.e2e.conftest import is_of_a_turn
from tests.fakes.openai_server import Reply, echo
from tests.tables import columns_that_hold

USER, STRANGER, ASKER, UNLUCKY = range(2**41 + 1, 2**41 + 5)
SECRET = "СЕКРЕТ-незнакомца"


@pytest.fixture(scope="module")
async def operated(shared_dsn: str) -> AsyncIterator[tuple[World, BotProcess]]:
    """A world with one bot, which lets strangers in nowhere and logs all that it may."""
    async with open_world(shared_dsn) as opened:
        opened.model.takes_queued = is_of_a_turn
        allowed = ",".join(map(str, (USER, ASKER, UNLUCKY)))
        yield opened, await opened.start(ALLOWED_USER_IDS=allowed, LOG_LEVEL="DEBUG")


async def test_a_stranger_gets_one_sentence_and_leaves_no_word(
    operated: tuple[World, BotProcess],
) -> None:
    world, bot = operated
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
    assert columns_that_hold(world.dsn, SECRET) == set()
    assert columns_that_hold(world.dsn, "привет"), "the search would find it"
    assert SECRET not in json.dumps(bot.lines, ensure_ascii=False)
    assert all(SECRET not in str(request.messages) for request in world.model.requests)


async def test_the_log_holds_no_text_and_no_token(operated: tuple[World, BotProcess]) -> None:
    world, bot = operated
    private = "СЕКРЕТ-знакомца"
    world.model.queue(Reply(status=500, error=private), Reply(status=413, error=private))
    await world.telegram.send_text(ASKER, private, first_name=private)
    await world.telegram.wait_sent(ASKER)
    await world.settled()
    log = json.dumps(bot.lines, ensure_ascii=False)
    assert world.answers(ASKER) == [say("error_model", "ru")]
    assert len(bot.lines) >= 3 and private not in log and world.telegram.token not in log


async def test_a_model_that_is_down_for_good_is_apologised_for(
    operated: tuple[World, BotProcess],
) -> None:
    world, _ = operated
    soon = {"Retry-After": "0.1"}  # else the back-off would take half a minute
    world.model.reply = lambda _request: Reply(status=503, headers=soon)
    asked = world.model.request_count
    await world.telegram.send_text(UNLUCKY, "вопрос", language_code="uk")
    await world.telegram.wait_sent(UNLUCKY)
    await world.settled()
    assert world.answers(UNLUCKY) == [say("error_busy", "uk")]
    assert world.model.request_count == asked + 6
    failed = (
        "SELECT role, message_text(content), failed_at IS NOT NULL FROM messages m"
        " JOIN conversations c ON c.id = m.conversation_id WHERE c.telegram_user_id = %s"
    )
    assert world.query(failed, UNLUCKY) == [("user", "вопрос", True)]
    world.model.reply = echo
    await world.telegram.send_text(UNLUCKY, "ещё", language_code="uk")
    await world.telegram.wait_sent(UNLUCKY, 2)
    assert world.answers(UNLUCKY)[1] == "эхо: ещё"
    assert "вопрос" in str(world.model.requests[-1].messages)


def value_of(metrics: str, name: str) -> float:
    """The value of one line of the metrics; 0 when there is none."""
    lines = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line[:1] != "#")
    return float(lines.get(name, 0))


async def test_health_readiness_and_metrics(
    operated: tuple[World, BotProcess], postgres_server: str
) -> None:
    world, bot = operated
    sent = len(world.answers(USER))
    async with httpx.AsyncClient(base_url=bot.http) as http:
        before = (await http.get("/metrics")).text
        await world.telegram.send_text(USER, "здравствуй")
        await world.telegram.wait_sent(USER, sent + 1)
        await world.settled()
        assert (await http.get("/healthz")).text == "ok"
        ready = await http.get("/readyz")
        assert ready.status_code == 200
        assert ready.json() == {"ready": True, "database": "ok", "telegram": "ok", "worker": "ok"}
        metrics = (await http.get("/metrics")).text
        for name in (
            'pomni_turns_total{outcome="answered"}',
            'pomni_updates_total{kind="message"}',
        ):
            assert value_of(metrics, name) == value_of(before, name) + 1, name
        assert "pomni_queue_waiting 0.0" in metrics
        assert str(USER) not in metrics and "здравствуй" not in metrics
        assert (await http.post("/telegram/webhook", json={})).status_code == 404
        await without_a_database(http, world, postgres_server)
    await world.telegram.send_text(USER, "снова")
    await world.telegram.wait_sent(USER, sent + 2)
    assert await bot.terminate() == 0


async def without_a_database(http: httpx.AsyncClient, world: World, server: str) -> None:
    """While nobody can connect to it the bot is alive but not ready; then it is again."""
    name = world.dsn.partition("?")[0].rpartition("/")[2]
    execute(
        server,
        f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
    )
    away, health, metrics = await asyncio.gather(
        *(http.get(path, timeout=30) for path in ("/readyz", "/healthz", "/metrics"))
    )
    assert away.status_code == 503 and away.json()["ready"] is False
    assert away.json()["database"] != "ok"
    assert (health.status_code, metrics.status_code) == (200, 200)
    execute(server, f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
    async with asyncio.timeout(30):
        while (await http.get("/readyz", timeout=30)).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def test_a_webhook_end_to_end_with_a_drain_at_the_end(world: World) -> None:
    telegram, model = world.telegram, world.model
    bot = await world.start(
        TELEGRAM_WEBHOOK_URL="http://127.0.0.1:1/telegram/webhook",
        TELEGRAM_WEBHOOK_SECRET="a-secret_0123456789",
    )
    await telegram.wait_for(lambda: telegram.webhook.url and len(telegram.commands) == 6)
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


async def test_settings_that_cannot_work_end_the_process_with_a_sentence(world: World) -> None:
    wrong = {"TELEGRAM_BOT_TOKEN": "43:WRONG", "HTTP_PORT": str(world.telegram.port)}
    bots = {name: world.process(**{name: value}) for name, value in wrong.items()}
    for bot in bots.values():
        await bot.spawn()
    assert await asyncio.gather(*(bot.wait_end() for bot in bots.values())) == [2, 2]
    for name, bot in bots.items():
        assert any(line["event"].startswith(name) for line in bot.lines), bot.logs()


async def test_a_telegram_that_is_away_at_the_start_is_waited_for(world: World) -> None:
    """Until it has answered getUpdates, too, the bot is not ready."""
    telegram = world.telegram
    telegram.fail_next("getUpdates", times=1000, status=500)
    await telegram.stop()
    bot = world.process()
    await bot.spawn()
    refused = "did not answer getMe (Connect call failed"
    await bot.wait_log(lambda line: refused in line["event"], what="the complaint")
    await telegram.start()
    await bot.wait_started()
    assert sum(refused in line["event"] for line in bot.lines) == 1, "told once, with the cause"
    async with httpx.AsyncClient(base_url=bot.http) as http:
        ready = await http.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["telegram"] == "Telegram has not answered getUpdates yet"
    assert ready.json()["database"] == "ok"
    telegram.faults.scripted["getUpdates"].clear()
    await telegram.send_text(USER, "привет")
    await telegram.wait_sent(USER)
    assert await bot.terminate() == 0
    await eventually(lambda: not bot.running, "the end")
