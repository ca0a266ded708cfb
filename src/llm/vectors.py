"""Vectors of texts: what an endpoint's reply must be before anybody computes with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from src.errors import BadVectorsError

Vectors = NDArray[np.float32]

# Wider vectors are cut (Matryoshka): a vector must fit into an index page beside its key.
MAX_DIMENSIONS = 1024


def read_vectors(reply: Any, count: int) -> Vectors:
    """The vectors of a reply of ``/embeddings``, in the order of the texts, each of length 1.

    Args:
        reply: Whatever the endpoint sent.
        count: How many texts there were.

    Raises:
        BadVectorsError: It is not one vector of finite numbers for each text, all of one length.
    """
    try:
        rows = {row.index: row.embedding for row in reply.data}
        if len(reply.data) != count or rows.keys() != set(range(count)):
            raise BadVectorsError("the reply holds other vectors than those that were asked for")
        vectors = np.array([rows[index] for index in range(count)], dtype=np.float64)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise BadVectorsError(f"the reply holds no vectors ({type(error).__name__})") from error
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise BadVectorsError("the reply holds something else than vectors of finite numbers")
    vectors = vectors[:, :MAX_DIMENSIONS]
    # Divided by the largest number first: the square of 1e200 is no number.
    largest = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
    if not largest.all():
        raise BadVectorsError("the reply holds a vector of zeros")
    return unit(vectors / largest)


def unit(vectors: NDArray[np.floating[Any]]) -> Vectors:
    """The vectors scaled to length 1, along the last axis; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
