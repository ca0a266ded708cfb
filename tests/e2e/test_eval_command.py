"""``python bot.py eval FILE`` with files that hold nothing to measure, as a real process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.bot_command import Machine

TURN = {"dia_id": "D1:1", "speaker": "Ann", "text": "I live in Oslo"}
TALK = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": [TURN]}
ASKED = {"question": "Where does Ann live?", "category": 1, "evidence": ["D1:1"]}

NO_QUESTION = "holds no question to ask"
NO_FORMAT = "is not in LoCoMo's format"
NO_JSON = "is no JSON"
UNREADABLE = "cannot be read"
BAD = {
    "an empty list": ("[]", NO_QUESTION),
    "no question": (json.dumps([{"conversation": TALK, "qa": []}]), NO_QUESTION),
    "a question without evidence": (
        json.dumps([{"conversation": TALK, "qa": [{**ASKED, "evidence": []}]}]), NO_QUESTION,
    ),
    "a question about what is not there": (
        json.dumps([{"conversation": TALK, "qa": [{**ASKED, "category": 5}]}]), NO_QUESTION,
    ),
    "an empty object": ("{}", NO_FORMAT),
    "no messages": (json.dumps([{"conversation": {}, "qa": [ASKED]}]), NO_FORMAT),
    "a number": ("7", NO_FORMAT),
    "null": ("null", NO_FORMAT),
    "an empty file": ("", NO_JSON),
    "plain text": ("Where does Ann live?", NO_JSON),
    "a deep list": ("[" * 100_000, NO_JSON),
}  # fmt: skip


@pytest.fixture
def machine(dsn: str, tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"DATABASE_URL": dsn})


def complaint(machine: Machine, name: str) -> str:
    """What the command says of a file that it does not take."""
    done = machine.run("eval", name)
    assert (done.status, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"Pomni stopped: {name} ")
    return line


def test_a_file_that_asks_nothing_is_an_error_with_a_plain_sentence(machine: Machine) -> None:
    for name, (content, expected) in BAD.items():
        (machine.folder / "talks.json").write_text(content)
        assert expected in complaint(machine, "talks.json"), name


def test_a_file_that_cannot_be_read_is_an_error_with_a_plain_sentence(machine: Machine) -> None:
    (machine.folder / "odd.json").write_bytes(b"\xff\xfe[")
    for name in ("missing.json", "odd.json", "."):
        assert UNREADABLE in complaint(machine, name)


def test_a_file_with_one_question_is_measured(machine: Machine) -> None:
    talks = [{"conversation": TALK, "qa": [ASKED]}]
    (machine.folder / "talks.json").write_text(json.dumps(talks))
    done = machine.run("eval", "talks.json")
    figures = json.loads(done.stdout)
    assert (done.status, figures["conversations"], figures["overall"]["questions"]) == (0, 1, 1)
    assert figures["overall"]["recall@5"] == 100.0
