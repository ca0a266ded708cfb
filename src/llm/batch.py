"""Batch APIs: a common life cycle, and the calls and formats of three providers.

A provider stores user text until told to delete it. ``delete_batch`` does that, and is idempotent.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, Protocol, Self

import httpx2
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from src.base.errors import ModelSetupError, ModelUnavailableError, PostponedError
from src.base.providers import ProviderSettings, find_batch_provider
from src.llm.completions import parse_record
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

    @classmethod
    def of(
        cls, custom_id: Any, replies: Sequence[Any], error: str | None, tokens: Sequence[Any]
    ) -> Self:
        """Build a result with the first of the replies, else with the error."""
        reply = next((reply for reply in replies if isinstance(reply, Mapping | str)), None)
        if reply is None:
            return cls(str(custom_id), error=error or "no_reply")
        prompt, cached, completion = tokens
        return cls(str(custom_id), reply, tokens=(prompt, cached or 0, completion))


class LLMProvider(Protocol):
    """Provider with a batch API. Every method may raise the errors of ``model_error``.

    The base class implements the life cycle, with the calls that most SDKs share. A subclass
    defines the encoding of requests, the calls that differ, and the parsing of results.

    Attributes:
        name: As in ``global_settings.memory_extraction_provider``.
        max_requests: Requests per batch.
        max_bytes: Encoded size of a batch.
        pending: States that have not ended.
        id_name: Attribute of a batch that holds its id.
        created_name: Attribute of a batch that holds its time of creation.
        state_name: Attribute of a batch that holds its state.
        retrieve: Name of the call that returns one batch.
        id_argument: Argument of the calls that take the id of a batch.
    """

    name: str
    max_requests: int
    max_bytes: int
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

    async def submit_batch(
        self, requests: Sequence[Mapping[str, Any]], model: str, *, job_id: str
    ) -> str:
        """Send encoded requests, and return the provider's id of the batch.

        ``job_id`` is ours: after a crash before the provider's id is stored, ``find_batch`` finds
        the batch by it.
        """
        with _mapped_errors():
            return await self.create_batch(list(requests), model, job_id)

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
        with _mapped_errors():
            async for batch in self.list_batches():
                created: datetime | int | None = getattr(batch, self.created_name)
                if isinstance(created, int):
                    created = datetime.fromtimestamp(created, UTC)
                if created is not None and created < since - CLOCK_SKEW:
                    break
                if await self.is_ours(batch, job_id, custom_ids):
                    return str(getattr(batch, self.id_name))
        return None

    async def get_batch_status(self, batch_id: str) -> BatchStatus:
        """Return the status of a batch."""
        with _mapped_errors(UNKNOWN):
            if self.is_pending(await self.call(self.retrieve, batch_id)):
                return "pending"
            return "completed"
        return "lost"

    async def get_batch_results(self, batch_id: str) -> list[BatchResult]:
        """Return the available results, in any order, possibly with duplicates."""
        results: list[BatchResult] = []
        with _mapped_errors(UNKNOWN):
            async for result in self.read_results(await self.call(self.retrieve, batch_id)):
                results.append(result)  # noqa: PERF401  (keeps the results before an error)
        return results

    async def cancel_batch(self, batch_id: str) -> None:
        """Cancel a batch; a batch that has ended or is unknown is ignored."""
        with _mapped_errors(UNKNOWN, *REFUSED):
            await self.call("cancel", batch_id)

    async def delete_batch(self, batch_id: str | None, *, job_id: str) -> None:
        """Delete everything of a batch that contains text, also uploads that never became a batch.

        Raises:
            ModelUnavailableError: It cannot be deleted yet.
        """
        with _mapped_errors(UNKNOWN, later=REFUSED):
            await self.delete_texts(batch_id, job_id)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def create_batch(self, requests: list[Any], model: str, job_id: str) -> str:
        """Make the calls that send requests; return the provider's id of the batch."""

    def list_batches(self) -> AsyncIterator[Any]:
        """Return the batches of this key, the newest first."""
        return aiter(self._batches.list(limit=100))

    async def is_ours(self, batch: Any, job_id: str, custom_ids: frozenset[str]) -> bool:
        """Return True if a batch was submitted for a job of ours; see ``find_batch``."""

    def read_results(self, batch: Any) -> AsyncIterator[BatchResult]:
        """Yield the available results of a batch."""

    async def call(self, call: str, batch_id: str) -> Any:
        """Make a call of the SDK that takes the id of a batch."""
        return await getattr(self._batches, call)(**{self.id_argument: batch_id})

    def is_pending(self, batch: Any) -> bool:
        """Return True if a batch has not ended."""
        return getattr(batch, self.state_name) in self.pending

    async def delete_texts(self, batch_id: str | None, _job_id: str) -> None:
        """Make the calls of ``delete_batch``."""
        if batch_id is not None:
            await self.call("delete", batch_id)


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

    async def create_batch(self, requests: list[Any], model: str, job_id: str) -> str:
        """Upload a file of requests, and start a batch of it."""
        content = "\n".join(json.dumps(entry, ensure_ascii=False) for entry in requests)
        file = await self._client.files.create(
            file=(_name_of(job_id), content.encode("utf-8", "replace")), purpose="batch"
        )
        batch = await self._batches.create(
            input_file_id=file.id,
            endpoint=ENDPOINT,
            completion_window="24h",
            metadata={JOB: job_id, "model": model},
        )
        return str(batch.id)

    async def is_ours(self, batch: Any, job_id: str, _custom_ids: frozenset[str]) -> bool:
        """Compare our id in the metadata."""
        return bool(at(batch.metadata, JOB) == job_id)

    async def read_results(self, batch: Any) -> AsyncIterator[BatchResult]:
        """Read the lines of both files."""
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            lines = (await self._client.files.content(file)).content.split(b"\n")
            for entry in filter(None, map(parse_record, lines)):
                body = at(entry, "response", "body")
                message, usage = at(body, "choices", 0, "message"), at(body, "usage")
                arguments = at(message, "tool_calls", 0, "function", "arguments")
                error = at(entry, "error", "code") or at(body, "error", "code")
                cached = at(usage, "prompt_tokens_details", "cached_tokens")
                tokens = (at(usage, "prompt_tokens"), cached, at(usage, "completion_tokens"))
                replies = [arguments, at(message, "content")]
                yield BatchResult.of(entry.get("custom_id"), replies, error, tokens)

    async def delete_texts(self, batch_id: str | None, job_id: str) -> None:
        """Delete the files; of the batch itself only ids and counts remain."""
        uploads = self._client.files.list(purpose="batch")
        files = [file.id async for file in uploads if file.filename == _name_of(job_id)]
        if batch_id is not None:
            with _mapped_errors(UNKNOWN):
                batch = await self.call(self.retrieve, batch_id)
                files += filter(None, (batch.output_file_id, batch.error_file_id))
        for file in files:
            with _mapped_errors(UNKNOWN, later=REFUSED):
                await self._client.files.delete(file)


class AnthropicProvider(LLMProvider):
    """Sends requests with the batch, and streams results; 100,000 requests, 256 MB.

    A batch cannot carry our job id, and shows the ids of its requests only after it has ended.
    Before that it cannot be deleted either.
    """

    name = "anthropic"
    max_requests = 100_000
    max_bytes = 240_000_000
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

    async def create_batch(self, requests: list[Any], _model: str, _job_id: str) -> str:
        """Send the requests."""
        return str((await self._batches.create(requests=requests)).id)

    async def is_ours(self, batch: Any, _job_id: str, custom_ids: frozenset[str]) -> bool:
        """Compare the id of its first result.

        Raises:
            PostponedError: It has none yet.
        """
        if self.is_pending(batch):
            raise PostponedError("a batch that may be ours runs", seconds=CHECK_AGAIN)
        async for result in self.read_results(batch):
            return result.custom_id in custom_ids
        return False

    async def read_results(self, batch: Any) -> AsyncIterator[BatchResult]:
        """Stream the results, once there are any."""
        if batch.results_url is None:  # the SDK would raise an error that is not HTTP's
            return
        async for row in await self._batches.results(batch.id):
            entry = row.model_dump(mode="json", warnings=False)
            result = entry["result"]
            blocks = at(result, "message", "content") or []
            usage = at(result, "message", "usage")
            replies = [at(block, name) for name in ("input", "text") for block in blocks]
            error = at(result, "error", "error", "type") or result["type"]
            uncached, cached, written, completion = (
                at(usage, f"{kind}_tokens") or 0
                for kind in ("input", "cache_read_input", "cache_creation_input", "output")
            )
            tokens = (uncached + cached + written, cached, completion)
            yield BatchResult.of(entry["custom_id"], replies, error, tokens)


class GoogleProvider(LLMProvider):
    """Sends requests (20 MB at most) and receives results inline, without files."""

    name = "google"
    max_requests = 10_000
    max_bytes = 15_000_000
    states = "UNSPECIFIED QUEUED PENDING RUNNING CANCELLING PAUSED UPDATING"
    pending = frozenset(f"JOB_STATE_{state}" for state in states.split())
    id_name, created_name, state_name = "name", "create_time", "state"
    retrieve, id_argument = "get", "name"

    def __init__(self, api_key: str, url: str | None = None, proxy: str | None = None) -> None:
        """Create the client; nothing connects yet."""
        from google.genai import Client
        from google.genai.types import HttpOptions

        self._http = httpx2.AsyncClient(timeout=BATCH_TIMEOUT, proxy=proxy)
        options = HttpOptions(
            base_url=url, timeout=round(1000 * BATCH_TIMEOUT), httpx_async_client=self._http
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

    async def create_batch(self, requests: list[Any], model: str, job_id: str) -> str:
        """Send the requests under the name of our job."""
        config: Any = {"display_name": _name_of(job_id)}
        batch = await self._batches.create(model=model, src=requests, config=config)
        return str(batch.name)

    async def list_batches(self) -> AsyncIterator[Any]:
        """Read page by page."""
        async for batch in await self._batches.list(config={"page_size": 100}):
            yield batch

    async def is_ours(self, batch: Any, job_id: str, _custom_ids: frozenset[str]) -> bool:
        """Compare the name of our job."""
        return bool(batch.display_name == _name_of(job_id))

    async def read_results(self, batch: Any) -> AsyncIterator[BatchResult]:
        """Read the responses that came with the batch."""
        names = ("prompt_token_count", "cached_content_token_count", "candidates_token_count")
        for row in getattr(batch.dest, "inlined_responses", None) or ():
            entry = row.model_dump(mode="json", warnings=False)
            parts = at(entry, "response", "candidates", 0, "content", "parts") or []
            replies = [at(part, "function_call", "args") for part in parts]
            replies += [at(part, "text") for part in parts]
            tokens = [at(entry, "response", "usage_metadata", name) for name in names]
            error, code = None, at(entry, "error", "code")
            if code is not None:
                error = f"status_{code}"
            yield BatchResult.of(at(entry, "metadata", ID_KEY), replies, error, tokens)


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


def _name_of(job_id: str) -> str:
    """Return the name of what a job of ours sends, at the provider."""
    return f"pomni-{job_id}.jsonl"


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
