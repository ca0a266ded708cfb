"""Daily ceilings of one user and of the whole bot, and the background's model calls.

Users whom the operator trusts are exempt.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeVar, get_args
from uuid import UUID

from src.base.errors import (
    ModelError,
    ModelRefusedError,
    ModelReplyError,
    ModelSetupError,
    PostponedError,
)
from src.base.metrics import Metrics
from src.history.turn_repo import TurnRepository
from src.llm.reply import ModelUsage
from src.memory.digest_repo import ExtractionRepository
from src.pg.client import PgClient
from src.pg.settings_repo import GlobalSettingsRepository

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Spent:
    """Usage of a user and of the whole bot.

    Attributes:
        messages: The user's counted messages of today.
        tokens: The conversation owner's model tokens of today, prompts and replies.
        tokens_in_month: The owner's tokens of thirty days.
        all_messages: Messages of today of all users.
        all_tokens: Tokens of today of all owners, if they were asked for.
        ends_at: The next midnight.
    """

    messages: int
    tokens: int
    tokens_in_month: int
    all_messages: int
    all_tokens: int
    ends_at: datetime


# Count one more message of a user today.
COUNT_MESSAGE = """
INSERT INTO daily_messages AS m (day, owner_id, messages)
VALUES ((now() AT TIME ZONE %(zone)s)::date, add_owner(%(sender)s, 0), 1)
ON CONFLICT (day, owner_id) DO UPDATE SET messages = m.messages + 1
"""

# Store that a user is told of a limit; no row if they were told already.
UPSERT_REFUSED = """
INSERT INTO user_settings AS s (owner_id, refused_until)
VALUES (add_owner(%(sender)s, 0), %(until)s)
ON CONFLICT (owner_id) DO UPDATE SET refused_until = %(until)s
WHERE s.refused_until IS NULL OR s.refused_until < %(until)s
RETURNING true
"""

# Time at which the oldest answer of the last minute to a user is a minute old, without refusals;
# no row if there are fewer answers than the limit.
SELECT_MINUTE_END = """
SELECT min(a.created_at) + interval '1 minute'
FROM messages a JOIN messages m ON m.id = a.reply_to_id
WHERE a.conversation_id = %(conversation_id)s AND a.role = 'assistant'
  AND a.created_at > now() - interval '1 minute' AND NOT a.is_private
  AND (m.sender_id IS NULL OR m.sender_id = %(sender)s)
HAVING count(*) >= %(limit)s
"""

# Messages and tokens of a user today, their tokens of thirty days, messages of all users, tokens
# of all owners if they are asked for (there are many to add), and the end of the day.
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
), total AS (
    SELECT coalesce(sum(coalesce(prompt_tokens, 0) + coalesce(completion_tokens, 0)), 0)::bigint
           AS tokens
    FROM today JOIN model_usage ON %(with_total)s AND created_at >= begins
)
SELECT own, in_day, in_month, of_all, total.tokens, ends FROM today, written, used, total
"""


Ceiling = Literal[
    "daily_messages",
    "daily_tokens",
    "daily_messages_per_user",
    "daily_tokens_per_user",
    "messages_per_minute_per_user",
]
CEILINGS = get_args(Ceiling)
MIN_PAUSE = 60.0  # seconds; calls of the hour expire one by one, each of which is not worth a job


@dataclass(frozen=True)
class ReachedCeiling:
    """A reached ceiling, and the end of the pause."""

    ceiling: Ceiling
    until: datetime

    @property
    def is_of_user(self) -> bool:
        """True if it is a user's ceiling, False if it is the whole bot's."""
        return self.ceiling.endswith("_per_user")


@dataclass(eq=False, repr=False)
class DailyCeilings:
    """Ceilings of messages and tokens; without any ceiling nothing is counted.

    Days begin at midnight in ``_time_zone``; ``_exempt`` are ids of users without limits.
    """

    _client: PgClient
    _settings: GlobalSettingsRepository
    _metrics: Metrics
    _time_zone: str
    _exempt: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Build the repositories on the client."""
        self._extraction = ExtractionRepository(self._client)
        self._turns = TurnRepository(self._client)
        self._warned: dict[Ceiling, datetime] = {}

    async def find_reached(
        self, sender: int, owner: int, *, conversation_id: UUID, is_new: bool
    ) -> ReachedCeiling | None:
        """Return the ceiling that keeps a message from being answered, if any.

        Args:
            sender: The sender.
            owner: Owner of the conversation.
            conversation_id: The conversation.
            is_new: True for the first attempt, which is counted unless a ceiling is reached.

        Raises:
            StorageError: The database is away.
        """
        settings = await self._settings.fetch()
        if sender in self._exempt or not any(getattr(settings, name) for name in CEILINGS):
            return None
        if limit := settings.messages_per_minute_per_user:
            params = {"conversation_id": conversation_id, "sender": sender, "limit": limit}
            minute_end = await self._client.run(self._client.fetch_one, SELECT_MINUTE_END, params)
            if minute_end is not None:
                return self._report("messages_per_minute_per_user", minute_end[0])
        today = await self.sum_spent(sender, owner, with_total=settings.daily_tokens > 0)
        messages, all_messages = today.messages, today.all_messages
        if not is_new:
            messages, all_messages = messages - 1, all_messages - 1  # without this message
        used: tuple[tuple[Ceiling, int], ...] = (
            ("daily_messages_per_user", messages),
            ("daily_tokens_per_user", today.tokens),
            ("daily_messages", all_messages),
            ("daily_tokens", today.all_tokens),
        )
        for ceiling, amount in used:
            if 0 < getattr(settings, ceiling) <= amount:
                return self._report(ceiling, today.ends_at)
        if is_new:
            zone = self._time_zone
            await self._client.run(self._client.execute, COUNT_MESSAGE, sender=sender, zone=zone)
        return None

    async def mark_told(self, sender: int, until: datetime) -> bool:
        """Store that the sender is told of a limit; return False if they were told already.

        Args:
            sender: The sender.
            until: When the limit ends.

        Raises:
            StorageError: The database is away.
        """
        params = {"sender": sender, "until": until}
        row = await self._client.run(self._client.fetch_one, UPSERT_REFUSED, params)
        return row is not None

    async def sum_spent(self, sender: int, owner: int, *, with_total: bool = False) -> Spent:
        """Return the messages and tokens of today and the tokens of thirty days.

        Args:
            sender: The sender.
            owner: Owner of the conversation: the same person, or a group.
            with_total: True to add up the tokens of all owners, too.
        """
        params = {"sender": sender, "owner": owner, "zone": self._time_zone}
        params["with_total"] = with_total
        [row] = await self._client.run(self._client.fetch_all, SELECT_SPENT, params)
        return Spent(*row)

    async def check_background(self, conversation_id: UUID) -> None:
        """Check that the background may ask a model about a conversation.

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
            seconds = max(MIN_PAUSE, (today.ends_at - datetime.now(UTC)).total_seconds())
            raise PostponedError("the tokens of this day are used up", seconds=seconds)

    async def check_call(self, conversation_id: UUID) -> None:
        """Check the same, and that the owner has a call left in this hour.

        Raises:
            PostponedError: Not now.
            StorageError: The database is away.
        """
        await self.check_background(conversation_id)
        calls = (await self._client.run(self._settings.get)).background_calls_per_hour
        pause = await self._client.run(self._turns.find_budget_pause, conversation_id, calls)
        if pause is not None:
            seconds = max(MIN_PAUSE, pause)
            raise PostponedError("the owner's calls of this hour are used up", seconds=seconds)

    def _report(self, ceiling: Ceiling, until: datetime) -> ReachedCeiling:
        """Count the ceiling; log a ceiling of the whole bot once a day."""
        reached = ReachedCeiling(ceiling, until)
        self._metrics.ceilings.labels(ceiling).inc()
        if not reached.is_of_user and self._warned.get(ceiling) != until:
            self._warned[ceiling] = until
            logger.warning(
                "a ceiling of the whole bot is reached; nobody is answered until the day ends",
                extra={"ceiling": ceiling, "until": until.isoformat()},
            )
        return reached


T = TypeVar("T")

MAX_REPLIES = 3  # invalid replies to one question, which then counts as refused


class BackgroundModel:
    """Model of the background, asked about windows of conversations, with limited calls.

    An unavailable model is retried without limit. Invalid replies are limited: they may never end,
    and would block the conversation at a call a minute.
    """

    def __init__(self, client: PgClient, ceilings: DailyCeilings, refusal: str) -> None:
        """Store usage in ``model_usage``; log ``refusal`` when a model refuses a window."""
        self._client = client
        self._turns = TurnRepository(client)
        self._ceilings = ceilings
        self._refusal = refusal
        self._invalid_replies: Counter[tuple[UUID, int, int]] = Counter()

    async def ask(
        self,
        conversation_id: UUID,
        window: tuple[int, int],
        question: Callable[[Callable[[ModelUsage], None]], Awaitable[T]],
    ) -> T | None:
        """Return the model's reply; None if it refuses these texts for good.

        Args:
            conversation_id: The conversation whose owner pays.
            window: The positions that the question is about.
            question: Makes the one call, and reports its usage.

        Raises:
            PostponedError: The owner has no call left in this hour, or no token today; the error
                says when to retry.
            ModelUnavailableError: The model is away.
            ModelReplyError: The reply is invalid, and a retry is left.
            ModelSetupError: The model refuses everything.
            StorageError: The database is away.
        """
        await self._ceilings.check_call(conversation_id)
        usage: list[ModelUsage] = []
        key = (conversation_id, *window)
        reply: T | None
        try:
            reply = await question(usage.append)
        except ModelSetupError:
            raise
        except (ModelError, ModelReplyError) as error:  # only this window fails
            self._invalid_replies[key] += 1
            is_refused = isinstance(error, ModelRefusedError)
            if not is_refused and self._invalid_replies[key] < MAX_REPLIES:
                raise ModelReplyError(str(error)) from error
            logger.warning(self._refusal, exc_info=error)
            reply = None
        finally:
            await self._client.run(self._turns.add_usage, conversation_id, tuple(usage))
        del self._invalid_replies[key]
        return reply
