"""Pomni: a Telegram assistant that remembers. One process, one PostgreSQL.

Start reading here; then ``src/core.py`` (what is built), ``src/talk/main_graph.py``
(nodes and edges), any node, and the repository that it names.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Collection, Coroutine, Sequence
from difflib import get_close_matches
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn


def name_missing(error: ModuleNotFoundError) -> str:
    """Return the sentence about a missing package; raise the error if it is a module of ours."""
    if str(error.name).startswith("src"):
        raise error
    return (
        f"bot.py: the package {error.name} is missing in this Python. "
        "Run .venv/bin/python bot.py …, or `make run`, which installs everything"
    )


try:
    import uvloop

    from src.base.config import Settings, hide_shared_proxies, load_settings, terminal_locales
    from src.base.errors import AppError, ConfigError
    from src.base.logs import configure_logging
    from src.base.shutdown import SHUTDOWN
except ModuleNotFoundError as missing:
    sys.exit(name_missing(missing))

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from src.core import Core

ALL = "all"  # argument of ``jobs --retry``
ROOT = Path(__file__).resolve().parent  # where relative paths of the settings start

# Seconds; commands without turns are cancelled soon after a signal.
CANCEL_SECONDS = 3.0

logger = logging.getLogger("bot")


Command = Callable[[Settings, argparse.Namespace], Coroutine[Any, Any, int]]


def with_core(
    run: Callable[[Core, argparse.Namespace], Coroutine[Any, Any, int | None]],
    *,
    may_create: bool = False,
) -> Command:
    """Make a command of a function that takes an open core; no status is success.

    Args:
        run: The function.
        may_create: Create the database if there is none; otherwise the command fails.
    """

    @wraps(run)
    async def command(settings: Settings, arguments: argparse.Namespace) -> int:
        from src.pg.embedded import open_newest_database

        loading = asyncio.ensure_future(asyncio.to_thread(import_module, "src.core"))
        # The server starts during the import.
        async with open_newest_database(settings, may_create=may_create) as dsn:
            open_core = (await loading).open_core
            async with open_core(settings, dsn, extra_tools=arguments.extra_tools) as core:
                return await run(core, arguments) or 0

    return command


with_new_core = partial(with_core, may_create=True)


async def run(settings: Settings, arguments: argparse.Namespace) -> int:
    """Take Telegram updates and answer them; without a token, open the console."""
    if settings.telegram_bot_token is not None:
        return await _run_bot(settings, arguments, receive=True)
    if not settings.console_fallback:
        raise ConfigError(
            [
                "TELEGRAM_BOT_TOKEN: it is missing. Open @BotFather in Telegram, send "
                "/newbot, and copy the token that it gives you"
            ]
        )
    print("TELEGRAM_BOT_TOKEN is not set, so this is the console.", file=sys.stderr)
    return await console(settings, arguments)


async def worker(settings: Settings, arguments: argparse.Namespace) -> int:
    """Handle queued updates beside a receiving process, on this or another machine."""
    return await _run_bot(settings, arguments, receive=False)


@with_new_core
async def console(core: Core, arguments: argparse.Namespace) -> None:
    """Talk in this terminal: every line of stdin is one message."""
    from src.console import CONSOLE_USER_ID, Console
    from src.texts import choose_language

    core.servers.start()
    await core.warm_up()
    user_id = getattr(arguments, "user_id", CONSOLE_USER_ID)
    as_json = getattr(arguments, "json", False)
    language = choose_language(*terminal_locales())
    await Console(core, user_id, as_json=as_json, language=language, folder=arguments.folder).run()


async def migrate(settings: Settings, _arguments: argparse.Namespace) -> int:
    """Bring the database to the newest schema, and say from where to where."""
    from src.pg.embedded import open_database
    from src.pg.migrations import migrate as migrate_database

    async with open_database(settings) as dsn:
        before, after = await asyncio.to_thread(migrate_database, dsn)
    print(f"The database was at {before or 'nothing'} and is at {after}.")
    return 0


async def doctor(settings: Settings, arguments: argparse.Namespace) -> int:
    """Check everything that the bot needs, and say how to mend what is missing."""
    from src.operate.doctor import run_doctor

    return await run_doctor(settings, as_json=arguments.json)


@with_core
async def evaluate(core: Core, arguments: argparse.Namespace) -> None:
    """Measure how well the memory finds what conversations in LoCoMo's format annotate."""
    import json

    from src.operate import evaluation

    await core.warm_up()
    figures = await evaluation.evaluate(
        core, arguments.file, say=lambda line: print(line, file=sys.stderr)
    )
    print(json.dumps(figures))


@with_core
async def reembed(core: Core, _arguments: argparse.Namespace) -> None:
    """Embed everything with EMBEDDING_MODEL, while the bot runs with the one before."""
    memory = core.memory
    space = await memory.space.coming() or await memory.space.current()
    await space.model()  # measured before anything is printed
    done, total = await core.client.run(memory.embeddings.count_embedded, space.name)
    print(f"{space.name}: {done} of {total} documents have a vector.")
    async for now, of in memory.indexer.reembed(space):
        print(f"{now} of {of}", flush=True)
    await memory.indexer.embed_pending()
    print(
        f"Done. A bot with EMBEDDING_MODEL={space.name} searches with it from now on, and "
        "deletes the vectors of other models within an hour."
    )


@with_core
async def export(core: Core, arguments: argparse.Namespace) -> None:
    """Write everything of a user, or of a group, to stdout: JSON, or Markdown to read."""
    from src.base.owners import Owner

    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    user, exports = arguments.user_id, core.exports
    if not await core.client.run(exports.has_owner, user):
        raise AppError(f"the database has nothing of the id {user}")
    caller = await core.client.run(core.load_caller, Owner(user))
    try:
        if arguments.markdown:
            await core.client.run(exports.write_markdown, sys.stdout, caller)
        else:
            await core.client.run(exports.write_json, sys.stdout, user, caller.moment)
    except OSError as error:  # its frames hold a statement, which ends before the client is closed
        raise error.with_traceback(None) from None


@with_core
async def bring(core: Core, arguments: argparse.Namespace) -> None:
    """Import a user's file from another program, or take the last import back."""
    from src.operate.imports import import_file, undo_import

    if arguments.undo:
        print(await undo_import(core, arguments.user_id))
        return
    if arguments.file is None:
        raise AppError("name the file, or give --undo")
    choices = {name: getattr(arguments, name) for name in ("facts", "speaker", "dates")}
    print(await import_file(core, arguments.user_id, arguments.file, **choices))


@with_core
async def erase(core: Core, arguments: argparse.Namespace) -> None:
    """Delete everything of a user, or of a group, from every table; say how much it was."""
    from src.privacy.erasure_repo import ErasureRepository

    erasure = ErasureRepository(core.client)
    rows = await core.client.run(erasure.erase, arguments.user_id)
    if not rows:
        raise AppError(f"the database has nothing of the id {arguments.user_id}")
    await core.client.run(erasure.vacuum)
    who = "group"
    if arguments.user_id > 0:
        who = "user"
    print(f"Erased {who} {arguments.user_id}: {rows} rows, and what hung on them.")


@with_core
async def jobs(core: Core, arguments: argparse.Namespace) -> int:
    """List the jobs that were put aside because they kill their process, or retry them."""
    from src.operate.doctor import describe_job

    if arguments.retry is None:
        put_aside = await core.client.run(core.dead_jobs.list_all)
        print("\n".join(map(describe_job, put_aside)) or "Nothing is put aside.")
        return 0
    if arguments.retry == ALL:
        print(f"Given back to the queue: {await core.client.run(core.dead_jobs.retry)}.")
        return 0
    retried = await core.client.run(core.dead_jobs.retry, arguments.retry)
    print(f"Given back to the queue: {retried}.")
    return int(not retried)


async def backup(settings: Settings, arguments: argparse.Namespace) -> int:
    """Write everything into one file, while the bot runs."""
    from src.operate import backup
    from src.pg.embedded import open_existing_database

    async with open_existing_database(settings) as dsn:
        size = await asyncio.to_thread(backup.backup, dsn, arguments.file)
        if not await asyncio.to_thread(backup.has_owners, dsn):
            print("Nobody has written to this bot yet: is it the right one?", file=sys.stderr)
    print(f"{arguments.file}: {size / 2**20:.1f} MB. Keep it as you keep a secret.")
    return 0


async def restore(settings: Settings, arguments: argparse.Namespace) -> int:
    """Read a backup into an empty database, and bring it to the newest schema."""
    from src.operate import backup
    from src.pg.embedded import open_database

    await asyncio.to_thread(backup.check_backup, arguments.file)  # before a cluster is created
    async with open_database(settings) as dsn:
        version = await asyncio.to_thread(backup.restore, dsn, arguments.file)
    print(f"Restored {arguments.file}; the schema is at {version}.")
    return 0


async def psql(settings: Settings, arguments: argparse.Namespace) -> int:
    """Open the database in psql; what follows is for psql, such as -c 'SELECT 1'."""
    from src.operate.backup import libpq_variables
    from src.pg.embedded import binary, open_existing_database

    async with open_existing_database(settings) as dsn:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: None)  # for psql
        program = await asyncio.create_subprocess_exec(
            binary("psql"), *arguments.of_psql, env=libpq_variables(dsn)
        )
        return await program.wait()


async def _run_bot(settings: Settings, arguments: argparse.Namespace, *, receive: bool) -> int:
    @with_new_core
    async def work(core: Core, _arguments: argparse.Namespace) -> None:
        from src.app import run_bot_process

        await run_bot_process(core, SHUTDOWN, receive=receive)

    try:
        await work(settings, arguments)
    except asyncio.CancelledError:
        if SHUTDOWN.signal is None:
            raise
    return 0  # also if it was stopped before it began


def _file(text: str) -> Path:
    """Return the absolute path of a file that is named from the current folder."""
    return Path(text).absolute()


def _telegram_id(text: str, kind: str = "user", least: int = 1) -> int:
    """Parse the id of a Telegram user (at most 52 significant bits); a group's is negative."""
    number = 0
    if text.lstrip("-").isdecimal():
        number = int(text)
    if number == 0 or not least <= number < 2**52:
        raise argparse.ArgumentTypeError(f"{text} is not the id of a Telegram {kind}")
    return number


def job_id(text: str) -> int | str:
    """Parse an id that ``jobs`` lists, or ``all``; argparse shows the name of this function."""
    if text == ALL:
        return ALL
    return int(text)


def _build_owner_option(purpose: str) -> dict[str, Any]:
    description = f"{purpose}; the negative id of a group: all of its topics"
    parse = partial(_telegram_id, kind="user or group", least=1 - 2**52)
    return {"type": parse, "required": True, "help": description}


COMMANDS: dict[str, Command] = {
    "run": run,
    "console": console,
    "worker": worker,
    "migrate": migrate,
    "doctor": doctor,
    "eval": evaluate,
    "reembed": reembed,
    "export": export,
    "import": bring,
    "erase": erase,
    "jobs": jobs,
    "backup": backup,
    "restore": restore,
    "psql": psql,
}
DRAINING = ("run", "worker")
LOGGING = ("run", "worker", "migrate", "doctor")  # the output of the others is for people

# Arguments of the commands, as options of argparse.
BACKUP_FILE = {"type": _file, "help": "the file of the backup"}
ARGUMENTS: dict[str, dict[str, dict[str, Any]]] = {
    "console": {
        "--user-id": {"type": _telegram_id, "default": 1, "help": "whose messages these are"},
        "--json": {"action": "store_true", "help": "one JSON object a reply"},
    },
    "export": {
        "--user-id": _build_owner_option("whose data to write"),
        "--markdown": {"action": "store_true", "help": "to read, not JSON"},
    },
    "import": {
        "file": {"type": _file, "nargs": "?", "help": "the export of another program, or ours"},
        "--user-id": {"type": _telegram_id, "required": True, "help": "whose file it is"},
        "--facts": {"action": "store_true", "help": "read the messages for facts, too"},
        "--speaker": {"metavar": "NAME", "help": "which speaker of a chat the user is"},
        "--dates": {"choices": ["day", "month"], "help": "what is first in ambiguous dates"},
        "--undo": {"action": "store_true", "help": "take the last import back"},
    },
    "erase": {"--user-id": _build_owner_option("whose data to delete")},
    "eval": {"file": {"type": _file, "help": "a JSON file in LoCoMo's format"}},
    "backup": {"file": BACKUP_FILE},
    "restore": {"file": BACKUP_FILE},
    "doctor": {"--json": {"action": "store_true", "help": "one JSON object"}},
    "jobs": {"--retry": {"type": job_id, "metavar": "ID", "help": "an id of the list, or all"}},
}


def _log_level(settings: Settings, name: str) -> str:
    """Return the level; the console shows only warnings, as people read the answers there."""
    is_console = name == "run" and settings.telegram_bot_token is None
    is_quiet = is_console or name not in LOGGING
    if is_quiet and settings.log_level == "INFO":
        return "WARNING"
    return settings.log_level


def report_warnings(settings: Settings, name: str) -> None:
    """Report odd variables: to the log of a bot, to stderr of other commands.

    ``doctor`` has them in its table.
    """
    if name == "doctor":
        return
    for line in settings.warnings:
        if name in DRAINING and settings.telegram_bot_token is not None:
            logger.warning(line, extra={"variable": line.partition(":")[0]})
        else:
            print(line, file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message}. See {self.prog} --help\n")

    def refuse(self, word: str, known: Collection[str]) -> NoReturn:
        """Exit with status 2 because of an unknown word; suggest a similar known one."""
        matches = get_close_matches(word.lower(), known, n=1, cutoff=0.7)
        if not matches or matches == [word]:
            self.error(f"unknown: {word}")
        self.exit(2, f"{self.prog}: unknown: {word}. Did you mean {matches[0]}?\n")


def parse_arguments(
    argv: list[str] | None, extra_tools: Sequence[BaseTool] = ()
) -> argparse.Namespace:
    """Parse the command line; the default command is ``run``."""
    parser = _Parser(prog="bot.py", description=__doc__.partition("\n")[0])
    parser.add_argument("--version", action="store_true", help="say which version this is")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    parsers: dict[str | None, _Parser] = {None: parser}
    for name, function in COMMANDS.items():
        summary = (function.__doc__ or "").partition("\n")[0]
        command = parsers[name] = commands.add_parser(name, help=summary, description=summary)
        for flag, options in ARGUMENTS.get(name, {}).items():
            command.add_argument(flag, **options)
    words = sys.argv[1:] if argv is None else argv
    command_name = next((word for word in words if not word.startswith("-")), None)
    if command_name not in parsers:
        parser.refuse(str(command_name), COMMANDS)
    arguments, unknown = parser.parse_known_args(
        words, argparse.Namespace(extra_tools=tuple(extra_tools), folder=Path.cwd())
    )
    if arguments.command == "psql":
        arguments.of_psql = words[words.index("psql") + 1 :]
    elif unknown:
        flags = [flag for flag in ARGUMENTS.get(arguments.command, {}) if flag.startswith("-")]
        parsers[arguments.command].refuse(unknown[0], flags)
    return arguments


def read_version() -> str:
    """Return the version of this program, from ``pyproject.toml`` beside it."""
    import tomllib

    about = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8"))
    return str(about["project"]["version"])


def _run_command(name: str, settings: Settings, arguments: argparse.Namespace) -> int:
    seconds = settings.shutdown_timeout
    if name not in DRAINING:
        seconds = min(seconds, CANCEL_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(SHUTDOWN.run(COMMANDS[name](settings, arguments), seconds=seconds))
        except SystemExit:  # a job called sys.exit: the process dies without a clean-up
            os._exit(1)


def main(
    argv: list[str] | None = None, *, extra_tools: Sequence[BaseTool] = (), root: Path = ROOT
) -> int:
    """Run one command in the folder of this file; return the exit status.

    0; 1 for a failure; 2 for bad settings; 3 if it was told to stop and had to be ended by force
    (see ``src/base/shutdown.py``); 130 or 143 if a signal cancelled it.

    Args:
        argv: The command line; None for that of the process.
        extra_tools: Tools for the model beside our own.
        root: The folder of ``.env``, and of all relative paths in the settings.
    """
    arguments = parse_arguments(argv, extra_tools)
    if arguments.version:
        print(f"Pomni {read_version()}")
        return 0
    os.chdir(root)
    try:
        name, settings = arguments.command or "run", load_settings()
        hide_shared_proxies()
        configure_logging(_log_level(settings, name), settings.secrets())
        report_warnings(settings, name)
        status = _run_command(name, settings, arguments)
        sys.stdout.flush()
    except ConfigError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        return 2
    except AppError as error:
        print(f"Pomni stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # stdout was closed (console | head -1), or its disk is full
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (a flush would fail)
        if isinstance(error, BrokenPipeError):
            return 0
        print(f"Pomni stopped: {error}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ModuleNotFoundError as missing:
        sys.exit(name_missing(missing))
