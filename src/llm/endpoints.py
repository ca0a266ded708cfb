"""Clients of other model endpoints: reranking and transcription.

A reranker is a cross-encoder behind ``/rerank``: Cohere's, Jina's, or a server of BGE models. A
transcriber is any endpoint with OpenAI's ``/audio/transcriptions``.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
from socksio import ProtocolError

from src.base.config import Settings
from src.base.errors import ModelError, ModelReplyError, ModelUnavailableError
from src.base.providers import PROVIDERS
from src.llm.errors import model_error

RERANK_DEADLINE = 0.5  # seconds that a turn waits for a better order


class Reranker:
    """Orders texts by their relevance to a query."""

    def __init__(self, url: str, settings: Settings) -> None:
        """Use ``RERANK_MODEL`` at ``url``."""
        key = settings.rerank_api_key
        headers = {}
        if key:
            headers["Authorization"] = f"Bearer {key.get_secret_value()}"
        proxy = settings.model_proxy_to(url)
        self._client = httpx.AsyncClient(timeout=None, headers=headers, proxy=proxy)
        self._url = url
        self._model = settings.rerank_model

    async def order(self, query: str, texts: Sequence[str]) -> list[int]:
        """Return the indices of ``texts``, the best first; those missing in the reply come last.

        Raises:
            ModelUnavailableError: The deadline passed, or the endpoint is unreachable.
            ModelError: The endpoint refused, or its reply is malformed.
        """
        body = {"query": query, "documents": list(texts), "top_n": len(texts)}
        if self._model:
            body["model"] = self._model
        try:
            async with asyncio.timeout(RERANK_DEADLINE):  # httpx has no total timeout
                response = await self._client.post(self._url, json=body)
            response.raise_for_status()
            rows = response.json()["results"]
            scores = {int(row["index"]): float(row["relevance_score"]) for row in rows}
        except (httpx.TransportError, ProtocolError, TimeoutError) as error:
            name = type(error).__name__
            raise ModelUnavailableError(f"the reranker did not answer ({name})") from error
        except (httpx.HTTPStatusError, LookupError, TypeError, ValueError) as error:
            raise ModelError(f"the reranker failed ({type(error).__name__})") from error
        best_first = sorted(scores.keys() & set(range(len(texts))), key=lambda n: -scores[n])
        return list(dict.fromkeys([*best_first, *range(len(texts))]))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def build_reranker(settings: Settings) -> Reranker | None:
    """Build the reranker of ``RERANK_URL``; None if it is not set."""
    if settings.rerank_url:
        return Reranker(settings.rerank_url, settings)
    return None


MAX_TRANSCRIPT = 20_000  # characters; an hour of speech has some 50,000
TRANSCRIPTION_TIMEOUT = 120.0  # seconds; minutes of speech take seconds


class Transcriber:
    """Transcribes speech; keeps no connection open between two files."""

    def __init__(self, model: str, settings: Settings) -> None:
        """Use ``model`` at ``TRANSCRIPTION_BASE_URL``, by default OpenAI's address."""
        key = settings.transcription_api_key or settings.openai_api_key
        base_url = settings.transcription_base_url or settings.openai_base_url
        self._proxy = settings.model_proxy_to(base_url or PROVIDERS["openai"].address)
        self._model = model.removeprefix("openai:")
        self._options: Any = {
            "api_key": key.get_secret_value() if key else "none",
            "base_url": base_url,
            "max_retries": 0,
            "timeout": TRANSCRIPTION_TIMEOUT,
        }

    async def transcribe(self, sound: bytes, file_name: str) -> str:
        """Return the transcript of a sound file; empty if there is no speech.

        Args:
            sound: The file: ogg, mp3, m4a, mp4, wav, webm.
            file_name: Its extension determines the format.

        Raises:
            ModelUnavailableError: A retry may succeed.
            ModelError: The endpoint refused the file or the key.
        """
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # takes 0.2 s to import

        http_client = DefaultAsyncHttpxClient(proxy=self._proxy)
        try:
            async with AsyncOpenAI(**self._options, http_client=http_client) as client:
                reply = await client.audio.transcriptions.create(
                    file=(file_name, sound), model=self._model
                )
        except Exception as error:
            raise model_error(error) from error
        text = getattr(reply, "text", None)
        if not isinstance(text, str):
            raise ModelReplyError("the transcription has no text")
        return text.strip()[:MAX_TRANSCRIPT]


def build_transcriber(settings: Settings) -> Transcriber | None:
    """Build the configured transcriber; None if none is configured."""
    model = settings.transcription_model
    if model:
        return Transcriber(model, settings)
    return None
