"""The three batch APIs: the real SDKs talk to servers that speak their wire formats."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from src.base.config import Settings
from src.base.errors import AppError, ModelSetupError, ModelUnavailableError, PostponedError
from src.llm.batch import CLASSES, BatchRequest, LLMProvider, get_llm_provider
from src.memory.prompts import ExtractedFacts, extraction_messages
from tests.fakes.batch_servers import FOREIGN, SERVERS, BatchServer

FACTS = {"facts": [{"text": "У меня кот", "memory_type": "user_fact", "importance": 5,
                    "quote": "У меня кот", "message": "msg-1"}]}  # fmt: skip
JOB = str(uuid.uuid4())
A_DAY_AGO = datetime.now(UTC) - timedelta(days=1)


def request(words: str = "У меня кот") -> BatchRequest:
    said = [{"uid": "msg-1", "role": "user", "said_at": "2026-11-01 10:00", "text": words}]
    return BatchRequest(str(uuid.uuid4()), extraction_messages(said, {}), ExtractedFacts)


@pytest.fixture(params=list(SERVERS))
async def server(request: pytest.FixtureRequest) -> AsyncIterator[BatchServer]:
    async with SERVERS[request.param]() as opened:
        opened.reply = lambda _words: FACTS
        yield opened


@pytest.fixture
async def provider(server: BatchServer) -> AsyncIterator[LLMProvider]:
    name = next(name for name, kind in SERVERS.items() if isinstance(server, kind))
    opened = CLASSES[name]("key", server.url)  # type: ignore[attr-defined]
    yield opened
    await opened.close()


async def submit(provider: LLMProvider, *requests: BatchRequest, job: str = JOB) -> str:
    encoded = [provider.encode(entry, "model-1") for entry in requests]
    return await provider.submit_batch(encoded, "model-1", job_id=job)


async def test_a_batch_lives_from_submission_to_deletion(
    server: BatchServer, provider: LLMProvider
) -> None:
    asked = [request(f"У меня кот {number}") for number in range(3)]
    batch_id = await submit(provider, *asked)
    assert await provider.get_batch_status(batch_id) == "pending"
    server.finish()
    assert await provider.get_batch_status(batch_id) == "completed"
    results = {result.custom_id: result for result in await provider.get_batch_results(batch_id)}
    assert results.keys() == {entry.custom_id for entry in asked}
    for result in results.values():
        assert result.error is None
        reply: Any = result.reply
        read = (
            ExtractedFacts.model_validate_json(reply)
            if isinstance(reply, str)
            else ExtractedFacts.model_validate(reply)
        )
        assert [fact.text for fact in read.facts] == ["У меня кот"]
        assert (result.tokens[0], result.tokens[2]) == (900, 40)
    assert server.holds("У меня кот")
    await provider.delete_batch(batch_id, job_id=JOB)
    assert not server.holds("У меня кот")
    await provider.delete_batch(batch_id, job_id=JOB)  # again is no error


async def test_each_fault_of_a_request_is_told_by_itself(
    server: BatchServer, provider: LLMProvider
) -> None:
    kinds = ["ok", "missing", "twice", "foreign", "malformed", "text", "error", "expired", "empty"]
    asked = {fault: request(f"слово-{fault}") for fault in kinds}
    server.fault_of = lambda words: next(  # type: ignore[assignment,return-value]
        fault for fault in kinds if f"слово-{fault}" in words
    )
    batch_id = await submit(provider, *asked.values())
    server.finish()
    results = await provider.get_batch_results(batch_id)
    by_id: dict[str, list[Any]] = {}
    for result in results:
        by_id.setdefault(result.custom_id, []).append(result)
    of = {fault: by_id.get(entry.custom_id, []) for fault, entry in asked.items()}
    assert [len(of[fault]) for fault in kinds] == [1, 0, 2, 1, 1, 1, 1, 1, 1]
    assert len(by_id[FOREIGN]) == 1
    for fault in ("error", "expired"):
        assert of[fault][0].reply is None and of[fault][0].error
    for fault in ("malformed", "text"):
        assert isinstance(of[fault][0].reply, str)


@pytest.mark.parametrize("ending", ["failed", "expired", "cancelled"])
async def test_a_batch_that_ends_early_gives_what_there_is(
    server: BatchServer, provider: LLMProvider, ending: Any
) -> None:
    batch_id = await submit(provider, *(request(str(number)) for number in range(4)))
    server.finish(ending=ending)
    assert await provider.get_batch_status(batch_id) == "completed"
    assert len(await provider.get_batch_results(batch_id)) == (0 if ending == "failed" else 2)


async def test_a_cancelled_one_ends_and_to_cancel_it_twice_is_no_error(
    server: BatchServer, provider: LLMProvider
) -> None:
    batch_id = await submit(provider, request())
    await provider.cancel_batch(batch_id)
    await provider.cancel_batch(batch_id)
    assert await provider.get_batch_status(batch_id) == "completed"


async def test_after_a_crash_the_batch_is_found_by_our_id(
    server: BatchServer, provider: LLMProvider
) -> None:
    other, ours = request("чужое"), request("наше")
    await submit(provider, other, job=str(uuid.uuid4()))
    ids = frozenset({ours.custom_id})
    server.finish()
    assert await provider.find_batch(JOB, ids, since=A_DAY_AGO) is None
    batch_id = await submit(provider, ours)
    try:
        found = await provider.find_batch(JOB, ids, since=A_DAY_AGO)
    except PostponedError as error:  # Anthropic's cannot be told apart before they end
        assert provider.name == "anthropic" and error.retry_after
        server.finish()
        found = await provider.find_batch(JOB, ids, since=A_DAY_AGO)
    assert found == batch_id


async def test_what_was_uploaded_and_never_became_a_batch_is_deleted(
    server: BatchServer, provider: LLMProvider
) -> None:
    server.failures = [("POST", "batch", 500, False)]
    with pytest.raises(AppError):
        await submit(provider, request("секретные слова"))
    await provider.delete_batch(None, job_id=JOB)
    assert not server.holds("секретные слова")


@pytest.mark.parametrize(("status", "kind"), [
    (429, ModelUnavailableError), (500, ModelUnavailableError), (503, ModelUnavailableError),
    (401, ModelSetupError), (403, ModelSetupError),
])  # fmt: skip
async def test_a_refusal_is_one_of_our_errors(
    server: BatchServer, provider: LLMProvider, status: int, kind: type[AppError]
) -> None:
    batch_id = await submit(provider, request())
    server.failures = [("GET", "batches", status, False)]
    with pytest.raises(kind):
        await provider.get_batch_status(batch_id)
    assert await provider.get_batch_status("batches/unknown") == "lost"
    assert await provider.get_batch_results("batches/unknown") == []


async def test_one_that_runs_is_deleted_at_once_or_when_it_has_ended(
    server: BatchServer, provider: LLMProvider
) -> None:
    batch_id = await submit(provider, request("секретные слова"))
    if provider.name == "anthropic":  # it lets none go that runs
        with pytest.raises(ModelUnavailableError):
            await provider.delete_batch(batch_id, job_id=JOB)
        server.finish()
    await provider.delete_batch(batch_id, job_id=JOB)
    if provider.name != "openai":  # where only files hold what was said
        assert server.batches == {}
    else:
        assert server.files == {}  # type: ignore[attr-defined]


def test_a_provider_without_a_key_is_a_matter_of_settings() -> None:
    settings = Settings(openai_api_key="key")  # type: ignore[arg-type]
    assert get_llm_provider("openai", settings).name == "openai"
    for name in ("anthropic", "google", "immediate", "nobody"):
        with pytest.raises(ModelSetupError):
            get_llm_provider(name, settings)
