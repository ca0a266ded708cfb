"""What all batch APIs have in common: requests, results, and the protocol of a provider.

A provider keeps what users wrote until it is told to delete it; ``delete_batch`` does, and may be
called again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from src.base.errors import ModelUnavailableError
from src.llm.errors import model_error
from src.llm.reply import ModelUsage

BATCH_TIMEOUT = 120.0  # seconds of one call: files are large
MAX_REPLY_TOKENS = 8192  # of one request, where a provider wants to be told
PURPOSE = "extract_batch"  # in ``model_usage``: batches cost half

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
        usage: What it cost; None when that was not reported.
    """

    custom_id: str
    reply: Mapping[str, Any] | str | None = None
    error: str | None = None
    usage: ModelUsage | None = None


class LLMProvider(Protocol):
    """A provider with a batch API. Every method may raise the errors of ``model_error``.

    Attributes:
        name: As in ``global_settings.memory_extraction_provider``.
        max_requests: Of one batch.
        max_bytes: Of one batch, as it is sent.
    """

    name: str
    max_requests: int
    max_bytes: int

    def encode(self, request: BatchRequest, model: str) -> dict[str, Any]:
        """A request as it goes into the batch."""
        ...

    async def submit_batch(
        self, requests: Sequence[Mapping[str, Any]], model: str, *, job_id: str
    ) -> str:
        """Send encoded requests; returns the provider's id of the batch.

        ``job_id`` is ours: by it ``find_batch`` finds the batch when we die before we know its id.
        """
        ...

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
        ...

    async def get_batch_status(self, batch_id: str) -> BatchStatus:
        """Whether there is anything to wait for."""
        ...

    async def get_batch_results(self, batch_id: str) -> list[BatchResult]:
        """What there is of results, in any order, perhaps some of them twice."""
        ...

    async def cancel_batch(self, batch_id: str) -> None:
        """Answer no more of it; one that has ended or is unknown is no error."""
        ...

    async def delete_batch(self, batch_id: str | None, *, job_id: str) -> None:
        """Delete everything of the batch that holds a text, also what was never made a batch of.

        Raises:
            ModelUnavailableError: It cannot be deleted yet.
        """
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...


def usage(model: str, prompt: Any, cached: Any, completion: Any) -> ModelUsage:
    """What a result cost; what is no number counts as unknown."""
    return ModelUsage(PURPOSE, model, _tokens(prompt), _tokens(cached), _tokens(completion), 0)


def arguments(value: Any) -> Mapping[str, Any] | str | None:
    """The arguments of a call: an object, or a text that may be one."""
    if isinstance(value, Mapping):
        return value
    return value if isinstance(value, str) else None


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


def not_deleted(error: Exception) -> Exception:
    """The error for a deletion that did not happen: it is tried again later."""
    if is_refused(error):
        return ModelUnavailableError("the batch cannot be deleted yet")
    return model_error(error)


def _tokens(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None
