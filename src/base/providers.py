"""The providers of chat models: one record each, and its settings.

A new one needs a record, its two settings, their lines in ``.env.example``, and its package in a
``requirements-NAME.txt``. LangChain's ``init_chat_model`` makes its models; an API of its own that
OpenAI's clients speak needs none of this, but ``OPENAI_BASE_URL``.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from src.base.addresses import HttpUrl

# How names end that no public server has.
LOCAL_NAMES = (".local", ".localhost", ".lan", ".internal", ".home.arpa")


class ProviderSettings(BaseModel):
    """Each provider's key, and the address of another server that speaks its protocol."""

    openai_api_key: SecretStr | None = None
    openai_base_url: HttpUrl | None = None
    anthropic_api_key: SecretStr | None = None
    anthropic_base_url: HttpUrl | None = None
    google_api_key: SecretStr | None = None
    google_base_url: HttpUrl | None = None


@dataclass(frozen=True, kw_only=True)
class Provider:
    """What is particular to a provider; how its models count tokens, their names tell.

    Attributes:
        name: LangChain's name of it; in ``LLM_MODEL``, what stands before the colon.
        vendor: Begins its variables; in small letters its name in ``memory_extraction_provider``.
        default_model: Without ``LLM_MODEL``, where its key is the first that is set.
        options: What its LangChain class is made with, beside key, address and time-out.
        has_openai_client: Whether that class calls it through OpenAI's SDK, which we tune.
        takes_system_in_history: Whether a system message may stand between the others.
        no_tool: The ``tool_choice`` that keeps the model from calling any.
        log_levels: From which level on its libraries are heard in the log.
        prompt_cache: How it is made to keep what prompts begin with; see ``build_prompt_cache``.
        host: The end of the addresses where it is; another is a server of somebody's own.
    """

    name: str
    vendor: str
    default_model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    has_openai_client: bool = False
    takes_system_in_history: bool = False
    no_tool: str | Mapping[str, str] = "none"
    log_levels: Mapping[str, int] = field(default_factory=dict)
    prompt_cache: Literal["keyed", "marked", "stored"]
    host: str

    @property
    def key_variable(self) -> str:
        """The variable of its key."""
        return f"{self.vendor}_API_KEY"

    @property
    def base_url_variable(self) -> str:
        """The variable of another address."""
        return f"{self.vendor}_BASE_URL"

    def key(self, settings: ProviderSettings) -> SecretStr | None:
        """Its key, where the settings have one."""
        key: SecretStr | None = getattr(settings, self.key_variable.lower())
        return key

    def base_url(self, settings: ProviderSettings) -> str | None:
        """The address at which it is asked, where that is not its own."""
        address: str | None = getattr(settings, self.base_url_variable.lower())
        return address

    def is_asked_itself(self, settings: ProviderSettings) -> bool:
        """Whether the address that the settings name, if any, is the provider's own."""
        host = self._host(settings)
        return host is None or f".{host}".endswith(self.host)

    def is_near(self, settings: ProviderSettings) -> bool:
        """Whether that is a server in the operator's own network, whose calls cost no money."""
        host = self._host(settings) or "."
        with suppress(ValueError):
            return ip_address(host).is_private
        return "." not in host or host.endswith(LOCAL_NAMES)

    def _host(self, settings: ProviderSettings) -> str | None:
        return urlsplit(self.base_url(settings) or "").hostname

    def keeps_prompts(self, settings: ProviderSettings) -> bool:
        """Whether ``prompt_cache`` is understood there: other servers refuse OpenAI's key."""
        return self.prompt_cache != "keyed" or self.is_asked_itself(settings)

    def is_configured(self, settings: ProviderSettings) -> bool:
        """Whether there is a key, or the address of a server that wants none."""
        return self.key(settings) is not None or self.base_url(settings) is not None


# In the order in which their keys choose the model.
PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="openai",
            vendor="OPENAI",
            default_model="gpt-5-mini",
            prompt_cache="keyed",
            host=".api.openai.com",
            # Its own bound of the silence is below that of a slow server; see ``ModelCaller``.
            options={"stream_usage": True, "stream_chunk_timeout": None},
            has_openai_client=True,
            takes_system_in_history=True,
            log_levels={"openai": logging.WARNING},
        ),
        Provider(
            name="anthropic",
            vendor="ANTHROPIC",
            default_model="claude-haiku-4-5",
            prompt_cache="marked",
            host=".api.anthropic.com",
            no_tool={"type": "none"},  # LangChain takes any other text for the name of a tool
            log_levels={"anthropic": logging.WARNING},
        ),
        Provider(
            name="google_genai",
            vendor="GOOGLE",
            default_model="gemini-2.5-flash",
            prompt_cache="stored",
            host=".googleapis.com",
            log_levels={"google_genai": logging.WARNING, "langchain_google_genai": logging.ERROR},
        ),
    )
}


def find_provider(model: str) -> Provider | None:
    """The provider of ``provider:model``; None for the offline model, which has none."""
    return PROVIDERS.get(model.partition(":")[0])


def find_batch_provider(name: str) -> Provider | None:
    """The provider that ``memory_extraction_provider`` names; None for ``immediate``."""
    return next((p for p in PROVIDERS.values() if p.vendor.lower() == name), None)
