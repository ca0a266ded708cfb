"""Fuzz test of the local embedder with all of Unicode.

    python -m tests.attacks.embedding_fuzz --n 20000

Prints one JSON line: texts, deaths of the engine, answered queries, poison texts, seconds. The
exit status is 1 when the engine died or a text got no vector.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from src.base.errors import AppError
from src.base.metrics import Metrics
from src.llm.embeddings import LocalEmbedder
from tests.attacks.frame import run_attack

LONGEST, SHORT = 5000, 64  # characters
LONG = 0.05  # share of texts of up to LONGEST; 1,500 characters take half a second
SEED = 8
Draw = Callable[[random.Random], str]


@cache
def characters(kind: str) -> str:
    """Return all characters of a kind, such as a general category (``Mn``) or class (``M``)."""
    every = map(chr, range(sys.maxunicode + 1))
    if kind == "expanding":  # to at least three characters
        return "".join(c for c in every if len(unicodedata.normalize("NFKC", c)) >= 3)
    if kind == "compatible":
        return "".join(c for c in every if unicodedata.decomposition(c))
    if kind == "right to left":
        return "".join(c for c in every if unicodedata.bidirectional(c) in ("R", "AL"))
    return "".join(text for name, text in by_category().items() if name.startswith(kind))


@cache
def by_category() -> dict[str, str]:
    """Return all characters by general category."""
    found: dict[str, list[str]] = {}
    for character in map(chr, range(sys.maxunicode + 1)):
        found.setdefault(unicodedata.category(character), []).append(character)
    return {name: "".join(characters) for name, characters in found.items()}


def one_of(kind: str) -> Draw:
    """Return a function that draws a character of a kind."""
    return lambda rng: rng.choice(characters(kind))


def any_character(rng: random.Random) -> str:
    """Draw any code point, including surrogates."""
    return chr(rng.randrange(sys.maxunicode + 1))


def emoji(rng: random.Random) -> str:
    """Draw a sequence of people, skin tones and flags with a random joiner."""
    parts = [chr(rng.randrange(0x1F1E6, 0x1FAFF)) for _ in range(rng.randrange(1, 7))]
    return rng.choice(("\u200d", "\ufe0f\u200d", "\ufe0f", "")).join(parts)


def word(rng: random.Random) -> str:
    """Draw an ordinary word."""
    return rng.choice(("Привет ", "hello ", "їжак ", "где? ", "42 ", "\n"))


DRAWS: Sequence[Draw] = (
    any_character, emoji, word, lambda _rng: "\ufdfa", lambda _rng: "\x00",
    *map(one_of, ("expanding", "compatible", "right to left", "M", "Mn", "Cs", "Co", "Cn", "Cc",
                  "Cf", "L", "N", "S", "Z")),
)  # fmt: skip


def draw_text(rng: random.Random) -> str:
    """Draw a text of 1 to 5,000 characters, mostly short, of one or several kinds."""
    length = round((LONGEST if rng.random() < LONG else SHORT) ** rng.random())
    kinds = rng.choices(DRAWS, k=rng.choice((1, 1, 2, 3, 8)))
    if rng.random() < 0.1:  # one drawn piece, repeated
        return (rng.choice(kinds)(rng) * length)[:length]
    return "".join(rng.choice(kinds)(rng) for _ in range(length))[:length]


async def attack(count: int, *, seed: int = SEED) -> dict[str, Any]:
    """Embed ``count`` texts, half as queries and half as documents, concurrently."""
    metrics, rng = Metrics(), random.Random(seed)
    embedder = LocalEmbedder(metrics)
    texts = [draw_text(rng) for _ in range(count)]
    start = time.monotonic()
    half = count // 2
    answers = await asyncio.gather(
        _embed_all(texts[:half], embedder.embed_query),
        _embed_all(texts[half:], lambda text: embedder.embed_documents([text])),
    )
    await embedder.close()
    return {
        "texts": count,
        "characters": sum(map(len, texts)),
        "deaths": int(metrics.engine_deaths._value.get()),
        "queries": half,
        "queries_answered": answers[0],
        "documents_answered": answers[1],
        "poison": int(metrics.poison_texts._value.get()),
        "seconds": round(time.monotonic() - start, 1),
    }


async def _embed_all(texts: Sequence[str], embed: Callable[[str], Any]) -> int:
    """Return the number of texts that got a vector of finite numbers."""
    answered = 0
    for text in texts:
        try:
            vector = await embed(text)
        except AppError:
            continue
        answered += bool(np.isfinite(vector).all())
    return answered


def is_unharmed(figures: dict[str, Any]) -> bool:
    """Return True if the engine never died and every text got a vector."""
    answered = figures["queries_answered"] + figures["documents_answered"]
    return not figures["deaths"] and not figures["poison"] and answered == figures["texts"]


async def main(n: int, seed: int) -> dict[str, Any]:
    """Embed ``n`` texts, and tell whether that did harm."""
    figures = await attack(n, seed=seed)
    return {**figures, "harmed": not is_unharmed(figures)}


if __name__ == "__main__":
    run_attack(main, {"--n": 20_000, "--seed": SEED}, wrong=["harmed"])
