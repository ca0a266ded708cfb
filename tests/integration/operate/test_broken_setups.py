"""Broken set-ups, and the remedy that ``doctor`` gives for each.

A new one is a line of a table: what the server sends, and a pattern of the remedy.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiogram.types import WebhookInfo
from aiohttp import web

from src.base.addresses import WebhookState
from src.base.config import Settings
from src.operate.checks import (
    MAX_SAID,
    CheckResult,
    check_access,
    check_embeddings,
    check_machine,
    check_model,
    check_versions,
)
from src.pg.client import PgClient
from src.pg.settings_repo import GlobalSettings
from src.telegram.receiver import read_state
from tests.conftest import execute
from tests.fakes import LoopbackServer

KEY = "sk-proj-CANARY0123456789"
OPENAI, CLAUDE, GEMINI = "openai:qwen2.5:7b", "anthropic:claude", "google_genai:gemini"


class Refusing(LoopbackServer):
    """Server that answers every call alike, but lists its models below ``/v1``."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__()
        self._status = status
        self._body = body if isinstance(body, str) else json.dumps(body)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/v1/models", self._list), web.route("*", "/{path:.*}", self._refuse)]

    async def _list(self, _request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "qwen2.5:14b"}, {"id": "bge-m3"}]})

    async def _refuse(self, _request: web.Request) -> web.Response:
        kind = "text/html" if self._body.startswith("<") else "application/json"
        return web.Response(status=self._status, text=self._body, content_type=kind)


def openai(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", **fields}}


def anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def google(code: int, status: str, message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, **more}}


COUNTRY, QUOTA, KEYS = "does not serve this country", "no quota or money left", "copy {}_API_KEY"
TOOLS, STREAM, CONTEXT = "has no tool calls", "does not stream", "16384 tokens or more"
PULL, MODEL, V1 = "ollama pull qwen2.5:7b", "knows no model", r"Write OPENAI_BASE_URL=http\S+/v1:"

# The model, its server's status and body, and the remedy.
REFUSALS: list[tuple[str, int, Any, str]] = [
    (OPENAI, 401, openai(f"Incorrect API key provided: {KEY}.", code="invalid_api_key"), KEYS),
    (OPENAI, 400, {"code": "Client error", "error": "Incorrect API key provided"}, KEYS),
    (CLAUDE, 401, anthropic("authentication_error", "invalid x-api-key"), KEYS),
    (GEMINI, 400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid one.",
                         details=[{"reason": "API_KEY_INVALID"}]), KEYS),
    (OPENAI, 403, openai("Country, region, or territory not supported",
                         code="unsupported_country_region_territory"), COUNTRY),
    (OPENAI, 403, {"error": {"message": "Access denied. Please check your network settings."}},
     COUNTRY),

    (GEMINI, 400, google(400, "FAILED_PRECONDITION",
                         "User location is not supported for the API use."), COUNTRY),
    (OPENAI, 429, openai("You exceeded your current quota, please check your plan and billing "
                         "details.", code="insufficient_quota"), QUOTA),
    (OPENAI, 402, openai("Insufficient Balance"), QUOTA),
    (CLAUDE, 400, anthropic("invalid_request_error", "Your credit balance is too low to access "
                            "the Anthropic API."), QUOTA),
    (OPENAI, 429, openai("Rate limit reached for requests", code="rate_limit_exceeded"),
     "too many requests"),
    (GEMINI, 429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please "
                         "check your plan and billing details."), "free quota is used up"),
    (CLAUDE, 529, anthropic("overloaded_error", "Overloaded"), "overloaded or broken"),
    (OPENAI, 404, openai("The model `qwen2.5:7b` does not exist or you do not have access to it.",
                         code="model_not_found"), f"{MODEL} qwen2.5:7b"),

    (OPENAI, 400, openai("qwen2.5:7b is not a valid model ID"), MODEL),
    (CLAUDE, 404, anthropic("not_found_error", "model: claude-x"), MODEL),
    (GEMINI, 404, google(404, "NOT_FOUND", "models/gemini is not found for API version v1beta"),
     MODEL),
    (OPENAI, 404, openai('model "qwen2.5:7b" not found, try pulling it first'), PULL),

    (OPENAI, 404, openai("No models loaded. Please load a model in the developer page."), PULL),
    (OPENAI, 404, "404 page not found", V1), (OPENAI, 404, {"detail": "Not Found"}, V1),
    (OPENAI, 404, "<html><title>404 Not Found</title></html>", V1),
    (OPENAI, 200, "<html><title>Open WebUI</title></html>", V1),
    (OPENAI, 200, {"error": "Unexpected endpoint or method. (POST /chat/completions)"}, V1),
    (OPENAI, 400, openai("registry.ollama.ai/library/gemma3:4b does not support tools",
                         type="api_error"), TOOLS),
    (OPENAI, 400, openai('"auto" tool choice requires --enable-auto-tool-choice and '
                         "--tool-call-parser to be set"), TOOLS),
    (OPENAI, 500, openai("tools param requires --jinja flag", type="server_error"), TOOLS),
    (OPENAI, 404, {"error": {"message": "No endpoints found that support tool use.",
                             "code": 404}}, TOOLS),
    (GEMINI, 400, google(400, "INVALID_ARGUMENT", "Function calling is not enabled for "
                         "models/gemma-3"), TOOLS),
    (OPENAI, 400, openai("Your organization must be verified to stream this model.",
                         param="stream", code="unsupported_value"), STREAM),

    (OPENAI, 500, openai("Cannot use tools with stream", type="server_error"), STREAM),
    (OPENAI, 400, openai("This model's maximum context length is 512 tokens.",
                         code="context_length_exceeded"), CONTEXT),
    (OPENAI, 400, openai("request (4390 tokens) exceeds the available context size (256 tokens), "
                         "try increasing it", type="exceed_context_size_error", n_ctx=256),
     CONTEXT),
    (OPENAI, 400, {"error": "The number of tokens to keep from the initial prompt is greater "
                            "than the context length (n_keep: 700>= n_ctx: 256)."}, CONTEXT),
    (CLAUDE, 400, anthropic("invalid_request_error", "prompt is too long: 210000 tokens"),
     CONTEXT),
    (OPENAI, 500, openai("something else", type="server_error"), "overloaded or broken"),
    (OPENAI, 400, openai("Invalid schema for function 'x': 'oneOf' is not supported"),
     "does not take the bot's requests"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "status", "body", "told"), REFUSALS)
async def test_each_refusal_of_a_model_has_its_remedy_and_its_server_s_own_sentence(
    model: str, status: int, body: Any, told: str
) -> None:
    async with Refusing(status, body) as server:
        found = await check_model(settings_of(model, server.url))
        if model == OPENAI and told in (KEYS, V1):
            embeddings = settings_of("offline", server.url, embedding_model="openai:bge")
            assert_told(await check_embeddings(embeddings), told.format("OPENAI"))
    vendor = {"openai": "OPENAI", "anthropic": "ANTHROPIC", "google_genai": "GOOGLE"}
    assert_told(found, told.format(vendor[model.partition(":")[0]]))
    said = body if isinstance(body, str) else json.dumps(body)
    quote = found.state.partition("“")[2].rstrip("”")
    assert KEY not in found.state and len(quote) <= MAX_SAID and "<" not in quote
    assert quote.replace("***", KEY)[:20] in said.replace('\\"', '"') and (quote or status == 200)


@pytest.mark.parametrize(("url", "told"), [
    ("http://127.0.0.1:1/v1", "nothing listens there"),
    ("http://nobody.invalid/v1", "nobody knows the host"), ("https://{}/v1", "no TLS"),
])  # fmt: skip
async def test_each_failure_of_the_network_has_its_remedy(url: str, told: str) -> None:
    async with Refusing(200, "{}") as server:
        address = url.format(server.url.partition("//")[2])
        for model in (OPENAI, CLAUDE, GEMINI):
            assert_told(await check_model(settings_of(model, address)), told)


async def test_the_models_of_the_server_are_listed_the_nearest_first() -> None:
    async with Refusing(404, openai('model "x" not found, try pulling it first')) as server:
        found = await check_model(settings_of(OPENAI, f"{server.url}/v1"))
    assert found.mend is not None and found.mend.endswith(". It has qwen2.5:14b")


def test_a_readable_env_file_and_a_full_disk_are_named(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("OPENAI_API_KEY=x")
    settings = Settings(data_dir=tmp_path / "not" / "yet")
    for mode, subjects in ((0o644, ["env file", "disk"]), (0o600, ["disk"])):
        os.chmod(file, mode)
        assert [result.subject for result in check_machine(settings, file)] == subjects
    [full] = check_machine(settings_of("offline", "", data_dir=Path("/proc")), file)
    assert full.mend is not None and "free space" in full.mend
    [no_folder] = check_machine(settings_of("offline", "", data_dir=file / "data"), file)
    assert no_folder.mend is not None and f"write into {file}" in no_folder.mend


PAID = {"telegram_bot_token": "42:TEST", "llm_model": "openai:gpt", "openai_api_key": KEY}


@pytest.mark.parametrize(("more", "limits", "subjects"), [
    ({}, {}, ["access"]), ({}, {"daily_tokens": 5}, []),
    ({"allowed_user_ids": "1001"}, {}, []), ({"telegram_bot_token": None}, {}, []),
    ({"openai_base_url": "http://localhost:11434/v1"}, {}, []), ({"llm_model": "offline"}, {}, []),
    ({"openai_base_url": "https://openrouter.ai/api/v1"}, {}, ["access"]),
])  # fmt: skip
def test_a_paid_model_open_to_everybody_without_a_ceiling_is_a_fault(
    more: dict[str, Any], limits: dict[str, Any], subjects: list[str]
) -> None:
    found = check_access(Settings(**{**PAID, **more}), GlobalSettings(**limits))
    assert [result.subject for result in found if result.mend] == subjects


def test_an_extension_that_is_missing_may_be_created_and_is_not(empty_dsn: str) -> None:
    client = PgClient(empty_dsn, max_connections=1)
    client.open()
    assert list(check_versions(client)) == []
    assert client.fetch_all("SELECT 1 FROM pg_extension WHERE extname = 'vector'") == []
    client.close()


def test_a_role_that_may_not_create_the_extension_learns_who_may(empty_dsn: str) -> None:
    execute(empty_dsn, "DROP ROLE IF EXISTS plain_reader")
    execute(empty_dsn, "CREATE ROLE plain_reader LOGIN")
    client = PgClient(f"{empty_dsn}&user=plain_reader", max_connections=1)
    client.open()
    tables, extension = check_versions(client)
    client.close()
    assert_told(tables, "ALTER DATABASE … OWNER TO")
    assert_told(extension, "superuser run in this database: CREATE EXTENSION vector")


def test_a_replica_is_no_database_for_the_bot(empty_dsn: str) -> None:
    options = "options=-cdefault_transaction_read_only%3Don"
    client = PgClient(f"{empty_dsn}&{options}", max_connections=1)
    client.open()
    found = next(check_versions(client))
    client.close()
    assert_told(found, "the server that is written to")


URL = "https://bot.example.org/telegram/webhook"
NOW, LONG_AGO = timedelta(), timedelta(hours=5)


def info(url: str, pending: int = 0, failed: timedelta | None = None) -> WebhookState:
    at = None if failed is None else datetime.now(UTC) - failed
    return read_state(
        WebhookInfo(
            url=url, has_custom_certificate=False, pending_update_count=pending,
            last_error_date=at,
            last_error_message="Wrong response from the webhook: 502 Bad Gateway",
        )
    )  # fmt: skip


@pytest.mark.parametrize(("url", "answer", "told"), [
    (URL, lambda: info(URL), None), (None, lambda: info(""), None),
    (URL, lambda: info(URL, 1, LONG_AGO), None), (URL, lambda: info(URL, 0, NOW), None),
    (URL, lambda: info(URL, 2, NOW), "2 updates wait.*502 Bad Gateway; look at the proxy"),
    (URL, lambda: info("https://old.example.org/x"), "leads to old.example.org; stop the other"),
    (URL, lambda: info(""), "no webhook is set; start the bot"),
    (None, lambda: info(URL), "keeps updates from polling; start the bot"),
    ("https://bot.example.org/", lambda: info(""), "lacks our path; end .*/telegram/webhook"),
])  # fmt: skip
def test_a_webhook_that_gets_nothing_is_named(
    url: str | None, answer: Callable[[], WebhookState], told: str | None
) -> None:
    problem = answer().find_problem(url)
    if told is None:
        assert problem is None
    else:
        assert_told(CheckResult("webhook", "", problem), told)


def settings_of(model: str, url: str, **more: Any) -> Settings:
    keys = dict.fromkeys(("openai_api_key", "anthropic_api_key", "google_api_key"), KEY)
    urls = dict.fromkeys(("openai_base_url", "anthropic_base_url", "google_base_url"), url or None)
    return Settings(llm_model=model, llm_timeout=5, **keys, **urls, **more)


def assert_told(found: CheckResult, told: str) -> None:
    assert found.mend is not None and re.search(told, found.mend), found
    assert "\n" not in found.state + found.mend and KEY not in found.state + found.mend
