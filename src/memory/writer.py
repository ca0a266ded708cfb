"""Storage of facts: the gate, duplicates and contradictions, one transaction per fact."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from src.base.owners import Owner
from src.base.zones import first_moment
from src.memory import memory_repo
from src.memory.embedding_space import ServingSpace
from src.memory.forget_matching import spans
from src.memory.memory_repo import Proposal, StoredFact, StoringRepository
from src.memory.thresholds import UNSURE
from src.pg.client import PgClient, Transaction
from src.pg.locks import lock_facts
from src.pg.settings_repo import GlobalSettingsRepository
from src.reading import contradictions, facts, gate
from src.reading.facts import EntityType, Fact, Origin
from src.reading.relative_dates import resolve_dates, when_valid
from src.reading.sentences import sentences
from src.reading.words import entity_keys, kin_of
from src.texts import detect_language

logger = logging.getLogger(__name__)

EMBED_DEADLINE = 5.0  # seconds; a fact without a vector is embedded by the background job
WITHOUT_VECTOR = "a fact is stored without a vector for now"
MAX_ENTITY = 60  # characters; longer objects are sentences, not names
# Relations of the user whose facts have at least their relation's importance, for the prompt.
ALWAYS_KEY = frozenset({facts.WISH, "name", "nickname", "native_language"})
OTHERS_WORDS = "others_words"  # reason of a refusal: the user did not type the message
DISPUTED = "disputed"  # or: the sender was asked about it, so the background does not decide
# Roles of animals; the other roles are those of people.
PETS = frozenset({"dog", "cat", "parrot", "hamster", "tortoise", "horse", "rabbit", "pet"})
ASKING = frozenset({"tool", "teach"})  # origins of facts about which the user can be asked


@dataclass(frozen=True)
class SourceText:
    """A user's message from which facts are extracted.

    Attributes:
        message_id: Its number.
        text: Its text without the time label.
        said_at: When it was written, in the user's own zone (aware), so that "tomorrow" means
            theirs.
    """

    message_id: int
    text: str
    said_at: datetime


OutcomeKind = Literal["new", "same", "update", "outdated", "refused", "beside", "asked", "kept"]


@dataclass(frozen=True)
class Outcome:
    """Result of storing a fact.

    Attributes:
        kind: ``new``; ``same``: a duplicate; ``update``: it replaced others; ``outdated``: a newer
            statement stays current; ``beside``: important facts that it contradicts stay current;
            ``asked``: it is not stored, because the user has to say whether it replaces those;
            ``kept``: the user decided for those; ``refused``.
        text: The fact with its dates beside its words.
        memory_id: Its number; None if it was not stored.
        uid: ``msg-<id>`` of the message.
        replaced: Texts of the facts that it retired, or contradicts.
        reason: Reason of the refusal.
        denied: The important facts that it contradicts.
    """

    kind: OutcomeKind
    text: str
    uid: str
    memory_id: int | None = None
    replaced: tuple[str, ...] = ()
    reason: str | None = None
    denied: tuple[StoredFact, ...] = ()


@dataclass(eq=False, repr=False)
class MemoryWriter:
    """Writer of facts that users told about themselves; duplicates are found by meaning."""

    _client: PgClient
    _space: ServingSpace
    _settings: GlobalSettingsRepository

    def __post_init__(self) -> None:
        """Build the repository on the client."""
        self._memories = memory_repo.MemoryRepository(self._client)

    async def remember(
        self,
        owner: Owner,
        fact: Fact,
        said: SourceText,
        *,
        origin: Origin,
        contradicts: Collection[int] = (),
        is_decided: bool = False,
    ) -> Outcome:
        """Store a fact, unless the gate refuses it or it is a duplicate.

        A pinned or important fact that it contradicts stays: the outcome is ``asked`` where the
        user can be asked, else ``beside``.

        Args:
            owner: Owner of the memory.
            fact: The fact that a model proposes.
            said: The message that is its source.
            origin: The kind of call.
            contradicts: Ids of facts that it replaces according to a model that was shown them;
                it counts if subject and relation agree.
            is_decided: True if the user says so, which always counts.

        Raises:
            StorageError: The database is away; nothing is stored.
        """
        memory = await self.prepare(
            owner, fact, said, origin=origin, contradicts=contradicts, is_decided=is_decided
        )
        if isinstance(memory, Outcome):
            return memory
        outcome = await self._write(owner, memory)
        if outcome.reason == OTHERS_WORDS:
            return await self._refuse(owner, fact, said, origin, OTHERS_WORDS)
        return outcome

    async def prepare(
        self,
        owner: Owner,
        fact: Fact,
        said: SourceText,
        *,
        origin: Origin,
        contradicts: Collection[int] = (),
        is_decided: bool = False,
    ) -> Proposal | Outcome:
        """Return a fact ready for ``store``, or the outcome if the gate refuses it.

        The arguments are those of ``remember``.
        """
        zone = said.said_at.tzinfo or UTC
        start, until = fact.valid_from, fact.valid_until
        if start is not None and start.tzinfo is None:
            start = first_moment(start, zone)
        if until is not None and until.tzinfo is None:
            until = first_moment(until, zone)
        if start is not None and until is not None and until < start:
            until = None
        text = resolve_dates(fact.text, said.said_at)  # with dates beside its words
        changes = {"text": text, "valid_from": start, "valid_until": until}
        resolved = fact.model_copy(update=changes)
        reason = gate.refusal_reason(resolved, said.text)
        if reason is not None:
            return await self._refuse(owner, fact, said, origin, reason)
        row = _new_memory(resolved, said, origin)
        return await self._embed(replace(row, contradicts=[*contradicts], is_decided=is_decided))

    def store(self, transaction: Transaction, owner: Owner, memory: Proposal) -> Outcome:
        """Store a prepared fact within a transaction that has run ``lock_facts``."""
        stored = StoringRepository(transaction, owner)
        text, uid = memory.fact.text, memory.source.uid
        source = stored.find_message(memory.source.message_id)
        if source is None or not spans(source.text, memory.source.quote):
            return Outcome("refused", text, uid, reason="message_gone")
        if not source.is_own and memory.origin != "connected":
            return Outcome("refused", text, uid, reason=OTHERS_WORDS)
        if source.is_disputed and memory.origin == "extraction":
            return Outcome("refused", text, uid, reason=DISPUTED)
        memory = memory.told_by(source)
        quote = memory.fact.quote  # which a model may have trimmed
        said = " ".join(one for one in sentences(source.text) if spans(one, quote))
        same, rivals = self.compare(memory, stored.list_similar(memory), said)
        same, rivals = _prefer_own(memory, same, rivals)
        if any(rival.content_hash == memory.content_hash for rival in rivals):
            memory = replace(memory, content_hash=facts.content_hash(f"{text} {uid}"))
        if same and same[0].retirement is not None:  # the message was processed before
            return Outcome("same", same[0].text, uid, same[0].id)
        older = [rival for rival in rivals if rival.source.said_at <= memory.source.said_at]
        newer = [rival for rival in rivals if rival not in older]
        denied = tuple(rival for rival in older if not memory.may_retire(rival))
        texts = tuple(rival.text for rival in denied)
        if denied and not same and memory.origin in ASKING and not memory.is_decided:
            return Outcome("asked", text, uid, replaced=texts, denied=denied)
        older = [rival for rival in older if rival not in denied]
        outcome = self._store(stored, memory, same, older, newer)
        if denied and outcome.kind == "new":
            return replace(outcome, kind="beside", replaced=texts)
        return outcome

    def _store(
        self,
        stored: StoringRepository,
        memory: Proposal,
        same: Sequence[StoredFact],
        older: Sequence[StoredFact],
        newer: Sequence[StoredFact],
    ) -> Outcome:
        """Insert the fact, or another source of its duplicate; retire what it contradicts."""
        uid, said_at = memory.source.uid, memory.source.said_at
        said = [memory.fact, *(rival.fact for rival in older)]
        inherited = {
            "importance": max(fact.importance for fact in said),
            "pinned": any(fact.pinned for fact in said),
        }
        memory = replace(memory, fact=memory.fact.model_copy(update=inherited))
        kind: OutcomeKind = "new"
        if same:
            kind, number, text = "same", same[0].id, same[0].text
            stored.add_source(number, memory.source)
            stored.touch(number, memory.fact)
        else:
            number, text = stored.add(memory), memory.fact.text
        if newer and not same:  # an old message is read late: newer ones stay current
            successor, until = newer[0].id, newer[0].source.said_at
            stored.retire([number], successor=successor, reason="outdated", until=until)
            return Outcome("outdated", text, uid, number)
        if older:
            kind, ids = "update", [rival.id for rival in older]
            stored.retire(ids, successor=number, reason="replaced", until=said_at)
        if not same:
            stored.retire_surplus(self._settings.last_known.max_memories_per_user)
        return Outcome(kind, text, uid, number, tuple(rival.text for rival in older))

    async def keep_private(
        self,
        owner: Owner,
        text: str,
        private_text: str,
        said: SourceText,
        *,
        contradicts: Collection[int] = (),
    ) -> Outcome:
        """Store the code of a door or a wifi; it replaces one of the same name.

        Args:
            owner: Owner of the memory.
            text: Text with a mask in place of the code.
            private_text: The same text with the code.
            said: The message, masked.
            contradicts: Ids of facts that it replaces.

        Raises:
            StorageError: The database is away; nothing is stored.
        """
        fact = Fact(text=text, importance=memory_repo.IMPORTANT - 1).model_copy(
            update={"memory_type": facts.PRIVATE}
        )
        row = _new_memory(fact, said, "command")
        private = replace(
            row,
            private_text=private_text,
            content_hash=facts.content_hash(private_text),
            contradicts=[*contradicts],
            entities=(),
            is_decided=True,
        )
        return await self._write(owner, await self._embed(private))

    async def _write(self, owner: Owner, memory: Proposal) -> Outcome:
        def work(transaction: Transaction) -> Outcome:
            lock_facts(transaction, owner)
            return self.store(transaction, owner, memory)

        return await self._client.run(self._client.in_transaction, work)

    def compare(
        self, memory: Proposal, similar: Sequence[StoredFact], said: str = ""
    ) -> tuple[list[StoredFact], list[StoredFact]]:
        """Return the facts that say the same, and the current ones that it contradicts.

        Args:
            memory: The new fact.
            similar: The facts to compare it with.
            said: The sentences around its quote.
        """
        same = [one for one in similar if self._is_same(memory, one)]
        rivals = [one for one in similar if one not in same and _is_rival(memory, one, said)]
        return same, rivals

    def _is_same(self, memory: Proposal, other: StoredFact) -> bool:
        if memory.corrects(other) and other.text != memory.fact.text:
            return False
        if other.content_hash == memory.content_hash:
            return True
        if facts.PRIVATE in (memory.fact.memory_type, other.fact.memory_type):
            return False
        settings = self._settings.last_known
        return facts.is_same(
            memory.fact.text,
            other.text,
            similarity=self._space.similarity(other.cosine or 0.0),
            threshold=max(settings.memory_dedup_threshold, settings.memory_update_threshold),
            subjects=(memory.fact.subject, other.fact.subject),
        )

    async def _embed(self, memory: Proposal) -> Proposal:
        vector, model_id = await self._space.embed_within(
            EMBED_DEADLINE, memory.fact.text, is_query=False, otherwise=WITHOUT_VECTOR
        )
        await self._client.run(self._settings.get)  # cached before the transaction
        return replace(memory, vector=vector, model_id=model_id)

    async def _refuse(
        self, owner: Owner, fact: Fact, said: SourceText, origin: Origin, reason: str
    ) -> Outcome:
        text = None if reason == "secret" else fact.text[:400]
        add = partial(self._memories.add_rejected, reason=reason, text=text, origin=origin)
        await self._client.run(add, owner, said.message_id)
        logger.info("a fact was refused", extra={"reason": reason, "origin": origin})
        return Outcome("refused", fact.text, f"msg-{said.message_id}", reason=reason)


def _new_memory(fact: Fact, said: SourceText, origin: Origin) -> Proposal:
    subject = facts.canonical_subject(fact.subject)
    relation = facts.canonical_relation(fact.relation)
    holds = when_valid(fact.text, said.said_at, is_event=fact.memory_type == "event")
    changes: dict[str, Any] = {
        "subject": subject,
        "relation": relation,
        "valid_from": fact.valid_from or holds.start,
        "valid_until": fact.valid_until or holds.end,
    }
    if relation == facts.WISH:
        changes["memory_type"] = "preference"
    known = facts.BY_NAME.get(relation)
    if known is not None and relation in ALWAYS_KEY and subject == "user":
        changes["importance"] = max(fact.importance, known.importance)
    row = fact.model_copy(update=changes)
    return Proposal(
        fact=row,
        language=detect_language(fact.text),
        origin=origin,
        content_hash=facts.content_hash(fact.text),
        source=memory_repo.Source.of_message(said.message_id, fact.quote[:1000], said.said_at),
        terms=memory_repo.fact_terms(fact.text, relation),
        entities=entities_of(subject, relation, fact),
    )


def _prefer_own(
    memory: Proposal, same: list[StoredFact], rivals: list[StoredFact]
) -> tuple[list[StoredFact], list[StoredFact]]:
    """Let one's own words take the place of the same ones of an assistant."""
    if memory.origin == "connected":
        return same, rivals
    lent = [fact for fact in same if fact.is_of_assistant and memory.may_retire(fact)]
    own = [fact for fact in same if fact not in lent]
    return own, [*rivals, *(fact for fact in lent if fact.retirement is None)]


def entities_of(subject: str, relation: str, fact: Fact) -> list[memory_repo.NewEntity]:
    """Return the subject, and the object if that is a name, as entities.

    A role is its canonical word: "мой брат" is ``brother``.
    """
    roles = {kin_of(word) for word in fact.subject.split()} - {None}
    kind: EntityType = "thing"
    if roles:
        kind = "pet" if roles & PETS else "person"
    value = facts.VALUE_TYPES.get(relation, "thing")
    if relation == "name":
        value = kind
    if kind == "thing" and value in ("person", "organisation", "place"):
        kind = "person"  # who lives, works and has relatives
    found = [(fact.subject, subject if roles else fact.subject, kind)]
    if len(fact.object) <= MAX_ENTITY:
        role = facts.canonical_subject(fact.object)
        is_role = any(kin_of(word) for word in fact.object.split())
        found.append((fact.object, role if is_role else fact.object, value))
    return [
        memory_repo.NewEntity(name[:MAX_ENTITY], entity_keys(written), type_)
        for name, written, type_ in found
        if facts.canonical_subject(name) != "user" and entity_keys(written)
    ]


def _is_rival(memory: Proposal, other: StoredFact, said: str) -> bool:
    """Return True if a fact contradicts a stored one: it replaces it, or is asked about."""
    if other.retirement is not None:
        return False
    if memory.corrects(other):
        return True
    kinds = {memory.fact.memory_type, other.fact.memory_type}
    if facts.PRIVATE in kinds:
        return len(kinds) == 1 and facts.normalise(memory.fact.text) == facts.normalise(other.text)
    if other.source.uid == memory.source.uid:
        return False  # one message tells both
    said_at = memory.source.said_at
    later = max(said_at, other.source.said_at)
    # "In Rome until Friday" ends no home.
    is_passing = memory.fact.valid_until is not None and other.fact.valid_until is None
    if is_passing or not _is_now(memory.fact, said_at) or not _is_now(other.fact, later):
        return False
    if memory.fact.confidence < min(UNSURE, other.fact.confidence):
        return False
    if other.id in memory.contradicts:
        return contradictions.may_replace(memory.fact, other.fact, said)
    return contradictions.replaces(memory.fact, other.fact, said)


def _is_now(fact: Fact, moment: datetime) -> bool:
    """Return True if a fact holds at a moment, as far as its period says."""
    has_ended = fact.valid_until is not None and fact.valid_until <= moment
    return not has_ended and (fact.valid_from is None or fact.valid_from <= moment)
