"""With the key of one provider and nothing else the bot works, and takes no other along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.bot_command import BOT, TIMEOUT, Machine
from tests.fakes.other_models import FakeOtherModels

PROVIDERS = {"ANTHROPIC": "anthropic:claude", "GOOGLE": "google_genai:gemini"}
# Everything that a start imports, before a model is built.
LOAD = """
import sys
import bot, src.application, src.console, src.telegram.bot_process
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.fixture
def machine(dsn: str, tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"DATABASE_URL": dsn})


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_key_is_enough_for_doctor_and_console(machine: Machine, provider: str) -> None:
    async with FakeOtherModels("Здравствуйте, Анна") as model:
        there = machine.with_variables(
            **{f"{provider}_API_KEY": "key-key", f"{provider}_BASE_URL": model.url}
        )
        checked = await there.run_beside("doctor")
        talked = await there.run_beside("console", stdin="Меня зовут Анна\nПривет\n")
    assert (checked.status, checked.stderr) == (0, "")
    assert f"model        {PROVIDERS[provider]}" in checked.stdout
    assert (talked.status, talked.stderr) == (0, "")
    assert talked.replies == ["Здравствуйте, Анна"] * 2
    assert len(model.requests) == 3 and "Меня зовут Анна" in str(model.requests[-1])


@pytest.mark.parametrize(
    ("provider", "name", "kept"),
    [("ANTHROPIC", "anthropic:claude-sonnet-4-6", "cache_control"),
     ("GOOGLE", "google_genai:gemini-2.5-flash", "cachedContent")],
)  # fmt: skip
async def test_the_provider_is_told_to_keep_the_beginning_of_a_chat(
    machine: Machine, provider: str, name: str, kept: str
) -> None:
    async with FakeOtherModels("Здравствуйте, Анна") as model:
        there = machine.with_variables(
            **{f"{provider}_API_KEY": "key", f"{provider}_BASE_URL": model.url, "LLM_MODEL": name}
        )
        lines = "".join(f"Это сообщение номер {number}\n" for number in range(9))
        talked = await there.run_beside("console", stdin=lines)
    assert (talked.status, talked.stderr) == (0, "")
    assert talked.replies == ["Здравствуйте, Анна"] * 9
    assert kept in str(model.requests[-1]) and model.billed[-1].read > 1024


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
