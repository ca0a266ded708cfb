"""Batch APIs: a common life cycle, and the calls and formats of three providers.

A provider stores user text until told to delete it. ``delete_batch`` does that, and is idempotent.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, Protocol

import httpx2
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from src.base.errors import ModelSetupError, ModelUnavailableError, PostponedError
from src.base.providers import ProviderSettings, find_batch_provider
from src.llm.completion_stream import parse_record
from src.llm.errors import model_error
from src.llm.reply import at

ENDPOINT: Final = "/v1/chat/completions"
JOB = "pomni_job"  # metadata key of our job id, at OpenAI
ID_KEY = "custom_id"  # metadata key of a request's id, at Google
MAX_REPLY_TOKENS = 8192  # per request; Anthropic requires a limit
CHECK_AGAIN = 600.0  # seconds before a batch that may be ours is checked again
BATCH_TIMEOUT = 120.0  # seconds per call: files are large
OPTIONS: Any = {"timeout": BATCH_TIMEOUT, "max_retries": 0}  # of both SDKs
UNKNOWN, REFUSED = 404, (400, 409)  # HTTP: not found; not possible in its current state
CLOCK_SKEW = timedelta(minutes=5)  # at most, between our clock and the provider's


@dataclass(frozen=True)
class BatchJob:
    """Job of ours that sends a batch.

    Attributes:
        id: Its id.
        model: The model that answers.
        custom_ids: Ids of its requests.
    """

    id: str
    model: str = ""
    custom_ids: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Name of what it sends, at the provider."""
        return f"pomni-{self.id}"


# ``lost``: unknown to the provider. ``completed``: nothing left to wait for; requests that were
# cancelled, expired or failed are missing from the results.
BatchStatus = Literal["pending", "completed", "lost"]


@dataclass(frozen=True)
class BatchRequest:
    """Request of a batch, whose reply must conform to ``schema``.

    Attributes:
        custom_id: UUID that identifies the result.
        messages: System messages first; text only.
        schema: Model of the reply.
    """

    custom_id: str
    messages: Sequence[BaseMessage]
    schema: type[BaseModel]

    @property
    def system(self) -> str:
        """Text of the system messages."""
        return "\n\n".join(str(m.text) for m in self.messages if isinstance(m, SystemMessage))

    @property
    def words(self) -> str:
        """Text of the other messages."""
        return "\n\n".join(str(m.text) for m in self.messages if not isinstance(m, SystemMessage))

    def tool(self, schema_key: str) -> dict[str, Any]:
        """Return the schema as a function: ``name``, ``description``, and ``schema_key``."""
        function: dict[str, Any] = convert_to_openai_tool(self.schema)["function"]
        function[schema_key] = function.pop("parameters")
        return function


@dataclass(frozen=True)
class BatchResult:
    """Result of one request.

    Attributes:
        custom_id: Id of the request as the provider returned it, unvalidated.
        reply: Arguments of the call, or text that may contain them; None if there is no reply.
        error: Short code of the failure, without user text.
        tokens: Tokens of the prompt, of its cached part, and of the reply; None if not reported.
    """

    custom_id: str
    reply: Mapping[str, Any] | str | None = None
    error: str | None = None
    tokens: tuple[int | None, int | None, int | None] = (None, None, None)


class LLMProvider(Protocol):
    """Provider with a batch API. Every method may raise the errors of ``model_error``.

    The base class implements the life cycle, with the calls that most SDKs share. A subclass
    defines the encoding of requests, the calls that differ, and the parsing of results.

    Attributes:
        name: As in ``global_settings.memory_extraction_provider``.
        max_requests: Requests per batch.
        max_bytes: Encoded size of a batch.
        max_listed: Batches to search, whatever their age, for one of ours.
        pending: States that have not ended.
        id_name: Attribute of a batch that holds its id.
        created_name: Attribute of a batch that holds its time of creation.
        state_name: Attribute of a batch that holds its state.
        retrieve: Name of the call that returns one batch.
        id_argument: Parameter name of a batch id in calls about one batch.
    """

    name: str
    max_requests: int
    max_bytes: int
    max_listed: int = 1000
    pending: frozenset[str]
    id_name: str = "id"
    created_name: str = "created_at"
    state_name: str = "status"
    retrieve: str = "retrieve"
    id_argument: str = "batch_id"
    _client: Any  # the SDK's client
    _batches: Any  # the SDK's resource for batches

    def encode(self, request: BatchRequest, model: str) -> dict[str, Any]:
        """Encode a request for the batch."""
        ...

    async def submit_batch(
        self, requests: Sequence[Mapping[str, Any]], model: str, *, job_id: str
    ) -> str:
        """Send encoded requests, and return the provider's id of the batch.

        ``job_id`` is ours: after a crash before the provider's id is stored, ``find_batch`` finds
        the batch by it.
        """
        with _mapped_errors():
            return await self._create_batch(list(requests), BatchJob(job_id, model))

    async def find_batch(
        self, job_id: str, custom_ids: frozenset[str], *, since: datetime
    ) -> str | None:
        """Return the batch that was submitted for a job of ours, or None.

        Args:
            job_id: Our job.
            custom_ids: Ids of its requests.
            since: Earliest time of submission.

        Raises:
            PostponedError: A batch that may be ours is still running.
        """
        seen, job = 0, BatchJob(job_id, custom_ids=custom_ids)
        with _mapped_errors():
            async for batch in self._list_batches():  # newest first
                if seen >= self.max_listed and self._created_at(batch) < since - CLOCK_SKEW:
                    break
                if await self._is_ours(batch, job):
                    return str(getattr(batch, self.id_name))
                seen += 1
        return None

    async def get_batch_status(self, batch_id: str) -> BatchStatus:
        """Return the status of a batch."""
        with _mapped_errors(UNKNOWN):
            batch = await self._call(self.retrieve, batch_id)
            return "pending" if self._is_pending(batch) else "completed"
        return "lost"

    async def get_batch_results(self, batch_id: str) -> list[BatchResult]:
        """Return the available results, in any order, possibly with duplicates."""
        results: list[BatchResult] = []
        with _mapped_errors(UNKNOWN):
            async for result in self._read_results(await self._call(self.retrieve, batch_id)):
                results.append(result)  # noqa: PERF401  (keeps the results before an error)
        return results

    async def cancel_batch(self, batch_id: str) -> None:
        """Cancel a batch; a batch that has ended or is unknown is ignored."""
        with _mapped_errors(UNKNOWN, *REFUSED):
            await self._call("cancel", batch_id)

    async def delete_batch(self, batch_id: str | None, *, job_id: str) -> None:
        """Delete everything of a batch that contains text, also uploads that never became a batch.

        Raises:
            ModelUnavailableError: It cannot be deleted yet.
        """
        with _mapped_errors(UNKNOWN, later=REFUSED):
            await self._delete(batch_id, BatchJob(job_id))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _create_batch(self, requests: list[Any], job: BatchJob) -> str: ...

    def _list_batches(self) -> AsyncIterator[Any]:
        return aiter(self._batches.list(limit=100))

    async def _is_ours(self, batch: Any, job: BatchJob) -> bool: ...

    def _read_results(self, batch: Any) -> AsyncIterator[BatchResult]: ...

    async def _call(self, call: str, batch_id: str) -> Any:
        return await getattr(self._batches, call)(**{self.id_argument: batch_id})

    def _created_at(self, batch: Any) -> datetime:
        created: datetime | int | None = getattr(batch, self.created_name)
        if isinstance(created, int):
            return datetime.fromtimestamp(created, UTC)
        return created or datetime.now(UTC)

    def _is_pending(self, batch: Any) -> bool:
        return getattr(batch, self.state_name) in self.pending

    async def _delete(self, batch_id: str | None, _job: BatchJob) -> None:
        if batch_id is not None:
            await self._call("delete", batch_id)


class OpenAIProvider(LLMProvider):
    """Uses a file of requests, and files of replies and errors; a file has at most 200 MB."""

    name = "openai"
    max_requests = 50_000
    max_bytes = 190_000_000
    pending = frozenset({"validating", "in_progress", "finalizing", "cancelling"})

    def __init__(self, api_key: str, url: str | None = None, proxy: str | None = None) -> None:
        """Create the client; nothing connects yet."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        http = DefaultAsyncHttpxClient(proxy=proxy)
        self._client = AsyncOpenAI(api_key=api_key, base_url=url, http_client=http, **OPTIONS)
        self._batches = self._client.batches

    def encode(self, request: BatchRequest, model: str) -> dict[str, Any]:
        """Return a line of the request file, as an object."""
        tool = request.tool("parameters")
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

    async def _create_batch(self, requests: list[Any], job: BatchJob) -> str:
        content = "\n".join(json.dumps(entry, ensure_ascii=False) for entry in requests)
        file = await self._client.files.create(
            file=(f"{job.name}.jsonl", content.encode("utf-8", "replace")),
            purpose="batch",
        )
        batch = await self._batches.create(
            input_file_id=file.id,
            endpoint=ENDPOINT,
            completion_window="24h",
            metadata={JOB: job.id, "model": job.model},
        )
        return batch.id

    async def _is_ours(self, batch: Any, job: BatchJob) -> bool:
        return bool(at(batch.metadata, JOB) == job.id)

    async def _read_results(self, batch: Any) -> AsyncIterator[BatchResult]:
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            lines = (await self._client.files.content(file)).content.split(b"\n")
            for entry in filter(None, map(parse_record, lines)):
                yield _read_openai(entry)

    async def _delete(self, batch_id: str | None, job: BatchJob) -> None:
        """Delete the files; of the batch itself only ids and counts remain."""
        for file in await self._files_of(batch_id, job):
            with _mapped_errors(UNKNOWN, later=REFUSED):
                await self._client.files.delete(file)

    async def _files_of(self, batch_id: str | None, job: BatchJob) -> list[str]:
        """Return the files of a batch; without one, those uploaded for the job."""
        if batch_id is not None:
            with _mapped_errors(UNKNOWN):
                batch = await self._call(self.retrieve, batch_id)
                files = (batch.input_file_id, batch.output_file_id, batch.error_file_id)
                return [file for file in files if file]
        found, seen = [], 0
        async for file in self._client.files.list(purpose="batch", order="desc"):
            if file.filename == f"{job.name}.jsonl":
                found.append(file.id)
            seen += 1
            if seen >= self.max_listed:
                break
        return found


class AnthropicProvider(LLMProvider):
    """Sends requests with the batch, and streams results; 100,000 requests, 256 MB.

    A batch cannot carry our job id, and shows the ids of its requests only after it has ended.
    Before that it cannot be deleted either.
    """

    name = "anthropic"
    max_requests = 100_000
    max_bytes = 240_000_000
    max_listed = 0
    pending = frozenset({"in_progress", "canceling"})
    state_name = "processing_status"
    id_argument = "message_batch_id"

    def __init__(self, api_key: str, url: str | None = None, proxy: str | None = None) -> None:
        """Create the client; nothing connects yet."""
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        http = DefaultAsyncHttpxClient(proxy=proxy)
        self._client = AsyncAnthropic(api_key=api_key, base_url=url, http_client=http, **OPTIONS)
        self._batches = self._client.messages.batches

    def encode(self, request: BatchRequest, model: str) -> dict[str, Any]:
        """Return an entry of ``requests``."""
        tool = request.tool("input_schema")
        params = {
            "model": model,
            "max_tokens": MAX_REPLY_TOKENS,
            "system": request.system,
            "messages": [{"role": "user", "content": request.words}],
            "tools": [tool],
            "tool_choice": {"type": "tool", "name": tool["name"]},
        }
        return {"custom_id": request.custom_id, "params": params}

    async def _create_batch(self, requests: list[Any], _job: BatchJob) -> str:
        return (await self._batches.create(requests=requests)).id

    async def _is_ours(self, batch: Any, job: BatchJob) -> bool:
        if self._is_pending(batch):
            raise PostponedError("a batch that may be ours runs", seconds=CHECK_AGAIN)
        async for result in self._read_results(batch):
            return result.custom_id in job.custom_ids
        return False

    async def _read_results(self, batch: Any) -> AsyncIterator[BatchResult]:
        if batch.results_url is not None:  # otherwise the SDK raises an error that is not HTTP's
            async for entry in await self._batches.results(batch.id):
                yield _read_anthropic(entry.model_dump(mode="json", warnings=False))


class GoogleProvider(LLMProvider):
    """Sends requests (20 MB at most) and receives results inline, without files."""

    name = "google"
    max_requests = 10_000
    max_bytes = 15_000_000
    pending = frozenset(
        {"JOB_STATE_UNSPECIFIED", "JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING"}
        | {"JOB_STATE_CANCELLING", "JOB_STATE_PAUSED", "JOB_STATE_UPDATING"}
    )
    id_name, created_name, state_name = "name", "create_time", "state"
    retrieve, id_argument = "get", "name"

    def __init__(self, api_key: str, url: str | None = None, proxy: str | None = None) -> None:
        """Create the client; nothing connects yet."""
        from google.genai import Client
        from google.genai.types import HttpOptions

        self._http = httpx2.AsyncClient(timeout=BATCH_TIMEOUT, proxy=proxy)
        options = HttpOptions(
            base_url=url,
            timeout=round(1000 * BATCH_TIMEOUT),
            httpx_async_client=self._http,
        )
        self._client = Client(api_key=api_key, vertexai=False, http_options=options)
        self._batches = self._client.aio.batches

    async def close(self) -> None:
        """Close the HTTP client, which the SDK does not own."""
        await self._http.aclose()

    def encode(self, request: BatchRequest, model: str) -> dict[str, Any]:
        """Return an inlined request."""
        tool = request.tool("parameters_json_schema")
        calling = {"mode": "ANY", "allowed_function_names": [tool["name"]]}
        config = {
            "system_instruction": request.system,
            "tools": [{"function_declarations": [tool]}],
            "tool_config": {"function_calling_config": calling},
        }
        return {
            "model": model,
            "contents": [{"role": "user", "parts": [{"text": request.words}]}],
            "metadata": {ID_KEY: request.custom_id},
            "config": config,
        }

    async def _create_batch(self, requests: list[Any], job: BatchJob) -> str:
        config: Any = {"display_name": job.name}
        return (
            await self._batches.create(model=job.model, src=requests, config=config)
        ).name or ""

    async def _list_batches(self) -> AsyncIterator[Any]:
        async for batch in await self._batches.list(config={"page_size": 100}):
            yield batch

    async def _is_ours(self, batch: Any, job: BatchJob) -> bool:
        return bool(batch.display_name == job.name)

    async def _read_results(self, batch: Any) -> AsyncIterator[BatchResult]:
        for entry in getattr(batch.dest, "inlined_responses", None) or ():
            yield _read_google(entry.model_dump(mode="json", warnings=False))


CLASSES: Mapping[str, Callable[[str, str | None, str | None], LLMProvider]] = {
    "openai": OpenAIProvider,
    "anthropic": AnthropicProvider,
    "google": GoogleProvider,
}


def get_llm_provider(name: str, settings: ProviderSettings) -> LLMProvider:
    """Build the provider named in ``memory_extraction_provider``; nothing connects yet.

    Raises:
        ModelSetupError: Its key is missing, or the name is unknown.
    """
    provider = find_batch_provider(name)
    if provider is None or not provider.is_configured(settings):
        raise ModelSetupError(f"the batch provider {name} has no key")
    secret = provider.secret(settings).get_secret_value()
    return CLASSES[name](secret, provider.base_url(settings), provider.proxy(settings))


def _read_openai(entry: Mapping[str, Any]) -> BatchResult:
    body, status = at(entry, "response", "body"), at(entry, "response", "status_code")
    error, problem = at(entry, "error", "code") or at(body, "error", "code"), None
    if status != 200:
        problem = _checked_code(error, f"http_{_checked_code(str(status), 'unknown')}")
    message, counts = at(body, "choices", 0, "message"), at(body, "usage")
    answers = (at(message, "tool_calls", 0, "function", "arguments"), at(message, "content"))
    cached = at(counts, "prompt_tokens_details", "cached_tokens")
    tokens = (at(counts, "prompt_tokens"), cached, at(counts, "completion_tokens"))
    return _build_result(entry.get("custom_id"), problem, answers, tokens)


def _read_anthropic(entry: dict[str, Any]) -> BatchResult:
    result = entry.get("result")
    error, problem = at(result, "error", "error", "type") or at(result, "type"), None
    if at(result, "type") != "succeeded":
        problem = _checked_code(error, "errored")
    answers = _values_at(at(result, "message", "content"), ("input",), ("text",))
    counts = at(result, "message", "usage")
    kinds = ("", "cache_read_", "cache_creation_")
    uncached, cached, written = (at(counts, f"{kind}input_tokens") for kind in kinds)
    prompt = sum(count for count in (uncached, cached, written) if type(count) is int)
    tokens = (prompt if type(uncached) is int else None, cached, at(counts, "output_tokens"))
    return _build_result(entry.get("custom_id"), problem, answers, tokens)


def _read_google(entry: dict[str, Any]) -> BatchResult:
    reply, error = at(entry, "response"), at(entry, "error", "code")
    problem = None
    if reply is None:
        problem = _checked_code(f"status_{error}", "errored")
    parts, counts = at(reply, "candidates", 0, "content", "parts"), at(reply, "usage_metadata")
    names = ("prompt_token_count", "cached_content_token_count", "candidates_token_count")
    answers = _values_at(parts, ("function_call", "args"), ("text",))
    custom_id = at(entry, "metadata", ID_KEY)
    return _build_result(custom_id, problem, answers, [at(counts, name) for name in names])


def _values_at(blocks: Any, *paths: tuple[str, ...]) -> list[Any]:
    blocks = blocks if isinstance(blocks, list) else []
    return [at(block, *path) for path in paths for block in blocks]


@contextmanager
def _mapped_errors(*ignored: int, later: Sequence[int] = ()) -> Iterator[None]:
    """Map the SDK's errors to ours.

    Args:
        ignored: HTTP statuses to ignore.
        later: HTTP statuses of what will be possible later.
    """
    try:
        yield
    except Exception as error:
        statuses = (getattr(error, "status_code", None), getattr(error, "code", None))
        if any(status in later for status in statuses):
            raise ModelUnavailableError("it cannot be done yet") from error
        if not any(status in ignored for status in statuses):
            raise model_error(error) from error


def _build_result(
    custom_id: Any, problem: str | None, answers: Sequence[Any], tokens: Sequence[Any]
) -> BatchResult:
    """Build the result of a request.

    Args:
        custom_id: Id of the request.
        problem: Code of the failure; None if it succeeded.
        answers: Candidates for the reply, of which the first is taken: arguments of calls, then
            texts.
        tokens: Tokens of the prompt, of its cached part, and of the reply.
    """
    if problem is not None:
        return BatchResult(str(custom_id), error=problem)
    reply = next((answer for answer in answers if answer is not None), None)
    prompt, cached, completion = (
        count if type(count) is int and 0 <= count < 2**31 else None
        for count in (tokens[0], tokens[1] or 0, tokens[2])
    )
    result = BatchResult(str(custom_id), reply, tokens=(prompt, cached, completion))
    if isinstance(reply, Mapping | str):
        return result
    return replace(result, reply=None, error="no_reply")


def _checked_code(value: Any, fallback: str) -> str:
    """Return a provider's short code if it looks like one: its messages may quote user text."""
    is_code = isinstance(value, str) and value.replace("_", "").isalnum() and len(value) < 60
    return value if is_code else fallback
