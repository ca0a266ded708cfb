"""``python bot.py eval FILE`` as a process; ``tests/unit/test_evaluation.py`` has bad files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.bot_command import Machine
from tests.unit.test_evaluation import ASKED, NO_QUESTION, TALK


@pytest.fixture
def machine(dsn: str, tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"DATABASE_URL": dsn})


def test_a_file_is_measured_or_refused_in_a_plain_sentence(machine: Machine) -> None:
    talks = [{"conversation": TALK, "qa": [ASKED]}]
    (machine.folder / "talks.json").write_text(json.dumps(talks))
    done = machine.run("eval", "talks.json")
    figures = json.loads(done.stdout)
    assert (done.status, figures["conversations"], figures["overall"]["questions"]) == (0, 1, 1)
    assert figures["overall"]["recall@5"] == 100.0
    (machine.folder / "empty.json").write_text("[]")
    refused = machine.run("eval", "empty.json")
    assert (refused.status, refused.stdout) == (1, "")
    [line] = refused.stderr.splitlines()
    assert line.startswith("Pomni stopped: empty.json ") and NO_QUESTION in line
