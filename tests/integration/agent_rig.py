"""The agent on a real database and a fake model server, for the tests of turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from src.application import Core, build_core
from src.config import Settings
from src.services.agent_service import IncomingMessage, Turn
from src.services.turn_control import TurnControl
from src.storage.conversation_repo import TelegramOrigin, set_conversation_repo_factory
from src.storage.pg_client import PgClient
from src.storage.turn_repo import StoredAnswer
from src.texts import Language
from tests.fakes.openai_server import FakeOpenAI, text_of

USER = 1001
NOON = datetime(2026, 11, 21, 9, 5, tzinfo=UTC)  # 12:05 in Moscow


@dataclass
class Rig:
    """A core with its fake model."""

    core: Core
    model: FakeOpenAI
    client: PgClient

    async def begin(self, text: str, user: int = USER, **changes: Any) -> Turn:
        """Store a message."""
        return await self.core.agent.begin_turn(incoming(text, user, **changes))

    async def ask(self, text: str, user: int = USER, **changes: Any) -> StoredAnswer:
        """A whole turn, delivered."""
        turn = await self.begin(text, user, **changes)
        answer = await self.core.agent.answer(turn)
        await self.core.agent.mark_delivered(turn, answer)
        return answer

    def rows(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Look into the database."""
        return self.client.fetch_all(sql, params)

    def stored(self, user: int = USER) -> list[tuple[str, str]]:
        """Role and content of every message of a user, oldest first."""
        return [
            (role, content)
            for role, content in self.rows(
                "SELECT m.role, m.content FROM messages m"
                " JOIN conversations c ON c.id = m.conversation_id"
                " WHERE c.telegram_user_id = %(user)s ORDER BY m.created_at, m.id",
                user=user,
            )
        ]

    def prompt(self, number: int = -1) -> list[tuple[str, str]]:
        """Role and text of each message of one request to the model."""
        request = self.model.requests[number]
        return [(m["role"], text_of(m.get("content"))) for m in request.messages]

    def fill(self, conversation_id: UUID, *messages: tuple[str, str]) -> None:
        """Put messages into a conversation."""
        for role, content in messages:
            self.core.conversations.append_message(conversation_id, role, content)  # type: ignore[arg-type]


def incoming(
    text: str,
    user: int = USER,
    *,
    language: Language = "ru",
    time_zone: str = "Europe/Moscow",
    moment: datetime = NOON,
    origin: TelegramOrigin | None = None,
) -> IncomingMessage:
    """A message as Telegram or the console hands it to the agent."""
    return IncomingMessage(user, text, moment, language, time_zone, origin=origin)


@asynccontextmanager
async def open_rig(dsn: str, client: PgClient, **settings: Any) -> AsyncIterator[Rig]:
    """Serve a model that echoes, and build the core on it."""
    async with FakeOpenAI() as model:
        values = {
            "llm_model": "openai:fake-model",
            "openai_base_url": model.url,
            "llm_timeout": 10,
            **settings,
        }
        yield Rig(build_core(Settings(**values), dsn, client), model, client)
        set_conversation_repo_factory(None)


class Watcher:
    """Collects what is shown, and can stop the turn in the middle of it."""

    def __init__(self, stop_at: str | None = None) -> None:
        self.text = ""
        self.control = TurnControl()
        self._stop_at = stop_at

    def show(self, text: str) -> None:
        self.text += text
        if self._stop_at is not None and self._stop_at in self.text:
            self.control.stop()
