"""A cross-encoder behind a ``/rerank`` endpoint (Cohere, Jina, or a server of BGE models)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx
from pydantic import BaseModel, SecretStr, ValidationError

from src.config import Settings
from src.errors import ModelError, ModelUnavailableError

RERANK_DEADLINE = 0.5  # seconds; a turn does not wait longer for a better order


class _Result(BaseModel):
    index: int
    relevance_score: float


class _Reply(BaseModel):
    results: list[_Result]


class Reranker:
    """Orders texts by how well they answer a query."""

    def __init__(self, url: str, model: str | None, *, key: SecretStr | None = None) -> None:
        """Ask ``url`` for ``model``."""
        headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        self._client = httpx.AsyncClient(timeout=None, headers=headers)
        self._url = url
        self._model = model

    async def order(self, query: str, texts: Sequence[str]) -> list[int]:
        """The indices of ``texts``, best first; those that the endpoint left out come last.

        Raises:
            ModelUnavailableError: The deadline passed, or the endpoint is away.
            ModelError: It refused, or its reply makes no sense.
        """
        body = {"query": query, "documents": list(texts), "top_n": len(texts)}
        if self._model:
            body["model"] = self._model
        try:
            async with asyncio.timeout(RERANK_DEADLINE):  # httpx has none for the whole exchange
                response = await self._client.post(self._url, json=body)
            response.raise_for_status()
            results = _Reply.model_validate_json(response.content).results
        except (httpx.TransportError, TimeoutError) as error:
            raise ModelUnavailableError(
                f"the reranker did not answer ({type(error).__name__})"
            ) from error
        except (httpx.HTTPStatusError, ValidationError) as error:
            raise ModelError(f"the reranker failed ({type(error).__name__})") from error
        best_first = sorted(results, key=lambda result: -result.relevance_score)
        order = [result.index for result in best_first if 0 <= result.index < len(texts)]
        return list(dict.fromkeys([*order, *range(len(texts))]))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def build_reranker(settings: Settings) -> Reranker | None:
    """The reranker of ``RERANK_URL``, or None."""
    if settings.rerank_url is None:
        return None
    return Reranker(settings.rerank_url, settings.rerank_model, key=settings.rerank_api_key)
