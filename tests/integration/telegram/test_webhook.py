"""The webhook's route: what is stored is confirmed, nothing else is, and nobody forges."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from src.base.config import Settings
from src.base.errors import ConfigError
from src.core import Core
from src.history.conversation_repo import set_conversation_repo_factory
from src.pg.client import PgClient
from src.telegram.receiver import WebhookRoute, WebhookWatch
from src.web.http_server import build_http_app
from tests.conftest import query
from tests.fakes.telegram_server import FakeTelegram
from tests.hostile_updates import message, update
from tests.integration.polling import build_intake, eventually, open_bot, texts

SECRET = "a-Secret_of-32-characters-0123456"
HEADER = "X-Telegram-Bot-Api-Secret-Token"
PATH = "/telegram/webhook"


@pytest.fixture
async def telegram(client: PgClient) -> AsyncIterator[httpx.AsyncClient]:
    """Telegram's side: it knows the secret."""
    core = Core(Settings(pg_host="localhost"), client)
    app = build_http_app(core, webhook=WebhookRoute(build_intake(client), SECRET))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://test", headers={HEADER: SECRET}
    ) as opened:
        yield opened
    set_conversation_repo_factory(None)


def stored(client: PgClient) -> int:
    return int(query(client.dsn, "SELECT count(*) FROM telegram_updates")[0][0])


async def test_an_update_is_stored_with_its_job_before_the_200(
    telegram: httpx.AsyncClient, client: PgClient
) -> None:
    for _ in range(2):  # the second time as a duplicate
        response = await telegram.post(PATH, json=update(message=message("привет")))
        assert response.status_code == 200
    assert texts(client.dsn) == ["привет"]
    assert query(client.dsn, "SELECT count(*) FROM procrastinate_jobs") == [(1,)]


@pytest.mark.parametrize(
    "secret", [None, "", "wrong", SECRET[:-1], SECRET + "0", SECRET.upper(), b"\xff\xfe\xd0\xb9"]
)
async def test_a_wrong_secret_or_none_is_forbidden(
    telegram: httpx.AsyncClient, client: PgClient, secret: str | bytes | None
) -> None:
    telegram.headers.pop(HEADER)
    given = secret.encode() if isinstance(secret, str) else secret
    headers = [] if given is None else [(HEADER.encode(), given)]
    response = await telegram.post(PATH, json=update(message=message("подделка")), headers=headers)
    assert response.status_code == 403
    assert stored(client) == 0


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"9" * 5000, b"{'update_id': 1}"],
    ids=["empty", "cut", "not UTF-8", "deep", "a long number", "Python"],
)
async def test_what_is_not_json_is_a_bad_request(telegram: httpx.AsyncClient, body: bytes) -> None:
    response = await telegram.post(PATH, content=body)
    assert response.status_code == 400


@pytest.mark.parametrize("raw", [[], 5, {}, {"update_id": "x"}, {"update_id": 1, "future": {}}])
async def test_json_that_nobody_handles_is_confirmed_and_not_stored(
    telegram: httpx.AsyncClient, client: PgClient, raw: Any
) -> None:
    response = await telegram.post(PATH, content=json.dumps(raw).encode())
    assert response.status_code == 200
    assert stored(client) == 0


@pytest.mark.own_database
async def test_without_the_database_telegram_is_asked_to_try_again(
    telegram: httpx.AsyncClient, client: PgClient
) -> None:
    client.close()
    body = update(message=message("подожди"))
    assert (await telegram.post(PATH, json=body)).status_code == 503
    client.open()
    assert (await telegram.post(PATH, json=body)).status_code == 200
    assert texts(client.dsn) == ["подожди"]


def test_a_webhook_without_a_secret_is_refused(client: PgClient) -> None:
    with pytest.raises(ConfigError, match="TELEGRAM_WEBHOOK_SECRET"):
        WebhookRoute(build_intake(client), "")


async def test_readiness_asks_telegram_instead_of_counting_quiet_minutes(client: PgClient) -> None:
    url = f"https://bot.example.org{PATH}"
    intake = build_intake(client)
    async with FakeTelegram() as fake, open_bot(fake) as bot:
        watch = WebhookWatch(bot, intake, url)
        app = build_http_app(
            Core(Settings(pg_host="localhost"), client), find_webhook_problem=lambda: watch.problem
        )
        running = asyncio.ensure_future(watch.run())
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://test"
        ) as probe:
            await eventually(lambda: "no webhook is set" in str(watch.problem))
            assert "no webhook" in (await probe.get("/readyz")).json()["telegram"]
            assert intake.last_received is None
            fake.webhook.url = url  # quiet: nobody writes
            await eventually(lambda: watch.problem is None)
            assert (await probe.get("/readyz")).json()["telegram"] == "ok"
        assert intake.last_received is not None
        running.cancel()
    set_conversation_repo_factory(None)


async def test_a_body_that_breaks_off_is_no_error(
    telegram: httpx.AsyncClient, client: PgClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection went away while Telegram was sending: it sends the update again."""
    app: Any = telegram._transport.app  # type: ignore[attr-defined]
    events = iter(
        [
            {"type": "http.request", "body": b'{"update_id": 1', "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return next(events)

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    headers = [(HEADER.lower().encode(), SECRET.encode())]
    scope = {
        "type": "http", "method": "POST", "path": PATH, "headers": headers,
        "query_string": b"", "http_version": "1.1",
    }  # fmt: skip
    await app(scope, receive, send)
    assert sent[0]["status"] == 400 and stored(client) == 0
    assert caplog.records == []
