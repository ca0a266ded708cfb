"""``python bot.py doctor``: checks the requirements of the bot, and suggests remedies."""

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
from pydantic import Field

from src.base.config import OFFLINE_MODEL, Settings
from src.base.errors import AppError, ConfigError, SchemaRefusedError
from src.base.metrics import Metrics
from src.base.zones import local_time, name_of_zone
from src.llm import chat, embeddings, quoting, reply
from src.outside.servers import McpServers, ServerState
from src.pg import embedded, migrations
from src.pg.client import PgClient
from src.queue import dead_jobs, job_repo, update_repo

# Version and clock of the server.
SELECT_SERVER = "SELECT current_setting('server_version'), extract(epoch FROM now())::float8"
MAX_CLOCK_SKEW = 5.0  # seconds between our clock and PostgreSQL's
MAX_WAIT = 60.0  # seconds of an update in the queue
MAX_SILENCE = 60.0  # seconds since the last heartbeat of a live worker


@dataclass(frozen=True)
class CheckResult:
    """Line of the table; ``mend`` is the remedy, None if all is well."""

    subject: str
    state: str
    mend: str | None = None


AskTelegram = Callable[[Settings], Awaitable[str]]


async def run_doctor(
    settings: Settings, ask_telegram: AskTelegram, *, as_json: bool = False
) -> int:
    """Run all checks and print a table; return 0, or 1 if something needs mending.

    Args:
        settings: The settings.
        ask_telegram: Returns the identity of the bot; raises ``ConfigError`` if the token is
            refused, and ``AppError`` if Telegram cannot be reached.
        as_json: Print one object instead: ``{"ok": bool, "findings": [{"subject": str,
            "state": str, "mend": str|null}]}``.
    """
    results = [*_examine_settings(settings), *await _check_database(settings)]
    results.append(await _check_telegram(settings, ask_telegram))
    results += [await _check_model(settings), await _check_embeddings(settings)]
    now, zone = local_time(datetime.now(UTC), settings.timezone), name_of_zone(settings.timezone)
    results.append(CheckResult("time zone", f"{zone}, it is {now:%Y-%m-%d %H:%M}"))
    results += await _check_servers(settings)
    is_well = not any(result.mend for result in results)
    if as_json:
        report = {"ok": is_well, "findings": [asdict(result) for result in results]}
        print(json.dumps(report, ensure_ascii=False))
    else:
        for result in results:
            verdict = "OK" if result.mend is None else f"MEND: {result.mend}"
            print(f"{result.subject:<12} {result.state:<48} {verdict}")
    return 0 if is_well else 1


def _examine_settings(settings: Settings) -> list[CheckResult]:
    parts = [line.partition(". ") for line in settings.warnings]
    results = [CheckResult("settings", what, mend) for what, _, mend in parts]
    if settings.unread:
        state = f".env has what the bot does not read: {', '.join(settings.unread)}"
        results.append(CheckResult("settings", state))
    return results


async def _check_database(settings: Settings) -> list[CheckResult]:
    try:
        async with embedded.open_database(settings) as dsn:
            return await asyncio.to_thread(_examine_database, settings, dsn)
    except ConfigError as error:
        return [CheckResult("database", error.problems[0], "see PgBouncer in docs/operating.md")]
    except AppError as error:
        mend = (
            "look at the message; is there room under DATA_DIR?"
            if settings.uses_embedded_database
            else "is PostgreSQL running, and are DATABASE_URL or PG_* right?"
        )
        return [CheckResult("database", str(error).splitlines()[0][:400], mend)]


def _examine_database(settings: Settings, dsn: str) -> list[CheckResult]:
    if not settings.uses_embedded_database:
        migrations.check_sessions(dsn)
    with closing(PgClient(dsn, max_connections=1)) as client:
        client.open()
        [(version, server_time)] = client.fetch_all(SELECT_SERVER)
        skew = abs(time.time() - server_time)
        schema = _examine_schema(client)
    kind = "embedded" if settings.uses_embedded_database else "configured"
    mend = None if skew <= MAX_CLOCK_SKEW else "set the clock of this machine or of PostgreSQL's"
    return [
        CheckResult("database", f"PostgreSQL {version}, {kind}"),
        *schema,
        CheckResult("clock", f"{skew:.1f} s from the database's", mend),
    ]


def _examine_jobs(client: PgClient) -> list[CheckResult]:
    count = dead_jobs.JobDeathRepository(client).count()
    waiting, oldest = update_repo.UpdateRepository(client).count_waiting()
    heartbeat = job_repo.JobRepository(client).seconds_since_heartbeat()
    mend = "python bot.py jobs lists what kills its process; --retry gives it back to the queue"
    return [
        CheckResult("jobs", f"{count or 'none'} put aside", mend if count else None),
        _examine_queue(waiting, oldest, heartbeat),
    ]


def _examine_queue(waiting: int, oldest: float, heartbeat: float | None) -> CheckResult:
    """Report waiting updates: they wait only for a moment, unless no worker lives."""
    has_worker = heartbeat is not None and heartbeat < MAX_SILENCE
    workers = "a worker lives" if has_worker else "no worker"
    if not waiting:
        return CheckResult("queue", f"nothing waits, {workers}")
    state = f"{waiting} wait, the oldest for {oldest:.0f} s, {workers}"
    if oldest < MAX_WAIT:
        return CheckResult("queue", state)
    mend = "look into the bot's log" if has_worker else "start the bot, or python bot.py worker"
    return CheckResult("queue", state, mend)


def describe_job(job: dead_jobs.QuarantinedJob) -> str:
    """Describe a quarantined job by ids and times, without texts of users."""
    ids = [
        f"job {job.job_id}",
        f"chat {job.chat_id}" if job.chat_id else "",
        f"conversation {job.conversation_id}" if job.conversation_id else "",
    ]
    return (
        f"{job.id:<6} {job.task:<20} {', '.join(filter(None, ids))}; "
        f"{job.deaths} deaths, put aside since {job.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    )


def _examine_schema(client: PgClient) -> list[CheckResult]:
    newest = migrations.newest_version()
    try:
        version = migrations.find_version(client.dsn)
    except SchemaRefusedError as error:
        return [CheckResult("schema", error.state, error.mend)]
    if version != newest:
        return [
            CheckResult("schema", f"version {version or 'none'}; the next start makes it {newest}")
        ]
    return [CheckResult("schema", f"version {version}, the newest"), *_examine_jobs(client)]


async def _check_telegram(settings: Settings, ask_telegram: AskTelegram) -> CheckResult:
    if settings.telegram_bot_token is None:
        mend = None if settings.console_fallback else "set TELEGRAM_BOT_TOKEN, from @BotFather"
        return CheckResult("telegram", "no token: the console opens instead", mend)
    try:
        identity = await ask_telegram(settings)
    except ConfigError:
        return CheckResult(
            "telegram", "the token is refused", "copy TELEGRAM_BOT_TOKEN from @BotFather again"
        )
    except AppError as error:
        return CheckResult("telegram", str(error), "is TELEGRAM_API_BASE right and reachable?")
    return CheckResult("telegram", identity)


async def _check_model(settings: Settings) -> CheckResult:
    name = settings.chat_model_name
    if name == OFFLINE_MODEL:
        return CheckResult("model", "offline: remembers and quotes, no language model")
    first, silence = settings.first_token_timeout(name), settings.llm_timeout
    model = chat.build_provider_model(settings, name)
    caller = chat.ModelCaller(model, name, timeout=silence, first_timeout=first)
    spent: list[reply.ModelUsage] = []
    try:
        message = await caller.stream(
            caller.with_tools([note_words]),
            [HumanMessage(f"{uuid.uuid4()} {PROMPT_TEXT}\n{PROMPT_TASK}")],  # unique: not cached
            purpose="doctor",
            on_text=lambda _text: None,
            on_usage=spent.append,
        )
    except AppError as error:
        return CheckResult("model", f"{name}: {error}", "check LLM_MODEL, its key and base URL")
    way = "calls tools" if message.tool_calls else await _try_form(caller)
    speed, expected = _format_speed(spent[0]), _expect(spent[0], by_form=not message.tool_calls)
    return CheckResult("model", f"{name}, {speed}, {way}{expected}")


# Some 500 prompt and 50 completion tokens: enough to measure, and within a minute everywhere.
PROMPT_TEXT = " ".join(f"{number} times {number} is {number**2}." for number in range(12, 72))
PROMPT_TASK = "Call the tool note_words with the English words for the numbers from one to twenty."


@tool
def note_words(words: str) -> str:
    """Take a note of words."""
    return words


class NumbersForm(quoting.Form):
    """Form by which a model is tried."""

    words: list[str] = Field(default_factory=list)


FORM_TASK = (
    "Fill in the form as JSON: words are the English words for the numbers from one to five."
)


async def _try_form(caller: chat.ModelCaller) -> str:
    """Return how a model works that has called no tool."""
    try:
        form = await caller.form(
            [HumanMessage(FORM_TASK)], NumbersForm, purpose="doctor", on_usage=lambda _usage: None
        )
    except AppError:
        form = NumbersForm()
    if form.words:
        return "called no tool, but fills in forms: set LLM_CALLS=form"
    return "called no tool and filled in no form: it saves little of what it is told"


FIRST_PROMPT, FORM_PROMPT, ANSWER = 3000, 900, 150  # tokens; an answer of 100 words
SLOW = 10.0  # seconds of reading, from which people notice it


def _expect(spent: reply.ModelUsage, *, by_form: bool) -> str:
    """Return what to expect of a slow model, in words; empty for a fast one."""
    uncached = (spent.prompt_tokens or 0) - (spent.cached_tokens or 0)
    completed = spent.completion_tokens or 0
    if uncached <= 0 or not completed:
        return ""
    prompt = FORM_PROMPT if by_form else FIRST_PROMPT
    reading = prompt * spent.first_ms / 1000 / uncached
    writing = ANSWER * (spent.duration_ms - spent.first_ms) / 1000 / completed
    if reading < SLOW:
        return ""
    return f"; expect about {reading:.0f} s for the first prompt, {writing:.0f} s for 100 words"


def _format_speed(spent: reply.ModelUsage) -> str:
    text = f"answered in {spent.duration_ms / 1000:.1f} s"
    uncached = (spent.prompt_tokens or 0) - (spent.cached_tokens or 0)
    completed, writing_ms = spent.completion_tokens or 0, spent.duration_ms - spent.first_ms
    if not uncached or not completed:
        return text
    reading_speed = f"{uncached / max(1, spent.first_ms) * 1000:.0f} tokens a second read"
    return f"{text}: {reading_speed}, {completed / max(1, writing_ms) * 1000:.0f} written"


async def _check_embeddings(settings: Settings) -> CheckResult:
    embedder = embeddings.build_embedder(settings, settings.embedding_model, Metrics())
    try:
        await embedder.embed_query("warm-up")
        start = time.perf_counter()
        vector = await embedder.embed_query("Where do I live?")
    except AppError as error:
        mend = "check EMBEDDING_MODEL, OPENAI_API_KEY and OPENAI_BASE_URL"
        return CheckResult("embeddings", f"{embedder.name}: {error}", mend)
    finally:
        await embedder.close()
    milliseconds = 1000 * (time.perf_counter() - start)
    return CheckResult(
        "embeddings", f"{embedder.name}, {len(vector)} dimensions, {milliseconds:.0f} ms a query"
    )


async def _check_servers(settings: Settings) -> list[CheckResult]:
    servers = McpServers(settings.servers, Metrics())
    try:
        await servers.wait_until_connected()
        return [_describe_server(state) for state in servers.states()]
    finally:
        await servers.close()


def _describe_server(state: ServerState) -> CheckResult:
    if not state.is_ready:
        cause = state.cause or "it does not answer"
        return CheckResult(
            "mcp server", f"{state.name}: {cause}", "check its entry in MCP_SERVERS"
        )
    left_out = f", {state.left_out} more are not usable" if state.left_out else ""
    return CheckResult("mcp server", f"{state.name}, {len(state.tools)} tools{left_out}")
