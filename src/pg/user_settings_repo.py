"""What is known of a user (or group) besides what was said: language, zone, reachability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from src.base.owners import Owner
from src.pg.client import Repository

Mode = Literal["assistant", "strict"]
AnswerLength = Literal["short", "normal", "long"]


@dataclass(frozen=True)
class UserSettings:
    """One owner's settings; None stands for the default."""

    language: str | None = None
    time_zone: str | None = None
    mode: Mode = "assistant"
    answer_length: AnswerLength = "normal"
    memory_on: bool = True


# The owner's settings.
SELECT_SETTINGS = """
SELECT language, time_zone, mode, answer_length, memory_on FROM user_settings
WHERE owner_id = %(owner)s
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

# Which way the graph takes for this owner.
UPSERT_MODE = """
INSERT INTO user_settings (owner_id, mode) VALUES (add_owner(%(user)s, 0), %(mode)s)
ON CONFLICT (owner_id) DO UPDATE SET mode = EXCLUDED.mode, updated_at = now()
"""


# In which language the bot speaks to this owner.
UPSERT_LANGUAGE = """
INSERT INTO user_settings (owner_id, language) VALUES (add_owner(%(user)s, 0), %(language)s)
ON CONFLICT (owner_id) DO UPDATE SET language = EXCLUDED.language, updated_at = now()
"""

# Where this owner lives.
UPSERT_TIME_ZONE = """
INSERT INTO user_settings (owner_id, time_zone) VALUES (add_owner(%(user)s, 0), %(time_zone)s)
ON CONFLICT (owner_id) DO UPDATE SET time_zone = EXCLUDED.time_zone, updated_at = now()
"""

# How long answers are.
UPSERT_ANSWER_LENGTH = """
INSERT INTO user_settings (owner_id, answer_length) VALUES (add_owner(%(user)s, 0), %(length)s)
ON CONFLICT (owner_id) DO UPDATE
SET answer_length = EXCLUDED.answer_length, updated_at = now()
"""

# Whether anything is remembered.
UPSERT_MEMORY_ON = """
INSERT INTO user_settings (owner_id, memory_on) VALUES (add_owner(%(user)s, 0), %(memory_on)s)
ON CONFLICT (owner_id) DO UPDATE SET memory_on = EXCLUDED.memory_on, updated_at = now()
"""


class UserSettingsRepository(Repository):
    """Stores one row per owner who has settings; every method blocks."""

    def get(self, telegram_user_id: int) -> UserSettings:
        """The owner's settings; defaults when there is no row."""
        row = self._client.fetch_one(SELECT_SETTINGS, Owner(telegram_user_id).columns())
        return UserSettings(*row) if row else UserSettings()

    def mark_inactive(self, telegram_user_id: int) -> None:
        """Nothing can be sent to this owner from now on."""
        self._write(UPSERT_INACTIVE, telegram_user_id)

    def mark_active(self, telegram_user_id: int) -> None:
        """The owner can be reached again."""
        self._write(UPDATE_ACTIVE, telegram_user_id)

    def set_mode(self, telegram_user_id: int, mode: Mode) -> None:
        """Remember which way the graph takes for this owner."""
        self._write(UPSERT_MODE, telegram_user_id, mode=mode)

    def set_language(self, telegram_user_id: int, language: str) -> None:
        """Speak this language with the owner, whatever his Telegram says."""
        self._write(UPSERT_LANGUAGE, telegram_user_id, language=language)

    def set_time_zone(self, telegram_user_id: int, time_zone: str) -> None:
        """Remember where the owner lives: a tz database name."""
        self._write(UPSERT_TIME_ZONE, telegram_user_id, time_zone=time_zone)

    def set_answer_length(self, telegram_user_id: int, length: AnswerLength) -> None:
        """Remember how long the owner wants answers."""
        self._write(UPSERT_ANSWER_LENGTH, telegram_user_id, length=length)

    def set_memory_on(self, telegram_user_id: int, memory_on: bool) -> None:
        """Remember whether anything of this owner is to be remembered."""
        self._write(UPSERT_MEMORY_ON, telegram_user_id, memory_on=memory_on)

    def _write(self, sql: str, telegram_user_id: int, **values: object) -> None:
        self._client.execute(sql, {**Owner(telegram_user_id).columns(), **values})
