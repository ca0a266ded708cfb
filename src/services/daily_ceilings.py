"""What a day may cost: of one user, and of the whole bot. Whom the operator trusts is exempt."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from src.errors import PostponedError
from src.metrics import Metrics
from src.storage.daily_usage_repo import DailyUsageRepository, Spent
from src.storage.extraction_repo import ExtractionRepository
from src.storage.global_settings_repo import GlobalSettings, GlobalSettingsRepository
from src.storage.pg_client import PgClient

logger = logging.getLogger(__name__)

Ceiling = Literal[
    "daily_messages", "daily_tokens", "daily_messages_per_user", "daily_tokens_per_user",
    "messages_per_minute_per_user",
]  # fmt: skip
TOTAL_SECONDS = 2.0  # for which a sum of everybody's tokens holds: it takes a while to add up


@dataclass(frozen=True)
class ReachedCeiling:
    """A ceiling that was reached, until when nothing is answered."""

    ceiling: Ceiling
    until: datetime

    @property
    def is_of_user(self) -> bool:
        """Whether it is one user's, and not the whole bot's."""
        return self.ceiling.endswith("_per_user")


class DailyCeilings:
    """Counts, where there is a ceiling; a bot without any pays nothing for them."""

    def __init__(
        self,
        client: PgClient,
        settings: GlobalSettingsRepository,
        metrics: Metrics,
        *,
        time_zone: str,
        exempt: frozenset[int] = frozenset(),
    ) -> None:
        """Days begin at midnight in ``time_zone``; ``exempt`` are ids of users without limits."""
        self._client = client
        self._settings = settings
        self._usage = DailyUsageRepository(client)
        self._extraction = ExtractionRepository(client)
        self._metrics = metrics
        self._time_zone = time_zone
        self._exempt = exempt
        self._total = 0
        self._total_at = float("-inf")
        self._told: dict[Ceiling, datetime] = {}

    async def find_reached(
        self, sender: int, owner: int, *, conversation_id: UUID, is_new: bool
    ) -> ReachedCeiling | None:
        """The ceiling that keeps a message from being answered; None when none does.

        Args:
            sender: Who wrote it.
            owner: Whose memory it is.
            conversation_id: Where it stands.
            is_new: Whether this is the first attempt, which is counted.

        Raises:
            StorageError: The database is away.
        """
        settings = await self._client.run(self._settings.get)
        if sender in self._exempt or not has_ceilings(settings):
            return None
        if (until := await self._minute_ends(sender, conversation_id, settings)) is not None:
            return ReachedCeiling("messages_per_minute_per_user", until)
        today = await self._client.run(
            self._usage.count_message,
            sender,
            owner,
            zone=self._time_zone,
            is_new=is_new,
        )
        tokens = await self._sum_tokens(owner) if settings.daily_tokens else 0
        checks: tuple[tuple[Ceiling, bool], ...] = (
            ("daily_messages_per_user", today.user_messages > settings.daily_messages_per_user),
            ("daily_tokens_per_user", today.user_tokens >= settings.daily_tokens_per_user),
            ("daily_messages", today.messages > settings.daily_messages),
            ("daily_tokens", tokens >= settings.daily_tokens),
        )
        for ceiling, is_reached in checks:
            if is_reached and getattr(settings, ceiling):
                self._note(ceiling, today.ends_at)
                return ReachedCeiling(ceiling, today.ends_at)
        return None

    async def sum_spent(self, sender: int, owner: int) -> Spent:
        """What somebody wrote and spent lately, for himself to see."""
        return await self._client.run(self._usage.sum_spent, sender, owner, zone=self._time_zone)

    async def _minute_ends(
        self, sender: int, conversation_id: UUID, settings: GlobalSettings
    ) -> datetime | None:
        """When there is room for one more answer, where there were too many in a minute."""
        limit = settings.messages_per_minute_per_user
        if not limit:
            return None
        count, ends_at = await self._client.run(self._usage.count_minute, conversation_id, sender)
        if count < limit or ends_at is None:
            return None
        self._metrics.ceilings.labels("messages_per_minute_per_user").inc()
        return ends_at

    async def check_background(self, conversation_id: UUID) -> None:
        """Whether the background may ask a model about what was said there.

        Raises:
            PostponedError: Not today.
            StorageError: The database is away.
        """
        settings = await self._client.run(self._settings.get)
        own_limit, limit = settings.daily_tokens_per_user, settings.daily_tokens
        if not (limit or own_limit):
            return
        state = await self._client.run(self._extraction.find_state, conversation_id)
        owner_id = state.owner.telegram_user_id if state is not None else 0
        if owner_id in self._exempt:
            return
        today = await self._client.run(self._usage.sum_tokens, owner_id, zone=self._time_zone)
        if 0 < limit <= today.total or 0 < own_limit <= today.own:
            raise PostponedError(
                "the tokens of this day are used up", seconds=max(60.0, today.seconds_left)
            )

    async def _sum_tokens(self, owner_id: int) -> int:
        """Everybody's tokens of today, a moment old."""
        if time.monotonic() - self._total_at > TOTAL_SECONDS:
            sums = await self._client.run(self._usage.sum_tokens, owner_id, zone=self._time_zone)
            self._total, self._total_at = sums.total, time.monotonic()
        return self._total

    def _note(self, ceiling: Ceiling, until: datetime) -> None:
        """Count it; the bot's own are told to the operator, once a day."""
        self._metrics.ceilings.labels(ceiling).inc()
        if not ceiling.endswith("_per_user") and self._told.get(ceiling) != until:
            self._told[ceiling] = until
            logger.warning(
                "a ceiling of the whole bot is reached; nobody is answered until the day ends",
                extra={"ceiling": ceiling, "until": until.isoformat()},
            )


def has_ceilings(settings: GlobalSettings) -> bool:
    """Whether the operator has set any."""
    return any(
        (
            settings.daily_messages,
            settings.daily_tokens,
            settings.daily_messages_per_user,
            settings.daily_tokens_per_user,
            settings.messages_per_minute_per_user,
        )
    )
