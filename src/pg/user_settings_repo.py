"""Settings of a user or group, and whether they can be reached or are blocked."""

from collections.abc import Sequence
from dataclasses import dataclass

from src.base.owners import AnswerLength, LanguageSource, Mode, Owner, Preferences
from src.pg.client import Repository
from src.texts import Language, choose_language


@dataclass(frozen=True)
class UserSettings:
    """Settings of one owner; None stands for the default.

    Attributes:
        language: Chosen language, or None to follow what is spoken.
        time_zone: A tz database name.
        mode: Mode of the graph.
        answer_length: Length of answers.
        memory_on: True if anything is remembered.
        has_reminders: True if any reminder is pending, also in another topic of the group.
        is_inactive: True if nothing could be sent to the owner lately.
        is_blocked: True if an operator has blocked the owner.
        spoken_language: Language of the last message of some length; None: none was clear.
    """

    language: str | None = None
    time_zone: str | None = None
    mode: Mode = "assistant"
    answer_length: AnswerLength = "normal"
    memory_on: bool = True
    has_reminders: bool = False
    is_inactive: bool = False
    is_blocked: bool = False
    spoken_language: str | None = None

    def resolve(self, codes: Sequence[str | None], time_zone: str) -> Preferences:
        """Return the settings as they apply.

        Args:
            codes: Languages of the owner's devices, used until they choose or speak one.
            time_zone: The zone, used until they name theirs.
        """
        language = choose_language(self.language, self.spoken_language, *codes)
        source: LanguageSource = "guessed"
        if self.language is not None:
            source = "chosen"
        elif self.spoken_language is not None:
            source = "spoken"
        return Preferences(
            language,
            self.time_zone or time_zone,
            self.time_zone is not None,
            self.mode,
            self.answer_length,
            self.memory_on,
            self.has_reminders,
            source,
        )


# Select the owner's settings.
SELECT_SETTINGS = """
SELECT s.language, s.time_zone, coalesce(s.mode, 'assistant'),
       coalesce(s.answer_length, 'normal'), coalesce(s.memory_on, true),
       EXISTS (SELECT FROM reminders r JOIN owners w ON w.id = r.owner_id
               WHERE w.telegram_user_id = o.telegram_user_id AND r.is_waiting),
       s.inactive_since IS NOT NULL, o.blocked_at IS NOT NULL, s.spoken_language
FROM owners o LEFT JOIN user_settings s ON s.owner_id = o.id
WHERE o.id = %(owner)s
"""

# Store the language that the owner speaks.
UPSERT_SPOKEN = """
INSERT INTO user_settings (owner_id, spoken_language) VALUES (add_owner(%(user)s, 0), %(language)s)
ON CONFLICT (owner_id) DO UPDATE SET spoken_language = %(language)s, updated_at = now()
"""

# Mark an owner who blocked the bot, or whose chat no longer exists, as inactive.
UPSERT_INACTIVE = """
INSERT INTO user_settings (owner_id, inactive_since) VALUES (add_owner(%(user)s, 0), now())
ON CONFLICT (owner_id) DO UPDATE
SET inactive_since = coalesce(user_settings.inactive_since, now()), updated_at = now()
"""

# Mark an owner as active again.
UPDATE_ACTIVE = """
UPDATE user_settings SET inactive_since = NULL, updated_at = now()
WHERE owner_id = %(owner)s AND inactive_since IS NOT NULL
"""

# Clear a time zone that was a wrong guess.
CLEAR_ZONE = "UPDATE user_settings SET time_zone = NULL WHERE owner_id = %(owner)s"

# Block or unblock an owner, in all topics of a group: no storage for them, no messages to them.
UPDATE_BLOCKED = """
UPDATE owners SET blocked_at = CASE WHEN %(is_blocked)s THEN now() END
WHERE telegram_user_id = %(user)s AND (blocked_at IS NOT NULL) <> %(is_blocked)s
"""

# Store the given settings; a NULL leaves a setting unchanged.
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
    """Repository of user settings, one row per owner; its methods block."""

    def get(self, telegram_user_id: int) -> UserSettings:
        """Return the owner's settings; defaults if there is no row."""
        stored = self._first(UserSettings, SELECT_SETTINGS, Owner(telegram_user_id))
        return stored or UserSettings()

    def set_blocked(self, telegram_user_id: int, *, is_blocked: bool) -> bool:
        """Block or unblock a user or group; return False if the state was that already."""
        owner = Owner(telegram_user_id)
        return self._client.execute(UPDATE_BLOCKED, owner, is_blocked=is_blocked) > 0

    def mark_inactive(self, telegram_user_id: int) -> None:
        """Record that nothing can be sent to the owner."""
        self._client.execute(UPSERT_INACTIVE, Owner(telegram_user_id))

    def mark_active(self, telegram_user_id: int) -> None:
        """Record that the owner can be reached again."""
        self._client.execute(UPDATE_ACTIVE, Owner(telegram_user_id))

    def set_spoken(self, telegram_user_id: int, language: Language) -> None:
        """Store the language of the owner's last message of some length."""
        self._client.execute(UPSERT_SPOKEN, Owner(telegram_user_id), language=language)

    def clear_zone(self, telegram_user_id: int) -> None:
        """Clear the owner's time zone."""
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
        """Store settings that the owner has chosen; None leaves a setting unchanged.

        Args:
            telegram_user_id: The user or group.
            language: Language of the bot, whatever their Telegram's is.
            time_zone: A tz database name.
            mode: Mode of the graph.
            answer_length: Length of answers.
            memory_on: True to remember anything.
        """
        chosen = {"language": language, "time_zone": time_zone, "mode": mode}
        columns = Owner(telegram_user_id).columns() | chosen
        columns |= {"answer_length": answer_length, "memory_on": memory_on}
        self._client.execute(UPSERT_SETTINGS, columns)
