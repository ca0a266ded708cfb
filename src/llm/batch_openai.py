"""OpenAI's Batch API: a file of requests, a batch over it, files of replies and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

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
    lines,
    not_deleted,
    usage,
)
from src.llm.errors import model_error

ENDPOINT: Final = "/v1/chat/completions"
JOB = "pomni_job"  # the key of our id in a batch's metadata
PENDING = frozenset({"validating", "in_progress", "finalizing", "cancelling"})
MAX_LISTED = 1000  # batches, or files, that are looked through


class OpenAIProvider:
    """See ``LLMProvider``; limits of 50,000 requests and 200 MB."""

    name = "openai"
    max_requests = 50_000
    max_bytes = 190_000_000

    def __init__(self, api_key: str, base_url: str | None = None) -> None:
        """Nothing connects yet."""
        from openai import AsyncOpenAI

        self._client = AsyncOpenAI(
            api_key=api_key, base_url=base_url, timeout=BATCH_TIMEOUT, max_retries=0
        )

    def encode(self, request: BatchRequest, model: str) -> dict[str, Any]:
        """See ``LLMProvider``."""
        tool = request.tool()
        body = {
            "model": model,
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.words},
            ],
            "tools": [{"type": "function", "function": tool}],
            "tool_choice": {"type": "function", "function": {"name": tool["name"]}},
        }
        return {"custom_id": request.custom_id, "method": "POST", "url": ENDPOINT, "body": body}

    async def submit_batch(
        self, requests: Sequence[Mapping[str, Any]], model: str, *, job_id: str
    ) -> str:
        """See ``LLMProvider``; the model is named in each request."""
        content = "\n".join(json.dumps(entry, ensure_ascii=False) for entry in requests)
        try:
            file = await self._client.files.create(
                file=(_file_name(job_id), content.encode("utf-8", "replace")), purpose="batch"
            )
            batch = await self._client.batches.create(
                input_file_id=file.id,
                endpoint=ENDPOINT,
                completion_window="24h",
                metadata={JOB: job_id, "model": model},
            )
        except Exception as error:
            raise model_error(error) from error
        return batch.id

    async def find_batch(
        self,
        job_id: str,
        custom_ids: frozenset[str],  # noqa: ARG002
        *,
        since: datetime,
    ) -> str | None:
        """See ``LLMProvider``; a batch carries our id, and the newest are listed first."""
        seen = 0
        try:
            async for batch in self._client.batches.list(limit=100):
                if at(batch.metadata, JOB) == job_id:
                    return batch.id
                seen += 1
                if seen >= MAX_LISTED and batch.created_at < since.timestamp():
                    break
        except Exception as error:
            raise model_error(error) from error
        return None

    async def get_batch_status(self, batch_id: str) -> BatchStatus:
        """See ``LLMProvider``."""
        try:
            batch = await self._client.batches.retrieve(batch_id)
        except Exception as error:
            if is_unknown(error):
                return "lost"
            raise model_error(error) from error
        return "pending" if batch.status in PENDING else "completed"

    async def get_batch_results(self, batch_id: str) -> list[BatchResult]:
        """See ``LLMProvider``; from the file of replies and that of errors."""
        found: list[BatchResult] = []
        try:
            batch = await self._client.batches.retrieve(batch_id)
            for file in (batch.output_file_id, batch.error_file_id):
                if file:
                    content = await self._client.files.content(file)
                    found += map(_read, lines(content.text))
        except Exception as error:
            if is_unknown(error):
                return found
            raise model_error(error) from error
        return found

    async def cancel_batch(self, batch_id: str) -> None:
        """See ``LLMProvider``."""
        try:
            await self._client.batches.cancel(batch_id)
        except Exception as error:
            if not (is_unknown(error) or is_refused(error)):
                raise model_error(error) from error

    async def delete_batch(self, batch_id: str | None, *, job_id: str) -> None:
        """See ``LLMProvider``: the files; of the batch itself only ids and counts remain."""
        try:
            for file in await self._files_of(batch_id, job_id):
                await self._delete_file(file)
        except Exception as error:
            raise not_deleted(error) from error

    async def close(self) -> None:
        """See ``LLMProvider``."""
        await self._client.close()

    async def _files_of(self, batch_id: str | None, job_id: str) -> list[str]:
        """The files of a batch; without one, those that were uploaded for the job."""
        if batch_id is not None:
            try:
                batch = await self._client.batches.retrieve(batch_id)
            except Exception as error:
                if not is_unknown(error):
                    raise
            else:
                named = (batch.input_file_id, batch.output_file_id, batch.error_file_id)
                return [file for file in named if file]
        found, seen = [], 0
        async for file in self._client.files.list(purpose="batch", order="desc"):
            if file.filename == _file_name(job_id):
                found.append(file.id)
            seen += 1
            if seen >= MAX_LISTED:
                break
        return found

    async def _delete_file(self, file: str) -> None:
        try:
            await self._client.files.delete(file)
        except Exception as error:
            if not is_unknown(error):
                raise


def _file_name(job_id: str) -> str:
    return f"pomni-{job_id}.jsonl"


def _read(entry: dict[str, Any]) -> BatchResult:
    """One line of either file."""
    custom_id = str(entry.get("custom_id"))
    body = at(entry, "response", "body")
    status = at(entry, "response", "status_code")
    if status != 200:
        error = at(entry, "error", "code") or at(body, "error", "code")
        return BatchResult(custom_id, error=code(error, f"http_{code(str(status), 'unknown')}"))
    spent = usage(
        f"openai:{str(at(body, 'model'))[:100]}",
        at(body, "usage", "prompt_tokens"),
        at(body, "usage", "prompt_tokens_details", "cached_tokens") or 0,
        at(body, "usage", "completion_tokens"),
    )
    message = at(body, "choices", 0, "message")
    called = at(message, "tool_calls", 0, "function", "arguments")
    reply = arguments(called if called is not None else at(message, "content"))
    return BatchResult(custom_id, reply, None if reply is not None else "no_reply", spent)
