"""Which setting an operator means with a name that is none."""

from __future__ import annotations

from src.base.config import VARIABLES
from src.base.env_file import find_intended, find_strays

# What is understood, by the setting that is meant.
SLIPS = {
    "TELEGRAM_BOT_TOKEN": "TELEGRAM_TOKEN TELEGRAM_BOT_TOKENS TELEGARM_BOT_TOKEN "
    "TELEGRAM-BOT-TOKEN POMNI_TELEGRAM_BOT_TOKEN TelegramBotToken",
    "TELEGRAM_WEBHOOK_URL": "TELEGRAM_WEBHOOK TELEGRAM_WEBHOOK_URI",
    "TELEGRAM_WEBHOOK_SECRET": "TELEGRAM_WEBHOOK_SECRET_TOKEN",
    "ALLOWED_USER_IDS": "ALLOWED_USERS ALLOWED_USER_ID ALLOWED_USER ALOWED_USER_IDS "
    "ALLOW_USER_IDS ALLOWEDUSERIDS ALLOWED_USRE_IDS \u0410LLOWED_USER_IDS",
    "DATABASE_URL": "DATABASE_URI",
    "OPENAI_API_KEY": "OPENAI_KEY OPEN_AI_KEY OPENAI_APIKEY OPENAI_API_TOKEN OPENAI_API_KEYS "
    "OPENAPI_KEY",
    "ANTHROPIC_API_KEY": "ANTHROPIC_KEY ANTROPIC_API_KEY",
    "GOOGLE_API_KEY": "GOOGLE_KEY",
    "EMBEDDING_MODEL": "EMBEDDINGS_MODEL EMBEDDING_MODELS EMBED_MODEL",
    "LOG_LEVEL": "LOG_LVL",
}
# Variables of other programs, such as stand in the environment of a machine.
OF_OTHERS = """
PATH HOME LANG LANGUAGE LC_ALL LC_CTYPE LC_TIME PWD OLDPWD SHELL SHLVL TERM COLORTERM USER USERNAME
MANAGERPID LISTEN_FDS LS_COLORS PS1 IFS _ PYTHONPATH PYTHONUNBUFFERED PYTHON_VERSION PYTHONHASHSEED
PYTHON_SHA256 GPG_KEY PIP_INDEX_URL PIP_NO_CACHE_DIR VIRTUAL_ENV CONDA_PREFIX NODE_ENV NODE_OPTIONS
HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy HTTPS_PORT HTTPS_HOST
PGHOST PGHOSTADDR PGPORT PGUSER PGPASSWORD PGDATABASE PGDATA PGPASSFILE PGSERVICE PGSSLMODE PGTZ
PGOPTIONS PGAPPNAME PGCONNECT_TIMEOUT PGCLIENTENCODING PG_VERSION PG_MAJOR PSQLRC POSTGRES_PASSWORD
SHADOW_DATABASE_URL OPENAI_ORG_ID OPENAI_ORGANIZATION OPENAI_PROJECT OPENAI_PROJECT_ID OPENAI_PROXY
GOOGLE_CLOUD_PROJECT GOOGLE_CLOUD_LOCATION GOOGLE_CLOUD_REGION GOOGLE_GENAI_USE_VERTEXAI
GOOGLE_CHROME_BIN MISTRAL_API_KEY GROQ_API_KEY COHERE_API_KEY JINA_API_KEY VOYAGE_API_KEY
DEEPSEEK_API_KEY XAI_API_KEY OPENROUTER_API_KEY TOGETHER_API_KEY PERPLEXITY_API_KEY HF_TOKEN
OTEL_EXPORTER_OTLP_ENDPOINT TELEGRAM_API_ID TELEGRAM_API_HASH TELEGRAM_LOCAL TELEGRAM_CHAT_ID
TELEGRAM_TO SLACK_BOT_TOKEN SLACK_WEBHOOK_URL DISCORD_TOKEN DISCORD_BOT_TOKEN DISCORD_WEBHOOK_URL
KUBERNETES_PORT_443_TCP_ADDR DOCKER_HOST DOCKER_CONFIG COMPOSE_PROJECT_NAME COMPOSE_FILE
ALLOWED_HOSTS ALLOWED_ORIGINS CORS_ALLOWED_ORIGINS ALLOWED_EXTENSIONS ALLOWED_DOMAINS
TOKEN API_TOKEN API_KEY MODEL USERS USER_ID OWNER TIMEOUT BASE_URL APP_URL SERVER_NAME
"""
NEVER = [
    "POSTGRES_PASSWORD", "TZ", "TELEGRAM_API_HASH", "COMPOSE_FILE", "FTP_PROXY", "SENTRY_DSN",
    "MISTRAL_API_KEY", "SYSTEM_PROMPT", "", "ключ", "A" * 100_000,
]  # fmt: skip


def test_what_operators_write_by_mistake_is_understood() -> None:
    found = {
        name: find_intended(name, VARIABLES) for row in SLIPS.values() for name in row.split()
    }
    assert found == {name: meant for meant, row in SLIPS.items() for name in row.split()}


def test_a_slip_of_the_pen_in_any_setting_is_understood() -> None:
    lost = {
        slip: found
        for name in VARIABLES
        for at in range(len(name))
        for slip in (name[:at] + name[at + 1 :], name[:at] + "X" + name[at:])
        if len(name) > 7
        and slip not in VARIABLES
        and (found := find_intended(slip, VARIABLES)) not in (name, None)
    }
    assert lost == {}


def test_variables_of_other_programs_are_left_alone() -> None:
    found = {name: find_intended(name, VARIABLES) for name in (*OF_OTHERS.split(), *NEVER)}
    assert {name: meant for name, meant in found.items() if meant is not None} == {}


def test_settings_are_no_strays_and_what_is_set_is_not_missed() -> None:
    names = dict.fromkeys(["OPENAI_KEY", "openai_api_key", "timezone", "HTTP_PORT"], True)
    assert find_strays(names, VARIABLES) == []
    [stray] = find_strays({"OPENAI_KEY": False}, VARIABLES)
    assert (stray.name, stray.meant, stray.in_file) == ("OPENAI_KEY", "OPENAI_API_KEY", False)
