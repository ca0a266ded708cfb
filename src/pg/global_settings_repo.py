"""What an operator may change while the bot runs: one row of ``global_settings``."""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from src.base.errors import SettingsConflictError, SettingsError
from src.pg.client import PgClient, Repository, Transaction

logger = logging.getLogger(__name__)

FRESH_SECONDS = 4.0  # a change is in force in every process after so long at most

Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[
    str, Field(pattern=r"^[^\s\x00-\x1f]{0,200}$", description="a name without spaces")
]
Tokens = Annotated[int, Field(ge=0, le=10**12)]
Messages = Annotated[int, Field(ge=0, le=10**9)]


class GlobalSettings(BaseModel):
    """The row. Names are those of the columns, whose checks are the bounds here.

    What a setting is for, the operator reads in its column's comment, also on the admin page.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_extraction_enabled: bool = True
    memory_extraction_provider: Literal["immediate", "openai", "anthropic", "google"] = "immediate"
    memory_extraction_model: Name = ""
    memory_extraction_interval_hours: int = Field(24, ge=1, le=168)
    memory_extraction_window: int = Field(20, ge=1, le=1000)
    memory_extraction_silence_minutes: int = Field(60, ge=1, le=10_080)
    memory_dedup_threshold: Share = 0.6
    memory_update_threshold: Share = 0.95
    memory_retrieve_limit: int = Field(5, ge=0, le=50)
    memory_retrieve_threshold: Share = 0.6
    max_memories_per_user: int = Field(1000, ge=1, le=10**6)
    embedding_provider: Literal["", "local", "openai"] = ""
    embedding_model: Name = ""
    history_messages: int = Field(30, ge=10, le=100)
    history_step: int = Field(15, ge=1, le=29)
    summary_messages: int = Field(6, ge=2, le=100)
    summaries_shown: int = Field(3, ge=0, le=20)
    summaries_kept: int = Field(6, ge=1, le=100)
    strict_retrieve_limit: int = Field(10, ge=1, le=50)
    strict_react_limit: int = Field(3, ge=1, le=20)
    strict_max_iterations: int = Field(3, ge=0, le=10)
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
    message_retention_days: int = Field(0, ge=0, le=36_500)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.history_step >= self.history_messages:
            raise ValueError("history_step must be less than history_messages")
        if (self.embedding_provider == "openai") != bool(self.embedding_model):
            raise ValueError("embedding_model goes with embedding_provider openai, and only so")
        return self

    @property
    def embedding_name(self) -> str:
        """The embedding model as in ``EMBEDDING_MODEL``; empty when that one is meant."""
        if self.embedding_provider == "openai":
            return f"openai:{self.embedding_model}"
        return self.embedding_provider


NAMES = tuple(GlobalSettings.model_fields)

# The one row; its columns have the names of the fields.
SELECT_SETTINGS = "SELECT {columns} FROM global_settings WHERE id = 1".replace(
    "{columns}", ", ".join(NAMES)
)

# The same, locked.
LOCK_SETTINGS = SELECT_SETTINGS + " FOR UPDATE"

# A deleted row comes back with the defaults.
RESTORE_SETTINGS = "INSERT INTO global_settings DEFAULT VALUES ON CONFLICT DO NOTHING"

# All of it, whatever has changed; a trigger writes the history.
UPDATE_SETTINGS = "UPDATE global_settings SET {assignments} WHERE id = 1".replace(
    "{assignments}", ", ".join(f"{name} = %({name})s" for name in NAMES)
)

# Who changes it, for the history; until the transaction ends.
SET_ACTOR = "SELECT set_config('pomni.actor', %(actor)s, true)"


class GlobalSettingsRepository(Repository):
    """Reads the row, at most once in ``FRESH_SECONDS``, and changes it; the methods block."""

    def __init__(self, client: PgClient) -> None:
        """Nothing is read yet."""
        super().__init__(client)
        self._run = client.run
        self._lock = threading.Lock()
        self._settings = GlobalSettings()
        self._read_at = float("-inf")

    @property
    def last_known(self) -> GlobalSettings:
        """What ``get`` returned last, however old; the defaults before that."""
        return self._settings

    @property
    def _is_fresh(self) -> bool:
        """Whether ``get`` returns at once what is the last known."""
        return time.monotonic() - self._read_at <= FRESH_SECONDS

    async def fetch(self) -> GlobalSettings:
        """``get`` for coroutines; no thread is asked for what is fresh."""
        return self._settings if self._is_fresh else await self._run(self.get)

    def get(self) -> GlobalSettings:
        """The settings, at most a few seconds old; the defaults when the row was deleted."""
        with self._lock:
            if not self._is_fresh:
                self._settings = self._read(self._client.fetch_one(SELECT_SETTINGS))
                self._read_at = time.monotonic()
            return self._settings

    def refresh(self) -> GlobalSettings:
        """The settings as they are now."""
        self._read_at = float("-inf")
        return self.get()

    def change(
        self, actor: str, values: Mapping[str, Any], seen: Mapping[str, str] | None = None
    ) -> GlobalSettings:
        """Change some settings; every process reads them within ``FRESH_SECONDS``.

        Args:
            actor: Who changes them, for the history.
            values: By name; numbers may be texts, as a form sends them.
            seen: The values that are changed, as ``as_text``, so that no other is lost.

        Returns:
            All settings as they are afterwards.

        Raises:
            SettingsError: Something is not within its bounds; nothing was changed.
            SettingsConflictError: Something is not as it was seen; nothing was changed.
            StorageError: The database is away.
        """

        def work(transaction: Transaction) -> None:
            transaction.execute(RESTORE_SETTINGS)
            current = self._read(transaction.fetch_one(LOCK_SETTINGS)).model_dump()
            moved = [name for name, was in (seen or {}).items() if as_text(current[name]) != was]
            if moved:
                raise SettingsConflictError(moved)
            settings = check_settings({**current, **values})
            transaction.fetch_one(SET_ACTOR, actor=actor)
            transaction.execute(UPDATE_SETTINGS, settings.model_dump())

        self._client.in_transaction(work)
        return self.refresh()

    def _read(self, row: tuple[Any, ...] | None) -> GlobalSettings:
        """The settings of a row; what was known before when they make no sense."""
        if row is None:
            return GlobalSettings()
        try:
            return GlobalSettings.model_validate(dict(zip(NAMES, row, strict=True)))
        except ValidationError as error:
            logger.exception("global_settings cannot be read; the last ones stay", exc_info=error)
            return self._settings


def check_settings(values: Mapping[str, Any]) -> GlobalSettings:
    """The settings with these values, and the defaults.

    Raises:
        SettingsError: With what is wrong, by name.
    """
    try:
        return GlobalSettings.model_validate(values)
    except ValidationError as error:
        problems = {}
        for entry in error.errors():
            name = "".join(map(str, entry["loc"][:1]))
            message = entry["msg"].removeprefix("Value error, ")
            problems[name] = f"Write {describe_bounds(name)}" if name in NAMES else message
        raise SettingsError(problems) from error


def describe_bounds(name: str) -> str:
    """What a setting takes, such as ``a whole number from 1 to 168``."""
    field = GlobalSettings.model_fields[name]
    if field.annotation not in (int, float):
        choices = filter(None, get_args(field.annotation) or ("true", "false"))
        return field.description or f"one of {', '.join(choices)}"
    least, most = (
        next(getattr(mark, of) for mark in field.metadata if isinstance(mark, kind))
        for kind, of in ((Ge, "ge"), (Le, "le"))
    )
    number = "a whole number" if field.annotation is int else "a number"
    return f"{number} from {least:,} to {most:,}"


def as_text(value: object) -> str:
    """A setting's value as a form has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
