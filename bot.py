"""Pomni: a Telegram assistant that remembers. One process, one PostgreSQL.

Start reading here; then ``src/core.py`` (what is built), ``src/talk/main_graph.py``
(nodes and edges), any node, and the repository that it names.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable, Collection, Coroutine, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import uvloop

from src.base.config import Settings, load_settings
from src.base.errors import AppError, ConfigError
from src.base.logs import configure_logging
from src.base.shutdown import SHUTDOWN

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

# A turn makes some 20,000 objects that are gone when it ends; looking through them every 700, as
# Python does by default, costs a tenth of a turn.
GC_THRESHOLD = (20_000, 20, 20)
ALL = "all"  # of ``jobs --retry``

# Commands that are cancelled at a signal need not finish turns; seconds.
CANCEL_SECONDS = 3.0
DRAINING = ("run", "worker")

logger = logging.getLogger("bot")

Command = Callable[[Settings, argparse.Namespace], Coroutine[Any, Any, int]]


async def run(settings: Settings, arguments: argparse.Namespace) -> int:
    """Take Telegram updates and answer them; without a token, open the console."""
    if settings.telegram_bot_token is None:
        if not settings.console_fallback:
            raise ConfigError(
                [
                    "TELEGRAM_BOT_TOKEN: it is missing. Open @BotFather in Telegram, send "
                    "/newbot, and copy the token that it gives you"
                ]
            )
        print("TELEGRAM_BOT_TOKEN is not set, so this is the console.", file=sys.stderr)
        return await console(settings, arguments)
    return await _work(settings, arguments, receive=True)


async def worker(settings: Settings, arguments: argparse.Namespace) -> int:
    """Handle queued updates beside a receiving process, on this or another machine."""
    return await _work(settings, arguments, receive=False)


async def console(settings: Settings, arguments: argparse.Namespace) -> int:
    """Talk in this terminal: every line of stdin is one message."""
    from src.console import CONSOLE_USER_ID, Console, ConsoleUser
    from src.core import open_core

    async with open_core(settings, extra_tools=arguments.extra_tools) as core:
        core.servers.start()
        await core.warm_up()
        _keep_imports()
        user_id = getattr(arguments, "user_id", CONSOLE_USER_ID)
        await Console(
            core.agent,
            core.commands,
            core.memory.digest,
            user=ConsoleUser(user_id, settings.timezone),
            as_json=getattr(arguments, "json", False),
        ).run()
    return 0


async def migrate(settings: Settings, _arguments: argparse.Namespace) -> int:
    """Bring the database to the newest schema, and say from where to where."""
    from src.core import open_database
    from src.pg.migrations import migrate as migrate_database

    async with open_database(settings) as dsn:
        before, after = await asyncio.to_thread(migrate_database, dsn)
    print(f"The database was at {before or 'nothing'} and is at {after}.")
    return 0


async def doctor(settings: Settings, arguments: argparse.Namespace) -> int:
    """Check everything that the bot needs, and say how to mend what is missing."""
    from src.operate.doctor import run_doctor
    from src.telegram.setup import describe_bot

    return await run_doctor(settings, describe_bot, as_json=arguments.json)


async def evaluate(settings: Settings, arguments: argparse.Namespace) -> int:
    """Measure how well the memory finds what conversations in LoCoMo's format annotate."""
    import json

    from src.core import open_core
    from src.operate.evaluation import Evaluation

    async with open_core(settings) as core:
        await core.warm_up()
        _keep_imports()
        figures = await Evaluation(core.client, core.conversations, core.memory).run(
            arguments.file, say=lambda line: print(line, file=sys.stderr)
        )
    print(json.dumps(figures))
    return 0


async def reembed(settings: Settings, _arguments: argparse.Namespace) -> int:
    """Embed everything with EMBEDDING_MODEL, while the bot runs with the one before."""
    from src.core import open_core

    async with open_core(settings) as core:
        memory = core.memory
        space = await memory.indexer.find_coming() or await memory.space.current()
        model = await space.model()
        done, total = await core.client.run(memory.embeddings.count_embedded, model.id)
        print(f"{model.name}: {done} of {total} documents have a vector.")
        await memory.indexer.reembed(
            space, on_progress=lambda now, of: print(f"{now} of {of}", flush=True)
        )
        await memory.indexer.embed_pending()
        done, total = await core.client.run(memory.embeddings.count_embedded, model.id)
        if done < total:
            print(f"The model did not take {total - done} documents; the bot tries them again.")
        print(
            f"Done. A bot with EMBEDDING_MODEL={model.name} searches with it from now on, and "
            "deletes the vectors of other models within an hour."
        )
    return 0


async def export(settings: Settings, arguments: argparse.Namespace) -> int:
    """Write everything of a user, or of a group, to stdout: JSON, or Markdown to read."""
    from datetime import UTC, datetime

    from src.base.owners import Called, Owner
    from src.core import open_core
    from src.texts import choose_language

    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    async with open_core(settings) as core:
        now, user = datetime.now(UTC), arguments.user_id
        if not arguments.markdown:
            await core.client.run(core.exports.write_json, sys.stdout, user, now)
            return 0
        known = await core.client.run(core.user_settings.get, user)
        zone = known.time_zone or settings.timezone
        called = Called(Owner(user), choose_language(known.language), now, zone)
        await core.client.run(core.exports.write_markdown, sys.stdout, called)
    return 0


async def erase(settings: Settings, arguments: argparse.Namespace) -> int:
    """Delete everything of a user, or of a group, from every table; say how much it was."""
    from src.core import open_core
    from src.privacy.erasure_repo import ErasureRepository

    async with open_core(settings) as core:
        erasure = ErasureRepository(core.client)
        rows = await core.client.run(erasure.erase, arguments.user_id)
        await core.client.run(erasure.vacuum)
    who = "user" if arguments.user_id > 0 else "group"
    print(f"Erased {who} {arguments.user_id}: {rows} rows, and what hung on them.")
    return 0


async def jobs(settings: Settings, arguments: argparse.Namespace) -> int:
    """List the jobs that were put aside because they kill their process, or retry them."""
    from src.core import open_core
    from src.operate.doctor import describe

    async with open_core(settings) as core:
        if arguments.retry is None:
            put_aside = await core.client.run(core.put_aside.list_all)
            print(*map(describe, put_aside) if put_aside else ["Nothing is put aside."], sep="\n")
            return 0
        retried = await core.client.run(
            core.put_aside.retry, None if arguments.retry == ALL else arguments.retry
        )
    print(f"Given back to the queue: {retried}.")
    return 0 if retried or arguments.retry == ALL else 1


async def backup(settings: Settings, arguments: argparse.Namespace) -> int:
    """Write everything into one file, while the bot runs."""
    from src.core import open_database
    from src.operate.backup import backup as write_backup

    async with open_database(settings) as dsn:
        size = await asyncio.to_thread(write_backup, dsn, arguments.file)
    print(f"{arguments.file}: {size / 2**20:.1f} MB. Keep it as you keep a secret.")
    return 0


async def restore(settings: Settings, arguments: argparse.Namespace) -> int:
    """Read a backup into an empty database, and bring it to the newest schema."""
    from src.core import open_database
    from src.operate.backup import restore as read_backup

    async with open_database(settings) as dsn:
        version = await asyncio.to_thread(read_backup, dsn, arguments.file)
    print(f"Restored {arguments.file}; the schema is at {version}.")
    return 0


async def _work(settings: Settings, arguments: argparse.Namespace, *, receive: bool) -> int:
    from src.app import run_bot_process
    from src.core import open_core

    try:
        async with open_core(settings, extra_tools=arguments.extra_tools) as core:
            _keep_imports()
            await run_bot_process(core, SHUTDOWN, receive=receive)
    except asyncio.CancelledError:
        if SHUTDOWN.signal is None:
            raise
    return 0  # also when it was told to stop before it had begun


def _keep_imports() -> None:
    """Let the collector run from now on, and never look again at what the imports made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    gc.enable()


COMMANDS: dict[str, Command] = {
    "run": run,
    "console": console,
    "worker": worker,
    "migrate": migrate,
    "doctor": doctor,
    "eval": evaluate,
    "reembed": reembed,
    "export": export,
    "erase": erase,
    "jobs": jobs,
    "backup": backup,
    "restore": restore,
}


def _user_id(text: str) -> int:
    """A Telegram user id: at most 52 significant bits."""
    number = int(text)
    if not 0 < number < 2**52:
        raise argparse.ArgumentTypeError(f"{text} is not a Telegram user id")
    return number


def _owner_id(text: str) -> int:
    """A Telegram user id, or the negative id of a group."""
    number = int(text)
    if number == 0 or abs(number) >= 2**52:
        raise argparse.ArgumentTypeError(f"{text} is not the id of a Telegram user or group")
    return number


def _put_aside(text: str) -> int | str:
    """What ``jobs`` lists in its first column, or all of it."""
    return ALL if text == ALL else int(text)


# What each command takes, as argparse has it.
BACKUP_FILE = {"type": Path, "help": "the file of the backup"}
ARGUMENTS: dict[str, dict[str, dict[str, Any]]] = {
    "console": {
        "--user-id": {"type": _user_id, "default": 1, "help": "whose messages these are"},
        "--json": {"action": "store_true", "help": "one JSON object a reply"},
    },
    "export": {
        "--user-id": {
            "type": _owner_id,
            "required": True,
            "help": "whose data to write; the negative id of a group: all of its topics",
        },
        "--markdown": {"action": "store_true", "help": "to read, not JSON"},
    },
    "erase": {
        "--user-id": {
            "type": _owner_id,
            "required": True,
            "help": "whose data to delete; the negative id of a group: all of its topics",
        },
    },
    "eval": {"file": {"type": Path, "help": "a JSON file in LoCoMo's format"}},
    "backup": {"file": BACKUP_FILE},
    "restore": {"file": BACKUP_FILE},
    "doctor": {"--json": {"action": "store_true", "help": "one JSON object"}},
    "jobs": {
        "--retry": {"type": _put_aside, "metavar": "ID", "help": "an id of the list, or all"}
    },
}


def _log_level(settings: Settings, arguments: argparse.Namespace) -> str:
    """In the console, only what needs attention: the person there reads the answers."""
    is_console = arguments.command in (
        "console",
        "eval",
        "reembed",
        "export",
        "erase",
        "jobs",
        "backup",
        "restore",
    ) or (arguments.command in (None, "run") and settings.telegram_bot_token is None)
    return "WARNING" if is_console and settings.log_level == "INFO" else settings.log_level


def tell_warnings(settings: Settings, name: str) -> None:
    """What is odd about the variables: to the log of a bot, to the person at a terminal.

    ``doctor`` has it in its table.
    """
    if name == "doctor":
        return
    for line in settings.warnings:
        if name in DRAINING and settings.telegram_bot_token is not None:
            logger.warning(line, extra={"variable": line.partition(":")[0]})
        else:
            print(line, file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, and what was probably meant."""

    def error(self, message: str) -> NoReturn:
        """End the process with status 2."""
        self.exit(2, f"{self.prog}: {message}. See {self.prog} --help\n")

    def refuse(self, word: str, known: Collection[str]) -> NoReturn:
        """End the process because it was told a word that is none of those that are known."""
        close = get_close_matches(word.lower(), known, n=1, cutoff=0.7)
        if not close or close == [word]:
            self.error(f"unknown: {word}")
        self.exit(2, f"{self.prog}: unknown: {word}. Did you mean {close[0]}?\n")


def parse_arguments(
    argv: list[str] | None, extra_tools: Sequence[BaseTool] = ()
) -> argparse.Namespace:
    """The command line; no command means ``run``."""
    parser = _Parser(prog="bot.py", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    parsers: dict[str | None, _Parser] = {None: parser}
    for name, function in COMMANDS.items():
        summary = (function.__doc__ or "").partition("\n")[0]
        command = parsers[name] = commands.add_parser(name, help=summary, description=summary)
        for flag, options in ARGUMENTS.get(name, {}).items():
            command.add_argument(flag, **options)
    words = sys.argv[1:] if argv is None else argv
    named = next((word for word in words if not word.startswith("-")), None)
    if named not in parsers:
        parser.refuse(str(named), COMMANDS)
    found, unknown = parser.parse_known_args(
        words, argparse.Namespace(extra_tools=tuple(extra_tools))
    )
    if unknown:
        flags = [flag for flag in ARGUMENTS.get(found.command, {}) if flag.startswith("-")]
        parsers[found.command].refuse(unknown[0], flags)
    return found


def main(argv: list[str] | None = None, *, extra_tools: Sequence[BaseTool] = ()) -> int:
    """Run one command; returns the exit status.

    0; 1 for a failure, 2 for bad settings; 3 when it was told to stop and had to be ended by force
    (see ``src/base/shutdown.py``); 130 or 143 when a signal cancelled it.

    Args:
        argv: The command line; None for the process's own.
        extra_tools: What the model may call beside our own tools.
    """
    arguments = parse_arguments(argv, extra_tools)
    gc.disable()  # while importing, nothing is garbage, and looking for it doubles the time
    try:
        settings = load_settings()
        configure_logging(_log_level(settings, arguments), settings.secrets())
        name = arguments.command or "run"
        tell_warnings(settings, name)
        seconds = settings.shutdown_timeout
        if name not in DRAINING:
            seconds = min(seconds, CANCEL_SECONDS)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            command = COMMANDS[name](settings, arguments)
            try:
                return runner.run(SHUTDOWN.run(command, seconds=seconds))
            except SystemExit:  # a job called sys.exit: a death as any other, and not a good-bye
                os._exit(1)
    except ConfigError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        return 2
    except AppError as error:
        print(f"Pomni stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our stdout has gone: console | head -1
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (nothing can be flushed to it any more)
        return 0


if __name__ == "__main__":
    sys.exit(main())
