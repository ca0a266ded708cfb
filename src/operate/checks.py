"""Checks of ``doctor``: machine, access, database's versions, Telegram, proxies, models."""

import asyncio
import html
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from pydantic import Field, SecretStr
from socksio import ProtocolError

from src.base.addresses import WebhookState, without_login
from src.base.config import LOCAL_EMBEDDINGS, OFFLINE_MODEL, Settings
from src.base.errors import AppError, StorageError, causes
from src.base.logs import redact_text
from src.base.metrics import Metrics
from src.base.providers import PROVIDERS, Provider, find_provider
from src.llm import chat, embeddings, quoting, reply
from src.llm.errors import read_report
from src.pg.client import PgClient
from src.pg.settings_repo import GlobalSettings

LOW_DISK = 1.0  # GB free; less is soon full of write-ahead log and a growing chat
READABLE_BY_OTHERS = 0o004
PROXY_SECONDS = 10.0  # for each step of a request
REFUSALS = (403, 407, 502, 503, 504)  # statuses of a proxy
ADDRESS = "correct its address, or start it"
LOGIN = "correct the user and the password in its address (special characters as %40)"
KIND = "is it a proxy of this kind (http, https, socks5), and the port its own?"
RULES = "allow the host in its rules; a host that needs no proxy belongs in NO_PROXY"
BEHIND = "look at the proxy's own network; a host that needs no proxy belongs in NO_PROXY"
# The error of httpx2 and its causes, what fails ({}: the host behind the proxy), and the remedy.
NO_PROXY_ERROR = r"ProtocolError: (?!Server disc)|ProxyError|text/html|ConnectError"
NO_PROXY_STATE = "it answers, but not as a proxy to {}: a page (HTML) or another program"
PROBLEMS = (
    (r"Errno -\d", "its name is unknown", ADDRESS),
    (r"ConnectTimeout", "it cannot be reached", ADDRESS),
    (r"ReadTimeout", "it does not answer, or {} behind it does not", KIND),
    (r"407|Invalid username|Requested .*but got (USER|NO ACC)", "its login is refused", LOGIN),
    (r"Requested .*but got", "it asks for no login", LOGIN),
    (r"not allowed|ProxyError: 403", "it refuses to lead to {}", RULES),
    (r"could not connect|ProxyError: 50\d", "{} behind it cannot be reached", BEHIND),
    (r"CERTIFICATE", "the certificate on the way to {} is not trusted", BEHIND),
    (r"All connection attempts", "nobody listens at its port", ADDRESS),
    (NO_PROXY_ERROR, NO_PROXY_STATE, KIND),
    (r"", "it breaks off the connection to {}", KIND),
)
SECONDS = 15.0  # for each step of a request
POSTGRES, PGVECTOR = 17, (0, 7)  # minimum: of ``restore``; of halfvec and binary_quantize

# Select the version of the server, and pgvector's: of this database, of the server's packages; and
# whether it takes no writes, and this user may create tables.
SELECT_VERSIONS = """
SELECT current_setting('server_version_num')::int / 10000,
       (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
       (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),
       current_setting('transaction_read_only')::bool,
       has_schema_privilege(current_schema(), 'CREATE')
"""


@dataclass(frozen=True)
class CheckResult:
    """Line of the table; ``mend`` is the remedy, None if all is well."""

    subject: str
    state: str
    mend: str | None = None


def check_machine(settings: Settings, env_file: Path) -> Iterator[CheckResult]:
    """Yield what is wrong with the rights of ``.env``, and the room for the embedded database."""
    if env_file.is_file() and env_file.stat().st_mode & READABLE_BY_OTHERS:
        state = "every user of this machine can read .env, its keys and passwords"
        yield CheckResult("env file", state, f"chmod 600 {env_file}")
    if settings.uses_embedded_database:
        folder = settings.data_dir.absolute()
        existing = next(place for place in (folder, *folder.parents) if place.exists())
        free, mend = shutil.disk_usage(existing).free / 2**30, None
        if free < LOW_DISK:
            mend = "free space, or move DATA_DIR to a larger disk: a full one stops the bot"
        elif not (existing.is_dir() and os.access(existing, os.W_OK)):
            mend = f"run it as the bot's user, who must be able to write into {existing}"
        yield CheckResult("disk", f"{free:.1f} GB free for DATA_DIR", mend)


def check_access(settings: Settings, limits: GlobalSettings) -> Iterator[CheckResult]:
    """Yield what strangers may spend; nothing if the bot is closed, or its model costs nothing."""
    if not settings.is_open_and_paid:
        return
    state = (
        f"open to everybody, and {settings.chat_model_name} costs money; a day has "
        f"{limits.daily_messages} messages, {limits.daily_tokens} tokens (0: no limit)"
    )
    mend = (
        "write your Telegram id as ALLOWED_USER_IDS (write 1 first, then to the bot: its refusal "
        "tells your id); for a public bot, set daily_tokens on the admin page or in psql"
    )
    is_limited = limits.daily_messages or limits.daily_tokens
    yield CheckResult("access", state, None if is_limited else mend)


def check_versions(client: PgClient) -> Iterator[CheckResult]:
    """Yield what the server lacks: a newer version, pgvector, or the right to write or create."""
    [(server, installed, packaged, is_read_only, may_create)] = client.fetch_all(SELECT_VERSIONS)
    if is_read_only or not may_create:
        mend = "name the server that is written to, and run: ALTER DATABASE … OWNER TO its user"
        yield CheckResult("database", "it is a replica, or this user may not create tables", mend)
    if server < POSTGRES:
        mend = f"upgrade it: Pomni needs PostgreSQL {POSTGRES} or newer"
        yield CheckResult("database", f"PostgreSQL {server} is too old", mend)
    version = installed or packaged
    if version is None:
        mend = f"install pgvector on the server (Debian: postgresql-{server}-pgvector)"
        yield CheckResult("extension", "vector is not on the server", mend)
    elif tuple(map(int, version.split(".")[:2])) < PGVECTOR:
        mend = "install pgvector 0.7 or newer; a superuser runs: ALTER EXTENSION vector UPDATE"
        yield CheckResult("extension", f"vector {version} is too old", mend)
    elif installed is None and not _may_create(client):
        mend = "let a superuser run in this database: CREATE EXTENSION vector"
        yield CheckResult("extension", "vector is missing, and this user may not create it", mend)


def _may_create(client: PgClient) -> bool:
    """Try it, and roll it back: managed servers have rules of their own."""
    try:
        with client.transaction() as transaction:
            transaction.execute("CREATE EXTENSION vector")
            transaction.execute("ROLLBACK")
    except StorageError:
        return False
    return True


async def check_telegram(settings: Settings) -> list[CheckResult]:
    """Ask Telegram for the identity of the bot, and for the state of its webhook."""
    if settings.telegram_bot_token is None:
        mend = None if settings.console_fallback else "set TELEGRAM_BOT_TOKEN, from @BotFather"
        return [CheckResult("telegram", "no token: the console opens instead", mend)]
    method = "getMe"
    try:
        me = await _call(settings, settings.telegram_bot_token, method)
        identity = CheckResult("telegram", f"@{me['username']} ({me['id']})")
        method = "getWebhookInfo"
        info = await _call(settings, settings.telegram_bot_token, method)
        state = WebhookState(
            info["url"],
            info["pending_update_count"],
            info.get("last_error_date", 0.0),
            info.get("last_error_message"),
        )
    except PermissionError:
        mend = "copy TELEGRAM_BOT_TOKEN from @BotFather again"
        return [CheckResult("telegram", "the token is refused", mend)]
    except (httpx2.HTTPError, ProtocolError, ValueError, LookupError, TypeError) as error:
        cause = type(error).__name__
        if isinstance(error, httpx2.TransportError):  # whose words tell nothing of the request
            cause = f"{cause} {error}".strip()
        mend = "look at the network, and TELEGRAM_API_BASE; if it is blocked, set TELEGRAM_PROXY"
        return [CheckResult("telegram", f"Telegram did not answer {method} ({cause})", mend)]
    problem = state.find_problem(settings.telegram_webhook_url)
    if problem is None:
        return [identity]
    what, _, mend = problem.rpartition("; ")
    return [identity, CheckResult("webhook", what, mend)]


async def _call(settings: Settings, token: SecretStr, method: str) -> Any:
    """Return the result of a method.

    Raises:
        PermissionError: The token is refused.
        httpx2.HTTPError: There is no answer, or an error.
        ValueError, LookupError, TypeError: The answer is not the Bot API's.
    """
    base = settings.telegram_api_base
    proxy = settings.telegram_proxy_to(base)
    async with httpx2.AsyncClient(proxy=proxy, timeout=SECONDS) as client:
        response = await client.get(f"{base}/bot{token.get_secret_value()}/{method}")
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        raise PermissionError
    response.raise_for_status()
    return response.json()["result"]


async def check_proxies(settings: Settings) -> list[CheckResult]:
    """Try each way through a proxy, hop by hop."""
    ways = dict.fromkeys(_list_ways(settings))
    found = await asyncio.gather(*(_check_hops(proxy, origin) for proxy, origin in ways))
    return [CheckResult("proxy", *one) for one in found]


def _list_ways(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each proxy in use, and the origin behind it."""
    models = [settings.chat_model_name, settings.summary_model, settings.extraction_model]
    models += [settings.vision_model, settings.embedding_model]
    providers = filter(None, (find_provider(name or "") for name in models))
    urls = [provider.base_url(settings) or provider.address for provider in providers]
    urls += filter(None, (settings.transcription_base_url, settings.rerank_url))
    ways = [(settings.model_proxy_to(url), url) for url in urls]
    if settings.telegram_bot_token:
        base = settings.telegram_api_base
        ways.insert(0, (settings.telegram_proxy_to(base), base))
    for proxy, url in ways:
        if proxy is not None:
            yield proxy, f"{urlsplit(url).scheme}://{urlsplit(url).netloc}/"


async def _check_hops(proxy: str, origin: str) -> tuple[str, str | None]:
    host, shown = urlsplit(origin).hostname, without_login(proxy)
    problem = await _request(proxy, origin)
    if problem is None:
        return f"{shown} leads to {host}", None
    sentence, mend = next((s, m) for pattern, s, m in PROBLEMS if re.search(pattern, problem))
    return f"{shown}: {sentence.format(host)}", mend


async def _request(proxy: str, url: str) -> str | None:
    """Request an address; return the error, or the response of what is no API."""
    try:
        async with httpx2.AsyncClient(proxy=proxy, timeout=PROXY_SECONDS) as client:
            response = await client.head(url)
    except (httpx2.TransportError, ProtocolError) as error:
        return " <- ".join(f"{type(link).__name__}: {link}" for link in causes(error))
    kind = response.headers.get("content-type", "")
    # An HTTP proxy passes on requests for http: itself, so that it may be the one who answers.
    is_forwarded = proxy.startswith("http") and url.startswith("http:")
    if is_forwarded and (kind.startswith("text/html") or response.status_code in REFUSALS):
        return f"ProxyError: {response.status_code} {kind}"
    return None


# Calls of the language model and of the embeddings, and their failures.

MAX_SAID = 200  # characters of the server's own sentence
MAX_MODELS = 5  # names of models that a remedy lists
PROBE_SECONDS = 5.0
TAGS = re.compile(r"(?is)<(script|style)\b.*?</\1>|<[^>]*>")
# Endings that may be missing in the address of a server with OpenAI's protocol.
PATHS = ("/v1", "/api/v1", "/openai/v1")
NO_TOOLS = (
    "choose a model with tool calls, and let the server pass them on (llama-server --jinja; "
    "vllm --enable-auto-tool-choice); without them it remembers little"
)


async def check_model(settings: Settings) -> CheckResult:
    """Call the language model once, with a tool."""
    name = settings.chat_model_name
    if name == OFFLINE_MODEL:
        return CheckResult("model", "offline: remembers and quotes, no language model")
    first, silence = settings.first_token_timeout(name), settings.llm_timeout
    spent: list[reply.ModelUsage] = []
    try:
        model = chat.build_provider_model(settings, name)
        caller = chat.ModelCaller(model, name, timeout=silence, first_timeout=first)
        message = await caller.stream(
            caller.with_tools([note_words]),
            [HumanMessage(f"{uuid.uuid4()} {PROMPT_TEXT}\n{PROMPT_TASK}")],  # unique: not cached
            purpose="doctor",
            on_text=lambda _text: None,
            on_usage=spent.append,
        )
    except AppError as error:
        return await _describe_failure(settings, "model", "LLM_MODEL", name, error)
    speed = _format_speed(spent[0])
    if message.tool_calls:
        return CheckResult("model", f"{name}, {speed}, calls tools")
    way, mend = await _try_form(settings, name, caller)
    return CheckResult("model", f"{name}, {speed}, {way}", mend)


# Some 500 prompt and 50 completion tokens: enough to measure, and within a minute everywhere.
PROMPT_TEXT = " ".join(f"{number} times {number} is {number**2}." for number in range(12, 72))
PROMPT_TASK = "Note, with your tool, the English words for the numbers from one to twenty."


@tool
def note_words(words: str) -> str:
    """Take a note of words."""
    return words


class NumbersForm(quoting.Form):
    """Form by which a model is tried."""

    words: list[str] = Field(default_factory=list)


FORM_TASK = "Fill in the form as JSON: words are the English words for the numbers one to five."


async def _try_form(
    settings: Settings, name: str, caller: chat.ModelCaller
) -> tuple[str, str | None]:
    """Return how a model works that has called no tool, and the remedy if there is one."""
    if not PROVIDERS[name.partition(":")[0]].has_openai_client:
        return "does not call tools", NO_TOOLS
    try:
        form = await caller.form(
            [HumanMessage(FORM_TASK)], NumbersForm, purpose="doctor", on_usage=lambda _usage: None
        )
    except AppError:
        form = NumbersForm()
    if not form.words:
        return "neither calls tools nor fills in forms", NO_TOOLS
    is_tried = settings.llm_calls == "auto" and settings.is_own_server(name)
    if is_tried or settings.llm_calls == "form":
        return "does not call tools, but fills in forms, which are used instead", None
    return "does not call tools, but fills in forms", "set LLM_CALLS=form"


def _format_speed(spent: reply.ModelUsage) -> str:
    text = f"answered in {spent.duration_ms / 1000:.1f} s"
    uncached, completed = spent.uncached_tokens, spent.completion_tokens or 0
    writing_ms = spent.duration_ms - spent.first_ms
    if not uncached or not completed:
        return text
    reading_speed = f"{uncached / max(1, spent.first_ms) * 1000:.0f} tokens a second read"
    return f"{text}: {reading_speed}, {completed / max(1, writing_ms) * 1000:.0f} written"


async def check_embeddings(settings: Settings) -> CheckResult:
    """Embed a question."""
    embedder = embeddings.build_embedder(settings, settings.embedding_model, Metrics())
    try:
        await embedder.embed_query("warm-up")
        start = time.perf_counter()
        vector = await embedder.embed_query("Where do I live?")
    except AppError as error:
        name = embedder.name
        if name == LOCAL_EMBEDDINGS:
            mend = "look at this machine's memory; make run installs the packages again"
            return CheckResult("embeddings", f"{name}: {error}", mend)
        return await _describe_failure(settings, "embeddings", "EMBEDDING_MODEL", name, error)
    finally:
        await embedder.close()
    milliseconds = 1000 * (time.perf_counter() - start)
    return CheckResult(
        "embeddings", f"{embedder.name}, {len(vector)} dimensions, {milliseconds:.0f} ms a query"
    )


async def _describe_failure(
    settings: Settings, subject: str, variable: str, name: str, error: AppError
) -> CheckResult:
    """Name the failure, quote the server's own sentence, and look for what would work."""
    prefix, _, model = name.partition(":")
    provider, report = PROVIDERS[prefix], read_report(error)
    mend = report.failure.mend.format(
        model=model, variable=variable, key=provider.key_variable, url=provider.base_url_variable
    )
    said = html.unescape(TAGS.sub(" ", report.said))
    said = redact_text(" ".join(reply.sanitize(said).split()), settings.secrets())
    state = f"{name}: {error}"
    if said:
        state += f": “{said[:MAX_SAID]}”"
    if report.failure.name in ("address", "model", "pull") and provider.has_openai_client:
        mend += await _find_better(settings, provider, model)
    return CheckResult(subject, state, redact_text(mend, settings.secrets()))


async def _find_better(settings: Settings, provider: Provider, model: str) -> str:
    """Return the address that lists models, or the models that the address lists."""
    base, headers = provider.base_url(settings), {}
    if base is None:
        return ""
    if provider.key(settings):
        headers["Authorization"] = f"Bearer {provider.secret(settings).get_secret_value()}"
    root = re.sub(r"/(v1|chat/completions|embeddings|models)(?=/|$).*", "", base)
    async with httpx2.AsyncClient(
        headers=headers, timeout=PROBE_SECONDS, proxy=provider.proxy(settings)
    ) as client:
        for address in dict.fromkeys([base, *(root + path for path in PATHS)]):
            try:
                answer = (await client.get(f"{address}/models")).json()
                models = [str(entry["id"]) for entry in answer["data"]]
            except (httpx2.HTTPError, ProtocolError, ValueError, LookupError, TypeError):
                continue
            if models and address != base:
                return f". Write {provider.base_url_variable}={address}: it answers"
            if models:
                nearest = get_close_matches(model, models, MAX_MODELS) or models
                return f". It has {', '.join(nearest[:MAX_MODELS])}"
    return ""
