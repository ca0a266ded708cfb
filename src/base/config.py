"""Settings: the only module that reads the environment and ``.env``.

``load_settings()`` returns a frozen :class:`Settings` or raises :class:`ConfigError` with one line
for each missing or malformed variable.
"""

import os
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import pytz
from psycopg.conninfo import make_conninfo
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
)

from src.base import addresses, mcp_file
from src.base.env_file import EnvFile, find_remedy, find_strays, read_env_file
from src.base.errors import ConfigError
from src.base.logs import redact_text
from src.base.providers import PROVIDERS, ProviderSettings, find_lines, find_provider

ENV_FILE = ".env"
OFFLINE_MODEL = "offline"
LOCAL_EMBEDDINGS = "local"
FIRST_TOKEN_SECONDS = 300.0  # for a self-hosted server, which may read a prompt for minutes


def _read_time_zone(name: str) -> str:
    """Return the zone that ``/settings`` would choose for a name; refuse an ambiguous name."""
    if name in pytz.all_timezones_set:
        return name
    from src.base.zones import find_time_zones  # with all of the lexicon

    zones = find_time_zones(name)
    if not zones:
        raise ValueError("it is not the name of a time zone")
    if len(zones) > 1:
        raise ValueError(f"it may be {', '.join(zones)}")
    return zones[0]


def _checked(find_problem: Callable[[str], str | None]) -> AfterValidator:
    def check(value: SecretStr) -> SecretStr:
        problem = find_problem(value.get_secret_value())
        if problem is not None:
            raise ValueError(problem)
        return value

    return AfterValidator(check)


def _matching(pattern: str, problem: str) -> AfterValidator:
    return _checked(lambda value: None if re.fullmatch(pattern, value, re.DOTALL) else problem)


def _model_matching(pattern: str, problem: str) -> AfterValidator:
    def check(value: str, info: ValidationInfo) -> str:
        if re.fullmatch(pattern, value):
            return value
        lines = find_lines(str(info.field_name).upper(), value)
        if not any(re.fullmatch(pattern, line.partition("=")[2]) for line in lines):
            raise ValueError(problem)
        raise ValueError(f"{problem}. Write the lines {redact_text(' and '.join(lines))}")

    return AfterValidator(check)


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return re.findall(r"[^,;\s]+", value)
    return value


Token = Annotated[
    SecretStr,
    BeforeValidator(addresses.clean_copied),
    _matching(r"\d+:[\w-]+", "it does not look like 123456:ABC-def"),
]
WebhookSecret = Annotated[
    SecretStr,
    _matching("[A-Za-z0-9_-]{1,256}", "only A-Z a-z 0-9 _ - are allowed, 1 to 256 of them"),
]
AdminPassword = Annotated[SecretStr, _matching(".{10,}", "it is shorter than 10 characters")]
ModelName = Annotated[
    str,
    BeforeValidator(addresses.clean_copied),
    _model_matching(f"{OFFLINE_MODEL}:?|({'|'.join(PROVIDERS)}):.+", "it is not provider:model"),
]
EmbeddingName = Annotated[
    str,
    BeforeValidator(addresses.clean_copied),
    _model_matching(f"{LOCAL_EMBEDDINGS}|openai:.+", "it is neither local nor openai:model"),
]
UserIds = Annotated[frozenset[int], BeforeValidator(_split)]
Networks = Annotated[
    tuple[str, ...], BeforeValidator(_split), AfterValidator(addresses.parse_networks)
]
Port = Annotated[int, Field(ge=0, le=65535)]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
Streaming = Literal["edits", "drafts", "off"]  # how an answer grows


MAX_PERSONA = 4000  # characters; it is sent with every message


def _read_persona(value: str) -> str:
    """Return the text, or the contents of the file named by ``@path``."""
    text = value.strip()
    if text.startswith("@"):
        try:
            with Path(text[1:]).expanduser().open(encoding="utf-8-sig") as file:
                text = file.read(MAX_PERSONA + 1).strip()
        except (OSError, ValueError):
            raise ValueError("the file cannot be read as a text in UTF-8") from None
    if len(text) > MAX_PERSONA:
        raise ValueError(f"it is longer than {MAX_PERSONA} characters")
    return text


def _read_folder(value: Path) -> Path:
    try:
        return Path(os.path.expandvars(value)).expanduser()
    except RuntimeError:
        raise ValueError("this machine has no user of that name") from None


class TelegramSettings(BaseModel):
    """The bot in Telegram, and who may use it."""

    telegram_bot_token: Token | None = None
    telegram_api_base: addresses.HttpUrl = "https://api.telegram.org"
    telegram_webhook_url: addresses.HttpsUrl | None = None
    telegram_webhook_secret: WebhookSecret | None = None
    telegram_rate_limit: Annotated[int, Field(ge=1, le=1000)] = 30
    streaming: Streaming = "edits"
    allowed_user_ids: UserIds = frozenset()
    admin_user_ids: UserIds = frozenset()

    @property
    def bot_id(self) -> int | None:
        """User id of the bot: the number before the colon of its token."""
        if self.telegram_bot_token is None:
            return None
        return int(self.telegram_bot_token.get_secret_value().partition(":")[0])


class DatabaseSettings(BaseModel):
    """The database, and the folder of the embedded one."""

    database_url: Annotated[SecretStr, _checked(addresses.find_url_problem)] | None = None
    pg_host: str | None = None
    pg_port: Port | None = None
    pg_db: str | None = None
    pg_user: str | None = None
    pg_password: SecretStr | None = None
    pg_pool_min: Annotated[int, Field(ge=1, le=100)] = 1
    pg_pool_max: Annotated[int, Field(ge=1, le=100)] = 10
    data_dir: Annotated[Path, AfterValidator(_read_folder)] = Path("data")

    @property
    def uses_embedded_database(self) -> bool:
        """True if no database is configured, so that the embedded PostgreSQL is used."""
        pg_fields = (self.pg_host, self.pg_port, self.pg_db, self.pg_user, self.pg_password)
        return self.database_url is None and all(field is None for field in pg_fields)

    @property
    def database_dsn(self) -> str | None:
        """Connection string of the configured database; None with the embedded one."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        if self.uses_embedded_database:
            return None
        return make_conninfo(
            host=self.pg_host or "localhost",
            port=self.pg_port or 5432,
            dbname=self.pg_db or "ai_db",
            user=self.pg_user or "postgres",
            password=self.pg_password.get_secret_value() if self.pg_password else None,
        )


class ModelSettings(ProviderSettings):
    """The models; their providers' keys and addresses are in ``src/base/providers.py``."""

    llm_model: ModelName | None = None
    summary_model: ModelName | None = None
    extraction_model: ModelName | None = None
    llm_context_size: Annotated[int, Field(ge=1024)] = 128_000
    llm_timeout: Annotated[float, Field(gt=0, le=3600)] = 60.0
    llm_calls: Literal["auto", "tools", "form"] = "auto"
    llm_first_token_timeout: Annotated[float, Field(gt=0, le=900)] | None = None
    embedding_model: EmbeddingName = LOCAL_EMBEDDINGS
    vision_model: ModelName | None = None

    @property
    def chat_model_name(self) -> str:
        """``LLM_MODEL``, else the default of the first provider with a key, else ``offline``."""
        usable = (provider for provider in PROVIDERS.values() if provider.key(self))
        defaults = (f"{provider.name}:{provider.default_model}" for provider in usable)
        return self.llm_model or next(defaults, OFFLINE_MODEL)

    def is_own_server(self, model: str) -> bool:
        """Return True if ``provider:model`` is called at another address than the provider's."""
        provider = find_provider(model)
        return provider is not None and not provider.uses_own_address(self)

    def first_token_timeout(self, model: str) -> float:
        """Return the seconds that ``provider:model`` may take to read a prompt."""
        if self.llm_first_token_timeout is not None:
            return self.llm_first_token_timeout
        if self.is_own_server(model):
            return max(self.llm_timeout, FIRST_TOKEN_SECONDS)
        return self.llm_timeout


class ServiceSettings(BaseModel):
    """Services beside the chat models: transcription, reranking, tools of MCP servers."""

    transcription_model: str | None = None
    transcription_base_url: addresses.HttpUrl | None = None
    transcription_api_key: addresses.Key = None
    rerank_url: addresses.HttpUrl | None = None
    rerank_model: str | None = None
    rerank_api_key: addresses.Key = None
    mcp_servers: Path | None = None
    memory_server: bool = False


class TalkSettings(BaseModel):
    """Persona, and the time zone of those who have not chosen one."""

    persona: Annotated[str, AfterValidator(_read_persona)] = ""
    timezone: Annotated[str, AfterValidator(_read_time_zone)] = "Europe/Moscow"


class WebSettings(BaseModel):
    """The web server and the admin page."""

    http_host: str = "127.0.0.1"
    http_port: Port = 8080
    public_url: addresses.HttpsUrl | None = None
    trusted_proxies: Networks = ()
    admin_password: AdminPassword | None = None
    admin_reader_password: AdminPassword | None = None


class Settings(
    WebSettings,
    TalkSettings,
    ServiceSettings,
    ModelSettings,
    DatabaseSettings,
    TelegramSettings,
    ProviderSettings,
):
    """Every setting, read once at start and never changed; those of the process are here.

    Each field is named like its variable in lower case; ``.env.example`` documents them. A base
    holds the settings of one subject; proxies are in ``addresses.py``.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    log_level: Annotated[LogLevel, BeforeValidator(str.upper)] = "INFO"
    worker_concurrency: Annotated[int, Field(ge=1, le=1000)] = 32
    shutdown_timeout: Annotated[float, Field(ge=0, le=600)] = 20.0
    gather_seconds: Annotated[float, Field(ge=0, le=10)] = 1.0
    console_fallback: bool = True

    _servers: tuple[mcp_file.McpServer, ...] = ()
    _warnings: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Suspicious variables, one line each: ``NAME: problem. Remedy``."""
        return self._warnings

    @property
    def servers(self) -> tuple[mcp_file.McpServer, ...]:
        """MCP servers read from the file ``mcp_servers``."""
        return self._servers

    @property
    def is_open_and_paid(self) -> bool:
        """True if every user of Telegram may spend the operator's money on the model."""
        provider = find_provider(self.chat_model_name)
        is_open = self.telegram_bot_token is not None and not self.allowed_user_ids
        return is_open and provider is not None and not provider.is_near(self)

    @property
    def base_url(self) -> str | None:
        """Public address of the HTTP port, or None: ``PUBLIC_URL``, else the webhook's origin."""
        if self.public_url or not self.telegram_webhook_url:
            return self.public_url
        scheme, host, *_ = urlsplit(self.telegram_webhook_url)
        return f"{scheme}://{host}"

    @property
    def app_url(self) -> str | None:
        """Address of the Mini App; None if it has no public address."""
        return None if self.base_url is None else f"{self.base_url}/app/"

    @property
    def page_url(self) -> str | None:
        """Address of the same page outside Telegram; None without ``PUBLIC_URL``."""
        return None if self.public_url is None else f"{self.public_url}/app/page"

    @property
    def memory_server_url(self) -> str | None:
        """Address of the MCP server of the memory; None if it is off."""
        if not self.memory_server:
            return None
        host = self.http_host.replace("0.0.0.0", "localhost")  # of containers
        return f"{self.base_url or f'http://{host}:{self.http_port}'}/mcp"

    def secrets(self) -> list[str]:
        """Return all secret values that are set, for the log to redact."""
        values = [value for _, value in self if isinstance(value, SecretStr) and len(value) >= 6]
        own = [value.get_secret_value() for value in values]
        own += self.proxy_passwords()
        return own + [secret for server in self.servers for secret in server.secrets]


MODELS = ("LLM_MODEL", "SUMMARY_MODEL", "EXTRACTION_MODEL", "VISION_MODEL", "EMBEDDING_MODEL")
VARIABLES = frozenset(name.upper() for name in Settings.model_fields)
# Without these everyone may use the bot. ADMIN_USER_IDS only grants more rights, and without
# TELEGRAM_WEBHOOK_SECRET or ADMIN_PASSWORD there is no webhook and no admin page.
LIMITS = frozenset({"ALLOWED_USER_IDS"})


def load_settings(env_file: str | None = ENV_FILE) -> Settings:
    """Read the environment and ``env_file``; the environment takes precedence.

    Raises:
        ConfigError: Variables are missing or malformed; it has one line for each.
    """
    file = read_env_file(Path(env_file)) if env_file else EnvFile()
    problems = list(file.problems)
    # Docker's --env-file leaves the line ends of Windows in the values.
    outside = {name: text.strip() for name, text in os.environ.items() if text.strip()}
    written = [*file.values.items(), *outside.items()]
    fields: dict[str, Any] = {name.lower(): text for name, text in written}
    try:
        settings = Settings(**fields)
        problems += _check_consistency(settings)
    except ValidationError as error:
        problems += [_describe(entry) for entry in error.errors()]
        malformed = {str(entry["loc"][0]) for entry in error.errors()}
        settings = Settings(**{name: fields[name] for name in fields.keys() - malformed})
    used = file.references
    if settings.mcp_servers is not None:
        variables = {**file.values, **os.environ}
        settings._servers, server_problems = mcp_file.read_servers(settings.mcp_servers, variables)
        problems += server_problems
        used |= mcp_file.find_references(settings.mcp_servers)
    strays = find_strays(outside.keys() | file.values.keys(), VARIABLES)
    strays = {name: meant for name, meant in strays.items() if name not in used}
    settings._warnings = tuple(_describe_stray(name, meant) for name, meant in strays.items())
    if problems or LIMITS & {*strays.values()}:
        first: dict[str, str] = {}  # by variable: its other problems follow from the first
        for problem in (*problems, *settings.warnings):
            first.setdefault(problem.partition(":")[0], problem)
        raise ConfigError(list(first.values()))
    return settings


def terminal_locales() -> tuple[str, ...]:
    """Return the names of the terminal's locales, in gettext's order; none in the C locale."""
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    locale = next((os.environ[name] for name in names if os.environ.get(name)), "C")
    if locale.partition(".")[0] in ("C", "POSIX"):
        return ()
    return (*os.environ.get("LANGUAGE", "").split(":"), locale)


SHARED_PROXIES = frozenset({"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"})


def hide_shared_proxies() -> None:
    """Remove the shared proxies from the environment once the settings are read.

    Each library of a provider has a rule of its own for them, which only some let us turn off.
    """
    for name in [name for name in os.environ if name.upper() in SHARED_PROXIES]:
        del os.environ[name]


def _describe(entry: Any) -> str:
    name = str(entry["loc"][0]).upper()
    message = str(entry["msg"]).removeprefix("Value error, ").rstrip(".")
    message = message[:1].lower() + message[1:]
    if ". " in message:  # with its own remedy
        return f"{name}: {message}"
    return f"{name}: {message}. {find_remedy(name)}"


def _describe_stray(name: str, meant: str) -> str:
    what, hint = f"{ascii(name)[1:-1]}: no setting has this name", f"{meant} was probably meant"
    if meant not in LIMITS:
        return f"{what}. {hint}"
    remedy = f"{find_remedy(meant)}; if it is another program's, start the bot without it"
    return f"{what}, so everybody could use the bot. {hint}. {remedy}"


def _check_consistency(settings: Settings) -> list[str]:
    problems = {}
    if settings.telegram_webhook_url and not settings.telegram_webhook_secret:
        problems["TELEGRAM_WEBHOOK_SECRET"] = (
            "it is missing while TELEGRAM_WEBHOOK_URL is set, so anyone could forge updates"
        )
    if settings.pg_pool_min > settings.pg_pool_max:
        problems["PG_POOL_MIN"] = "it is more than PG_POOL_MAX"
    reader, operator = settings.admin_reader_password, settings.admin_password
    if reader and operator is None:
        problems["ADMIN_PASSWORD"] = "it is missing while ADMIN_READER_PASSWORD is set"
    if reader and reader == operator:
        problems["ADMIN_READER_PASSWORD"] = "it is that of the operators"
    described = [f"{name}: {text}. {find_remedy(name)}" for name, text in problems.items()]
    return [*described, *_check_providers(settings)]


def _check_providers(settings: Settings) -> list[str]:
    """Return the models' problems: a missing key (or address of a server without one), or package.

    requirements.txt contains OpenAI's package only; the other providers have files of their own.
    """
    models = {variable: getattr(settings, variable.lower()) or "" for variable in MODELS}
    by_key = find_provider(settings.chat_model_name)
    if settings.llm_model is None and by_key is not None:
        models[by_key.key_variable] = settings.chat_model_name
    problems = []
    for variable, model in models.items():
        provider = find_provider(model)
        if provider is not None and not provider.is_configured(settings):
            problems.append(
                f"{provider.key_variable}: it is missing while {variable} is {provider.name}:…. "
                f"Write your key, or set {provider.base_url_variable} for a server that needs none"
            )
        if provider is not None and find_spec(f"langchain_{provider.name}") is None:
            requirements = f"requirements-{provider.name.partition('_')[0]}.lock"
            problems.append(
                f"{variable}: {provider.name}:… needs a package that is not installed. "
                f"Run: .venv/bin/pip install -r {requirements}"
            )
    return problems
