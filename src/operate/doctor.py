"""``python bot.py doctor``: check what the bot needs, and say how to mend what is missing."""

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from src.base.config import OFFLINE_MODEL, Settings
from src.base.errors import AppError, ConfigError, SchemaRefusedError
from src.base.metrics import Metrics
from src.base.zones import local_time, name_of_zone
from src.llm.chat import ModelCaller, build_provider_model
from src.llm.embeddings import build_embedder
from src.llm.reply import ModelUsage
from src.outside.servers import McpServers, ServerState
from src.pg.client import PgClient
from src.pg.embedded import open_database
from src.pg.migrations import check_sessions, find_version, newest_version
from src.queue.dead_jobs import JobDeathRepository, PutAside
from src.queue.job_repo import WorkerRepository
from src.queue.update_repo import UpdateRepository

# What the server is, and what it takes for the time.
SELECT_SERVER = "SELECT current_setting('server_version'), extract(epoch FROM now())::float8"
MAX_CLOCK_SKEW = 5.0  # seconds between our clock and PostgreSQL's
MAX_WAIT = 60.0  # seconds of an update
MAX_SILENCE = 60.0  # seconds without a heartbeat, after which no worker lives


@dataclass(frozen=True)
class Finding:
    """One line of the table; ``mend`` is None when all is well."""

    subject: str
    state: str
    mend: str | None = None


AskTelegram = Callable[[Settings], Awaitable[str]]


async def run_doctor(
    settings: Settings, ask_telegram: AskTelegram, *, as_json: bool = False
) -> int:
    """Run every check, print a table; returns 0, or 1 when something needs mending.

    Args:
        settings: The settings.
        ask_telegram: Who the bot of their token is; raises ``ConfigError`` where it is refused,
            and ``AppError`` where Telegram cannot be reached.
        as_json: Print one object instead: ``{"ok": bool, "findings": [{"subject": str,
            "state": str, "mend": str|null}]}``.
    """
    findings = [*_examine_settings(settings), *await _check_database(settings)]
    findings.append(await _check_telegram(settings, ask_telegram))
    findings += [await _check_model(settings), await _check_embeddings(settings)]
    findings += [_examine_time_zone(settings), *await _check_servers(settings)]
    is_well = not any(finding.mend for finding in findings)
    if as_json:
        report = {"ok": is_well, "findings": [asdict(finding) for finding in findings]}
        print(json.dumps(report, ensure_ascii=False))
        return 0 if is_well else 1
    for finding in findings:
        verdict = "OK" if finding.mend is None else f"MEND: {finding.mend}"
        print(f"{finding.subject:<12} {finding.state:<48} {verdict}")
    return 0 if is_well else 1


def _examine_settings(settings: Settings) -> list[Finding]:
    """Variables that are none of ours; there is no line when there is none."""
    parts = [line.partition(". ") for line in settings.warnings]
    findings = [Finding("settings", what, mend) for what, _, mend in parts]
    if settings.unread:
        state = f".env has what the bot does not read: {', '.join(settings.unread)}"
        findings.append(Finding("settings", state))
    return findings


async def _check_database(settings: Settings) -> list[Finding]:
    try:
        async with open_database(settings) as dsn:
            return await asyncio.to_thread(_examine_database, settings, dsn)
    except ConfigError as error:
        return [Finding("database", error.problems[0], "see PgBouncer in docs/operating.md")]
    except AppError as error:
        mend = (
            "look at the message; is there room under DATA_DIR?"
            if settings.uses_embedded_database
            else "is PostgreSQL running, and are DATABASE_URL or PG_* right?"
        )
        return [Finding("database", str(error).splitlines()[0][:400], mend)]


def _examine_database(settings: Settings, dsn: str) -> list[Finding]:
    if not settings.uses_embedded_database:
        check_sessions(dsn)
    with closing(PgClient(dsn, max_connections=1)) as client:
        client.open()
        [(version, server_time)] = client.fetch_all(SELECT_SERVER)
        skew = abs(time.time() - server_time)
        schema = _examine_schema(client)
    kind = "embedded" if settings.uses_embedded_database else "configured"
    mend = None if skew <= MAX_CLOCK_SKEW else "set the clock of this machine or of PostgreSQL's"
    return [
        Finding("database", f"PostgreSQL {version}, {kind}"),
        *schema,
        Finding("clock", f"{skew:.1f} s from the database's", mend),
    ]


def _examine_jobs(client: PgClient) -> list[Finding]:
    """What waits, and what is put aside."""
    count = JobDeathRepository(client).count()
    waiting, oldest = UpdateRepository(client).count_waiting()
    heartbeat = WorkerRepository(client).seconds_since_heartbeat()
    mend = "python bot.py jobs lists what kills its process; --retry gives it back to the queue"
    return [
        Finding("jobs", f"{count or 'none'} put aside", mend if count else None),
        _examine_queue(waiting, oldest, heartbeat),
    ]


def _examine_queue(waiting: int, oldest: float, heartbeat: float | None) -> Finding:
    """Updates wait for a moment only, unless no worker lives."""
    is_worked = heartbeat is not None and heartbeat < MAX_SILENCE
    workers = "a worker lives" if is_worked else "no worker"
    if not waiting:
        return Finding("queue", f"nothing waits, {workers}")
    state = f"{waiting} wait, the oldest for {oldest:.0f} s, {workers}"
    if oldest < MAX_WAIT:
        return Finding("queue", state)
    mend = "look into the bot's log" if is_worked else "start the bot, or python bot.py worker"
    return Finding("queue", state, mend)


def describe(job: PutAside) -> str:
    """A line about what is put aside: ids and times, no text of anybody's."""
    where = [
        f"job {job.job_id}",
        f"chat {job.chat_id}" if job.chat_id else "",
        f"conversation {job.conversation_id}" if job.conversation_id else "",
    ]
    return (
        f"{job.id:<6} {job.task:<20} {', '.join(filter(None, where))}; "
        f"{job.deaths} deaths, put aside since {job.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    )


def _examine_schema(client: PgClient) -> list[Finding]:
    """The version of the schema, and what can be read from it when it is the newest."""
    newest = newest_version()
    try:
        version = find_version(client.dsn)
    except SchemaRefusedError as error:
        return [Finding("schema", error.state, error.mend)]
    if version != newest:
        return [
            Finding("schema", f"version {version or 'none'}; the next start makes it {newest}")
        ]
    return [Finding("schema", f"version {version}, the newest"), *_examine_jobs(client)]


async def _check_telegram(settings: Settings, ask_telegram: AskTelegram) -> Finding:
    if settings.telegram_bot_token is None:
        mend = None if settings.console_fallback else "set TELEGRAM_BOT_TOKEN, from @BotFather"
        return Finding("telegram", "no token: the console opens instead", mend)
    try:
        identity = await ask_telegram(settings)
    except ConfigError:
        return Finding(
            "telegram", "the token is refused", "copy TELEGRAM_BOT_TOKEN from @BotFather again"
        )
    except AppError as error:
        return Finding("telegram", str(error), "is TELEGRAM_API_BASE right and reachable?")
    return Finding("telegram", identity)


async def _check_model(settings: Settings) -> Finding:
    name = settings.chat_model_name
    if name == OFFLINE_MODEL:
        return Finding("model", "offline: remembers and quotes, no language model")
    first, silence = settings.first_token_timeout(name), settings.llm_timeout
    model = build_provider_model(settings, name)
    caller = ModelCaller(model, name, timeout=silence, first_timeout=first)
    spent: list[ModelUsage] = []
    try:
        message = await caller.stream(
            caller.with_tools([note_words]),
            [HumanMessage(f"{uuid.uuid4()} {TO_READ}\n{TO_CALL}")],  # cached nowhere
            purpose="doctor",
            on_text=lambda _text: None,
            on_usage=spent.append,
        )
    except AppError as error:
        return Finding("model", f"{name}: {error}", "check LLM_MODEL, its key and base URL")
    calls = "calls tools" if message.tool_calls else "called no tool, though it was asked to"
    return Finding("model", f"{name}, {_speed(spent[0])}, {calls}")


# Some 500 tokens to read and 50 to write: enough to measure, and over in a minute everywhere.
TO_READ = " ".join(f"{number} times {number} is {number**2}." for number in range(12, 72))
TO_CALL = "Call the tool note_words with the English words for the numbers from one to twenty."


@tool
def note_words(words: str) -> str:
    """Take a note of words."""
    return words


def _speed(spent: ModelUsage) -> str:
    """How long it took, and how fast that is where the server counts tokens."""
    said = f"answered in {spent.duration_ms / 1000:.1f} s"
    read = (spent.prompt_tokens or 0) - (spent.cached_tokens or 0)
    written, wrote_ms = spent.completion_tokens or 0, spent.duration_ms - spent.first_ms
    if not read or not written:
        return said
    reads = f"{read / max(1, spent.first_ms) * 1000:.0f} tokens a second read"
    return f"{said}: {reads}, {written / max(1, wrote_ms) * 1000:.0f} written"


async def _check_embeddings(settings: Settings) -> Finding:
    embedder = build_embedder(settings, settings.embedding_model, Metrics())
    try:
        await embedder.embed_query("warm-up")
        start = time.perf_counter()
        vector = await embedder.embed_query("Where do I live?")
    except AppError as error:
        mend = "check EMBEDDING_MODEL, OPENAI_API_KEY and OPENAI_BASE_URL"
        return Finding("embeddings", f"{embedder.name}: {error}", mend)
    finally:
        await embedder.close()
    milliseconds = 1000 * (time.perf_counter() - start)
    return Finding(
        "embeddings", f"{embedder.name}, {len(vector)} dimensions, {milliseconds:.0f} ms a query"
    )


def _examine_time_zone(settings: Settings) -> Finding:
    now = local_time(datetime.now(UTC), settings.timezone)
    zone = name_of_zone(settings.timezone)
    return Finding("time zone", f"{zone}, it is {now:%Y-%m-%d %H:%M}")


async def _check_servers(settings: Settings) -> list[Finding]:
    """A line for each server of MCP_SERVERS: whether it can be used, and how many tools it has."""
    servers = McpServers(settings.servers, Metrics())
    try:
        await servers.settled()
        return [_server_finding(state) for state in servers.states()]
    finally:
        await servers.close()


def _server_finding(state: ServerState) -> Finding:
    if not state.is_ready:
        cause = state.cause or "it does not answer"
        return Finding("mcp server", f"{state.name}: {cause}", "check its entry in MCP_SERVERS")
    left_out = f", {state.left_out} more are not usable" if state.left_out else ""
    return Finding("mcp server", f"{state.name}, {len(state.tools)} tools{left_out}")
