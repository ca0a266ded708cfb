"""Registry of chat model providers, and their settings.

A new provider needs a record here, two settings, their lines in ``.env.example``, and its package
in a ``requirements-NAME.txt``. LangChain's ``init_chat_model`` builds its models. An
OpenAI-compatible API needs nothing but ``OPENAI_BASE_URL``.
"""

import logging
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from src.base.addresses import HttpUrl, Key, ProxySettings

# Suffixes of host names that no public server has.
LOCAL_NAMES = (".local", ".localhost", ".lan", ".internal", ".home.arpa")


class ProviderSettings(ProxySettings):
    """Key of each provider, the address of another server with the same API, and the way there."""

    openai_api_key: Key = None
    openai_base_url: HttpUrl | None = None
    anthropic_api_key: Key = None
    anthropic_base_url: HttpUrl | None = None
    google_api_key: Key = None
    google_base_url: HttpUrl | None = None


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Properties of a provider; tokenizers depend on the model's name instead.

    Attributes:
        name: LangChain's name for it; the part before the colon in ``LLM_MODEL``.
        vendor: Prefix of its variables; in lower case, its name in ``memory_extraction_provider``.
        default_model: Used without ``LLM_MODEL``, if its key is the first one set.
        options: Arguments of its LangChain class, besides key, address and timeout.
        has_openai_client: True if that class uses OpenAI's SDK, which we tune.
        takes_system_in_history: True if a system message may follow other messages.
        no_tool: The ``tool_choice`` that forbids tool calls.
        log_levels: Least log level of each of its libraries.
        prompt_cache: Kind of prompt cache; see ``build_prompt_cache``.
        address: Where its SDK calls it by default.
        host: Suffix of its host names; any other host is a self-hosted server.
        proxy_option: Argument of its LangChain class for a proxy; None if it has none for all.
    """

    name: str
    vendor: str
    default_model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    has_openai_client: bool = False
    takes_system_in_history: bool = False
    no_tool: str | Mapping[str, str] = "none"
    log_levels: Mapping[str, int] = field(default_factory=dict)
    prompt_cache: Literal["keyed", "marked", "automatic"]
    address: str
    host: str
    proxy_option: str | None = None

    @property
    def key_variable(self) -> str:
        """Environment variable of its key."""
        return f"{self.vendor}_API_KEY"

    @property
    def base_url_variable(self) -> str:
        """Environment variable of its address."""
        return f"{self.vendor}_BASE_URL"

    def key(self, settings: ProviderSettings) -> Key:
        """Return its key, if set."""
        key: Key = getattr(settings, self.key_variable.lower())
        return key

    def secret(self, settings: ProviderSettings) -> SecretStr:
        """Return its key; ``none`` without one: a local server needs none, but its SDK does."""
        return self.key(settings) or SecretStr("none")

    def base_url(self, settings: ProviderSettings) -> str | None:
        """Return the address to call, if other than its own."""
        address: str | None = getattr(settings, self.base_url_variable.lower())
        return address

    def proxy(self, settings: ProviderSettings) -> str | None:
        """Return the proxy, with its login, that leads to it; None: direct."""
        return settings.model_proxy_to(self.base_url(settings) or self.address)

    def uses_own_address(self, settings: ProviderSettings) -> bool:
        """Return True if requests go to the provider's own address."""
        host = self._host(settings)
        return host is None or f".{host}".endswith(self.host)

    def is_near(self, settings: ProviderSettings) -> bool:
        """Return True if requests go to the operator's own network, where they cost no money."""
        host = self._host(settings) or "."
        with suppress(ValueError):
            return ip_address(host).is_private
        return "." not in host or host.endswith(LOCAL_NAMES)

    def _host(self, settings: ProviderSettings) -> str | None:
        return urlsplit(self.base_url(settings) or "").hostname

    def keeps_prompts(self, settings: ProviderSettings) -> bool:
        """Return True if ``prompt_cache`` works there: other servers refuse OpenAI's key."""
        return self.prompt_cache != "keyed" or self.uses_own_address(settings)

    def is_configured(self, settings: ProviderSettings) -> bool:
        """Return True if there is a key, or the address of a server that needs none."""
        return self.key(settings) is not None or self.base_url(settings) is not None


# In the order in which keys are tried to choose the default model.
PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            name="openai",
            vendor="OPENAI",
            default_model="gpt-5-mini",
            prompt_cache="keyed",
            address="https://api.openai.com/v1",
            host=".api.openai.com",
            proxy_option="openai_proxy",
            # Its own limit is too short for slow servers; ``ModelCaller`` has one of its own.
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
            address="https://api.anthropic.com",
            host=".api.anthropic.com",
            proxy_option="anthropic_proxy",
            no_tool={"type": "none"},  # LangChain reads any other string as a tool's name
            log_levels={"anthropic": logging.WARNING},
        ),
        Provider(
            name="google_genai",
            vendor="GOOGLE",
            default_model="gemini-2.5-flash",
            prompt_cache="automatic",
            address="https://generativelanguage.googleapis.com",
            host=".googleapis.com",
            log_levels={"google_genai": logging.WARNING, "langchain_google_genai": logging.ERROR},
        ),
    )
}


def find_provider(model: str) -> Provider | None:
    """Return the provider of ``provider:model``; None for the offline model, which has none."""
    return PROVIDERS.get(model.partition(":")[0])


def find_batch_provider(name: str) -> Provider | None:
    """Return the provider named in ``memory_extraction_provider``; None for ``immediate``."""
    return next((p for p in PROVIDERS.values() if p.vendor.lower() == name), None)


SERVERS = Path(__file__).with_name("servers.toml")


def find_lines(variable: str, value: str) -> list[str]:
    """Return the lines of ``.env`` that say what a model's name in another form means, if any.

    Args:
        variable: Name of the setting.
        value: What it is set to, such as ``ollama:qwen2.5:7b``.
    """
    for server in tomllib.loads(SERVERS.read_text("utf-8")).values():
        pattern = server["clue"].replace("<MODEL>", r"([\w.:/@+-]{1,100})")
        found = re.fullmatch(pattern, value.strip(), re.IGNORECASE)
        if found is not None:
            provider, url = PROVIDERS[server.get("provider", "openai")], server.get("url", "")
            lines = [f"{variable}={provider.name}:{found[found.lastindex or 0]}"]
            if url:
                lines.append(f"{provider.base_url_variable}={url}")
            if not url.startswith("http:"):
                lines.append(f"{provider.key_variable}=your key")
            return lines
    return []
