"""Anthropic's Message Batches API: requests go with the batch, results come as a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from src.base.errors import PostponedError
from src.llm.batch_provider import (
    BATCH_TIMEOUT,
    MAX_REPLY_TOKENS,
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

LOOK_AGAIN = 600.0  # seconds until a batch that may be ours is looked at again
CLOCK_SKEW = timedelta(minutes=5)  # between our clock and theirs, at most


class AnthropicProvider:
    """See ``LLMProvider``; limits of 100,000 requests and 256 MB."""

    name = "anthropic"
    max_requests = 100_000
    max_bytes = 240_000_000

    def __init__(self, api_key: str, base_url: str | None = None) -> None:
        """Nothing connects yet."""
        from anthropic import AsyncAnthropic

        self._client = AsyncAnthropic(
            api_key=api_key, base_url=base_url, timeout=BATCH_TIMEOUT, max_retries=0
        )
        self._batches = self._client.messages.batches

    def encode(self, request: BatchRequest, model: str) -> dict[str, Any]:
        """See ``LLMProvider``."""
        tool = request.tool()
        params = {
            "model": model,
            "max_tokens": MAX_REPLY_TOKENS,
            "system": request.system,
            "messages": [{"role": "user", "content": request.words}],
            "tools": [
                {
                    "name": tool["name"],
                    "description": tool.get("description", ""),
                    "input_schema": tool["parameters"],
                }
            ],
            "tool_choice": {"type": "tool", "name": tool["name"]},
        }
        return {"custom_id": request.custom_id, "params": params}

    async def submit_batch(
        self,
        requests: Sequence[Mapping[str, Any]],
        model: str,  # noqa: ARG002
        *,
        job_id: str,  # noqa: ARG002
    ) -> str:
        """See ``LLMProvider``; a batch has no place for our id, its requests have theirs."""
        payload: Any = list(requests)
        try:
            batch = await self._batches.create(requests=payload)
        except Exception as error:
            raise model_error(error) from error
        return batch.id

    async def find_batch(
        self,
        job_id: str,  # noqa: ARG002
        custom_ids: frozenset[str],
        *,
        since: datetime,
    ) -> str | None:
        """See ``LLMProvider``; whose a batch is, its results tell, once it has ended."""
        try:
            async for batch in self._batches.list(limit=100):  # newest first
                if batch.created_at < since - CLOCK_SKEW:
                    return None
                if batch.processing_status != "ended":
                    raise PostponedError("a batch that may be ours runs", seconds=LOOK_AGAIN)
                if batch.results_url and await self._is_of(batch.id, custom_ids):
                    return batch.id
        except PostponedError:
            raise
        except Exception as error:
            raise model_error(error) from error
        return None

    async def get_batch_status(self, batch_id: str) -> BatchStatus:
        """See ``LLMProvider``."""
        try:
            batch = await self._batches.retrieve(batch_id)
        except Exception as error:
            if is_unknown(error):
                return "lost"
            raise model_error(error) from error
        return "completed" if batch.processing_status == "ended" else "pending"

    async def get_batch_results(self, batch_id: str) -> list[BatchResult]:
        """See ``LLMProvider``."""
        found: list[BatchResult] = []
        try:
            if (await self._batches.retrieve(batch_id)).results_url is None:
                return found  # the SDK would raise what is no error of HTTP
            async for entry in await self._batches.results(batch_id):
                found.append(_read(entry.model_dump(mode="json", warnings=False)))  # noqa: PERF401
        except Exception as error:
            if is_unknown(error):
                return found
            raise model_error(error) from error
        return found

    async def cancel_batch(self, batch_id: str) -> None:
        """See ``LLMProvider``."""
        try:
            await self._batches.cancel(batch_id)
        except Exception as error:
            if not (is_unknown(error) or is_refused(error)):
                raise model_error(error) from error

    async def delete_batch(self, batch_id: str | None, *, job_id: str) -> None:  # noqa: ARG002
        """See ``LLMProvider``; only one that has ended can be deleted."""
        if batch_id is None:
            return
        try:
            await self._batches.delete(batch_id)
        except Exception as error:
            if not is_unknown(error):
                raise not_deleted(error) from error

    async def close(self) -> None:
        """See ``LLMProvider``."""
        await self._client.close()

    async def _is_of(self, batch_id: str, custom_ids: frozenset[str]) -> bool:
        async for entry in await self._batches.results(batch_id):
            return entry.custom_id in custom_ids
        return False


def _read(entry: dict[str, Any]) -> BatchResult:
    """One line of the results."""
    custom_id, result = str(entry.get("custom_id")), entry.get("result")
    kind = at(result, "type")
    if kind != "succeeded":
        error = at(result, "error", "error", "type") or kind
        return BatchResult(custom_id, error=code(error, "errored"))
    message = at(result, "message")
    fresh, read, written = (
        at(message, "usage", name)
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    counted = [number for number in (fresh, read, written) if type(number) is int]
    spent = usage(
        f"anthropic:{str(at(message, 'model'))[:100]}",
        sum(counted) if type(fresh) is int else None,
        read or 0,
        at(message, "usage", "output_tokens"),
    )
    blocks = at(message, "content")
    blocks = blocks if isinstance(blocks, list) else []
    calls = [at(block, "input") for block in blocks if at(block, "type") == "tool_use"]
    texts = [at(block, "text") for block in blocks if at(block, "type") == "text"]
    reply = arguments(next(iter([*calls, *texts]), None))
    return BatchResult(custom_id, reply, None if reply is not None else "no_reply", spent)
