"""Settings: what is accepted, what is refused and how, and what never shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from src.base.config import Settings, load_settings, terminal_locales
from src.base.providers import PROVIDERS
from src.texts import choose_language
from tests.unit.settings_environment import load, problems

ROOT = Path(__file__).resolve().parents[3]

BAD = [
    ("TELEGRAM_BOT_TOKEN", "no-colon"), ("TELEGRAM_API_BASE", "api.telegram.org"),
    ("TELEGRAM_WEBHOOK_SECRET", "with space"), ("STREAMING", "typing"),
    ("ALLOWED_USER_IDS", "@anna,@boris"), ("ADMIN_USER_IDS", "1001,boss"), ("PG_PORT", "70000"),
    ("PG_POOL_MIN", "0"), ("PG_POOL_MAX", "many"), ("LLM_MODEL", "gpt-5-mini"),
    ("SUMMARY_MODEL", "nobody:model"), ("LLM_TIMEOUT", "0"),
    ("OPENAI_BASE_URL", "http://localhost:99999/v1"),
    ("EMBEDDING_MODEL", "text-embedding-3-small"), ("RERANK_URL", "rerank"),
    ("TIMEZONE", "Mars/Olympus"), ("HTTP_PORT", "-1"), ("LOG_LEVEL", "LOUD"),
    ("GATHER_SECONDS", "11"), ("CONSOLE_FALLBACK", "maybe"),
    ("PUBLIC_URL", "http://bot.example.org"), ("TRUSTED_PROXIES", "10.0.0.0/33"),
    ("ADMIN_PASSWORD", "short"), ("MODEL_PROXY", "socks4://h:1080"), ("HTTP_PROXY", "http://"),
    ("ALL_PROXY", "ftp://h"), ("DATA_DIR", "~nobody-of-this-name/data"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_variable_is_one_line_that_names_it(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    [line] = problems(monkeypatch, **{name: value})
    assert line.startswith(f"{name}: ") and "\n" not in line
    assert line.count(". ") >= 1, "a line says what is wrong, then how to mend it"
    assert "value error" not in line.lower()


def test_valid_forms_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(
        monkeypatch,
        TELEGRAM_BOT_TOKEN="123456:ABC-def_1",
        TELEGRAM_API_BASE="http://localhost:8081/",
        ALLOWED_USER_IDS=" 1001, 1002;-1001234567890 ",
        ADMIN_USER_IDS="7",
        LLM_MODEL="offline",
        OPENAI_API_KEY="",
        TIMEZONE="Europe/Kyiv",
        HTTP_PORT="0",
        LOG_LEVEL="debug",
        CONSOLE_FALLBACK="false",
        TRUSTED_PROXIES="127.0.0.1 10.1.2.3/8,fd00::/8",
    )
    assert settings.bot_id == 123456
    assert settings.telegram_api_base == "http://localhost:8081"
    assert settings.allowed_user_ids == {1001, 1002, -1001234567890}
    assert settings.admin_user_ids == {7}
    assert settings.trusted_proxies == ("127.0.0.1/32", "10.0.0.0/8", "fd00::/8")
    assert settings.openai_api_key is None, "an empty variable is an absent one"
    assert (settings.timezone, settings.http_port) == ("Europe/Kyiv", 0)
    assert (settings.log_level, settings.console_fallback) == ("DEBUG", False)


@pytest.mark.parametrize(("variables", "expected"), [
    ({}, "en"), ({"LANG": ""}, "en"), ({"LANG": "C.UTF-8", "LANGUAGE": "uk"}, "en"),
    ({"LANG": "uk_UA.UTF-8"}, "uk"),
    ({"LANG": "uk_UA.UTF-8", "LC_MESSAGES": "ru_RU.KOI8-R"}, "ru"),
    ({"LANG": "uk_UA", "LC_MESSAGES": "ru_RU", "LC_ALL": "en_GB"}, "en"),
    ({"LANG": "ru_RU", "LANGUAGE": "de:uk_UA:ru"}, "uk"), ({"LANG": "ru@cyrillic"}, "ru"),
    ({"LC_CTYPE": "ru_RU.UTF-8"}, "en"), ({"LANG": "be_BY.UTF-8"}, "ru"),
])  # fmt: skip
def test_a_terminal_has_the_language_that_gettext_would_choose(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LC_CTYPE", "LANG", "LANGUAGE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert choose_language(*terminal_locales()) == expected


def test_what_copying_and_shells_add_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    settings = load(
        monkeypatch,
        LLM_MODEL="“openai: gpt-5-mini”\r",
        OPENAI_API_KEY="sk-key\r",
        DATABASE_URL="postgresql://u:p@h/db \r",
        PUBLIC_URL="https://bot.example.org/ ",
        HTTP_HOST=" ",
        LOG_LEVEL="debug\r",
        DATA_DIR="$HOME/pomni",
    )
    assert (settings.llm_model, settings.log_level) == ("openai:gpt-5-mini", "DEBUG")
    assert settings.database_dsn == "postgresql://u:p@h/db"
    assert settings.public_url == "https://bot.example.org"
    assert settings.http_host == "127.0.0.1"
    assert settings.data_dir == Path("/home/ann/pomni")
    assert load(monkeypatch, DATA_DIR="~/data").data_dir == Path("/home/ann/data")


def test_nothing_set_is_a_valid_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch)
    assert settings.uses_embedded_database and settings.database_dsn is None
    assert settings.chat_model_name == "offline" and settings.bot_id is None
    assert settings.timezone == "Europe/Moscow" and settings.secrets() == []


def test_the_zone_is_named_as_in_the_settings_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {
        "Kiev": "Europe/Kyiv", "kyiv": "Europe/Kyiv", "Киев": "Europe/Kyiv", "київ": "Europe/Kyiv",
        "Europe/Kiev": "Europe/Kiev", "europe/kyiv": "Europe/Kyiv", "Prague": "Europe/Prague",
        "UTC+2": "Etc/GMT-2", "+03:00": "Etc/GMT-3", "UTC": "UTC", "мск": "Europe/Moscow",
    }  # fmt: skip
    assert {name: load(monkeypatch, TIMEZONE=name).timezone for name in named} == named
    [line] = problems(monkeypatch, TIMEZONE="Valencia")
    assert line == (
        "TIMEZONE: it may be America/Caracas, Europe/Madrid. "
        "Write a name from the tz database, such as Europe/Moscow, a city or UTC+3"
    )


def test_the_first_key_that_is_set_chooses_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {
        "GOOGLE_API_KEY": "google_genai:",
        "ANTHROPIC_API_KEY": "anthropic:",
        "OPENAI_API_KEY": "openai:",
    }
    keys: dict[str, str] = {}
    for variable, provider in expected.items():  # each beats those before it
        keys[variable] = "some-key"
        assert load(monkeypatch, **keys).chat_model_name.startswith(provider)
    assert load(monkeypatch, **keys, LLM_MODEL="offline").chat_model_name == "offline"


def test_a_provider_without_package_says_how_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_anthropic", None)  # as if not installed
    monkeypatch.setitem(sys.modules, "langchain_google_genai", None)
    [line] = problems(monkeypatch, LLM_MODEL="anthropic:claude", ANTHROPIC_API_KEY="key-key")
    assert line.startswith("LLM_MODEL: anthropic:… needs a package")
    assert line.endswith("pip install -r requirements-anthropic.lock")
    for provider in ("ANTHROPIC", "GOOGLE"):
        [line] = problems(monkeypatch, **{f"{provider}_API_KEY": "key-key"})
        listed = f"requirements-{provider.lower()}.lock"
        assert line.startswith(f"{provider}_API_KEY: ")
        assert line.endswith(f"pip install -r {listed}")
        assert "langchain-" + provider.lower() in (ROOT / listed).read_text()


SECRETS = {
    "TELEGRAM_BOT_TOKEN": "123456:TOPSECRET-token",
    "TELEGRAM_WEBHOOK_SECRET": "TOPSECRET-webhook",
    "DATABASE_URL": "postgresql://u:TOPSECRET-url@h/db",
    "PG_PASSWORD": "TOPSECRET-password",
    "OPENAI_API_KEY": "TOPSECRET-openai",
    "ANTHROPIC_API_KEY": "TOPSECRET-anthropic",
    "GOOGLE_API_KEY": "TOPSECRET-google",
    "ADMIN_PASSWORD": "TOPSECRET-admin",
}


def test_secrets_never_show_in_the_settings_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, **SECRETS)
    for shown in (repr(settings), str(settings), str(settings.model_dump())):
        assert "TOPSECRET" not in shown
    assert sorted(settings.secrets()) == sorted(SECRETS.values())


def test_every_secret_field_is_one_that_the_log_blanks_out() -> None:
    named = re.compile(r"token(?!_timeout)|secret|password|api_key|database_url|(?<!no)_proxy")
    for name, field in Settings.model_fields.items():
        assert bool(named.search(name)) == (SecretStr.__name__ in str(field.annotation)), name


def test_no_value_of_any_variable_stands_in_the_lines_of_problems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key that was pasted into the wrong line would be shown."""
    settable = [name.upper() for name in Settings.model_fields]
    keys = dict.fromkeys(settable, "sk-proj-CANARY_42")
    odd = {name: f"!! {value} CANARY %zz" for name, value in SECRETS.items()}
    named = {**keys, "LLM_MODEL": "openai:sk-CANARY", "EMBEDDING_MODEL": "openai:sk-CANARY"}
    packages = {"LLM_MODEL": "anthropic:sk-CANARY", "ANTHROPIC_API_KEY": "sk-CANARY"}
    monkeypatch.setitem(sys.modules, "langchain_anthropic", None)
    for variables in (keys, odd, named, packages):
        found = problems(monkeypatch, **variables)
        assert found and "CANARY" not in "\n".join(found)


def test_the_example_file_lists_exactly_the_settings() -> None:
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    pairs = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*=\S*", line) for line in pairs)
    names = [line.partition("=")[0] for line in pairs]
    assert sorted(names) == sorted(name.upper() for name in Settings.model_fields)


def test_the_example_file_says_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = load(monkeypatch)
    assert load_settings(str(ROOT / ".env.example")) == defaults


@pytest.mark.parametrize(("url", "is_near", "seconds"), [
    (None, False, 60), ("https://eu.api.openai.com/v1", False, 60),
    ("https://llm.example.org/v1", False, 300), ("http://localhost:11434/v1", True, 300),
    ("http://192.168.1.5:8081/v1", True, 300), ("http://[::1]:8081/v1", True, 300),
    ("http://ollama:11434/v1", True, 300), ("https://8.8.8.8/v1", False, 300),
    ("https://api.openai.com.example.org/v1", False, 300),
])  # fmt: skip
def test_a_server_of_one_s_own_may_read_for_long_and_a_near_one_reads_ahead(
    url: str | None, is_near: bool, seconds: float
) -> None:
    settings = Settings(openai_api_key="k", openai_base_url=url, llm_model="openai:x")
    assert settings.first_token_timeout("openai:x") == seconds
    assert PROVIDERS["openai"].is_near(settings) == is_near
    assert settings.first_token_timeout("anthropic:x") == 60, "that one is asked itself"
    chosen = Settings(openai_base_url=url, llm_first_token_timeout=7)
    assert chosen.first_token_timeout("openai:x") == 7
    patient = Settings(openai_base_url=url, llm_timeout=600)
    assert patient.first_token_timeout("openai:x") == 600


HOOK = "https://bot.example.org/hook"


PASSWORD = "correct horse battery"


NO_EMBEDDINGS = (
    "EMBEDDING_MODEL: it is neither local nor openai:model. "
    "Write local, or openai:model such as openai:text-embedding-3-small"
)


@pytest.mark.parametrize(("variables", "line"), [
    ({"TELEGRAM_WEBHOOK_URL": HOOK, "TELEGRAM_WEBHOOK_SECRET": "with space"},
     "TELEGRAM_WEBHOOK_SECRET: only A-Z"),
    ({"TELEGRAM_WEBHOOK_URL": HOOK}, "TELEGRAM_WEBHOOK_SECRET: it is missing"),
    ({"TELEGRAM_WEBHOOK_URL": "http://bot.example.org/hook", "TELEGRAM_WEBHOOK_SECRET": "s"},
     "TELEGRAM_WEBHOOK_URL: "),
    ({"PG_POOL_MIN": "5", "PG_POOL_MAX": "4"}, "PG_POOL_MIN: it is more than PG_POOL_MAX"),
    ({"ADMIN_READER_PASSWORD": PASSWORD}, "ADMIN_PASSWORD: it is missing"),
    ({"ADMIN_PASSWORD": PASSWORD, "ADMIN_READER_PASSWORD": PASSWORD},
     "ADMIN_READER_PASSWORD: it is that of the operators"),
    ({"LLM_MODEL": "openai:gpt-5-mini", "SUMMARY_MODEL": "openai:nano"},
     "OPENAI_API_KEY: it is missing while LLM_MODEL is openai:…"),
    ({"LLM_MODEL": "openai:gpt", "EMBEDDING_MODEL": "openai:embed"},
     "OPENAI_API_KEY: it is missing while LLM_MODEL is openai:…"),
    ({"EMBEDDING_MODEL": "openai:embed"},
     "OPENAI_API_KEY: it is missing while EMBEDDING_MODEL is openai:…"),
    ({"EMBEDDING_MODEL": "LOCAL"}, NO_EMBEDDINGS), ({"EMBEDDING_MODEL": "openai:"}, NO_EMBEDDINGS),
    ({"EMBEDDING_MODEL": "google_genai:embed"}, NO_EMBEDDINGS),
])  # fmt: skip
def test_settings_that_do_not_fit_each_other_are_one_line(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], line: str
) -> None:
    [found] = problems(monkeypatch, **variables)
    assert found.startswith(line)


@pytest.mark.parametrize("variables", [
    {"TELEGRAM_WEBHOOK_URL": HOOK, "TELEGRAM_WEBHOOK_SECRET": "s3cret_-"},
    {"TELEGRAM_WEBHOOK_URL": "http://localhost:8080/hook", "TELEGRAM_WEBHOOK_SECRET": "secret"},
    {"TELEGRAM_WEBHOOK_URL": "http://[::1]:8080/hook", "TELEGRAM_WEBHOOK_SECRET": "secret"},
    {"LLM_MODEL": "openai:gpt-5-mini", "OPENAI_BASE_URL": "http://localhost:11434/v1"},
    {"EMBEDDING_MODEL": "openai:e", "OPENAI_API_KEY": "key", "LLM_MODEL": "offline"},
    {"EMBEDDING_MODEL": "openai:e", "OPENAI_BASE_URL": "http://localhost:8000/v1"},
])  # fmt: skip
def test_settings_that_fit_each_other_are_taken(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    settings = load(monkeypatch, **variables)
    given = {name: getattr(settings, name.lower()) for name in variables if "_URL" in name}
    assert given == {name: value for name, value in variables.items() if name in given}
