"""Cost of 1,000 messages, from the measured prompts and the prices below.

    python -m benchmarks.cost

It reads the figures of ``python -m benchmarks.prompts --save``: requests per message, tokens per
request, and what each provider's cache saves in a chat with pauses. It includes answers of ANSWER
tokens, not the extraction of facts and summaries.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parent / "results"
TURNS = 200  # of the measured chat
ANSWER = 150  # tokens of an answer


class Price(NamedTuple):
    """US dollars per million uncached tokens, and the provider's name in the caches' figures."""

    provider: str
    prompt: float
    completion: float


# From comparisons of 2026, not from the providers' own lists: check them there.
PRICES = {
    "gpt-5-mini": Price("OpenAI", 0.25, 2.0),
    "claude-haiku-4-5": Price("Anthropic, from 4,096", 1.0, 5.0),
    "gemini-2.5-flash": Price("Google", 0.30, 2.5),
}


def cost(price: Price, figures: dict[str, float], percent: float) -> float:
    """Return the dollars of 1,000 messages if the prompts cost ``percent`` of their full price."""
    requests = 1000 * figures["prompt_requests"] / TURNS
    prompt = price.prompt * percent / 100
    tokens = figures["prompt_tokens_mean"] * prompt + ANSWER * price.completion
    return requests * tokens / 1e6


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(prog="python -m benchmarks.cost").parse_args()
    figures = json.loads((RESULTS / "latest.json").read_text())["database"]
    caches = json.loads((RESULTS / "caches.json").read_text())
    print("1,000 messages at the prices of this file, with a cache and without:")
    for name, price in PRICES.items():
        [cache] = [one for one in caches if one["name"].startswith(price.provider)]
        cached = cost(price, figures, cache["cost_with_pauses"])
        print(f"{name:20}${cached:.2f} ${cost(price, figures, 100):.2f}")


if __name__ == "__main__":
    main()
