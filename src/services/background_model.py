"""A model as the background asks it: within the owner's budget, and not the same for ever."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from src.errors import ModelError, ModelReplyError, ModelSetupError, PostponedError
from src.llm.model_usage import ModelUsage
from src.services.daily_ceilings import DailyCeilings
from src.storage.global_settings_repo import GlobalSettingsRepository
from src.storage.pg_client import PgClient
from src.storage.turn_repo import TurnRepository

logger = logging.getLogger(__name__)

T = TypeVar("T")

LEAST_PAUSE = 60.0  # seconds; calls leave the hour one by one, and are not worth a job each
MAX_REPLIES = 3  # without sense, to one question; then it is left as if it had been refused
MAX_QUESTIONS = 10_000  # that are remembered; the worst of forgetting them is to ask again


class BackgroundModel:
    """Asks about windows of conversations; counts the calls, and the senseless replies to each.

    A model that is away is waited for as long as it takes. One that answers with nonsense may do
    so for ever, and its conversation would never be digested, at a call a minute.
    """

    def __init__(
        self,
        client: PgClient,
        settings: GlobalSettingsRepository,
        ceilings: DailyCeilings,
        refusal: str,
    ) -> None:
        """Count in ``model_usage``; log ``refusal`` where a model does not take a window."""
        self._client = client
        self._settings = settings
        self._turns = TurnRepository(client)
        self._ceilings = ceilings
        self._refusal = refusal
        self._replies: Counter[tuple[UUID, int, int]] = Counter()

    async def ask(
        self,
        conversation_id: UUID,
        window: tuple[int, int],
        question: Callable[[Callable[[ModelUsage], None]], Awaitable[T]],
    ) -> T | None:
        """The model's reply; None when it refuses these texts, now and always.

        Args:
            conversation_id: Whose owner pays.
            window: The positions that the question is about.
            question: Makes the one call, and says what it cost.

        Raises:
            PostponedError: The owner has no call left in this hour, or no token on this day; it
                says when there is one.
            ModelUnavailableError: It is away.
            ModelReplyError: Its reply makes no sense so far.
            ModelSetupError: It refuses everything.
            StorageError: The database is away.
        """
        await self._check_budget(conversation_id)
        usage: list[ModelUsage] = []
        try:
            try:
                reply = await question(usage.append)
            finally:
                await self._client.run(self._turns.add_usage, conversation_id, tuple(usage))
        except ModelSetupError:
            raise
        except (ModelError, ModelReplyError) as error:  # the next window may be fine
            if isinstance(error, ModelReplyError) and not self._is_over(conversation_id, window):
                raise
            logger.warning(self._refusal, exc_info=error)
            return None
        self._replies.pop((conversation_id, *window), None)
        return reply

    async def _check_budget(self, conversation_id: UUID) -> None:
        await self._ceilings.check_background(conversation_id)
        calls = (await self._client.run(self._settings.get)).background_calls_per_hour
        seconds: float | None = await self._client.run(
            self._turns.find_budget_pause, conversation_id, calls
        )
        if seconds is not None:
            seconds = max(LEAST_PAUSE, seconds)
            raise PostponedError("the owner's calls of this hour are used up", seconds=seconds)

    def _is_over(self, conversation_id: UUID, window: tuple[int, int]) -> bool:
        """Note one more senseless reply about these positions; whether it was the last."""
        if len(self._replies) >= MAX_QUESTIONS:
            self._replies.clear()
        question = (conversation_id, *window)
        self._replies[question] += 1
        return self._replies[question] >= MAX_REPLIES
