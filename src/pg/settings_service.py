"""Changes of the operator's settings while the bot runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from src.base import config, errors
from src.base.providers import PROVIDERS, Provider, find_batch_provider, find_provider
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettings, GlobalSettingsRepository, check_settings


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
        problems = self._find_problems(proposed, values.keys())
        if problems:
            raise errors.SettingsError(problems)
        return await self._client.run(self._repo.change, actor, values, seen)

    def _find_problems(self, proposed: GlobalSettings, changed: Any) -> dict[str, str]:
        problems = {
            "memory_extraction_provider": self._key_problem(
                find_batch_provider(proposed.memory_extraction_provider)
            ),
            "memory_extraction_model": _model_problem(proposed)
            or self._key_problem(find_provider(proposed.memory_extraction_model)),
            "embedding_provider": self._key_problem(find_provider(proposed.embedding_name)),
        }
        return {name: text for name, text in problems.items() if text and name in changed}

    def _key_problem(self, provider: Provider | None) -> str:
        """Return what is missing to call a provider; empty if nothing is, or none is called."""
        if provider is None or provider.is_configured(self._environment):
            return ""
        return f"{provider.key_variable} is not set: put it into .env and restart the bot"


def _model_problem(proposed: GlobalSettings) -> str:
    model, provider = proposed.memory_extraction_model, proposed.memory_extraction_provider
    if not model:
        return ""
    model_provider = find_provider(model) if ":" in model else None
    if provider == "immediate" and model_provider is None:
        return f"write provider:model, with one of the providers {', '.join(PROVIDERS)}"
    if provider == "immediate":
        return ""
    if model_provider is not None and model_provider != find_batch_provider(provider):
        return f"it is not a model of {provider}"
    return ""
