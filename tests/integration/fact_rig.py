"""Somebody who tells the bot facts, straight to the memory, for the tests of writing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from src.facts.fact import Fact, Origin
from src.gate.voices import TYPED, Voice
from src.memory.retriever import Hit, Query
from src.memory.writer import Outcome, Said
from src.storage.memory_rows import Memory
from src.storage.owner import Owner
from src.storage.pg_client import PgClient
from tests.integration.agent_rig import Rig, open_rig
from tests.tables import dump

ME = Owner(2**41 + 5)
SATURDAY = datetime(2026, 11, 21, 12, 5, tzinfo=ZoneInfo("Europe/Moscow"))
FAKE_EMBEDDINGS = "openai:fake-embedding"
# What writing fills; a replay may change none of it.
WRITTEN = (
    "memories", "memory_sources", "entities", "memory_entities", "rejected_facts",
    "search_documents", "search_postings", "document_embeddings", "search_owners",
)  # fmt: skip


@dataclass(frozen=True)
class Told:
    """A fact as it was handed to the memory."""

    candidate: Fact
    said: Said
    origin: Origin
    contradicts: Collection[int]


@dataclass
class Teller:
    """One owner, whose messages come an hour after each other.

    Attributes:
        told: Every fact that was handed to the memory, in order.
    """

    rig: Rig
    owner: Owner = ME
    moment: datetime = SATURDAY
    told: list[Told] = field(default_factory=list)

    def say(self, text: str, *, at: datetime | None = None, voice: Voice = TYPED) -> Said:
        """Store a message."""
        self.moment += timedelta(hours=1)
        said_at = at or self.moment
        conversations = self.rig.core.conversations
        conversation = conversations.get_or_create_conversation(
            self.owner.telegram_user_id, thread_id=self.owner.thread_id
        )
        with self.rig.client.transaction() as transaction:
            stored = conversations.store_message(
                transaction, conversation, text, said_at=said_at, voice=voice
            )
        return Said(stored.id, text, said_at)

    async def tell(
        self,
        text: str,
        *,
        said: Said | None = None,
        contradicts: Collection[int] = (),
        origin: Origin = "teach",
        **fact: Any,
    ) -> Outcome:
        """Hand a fact to the memory; by default a message says it in just these words."""
        said = said or self.say(text)
        told = Told(Fact(text=text, **fact), said, origin, contradicts)
        self.told.append(told)
        return await self.repeat(told)

    async def repeat(self, told: Told) -> Outcome:
        """Hand it over once more, as after a crash."""
        memories = self.rig.core.memory.memories
        return await memories.remember(
            self.owner, told.candidate, told.said, origin=told.origin, contradicts=told.contradicts
        )

    async def find(self, text: str, **query: Any) -> list[Hit]:
        """Search for something, a year later."""
        later = self.moment + timedelta(days=365)
        return await self.rig.core.memory.memories.search(
            replace(Query(self.owner, text, later), **query)
        )

    async def living(self) -> list[Memory]:
        """The facts that hold, oldest first."""
        found = await self.rig.core.memory.memories.list_memories(self.owner, limit=1000)
        return sorted(found, key=lambda memory: memory.id)

    async def texts(self) -> list[str]:
        """Their texts."""
        return [memory.text for memory in await self.living()]

    def written(self) -> list[tuple[str, str]]:
        """Every row that writing facts makes, of everybody."""
        return dump(self.rig.core.dsn, *WRITTEN)

    def rows(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Look into the database."""
        return self.rig.rows(sql, **params)


@asynccontextmanager
async def open_teller(client: PgClient, **settings: Any) -> AsyncIterator[Teller]:
    """Somebody whom the bot has never met."""
    async with open_rig(client.dsn, client, **settings) as rig:
        yield Teller(rig)
