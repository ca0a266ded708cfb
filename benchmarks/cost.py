"""Cost of 1,000 messages, from the measured prompts and the prices below.

    python -m benchmarks.cost

It reads the figures of ``python -m benchmarks.prompts`` in ``benchmarks/results/latest.json``:
requests per message, tokens per request, and the share that the provider's cache covers in a chat
with pauses. It includes answers of ANSWER tokens, not the extraction of facts and summaries.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parent / "results" / "latest.json"
TURNS = 200  # of the measured chat
ANSWER = 150  # tokens of an answer


class Price(NamedTuple):
    """US dollars per million tokens."""

    prompt: float
    cached: float
    completion: float


# From comparisons of 2026, not from the providers' own lists: check them there.
PRICES = {
    "gpt-5-mini": Price(0.25, 0.025, 2.0),
    "claude-haiku-4-5": Price(1.0, 0.10, 5.0),
    "gemini-2.5-flash": Price(0.30, 0.03, 2.5),
}


def cost(price: Price, figures: dict[str, float], share: float) -> float:
    """Return the dollars of 1,000 messages if ``share`` of the prompts' tokens is cached."""
    requests = 1000 * figures["prompt_requests"] / TURNS
    prompt = share * price.cached + (1 - share) * price.prompt
    tokens = figures["prompt_tokens_mean"] * prompt + ANSWER * price.completion
    return requests * tokens / 1e6


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(prog="python -m benchmarks.cost").parse_args()
    figures = json.loads(RESULTS.read_text())["database"]
    print("1,000 messages at the prices of this file, with a cache and without:")
    for name, price in PRICES.items():
        share = figures["prompt_cached_share_with_pauses"] if name.startswith("gpt") else 0.0
        print(f"{name:20}${cost(price, figures, share):.2f} ${cost(price, figures, 0):.2f}")


if __name__ == "__main__":
    main()
