"""``.env``: the ways in which people write it, and what is said of lines that set nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from src.base.config import VARIABLES, Settings, load_settings
from src.base.env_file import find_intended
from src.base.errors import ConfigError
from tests.unit.settings_environment import load

KEY = "sk-CANARY-42"
EVERYBODY = "no setting has this name, so everybody could use the bot. ALLOWED_USER_IDS was "
EVERYBODY += "probably meant. Write Telegram user ids with commas: 1001,1002; "
EVERYBODY += "if it is another program's, start the bot without it"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is not there yet, and nothing of ours in the environment."""
    load(monkeypatch)
    return tmp_path / ".env"


def read(file: Path, content: str | bytes) -> Settings:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_settings(str(file))


def refused(file: Path, content: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(file, content)
    assert "CANARY" not in str(caught.value)
    return caught.value.problems


FORMS = {
    "plain": b"HTTP_PORT=9000\nTIMEZONE=Asia/Tokyo\n",
    "byte order mark": b"\xef\xbb\xbfHTTP_PORT=9000\nTIMEZONE=Asia/Tokyo\n",
    "Windows": b"HTTP_PORT=9000\r\nTIMEZONE=Asia/Tokyo\r\n",
    "quotes": b"HTTP_PORT='9000'\nTIMEZONE=\"Asia/Tokyo\"\n",
    "a shell's": b"export HTTP_PORT=9000\nexport TIMEZONE=Asia/Tokyo",
    "spaces": b"  HTTP_PORT = 9000  \n\n\tTIMEZONE= Asia/Tokyo # where they live\n",
    "lower case": b"http_port=9000\nTimeZone=Asia/Tokyo\n",
    "twice": b"HTTP_PORT=1\nTIMEZONE=Asia/Tokyo\nHTTP_PORT=9000\n",
    "once without a value": b"HTTP_PORT=9000\nTIMEZONE=Asia/Tokyo\nHTTP_PORT=\nTIMEZONE=''",
    "spaces in quotes": b"HTTP_PORT=' 9000 '\nTIMEZONE=\"Asia/Tokyo \"\nLOG_LEVEL='INFO '\n",
    "reference": b"CITY=Tokyo\nHTTP_PORT=9000\nTIMEZONE=Asia/${CITY}\n",
}  # fmt: skip


def test_every_form_of_the_file_is_read(file: Path) -> None:
    found = {form: read(file, content) for form, content in FORMS.items()}
    wrong = {
        form: (settings.http_port, settings.timezone, settings.warnings)
        for form, settings in found.items()
        if (settings.http_port, settings.timezone) != (9000, "Asia/Tokyo") or settings.warnings
    }
    assert wrong == {}


def test_an_empty_line_further_down_does_not_open_the_bot_to_everybody(file: Path) -> None:
    settings = read(file, "ALLOWED_USER_IDS=1001\n# from .env.example\nALLOWED_USER_IDS=\n")
    assert settings.allowed_user_ids == {1001}


def test_lines_that_set_nothing_are_one_line_without_their_text(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    [line] = refused(file, f"\n# fine\nALLOWED_USER_IDS: 1001\r\n\r\n{KEY}\nHTTP_PORT=1\nX='{KEY}")
    assert line == (
        f"{file}: lines 3, 5, 7 are not NAME=value. Write one variable a line, close what a quote "
        "opens, and begin comments with #"
    )
    assert refused(file, "ADMIN_PASSWORD hunter2-CANARY\nLOG_LEVEL=LOUD") == [
        line.replace("lines 3, 5, 7 are", "line 1 is"),
        "LOG_LEVEL: input should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'. "
        "Write DEBUG, INFO, WARNING or ERROR",
    ]
    assert "lines 1, 2, 3, 4, 5 and more are" in refused(file, "no\n" * 9)[0]
    assert capfd.readouterr() == ("", ""), "nothing is said beside"


def test_a_file_that_cannot_be_read_is_one_line(file: Path) -> None:
    found = [refused(file, "TIMEZONE=Цюрих".encode(name)) for name in ("cp1251", "utf-16")]
    assert found == [[f"{file}: it cannot be read. Save it as UTF-8 text"]] * 2
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigError, match=r"it cannot be read \(Is a directory\)\. Put a text"):
        load_settings(str(file))
    file.rmdir()
    file.symlink_to(file)
    with pytest.raises(ConfigError, match=r"\(Too many levels of symbolic links\)"):
        load_settings(str(file))


def test_a_name_that_would_have_limited_access_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [line] = refused(file, "ALLOWED_USERS=CANARY\n")
    assert line == f"ALLOWED_USERS: {EVERYBODY}"
    assert read(file, "ALLOWED_USERS=1\nALLOWED_USER_IDS=1\n").warnings == ()
    assert read(file, "ALLOWED_USERS=\n").warnings == (), "an empty one was not meant"
    [line] = refused(file, "\u0410LLOWED_USER_IDS=1\n")
    assert line.startswith("\\u0410LLOWED_USER_IDS: no setting "), "a Cyrillic letter is shown"
    file.unlink()
    monkeypatch.setenv("ALLOWED_USER_ID", "CANARY")
    with pytest.raises(ConfigError) as caught:
        load_settings(str(file))
    assert caught.value.problems == [f"ALLOWED_USER_ID: {EVERYBODY}"]
    monkeypatch.setenv("ALLOWED_USER_IDS", "1001")
    assert load_settings(str(file)).warnings == ()


def test_other_names_are_a_warning_and_stand_beside_what_is_refused(file: Path) -> None:
    warning = "OPENAI_KEY: no setting has this name. OPENAI_API_KEY was "
    warning += "probably meant"
    assert read(file, f"OPENAI_KEY={KEY}\n").warnings == (warning,)
    found = refused(file, f"LLM_MODEL=openai:gpt\nOPENAI_KEY={KEY}\nADMIN_USERS=CANARY\n")
    assert [line.partition(":")[0] for line in found] == [
        "OPENAI_API_KEY",
        "ADMIN_USERS",
        "OPENAI_KEY",
    ]
    assert found[2] == warning
    hook = "TELEGRAM_WEBHOOK_URL=https://bot.example.org/hook"
    lines = refused(file, f"{hook}\nTELEGRAM_WEBHOOK_SECRETS=CANARY\n")
    assert lines[0].startswith("TELEGRAM_WEBHOOK_SECRET: it is missing while")
    assert lines[1].endswith("TELEGRAM_WEBHOOK_SECRET was probably meant")


IDLE = [
    ("", {"PGHOST": "h", "PORT": "80"}), ("", {"TELEGRAM_TOKEN": ""}),
    ("GOOGLE_KEY=k\nGOOGLE_API_KEY=${GOOGLE_KEY}\n", {}),
    ("PG_DBS=x\nPG_USER=${PG_DBS}\n", {}),
]  # fmt: skip


@pytest.mark.parametrize(("content", "outside"), IDLE)
def test_what_would_change_nothing_is_not_warned_of(
    file: Path, monkeypatch: pytest.MonkeyPatch, content: str, outside: dict[str, str]
) -> None:
    for name, value in outside.items():
        monkeypatch.setenv(name, value)
    assert read(file, content).warnings == ()


def test_a_name_that_a_server_of_tools_uses_is_no_slip(file: Path) -> None:
    servers = file.with_name("servers.json")
    entry = {"command": "x", "env": {"K": "${TELEGRAM_WEBHOOK}"}, "disabled": True}
    servers.write_text(json.dumps({"mcpServers": {"a": entry}}))
    content = f"MCP_SERVERS={servers}\nTELEGRAM_WEBHOOK=https://h\nHTTP_PORTS=1\n"
    assert [line.partition(":")[0] for line in read(file, content).warnings] == ["HTTP_PORTS"]


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
