"""As much of the memory as its part of the prompt takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from src.llm.prompts.quoting import quoted
from src.llm.tokens import TokenCounter


def within_budget(
    records: Iterable[dict[str, Any]], counter: TokenCounter, budget: int
) -> list[dict[str, Any]]:
    """As many records, from the first on, as ``budget`` tokens take when they are quoted."""
    packed: list[dict[str, Any]] = []
    for record in records:
        budget -= counter.count(quoted(record))
        if budget < 0:
            break
        packed.append(record)
    return packed
