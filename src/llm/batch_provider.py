"""One life cycle for all batch APIs: submitted, looked at, read, cancelled, deleted.

A provider keeps what users wrote until it is told to delete it; ``delete_batch`` does, and may be
called again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from src.base.errors import ModelUnavailableError
from src.llm.errors import model_error

BATCH_TIMEOUT = 120.0  # seconds of one call: files are large
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
        id_name: The attribute of its batches that is their id.
    """

    name: str
    max_requests: int
    max_bytes: int
    max_listed: int = 1000
    id_name: str = "id"
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
        try:
            return await self._create(list(requests), model, job_id)
        except Exception as error:
            raise model_error(error) from error

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
        with our_errors():
            async for batch in self._list():  # newest first
                if seen >= self.max_listed and self._created_at(batch) < since - CLOCK_SKEW:
                    break
                if await self._is_ours(batch, job_id, custom_ids):
                    return str(getattr(batch, self.id_name))
                seen += 1
        return None

    async def get_batch_status(self, batch_id: str) -> BatchStatus:
        """Whether there is anything to wait for."""
        with our_errors(is_unknown):
            batch = await self._retrieve(batch_id)
            return "pending" if self._is_pending(batch) else "completed"
        return "lost"

    async def get_batch_results(self, batch_id: str) -> list[BatchResult]:
        """What there is of results, in any order, perhaps some of them twice."""
        found: list[BatchResult] = []
        with our_errors(is_unknown):
            async for result in self._results(await self._retrieve(batch_id)):
                found.append(result)  # noqa: PERF401  (what came before an error counts)
        return found

    async def cancel_batch(self, batch_id: str) -> None:
        """Answer no more of it; one that has ended or is unknown is no error."""
        with our_errors(is_unknown, is_refused):
            await self._cancel(batch_id)

    async def delete_batch(self, batch_id: str | None, *, job_id: str) -> None:
        """Delete everything of the batch that holds a text, also what was never made a batch of.

        Raises:
            ModelUnavailableError: It cannot be deleted yet.
        """
        try:
            await self._delete(batch_id, job_id)
        except Exception as error:
            if is_refused(error):
                raise ModelUnavailableError("the batch cannot be deleted yet") from error
            if not is_unknown(error):
                raise model_error(error) from error

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    async def _create(self, requests: list[Any], model: str, job_id: str) -> str: ...

    def _list(self) -> AsyncIterator[Any]:
        return aiter(self._batches.list(limit=100))

    def _created_at(self, batch: Any) -> datetime: ...

    async def _is_ours(self, batch: Any, job_id: str, custom_ids: frozenset[str]) -> bool: ...

    async def _retrieve(self, batch_id: str) -> Any:
        return await self._batches.retrieve(batch_id)

    def _is_pending(self, batch: Any) -> bool: ...

    def _results(self, batch: Any) -> AsyncIterator[BatchResult]: ...

    async def _cancel(self, batch_id: str) -> None:
        await self._batches.cancel(batch_id)

    async def _delete(self, batch_id: str | None, job_id: str) -> None:  # noqa: ARG002
        if batch_id is not None:
            await self._batches.delete(batch_id)


@contextmanager
def our_errors(*passed: Callable[[Exception], bool]) -> Iterator[None]:
    """Raise the SDK's errors as ours; those of which ``passed`` says yes are none."""
    try:
        yield
    except Exception as error:
        if not any(is_passed(error) for is_passed in passed):
            raise model_error(error) from error


def answered(custom_id: str, answers: Sequence[Any], *tokens: Any) -> BatchResult:
    """The result of a request that was answered.

    Args:
        custom_id: Of the request.
        answers: What may be the reply, the first of it: arguments of calls, then texts.
        tokens: Of the prompt, of that from a cache, and of the reply, if they are numbers.
    """
    first = answers[0] if answers else None
    reply = first if isinstance(first, Mapping | str) else None
    prompt, cached, completion = map(_tokens, tokens)
    error = None if reply is not None else "no_reply"
    return BatchResult(custom_id, reply, error, (prompt, cached, completion))


def lines(text: str) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file; a line that is none is left out."""
    found = []
    for line in text.split("\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found


def at(value: Any, *path: str | int) -> Any:
    """What stands there in a JSON value, or None where the path ends."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def code(value: Any, otherwise: str) -> str:
    """A provider's short code, when it is one; its messages may quote what was sent."""
    is_code = isinstance(value, str) and value.replace("_", "").isalnum() and len(value) < 60
    return value if is_code else otherwise


def is_unknown(error: Exception) -> bool:
    """Whether the provider says that there is no such thing."""
    return 404 in (getattr(error, "status_code", None), getattr(error, "code", None))


def is_refused(error: Exception) -> bool:
    """Whether the provider says that this cannot be done to the thing as it is."""
    statuses = (getattr(error, "status_code", None), getattr(error, "code", None))
    return any(status in (400, 409) for status in statuses)


def _tokens(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None
