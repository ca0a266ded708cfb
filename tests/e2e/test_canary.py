"""Runs of ``python -m tests.attacks.canary``."""

from __future__ import annotations

import pytest

from tests.attacks.canary import run


@pytest.mark.timeout(900)
@pytest.mark.parametrize("worlds", [1, pytest.param(20, marks=pytest.mark.proof)])
async def test_no_word_of_an_erased_person_or_group_is_left_anywhere(worlds: int) -> None:
    result = await run(worlds, seed=3)
    assert result.left == [] and result.lost == 0
    assert result.brought.keys() >= {
        "messages.content", "memories.text", "memory_sources.quote", "entities.name",
        "tool_results.arguments", "tool_results.result", "search_postings.term",
        "telegram_updates.payload",
    }  # fmt: skip
