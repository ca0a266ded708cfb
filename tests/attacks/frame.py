"""Frame of the attacks: a PostgreSQL of their own, options, one JSON line and the exit status."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, NoReturn

from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate
from tests.conftest import TEMPLATE, database_url, execute, fast_folder


@dataclass(frozen=True)
class Own:
    """A server of an attack.

    Attributes:
        server: The server itself, without fsync.
        folder: Its data folder.
        address: URL with which ``tests.conftest`` creates more databases.
        dsn: URL of a migrated database, which is their template.
    """

    server: EmbeddedPostgres
    folder: Path
    address: str
    dsn: str


@asynccontextmanager
async def own_postgres(*settings: str) -> AsyncIterator[Own]:
    """Start a server, with more statements such as ``ALTER SYSTEM SET max_connections = 300``."""
    with tempfile.TemporaryDirectory(prefix="pomni-attack-", dir=fast_folder()) as folder:
        server = EmbeddedPostgres(Path(folder))
        address = await asyncio.to_thread(server.start)
        try:
            execute(address, "ALTER SYSTEM SET fsync = off", *settings)
            execute(address, f"CREATE DATABASE {TEMPLATE}")
            await asyncio.to_thread(server.stop)
            address = await asyncio.to_thread(server.start)
            dsn = database_url(address, TEMPLATE)
            await asyncio.to_thread(migrate, dsn)
            yield Own(server, Path(folder), address, dsn)
        finally:
            await asyncio.to_thread(server.stop)


def run_attack(
    attack: Callable[..., Any], options: Mapping[str, Any], *, wrong: Sequence[str]
) -> NoReturn:
    """Run an attack with its options, print its report, and exit; with 1 if something is wrong.

    Args:
        attack: Function or coroutine function; returns a dict or a dataclass.
        options: Default of each option (``--n``), or of the words of the command line.
        wrong: Entries of the report that are empty or zero if nothing is wrong.
    """
    parser = argparse.ArgumentParser(description=inspect.getdoc(attack))
    for name, default in options.items():
        if not name.startswith("--"):
            parser.add_argument(name, nargs="*", default=default)
        elif default is False:
            parser.add_argument(name, action="store_true")
        else:
            parser.add_argument(name, type=type(default), default=default)
    report = attack(**vars(parser.parse_args()))
    if inspect.iscoroutine(report):
        report = asyncio.run(report)
    if is_dataclass(report) and not isinstance(report, type):
        report = asdict(report)
    print(json.dumps(report, ensure_ascii=False))
    sys.exit(any(report[name] for name in wrong))
