"""``python bot.py eval FILE`` as a process; ``tests/unit/test_evaluation.py`` has bad files."""

from __future__ import annotations

import json

from tests.e2e.bot_command import Machine
from tests.unit.test_evaluation import ASKED, NO_QUESTION, TALK, TURN


def test_a_file_is_measured_or_refused_in_a_plain_sentence(machine: Machine) -> None:
    # What an assistant says, a question and its answer word for word too, is no hit.
    echo = {"dia_id": "D1:2", "speaker": "Bot", "text": "Where does Ann live? Ann lives in Oslo"}
    talk = TALK | {"session_1": [TURN, echo, {**TURN, "dia_id": "D1:3"}]}
    asked = [ASKED, {**ASKED, "evidence": ["D1:1", "D1:3"]}]
    talks = [{"conversation": TALK, "qa": [ASKED]}, {"conversation": talk, "qa": asked}]
    (machine.folder / "talks.json").write_text(json.dumps(talks))
    done = machine.run("eval", "talks.json")
    figures = json.loads(done.stdout)
    assert (done.status, figures["conversations"], figures["overall"]["questions"]) == (0, 2, 3)
    assert figures["overall"]["recall@5"] == 50.0, "of two with the same text one is a hit"
    assert figures["overall"]["shown@3000"] == 50.0, "of two with the same text the other"
    pieces = {length: group["questions"] for length, group in figures["evidence"].items()}
    assert pieces == {"1": 2, "2": 1} and list(figures["categories"]) == ["1"]
    (machine.folder / "empty.json").write_text("[]")
    refused = machine.run("eval", "empty.json")
    assert (refused.status, refused.stdout) == (1, "")
    [line] = refused.stderr.splitlines()
    assert line.startswith(f"Pomni stopped: {machine.folder / 'empty.json'} ")
    assert NO_QUESTION in line
