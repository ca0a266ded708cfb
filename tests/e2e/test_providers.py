"""With the key of one provider and nothing else the bot works, and takes no other along."""

from __future__ import annotations

import pytest

from tests.e2e.bot_command import Machine
from tests.fakes.other_models import FakeOtherModels


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
