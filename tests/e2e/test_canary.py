"""A short run of ``python -m tests.attacks.canary``."""

from __future__ import annotations

from tests.attacks.canary import run


async def test_no_word_of_an_erased_person_or_group_is_left_anywhere() -> None:
    result = await run(2, seed=3, groups_every=2)
    assert result.left == [] and result.lost == 0
    assert result.brought.keys() >= {
        "messages.content", "memories.text", "memory_sources.quote", "entities.name",
        "tool_results.arguments", "tool_results.result", "search_postings.term",
        "telegram_updates.payload",
    }  # fmt: skip
