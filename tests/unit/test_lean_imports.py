"""Packages of others are imported without what is never used, and whole for whoever asks."""

from __future__ import annotations

import subprocess
import sys

import pytest

# What the bot's imports leave out where nothing else was imported before.
HEAVY = [
    "openai.types.responses.response", "langsmith.types.issue", "snowballstemmer.serbian_stemmer",
]  # fmt: skip


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_bot_imports_nothing_of_what_it_never_uses() -> None:
    """And aiogram the lean way: else its start would take a second of processor more."""
    script = f"import sys, src.app; print([name for name in {HEAVY} if name in sys.modules])"
    lean = "import aiogram.types; print(aiogram.types.Message.__pydantic_complete__)"
    assert run(f"{script}\n{lean}") == "[]\nFalse\n"


@pytest.mark.parametrize("each", [16, pytest.param(1, marks=pytest.mark.proof)])
def test_every_name_of_a_package_on_demand_is_there_once_it_is_asked_for(each: int) -> None:
    """And what it does not have is missing."""
    run(f"""
import ast, importlib, pathlib, src.core, openai.types, langgraph_sdk, langsmith.types
assert not hasattr(openai.types, "Nothing")
from openai.types import chat
assert chat.ChatCompletion.__name__ == "ChatCompletion"
for package in (openai.types, langgraph_sdk, langsmith.types):
    root = pathlib.Path(package.__file__).parent
    for file in root.rglob("__init__.py"):
        name = ".".join((package.__name__, *file.parent.relative_to(root).parts))
        told = [alias.asname or alias.name for node in ast.parse(file.read_text()).body
                if isinstance(node, ast.ImportFrom) and node.level == 1 for alias in node.names]
        for one in told[::{each}]:
            assert getattr(importlib.import_module(name), one) is not None
""")


def test_what_reads_times_is_compiled_between_turns_and_not_by_a_start() -> None:
    """A first answer seldom needs it, and would wait for half a second."""
    run("""
import asyncio, threading
from src.base.config import Settings
from src.core import Core
from src.pg.client import PgClient
from src.reading import times

async def main():
    core = Core(Settings(_env_file=None), PgClient("host=nowhere"))
    with core.quiet.turn():
        preparing = asyncio.create_task(core.prepare_readers())
        await asyncio.sleep(0)
        assert threading.active_count() == 1
    assert times._reminder_grammar.cache_info().currsize == 0
    await preparing
    assert times._reminder_grammar.cache_info().currsize == 1

asyncio.run(main())
""")
