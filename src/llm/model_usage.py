"""What a call of a model cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelUsage:
    """One call of a model: milliseconds, and token counts (None where they make no sense)."""

    purpose: str
    model: str
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    duration_ms: int
