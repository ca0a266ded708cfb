"""Writes facts: the gate, then duplicates and contradictions, in one transaction per fact."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Literal

from src.base.errors import ModelError, ModelUnavailableError
from src.base.owners import Owner
from src.memory.cutting import spans
from src.memory.embedding_space import ServingSpace
from src.memory.memory_repo import Memory, MemoryRepository, NewMemory, Similar, Source, Telling
from src.pg.client import PgClient, Transaction
from src.pg.global_settings_repo import GlobalSettingsRepository
from src.pg.locks import lock_facts
from src.reading.contradictions import ended_relations, replaces
from src.reading.facts import (
    WISH,
    Fact,
    Origin,
    canonical_relation,
    canonical_subject,
    content_hash,
    is_same,
    is_update,
)
from src.reading.gate import refuse
from src.reading.relations import BY_NAME, relation_term
from src.reading.relative_dates import resolve_dates, when_valid
from src.texts import detect_language
from src.texts.morphology import terms

logger = logging.getLogger(__name__)

EMBED_DEADLINE = 5.0  # seconds; a fact without a vector is embedded by the background job
MAX_ENTITY = 60  # characters; longer objects are sentences, not names
# Relations of the user himself whose facts are never too unimportant for the prompt.
ALWAYS_KEY = frozenset({WISH, "name", "nickname", "native_language"})
# Refusals whose text must not be kept anywhere.
UNKEEPABLE = frozenset({"secret"})
OTHERS_WORDS = "others_words"  # why a fact is refused that the user did not type himself
DISPUTED = "disputed"  # or that its writer was asked about: the background does not decide it
IMPORTANT = 8  # importance of name, family, health (see ``prompts/extraction.py``)


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
            newer statement stands; ``refused``. Where the user was asked: ``beside``: it stands
            beside what it denies; ``kept``: that stands, and this was not stored.
        text: The fact, with its dates resolved.
        memory_id: Its number; None when refused.
        uid: ``msg-<id>`` of the message.
        replaced: Texts of the facts that it retired, or denies.
        reason: Why it was refused.
    """

    kind: Literal["new", "same", "update", "outdated", "refused", "beside", "kept"]
    text: str
    uid: str
    memory_id: int | None = None
    replaced: tuple[str, ...] = ()
    reason: str | None = None


def is_important(memory: Memory) -> bool:
    """Whether strict mode asks before a fact is replaced."""
    return memory.pinned or memory.importance >= IMPORTANT


def _spares_none(_memory: Memory) -> bool:
    return False


@dataclass(frozen=True)
class _Compared:
    """A new fact among those that are like it.

    Attributes:
        memory: The new one.
        known: One that says the same.
        rivals: Those that cannot hold beside it.
    """

    memory: NewMemory
    known: Similar | None
    rivals: Sequence[Similar]

    @property
    def older(self) -> list[Similar]:
        """The rivals that it takes the place of."""
        return [rival for rival in self.rivals if not _said_later(rival, self.memory)]


class MemoryWriter:
    """Stores what a user said about himself, once; nothing else gets in."""

    def __init__(
        self,
        client: PgClient,
        memories: MemoryRepository,
        space: ServingSpace,
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
        fact: Fact,
        said: Said,
        *,
        origin: Origin,
        contradicts: Collection[int] = (),
        spares: Callable[[Memory], bool] = _spares_none,
    ) -> Outcome:
        """Store a fact, unless the gate refuses it or it is known.

        Args:
            owner: Whose fact it is.
            fact: What a model proposes.
            said: The message that is its source.
            origin: What kind of call this is.
            contradicts: Ids of facts that it takes the place of: those of ``fact.replaces`` that
                the model was shown, or those that it found in another way.
            spares: Which known facts stay, though this one denies them.

        Raises:
            StorageError: The database is away; nothing is stored.
        """
        resolved, reason = _resolved(fact, said)
        if reason is not None:
            return await self._refuse(owner, fact, said, origin, reason)
        vector, model_id = await self._embed(resolved.text)
        memory = _new_memory(resolved, said, origin, vector)
        await self._client.run(self._settings.get)  # within the transaction none is fetched

        def work(transaction: Transaction) -> Outcome:
            lock_facts(transaction, owner)
            found = self._compare(transaction, owner, memory, model_id, contradicts)
            if isinstance(found, Outcome):
                return found
            rivals = [rival for rival in found.rivals if not spares(rival.memory)]
            return self._store(transaction, owner, replace(found, rivals=rivals), model_id)

        outcome: Outcome = await self._client.run(self._client.in_transaction, work)
        if outcome.reason == OTHERS_WORDS:
            return await self._refuse(owner, fact, said, origin, OTHERS_WORDS)
        return outcome

    async def find_rivals(
        self, owner: Owner, fact: Fact, said: Said, *, contradicts: Collection[int] = ()
    ) -> list[Memory]:
        """The known facts that ``remember`` would retire now; nothing is stored.

        Raises:
            StorageError: The database is away.
        """
        resolved, reason = _resolved(fact, said)
        if reason is not None:
            return []
        vector, model_id = await self._embed(resolved.text)
        memory = _new_memory(resolved, said, "teach", vector)
        await self._client.run(self._settings.get)
        found = await self._client.run(
            self._client.in_transaction,
            lambda t: self._compare(t, owner, memory, model_id, contradicts),
        )
        return [] if isinstance(found, Outcome) else [rival.memory for rival in found.older]

    def compare(
        self, memory: NewMemory, similar: Sequence[Similar]
    ) -> tuple[list[Similar], list[Similar]]:
        """Which living facts say the same, and which cannot hold beside it, by rule."""
        same = [entry for entry in similar if self._is_same(memory, entry)]
        rivals = [k for k in similar if k not in same and _is_rival(memory, k, ())]
        return same, rivals

    def with_terms(self, memory: NewMemory) -> NewMemory:
        """A stored fact with its search terms, as it was when it was new."""
        return replace(memory, terms=fact_terms(memory.fact.text, memory.fact.relation))

    def _compare(
        self,
        transaction: Transaction,
        owner: Owner,
        memory: NewMemory,
        model_id: int | None,
        contradicts: Collection[int],
    ) -> _Compared | Outcome:
        """What is known like it; or why its message cannot tell it."""
        text, uid = memory.fact.text, memory.source.uid
        said = self._memories.find_message(transaction, owner, memory.source.message_id)
        if said is None or not spans(said.text, memory.source.quote):
            return Outcome("refused", text, uid, reason="message_gone")
        if not said.is_own:
            return Outcome("refused", text, uid, reason=OTHERS_WORDS)
        if said.is_disputed and memory.origin == "extraction":
            return Outcome("refused", text, uid, reason=DISPUTED)
        memory = _told_by(memory, said)
        similar = self._memories.list_similar(
            transaction, owner, memory, model_id,
            contradicts=contradicts, ended=ended_relations(text),
        )  # fmt: skip
        known = next((entry for entry in similar if self._is_same(memory, entry)), None)
        rivals = [k for k in similar if k is not known and _is_rival(memory, k, contradicts)]
        return _Compared(memory, known, rivals)

    def _store(
        self, transaction: Transaction, owner: Owner, found: _Compared, model_id: int | None
    ) -> Outcome:
        memory, older = found.memory, found.older
        text, uid = memory.fact.text, memory.source.uid
        if found.known is not None:
            return self._say_again(transaction, owner, memory, found.known, older)
        newer = [rival for rival in found.rivals if _said_later(rival, memory)]
        added = self._memories.add(transaction, owner, _inheriting(memory, older), model_id)
        if newer:  # an old message is read late: what was said after it stands
            self._memories.retire(
                transaction, owner, [added], successor=newer[0].memory.id, reason="outdated",
                until=newer[0].memory.said_at,
            )  # fmt: skip
            return Outcome("outdated", text, uid, added)
        self._retire(transaction, owner, added, older, memory.source.said_at)
        limit = self._settings.last_known.max_memories_per_user
        self._memories.retire_surplus(transaction, owner, limit)
        replaced = tuple(entry.memory.text for entry in older)
        return Outcome("update" if older else "new", text, uid, added, replaced)

    def _say_again(
        self,
        transaction: Transaction,
        owner: Owner,
        memory: NewMemory,
        known: Similar,
        older: Sequence[Similar],
    ) -> Outcome:
        """A known fact was said once more: what it denies holds no more from now on."""
        number, text = known.memory.id, known.memory.text
        if known.memory.retired_at is not None:  # the message is read once more
            return Outcome("same", text, memory.source.uid, number)
        self._memories.add_source(transaction, owner, number, memory.source)
        self._memories.touch(transaction, owner, number, _inheriting(memory, older).fact)
        self._retire(transaction, owner, number, older, memory.source.said_at)
        replaced = tuple(entry.memory.text for entry in older)
        kind: Literal["same", "update"] = "update" if older else "same"
        return Outcome(kind, text, memory.source.uid, number, replaced)

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
            memory.fact.text,
            known.memory.text,
            similarity=self._space.similarity(known.cosine or 0.0),
            threshold=self._settings.last_known.memory_update_threshold,
            subjects=(memory.fact.subject, known.memory.subject),
        )

    async def _embed(self, text: str) -> tuple[str | None, int | None]:
        try:
            async with asyncio.timeout(EMBED_DEADLINE):
                space = await self._space.current()
                model = await space.model()
                [vector] = await space.embed_documents([text])
        except (ModelError, ModelUnavailableError, TimeoutError) as error:
            logger.warning("a fact is stored without a vector for now", exc_info=error)
            return None, None
        return vector, model.id

    async def _refuse(
        self, owner: Owner, fact: Fact, said: Said, origin: Origin, reason: str
    ) -> Outcome:
        text = None if reason in UNKEEPABLE else fact.text[:400]
        add = partial(self._memories.add_rejected, reason=reason, text=text, origin=origin)
        await self._client.run(add, owner, said.message_id)
        logger.info("a fact was refused", extra={"reason": reason, "origin": origin})
        return Outcome("refused", fact.text, f"msg-{said.message_id}", reason=reason)


def _resolved(fact: Fact, said: Said) -> tuple[Fact, str | None]:
    """A fact with its dates resolved, and why the gate refuses it."""
    text = resolve_dates(fact.text, said.said_at)
    if text is None:
        return fact, "unclear_date"
    numbers = frozenset(_numbers(text)) - frozenset(_numbers(fact.text))
    resolved = fact.model_copy(update={"text": text})
    return resolved, refuse(resolved, said.text, allowed_numbers=numbers)


def _new_memory(fact: Fact, said: Said, origin: Origin, vector: str | None) -> NewMemory:
    subject = canonical_subject(fact.subject)
    relation = canonical_relation(fact.relation)
    period = when_valid(fact.text, said.said_at) if fact.memory_type == "event" else None
    known = BY_NAME.get(relation)
    is_key = known is not None and relation in ALWAYS_KEY and subject == "user"
    row = fact.model_copy(
        update={
            "subject": subject,
            "relation": relation,
            "memory_type": "preference" if relation == WISH else fact.memory_type,
            "importance": max(fact.importance, known.importance if known and is_key else 0),
            "valid_from": fact.valid_from or (period.start if period else None),
        }
    )
    return NewMemory(
        fact=row,
        language=detect_language(fact.text),
        origin=origin,
        content_hash=content_hash(fact.text),
        source=Source(said.message_id, fact.quote[:1000], said.said_at),
        terms=fact_terms(fact.text, relation),
        vector=vector,
        entities=_entities(subject, fact),
    )


def _told_by(memory: NewMemory, telling: Telling) -> NewMemory:
    """The fact of the member who told it, where the owner is a group."""
    if telling.speaker_id is None:
        return memory
    return replace(
        memory,
        speaker_id=telling.speaker_id,
        speaker=telling.speaker,
        content_hash=content_hash(memory.fact.text, telling.speaker_id),
    )


def fact_terms(text: str, relation: str) -> list[str]:
    """The search terms of a fact: its words, and its relation for questions that ask for it."""
    return [*terms(text), relation_term(relation)]


def _entities(subject: str, fact: Fact) -> list[tuple[str, str]]:
    """The person or thing that the fact is about, and what it leads to when that is a name."""
    names = [(fact.subject, subject)]
    if len(fact.object) <= MAX_ENTITY:
        names.append((fact.object, canonical_subject(fact.object)))
    return [
        (name[:MAX_ENTITY], " ".join(sorted(set(terms(normal)))) or normal)
        for name, normal in names
        if name.strip() and normal != "user"
    ]


def _inheriting(memory: NewMemory, replaced: Sequence[Similar]) -> NewMemory:
    """What takes the place of a fact is as important as it was, and pinned if it was."""
    if not replaced:
        return memory
    inherited = {
        "importance": max(memory.fact.importance, *(k.memory.importance for k in replaced)),
        "pinned": memory.fact.pinned or any(k.memory.pinned for k in replaced),
    }
    return replace(memory, fact=memory.fact.model_copy(update=inherited))


def _is_rival(memory: NewMemory, known: Similar, contradicts: Collection[int]) -> bool:
    """Whether both cannot hold: because a model says so, or by a rule."""
    if known.memory.retired_at is not None:
        return False
    if known.memory.id in contradicts:
        return True
    if not _overlap(memory, known):
        return False
    old = _as_fact(known.memory)
    if known.memory.uid == memory.source.uid:  # one message tells both: "quit, a driver now"
        return is_update(memory.fact, old)
    return replaces(memory.fact, old)


def _as_fact(memory: Memory) -> Fact:
    return Fact(
        text=memory.text, subject=memory.subject, relation=memory.relation, object=memory.object
    )


def _overlap(memory: NewMemory, known: Similar) -> bool:
    """Whether the times in which both hold meet; an open end meets everything."""
    new, old = memory.fact, known.memory
    starts_after = new.valid_from and old.valid_until and new.valid_from >= old.valid_until
    ends_before = new.valid_until and old.valid_from and new.valid_until <= old.valid_from
    return not (starts_after or ends_before)


def _said_later(known: Similar, memory: NewMemory) -> bool:
    return known.memory.said_at > memory.source.said_at


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+", text)
