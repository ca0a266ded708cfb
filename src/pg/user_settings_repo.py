"""Settings of a user or group, and whether they can be reached or are blocked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from psycopg2.sql import SQL, Identifier, Placeholder

from src.base.owners import Chosen, LanguageSource, Owner, Preferences
from src.pg.client import Repository
from src.texts import choose_language


@dataclass(frozen=True)
class UserSettings(Chosen):
    """Settings of one owner; None stands for the default.

    Attributes:
        language: Chosen language, or None to follow what is spoken.
        time_zone: A tz database name.
        spoken_language: Language of the last message of some length; None: none was clear.
        has_reminders: True if any reminder is pending, also in another topic of the group.
        is_inactive: True if nothing could be sent to the owner lately.
        is_blocked: True if an operator has blocked the owner.
    """

    language: str | None = None
    time_zone: str | None = None
    spoken_language: str | None = None
    has_reminders: bool = False
    is_inactive: bool = False
    is_blocked: bool = False

    @classmethod
    def from_row(cls, stored: Mapping[str, Any]) -> Self:
        """Build the settings from columns and states by name; others are left out."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in names})

    def resolve(self, codes: Sequence[str | None], time_zone: str) -> Preferences:
        """Return the settings as they apply.

        Args:
            codes: Languages of the owner's devices, used until they choose or speak one.
            time_zone: The zone, used until they name theirs.
        """
        source: LanguageSource = "guessed"
        if self.language is not None:
            source = "chosen"
        elif self.spoken_language is not None:
            source = "spoken"
        return Preferences(
            choose_language(self.language, self.spoken_language, *codes),
            self.time_zone or time_zone,
            has_zone=self.time_zone is not None,
            has_reminders=self.has_reminders,
            language_from=source,
            **{field.name: getattr(self, field.name) for field in fields(Chosen)},
        )


# Select the owner's settings and states by name.
SELECT_SETTINGS = """
SELECT coalesce(to_jsonb(s), '{}') || jsonb_build_object(
    'has_reminders',
    EXISTS (SELECT FROM reminders r JOIN owners w ON w.id = r.owner_id
            WHERE w.telegram_user_id = o.telegram_user_id AND r.is_waiting
              AND r.kind = 'reminder'),
    'is_inactive', s.inactive_since IS NOT NULL, 'is_blocked', o.blocked_at IS NOT NULL)
FROM owners o LEFT JOIN user_settings s ON s.owner_id = o.id
WHERE o.id = %(owner)s
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

# Block or unblock an owner, in all topics of a group: no storage for them, no messages to them.
UPDATE_BLOCKED = """
UPDATE owners SET blocked_at = CASE WHEN %(is_blocked)s THEN now() END
WHERE telegram_user_id = %(user)s AND (blocked_at IS NOT NULL) <> %(is_blocked)s
"""

# Store the given settings.
UPSERT_SETTINGS = SQL("""
INSERT INTO user_settings (owner_id, {columns}) VALUES (add_owner(%(user)s, 0), {values})
ON CONFLICT (owner_id) DO UPDATE SET ({columns}) = ROW ({values}), updated_at = now()
""")


class UserSettingsRepository(Repository):
    """Repository of user settings, one row per owner; its methods block."""

    def get(self, telegram_user_id: int) -> UserSettings:
        """Return the owner's settings; defaults if there is no row."""
        stored = self._first(UserSettings.from_row, SELECT_SETTINGS, Owner(telegram_user_id))
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

    def change(self, telegram_user_id: int, **chosen: str | bool | None) -> None:
        """Store settings of the owner.

        Args:
            telegram_user_id: The user or group.
            chosen: New values by name, as in ``UserSettings``.
        """
        names = sorted(chosen)
        statement = UPSERT_SETTINGS.format(
            columns=SQL(", ").join(map(Identifier, names)),
            values=SQL(", ").join(map(Placeholder, names)),
        )
        self._client.execute(statement, Owner(telegram_user_id).columns() | chosen)
