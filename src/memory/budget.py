"""What a day may cost: ceilings for one user and for the whole bot, and the background's calls.

Whom the operator trusts is exempt.
"""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeVar, get_args
from uuid import UUID

from src.base.errors import ModelError, ModelReplyError, ModelSetupError, PostponedError
from src.base.metrics import Metrics
from src.history.turn_repo import TurnRepository
from src.llm.reply import ModelUsage
from src.memory.digest_repo import ExtractionRepository
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettingsRepository

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Spent:
    """What a user, and the bot, has used.

    Attributes:
        messages: Their messages of today that were counted.
        tokens: Model tokens of today, prompts and replies, of the owner of the conversation.
        tokens_in_month: The same of thirty days.
        all_messages: Messages of today of all users.
        all_tokens: Tokens of today of all owners, where it was asked for.
        ends_at: The next midnight.
    """

    messages: int
    tokens: int
    tokens_in_month: int
    all_messages: int
    all_tokens: int
    ends_at: datetime


# One more message of a user today.
COUNT_MESSAGE = """
INSERT INTO daily_messages AS m (day, owner_id, messages)
VALUES ((now() AT TIME ZONE %(zone)s)::date, add_owner(%(sender)s, 0), 1)
ON CONFLICT (day, owner_id) DO UPDATE SET messages = m.messages + 1
"""

# When the oldest answer of the last minute to a user is a minute old, refusals apart; no row where
# there are fewer answers than the limit.
SELECT_MINUTE_END = """
SELECT min(a.created_at) + interval '1 minute'
FROM messages a JOIN messages m ON m.id = a.reply_to_id
WHERE a.conversation_id = %(conversation_id)s AND a.role = 'assistant'
  AND a.created_at > now() - interval '1 minute' AND NOT a.is_private
  AND (m.sender_id IS NULL OR m.sender_id = %(sender)s)
HAVING count(*) >= %(limit)s
"""

# Messages and tokens of a user today, tokens of thirty days, messages of all, and tokens of all,
# which are slow to add up; when the day ends.
SELECT_SPENT = """
WITH today AS (
    SELECT day, day::timestamp AT TIME ZONE %(zone)s AS begins,
           (day + 1)::timestamp AT TIME ZONE %(zone)s AS ends
    FROM (SELECT (now() AT TIME ZONE %(zone)s)::date AS day) AS here
), written AS (
    SELECT coalesce(sum(m.messages), 0)::int AS of_all,
           coalesce(sum(m.messages) FILTER (
               WHERE o.telegram_user_id = %(sender)s AND o.thread_id = 0), 0)::int AS own
    FROM today JOIN daily_messages m USING (day) JOIN owners o ON o.id = m.owner_id
), used AS (
    SELECT coalesce(sum(tokens) FILTER (WHERE created_at >= begins), 0)::bigint AS in_day,
           coalesce(sum(tokens), 0)::bigint AS in_month
    FROM today, (
        SELECT u.created_at,
               coalesce(u.prompt_tokens, 0) + coalesce(u.completion_tokens, 0) AS tokens
        FROM owners o JOIN model_usage u ON u.owner_id = o.id
        WHERE o.telegram_user_id = %(owner)s
          AND u.created_at > now() - interval '30 days') AS calls
)
SELECT own, in_day, in_month, of_all,
       CASE WHEN %(with_total)s THEN (
           SELECT coalesce(sum(coalesce(prompt_tokens, 0) + coalesce(completion_tokens, 0)), 0)
           FROM model_usage WHERE created_at >= begins) ELSE 0 END::bigint,
       ends
FROM today, written, used
"""


Ceiling = Literal[
    "daily_messages", "daily_tokens", "daily_messages_per_user", "daily_tokens_per_user",
    "messages_per_minute_per_user",
]  # fmt: skip
CEILINGS = get_args(Ceiling)
LEAST_PAUSE = 60.0  # seconds; calls leave the hour one by one, and are not worth a job each
TOTAL_SECONDS = 2.0  # for which the total of tokens is cached: it is slow to add up


@dataclass(frozen=True)
class ReachedCeiling:
    """A ceiling that was reached, until when nothing is answered."""

    ceiling: Ceiling
    until: datetime

    @property
    def is_of_user(self) -> bool:
        """Whether it is one user's, and not the whole bot's."""
        return self.ceiling.endswith("_per_user")


@dataclass(eq=False, repr=False)
class DailyCeilings:
    """Counts, where there is a ceiling; a bot without any pays nothing for them.

    Days begin at midnight in ``_time_zone``; ``_exempt`` are ids of users without limits.
    """

    _client: PgClient
    _settings: GlobalSettingsRepository
    _metrics: Metrics
    _time_zone: str
    _exempt: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Build what it needs on the client."""
        self._extraction = ExtractionRepository(self._client)
        self._turns = TurnRepository(self._client)
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
        settings = await self._settings.fetch()
        if sender in self._exempt or not any(getattr(settings, name) for name in CEILINGS):
            return None
        if limit := settings.messages_per_minute_per_user:
            place = {"conversation_id": conversation_id, "sender": sender, "limit": limit}
            full = await self._client.run(self._client.fetch_one, SELECT_MINUTE_END, place)
            if full is not None:
                return self._reached("messages_per_minute_per_user", full[0])
        if is_new:
            await self._client.run(
                self._client.execute, COUNT_MESSAGE, sender=sender, zone=self._time_zone
            )
        today = await self.sum_spent(sender, owner)
        tokens = await self._sum_tokens(owner) if settings.daily_tokens else 0
        checks: tuple[tuple[Ceiling, bool], ...] = (
            ("daily_messages_per_user", today.messages > settings.daily_messages_per_user),
            ("daily_tokens_per_user", today.tokens >= settings.daily_tokens_per_user),
            ("daily_messages", today.all_messages > settings.daily_messages),
            ("daily_tokens", tokens >= settings.daily_tokens),
        )
        for ceiling, is_reached in checks:
            if is_reached and getattr(settings, ceiling):
                return self._reached(ceiling, today.ends_at)
        return None

    async def sum_spent(self, sender: int, owner: int, *, with_total: bool = False) -> Spent:
        """What a user wrote today, and what was spent today and in thirty days.

        Args:
            sender: Who writes.
            owner: Whose conversation it is in: the same person, or a group.
            with_total: Whether the tokens of all are added up.
        """
        wanted = {"sender": sender, "owner": owner, "with_total": with_total}
        [spent] = await self._client.run(
            self._client.fetch_all, SELECT_SPENT, wanted, zone=self._time_zone
        )
        return Spent(*spent)

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
        owner = state.owner.telegram_user_id if state is not None else 0
        if owner in self._exempt:
            return
        today = await self.sum_spent(owner, owner, with_total=limit > 0)
        if 0 < limit <= today.all_tokens or 0 < own_limit <= today.tokens:
            seconds = max(LEAST_PAUSE, (today.ends_at - datetime.now(UTC)).total_seconds())
            raise PostponedError("the tokens of this day are used up", seconds=seconds)

    async def check_call(self, conversation_id: UUID) -> None:
        """Like ``check_background``, and whether the owner has a call left in this hour.

        Raises:
            PostponedError: Not now.
            StorageError: The database is away.
        """
        await self.check_background(conversation_id)
        calls = (await self._client.run(self._settings.get)).background_calls_per_hour
        pause = await self._client.run(self._turns.find_budget_pause, conversation_id, calls)
        if pause is not None:
            seconds = max(LEAST_PAUSE, pause)
            raise PostponedError("the owner's calls of this hour are used up", seconds=seconds)

    async def _sum_tokens(self, owner: int) -> int:
        """The total of today, cached."""
        if time.monotonic() - self._total_at > TOTAL_SECONDS:
            sums = await self.sum_spent(owner, owner, with_total=True)
            self._total, self._total_at = sums.all_tokens, time.monotonic()
        return self._total

    def _reached(self, ceiling: Ceiling, until: datetime) -> ReachedCeiling:
        """Count it; tell the operator, once a day, of a ceiling of the whole bot."""
        reached = ReachedCeiling(ceiling, until)
        self._metrics.ceilings.labels(ceiling).inc()
        if not reached.is_of_user and self._told.get(ceiling) != until:
            self._told[ceiling] = until
            logger.warning(
                "a ceiling of the whole bot is reached; nobody is answered until the day ends",
                extra={"ceiling": ceiling, "until": until.isoformat()},
            )
        return reached


T = TypeVar("T")

MAX_REPLIES = 3  # invalid ones to one question; then it counts as refused
MAX_QUESTIONS = 10_000  # whose invalid replies are counted; evicting them costs a retry


class BackgroundModel:
    """Asks about windows of conversations; counts calls and invalid replies.

    An unavailable model is waited for as long as it takes. Invalid replies may never end, and
    would block the conversation at a call a minute.
    """

    def __init__(self, client: PgClient, ceilings: DailyCeilings, refusal: str) -> None:
        """Count in ``model_usage``; log ``refusal`` where a model does not take a window."""
        self._client = client
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
        """The model's reply; None when it refuses these texts for good.

        Args:
            conversation_id: Whose owner pays.
            window: The positions that the question is about.
            question: Makes the one call, and says what it cost.

        Raises:
            PostponedError: The owner has no call left in this hour, or no token on this day; it
                says when there is one.
            ModelUnavailableError: It is away.
            ModelReplyError: Its reply is invalid so far.
            ModelSetupError: It refuses everything.
            StorageError: The database is away.
        """
        await self._ceilings.check_call(conversation_id)
        usage: list[ModelUsage] = []
        try:
            try:
                reply = await question(usage.append)
            finally:
                await self._client.run(self._turns.add_usage, conversation_id, tuple(usage))
        except ModelSetupError:
            raise
        except (ModelError, ModelReplyError) as error:  # only this window fails
            if isinstance(error, ModelReplyError) and not self._is_over(conversation_id, window):
                raise
            logger.warning(self._refusal, exc_info=error)
            return None
        self._replies.pop((conversation_id, *window), None)
        return reply

    def _is_over(self, conversation_id: UUID, window: tuple[int, int]) -> bool:
        """Count an invalid reply about these positions; whether it was the last retry."""
        if len(self._replies) >= MAX_QUESTIONS:
            self._replies.clear()
        question = (conversation_id, *window)
        self._replies[question] += 1
        return self._replies[question] >= MAX_REPLIES
