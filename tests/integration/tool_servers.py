"""A core with MCP servers, and checks of their state."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from src.base.config import Settings
from src.base.mcp_file import read_servers
from src.core import Core
from src.history.conversation_repo import set_conversation_repo_factory
from src.outside.servers import ServerState
from src.pg.client import PgClient
from tests.fakes import eventually
from tests.fakes.openai_server import FakeOpenAI
from tests.integration.person import FAKE_EMBEDDINGS, Person, Rig, new_user

ROOT = Path(__file__).resolve().parents[2]
GOOD = str(ROOT / "tests/fakes/good_tool_server.py")

Json = dict[str, Any]
until = eventually


def fake(kind: str, *arguments: str, **more: Any) -> Json:
    """Return the entry of a server of ``tests.fakes.tool_server``."""
    return {
        "command": sys.executable,
        "args": [str(ROOT / "tests/fakes/tool_server.py"), kind, *arguments],
        "cwd": str(ROOT),
        **more,
    }


def good() -> Json:
    """Return the entry of ``tests.fakes.good_tool_server`` on stdio."""
    return {**fake(""), "args": [GOOD]}


def file_of(folder: Path, **servers: Json) -> Path:
    """Write the file that MCP_SERVERS names, and return its path."""
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


@asynccontextmanager
async def open_with_servers(
    client: PgClient, folder: Path, *, settled: bool = True, **servers: Json
) -> AsyncIterator[Person]:
    """Open a new user's agent with these servers.

    With ``settled``, each server is ready or has failed for the first time.
    """
    read, problems = read_servers(file_of(folder, **servers), os.environ)
    assert problems == []
    async with FakeOpenAI() as model:
        settings = Settings(
            llm_model="openai:fake-model",
            openai_base_url=model.url,
            embedding_model=FAKE_EMBEDDINGS,
        )
        settings._servers = tuple(read)
        core = Core(settings, client)
        try:
            core.servers.start()
            if settled:
                await core.servers.wait_until_connected()
            yield Person(Rig(core, model, client), new_user())
        finally:
            await core.servers.close()
            await core.memory.close()
            set_conversation_repo_factory(None)


def state_of(person: Person, name: str) -> ServerState:
    """Return the state of a server."""
    [state] = [state for state in person.core.servers.states() if state.name == name]
    return state


def is_ready(person: Person, name: str) -> Callable[[], bool]:
    """Return a condition that is true when a server's tools are available."""
    return lambda: state_of(person, name).is_ready


def living(folder: Path) -> list[int]:
    """Return the ids of the running processes that are noted in a folder."""
    return [int(path.name) for path in folder.iterdir() if _is_running(int(path.name))]


def _is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
