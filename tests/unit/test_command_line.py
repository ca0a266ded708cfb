"""The command line: what is said of a word that is none, and where the warnings go."""

from __future__ import annotations

import logging

import pytest

from bot import parse_arguments, report_warnings
from tests.unit.settings_environment import load

SAID = {
    "docter": "bot.py: unknown: docter. Did you mean doctor?",
    "Consol": "bot.py: unknown: Consol. Did you mean console?",
    "launch": "bot.py: unknown: launch. See bot.py --help",
    "doctor --jsn": "bot.py doctor: unknown: --jsn. Did you mean --json?",
    "console --user_id 5": "bot.py console: unknown: --user_id. Did you mean --user-id?",
    "--json console": "bot.py console: unknown: --json. See bot.py console --help",
    "run --json": "bot.py run: unknown: --json. See bot.py run --help",
    "erase": "bot.py erase: the following arguments are required: --user-id. "
    "See bot.py erase --help",
}
WARNING = "TELEGRAM_TOKEN: it is in the environment, but no setting has this name. "
WARNING += "TELEGRAM_BOT_TOKEN was probably meant"


@pytest.mark.parametrize("line", SAID)
def test_a_wrong_word_is_one_line_with_what_was_meant(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse_arguments(line.split())
    assert end.value.code == 2
    assert capsys.readouterr() == ("", f"{SAID[line]}\n")


def test_right_words_are_read() -> None:
    assert parse_arguments([]).command is None
    assert parse_arguments(["console", "--user-id", "5", "--js"]).user_id == 5


def test_warnings_are_told_once_where_they_are_seen(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("TELEGRAM_TOKEN", "1:TOPSECRET")
    settings = load(monkeypatch)
    for command in ("console", "run", "doctor"):  # without a token, run is the console
        report_warnings(settings, command)
    assert capsys.readouterr() == ("", f"{WARNING}\n" * 2)
    monkeypatch.delenv("TELEGRAM_TOKEN")
    monkeypatch.setenv("ADMIN_IDS", "TOPSECRET")
    settings = load(monkeypatch, TELEGRAM_BOT_TOKEN="42:TEST")
    with caplog.at_level(logging.WARNING):
        report_warnings(settings, "run")
    [record] = caplog.records
    assert record.__dict__["variable"] == "ADMIN_IDS" and "TOPSECRET" not in record.getMessage()
    assert capsys.readouterr() == ("", "")
