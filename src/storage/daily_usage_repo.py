"""What was written and spent today, for the ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from src.storage.repository import Repository


@dataclass(frozen=True)
class DailyUsage:
    """What there was since midnight.

    Attributes:
        ends_at: The next midnight.
        user_messages: Messages of the one who writes, this one among them.
        messages: Of everybody.
        user_tokens: Model tokens, prompts and replies, of the owner of the conversation.
    """

    ends_at: datetime
    user_messages: int
    messages: int
    user_tokens: int


@dataclass(frozen=True)
class TokensToday:
    """Model tokens since midnight: everybody's, one owner's; seconds until the day ends."""

    total: int
    own: int
    seconds_left: float


@dataclass(frozen=True)
class Spent:
    """Messages of today that were counted, model tokens of today and of thirty days."""

    messages: int
    tokens: int
    tokens_in_month: int


# Count a message (or none) of somebody; what there was today of him, and of all.
COUNT_MESSAGE = """
WITH today AS (
    SELECT day, day::timestamp AT TIME ZONE %(zone)s AS begins,
           (day + 1)::timestamp AT TIME ZONE %(zone)s AS ends
    FROM (SELECT (now() AT TIME ZONE %(zone)s)::date AS day) AS here
), counted AS (
    INSERT INTO daily_messages AS m (day, telegram_user_id, messages)
    SELECT day, %(sender)s, %(messages)s FROM today
    ON CONFLICT (day, telegram_user_id) DO UPDATE SET messages = m.messages + EXCLUDED.messages
    RETURNING messages
)
SELECT t.ends, c.messages,
       c.messages + (SELECT coalesce(sum(m.messages), 0) FROM daily_messages m
                     WHERE m.day = t.day AND m.telegram_user_id <> %(sender)s),
       (SELECT coalesce(sum(coalesce(u.prompt_tokens, 0) + coalesce(u.completion_tokens, 0)), 0)
        FROM model_usage u
        WHERE u.telegram_user_id = %(owner)s AND u.created_at >= t.begins)
FROM today t, counted c
"""

# The model tokens of today: everybody's, and those of one owner; seconds until the day ends.
SUM_TOKENS = """
SELECT coalesce(sum(u.tokens), 0),
       coalesce(sum(u.tokens) FILTER (WHERE u.telegram_user_id = %(owner)s), 0),
       max(extract(epoch FROM t.ends - now()))
FROM (SELECT day::timestamp AT TIME ZONE %(zone)s AS begins,
             (day + 1)::timestamp AT TIME ZONE %(zone)s AS ends
      FROM (SELECT (now() AT TIME ZONE %(zone)s)::date AS day) AS here) AS t
LEFT JOIN LATERAL (
    SELECT telegram_user_id, coalesce(prompt_tokens, 0) + coalesce(completion_tokens, 0) AS tokens
    FROM model_usage WHERE created_at >= t.begins) AS u ON true
"""

# Answers to somebody within a minute, refusals apart, and when the first of them is a minute old.
COUNT_MINUTE = """
SELECT count(*), min(a.created_at) + interval '1 minute'
FROM messages a JOIN messages m ON m.id = a.reply_to_id
WHERE a.conversation_id = %(conversation_id)s AND a.role = 'assistant'
  AND a.created_at > now() - interval '1 minute' AND NOT a.is_private
  AND (m.sender_id IS NULL OR m.sender_id = %(sender)s)
"""

# What somebody wrote and spent: today, and in the last thirty days with it.
SELECT_SPENT = """
WITH today AS (
    SELECT day, day::timestamp AT TIME ZONE %(zone)s AS begins
    FROM (SELECT (now() AT TIME ZONE %(zone)s)::date AS day) AS here
)
SELECT (SELECT coalesce(sum(m.messages), 0) FROM daily_messages m
        WHERE m.day = t.day AND m.telegram_user_id = %(sender)s),
       coalesce(sum(u.tokens) FILTER (WHERE u.created_at >= t.begins), 0),
       coalesce(sum(u.tokens), 0)
FROM today t
LEFT JOIN LATERAL (
    SELECT created_at, coalesce(prompt_tokens, 0) + coalesce(completion_tokens, 0) AS tokens
    FROM model_usage
    WHERE telegram_user_id = %(owner)s AND created_at > now() - interval '30 days') AS u ON true
GROUP BY t.day, t.begins
"""

# Days that no ceiling asks about any more.
DELETE_OLD = "DELETE FROM daily_messages WHERE day < current_date - %(days)s"


class DailyUsageRepository(Repository):
    """Counts and adds up; every method blocks (see ``PgClient.run``)."""

    def count_message(self, sender: int, owner: int, *, zone: str, is_new: bool) -> DailyUsage:
        """Count a message unless it was counted before; what there was today with it.

        Args:
            sender: Who wrote it.
            owner: Whose conversation it is in: the same person, or a group.
            zone: In whose midnight the day begins.
            is_new: Whether it is to be counted.
        """
        [row] = self._client.fetch_all(
            COUNT_MESSAGE,
            {"sender": sender, "owner": owner, "zone": zone, "messages": int(is_new)},
        )
        ends, own, everybody, tokens = row
        return DailyUsage(ends, int(own), int(everybody), int(tokens))

    def sum_tokens(self, owner: int, *, zone: str) -> TokensToday:
        """The model tokens of today: everybody's, and one owner's."""
        [(total, own, seconds)] = self._client.fetch_all(
            SUM_TOKENS, {"owner": owner, "zone": zone}
        )
        return TokensToday(int(total), int(own), float(seconds))

    def count_minute(self, conversation_id: UUID, sender: int) -> tuple[int, datetime | None]:
        """Answers to somebody in the last minute, and when there is room for one more."""
        parameters = {"conversation_id": str(conversation_id), "sender": sender}
        [(count, ends_at)] = self._client.fetch_all(COUNT_MINUTE, parameters)
        return int(count), ends_at

    def sum_spent(self, sender: int, owner: int, *, zone: str) -> Spent:
        """What somebody wrote and spent lately."""
        [row] = self._client.fetch_all(
            SELECT_SPENT, {"sender": sender, "owner": owner, "zone": zone}
        )
        return Spent(*map(int, row))

    def delete_old(self, *, days: int) -> int:
        """Delete the counts of days before the last ``days``."""
        return self._client.execute(DELETE_OLD, {"days": days})
