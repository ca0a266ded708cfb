"""``python bot.py doctor``: checks the requirements of the bot, and suggests remedies."""

import asyncio
import json
import time
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from src.base.config import ENV_FILE, Settings
from src.base.errors import AppError, ConfigError, NoDatabaseError, SchemaRefusedError
from src.base.metrics import Metrics
from src.base.zones import local_time, name_of_zone
from src.operate import checks
from src.operate.checks import CheckResult
from src.outside.servers import McpServers
from src.pg import embedded, migrations, settings_repo
from src.pg.client import PgClient
from src.queue import job_repo, update_repo

# Version and clock of the server.
SELECT_SERVER = "SELECT current_setting('server_version'), extract(epoch FROM now())::float8"
MAX_CLOCK_SKEW = 5.0  # seconds between our clock and PostgreSQL's
MAX_WAIT = 60.0  # seconds of an update in the queue
MAX_SILENCE = 60.0  # seconds since the last heartbeat of a live worker


async def run_doctor(settings: Settings, *, as_json: bool = False) -> int:
    """Run all checks and print a table; return 0, or 1 if something needs mending.

    Args:
        settings: The settings.
        as_json: Print one object instead: ``{"ok": bool, "findings": [{"subject": str,
            "state": str, "mend": str|null}]}``.
    """
    parts = [line.partition(". ") for line in settings.warnings]
    results = [CheckResult("settings", what, mend) for what, _, mend in parts]
    results += checks.check_machine(settings, Path(ENV_FILE))
    results += await _check_database(settings)
    results += await checks.check_proxies(settings)
    results += await checks.check_telegram(settings)
    results += [await checks.check_model(settings), await checks.check_embeddings(settings)]
    now, zone = local_time(datetime.now(UTC), settings.timezone), name_of_zone(settings.timezone)
    results.append(CheckResult("time zone", f"{zone}, it is {now:%Y-%m-%d %H:%M}"))
    results += await _check_servers(settings)
    is_well = not any(result.mend for result in results)
    if as_json:
        report = {"ok": is_well, "findings": [asdict(result) for result in results]}
        print(json.dumps(report, ensure_ascii=False))
    else:
        for result in results:
            verdict = "OK"
            if result.mend is not None:
                verdict = f"MEND: {result.mend}"
            print(f"{result.subject:<12} {result.state:<48} {verdict}")
    return int(not is_well)


async def _check_database(settings: Settings) -> list[CheckResult]:
    try:
        async with embedded.open_database(settings, may_create=False) as dsn:
            return await asyncio.to_thread(_examine_database, settings, dsn)
    except NoDatabaseError as error:
        return [CheckResult("database", f"none yet; the first start creates it in {error.place}")]
    except ConfigError as error:
        return [CheckResult("database", error.problems[0], "see PgBouncer in docs/operating.md")]
    except AppError as error:
        mend = "is PostgreSQL running, and are DATABASE_URL or PG_* right?"
        if settings.uses_embedded_database:
            mend = "look at the message; is there room under DATA_DIR?"
        return [CheckResult("database", str(error).splitlines()[0][:400], mend)]


def _examine_database(settings: Settings, dsn: str) -> list[CheckResult]:
    kind, mend = "embedded", None
    if not settings.uses_embedded_database:
        kind = "configured"
        migrations.check_sessions(dsn)
    with closing(PgClient(dsn, max_connections=1)) as client:
        client.open()
        [(version, server_time)] = client.fetch_all(SELECT_SERVER)
        skew = abs(time.time() - server_time)
        schema = [*checks.check_versions(client), *_examine_schema(settings, client)]
    if skew > MAX_CLOCK_SKEW:
        mend = "set the clock of this machine or of PostgreSQL's"
    return [
        CheckResult("database", f"PostgreSQL {version}, {kind}"),
        *schema,
        CheckResult("clock", f"{skew:.1f} s from the database's", mend),
    ]


def _examine_jobs(client: PgClient) -> list[CheckResult]:
    """Report jobs that were put aside, and updates that wait for more than a moment."""
    count = job_repo.JobDeathRepository(client).count()
    jobs = CheckResult("jobs", "none put aside")
    if count:
        mend = "python bot.py jobs lists what kills its process; --retry all tries it again"
        jobs = CheckResult("jobs", f"{count} put aside", mend)
    waiting, oldest = update_repo.UpdateRepository(client).count_waiting()
    heartbeat = job_repo.JobRepository(client).seconds_since_heartbeat()
    workers, mend = "no worker", "start the bot, or python bot.py worker"
    if heartbeat is not None and heartbeat < MAX_SILENCE:
        workers, mend = "a worker lives", "look into the bot's log"
    if not waiting:
        return [jobs, CheckResult("queue", f"nothing waits, {workers}")]
    state = f"{waiting} wait, the oldest for {oldest:.0f} s, {workers}"
    return [jobs, CheckResult("queue", state, mend if oldest >= MAX_WAIT else None)]


def describe_job(job: job_repo.PutAsideJob) -> str:
    """Describe a job that was put aside by ids and times, without texts of users."""
    ids = {"chat": job.chat_id, "conversation": job.conversation_id}
    whose = ", ".join(f"{name} {id_}" for name, id_ in ids.items() if id_)
    return (
        f"{job.id:<6} {job.task:<20} {whose or 'all owners'}; "
        f"{job.deaths} deaths, put aside since {job.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    )


def _examine_schema(settings: Settings, client: PgClient) -> list[CheckResult]:
    newest = migrations.newest_version()
    try:
        version = migrations.find_version(client.dsn)
    except SchemaRefusedError as error:
        return [CheckResult("schema", error.state, error.mend)]
    if version != newest:
        return [
            CheckResult("schema", f"version {version or 'none'}; the next start makes it {newest}")
        ]
    limits = settings_repo.GlobalSettingsRepository(client).get()
    return [
        CheckResult("schema", f"version {version}, the newest"),
        *_examine_jobs(client),
        *checks.check_access(settings, limits),
    ]


async def _check_servers(settings: Settings) -> list[CheckResult]:
    servers, results = McpServers(settings.servers, Metrics()), []
    try:
        await servers.wait_until_connected()
        for state in servers.states():
            about, mend = f"{state.name}, {len(state.tools)} tools", None
            if state.left_out:
                about += f', {state.left_out} more left out; of many, "tools" in its entry chooses'
            if not state.is_ready:
                about = f"{state.name}: {state.cause or 'it does not answer'}"
                mend = "check its entry in MCP_SERVERS"
            results.append(CheckResult("mcp server", about, mend))
    finally:
        await servers.close()
    return results
