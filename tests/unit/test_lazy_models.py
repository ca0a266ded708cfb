"""aiogram's models are built at their first use, and every one of them still builds.

    AIOGRAM_WHEEL=aiogram-3.32.0-py3-none-any.whl python -m pytest tests/unit/test_lazy_models.py

does the same with another version, as before an upgrade.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import for_each

ROOT = Path(__file__).resolve().parents[2]
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


def test_it_is_one_short_file() -> None:
    assert len((ROOT / "src/telegram/lazy_models.py").read_text().splitlines()) <= 60


TYPES = """
from pydantic import BaseModel, ConfigDict
class TelegramObject(BaseModel):
    model_config = ConfigDict(defer_build=True)
class Chat(TelegramObject):
    id: "Number"
class Message(TelegramObject):
    chat: Chat
"""
METHODS = """
from pydantic import BaseModel
class TelegramMethod(BaseModel): pass
class Response(BaseModel): pass
"""
REBUILD = "for model in (Chat, Message): model.model_rebuild(_types_namespace={'Number': int})\n"
WORKS = """
import src.telegram.lazy_models, aiogram
from pydantic import BaseModel
assert BaseModel.model_rebuild.__module__ == "pydantic.main" and not BaseModel.model_config
assert aiogram.types.Message.model_validate({"chat": {"id": "5"}}).chat.id == 5
print(aiogram.types.Chat.__pydantic_complete__)
"""


@for_each(("types", "methods", "is_deferred"), [
    (TYPES + REBUILD, METHODS, True),
    (TYPES + REBUILD, METHODS.replace("Response", "Answer"), False),
    (TYPES.replace("TelegramObject", "Base") + REBUILD, METHODS, False),
    (TYPES.replace('"Number"', "int") + "Chat.model_rebuild()", METHODS, False),
    (TYPES + REBUILD.replace("(Chat, Message)", "(Message, Chat)"), METHODS, True),
])  # fmt: skip
def test_models_of_another_shape_are_built_as_they_ask(
    tmp_path: Path, types: str, methods: str, is_deferred: bool
) -> None:
    package = tmp_path / "aiogram"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("from . import methods, types")
    (package / "types.py").write_text(types)
    (package / "methods.py").write_text(methods)
    told = run(WORKS, first=str(tmp_path))
    assert told == f"{not is_deferred}\n"
