"""With the key of one provider and nothing else the bot works, and takes no other along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.bot_command import BOT, TIMEOUT, Machine
from tests.fakes.other_models import FakeOtherModels

# Everything that a start imports, before a model is built.
LOAD = """
import sys
import bot, src.core, src.console, src.app
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.fixture
def machine(dsn: str, tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"DATABASE_URL": dsn})


@pytest.mark.parametrize("provider", ["ANTHROPIC", "GOOGLE"])
async def test_a_key_is_enough_for_the_console(machine: Machine, provider: str) -> None:
    async with FakeOtherModels("Здравствуйте, Анна") as model:
        there = machine.with_variables(
            **{f"{provider}_API_KEY": "key-key", f"{provider}_BASE_URL": model.url}
        )
        talked = await there.run_beside("console", stdin="Меня зовут Анна\nПривет\n")
    assert (talked.status, talked.stderr) == (0, "")
    assert talked.replies == ["Здравствуйте, Анна"] * 2
    assert len(model.requests) == 2 and "Меня зовут Анна" in str(model.requests[-1])


def test_no_provider_is_imported_before_it_is_chosen() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        capture_output=True,
        check=True,
        timeout=TIMEOUT,
        cwd=BOT.parent,
        text=True,
    )
    loaded = set(done.stdout.split())
    assert "langchain_core" in loaded
    assert not loaded & {
        "anthropic", "google", "langchain_anthropic", "langchain_google_genai", "langchain_openai"
    }  # fmt: skip
