"""``python bot.py import`` as a process: a file is stored, asked about, and taken back."""

from __future__ import annotations

import json
from pathlib import Path

from src.operate.imports import MEMORIES_WAIT
from tests.e2e.bot_command import Machine
from tests.integration.imports.bringing import chat, with_memories

ANNA = 2**41 + 401


def test_an_operator_brings_a_file_and_takes_it_back(dsn: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"DATABASE_URL": dsn})
    export = tmp_path / "conversations.json"
    told = with_memories(chat("c1", "Моего кота зовут Барсик"), "User likes tea.")
    export.write_text(json.dumps([told]), encoding="utf-8")
    command = ("import", str(export), "--user-id", str(ANNA))
    done = machine.run(*command)
    assert done.status == 0 and "Done: 1 brought over from ChatGPT." in done.stdout
    assert "User likes tea." in done.stdout
    again = machine.run(*command).stdout
    assert "nothing new" in again and MEMORIES_WAIT in again
    memories = tmp_path / "memory.txt"
    memories.write_text("- Likes tea\n- Has a cat", encoding="utf-8")
    alone = machine.run("import", str(memories), "--user-id", str(ANNA))
    assert MEMORIES_WAIT in alone.stdout and "Done" not in alone.stdout
    undone = machine.run("import", "--undo", "--user-id", str(ANNA))
    assert "All that was brought over from AI is deleted" in undone.stdout
    undone = machine.run("import", "--undo", "--user-id", str(ANNA))
    assert "All that was brought over from ChatGPT is deleted" in undone.stdout
    refused = machine.run("import", "--undo", "--user-id", str(ANNA + 1))
    assert refused.status == 1 and "there is no import" in refused.stderr
