"""aiogram's models are built at their first use, and every one of them still builds.

    AIOGRAM_WHEEL=FILE.whl python -m pytest tests/unit/telegram/test_lazy_models.py

does the same with another version, as before an upgrade.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# In one process: pydantic is its own again after the import, models work at their first use, and
# every one of them builds, or each so many of them. Prints the megabytes that aiogram took.
SCRIPT = """
import json, psutil, sys
from pydantic import BaseModel
process = psutil.Process()
import aiohttp
before, rebuild = process.memory_info().rss, BaseModel.__dict__["model_rebuild"]
import src.telegram
import aiogram.types, aiogram.methods
taken = (process.memory_info().rss - before) / 1e6

assert BaseModel.__dict__["model_rebuild"] is rebuild and not BaseModel.model_config
assert not aiogram.methods.DeleteMessage.__pydantic_complete__
class Tree(BaseModel):
    branches: "list[Branch]"
def build():
    class Branch(BaseModel):
        leaves: int
    assert Tree.model_rebuild() is True
build()
assert Tree.model_rebuild.__func__ is BaseModel.model_rebuild.__func__
assert Tree(branches=[{"leaves": 1}]).branches[0].leaves == 1

from aiogram.types import Update
from aiogram.methods import Response, SendMessage
from aiogram.types import Message
update = Update.model_validate({"update_id": 1, "message": {
    "message_id": 1, "date": 1, "chat": {"id": 5, "type": "private"},
    "from": {"id": 5, "is_bot": False, "first_name": "x"}, "text": "hello"}})
assert update.message.from_user.id == 5 and update.message.chat.type == "private"
assert SendMessage(chat_id=5, text="x").model_dump(warnings=False)["text"] == "x"
answer = Response[Message].model_validate({"ok": True, "result": {
    "message_id": 2, "date": 1, "chat": {"id": 5, "type": "private"}}})
assert answer.result.message_id == 2

built, failed = 0, []
for module in (aiogram.types, aiogram.methods):
    for name in module.__all__[:: int(sys.argv[1])]:
        model = getattr(module, name)
        if isinstance(model, type) and issubclass(model, BaseModel) and name != "TelegramMethod":
            try:
                model.model_json_schema if model.model_rebuild(force=True) else failed.append(name)
                built += 1
            except Exception as error:
                failed.append(f"{name}: {error}")
print(json.dumps({"taken": taken, "built": built, "failed": failed}))
"""


def run(script: str, *arguments: str, first: str = "") -> str:
    """Run a script in a process of its own, with a folder or wheel first in its path."""
    before = f"import sys; sys.path.insert(0, {first!r})\n" if first else ""
    done = subprocess.run(
        [sys.executable, "-c", before + script, *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("each", [8, pytest.param(1, marks=pytest.mark.proof)])
def test_models_take_little_memory_work_at_their_first_use_and_all_build(each: int) -> None:
    told = json.loads(run(SCRIPT, str(each), first=os.environ.get("AIOGRAM_WHEEL", "")))
    assert told["taken"] < 90  # megabytes; 135 when all of them are built
    assert told["built"] > 400 / each
    assert told["failed"] == []
