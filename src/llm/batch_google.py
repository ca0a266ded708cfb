"""Gemini's Batch API: the requests go inline, and the results come with the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import httpx

from src.llm.batch_provider import (
    BATCH_TIMEOUT,
    BatchRequest,
    BatchResult,
    BatchStatus,
    arguments,
    at,
    code,
    is_refused,
    is_unknown,
    not_deleted,
    usage,
)
from src.llm.errors import model_error

PENDING = frozenset(
    {"JOB_STATE_UNSPECIFIED", "JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING"}
    | {"JOB_STATE_CANCELLING", "JOB_STATE_PAUSED", "JOB_STATE_UPDATING"}
)
MAX_LISTED = 1000
ID_KEY = "custom_id"  # of a request's metadata


class GoogleProvider:
    """See ``LLMProvider``; inline requests of 20 MB at most, so nothing lies in files."""

    name = "google"
    max_requests = 10_000
    max_bytes = 15_000_000

    def __init__(self, api_key: str, base_url: str | None = None) -> None:
        """Nothing connects yet."""
        from google.genai import Client
        from google.genai.types import HttpOptions

        self._http = httpx.AsyncClient(timeout=BATCH_TIMEOUT)
        options = HttpOptions(
            base_url=base_url,
            timeout=round(1000 * BATCH_TIMEOUT),
            httpx_async_client=self._http,
        )
        self._client = Client(api_key=api_key, vertexai=False, http_options=options)
        self._batches = self._client.aio.batches

    def encode(self, request: BatchRequest, model: str) -> dict[str, Any]:
        """See ``LLMProvider``."""
        tool = request.tool()
        function = {
            "name": tool["name"],
            "description": tool.get("description", ""),
            "parameters_json_schema": tool["parameters"],
        }
        config = {
            "system_instruction": request.system,
            "tools": [{"function_declarations": [function]}],
            "tool_config": {
                "function_calling_config": {
                    "mode": "ANY",
                    "allowed_function_names": [tool["name"]],
                }
            },
        }
        return {
            "model": model,
            "contents": [{"role": "user", "parts": [{"text": request.words}]}],
            "metadata": {ID_KEY: request.custom_id},
            "config": config,
        }

    async def submit_batch(
        self, requests: Sequence[Mapping[str, Any]], model: str, *, job_id: str
    ) -> str:
        """See ``LLMProvider``."""
        source: Any = list(requests)
        try:
            batch = await self._batches.create(
                model=model, src=source, config={"display_name": _display_name(job_id)}
            )
        except Exception as error:
            raise model_error(error) from error
        return batch.name or ""

    async def find_batch(
        self,
        job_id: str,
        custom_ids: frozenset[str],  # noqa: ARG002
        *,
        since: datetime,
    ) -> str | None:
        """See ``LLMProvider``; a batch is called after our job."""
        seen = 0
        try:
            async for batch in await self._batches.list(config={"page_size": 100}):
                if batch.display_name == _display_name(job_id):
                    return batch.name
                seen += 1
                is_old = batch.create_time is not None and batch.create_time < since
                if seen >= MAX_LISTED and is_old:
                    break
        except Exception as error:
            raise model_error(error) from error
        return None

    async def get_batch_status(self, batch_id: str) -> BatchStatus:
        """See ``LLMProvider``."""
        try:
            batch = await self._batches.get(name=batch_id)
        except Exception as error:
            if is_unknown(error):
                return "lost"
            raise model_error(error) from error
        state = "" if batch.state is None else str(batch.state.value)
        return "pending" if state in PENDING else "completed"

    async def get_batch_results(self, batch_id: str) -> list[BatchResult]:
        """See ``LLMProvider``; each result carries the metadata of its request."""
        try:
            batch = await self._batches.get(name=batch_id)
        except Exception as error:
            if is_unknown(error):
                return []
            raise model_error(error) from error
        found = (batch.dest.inlined_responses if batch.dest else None) or []
        model = f"google_genai:{(batch.model or 'unknown').removeprefix('models/')[:100]}"
        return [_read(entry.model_dump(mode="json", warnings=False), model) for entry in found]

    async def cancel_batch(self, batch_id: str) -> None:
        """See ``LLMProvider``."""
        try:
            await self._batches.cancel(name=batch_id)
        except Exception as error:
            if not (is_unknown(error) or is_refused(error)):
                raise model_error(error) from error

    async def delete_batch(self, batch_id: str | None, *, job_id: str) -> None:  # noqa: ARG002
        """See ``LLMProvider``; with the batch go its requests and results."""
        if batch_id is None:
            return
        try:
            await self._batches.delete(name=batch_id)
        except Exception as error:
            if not is_unknown(error):
                raise not_deleted(error) from error

    async def close(self) -> None:
        """See ``LLMProvider``."""
        await self._http.aclose()


def _display_name(job_id: str) -> str:
    return f"pomni-{job_id}"


def _read(entry: dict[str, Any], model: str) -> BatchResult:
    """One inlined response."""
    custom_id, reply = str(at(entry, "metadata", ID_KEY)), at(entry, "response")
    if reply is None:
        error = at(entry, "error", "code")
        return BatchResult(custom_id, error=code(f"status_{error}", "errored"))
    counts = at(reply, "usage_metadata")
    spent = usage(
        model,
        at(counts, "prompt_token_count"),
        at(counts, "cached_content_token_count") or 0,
        at(counts, "candidates_token_count"),
    )
    parts = at(reply, "candidates", 0, "content", "parts")
    parts = parts if isinstance(parts, list) else []
    calls = [at(part, "function_call", "args") for part in parts if at(part, "function_call")]
    texts = [at(part, "text") for part in parts if at(part, "text")]
    answer = arguments(next(iter([*calls, *texts]), None))
    return BatchResult(custom_id, answer, None if answer is not None else "no_reply", spent)
