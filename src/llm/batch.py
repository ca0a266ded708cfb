"""Batch APIs: one life cycle, and for each of three providers its calls and its formats.

A provider stores what users wrote until it is told to delete it; ``delete_batch`` does, and may be
repeated.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, Protocol

import httpx
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from src.base.errors import ModelSetupError, ModelUnavailableError, PostponedError
from src.base.providers import ProviderSettings, find_batch_provider
from src.llm.errors import model_error
from src.llm.reply import at

ENDPOINT: Final = "/v1/chat/completions"
JOB = "pomni_job"  # the key of our id in the metadata of OpenAI's batches
ID_KEY = "custom_id"  # of a request's metadata, at Google
MAX_REPLY_TOKENS = 8192  # of one request, as Anthropic wants to be told
LOOK_AGAIN = 600.0  # seconds until a batch that may be ours is looked at again
BATCH_TIMEOUT = 120.0  # seconds of one call: files are large
OPTIONS: Any = {"timeout": BATCH_TIMEOUT, "max_retries": 0}  # of OpenAI's and Anthropic's SDK
UNKNOWN, REFUSED = 404, (400, 409)  # HTTP: there is no such thing; not in the state that it is in
CLOCK_SKEW = timedelta(minutes=5)  # between our clock and theirs, at most

# ``lost``: the provider does not know it (any more). ``completed``: there is nothing to wait for;
# what it did not answer, because it was cancelled, expired or failed, is missing from the results.
BatchStatus = Literal["pending", "completed", "lost"]


@dataclass(frozen=True)
class BatchRequest:
    """One question, whose reply is to have the form of ``schema``.

    Attributes:
        custom_id: A UUID; the result is found by it.
        messages: System messages first; text only.
        schema: What the reply is to be.
    """

    custom_id: str
    messages: Sequence[BaseMessage]
    schema: type[BaseModel]

    @property
    def system(self) -> str:
        """The text of the system messages."""
        return "\n\n".join(str(m.text) for m in self.messages if isinstance(m, SystemMessage))

    @property
    def words(self) -> str:
        """The text of the others."""
        return "\n\n".join(str(m.text) for m in self.messages if not isinstance(m, SystemMessage))

    def tool(self) -> dict[str, Any]:
        """The schema as a function: ``name``, ``description``, ``parameters``."""
        function: dict[str, Any] = convert_to_openai_tool(self.schema)["function"]
        return function


@dataclass(frozen=True)
class BatchResult:
    """What became of one request.

    Attributes:
        custom_id: Of the request, as the provider returned it: of any content.
        reply: The arguments of the call, or a text that may hold them; None when there is none.
        error: Why there is none: a short code, without any text of a user.
        tokens: Of the prompt, of that from a cache, and of the reply; None where not reported.
    """

    custom_id: str
    reply: Mapping[str, Any] | str | None = None
    error: str | None = None
    tokens: tuple[int | None, int | None, int | None] = (None, None, None)


class LLMProvider(Protocol):
    """A provider with a batch API. Every method may raise the errors of ``model_error``.

    The life of a batch stands here, with the calls that most SDKs have; a provider says what it
    sends, where its calls differ, and how it reads what comes.

    Attributes:
        name: As in ``global_settings.memory_extraction_provider``.
        max_requests: Of one batch.
        max_bytes: Of one batch, as it is sent.
        max_listed: Batches that are looked through, whatever their age, for one of ours.
        pending: States in which there is something to wait for.
        id_name: The attributes of its batches: their id, when they were made, their state.
        created_name: See ``id_name``.
        state_name: See ``id_name``.
        retrieve: The call that gets one.
        id_argument: What the calls that concern one take its id as.
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
    _client: Any  # of the SDK
    _batches: Any  # its calls that concern batches

    def encode(self, request: BatchRequest, model: str) -> dict[str, Any]:
        """A request as it goes into the batch."""
        ...

    async def submit_batch(
        self, requests: Sequence[Mapping[str, Any]], model: str, *, job_id: str
    ) -> str:
        """Send encoded requests; returns the provider's id of the batch.

        ``job_id`` is ours: by it ``find_batch`` finds the batch when we die before we know its id.
        """
        with _our_errors():
            return await self._create(list(requests), model, job_id)

    async def find_batch(
        self, job_id: str, custom_ids: frozenset[str], *, since: datetime
    ) -> str | None:
        """The batch that was submitted for our job, if it was.

        Args:
            job_id: Our job.
            custom_ids: Of its requests.
            since: It was not submitted before.

        Raises:
            PostponedError: It can only be told later, when some batch has ended.
        """
        seen = 0
        with _our_errors():
            async for batch in self._list():  # newest first
                if seen >= self.max_listed and self._created_at(batch) < since - CLOCK_SKEW:
                    break
                if await self._is_ours(batch, job_id, custom_ids):
                    return str(getattr(batch, self.id_name))
                seen += 1
        return None

    async def get_batch_status(self, batch_id: str) -> BatchStatus:
        """Whether there is anything to wait for."""
        with _our_errors(UNKNOWN):
            batch = await self._call(self.retrieve, batch_id)
            return "pending" if self._is_pending(batch) else "completed"
        return "lost"

    async def get_batch_results(self, batch_id: str) -> list[BatchResult]:
        """What there is of results, in any order, perhaps some of them twice."""
        found: list[BatchResult] = []
        with _our_errors(UNKNOWN):
            async for result in self._results(await self._call(self.retrieve, batch_id)):
                found.append(result)  # noqa: PERF401  (what came before an error counts)
        return found

    async def cancel_batch(self, batch_id: str) -> None:
        """Answer no more of it; one that has ended or is unknown is no error."""
        with _our_errors(UNKNOWN, *REFUSED):
            await self._call("cancel", batch_id)

    async def delete_batch(self, batch_id: str | None, *, job_id: str) -> None:
        """Delete everything of the batch that holds a text, also what was never made a batch of.

        Raises:
            ModelUnavailableError: It cannot be deleted yet.
        """
        with _our_errors(UNKNOWN, later=REFUSED):
            await self._delete(batch_id, job_id)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    async def _create(self, requests: list[Any], model: str, job_id: str) -> str: ...

    def _list(self) -> AsyncIterator[Any]:
        return aiter(self._batches.list(limit=100))

    async def _is_ours(self, batch: Any, job_id: str, custom_ids: frozenset[str]) -> bool: ...

    def _results(self, batch: Any) -> AsyncIterator[BatchResult]: ...

    async def _call(self, call: str, batch_id: str) -> Any:
        return await getattr(self._batches, call)(**{self.id_argument: batch_id})

    def _created_at(self, batch: Any) -> datetime:
        created: datetime | int | None = getattr(batch, self.created_name)
        if isinstance(created, int):
            return datetime.fromtimestamp(created, UTC)
        return created or datetime.now(UTC)

    def _is_pending(self, batch: Any) -> bool:
        return getattr(batch, self.state_name) in self.pending

    async def _delete(self, batch_id: str | None, job_id: str) -> None:  # noqa: ARG002
        if batch_id is not None:
            await self._call("delete", batch_id)


class OpenAIProvider(LLMProvider):
    """A file of requests, a batch over it, files of replies and errors; no file over 200 MB."""

    name = "openai"
    max_requests = 50_000
    max_bytes = 190_000_000
    pending = frozenset({"validating", "in_progress", "finalizing", "cancelling"})

    def __init__(self, api_key: str, base_url: str | None = None) -> None:
        """Nothing connects yet."""
        from openai import AsyncOpenAI

        self._client = AsyncOpenAI(api_key=api_key, base_url=base_url, **OPTIONS)
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

    async def _is_ours(self, batch: Any, job_id: str, custom_ids: frozenset[str]) -> bool:  # noqa: ARG002
        return bool(at(batch.metadata, JOB) == job_id)

    async def _results(self, batch: Any) -> AsyncIterator[BatchResult]:
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            for entry in _lines((await self._client.files.content(file)).text):
                yield _read_openai(entry)

    async def _delete(self, batch_id: str | None, job_id: str) -> None:
        """The files; of the batch itself only ids and counts remain."""
        for file in await self._files_of(batch_id, job_id):
            with _our_errors(UNKNOWN, later=REFUSED):
                await self._client.files.delete(file)

    async def _files_of(self, batch_id: str | None, job_id: str) -> list[str]:
        """The files of a batch; without one, those that were uploaded for the job."""
        if batch_id is not None:
            with _our_errors(UNKNOWN):
                batch = await self._call(self.retrieve, batch_id)
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
    pending = frozenset({"in_progress", "canceling"})
    state_name = "processing_status"
    id_argument = "message_batch_id"

    def __init__(self, api_key: str, base_url: str | None = None) -> None:
        """Nothing connects yet."""
        from anthropic import AsyncAnthropic

        self._client = AsyncAnthropic(api_key=api_key, base_url=base_url, **OPTIONS)
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

    async def _is_ours(self, batch: Any, job_id: str, custom_ids: frozenset[str]) -> bool:  # noqa: ARG002
        if self._is_pending(batch):
            raise PostponedError("a batch that may be ours runs", seconds=LOOK_AGAIN)
        async for result in self._results(batch):
            return result.custom_id in custom_ids
        return False

    async def _results(self, batch: Any) -> AsyncIterator[BatchResult]:
        if batch.results_url is not None:  # the SDK would raise what is no error of HTTP
            async for entry in await self._batches.results(batch.id):
                yield _read_anthropic(entry.model_dump(mode="json", warnings=False))


class GoogleProvider(LLMProvider):
    """Requests of 20 MB at most go inline, and the results come with the batch: no files."""

    name = "google"
    max_requests = 10_000
    max_bytes = 15_000_000
    pending = frozenset(
        {"JOB_STATE_UNSPECIFIED", "JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING"}
        | {"JOB_STATE_CANCELLING", "JOB_STATE_PAUSED", "JOB_STATE_UPDATING"}
    )
    id_name, created_name, state_name = "name", "create_time", "state"
    retrieve, id_argument = "get", "name"

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

    async def _is_ours(self, batch: Any, job_id: str, custom_ids: frozenset[str]) -> bool:  # noqa: ARG002
        return bool(batch.display_name == _name(job_id))

    async def _results(self, batch: Any) -> AsyncIterator[BatchResult]:
        for entry in (batch.dest.inlined_responses if batch.dest else None) or ():
            yield _read_google(entry.model_dump(mode="json", warnings=False))


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
    key = provider.key(settings)
    return CLASSES[name](key.get_secret_value() if key else "none", provider.base_url(settings))


def _name(job_id: str) -> str:
    return f"pomni-{job_id}"


def _read_openai(entry: dict[str, Any]) -> BatchResult:
    body, status = at(entry, "response", "body"), at(entry, "response", "status_code")
    error, problem = at(entry, "error", "code") or at(body, "error", "code"), None
    if status != 200:
        problem = _code(error, f"http_{_code(str(status), 'unknown')}")
    message, counts = at(body, "choices", 0, "message"), at(body, "usage")
    answers = (at(message, "tool_calls", 0, "function", "arguments"), at(message, "content"))
    cached = at(counts, "prompt_tokens_details", "cached_tokens")
    tokens = (at(counts, "prompt_tokens"), cached, at(counts, "completion_tokens"))
    return _result(entry.get("custom_id"), problem, answers, tokens)


def _read_anthropic(entry: dict[str, Any]) -> BatchResult:
    result = entry.get("result")
    error, problem = at(result, "error", "error", "type") or at(result, "type"), None
    if at(result, "type") != "succeeded":
        problem = _code(error, "errored")
    answers = _values(at(result, "message", "content"), ("input",), ("text",))
    counts = at(result, "message", "usage")
    kinds = ("", "cache_read_", "cache_creation_")
    fresh, cached, written = (at(counts, f"{kind}input_tokens") for kind in kinds)
    prompt = sum(count for count in (fresh, cached, written) if type(count) is int)
    tokens = (prompt if type(fresh) is int else None, cached, at(counts, "output_tokens"))
    return _result(entry.get("custom_id"), problem, answers, tokens)


def _read_google(entry: dict[str, Any]) -> BatchResult:
    """One inlined response; it carries the metadata of its request."""
    reply, error = at(entry, "response"), at(entry, "error", "code")
    problem = _code(f"status_{error}", "errored") if reply is None else None
    parts, counts = at(reply, "candidates", 0, "content", "parts"), at(reply, "usage_metadata")
    names = ("prompt_token_count", "cached_content_token_count", "candidates_token_count")
    answers = _values(parts, ("function_call", "args"), ("text",))
    custom_id = at(entry, "metadata", ID_KEY)
    return _result(custom_id, problem, answers, [at(counts, name) for name in names])


def _values(blocks: Any, *paths: tuple[str, ...]) -> list[Any]:
    """What stands in blocks at the first path, then at the second: calls before texts."""
    blocks = blocks if isinstance(blocks, list) else []
    return [at(block, *path) for path in paths for block in blocks]


@contextmanager
def _our_errors(*passed: int, later: Sequence[int] = ()) -> Iterator[None]:
    """Raise the SDK's errors as ours.

    Args:
        passed: HTTP statuses that are no errors here.
        later: HTTP statuses of what can be done later.
    """
    try:
        yield
    except Exception as error:
        statuses = (getattr(error, "status_code", None), getattr(error, "code", None))
        if any(status in later for status in statuses):
            raise ModelUnavailableError("it cannot be done yet") from error
        if not any(status in passed for status in statuses):
            raise model_error(error) from error


def _result(
    custom_id: Any, problem: str | None, answers: Sequence[Any], tokens: Sequence[Any]
) -> BatchResult:
    """The result of a request.

    Args:
        custom_id: Of the request.
        problem: Why it was not answered; None when it was.
        answers: Candidates for the reply, the first is taken: arguments of calls, then texts.
        tokens: Of the prompt, of its cached part, and of the reply.
    """
    if problem is not None:
        return BatchResult(str(custom_id), error=problem)
    first = next((answer for answer in answers if answer is not None), None)
    reply = first if isinstance(first, Mapping | str) else None
    prompt, cached, completion = (
        count if type(count) is int and 0 <= count < 2**31 else None
        for count in (tokens[0], tokens[1] or 0, tokens[2])
    )
    error = None if reply is not None else "no_reply"
    return BatchResult(str(custom_id), reply, error, (prompt, cached, completion))


def _lines(text: str) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file; a line that is none is left out."""
    found = []
    for line in text.split("\n"):
        with suppress(ValueError):
            found.append(json.loads(line))
    return [entry for entry in found if isinstance(entry, dict)]


def _code(value: Any, otherwise: str) -> str:
    """A provider's short code, when it is one; its messages may quote what was sent."""
    is_code = isinstance(value, str) and value.replace("_", "").isalnum() and len(value) < 60
    return value if is_code else otherwise
