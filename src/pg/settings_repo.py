"""Settings in the database: those of the operator, changed while the bot runs, and of users."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, Self, get_args

from annotated_types import Ge, Le
from psycopg2.sql import SQL, Identifier, Placeholder
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from src.base import config, errors
from src.base.errors import SettingsConflictError, SettingsError
from src.base.owners import Chosen, LanguageSource, Owner, Preferences
from src.base.providers import PROVIDERS, Provider, find_batch_provider, find_provider
from src.pg.client import PgClient, Repository, Row, Transaction
from src.texts import choose_language

FRESH_SECONDS = 4.0  # of caching, after which a change is in force in every process

Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[
    str, Field(pattern=r"^[^\s\x00-\x1f]{0,200}$", description="a name without spaces")
]
Tokens = Annotated[int, Field(ge=0, le=10**12)]
Messages = Annotated[int, Field(ge=0, le=10**9)]


class ExtractionSettings(BaseModel):
    """Reading of conversations for facts."""

    memory_extraction_enabled: bool = True
    memory_extraction_provider: Literal["immediate", "openai", "anthropic", "google"] = "immediate"
    memory_extraction_model: Name = ""
    memory_extraction_interval_hours: int = Field(24, ge=1, le=168)
    memory_extraction_window: int = Field(20, ge=1, le=1000)
    memory_extraction_silence_minutes: int = Field(60, ge=1, le=10_080)

    @property
    def model_problem(self) -> str:
        """Problem with the name of the model; empty if there is none."""
        model, provider = self.memory_extraction_model, self.memory_extraction_provider
        if not model:
            return ""
        named = find_provider(model) if ":" in model else None
        if provider == "immediate" and named is None:
            return f"write provider:model, with one of the providers {', '.join(PROVIDERS)}"
        if provider != "immediate" and named not in (None, find_batch_provider(provider)):
            return f"it is not a model of {provider}"
        return ""


class RecallSettings(BaseModel):
    """Storing of facts, and what of them is found again."""

    memory_dedup_threshold: Share = 0.6
    memory_update_threshold: Share = 0.95
    memory_retrieve_limit: int = Field(5, ge=0, le=50)
    memory_retrieve_threshold: Share = 0.6
    memory_context_tokens: int = Field(3000, ge=500, le=20_000)
    max_memories_per_user: int = Field(1000, ge=1, le=10**6)
    embedding_provider: Literal["", "local", "openai"] = ""
    embedding_model: Name = ""

    @property
    def embedding_name(self) -> str:
        """Embedding model in the form of ``EMBEDDING_MODEL``; empty to use that variable."""
        if self.embedding_provider == "openai":
            return f"openai:{self.embedding_model}"
        return self.embedding_provider


class PromptSettings(BaseModel):
    """The part of a conversation that the model sees, and the loops of strict mode."""

    history_messages: int = Field(30, ge=10, le=100)
    history_step: int = Field(15, ge=1, le=29)
    summary_messages: int = Field(6, ge=2, le=100)
    summaries_shown: int = Field(3, ge=0, le=20)
    summaries_kept: int = Field(6, ge=1, le=100)
    strict_retrieve_limit: int = Field(10, ge=1, le=50)
    strict_react_limit: int = Field(3, ge=1, le=20)
    strict_max_iterations: int = Field(3, ge=0, le=10)


class LimitSettings(BaseModel):
    """Limits of what the bot writes and spends, and its currency; 0 is no daily limit."""

    background_calls_per_hour: int = Field(120, ge=1, le=10**5)
    answer_max_characters: int = Field(30_000, ge=100, le=60_000)
    answer_max_parts: int = Field(10, ge=1, le=50)
    answer_max_seconds: int = Field(120, ge=1, le=3600)
    currency: str = Field("USD", pattern=r"^[A-Z]{3}$", description="three letters such as EUR")
    daily_messages: Messages = 0
    daily_tokens: Tokens = 0
    daily_messages_per_user: Messages = 0
    daily_tokens_per_user: Tokens = 0
    messages_per_minute_per_user: Messages = 0


class GlobalSettings(LimitSettings, PromptSettings, RecallSettings, ExtractionSettings):
    """The settings row; fields have the names of the columns and the bounds of their checks.

    A base holds those of one subject; ``src/web/admin_labels.toml`` says what they do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    message_retention_days: int = Field(0, ge=0, le=36_500)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.history_step >= self.history_messages:
            raise ValueError("history_step must be less than history_messages")
        if (self.embedding_provider == "openai") != bool(self.embedding_model):
            raise ValueError("embedding_model goes with embedding_provider openai, and only so")
        return self

    @classmethod
    def from_row(cls, row: Row | None) -> Self:
        """Build the settings from their row."""
        return cls.model_validate(dict(zip(NAMES, row or (), strict=True)))

    def as_texts(self) -> Mapping[str, str]:
        """Return the values by name as a form shows them."""
        return {name: as_text(getattr(self, name)) for name in NAMES}


NAMES = tuple(GlobalSettings.model_fields)

# The settings row; its columns have the names of the fields.
SELECT_SETTINGS = SQL("SELECT {columns} FROM global_settings WHERE id = 1").format(
    columns=SQL(", ").join(map(Identifier, NAMES))
)

# The same, locked.
LOCK_SETTINGS = SELECT_SETTINGS + SQL(" FOR UPDATE")

# Update all columns; a trigger writes the history of those that changed.
UPDATE_SETTINGS = SQL("UPDATE global_settings SET {assignments} WHERE id = 1").format(
    assignments=SQL(", ").join(
        SQL("{} = {}").format(Identifier(name), Placeholder(name)) for name in NAMES
    )
)

# Set the actor for the history, until the transaction ends.
SET_ACTOR = "SELECT set_config('pomni.actor', %(actor)s, true)"


class GlobalSettingsRepository(Repository):
    """Repository of the settings, cached for ``FRESH_SECONDS``; its methods block."""

    def __init__(self, client: PgClient) -> None:
        """Start with an empty cache."""
        super().__init__(client)
        self._run = client.run
        self._lock = threading.Lock()
        self._settings = GlobalSettings()
        self._fresh_until = float("-inf")

    @property
    def last_known(self) -> GlobalSettings:
        """Settings that ``get`` returned last, however old; the defaults before that."""
        return self._settings

    async def fetch(self) -> GlobalSettings:
        """Return the settings as ``get`` does; no thread is used while the cache is fresh."""
        if time.monotonic() <= self._fresh_until:
            return self._settings
        return await self._run(self.get)

    def get(self) -> GlobalSettings:
        """Return the settings, at most ``FRESH_SECONDS`` old."""
        with self._lock:
            if time.monotonic() > self._fresh_until:
                self._settings = GlobalSettings.from_row(self._client.fetch_one(SELECT_SETTINGS))
                self._fresh_until = time.monotonic() + FRESH_SECONDS
            return self._settings

    def refresh(self) -> GlobalSettings:
        """Return the settings as stored now, past the cache."""
        self._fresh_until = float("-inf")
        return self.get()

    def change(
        self, actor: str, values: Mapping[str, Any], seen: Mapping[str, str] | None = None
    ) -> GlobalSettings:
        """Change some settings; every process reads them within ``FRESH_SECONDS``.

        Args:
            actor: Author of the change, for the history.
            values: New values by name; numbers can be strings, as a form sends them.
            seen: Old values by name, in the form of ``as_text``, so that no concurrent change is
                overwritten.

        Returns:
            All settings after the change.

        Raises:
            SettingsError: A value is out of bounds; nothing was changed.
            SettingsConflictError: A stored value differs from ``seen``; nothing was changed.
            StorageError: The database is away.
        """

        def work(transaction: Transaction) -> None:
            current = GlobalSettings.from_row(transaction.fetch_one(LOCK_SETTINGS))
            texts = current.as_texts()
            stale = [name for name, was in (seen or {}).items() if texts[name] != was]
            if stale:
                raise SettingsConflictError(stale)
            settings = check_settings({**current.model_dump(), **values})
            transaction.fetch_one(SET_ACTOR, actor=actor)
            transaction.execute(UPDATE_SETTINGS, settings.model_dump())

        self._client.in_transaction(work)
        return self.refresh()


def check_settings(values: Mapping[str, Any]) -> GlobalSettings:
    """Return settings with these values, and defaults for the others.

    Raises:
        SettingsError: Some values are invalid; it holds the problems by name.
    """
    try:
        return GlobalSettings.model_validate(values)
    except ValidationError as error:
        problems = {}
        for entry in error.errors():
            name = "".join(map(str, entry["loc"][:1]))
            problems[name] = entry["msg"].removeprefix("Value error, ")
            if name in NAMES:
                problems[name] = f"Write {describe_bounds(name)}"
        raise SettingsError(problems) from error


def describe_bounds(name: str) -> str:
    """Return the range of a setting in words, such as ``a whole number from 1 to 168``."""
    field = GlobalSettings.model_fields[name]
    if field.annotation not in (int, float):
        choices = filter(None, get_args(field.annotation) or ("true", "false"))
        return field.description or f"one of {', '.join(choices)}"
    least, most = (
        next(getattr(mark, of) for mark in field.metadata if isinstance(mark, kind))
        for kind, of in ((Ge, "ge"), (Le, "le"))
    )
    if field.annotation is int:
        return f"a whole number from {least:,} to {most:,}"
    return f"a number from {least:,} to {most:,}"


def as_text(value: object) -> str:
    """Return a setting's value as a form shows it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


@dataclass(eq=False, repr=False)
class SettingsService:
    """Changes of the operator's settings, checked against the environment (keys, providers)."""

    _client: PgClient
    _repo: GlobalSettingsRepository
    _environment: config.Settings  # constant while the bot runs

    async def get(self) -> GlobalSettings:
        """Return the current settings from the database.

        Raises:
            StorageError: The database is away.
        """
        return await self._client.run(self._repo.refresh)

    async def change(
        self, actor: str, values: Mapping[str, Any], seen: Mapping[str, str] | None = None
    ) -> GlobalSettings:
        """Check a change and store it; see ``GlobalSettingsRepository.change``."""
        current = await self.get()
        proposed = check_settings({**current.model_dump(), **values})
        problems = {
            "memory_extraction_provider": self._key_problem(
                find_batch_provider(proposed.memory_extraction_provider)
            ),
            "memory_extraction_model": proposed.model_problem
            or self._key_problem(find_provider(proposed.memory_extraction_model)),
            "embedding_provider": self._key_problem(find_provider(proposed.embedding_name)),
        }
        problems = {name: text for name, text in problems.items() if text and name in values}
        if problems:
            raise errors.SettingsError(problems)
        return await self._client.run(self._repo.change, actor, values, seen)

    def _key_problem(self, provider: Provider | None) -> str:
        """Return what is missing to call a provider; empty if nothing is, or none is called."""
        if provider is None or provider.is_configured(self._environment):
            return ""
        return f"{provider.key_variable} is not set: put it into .env and restart the bot"


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
SELECT_CHOSEN = """
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
UPSERT_CHOSEN = SQL("""
INSERT INTO user_settings (owner_id, {columns}) VALUES (add_owner(%(user)s, 0), {values})
ON CONFLICT (owner_id) DO UPDATE SET ({columns}) = ROW ({values}), updated_at = now()
""")


class UserSettingsRepository(Repository):
    """Repository of user settings, one row per owner; its methods block."""

    def get(self, telegram_user_id: int) -> UserSettings:
        """Return the owner's settings; defaults if there is no row."""
        stored = self._first(UserSettings.from_row, SELECT_CHOSEN, Owner(telegram_user_id))
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
        statement = UPSERT_CHOSEN.format(
            columns=SQL(", ").join(map(Identifier, names)),
            values=SQL(", ").join(map(Placeholder, names)),
        )
        self._client.execute(statement, Owner(telegram_user_id).columns() | chosen)
