"""Files that ``eval`` does not take: each is refused in a plain sentence."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from src.base.errors import AppError
from src.operate.evaluation import LocomoQuestion, LocomoTurn, Report, load_conversations

TURN = {"dia_id": "D1:1", "speaker": "Ann", "text": "I live in Oslo"}
TALK = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": [TURN]}
ASKED = {"question": "Where does Ann live?", "category": 1, "evidence": ["D1:1"]}

NO_QUESTION = "holds no question to ask"
NO_FORMAT = "is not in LoCoMo's format"
NO_JSON = "is no JSON"
UNREADABLE = "cannot be read"
BAD = {
    "an empty list": ("[]", NO_QUESTION),
    "a question without evidence": (
        json.dumps([{"conversation": TALK, "qa": [{**ASKED, "evidence": []}]}]), NO_QUESTION,
    ),
    "a question about what is not there": (
        json.dumps([{"conversation": TALK, "qa": [{**ASKED, "category": 5}]}]), NO_QUESTION,
    ),
    "no messages": (json.dumps([{"conversation": {}, "qa": [ASKED]}]), NO_FORMAT),
    "null": ("null", NO_FORMAT), "an empty file": ("", NO_JSON),
    "plain text": ("Where does Ann live?", NO_JSON), "a deep list": ("[" * 100_000, NO_JSON),
}  # fmt: skip


def complaint(path: Path) -> str:
    with pytest.raises(AppError) as refused:
        load_conversations(path)
    line = str(refused.value)
    assert line.startswith(f"{path} ") and "\n" not in line
    return line


def test_a_file_that_asks_nothing_is_an_error_with_a_plain_sentence(tmp_path: Path) -> None:
    path = tmp_path / "talks.json"
    for name, (content, expected) in BAD.items():
        path.write_text(content)
        assert expected in complaint(path), name


def test_a_file_that_cannot_be_read_is_an_error_with_a_plain_sentence(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(b"\xff\xfe[")
    for name in ("missing.json", "odd.json", "."):
        assert UNREADABLE in complaint(tmp_path / name), name


def test_figures_are_grouped_by_category_and_by_how_many_messages_answer() -> None:
    report = Report()
    for category, evidence in ((1, "a"), (1, "ab"), (4, "abcd")):
        question = LocomoQuestion("?", category, frozenset(evidence))
        report.add(question, ["a", "b"], {1000: ["a"], 3000: ["a", "b", "c"]})
    figures = report.percentages()
    assert {key: group["recall@10"] for key, group in figures["evidence"].items()} == {
        "1": 100.0, "2": 100.0, "3+": 50.0,
    }  # fmt: skip
    assert {key: (group["shown@1000"], group["shown@3000"])
            for key, group in figures["evidence"].items()} == {
        "1": (100.0, 100.0), "2": (50.0, 100.0), "3+": (25.0, 75.0),
    }  # fmt: skip
    assert {key: group["all@10"] for key, group in figures["categories"].items()} == {
        "1": 100.0, "4": 0.0,
    }  # fmt: skip


def test_the_bot_of_a_conversation_is_the_assistant() -> None:
    names = ("Ann", "user", "Assistant", "bot")
    turns = [LocomoTurn("D1:1", 1, name, "", datetime.now(UTC)) for name in names]
    assert [turn.role for turn in turns] == ["user", "user", "assistant", "assistant"]
