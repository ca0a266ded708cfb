"""What a call of a model cost."""

from __future__ import annotations

from dataclasses import dataclass

from src.metrics import Metrics


@dataclass(frozen=True)
class ModelUsage:
    """One call of a model: milliseconds, and token counts (None where they make no sense)."""

    purpose: str
    model: str
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    duration_ms: int

    def count(self, metrics: Metrics) -> None:
        """Add it to the process's counts."""
        for kind, tokens in (
            ("prompt", self.prompt_tokens),
            ("cached", self.cached_tokens),
            ("completion", self.completion_tokens),
        ):
            metrics.tokens.labels(self.model, kind).inc(tokens or 0)
        metrics.models.labels(self.purpose).observe(self.duration_ms / 1000)
