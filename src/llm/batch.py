"""The three batch APIs: what each is sent, the calls of its SDK, how its results are read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

import httpx
from pydantic import SecretStr

from src.base.errors import ModelSetupError, PostponedError
from src.base.providers import ProviderSettings, find_batch_provider
from src.llm.batch_provider import (
    BATCH_TIMEOUT,
    BatchRequest,
    BatchResult,
    LLMProvider,
    answered,
    at,
    code,
    is_unknown,
    lines,
    our_errors,
)

ENDPOINT: Final = "/v1/chat/completions"
JOB = "pomni_job"  # the key of our id in the metadata of OpenAI's batches
ID_KEY = "custom_id"  # of a request's metadata, at Google
MAX_REPLY_TOKENS = 8192  # of one request, as Anthropic wants to be told
LOOK_AGAIN = 600.0  # seconds until a batch that may be ours is looked at again
OPENAI_PENDING = frozenset({"validating", "in_progress", "finalizing", "cancelling"})
GOOGLE_PENDING = frozenset(
    {"JOB_STATE_UNSPECIFIED", "JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING"}
    | {"JOB_STATE_CANCELLING", "JOB_STATE_PAUSED", "JOB_STATE_UPDATING"}
)


class OpenAIProvider(LLMProvider):
    """A file of requests, a batch over it, files of replies and errors; no file over 200 MB."""

    name = "openai"
    max_requests = 50_000
    max_bytes = 190_000_000

    def __init__(self, api_key: str, base_url: str | None = None) -> None:
        """Nothing connects yet."""
        from openai import AsyncOpenAI

        self._client = AsyncOpenAI(
            api_key=api_key, base_url=base_url, timeout=BATCH_TIMEOUT, max_retries=0
        )
        self._batches = self._client.batches

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

    async def _create(self, requests: list[Any], model: str, job_id: str) -> str:
        content = "\n".join(json.dumps(entry, ensure_ascii=False) for entry in requests)
        file = await self._client.files.create(
            file=(_name(job_id) + ".jsonl", content.encode("utf-8", "replace")), purpose="batch"
        )
        batch = await self._batches.create(
            input_file_id=file.id,
            endpoint=ENDPOINT,
            completion_window="24h",
            metadata={JOB: job_id, "model": model},
        )
        return batch.id

    def _created_at(self, batch: Any) -> datetime:
        return datetime.fromtimestamp(batch.created_at, UTC)

    async def _is_ours(self, batch: Any, job_id: str, custom_ids: frozenset[str]) -> bool:  # noqa: ARG002
        return bool(at(batch.metadata, JOB) == job_id)

    def _is_pending(self, batch: Any) -> bool:
        return batch.status in OPENAI_PENDING

    async def _results(self, batch: Any) -> AsyncIterator[BatchResult]:
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            for entry in lines((await self._client.files.content(file)).text):
                yield _read_openai(entry)

    async def _delete(self, batch_id: str | None, job_id: str) -> None:
        """The files; of the batch itself only ids and counts remain."""
        for file in await self._files_of(batch_id, job_id):
            try:
                await self._client.files.delete(file)
            except Exception as error:
                if not is_unknown(error):
                    raise

    async def _files_of(self, batch_id: str | None, job_id: str) -> list[str]:
        """The files of a batch; without one, those that were uploaded for the job."""
        if batch_id is not None:
            with our_errors(is_unknown):
                batch = await self._retrieve(batch_id)
                named = (batch.input_file_id, batch.output_file_id, batch.error_file_id)
                return [file for file in named if file]
        found, seen = [], 0
        async for file in self._client.files.list(purpose="batch", order="desc"):
            if file.filename == _name(job_id) + ".jsonl":
                found.append(file.id)
            seen += 1
            if seen >= self.max_listed:
                break
        return found


class AnthropicProvider(LLMProvider):
    """Requests go with the batch, results come as a stream; 100,000 requests, 256 MB.

    A batch has no place for our id, and its requests tell theirs when it has ended; not before
    that it can be deleted.
    """

    name = "anthropic"
    max_requests = 100_000
    max_bytes = 240_000_000
    max_listed = 0

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
        asked = {"name": tool["name"], "description": tool.get("description", "")}
        params = {
            "model": model,
            "max_tokens": MAX_REPLY_TOKENS,
            "system": request.system,
            "messages": [{"role": "user", "content": request.words}],
            "tools": [{**asked, "input_schema": tool["parameters"]}],
            "tool_choice": {"type": "tool", "name": tool["name"]},
        }
        return {"custom_id": request.custom_id, "params": params}

    async def _create(self, requests: list[Any], model: str, job_id: str) -> str:  # noqa: ARG002
        return (await self._batches.create(requests=requests)).id

    def _created_at(self, batch: Any) -> datetime:
        return cast("datetime", batch.created_at)

    async def _is_ours(self, batch: Any, job_id: str, custom_ids: frozenset[str]) -> bool:  # noqa: ARG002
        if self._is_pending(batch):
            raise PostponedError("a batch that may be ours runs", seconds=LOOK_AGAIN)
        async for result in self._results(batch):
            return result.custom_id in custom_ids
        return False

    def _is_pending(self, batch: Any) -> bool:
        return bool(batch.processing_status != "ended")

    async def _results(self, batch: Any) -> AsyncIterator[BatchResult]:
        if batch.results_url is not None:  # the SDK would raise what is no error of HTTP
            async for entry in await self._batches.results(batch.id):
                yield _read_anthropic(entry.model_dump(mode="json", warnings=False))


class GoogleProvider(LLMProvider):
    """Requests of 20 MB at most go inline, and the results come with the batch: no files."""

    name = "google"
    max_requests = 10_000
    max_bytes = 15_000_000
    id_name = "name"

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

    async def close(self) -> None:
        """See ``LLMProvider``."""
        await self._http.aclose()

    def encode(self, request: BatchRequest, model: str) -> dict[str, Any]:
        """See ``LLMProvider``."""
        tool = request.tool()
        asked = {"name": tool["name"], "description": tool.get("description", "")}
        calling = {"mode": "ANY", "allowed_function_names": [tool["name"]]}
        function = {**asked, "parameters_json_schema": tool["parameters"]}
        config = {
            "system_instruction": request.system,
            "tools": [{"function_declarations": [function]}],
            "tool_config": {"function_calling_config": calling},
        }
        return {
            "model": model,
            "contents": [{"role": "user", "parts": [{"text": request.words}]}],
            "metadata": {ID_KEY: request.custom_id},
            "config": config,
        }

    async def _create(self, requests: list[Any], model: str, job_id: str) -> str:
        config: Any = {"display_name": _name(job_id)}
        return (await self._batches.create(model=model, src=requests, config=config)).name or ""

    async def _list(self) -> AsyncIterator[Any]:
        async for batch in await self._batches.list(config={"page_size": 100}):
            yield batch

    def _created_at(self, batch: Any) -> datetime:
        return batch.create_time or datetime.now(UTC)

    async def _is_ours(self, batch: Any, job_id: str, custom_ids: frozenset[str]) -> bool:  # noqa: ARG002
        return bool(batch.display_name == _name(job_id))

    async def _retrieve(self, batch_id: str) -> Any:
        return await self._batches.get(name=batch_id)

    def _is_pending(self, batch: Any) -> bool:
        return batch.state is not None and batch.state.value in GOOGLE_PENDING

    async def _results(self, batch: Any) -> AsyncIterator[BatchResult]:
        for entry in (batch.dest.inlined_responses if batch.dest else None) or ():
            yield _read_google(entry.model_dump(mode="json", warnings=False))

    async def _cancel(self, batch_id: str) -> None:
        await self._batches.cancel(name=batch_id)

    async def _delete(self, batch_id: str | None, job_id: str) -> None:  # noqa: ARG002
        if batch_id is not None:
            await self._batches.delete(name=batch_id)


CLASSES: Mapping[str, Callable[[str, str | None], LLMProvider]] = {
    "openai": OpenAIProvider,
    "anthropic": AnthropicProvider,
    "google": GoogleProvider,
}


def get_llm_provider(name: str, settings: ProviderSettings) -> LLMProvider:
    """The provider called so in ``memory_extraction_provider``; nothing connects yet.

    Raises:
        ModelSetupError: Its key is missing, or there is none of this name.
    """
    provider = find_batch_provider(name)
    if provider is None or not provider.is_configured(settings):
        raise ModelSetupError(f"the batch provider {name} has no key")
    key: SecretStr | None = getattr(settings, provider.key_variable.lower())
    base_url: str | None = getattr(settings, provider.base_url_variable.lower())
    return CLASSES[name](key.get_secret_value() if key else "none", base_url)


def _name(job_id: str) -> str:
    return f"pomni-{job_id}"


def _read_openai(entry: dict[str, Any]) -> BatchResult:
    """One line of either file."""
    custom_id = str(entry.get("custom_id"))
    body, status = at(entry, "response", "body"), at(entry, "response", "status_code")
    if status != 200:
        error = at(entry, "error", "code") or at(body, "error", "code")
        return BatchResult(custom_id, error=code(error, f"http_{code(str(status), 'unknown')}"))
    message, counts = at(body, "choices", 0, "message"), at(body, "usage")
    called = at(message, "tool_calls", 0, "function", "arguments")
    return answered(
        custom_id,
        [called if called is not None else at(message, "content")],
        at(counts, "prompt_tokens"),
        at(counts, "prompt_tokens_details", "cached_tokens") or 0,
        at(counts, "completion_tokens"),
    )


def _read_anthropic(entry: dict[str, Any]) -> BatchResult:
    """One line of the results."""
    custom_id, result = str(entry.get("custom_id")), entry.get("result")
    kind = at(result, "type")
    if kind != "succeeded":
        error = at(result, "error", "error", "type") or kind
        return BatchResult(custom_id, error=code(error, "errored"))
    message, counts = at(result, "message"), at(result, "message", "usage")
    fresh, read, written = (
        at(counts, f"{kind}input_tokens") for kind in ("", "cache_read_", "cache_creation_")
    )
    prompt = sum(n for n in (fresh, read, written) if type(n) is int)
    return answered(
        custom_id,
        _values(at(message, "content"), ("input",), ("text",)),
        prompt if type(fresh) is int else None,
        read or 0,
        at(counts, "output_tokens"),
    )


def _read_google(entry: dict[str, Any]) -> BatchResult:
    """One inlined response; it carries the metadata of its request."""
    custom_id, reply = str(at(entry, "metadata", ID_KEY)), at(entry, "response")
    if reply is None:
        error = at(entry, "error", "code")
        return BatchResult(custom_id, error=code(f"status_{error}", "errored"))
    counts = at(reply, "usage_metadata")
    parts = at(reply, "candidates", 0, "content", "parts")
    return answered(
        custom_id,
        _values(parts, ("function_call", "args"), ("text",)),
        at(counts, "prompt_token_count"),
        at(counts, "cached_content_token_count") or 0,
        at(counts, "candidates_token_count"),
    )


def _values(blocks: Any, *paths: tuple[str, ...]) -> list[Any]:
    """What stands in blocks at the first path, then at the second: calls before texts."""
    blocks = blocks if isinstance(blocks, list) else []
    found = [at(block, *path) for path in paths for block in blocks]
    return [value for value in found if value is not None]
