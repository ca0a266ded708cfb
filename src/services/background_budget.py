"""What the background may cost: so many model calls of an owner in an hour."""

from __future__ import annotations

from uuid import UUID

from src.errors import PostponedError
from src.storage.repositories import Repositories

LEAST_PAUSE = 60.0  # seconds; calls leave the hour one by one, and are not worth a job each


class BackgroundBudget:
    """Asked before each model call of the background."""

    def __init__(self, repositories: Repositories) -> None:
        """Count in ``model_usage``, with the operator's number of calls."""
        self._client = repositories.client
        self._repos = repositories

    async def check(self, conversation_id: UUID) -> None:
        """Return when the conversation's owner has a call left in this hour.

        Raises:
            PostponedError: None is left; it says when there will be one.
            StorageError: The database is away.
        """
        settings = await self._client.run(self._repos.settings.get)
        seconds: float | None = await self._client.run(
            self._repos.turns.find_budget_pause,
            conversation_id,
            settings.background_calls_per_hour,
        )
        if seconds is not None:
            raise PostponedError(
                "the owner's calls of this hour are used up", seconds=max(LEAST_PAUSE, seconds)
            )
