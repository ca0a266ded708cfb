"""The agent on a real database and a fake model server, for the tests of turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from src.application import Core, build_core
from src.config import Settings
from src.gate.voices import TYPED, Voice
from src.services.turn import IncomingMessage, Turn
from src.services.turn_control import TurnControl
from src.storage.conversation_repo import TelegramOrigin, set_conversation_repo_factory
from src.storage.embedding_repo import EmbeddingModel
from src.storage.owner import Owner
from src.storage.pg_client import PgClient
from src.storage.turn_repo import StoredAnswer
from src.storage.user_settings_repo import Mode
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

    async def tell(self, text: str, user: int = USER, **changes: Any) -> StoredAnswer:
        """A whole turn, and what the background makes of it."""
        turn = await self.begin(text, user, **changes)
        answer = await self.core.agent.answer(turn)
        await self.core.agent.mark_delivered(turn, answer)
        await self.core.memory.turns.remember_turn(turn.conversation_id)
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

    def block(self, name: str, number: int = -1) -> str:
        """The system message of that name in one request; empty when there is none."""
        texts = [
            m["content"] for m in self.model.requests[number].messages if m.get("name") == name
        ]
        assert len(texts) <= 1
        return texts[0] if texts else ""

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
    mode: Mode = "assistant",
    origin: TelegramOrigin | None = None,
    voice: Voice = TYPED,
) -> IncomingMessage:
    """A message as Telegram or the console hands it to the agent."""
    message = IncomingMessage(Owner(user), text, moment, language, time_zone, mode)
    return replace(message, origin=origin, voice=voice)


_measured: dict[str, EmbeddingModel] = {}
"""Embedding models that an earlier test has measured, which takes seconds."""


@asynccontextmanager
async def open_rig(dsn: str, client: PgClient, **settings: Any) -> AsyncIterator[Rig]:
    """Serve a model that echoes, and build the core on it, warm as a bot that has started."""
    async with FakeOpenAI() as model:
        values = {
            "llm_model": "openai:fake-model",
            "openai_base_url": model.url,
            "llm_timeout": 10,
            **settings,
        }
        core = build_core(Settings(**values), dsn, client)
        known = _measured.get(core.settings.embedding_model)
        if known is not None:
            core.memory.embeddings.add_model(
                known.name,
                known.means,
                unrelated_median=known.unrelated_median,
                unrelated_high=known.unrelated_high,
            )
        await core.warm_up()
        _measured[core.settings.embedding_model] = await core.memory.space.model()
        yield Rig(core, model, client)
        await core.memory.close()
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
