"""Writes facts: the gate, then duplicates and contradictions, in one transaction per fact."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from src.errors import ModelError, ModelUnavailableError
from src.memory.embedding_space import EmbeddingSpace
from src.memory.facts import CandidateFact, Origin
from src.memory.gate import refuse
from src.language.relation_questions import relation_term
from src.memory.relations import canonical_relation, canonical_subject, is_update
from src.memory.relative_dates import resolve_dates, when_valid
from src.memory.sameness import content_hash, is_same
from src.memory.terms import terms
from src.storage.global_settings_repo import GlobalSettingsRepository
from src.storage.memory_repo import MemoryRepository, NewMemory, Similar, Source
from src.storage.owner import Owner
from src.storage.pg_client import PgClient, Transaction
from src.texts import detect_language

logger = logging.getLogger(__name__)

EMBED_DEADLINE = 5.0  # seconds; a fact without a vector is embedded by the background job
MAX_ENTITY = 60  # characters; longer objects are sentences, not names
# Refusals whose text must not be kept anywhere.
UNKEEPABLE = frozenset({"secret"})


@dataclass(frozen=True)
class Said:
    """A user's message from which facts are taken.

    Attributes:
        message_id: Its number.
        text: Without the time label.
        said_at: When, in the user's own zone (aware), so that "tomorrow" means his.
    """

    message_id: int
    text: str
    said_at: datetime


@dataclass(frozen=True)
class Outcome:
    """What became of a fact.

    Attributes:
        kind: ``new``; ``same``: it was known; ``update``: it replaced others; ``outdated``: a
            newer statement stands; ``refused``.
        text: The fact, with its dates resolved.
        memory_id: Its number; None when refused.
        uid: ``msg-<id>`` of the message.
        replaced: Texts of the facts that it retired.
        reason: Why it was refused.
    """

    kind: Literal["new", "same", "update", "outdated", "refused"]
    text: str
    uid: str
    memory_id: int | None = None
    replaced: tuple[str, ...] = ()
    reason: str | None = None


class MemoryWriter:
    """Stores what a user said about himself, once; nothing else gets in."""

    def __init__(
        self,
        client: PgClient,
        memories: MemoryRepository,
        space: EmbeddingSpace,
        settings: GlobalSettingsRepository,
    ) -> None:
        """Write through ``memories``; compare in ``space``."""
        self._client = client
        self._memories = memories
        self._space = space
        self._settings = settings

    async def remember(
        self,
        owner: Owner,
        candidate: CandidateFact,
        said: Said,
        *,
        origin: Origin,
        contradicts: Collection[int] = (),
    ) -> Outcome:
        """Store a fact, unless the gate refuses it or it is known.

        Args:
            owner: Whose fact it is.
            candidate: What a model proposes.
            said: The message that is its source.
            origin: What kind of call this is.
            contradicts: Ids of facts that a model found to contradict it.

        Raises:
            StorageError: The database is away; nothing is stored.
        """
        text = resolve_dates(candidate.text.strip(), said.said_at)
        if text is None:
            return await self._refuse(owner, candidate, said, origin, "unclear_date")
        numbers = frozenset(_numbers(text)) - frozenset(_numbers(candidate.text))
        resolved = replace(candidate, text=text)
        reason = refuse(resolved, said.text, allowed_numbers=numbers)
        if reason is not None:
            return await self._refuse(owner, candidate, said, origin, reason)
        vector, model_id = await self._embed(text)
        memory = _new_memory(resolved, said, origin, vector)
        await self._client.run(self._settings.get)  # within the transaction none is fetched
        return await self._client.run(
            self._client.in_transaction,
            lambda t: self._store(t, owner, memory, model_id, contradicts),
        )

    def _store(
        self,
        transaction: Transaction,
        owner: Owner,
        memory: NewMemory,
        model_id: int | None,
        contradicts: Collection[int],
    ) -> Outcome:
        self._memories.lock(transaction, owner)
        uid = memory.source.uid
        if not self._memories.is_there(transaction, owner, memory.source.message_id):
            return Outcome("refused", memory.text, uid, reason="message_gone")
        similar = self._memories.list_similar(transaction, owner, memory, model_id, contradicts)
        for known in similar:
            if self._is_same(memory, known):
                if known.memory.retired_at is None:  # else the message is read once more
                    self._memories.add_source(transaction, owner, known.memory.id, memory.source)
                    self._memories.touch(transaction, owner, known.memory.id, memory.importance)
                return Outcome("same", known.memory.text, uid, known.memory.id)
        rivals = [k for k in similar if _is_rival(memory, k, contradicts)]
        newer = [k for k in rivals if _said_later(k, memory)]
        older = [k for k in rivals if not _said_later(k, memory)]
        added = self._memories.add(transaction, owner, memory, model_id)
        if newer:  # an old message is read late: what was said after it stands
            self._memories.retire(
                transaction, owner, [added], successor=newer[0].memory.id, reason="outdated",
                until=newer[0].memory.said_at,
            )  # fmt: skip
            return Outcome("outdated", memory.text, uid, added)
        self._retire(transaction, owner, added, older, memory.source.said_at)
        limit = self._settings.last_known.max_memories_per_user
        self._memories.retire_surplus(transaction, owner, limit)
        replaced = tuple(known.memory.text for known in older)
        return Outcome("update" if older else "new", memory.text, uid, added, replaced)

    def _retire(
        self,
        transaction: Transaction,
        owner: Owner,
        successor: int,
        replaced: Sequence[Similar],
        until: datetime,
    ) -> None:
        if replaced:
            ids = [known.memory.id for known in replaced]
            self._memories.retire(
                transaction, owner, ids, successor=successor, reason="replaced", until=until
            )

    def _is_same(self, memory: NewMemory, known: Similar) -> bool:
        if known.content_hash == memory.content_hash:
            return True
        return is_same(
            memory.text,
            known.memory.text,
            similarity=self._space.similarity(known.cosine or 0.0),
            threshold=self._settings.last_known.memory_update_threshold,
            subjects=(memory.subject, known.memory.subject),
        )

    async def _embed(self, text: str) -> tuple[str | None, int | None]:
        try:
            async with asyncio.timeout(EMBED_DEADLINE):
                model = await self._space.model()
                [vector] = await self._space.embed_documents([text])
        except (ModelError, ModelUnavailableError, TimeoutError) as error:
            logger.warning("a fact is stored without a vector for now", exc_info=error)
            return None, None
        return vector, model.id

    async def _refuse(
        self, owner: Owner, candidate: CandidateFact, said: Said, origin: Origin, reason: str
    ) -> Outcome:
        text = None if reason in UNKEEPABLE else candidate.text[:400]
        await self._client.run(
            self._memories.add_rejected,
            owner,
            said.message_id,
            reason=reason,
            text=text,
            origin=origin,
        )
        logger.info("a fact was refused", extra={"reason": reason, "origin": origin})
        return Outcome("refused", candidate.text, f"msg-{said.message_id}", reason=reason)


def _new_memory(
    candidate: CandidateFact, said: Said, origin: Origin, vector: str | None
) -> NewMemory:
    subject = canonical_subject(candidate.subject)
    relation = canonical_relation(candidate.relation)
    period = None
    if candidate.memory_type == "event":
        period = when_valid(candidate.text, said.said_at)
    return NewMemory(
        text=candidate.text,
        memory_type=candidate.memory_type,
        language=detect_language(candidate.text),
        subject=subject,
        relation=relation,
        object=candidate.object[:400],
        importance=candidate.importance,
        origin=origin,
        content_hash=content_hash(candidate.text),
        source=Source(said.message_id, candidate.quote[:1000], said.said_at),
        terms=[*terms(candidate.text), relation_term(relation)],
        vector=vector,
        valid_from=candidate.valid_from or (period.start if period else None),
        valid_until=candidate.valid_until,
        entities=_entities(subject, candidate),
    )


def _entities(subject: str, candidate: CandidateFact) -> list[tuple[str, str, str]]:
    """The person or thing that the fact is about, and what it leads to when that is a name."""
    names = [(candidate.subject, subject, "subject")]
    if len(candidate.object) <= MAX_ENTITY:
        names.append((candidate.object, canonical_subject(candidate.object), "object"))
    return [
        (name[:MAX_ENTITY], " ".join(sorted(set(terms(normal)))) or normal, kind)
        for name, normal, kind in names
        if name.strip() and normal != "user"
    ]


def _is_rival(memory: NewMemory, known: Similar, contradicts: Collection[int]) -> bool:
    """Whether both cannot hold: by a relation with one value, or because a model says so."""
    if known.memory.retired_at is not None:
        return False
    if known.memory.id in contradicts:
        return True
    if not _overlap(memory, known):
        return False
    candidate = CandidateFact(
        text=memory.text,
        memory_type="user_fact",
        importance=memory.importance,
        quote=memory.source.quote,
        subject=memory.subject,
        relation=memory.relation,
        object=memory.object,
    )
    old = known.memory
    return is_update(
        new=candidate, old_subject=old.subject, old_relation=old.relation, old_object=old.object
    )


def _overlap(memory: NewMemory, known: Similar) -> bool:
    """Whether the times in which both hold meet; an open end meets everything."""
    old = known.memory
    starts_after = memory.valid_from and old.valid_until and memory.valid_from >= old.valid_until
    ends_before = memory.valid_until and old.valid_from and memory.valid_until <= old.valid_from
    return not (starts_after or ends_before)


def _said_later(known: Similar, memory: NewMemory) -> bool:
    said_at = known.memory.said_at
    return said_at is not None and said_at > memory.source.said_at


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+", text)
