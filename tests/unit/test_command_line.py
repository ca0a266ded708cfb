"""The command line: what is said of a word that is none, and where the warnings go."""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bot import COMMANDS, main, parse_arguments, report_warnings
from tests.pages import ROOT
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
WARNING = "TELEGRAM_TOKEN: no setting has this name. "
WARNING += "TELEGRAM_BOT_TOKEN was probably meant"


@pytest.mark.parametrize("line", SAID)
def test_a_wrong_word_is_one_line_with_what_was_meant(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse_arguments(line.split())
    assert end.value.code == 2
    assert capsys.readouterr() == ("", f"{SAID[line]}\n")


@pytest.mark.parametrize("wrong", ["anna", "0", str(2**52), str(-(2**52))])
def test_what_is_no_user_id_erases_nothing(capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    with pytest.raises(SystemExit) as refused:
        parse_arguments(["erase", "--user-id", wrong])
    assert refused.value.code == 2 and "--user-id" in capsys.readouterr().err


def test_help_names_each_command_and_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (["--help"], [f"    {name} " for name in COMMANDS]), (
        ["console", "--help"], ["--user-id"],
    ):  # fmt: skip
        with pytest.raises(SystemExit) as end:
            parse_arguments(words)
        said = capsys.readouterr().out
        assert end.value.code == 0 and all(word in said for word in told)


@pytest.mark.parametrize("command", ["run", "doctor"])
def test_bad_settings_are_all_named_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    command: str,
) -> None:  # fmt: skip
    load(monkeypatch)
    monkeypatch.chdir(tmp_path)
    wrong = {"TELEGRAM_BOT_TOKEN": "TOPSECRET", "PG_POOL_MAX": "x", "TIMEZONE": "Mars"}
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    assert main([command], root=tmp_path) == 2
    out, said = capsys.readouterr()
    assert [line.partition(":")[0] for line in said.splitlines()] == list(wrong)
    assert out == "" and "TOPSECRET" not in said


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
    monkeypatch.setenv("ADMIN_USERS", "TOPSECRET")
    settings = load(monkeypatch, TELEGRAM_BOT_TOKEN="42:TEST")
    with caplog.at_level(logging.WARNING):
        report_warnings(settings, "run")
    [record] = caplog.records
    assert record.__dict__["variable"] == "ADMIN_USERS" and "TOPSECRET" not in record.getMessage()
    assert capsys.readouterr() == ("", "")


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"Pomni {project['version']}\n", "")


def run_without_packages(folder: Path, arguments: str = "") -> subprocess.CompletedProcess[str]:
    script = f"import sys; sys.path[:0] = [{str(folder)!r}]; sys.argv = ['bot.py', {arguments!r}]"
    script += f"; import runpy; runpy.run_path({str(ROOT / 'bot.py')!r}, run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False
    )


def test_a_python_without_the_packages_is_told_the_right_one(tmp_path: Path) -> None:
    for known, missing in (((), "uvloop"), (("uvloop",), "pytz")):
        for name in known:
            (tmp_path / f"{name}.py").touch()
        (tmp_path / "src").unlink(missing_ok=True)
        (tmp_path / "src").symlink_to(ROOT / "src")
        end = run_without_packages(tmp_path, "doctor")
        assert (end.returncode, end.stdout) == (1, "")
        assert end.stderr == (
            f"bot.py: the package {missing} is missing in this Python. "
            "Run .venv/bin/python bot.py …, or `make run`, which installs everything\n"
        )


def test_a_missing_file_of_ours_is_no_missing_package(tmp_path: Path) -> None:
    (tmp_path / "uvloop.py").touch()
    (tmp_path / "src").mkdir()
    end = run_without_packages(tmp_path)
    assert end.returncode == 1 and "No module named 'src.base'" in end.stderr
