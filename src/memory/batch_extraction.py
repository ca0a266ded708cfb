"""Extraction through a provider's batch API: many users' windows at once, at half the price.

The order of the steps makes a crash safe anywhere. The intent is committed before the batch is
submitted, the provider's id after it. Results are applied one by one, and each is marked as
applied; only then is the provider's copy deleted. ``poll`` resumes unfinished batches.
"""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from src.base import config, errors, metrics, providers
from src.history.turn_repo import TurnRepository
from src.llm import reply
from src.llm.batch import BatchRequest, BatchResult, LLMProvider, get_llm_provider
from src.llm.forms import read_form
from src.memory import budget, prompts
from src.memory.digest_repo import BatchJob, BatchRepository, BatchWindow, ExtractionRepository
from src.memory.extraction import MAX_BATCH_TRIES, ExtractionService, Window
from src.pg.client import PgClient
from src.pg.settings_repo import GlobalSettings, GlobalSettingsRepository

logger = logging.getLogger(__name__)

PURPOSE = "extract_batch"  # in ``model_usage``: batches cost half
PAGE = 500  # conversations of one page, and requests of one batch
MAX_AGE = 2 * 86_400.0  # seconds; providers promise a day; an older batch is cancelled
RETRY_SECONDS = 3600.0  # after a batch that the provider refused
MAX_DELETE_AGE = 30 * 86_400.0  # seconds; providers expire batches before that


_Request = tuple[BatchWindow, dict[str, Any]]  # a window, and its request as the provider wants it


@dataclass(eq=False, repr=False)
class BatchExtractionService:
    """Submits windows in batches, and applies the results.

    ``_stored`` reads the operator's settings; keys and models come from ``_environment``.
    """

    _client: PgClient
    _stored: GlobalSettingsRepository
    _extraction: ExtractionService
    _ceilings: budget.DailyCeilings
    _metrics: metrics.Metrics
    _environment: config.Settings
    get_provider: Callable[[str, providers.ProviderSettings], LLMProvider] = get_llm_provider

    def __post_init__(self) -> None:
        """Build the repositories on the client."""
        self._turns = TurnRepository(self._client)
        self._batches = BatchRepository(self._client)
        self._unread = ExtractionRepository(self._client)
        self._providers: dict[str, LLMProvider] = {}

    async def close(self) -> None:
        """Close the connections to the providers."""
        for provider in self._providers.values():
            await provider.close()
        self._providers.clear()

    async def gather(self) -> int:
        """Submit every closed window if a batch is due; returns their number.

        Raises:
            StorageError: The database is away.
        """
        settings = await self._client.run(self._stored.get)
        chosen = providers.find_batch_provider(settings.memory_extraction_provider)
        if chosen is None or not settings.memory_extraction_enabled:
            return 0
        if not await self._client.run(
            self._batches.is_due,
            pause=RETRY_SECONDS,
            tries=MAX_BATCH_TRIES,
            interval=3600.0 * settings.memory_extraction_interval_hours,
        ):
            return 0
        provider = self._provider(settings.memory_extraction_provider)
        model = self._model(settings, chosen)
        sent = size = 0
        batch: list[_Request] = []
        async for window in self._closed_windows(settings):
            prompt, known = await self._extraction.build_prompt(window)
            span = window.state.conversation_id, window.first, window.last
            entry = BatchWindow(uuid4(), *span, list(known))
            request = BatchRequest(str(entry.id), prompt, prompts.ExtractedFacts)
            encoded = provider.encode(request, model)
            request_size = len(json.dumps(encoded).encode())  # bytes of the upload, at most
            size += request_size
            if len(batch) == min(PAGE, provider.max_requests) or size > provider.max_bytes:
                sent += await self._send(provider, model, batch)
                batch, size = [], request_size
            batch.append((entry, encoded))
        return sent + await self._send(provider, model, batch)

    async def poll(self) -> int:
        """Advance every open batch by a step; returns the number of those still open.

        Raises:
            StorageError: The database is away.
        """
        jobs = await self._client.run(self._batches.list_open)
        for job in jobs:
            await self._attempt(job.id, self._advance(job))
        left = len(await self._client.run(self._batches.list_open)) if jobs else 0
        self._metrics.batches.set(left)
        return left

    async def _closed_windows(self, settings: GlobalSettings) -> AsyncIterator[Window]:
        found = [UUID(int=0)]
        while found := await self._client.run(
            self._unread.list_unread,
            window=settings.memory_extraction_window,
            minutes=settings.memory_extraction_silence_minutes,
            after=found[-1],
            limit=PAGE,
        ):
            for conversation_id in found:
                window = await self._extraction.find_window(conversation_id)
                if window is None:
                    continue
                if not window.typed:  # it counts as read
                    await self._extraction.advance(window)
                    continue
                count_tries = self._batches.count_tries
                tries, is_waiting = await self._client.run(
                    count_tries, conversation_id, window.first
                )
                if not is_waiting and tries < MAX_BATCH_TRIES:
                    with suppress(errors.PostponedError):
                        await self._ceilings.check_background(conversation_id)
                        yield window

    async def _send(self, provider: LLMProvider, model: str, requests: Sequence[_Request]) -> int:
        """Commit the intent, then submit; returns the number of windows in the batch."""
        if not requests:
            return 0
        job_id = uuid4()
        windows = [window for window, _ in requests]
        accepted_ids = await self._client.run(
            self._batches.add_job, job_id, provider=provider.name, model=model, windows=windows
        )
        accepted = [encoded for window, encoded in requests if window.id in accepted_ids]
        if accepted:
            await self._attempt(job_id, self._submit(provider, job_id, model, accepted))
        return len(accepted)

    async def _attempt(self, job_id: UUID, step: Awaitable[None]) -> None:
        """Run a step of a batch; an error is stored with the batch, and ``poll`` retries."""
        try:
            await step
        except errors.StorageError:
            raise
        except errors.AppError as error:
            if not isinstance(error, errors.PostponedError):
                logger.warning("a batch failed", extra={"job": str(job_id)}, exc_info=error)
            await self._client.run(self._batches.set_status, job_id, None, str(error))

    async def _submit(
        self, provider: LLMProvider, job_id: UUID, model: str, requests: list[dict[str, Any]]
    ) -> None:
        """Submit a batch whose intent is committed.

        Raises:
            TransientError: The provider is away; ``poll`` retries.
        """
        try:
            batch_id = await provider.submit_batch(requests, model, job_id=str(job_id))
        except errors.ModelError as error:  # refused: needs the operator
            await self._client.run(self._batches.set_status, job_id, "failed", str(error))
            await provider.delete_batch(None, job_id=str(job_id))
            raise
        if not await self._client.run(self._batches.set_submitted, job_id, batch_id):
            # Another process submitted meanwhile: cancel the duplicate.
            await provider.cancel_batch(batch_id)
            await provider.delete_batch(batch_id, job_id=str(job_id))

    async def _advance(self, job: BatchJob) -> None:
        provider = self._provider(job.provider)
        if job.status == "intended":
            await self._recover(provider, job)
        elif job.status == "collected":
            await self._finish(provider, job)
        elif not job.waiting:  # all its users were erased, or deleted their conversations
            await provider.cancel_batch(job.batch_id or "")
            await self._finish(provider, job)
        else:
            await self._collect(provider, job)

    async def _recover(self, provider: LLMProvider, job: BatchJob) -> None:
        """Adopt a batch that was submitted before a crash; else withdraw the intent."""
        windows = await self._client.run(self._batches.list_waiting, job.id)
        ids = frozenset(str(window.id) for window in windows)
        find = provider.find_batch
        batch_id = await find(str(job.id), ids, since=job.created_at) if ids else None
        if batch_id is not None:
            await self._client.run(self._batches.set_submitted, job.id, batch_id)
            return
        await provider.delete_batch(None, job_id=str(job.id))
        await self._client.run(self._batches.withdraw, job.id)

    async def _collect(self, provider: LLMProvider, job: BatchJob) -> None:
        batch_id = job.batch_id or ""
        status = await provider.get_batch_status(batch_id)
        if status == "pending":
            if job.age > MAX_AGE:
                await provider.cancel_batch(batch_id)
            return
        results = [] if status == "lost" else await provider.get_batch_results(batch_id)
        dropped = await self._apply_results(job, results)
        reason = "lost" if status == "lost" else "missing"
        await self._client.run(self._batches.settle, job.id, None, reason, dropped=dropped)
        await self._finish(provider, job)

    async def _apply_results(self, job: BatchJob, results: Sequence[BatchResult]) -> int:
        """Apply each result once, in any order; returns the number without a waiting request."""
        windows = await self._client.run(self._batches.list_waiting, job.id)
        by_id = {str(window.id): window for window in windows}
        counts, dropped = self._metrics.batch_requests, 0
        for result in results:
            window = by_id.pop(result.custom_id, None)
            if window is None:
                dropped += 1
                counts.labels(job.provider, "dropped").inc()
                continue
            error = result.error or await self._read_result(job, window, result)
            if error:
                await self._client.run(self._batches.settle, job.id, window.id, error)
            counts.labels(job.provider, "failed" if error else "succeeded").inc()
        counts.labels(job.provider, "missing").inc(len(by_id))
        return dropped

    async def _read_result(
        self, job: BatchJob, request: BatchWindow, result: BatchResult
    ) -> str | None:
        """Store the facts of one result; returns an error code, or None."""
        try:
            form = prompts.ExtractedFacts
            extracted = read_form(result.reply or "", form, self._metrics)
        except errors.ModelError:
            return "malformed"
        window = await self._extraction.find_window_again(request)
        if window is None:  # its conversation was deleted meanwhile
            return "gone"
        uids = {fact.message for fact in extracted.facts if fact.message.startswith("msg-")}
        if uids and not uids & {f"msg-{message.id}" for message in window.messages}:
            return "foreign"
        await self._extraction.store_facts(window, extracted, request.known_ids)
        if await self._client.run(self._batches.settle, job.id, request.id):
            provider = providers.find_batch_provider(job.provider)
            model = f"{provider.name if provider else job.provider}:{job.model}"
            spent = reply.ModelUsage(PURPOSE, model, *result.tokens, 0)
            spent.count(self._metrics)
            await self._client.run(self._turns.add_usage, request.conversation_id, (spent,))
        return None

    async def _finish(self, provider: LLMProvider, job: BatchJob) -> None:
        """Delete the provider's copy; while that fails, ``poll`` retries."""
        await self._client.run(self._batches.set_status, job.id, "collected")
        try:
            await provider.delete_batch(job.batch_id, job_id=str(job.id))
        except errors.AppError as error:
            if job.age < MAX_DELETE_AGE:
                raise
            logger.warning("a batch could not be deleted", exc_info=error)
        await self._client.run(self._batches.set_status, job.id, "completed")

    def _provider(self, name: str) -> LLMProvider:
        """Return the provider of a batch, which may differ from the settings by now.

        Raises:
            ModelSetupError: The environment has no key for it.
        """
        if name not in self._providers:
            self._providers[name] = self.get_provider(name, self._environment)
        return self._providers[name]

    def _model(self, settings: GlobalSettings, provider: providers.Provider) -> str:
        """Return the operator's model, or one of the environment for this provider."""
        names = (
            settings.memory_extraction_model,
            self._environment.extraction_model,
            self._environment.chat_model_name,
        )
        for name in filter(None, names):
            if ":" not in name:
                return name
            if providers.find_provider(name) == provider:
                return name.partition(":")[2]
        return provider.default_model
