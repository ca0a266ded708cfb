"""Training of the notebook's classifier of lines on ``reading/lexicon/lines``.

Run ``python -m benchmarks.line_kinds [--show]`` after a change of these lines or of the model. It
writes the weights and prints one JSON line with accuracies in percent: ``crossed`` (leave one
out), ``unseen`` (separate test lines), ``by_letters`` (the same without the embedding).
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from src.base.metrics import Metrics
from src.llm.embeddings import LocalEmbedder, Vectors
from src.memory.line_kinds import WEIGHTS, Vector, Weights, features, kind_of
from src.reading.lexicon import FOLDER

UNSEEN = Path(__file__).with_name("line_kinds_unseen.toml")
RIDGE = 0.3
BALANCE = 0.5  # how far rare kinds weigh more than frequent ones: 0 not at all, 1 in all as much
Line = tuple[str, str]  # kind, text


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a file with their kinds."""
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    return [(kind, line) for kind, lines in told.items() for line in lines.split("\n") if line]


def learnt_lines() -> list[Line]:
    """Return the training lines of all languages."""
    return [
        line for path in sorted((FOLDER / "lines").glob("*.toml")) for line in read_lines(path)
    ]


def digest(lines: Sequence[Line]) -> str:
    """Return the digest that ties the weights to these lines."""
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()[:16]


async def embedded(texts: Sequence[str]) -> Vectors:
    """Embed each text as a query."""
    embedder = LocalEmbedder(Metrics())
    try:
        return np.vstack([await embedder.embed_query(text) for text in texts])
    finally:
        await embedder.close()


def learn(lines: Sequence[Line], vectors: Vectors) -> tuple[Weights, list[str]]:
    """Return the weights, and the kind of each line predicted from all others."""
    mean = vectors.mean(axis=0)
    rows, crossed = _regression(lines, vectors - mean, RIDGE)
    letters, _ = _regression(lines, vectors[:, :0], RIDGE / 2)
    return Weights(digest(lines), mean, rows, letters), crossed


def as_json(weights: Weights) -> str:
    """Serialize weights in the format of ``WEIGHTS``."""
    return json.dumps(
        {
            "learnt": weights.learnt,
            "mean": _rounded(weights.mean, 4),
            "rows": {kind: _rounded(row, 2) for kind, row in weights.rows.items()},
            "letters": {kind: _rounded(row, 2) for kind, row in weights.letters.items()},
        }
    )


def _rounded(row: Vector, places: int) -> list[float]:
    return [round(float(x), places) for x in row]


def _regression(
    lines: Sequence[Line], vectors: Vectors, ridge: float
) -> tuple[dict[str, Vector], list[str]]:
    kinds = list(dict.fromkeys(kind for kind, _ in lines))
    pairs = zip(lines, vectors, strict=True)
    seen = np.vstack([features(text, vector) for (_, text), vector in pairs]).astype(float)
    wanted = np.array([[kind == one for one in kinds] for kind, _ in lines], dtype=float)
    sizes = Counter(kind for kind, _ in lines)
    weights = [(max(sizes.values()) / sizes[kind]) ** BALANCE for kind, _ in lines]
    weighted = seen * np.array(weights)[:, np.newaxis]
    inverse = np.linalg.inv(weighted.T @ seen + ridge * np.eye(seen.shape[1]))
    rows = inverse @ weighted.T @ wanted
    own = np.einsum("ij,ij->i", seen @ inverse, weighted)[:, np.newaxis]
    without = (seen @ rows - own * wanted) / (1 - own)  # leave one out, in closed form
    rows_by_kind = dict(zip(kinds, rows.T.astype(np.float32), strict=True))
    return rows_by_kind, [kinds[n] for n in without.argmax(axis=1)]


def share(lines: Sequence[Line], found: Sequence[str]) -> float:
    """Return the accuracy in percent."""
    right = sum(kind == one for (kind, _), one in zip(lines, found, strict=True))
    return round(100 * right / len(lines), 1)


async def measure(*, show: bool) -> Weights:
    """Train, evaluate and print."""
    lines, unseen = learnt_lines(), read_lines(UNSEEN)
    vectors = await embedded([text for _, text in [*lines, *unseen]])
    weights, crossed = learn(lines, vectors[: len(lines)])
    pairs = zip(unseen, vectors[len(lines) :], strict=True)
    found = [kind_of(text, vector, weights) for (_, text), vector in pairs]
    by_letters = [kind_of(text, None, weights) for _, text in unseen]
    if show:
        for (kind, text), one in zip([*lines, *unseen], [*crossed, *found], strict=True):
            if kind != one:
                print(f"{kind} → {one}: {text}")
    told = {
        "lines": len(lines),
        "crossed": share(lines, crossed),
        "unseen": share(unseen, found),
        "by_letters": share(unseen, by_letters),
    }
    print(json.dumps(told))
    return weights


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--show", action="store_true", help="print what was judged wrong")
    given = parser.parse_args()
    WEIGHTS.write_text(as_json(asyncio.run(measure(show=given.show))) + "\n")
