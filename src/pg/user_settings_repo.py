"""What is known of a user (or group) besides what was said: language, zone, reachability."""

from dataclasses import dataclass
from typing import Literal

from src.base.owners import Owner
from src.pg.client import Repository

Mode = Literal["assistant", "strict"]
AnswerLength = Literal["short", "normal", "long"]


@dataclass(frozen=True)
class UserSettings:
    """One owner's settings; None stands for the default.

    Attributes:
        has_reminders: Beside them, whether any reminder waits.
        is_blocked: Whether an operator has blocked them.
    """

    language: str | None = None
    time_zone: str | None = None
    mode: Mode = "assistant"
    answer_length: AnswerLength = "normal"
    memory_on: bool = True
    has_reminders: bool = False
    is_blocked: bool = False


# The owner's settings.
SELECT_SETTINGS = """
SELECT s.language, s.time_zone, coalesce(s.mode, 'assistant'),
       coalesce(s.answer_length, 'normal'), coalesce(s.memory_on, true),
       EXISTS (SELECT FROM reminders r WHERE r.owner_id = o.id AND r.is_waiting),
       o.blocked_at IS NOT NULL
FROM owners o LEFT JOIN user_settings s ON s.owner_id = o.id
WHERE o.id = %(owner)s
"""

# The user blocked the bot, or the chat is gone.
UPSERT_INACTIVE = """
INSERT INTO user_settings (owner_id, inactive_since) VALUES (add_owner(%(user)s, 0), now())
ON CONFLICT (owner_id) DO UPDATE
SET inactive_since = coalesce(user_settings.inactive_since, now()), updated_at = now()
"""

# The user is back.
UPDATE_ACTIVE = """
UPDATE user_settings SET inactive_since = NULL, updated_at = now()
WHERE owner_id = %(owner)s AND inactive_since IS NOT NULL
"""

# A zone that was only a guess, and a wrong one.
CLEAR_ZONE = "UPDATE user_settings SET time_zone = NULL WHERE owner_id = %(owner)s"

# Nothing of theirs is stored, and nothing sent to them (in no topic of a group), or is again.
UPDATE_BLOCKED = """
UPDATE owners SET blocked_at = CASE WHEN %(is_blocked)s THEN now() END
WHERE telegram_user_id = %(user)s AND (blocked_at IS NOT NULL) <> %(is_blocked)s
"""

# What the owner has chosen; what is NULL stays as it was.
UPSERT_SETTINGS = """
INSERT INTO user_settings AS s (owner_id, language, time_zone, mode, answer_length, memory_on)
VALUES (add_owner(%(user)s, 0), %(language)s, %(time_zone)s, coalesce(%(mode)s, 'assistant'),
        coalesce(%(answer_length)s, 'normal'), coalesce(%(memory_on)s, true))
ON CONFLICT (owner_id) DO UPDATE
SET language = coalesce(%(language)s, s.language),
    time_zone = coalesce(%(time_zone)s, s.time_zone),
    mode = coalesce(%(mode)s, s.mode),
    answer_length = coalesce(%(answer_length)s, s.answer_length),
    memory_on = coalesce(%(memory_on)s, s.memory_on), updated_at = now()
"""


class UserSettingsRepository(Repository):
    """Stores one row per owner who has settings; every method blocks."""

    def get(self, telegram_user_id: int) -> UserSettings:
        """The owner's settings; defaults when there is no row."""
        known = self._first(UserSettings, SELECT_SETTINGS, Owner(telegram_user_id))
        return known or UserSettings()

    def set_blocked(self, telegram_user_id: int, *, is_blocked: bool) -> bool:
        """Answer this person, or this group, no more, or again; False when it was so already."""
        owner = Owner(telegram_user_id)
        return self._client.execute(UPDATE_BLOCKED, owner, is_blocked=is_blocked) > 0

    def mark_inactive(self, telegram_user_id: int) -> None:
        """Nothing can be sent to this owner from now on."""
        self._client.execute(UPSERT_INACTIVE, Owner(telegram_user_id))

    def mark_active(self, telegram_user_id: int) -> None:
        """The owner can be reached again."""
        self._client.execute(UPDATE_ACTIVE, Owner(telegram_user_id))

    def forget_zone(self, telegram_user_id: int) -> None:
        """The owner has told no zone."""
        self._client.execute(CLEAR_ZONE, Owner(telegram_user_id))

    def change(
        self,
        telegram_user_id: int,
        *,
        language: str | None = None,
        time_zone: str | None = None,
        mode: Mode | None = None,
        answer_length: AnswerLength | None = None,
        memory_on: bool | None = None,
    ) -> None:
        """Store what the owner has chosen; None leaves a setting as it is.

        Args:
            telegram_user_id: The person, or the group.
            language: The bot speaks it with them, whatever their Telegram says.
            time_zone: A tz database name.
            mode: Which way the graph takes.
            answer_length: How long answers are.
            memory_on: Whether anything is remembered.
        """
        self._client.execute(
            UPSERT_SETTINGS, Owner(telegram_user_id), language=language, time_zone=time_zone,
            mode=mode, answer_length=answer_length, memory_on=memory_on,
        )  # fmt: skip
