"""The provider that the operator chose, from the environment's keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import SecretStr

from src.base.errors import ModelSetupError
from src.base.providers import ProviderSettings, find_batch_provider
from src.llm.batch_anthropic import AnthropicProvider
from src.llm.batch_google import GoogleProvider
from src.llm.batch_openai import OpenAIProvider
from src.llm.batch_provider import LLMProvider

CLASSES: Mapping[str, Callable[[str, str | None], LLMProvider]] = {
    "openai": OpenAIProvider,
    "anthropic": AnthropicProvider,
    "google": GoogleProvider,
}


def get_llm_provider(name: str, settings: ProviderSettings) -> LLMProvider:
    """The provider called so in ``memory_extraction_provider``; nothing connects yet.

    Raises:
        ModelSetupError: Its key is missing, or there is none of this name.
    """
    provider = find_batch_provider(name)
    if provider is None or not provider.is_configured(settings):
        raise ModelSetupError(f"the batch provider {name} has no key")
    key: SecretStr | None = getattr(settings, provider.key_variable.lower())
    base_url: str | None = getattr(settings, provider.base_url_variable.lower())
    return CLASSES[name](key.get_secret_value() if key else "none", base_url)
