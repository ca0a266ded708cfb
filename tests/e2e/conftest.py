"""A world for each test, or one for a whole file: Telegram, a model, a database, and bots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from src.memory.prompts import MERGE_PROMPT, SUMMARY_PROMPT
from tests.conftest import TEMPLATE, new_database
from tests.e2e.bot_command import Machine
from tests.e2e.bot_process import World, open_world
from tests.fakes.openai_server import ChatRequest


@pytest.fixture
async def world(dsn: str) -> AsyncIterator[World]:
    """A world of the test's own, in which no bot runs yet."""
    async with open_world(dsn) as opened:
        yield opened


@pytest.fixture
def machine(dsn: str, tmp_path: Path) -> Machine:
    """A machine whose database is the tests' own server."""
    return Machine(tmp_path, {"DATABASE_URL": dsn})


@pytest.fixture(scope="module")
def shared_dsn(postgres_server: str) -> Iterator[str]:
    """Such an address for a whole file."""
    yield from new_database(postgres_server, TEMPLATE)


def is_of_a_turn(request: ChatRequest) -> bool:
    """Not of the background, which may be at work for the person of the test before."""
    tools = {tool["function"]["name"] for tool in request.tools}
    is_summary = request.system_text in (SUMMARY_PROMPT, MERGE_PROMPT)
    return not is_summary and "ExtractedFacts" not in tools


@pytest.fixture(scope="module")
async def shared_world(shared_dsn: str) -> AsyncIterator[World]:
    """A world for a whole file, with one bot in it; each test is another person."""
    async with open_world(shared_dsn) as opened:
        opened.model.takes_queued = is_of_a_turn
        await opened.start()
        yield opened
