"""Somebody who talks to the agent, for the tests of the graph with its memory.

A database takes longer to make than most of these tests, so they share one, and every test talks
as somebody else. The embedder is the local one.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID, uuid4

from src.facts.fact import Fact
from src.memory.writer import Outcome, Said
from src.services.turn import IncomingMessage, Turn
from src.storage.owner import Owner
from src.storage.pg_client import PgClient
from src.storage.turn_repo import StoredAnswer
from src.storage.user_settings_repo import Mode
from src.texts import Language
from src.time_zones import local_time
from tests.conftest import TEMPLATE, database_url, execute
from tests.fakes.openai_server import ChatRequest, Reply, text_of
from tests.integration.agent_rig import Rig, open_rig

Json = dict[str, Any]

MORNING = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)  # 9:00 in Moscow, a Friday
TWO_YEARS_AGO = datetime(2024, 11, 20, 6, 0, tzinfo=UTC)
new_user = itertools.count(2**41).__next__


@dataclass
class Person:
    """Somebody who talks to the bot, a message a minute."""

    rig: Rig
    user: int
    language: Language = "ru"
    mode: Mode = "assistant"
    moment: datetime = MORNING
    time_zone: str = "Europe/Moscow"

    @property
    def owner(self) -> Owner:
        return Owner(self.user)

    @property
    def requests(self) -> list[ChatRequest]:
        """What the model was asked, by anybody."""
        return self.rig.model.requests

    async def begin(self, text: str, **changes: Any) -> Turn:
        """Write a message."""
        self.moment += timedelta(minutes=1)
        message = IncomingMessage(
            Owner(self.user), text, self.moment, self.language, self.time_zone, self.mode
        )
        message = replace(message, **changes)
        return await self.rig.core.agent.begin_turn(message)

    async def say(self, text: str, *replies: Reply | str, **changes: Any) -> StoredAnswer:
        """A whole turn, in which the model replies with these."""
        self.rig.model.queue(*replies)
        turn = await self.begin(text, **changes)
        answer = await self.rig.core.agent.answer(turn)
        await self.rig.core.agent.mark_delivered(turn, answer)
        return answer

    async def index(self) -> None:
        """Take what was said into the index, as the background does after a turn."""
        indexer = self.rig.core.memory.indexer
        await indexer.index_conversation(self.conversation())
        await indexer.embed_pending()

    async def remember(self, known: Json) -> Outcome:
        """Know a fact, which was said in a message of its own two years ago."""
        text = known["text"]
        conversations = self.rig.core.conversations
        message_id = conversations.append_message(
            self.conversation(), "user", text, said_at=TWO_YEARS_AGO
        )
        return await self.rig.core.memory.memories.remember(
            self.owner,
            Fact.model_validate(known),
            Said(message_id, text, local_time(TWO_YEARS_AGO, self.time_zone)),
            origin="tool",
        )

    def conversation(self) -> UUID:
        """The person's conversation."""
        return self.rig.core.conversations.get_or_create_conversation(self.user)

    def facts(self) -> list[str]:
        """The facts that hold, oldest first."""
        return [
            text
            for (text,) in self.rows(
                "SELECT text FROM memories WHERE telegram_user_id = %(user)s"
                " AND retired_at IS NULL ORDER BY id"
            )
        ]

    def rows(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Look into the database; ``%(user)s`` is the person."""
        return self.rig.rows(sql, user=self.user, **params)


@asynccontextmanager
async def open_person(client: PgClient, **settings: Any) -> AsyncIterator[Person]:
    """Somebody whom the bot has never met."""
    async with open_rig(client.dsn, client, **settings) as rig:
        yield Person(rig, new_user())


@cache
def shared_database(server: str) -> str:
    """The address of a migrated database, made once; it goes with the server."""
    name = f"test_memory_{uuid4().hex}"
    execute(server, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    return database_url(server, name)


def fact(text: str, **changes: Any) -> Json:
    """A fact as a model writes it down, by default quoted as it stands."""
    return {"text": text, "quote": text, "object": text, **changes}


def saved(*facts: Json) -> Reply:
    """The model saves facts with its tool."""
    return Reply(tool_calls=[("save_user_fact", one) for one in facts])


def called(tool: str, **arguments: Any) -> Reply:
    """The model calls a tool."""
    return Reply(tool_calls=[(tool, arguments)])


def taught(*facts: Json) -> Reply:
    """Strict mode: the message teaches these facts."""
    return called("Understanding", intent="teach", facts=list(facts))


def asked(query: str = "") -> Reply:
    """Strict mode: the message asks something."""
    return called("Understanding", intent="solve", query=query)


def forgetting(query: str = "") -> Reply:
    """Strict mode: the message wants something forgotten."""
    return called("Understanding", intent="forget", query=query)


def chosen(*uids: str) -> Reply:
    """Strict mode: the quotes that are meant."""
    return called("Forgetting", uids=list(uids))


def denied(*pairs: tuple[int, int], confidence: float = 0.9) -> Reply:
    """Strict mode: new facts, by number, that deny known ones, by id."""
    conflicts = [{"new": new, "known": known, "confidence": confidence} for new, known in pairs]
    return called("Conflicts", conflicts=conflicts)


def thought(query: str = "") -> Reply:
    """Strict mode: what to search next, or that the context is enough."""
    return called("ReasoningStep", action="search" if query else "answer", query=query)


def forms(requests: list[ChatRequest]) -> list[str]:
    """What each request demanded: the name of its form, or ``text``."""
    return [
        request.raw["tool_choice"]["function"]["name"]
        if isinstance(request.raw.get("tool_choice"), dict)
        else "text"
        for request in requests
    ]


def named(request: ChatRequest) -> list[tuple[str, str]]:
    """Name (else role) and text of each message of a prompt."""
    return [
        (message.get("name") or message["role"], text_of(message.get("content")))
        for message in request.messages
    ]


def results(request: ChatRequest) -> list[str]:
    """What the tools answered, as the model sees it."""
    return [text for name, text in named(request) if name == "tool"]
