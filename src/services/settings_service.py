"""Changes the operator's settings: what the row's bounds cannot know is checked here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from src.config import Settings
from src.errors import SettingsError
from src.providers import PROVIDERS, Provider, find_batch_provider, find_provider
from src.storage.global_settings_repo import (
    GlobalSettings,
    GlobalSettingsRepository,
    SettingChange,
    check_settings,
)
from src.storage.pg_client import PgClient


class SettingsService:
    """Checks a change against the environment (keys, providers), and makes it."""

    def __init__(
        self, client: PgClient, stored: GlobalSettingsRepository, settings: Settings
    ) -> None:
        """Keys and addresses are in ``settings``, which do not change while the bot runs."""
        self._client = client
        self._repo = stored
        self._environment = settings

    async def get(self) -> GlobalSettings:
        """The settings as they are in the database now.

        Raises:
            StorageError: The database is away.
        """
        return await self._client.run(self._repo.refresh)

    async def change(self, actor: str, values: Mapping[str, Any]) -> GlobalSettings:
        """Change some settings; they are in force everywhere within seconds.

        Args:
            actor: Who changes them, for the history.
            values: By name; numbers may be texts, as a form sends them.

        Raises:
            SettingsError: With what is wrong, by name; nothing was changed.
            StorageError: The database is away.
        """
        current = await self.get()
        wanted = check_settings({**current.model_dump(), **values})
        if problems := self._find_problems(wanted, values.keys()):
            raise SettingsError(problems)
        return await self._client.run(self._repo.change, actor, dict(values))

    async def list_changes(self, *, limit: int = 100) -> list[SettingChange]:
        """What was changed by whom, newest first.

        Raises:
            StorageError: The database is away.
        """
        return await self._client.run(self._repo.list_changes, limit=limit)

    def _find_problems(self, wanted: GlobalSettings, changed: Any) -> dict[str, str]:
        """What the bot could not work with, among the settings that are changed."""
        problems = {
            "memory_extraction_provider": self._extraction_problem(wanted),
            "memory_extraction_model": _model_problem(wanted)
            or self._key_problem(find_provider(wanted.memory_extraction_model)),
            "embedding_provider": self._key_problem(find_provider(wanted.embedding_name)),
        }
        return {name: text for name, text in problems.items() if text and name in changed}

    def _extraction_problem(self, wanted: GlobalSettings) -> str:
        if wanted.memory_extraction_provider == "immediate":
            return ""
        return self._key_problem(find_batch_provider(wanted.memory_extraction_provider))

    def _key_problem(self, provider: Provider | None) -> str:
        """What is missing to call a provider; empty when nothing is, or none is called."""
        if provider is None or provider.is_configured(self._environment):
            return ""
        return f"{provider.key_variable} is not set: put it into .env and restart the bot"


def _model_problem(wanted: GlobalSettings) -> str:
    """Whether ``memory_extraction_model`` names a model of the right provider."""
    model, provider = wanted.memory_extraction_model, wanted.memory_extraction_provider
    if not model:
        return ""
    named = find_provider(model) if ":" in model else None
    if provider == "immediate":
        names = ", ".join(PROVIDERS)
        return "" if named else f"write provider:model, with one of the providers {names}"
    if named is not None and named != find_batch_provider(provider):
        return f"it is not a model of {provider}"
    return ""
