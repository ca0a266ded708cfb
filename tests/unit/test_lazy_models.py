"""aiogram's models are built at their first use, and every one of them still builds."""

from __future__ import annotations

import json
import subprocess
import sys

# Prints the megabytes that aiogram took, then builds every model of it.
SCRIPT = """
import json, psutil
from pydantic import BaseModel
process = psutil.Process()
import aiohttp
before = process.memory_info().rss
import src.telegram
import aiogram.types, aiogram.methods
taken = (process.memory_info().rss - before) / 1e6
built, failed = 0, []
for module in (aiogram.types, aiogram.methods):
    for name in module.__all__:
        model = getattr(module, name)
        if isinstance(model, type) and issubclass(model, BaseModel) and name != "TelegramMethod":
            try:
                model.model_json_schema if model.model_rebuild(force=True) else failed.append(name)
                built += 1
            except Exception as error:
                failed.append(f"{name}: {error}")
print(json.dumps({"taken": taken, "built": built, "failed": failed}))
"""

USE = """
import src.telegram
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
"""

# Another library's model must not notice that aiogram was imported.
OTHERS = """
from pydantic import BaseModel
before = BaseModel.__dict__["model_rebuild"]
import src.telegram
assert BaseModel.__dict__["model_rebuild"] is before
class Tree(BaseModel):
    branches: "list[Branch]"
def build():
    class Branch(BaseModel):
        leaves: int
    assert Tree.model_rebuild() is True
build()
assert Tree.model_rebuild.__func__ is BaseModel.model_rebuild.__func__
assert Tree(branches=[{"leaves": 1}]).branches[0].leaves == 1
"""


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_import_takes_a_fraction_of_the_memory_and_every_model_still_builds() -> None:
    told = json.loads(run(SCRIPT))
    assert told["taken"] < 90  # megabytes; 135 when all of them are built
    assert told["built"] > 400
    assert told["failed"] == []


def test_models_work_at_their_first_use() -> None:
    run(USE)


def test_pydantic_is_its_own_again_after_the_import() -> None:
    run(OTHERS)
