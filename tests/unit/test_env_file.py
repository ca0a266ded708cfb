"""``.env``: the ways in which people write it, and what is said of lines that set nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from src.base.config import Settings, load_settings
from src.base.errors import ConfigError
from tests.unit.settings_environment import load

KEY = "sk-CANARY-42"
EVERYBODY = "but no setting has this name, so everybody could use the bot. ALLOWED_USER_IDS was "
EVERYBODY += "probably meant. Write Telegram user ids with commas: 1001,1002"


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
    assert line == f"ALLOWED_USERS: it is in .env, {EVERYBODY}"
    assert read(file, "ALLOWED_USERS=1\nALLOWED_USER_IDS=1\n").warnings == ()
    assert read(file, "ALLOWED_USERS=\n").warnings == (), "an empty one was not meant"
    [line] = refused(file, "\u0410LLOWED_USER_IDS=1\n")
    assert line.startswith("\\u0410LLOWED_USER_IDS: it is in .env, "), "a Cyrillic letter is shown"
    file.unlink()
    monkeypatch.setenv("ALLOWED_USER_ID", "CANARY")
    with pytest.raises(ConfigError) as caught:
        load_settings(str(file))
    assert caught.value.problems == [
        f"ALLOWED_USER_ID: it is in the environment, {EVERYBODY}; "
        "if it is another program's, start the bot without it"
    ]
    monkeypatch.setenv("ALLOWED_USER_IDS", "1001")
    assert load_settings(str(file)).warnings == ()


def test_other_names_are_a_warning_and_stand_beside_what_is_refused(file: Path) -> None:
    warning = "OPENAI_KEY: it is in .env, but no setting has this name. OPENAI_API_KEY was "
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
    ("DATABASE_URL=postgresql://h/d\nPOSTGRES_USER=u\nPG_HOSTS=h\nDATABASE_URI=u\n", {}),
    ("", {"OPENAI_API_KEY": KEY, "GOOGLE_KEY": KEY}), ("", {"PGHOST": "h", "PORT": "80"}),
    ("", {"TELEGRAM_TOKEN": ""}), ("GOOGLE_KEY=k\nGOOGLE_API_KEY=${GOOGLE_KEY}\n", {}),
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


def test_what_the_bot_does_not_read_is_known_for_doctor(file: Path) -> None:
    names = (
        "SYSTEM_PROMPT TZ POSTGRES_PASSWORD COMPOSE_FILE JBSWY3DPEHPK3PXP dGhpcyBpcw OPENAI_KEY"
    )
    settings = read(file, "".join(f"{name}=CANARY\n" for name in names.split()))
    assert settings.unread == ("SYSTEM_PROMPT",), "others are Compose's, or look like half a key"
