"""People who bring files: callers, uploads, and the job that stores them."""

from __future__ import annotations

import io
import json
from typing import Any, BinaryIO, cast

from src.base.owners import Caller
from src.imports.import_repo import Import
from src.imports.records import Opened
from src.imports.service import ImportTasks
from src.texts.reply import Reply
from tests.integration.person import Person, Rig

Json = dict[str, Any]


def opened(content: bytes | str, name: str = "file.json") -> Opened:
    data = content.encode() if isinstance(content, str) else content
    return Opened(name, lambda: cast("BinaryIO", io.BytesIO(data)))


def chat(conversation: str, *messages: str, start: int = 1714731000) -> Json:
    """A conversation of ChatGPT with these messages of the user, a minute apart."""
    mapping: Json = {"root": {"message": None, "parent": None, "children": []}}
    parent = "root"
    for number, text in enumerate(messages):
        id_ = f"{conversation}-{number}"
        mapping[id_] = {
            "parent": parent,
            "message": {
                "id": id_,
                "author": {"role": "user"},
                "create_time": start + 60 * number,
                "content": {"content_type": "text", "parts": [text]},
                "recipient": "all",
                "metadata": {},
            },
        }
        parent = id_
    return {
        "title": f"About {conversation}",
        "conversation_id": conversation,
        "current_node": parent,
        "create_time": start,
        "mapping": mapping,
    }


def with_memories(conversation: Json, *texts: str) -> Json:
    """The same, and the model has remembered these."""
    parent = conversation["current_node"]
    conversation["mapping"]["bio"] = {
        "parent": parent,
        "message": {
            "id": "bio",
            "author": {"role": "assistant"},
            "recipient": "bio",
            "content": {"content_type": "text", "parts": ["\n".join(texts)]},
        },
    }
    return {**conversation, "current_node": "bio"}


async def shown_nothing(_import: Import) -> None:
    """The progress that nobody sees."""


class Bringer:
    """A person at the screens of imports."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.rig: Rig = person.rig
        self.screens = person.core.commands.imports
        self.service = person.core.imports

    @property
    def caller(self) -> Caller:
        return self.rig.called(self.person.user, self.person.language)

    async def bring(self, content: bytes | str | list[Json], name: str = "file.json") -> Reply:
        if isinstance(content, list):
            content = json.dumps(content)
        return await self.screens.read(self.caller, opened(content, name))

    async def tap(self, reply: Reply, label: str) -> Reply:
        [button] = [b for row in reply.rows for b in row if label in b.label]
        return await self.rig.press(button, self.person.user, language=self.person.language)

    async def work(self) -> None:
        """Do the job of imports to its end."""
        await ImportTasks(self.rig.client, self.service, shown_nothing).run_all()

    async def store(self, content: bytes | str | list[Json], name: str = "file.json") -> Reply:
        """Bring a file for search only, and store it."""
        reply = await self.bring(content, name)
        [button] = [b for row in reply.rows for b in row if b.action.numbers[1] == 0]
        chosen = await self.rig.press(button, self.person.user, language=self.person.language)
        await self.work()
        return chosen

    async def current(self) -> Reply:
        """The screen of the last import."""
        last = self.service.rows.find_last(self.person.owner)
        assert last is not None
        return await self.screens.screen(self.caller, last)

    async def undo(self) -> None:
        """Take the last import back."""
        await self.screens.command(self.caller.with_argument("undo"))
        await self.work()

    def said(self) -> list[tuple[str, str, str | None]]:
        """Text, day and origin of all imported messages, oldest first."""
        return [
            (str(text), f"{said_at:%Y-%m-%d}", origin)
            for text, said_at, origin in self.person.rows(
                "SELECT m.content, m.said_at, m.origin FROM messages m"
                " JOIN conversations c ON c.id = m.conversation_id"
                " WHERE c.owner_id = %(owner)s AND c.import_id IS NOT NULL"
                " ORDER BY m.said_at, m.id"
            )
        ]
