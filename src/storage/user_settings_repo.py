"""What is known of a user (or group) besides what was said: language, zone, reachability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from src.storage.repository import Repository

Mode = Literal["assistant", "strict"]


@dataclass(frozen=True)
class UserSettings:
    """One owner's settings; None stands for the default."""

    language: str | None = None
    time_zone: str | None = None
    mode: Mode = "assistant"


# The owner's settings.
SELECT_SETTINGS = """
SELECT language, time_zone, mode FROM user_settings WHERE telegram_user_id = %(owner)s
"""

# The user blocked the bot, or the chat is gone.
UPSERT_INACTIVE = """
INSERT INTO user_settings (telegram_user_id, inactive_since) VALUES (%(owner)s, now())
ON CONFLICT (telegram_user_id) DO UPDATE
SET inactive_since = coalesce(user_settings.inactive_since, now()), updated_at = now()
"""

# The user is back.
UPDATE_ACTIVE = """
UPDATE user_settings SET inactive_since = NULL, updated_at = now()
WHERE telegram_user_id = %(owner)s AND inactive_since IS NOT NULL
"""

# Which way the graph takes for this owner.
UPSERT_MODE = """
INSERT INTO user_settings (telegram_user_id, mode) VALUES (%(owner)s, %(mode)s)
ON CONFLICT (telegram_user_id) DO UPDATE SET mode = EXCLUDED.mode, updated_at = now()
"""


class UserSettingsRepository(Repository):
    """Stores one row per owner who has settings; every method blocks."""

    def get(self, telegram_user_id: int) -> UserSettings:
        """The owner's settings; defaults when there is no row."""
        row = self._client.fetch_one(SELECT_SETTINGS, {"owner": telegram_user_id})
        return UserSettings(*row) if row else UserSettings()

    def mark_inactive(self, telegram_user_id: int) -> None:
        """Nothing can be sent to this owner from now on."""
        self._client.execute(UPSERT_INACTIVE, {"owner": telegram_user_id})

    def mark_active(self, telegram_user_id: int) -> None:
        """The owner can be reached again."""
        self._client.execute(UPDATE_ACTIVE, {"owner": telegram_user_id})

    def set_mode(self, telegram_user_id: int, mode: Mode) -> None:
        """Remember which way the graph takes for this owner."""
        self._client.execute(UPSERT_MODE, {"owner": telegram_user_id, "mode": mode})
