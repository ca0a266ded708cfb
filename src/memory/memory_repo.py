"""Repository of facts: deduplicated, with their sources, retired instead of overwritten."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from src.base.owners import Owner
from src.history.turn_repo import NewAnswer
from src.memory.change_repo import ChangeRepository
from src.memory.search_index_repo import NewDocument, add_documents, add_told
from src.pg.client import PATIENT, OwnerSteps, Repository, Transaction, storable
from src.reading.facts import (
    MEMORY_TYPES,
    PRIVATE,
    WISH,
    EntityType,
    Fact,
    Origin,
    content_hash,
    fact_number,
    relation_term,
)
from src.texts.morphology import terms

KINDS = [*MEMORY_TYPES, PRIVATE]  # in listing order


@dataclass(frozen=True)
class ReplacedFact:
    """A fact that another one replaced; ``until`` is when it stopped being true, if known."""

    id: int
    text: str
    until: datetime | None


@dataclass(frozen=True)
class Source:
    """Source of a fact: the message that told it, and its exact words.

    Attributes:
        message_id: The message, if it still exists.
        quote: Its exact words; empty if they are not known.
        said_at: When it was written.
        uid: ``msg-<id>``, even if it was deleted.
        speaker_id: In a group, the member who told it, who is "user" in the fact.
        speaker: Their name.
    """

    message_id: int | None
    quote: str
    said_at: datetime
    uid: str
    speaker_id: int | None = None
    speaker: str | None = None

    @classmethod
    def of_message(cls, message_id: int, quote: str, said_at: datetime) -> Self:
        """Return a message of the owner as a source."""
        return cls(message_id, quote, said_at, f"msg-{message_id}")

    @property
    def episode(self) -> str:
        """The id of the teaching."""
        return f"teach_{self.uid}"


@dataclass(frozen=True)
class Retirement:
    """Retirement of a fact.

    Attributes:
        at: When it was retired.
        reason: Why.
        superseded_by: The number of its successor.
        replaced_by: The text of its successor.
    """

    at: datetime
    reason: str
    superseded_by: int | None
    replaced_by: str | None


@dataclass(frozen=True)
class StoredFact:
    """A stored fact: a row of the view ``facts``, as ``fact_query`` selects it.

    Attributes:
        id: Its number.
        fact: What it says, with canonical subject and relation.
        source: Its newest source.
        retirement: Its retirement; None for a current fact.
        past: The facts that it replaced, the latest first.
        origin: The kind of call that stored it.
        created_at: When it was stored.
        content_hash: Hash of its text.
        cosine: Of its embedding and that of a fact with which it is compared.
    """

    id: int
    fact: Fact
    source: Source
    retirement: Retirement | None = None
    past: tuple[ReplacedFact, ...] = ()
    origin: str = ""
    created_at: datetime | None = None
    content_hash: str = ""
    cosine: float | None = None

    @classmethod
    def from_row(cls, *row: Any) -> Self:
        """Build a fact from ``{fact}``, or that and its past."""
        fact = Fact.model_construct(**dict(zip(FACT_COLUMNS, row[1:12], strict=True)))
        message_id, *told = row[12:17]
        source = Source(message_id, fact.quote, *told)
        retirement = None
        if row[17] is not None:
            retirement = Retirement(*row[17:21])
        columns = zip(*(values or () for values in row[24:]), strict=True)
        past = tuple(ReplacedFact(*one) for one in columns)
        return cls(row[0], fact, source, retirement, past, *row[21:24])

    @property
    def text(self) -> str:
        """The statement, in the user's language."""
        return self.fact.text

    @property
    def is_important(self) -> bool:
        """True if only the user replaces it, by a tap or a correction.

        A wish about the answers changes with the next one, unless it is pinned.
        """
        fact = self.fact
        return fact.pinned or (fact.importance >= IMPORTANT and fact.relation != WISH)

    @property
    def is_of_assistant(self) -> bool:
        """True if a connected assistant stored it: its speaker is no member of a group."""
        return self.source.speaker is not None and self.source.speaker_id is None


IMPORTANT = 8  # importance of name, family, health (see ``prompts.py``)

# Columns of the view ``facts`` in the order of ``StoredFact.from_row``.
FACT_COLUMNS = [name for name in Fact.model_fields if name not in ("message", "replaces")]
OTHER_COLUMNS = (
    "f.message_id, f.said_at, f.uid, f.speaker_id, f.speaker, f.retired_at, f.retired_reason, "
    "f.superseded_by, f.replaced_by, f.origin, f.created_at, f.content_hash"
)


def fact_query(sql: str, **parts: str) -> str:
    """Return a statement on the view ``facts f``, with the columns of ``StoredFact`` filled in.

    Args:
        sql: A template, in which ``{fact}`` stands for these columns.
        parts: Further constants for the template.
    """
    fact = ", ".join(f"f.{name}" for name in FACT_COLUMNS)
    fact = fact.replace("f.quote", "coalesce(f.quote, '')")
    return sql.format(fact=f"f.id, {fact}, {OTHER_COLUMNS}", **parts)


@dataclass(frozen=True)
class FactQuery:
    """Filter, order and page of an owner's facts.

    Attributes:
        order: ``newest``; ``kind``: by kind, in each the pinned first, then the newest;
            ``weight``: the pinned first, then the most important, without private facts.
        ids: Only these facts.
        kind: Only this one of ``MEMORY_TYPES``.
        is_living: True for current facts, False for retired ones, None for both.
        is_pinned: True for pinned facts only.
        is_valid: True to leave out what is over.
        text: Only facts whose text contains this, ignoring case.
        before: Only facts with a lower number.
        limit: Maximum number of facts.
        offset: Number of facts to skip.
    """

    order: Literal["newest", "kind", "weight"] = "newest"
    ids: Sequence[int] | None = None
    kind: str | None = None
    is_living: bool | None = True
    is_pinned: bool = False
    is_valid: bool = False
    text: str = ""
    before: int | None = None
    limit: int = 1000
    offset: int = 0


@dataclass(frozen=True)
class CurrentSource:
    """Current state of the message that tells a fact.

    Attributes:
        text: Its text without the time label.
        is_own: True if the sender typed it.
        speaker_id: In a group, the sender.
        speaker: The sender's name in the group; of words of others, their author.
        is_disputed: True if the sender is or was asked which fact it replaces.
    """

    text: str
    is_own: bool
    speaker_id: int | None = None
    speaker: str | None = None
    is_disputed: bool = False


@dataclass(frozen=True)
class SourceMessage:
    """Message behind a reference.

    Attributes:
        text: The message, or the quote if the message was deleted.
        said_at: When it was written.
        chat_id: With ``telegram_message_id``: its place in Telegram, if known.
        telegram_message_id: See ``chat_id``.
        bot_id: The bot under which ``telegram_message_id`` counts.
        is_bots: True if the bot wrote it.
        imported_from: Where it was written, if it is imported.
    """

    text: str
    said_at: datetime
    chat_id: int | None = None
    telegram_message_id: int | None = None
    bot_id: int | None = None
    is_bots: bool = False
    imported_from: str | None = None


@dataclass(frozen=True)
class NewEntity:
    """Person, place or thing that a fact is about.

    Attributes:
        name: Its name, as the fact has it.
        keys: For each word of the name the dictionary forms that it may have.
        entity_type: What it is.
    """

    name: str
    keys: Sequence[frozenset[str]]
    entity_type: EntityType


@dataclass(frozen=True)
class Proposal:
    """A fact to store, with canonical subject and relation, and the other columns of its row.

    Attributes:
        fact: The fact.
        content_hash: Hash of its text.
        source: Its source.
        terms: Its search terms.
        language: Language of its text.
        origin: The kind of call that stores it.
        vector: Its embedding, if there is one yet.
        model_id: The model of ``vector``, whose vectors it is compared with.
        contradicts: Ids of facts that it replaces, according to its proposer.
        is_decided: True if the user says that it replaces those.
        entities: Its subject and object.
        private_text: For a private fact, its text with the secret, which ``fact`` has masked.
    """

    fact: Fact
    content_hash: str
    source: Source
    terms: Sequence[str]
    language: str = ""
    origin: Origin = "extraction"
    vector: str | None = None
    model_id: int | None = None
    contradicts: list[int] = field(default_factory=list)
    is_decided: bool = False
    entities: Sequence[NewEntity] = ()
    private_text: str | None = None

    def told_by(self, sender: CurrentSource) -> Self:
        """Return the same of the member of a group, or of the assistant, who sent the message."""
        if sender.speaker_id is None and self.origin != "connected":
            return self
        return replace(
            self,
            source=replace(self.source, speaker_id=sender.speaker_id, speaker=sender.speaker),
            content_hash=content_hash(self.fact.text, sender.speaker_id),
        )

    def corrects(self, other: StoredFact) -> bool:
        """Return True if the user says that it replaces this fact."""
        return self.is_decided and other.id in self.contradicts

    def may_retire(self, other: StoredFact) -> bool:
        """Return True if no tap of the user is needed, as for a pinned or important fact.

        A connected assistant retires only what such assistants stored.
        """
        if self.origin == "connected" and not other.is_of_assistant:
            return False
        is_asked_for = self.private_text is not None or other.id in self.contradicts
        return (self.is_decided and is_asked_for) or not other.is_important


def count_recalls(transaction: Transaction, answer: NewAnswer) -> None:
    """Count a recall of each fact among an answer's sources; a step of storing the answer."""
    ids = [source.memory_id for source in answer.sources if source.memory_id is not None]
    if ids:
        params = {"conversation_id": answer.conversation_id, "memory_ids": ids}
        transaction.execute(COUNT_RECALLS, params)


def fact_terms(text: str, relation: str) -> list[str]:
    """Return a fact's search terms: its words, and its relation for questions that ask for it."""
    return [*terms(text), relation_term(relation)]


def message_number(uid: str) -> int | None:
    """Return 12 for ``msg-12``, None for anything else."""
    return fact_number(uid, "msg-")


# One page of an owner's facts.
FACT_PAGE = """
WHERE f.owner_id = %(owner)s
  AND (%(ids)s::bigint[] IS NULL OR f.id = ANY(%(ids)s))
  AND (%(is_living)s::boolean IS NULL OR (f.retired_at IS NULL) = %(is_living)s)
  AND (%(kind)s::text IS NULL OR f.memory_type = %(kind)s)
  AND (NOT %(is_pinned)s OR f.pinned)
  AND (NOT %(is_valid)s OR f.valid_until IS NULL OR f.valid_until > now())
  AND (%(text)s = '' OR strpos(lower(f.text), lower(%(text)s)) > 0)
  AND (%(before)s::bigint IS NULL OR f.id < %(before)s)
  AND (%(order)s <> 'weight' OR f.memory_type <> 'private')
  AND f.retired_reason IS DISTINCT FROM 'forgotten'
ORDER BY {order} LIMIT %(limit)s OFFSET %(offset)s
"""
# Facts with those that each replaced; the page is selected before sources and past are joined.
SELECT_PAGE = """
WITH page AS MATERIALIZED (SELECT f.id FROM memories f {page})
SELECT {fact}, past.ids, past.texts, past.untils
FROM page JOIN facts f ON f.id = page.id, LATERAL (
    SELECT array_agg(id ORDER BY retired_at DESC, id DESC) AS ids,
           array_agg(text ORDER BY retired_at DESC, id DESC) AS texts,
           array_agg(valid_until ORDER BY retired_at DESC, id DESC) AS untils
    FROM memories
    WHERE superseded_by = f.id AND retired_reason = 'replaced' AND owner_id = f.owner_id
) AS past
ORDER BY {order}
"""
BY_KIND = """
array_position(%(kinds)s::text[], f.memory_type), f.pinned DESC, f.created_at DESC, f.id DESC
"""
BY_WEIGHT = "f.pinned DESC, f.importance DESC, f.created_at DESC, f.id DESC"
SELECT_FACTS = {
    name: fact_query(SELECT_PAGE, page=FACT_PAGE.format(order=order), order=order)
    for name, order in (("newest", "f.id DESC"), ("kind", BY_KIND), ("weight", BY_WEIGHT))
}

# Current facts with which the background replaced others since the answer before this one.
SELECT_REPLACED_BEHIND = """
SELECT DISTINCT new.id
FROM memories old JOIN memories new ON new.id = old.superseded_by AND new.retired_at IS NULL
WHERE old.owner_id = %(owner)s AND old.retired_reason = 'replaced' AND new.origin = 'extraction'
  AND old.retired_at > (SELECT max(m.created_at)
                        FROM messages m JOIN conversations c ON c.id = m.conversation_id
                        WHERE c.id = %(conversation_id)s AND c.owner_id = %(owner)s
                          AND m.role = 'assistant' AND m.id < %(answer_id)s)
ORDER BY new.id LIMIT 20
"""

# Number of current facts: of some owners (as a subquery), of all owners, of one owner by kind.
COUNT_LIVING = """
SELECT owner_id, count(*) AS facts FROM memories
WHERE owner_id = ANY(%(owners)s) AND retired_at IS NULL GROUP BY owner_id
"""
COUNT_ALL = "SELECT count(*) FROM memories WHERE retired_at IS NULL"  # slow: needs PATIENT
COUNT_KINDS = """
SELECT memory_type, count(*) FROM memories
WHERE owner_id = %(owner)s AND retired_at IS NULL
GROUP BY memory_type
"""

# Pin or unpin a current fact; in a group only the member who told it may do so.
UPDATE_PINNED = """
UPDATE memories SET pinned = %(pinned)s, updated_at = now()
WHERE id = %(memory_id)s AND owner_id = %(owner)s
  AND retired_at IS NULL
  AND (%(asker)s::bigint IS NULL OR speaker_id IS NULL OR speaker_id = %(asker)s)
"""

# The message behind a reference, or an answer of the bot; only the owner's.
SELECT_SOURCE = """
SELECT message_text(m.content), m.said_at, coalesce(m.chat_id, asked.chat_id),
       coalesce(abs(m.telegram_message_id), m.sent_message_ids[1]),
       coalesce(m.bot_id, asked.bot_id), m.role = 'assistant',
       CASE m.provenance WHEN 'imported' THEN m.origin END
FROM messages m JOIN conversations c ON c.id = m.conversation_id
LEFT JOIN messages asked ON asked.id = m.reply_to_id
WHERE m.id = %(message_id)s AND c.owner_id = %(owner)s AND m.role IN ('user', 'assistant')
  AND NOT m.is_forgotten
"""

# The quote that a fact keeps of a message that was deleted.
SELECT_QUOTE = """
SELECT s.quote, s.said_at
FROM memory_sources s JOIN memories f ON f.id = s.memory_id
WHERE s.uid = %(uid)s AND f.owner_id = %(owner)s
ORDER BY s.id DESC LIMIT 1
"""

# The message of an episode.
SELECT_UID_BY_EPISODE = """
SELECT s.uid FROM memory_sources s JOIN memories f ON f.id = s.memory_id
WHERE s.episode = %(episode)s AND f.owner_id = %(owner)s
LIMIT 1
"""

# A message of the owner that may be remembered, as it reads now or as /new saved it for the
# digest; in a group with the sender, who is "user" in it.
SELECT_CURRENT_SOURCE = """
SELECT message_text(m.content), m.provenance IN ('typed', 'imported'),
       CASE WHEN %(user)s < 0 THEN m.sender_id END, coalesce(m.speaker, m.origin), m.is_disputed
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = %(message_id)s AND m.role = 'user' AND NOT m.is_forgotten AND NOT m.is_private
  AND c.owner_id = %(owner)s
UNION ALL
SELECT message_text(p.content), true,
       CASE WHEN %(user)s < 0 THEN p.sender_id END, p.speaker, false
FROM parting_messages p
WHERE p.message_id = %(message_id)s AND p.owner_id = %(owner)s
"""

# Current facts that a new one might repeat or replace, of the same member if the owner is a group:
# same words, same subject and relation, named by a model, most words in common, or nearest by
# meaning. Also facts that its message told before, current or retired.
SELECT_SIMILAR = fact_query("""
WITH living AS (
    SELECT f.id, -(e.embedding <#> %(vector)s::halfvec) AS cosine
    FROM memories f
    JOIN search_documents d ON d.memory_id = f.id
    JOIN document_embeddings e ON e.document_id = d.id AND e.model_id = %(model)s
    WHERE f.owner_id = %(owner)s
      AND f.retired_at IS NULL
), chosen AS (
    SELECT id FROM memories
    WHERE owner_id = %(owner)s AND retired_at IS NULL
      AND (content_hash = %(content_hash)s
           OR (subject = %(subject)s AND relation = %(relation)s) OR id = ANY(%(contradicts)s))
    UNION (SELECT d.memory_id
           FROM search_postings p JOIN search_documents d ON d.id = p.document_id
           JOIN memories known ON known.id = d.memory_id AND known.retired_at IS NULL
           WHERE p.owner_id = %(owner)s
             AND p.term = ANY(%(terms)s)
           GROUP BY d.memory_id ORDER BY count(*) DESC, d.memory_id DESC LIMIT 30)
    UNION (SELECT id FROM living WHERE cosine IS NOT NULL ORDER BY cosine DESC, id LIMIT 5)
    UNION SELECT memory_id FROM memory_sources WHERE episode = %(episode)s
)
SELECT {fact}, -(e.embedding <#> %(vector)s::halfvec) AS cosine
FROM chosen
JOIN facts f ON f.id = chosen.id AND f.owner_id = %(owner)s
     AND f.speaker_id IS NOT DISTINCT FROM %(speaker_id)s
     AND f.retired_reason IS DISTINCT FROM 'edited'
LEFT JOIN search_documents d ON d.memory_id = f.id
LEFT JOIN document_embeddings e ON e.document_id = d.id AND e.model_id = %(model)s
ORDER BY f.retired_at IS NULL, f.content_hash = %(content_hash)s DESC, cosine DESC NULLS LAST, f.id
""")

# Insert a fact.
INSERT_MEMORY = """
INSERT INTO memories (owner_id, memory_type, text, language, subject, relation, object,
                      importance, confidence, pinned, origin, valid_from, valid_until,
                      content_hash, speaker_id, speaker, private_text)
VALUES (%(owner)s, %(memory_type)s, %(text)s, %(language)s, %(subject)s, %(relation)s, %(object)s,
        %(importance)s, %(confidence)s, %(pinned)s, %(origin)s, %(valid_from)s,
        %(valid_until)s, %(content_hash)s, %(speaker_id)s, %(speaker)s, %(private_text)s)
RETURNING id
"""

# Link a fact to its message, once per message.
INSERT_SOURCE = """
INSERT INTO memory_sources (memory_id, message_id, sender_id, author_id, uid, episode, quote,
                            said_at)
SELECT f.id, m.id, coalesce(m.sender_id, p.sender_id), m.author_id, %(uid)s, %(episode)s,
       %(quote)s, %(said_at)s
FROM memories f
LEFT JOIN parting_messages p ON p.message_id = %(message_id)s AND p.owner_id = %(owner)s
LEFT JOIN (messages m JOIN conversations c ON c.id = m.conversation_id
           AND c.owner_id = %(owner)s)
     ON m.id = %(message_id)s
WHERE f.id = %(memory_id)s AND f.owner_id = %(owner)s
ON CONFLICT ON CONSTRAINT memory_sources_once DO NOTHING
"""

# A known fact was said again: update its time, importance and pin.
TOUCH_MEMORY = """
UPDATE memories SET updated_at = now(), importance = greatest(importance, %(importance)s),
       pinned = pinned OR %(pinned)s
WHERE id = %(memory_id)s AND owner_id = %(owner)s
"""

# Somebody or something that a fact is about: an entity of which each word may be a form of the
# same word, or a new one.
INSERT_ENTITY = """
WITH known AS (
    SELECT normalised_name FROM entities
    WHERE owner_id = %(owner)s
      AND string_to_array(normalised_name, ' ') <@ %(forms)s::text[]
      AND cardinality(string_to_array(normalised_name, ' ')) = %(words)s
    ORDER BY normalised_name <> %(key)s, id LIMIT 1
), added AS (
    INSERT INTO entities (owner_id, name, normalised_name, entity_type)
    SELECT %(owner)s, %(name)s, coalesce((SELECT normalised_name FROM known), %(key)s),
           %(entity_type)s
    ON CONFLICT ON CONSTRAINT entities_once DO UPDATE
    SET entity_type = coalesce(nullif(entities.entity_type, 'thing'), EXCLUDED.entity_type)
    RETURNING id
)
INSERT INTO memory_entities (memory_id, entity_id)
SELECT f.id, added.id FROM added, memories f
WHERE f.id = %(memory_id)s AND f.owner_id = %(owner)s
ON CONFLICT DO NOTHING
"""

# Retire facts, with their successor.
RETIRE = """
UPDATE memories
SET retired_at = now(), retired_reason = %(reason)s, superseded_by = %(successor)s,
    valid_until = coalesce(valid_until, %(until)s)
WHERE id = ANY(%(ids)s) AND owner_id = %(owner)s
  AND retired_at IS NULL
"""

# Retire facts above the limit, the least important and least recalled first, never pinned ones.
RETIRE_SURPLUS = """
UPDATE memories SET retired_at = now(), retired_reason = 'limit'
WHERE id IN (
    SELECT id FROM memories
    WHERE owner_id = %(owner)s AND retired_at IS NULL
    ORDER BY pinned DESC, importance DESC, recalls DESC, updated_at DESC, id DESC
    OFFSET %(limit)s
) AND NOT pinned AND owner_id = %(owner)s
"""

# Count one recall of the facts that an answer relied on.
COUNT_RECALLS = """
UPDATE memories SET recalls = recalls + 1
WHERE id = ANY(%(memory_ids)s)
  AND owner_id = (SELECT owner_id FROM conversations WHERE id = %(conversation_id)s)
"""

# Log a refused fact, once per message and text.
INSERT_REJECTED = """
INSERT INTO rejected_facts (owner_id, message_id, reason, text, origin)
SELECT %(owner)s, m.id, %(reason)s, %(text)s, %(origin)s
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = %(message_id)s AND c.owner_id = %(owner)s
  AND NOT EXISTS (
    SELECT 1 FROM rejected_facts r
    WHERE r.owner_id = %(owner)s
      AND r.message_id = m.id AND r.reason = %(reason)s AND r.text IS NOT DISTINCT FROM %(text)s)
"""


class MemoryRepository(Repository):
    """Repository of facts and their sources; every method blocks (see ``PgClient.run``)."""

    def list_facts(self, owner: Owner, query: FactQuery = FactQuery()) -> list[StoredFact]:
        """Return a page of facts."""
        return self._all(
            StoredFact.from_row, SELECT_FACTS[query.order], owner, **vars(query), kinds=KINDS
        )

    def list_replaced_behind(
        self, owner: Owner, conversation_id: UUID, answer_id: int
    ) -> list[StoredFact]:
        """Return facts with which the background replaced others since the previous answer."""
        answer = {"conversation_id": conversation_id, "answer_id": answer_id}
        ids = self._all(int, SELECT_REPLACED_BEHIND, owner, **answer)
        return self.list_facts(owner, FactQuery(ids=ids)) if ids else []

    def find_fact(self, owner: Owner, memory_id: int) -> StoredFact | None:
        """Return a fact, current or retired; None if it does not exist."""
        facts = self.list_facts(owner, FactQuery(ids=[memory_id], is_living=None))
        return facts[0] if facts else None

    def count_kinds(self, owner: Owner) -> dict[str, int]:
        """Return the number of current facts of each kind that has any, in listing order."""
        counts: dict[str, int] = dict(self._client.fetch_all(COUNT_KINDS, owner))
        return {kind: counts[kind] for kind in KINDS if counts.get(kind)}

    def count(self, owner: Owner) -> int:
        """Return the number of current facts of an owner."""
        return sum(self.count_kinds(owner).values())

    def count_all(self) -> int:
        """Return the number of current facts of all owners; it reads a whole index."""
        return self._first(int, COUNT_ALL, limits=PATIENT) or 0

    def set_pinned(
        self, owner: Owner, memory_id: int, *, pinned: bool, asker: int | None = None
    ) -> bool:
        """Pin or unpin a current fact; False if it does not exist or is another member's."""
        values: dict[str, Any] = {"memory_id": memory_id, "pinned": pinned, "asker": asker}
        return self._client.execute(UPDATE_PINNED, owner, **values) > 0

    def find_source(self, owner: Owner, uid: str) -> SourceMessage | None:
        """Return the message ``msg-<id>``, else a fact's quote of it; None if both are deleted."""
        number = message_number(uid)
        if number is None:
            return None
        found = self._first(SourceMessage, SELECT_SOURCE, owner, message_id=number)
        return found or self._first(SourceMessage, SELECT_QUOTE, owner, uid=uid)

    def get_message_uid_by_episode(self, owner: Owner, episode: str) -> str | None:
        """Return ``msg-12`` for ``teach_msg-12``; None if no fact has that source."""
        return self._first(str, SELECT_UID_BY_EPISODE, owner, episode=episode)

    def add_rejected(
        self, owner: Owner, message_id: int, *, reason: str, text: str | None, origin: str
    ) -> None:
        """Log a refused fact; ``text`` is None if it must not be stored."""
        if text is not None:
            text = storable(text)
        values: dict[str, Any] = {"message_id": message_id, "reason": reason, "origin": origin}
        self._client.execute(INSERT_REJECTED, owner, text=text, **values)


class StoringRepository(OwnerSteps):
    """Steps that change facts, after ``lock_facts``; ``src/memory/writer.py`` orders them."""

    def __init__(self, transaction: Transaction, owner: Owner) -> None:
        """Run the steps in ``transaction``, on the rows of ``owner``."""
        super().__init__(transaction, owner)
        self.changes = ChangeRepository(transaction, owner)

    def find_message(self, message_id: int | None) -> CurrentSource | None:
        """Return the current state of a message of the owner; None if it must not be remembered.

        It may be erased, forgotten or private.
        """
        rows = self._rows(SELECT_CURRENT_SOURCE, message_id=message_id)
        return CurrentSource(*rows[0]) if rows else None

    def list_similar(self, memory: Proposal) -> list[StoredFact]:
        """Return facts that ``memory`` might repeat or replace, those with equal words first.

        Retired facts come before current ones; they are those that the same message told earlier.
        Facts that ``memory`` contradicts are included at any distance.
        """
        words = list({term for term in memory.terms if not term.startswith("=")})
        rows = self._rows(
            SELECT_SIMILAR,
            **vars(memory.fact) | vars(memory) | {"terms": words},
            speaker_id=memory.source.speaker_id,
            model=memory.model_id,
            episode=memory.source.episode,
        )
        return [replace(StoredFact.from_row(*row), cosine=cosine) for *row, cosine in rows]

    def add(self, memory: Proposal) -> int:
        """Store a fact with its source, entities and search document; return its id."""
        fact = vars(memory.fact)
        texts = {name: storable(fact[name]) for name in ("text", "subject", "relation", "object")}
        columns = vars(memory.source) | vars(memory) | fact | texts
        [(memory_id,)] = self._rows(INSERT_MEMORY, **columns)
        self.add_source(memory_id, memory.source)
        for entity in memory.entities:
            self._run(
                INSERT_ENTITY,
                memory_id=memory_id,
                name=storable(entity.name),
                key=" ".join(sorted({min(forms) for forms in entity.keys})),
                forms=sorted(frozenset[str]().union(*entity.keys)),
                words=len(entity.keys),
                entity_type=entity.entity_type,
            )
        document = NewDocument(
            "memory",
            memory_id,
            "user",
            memory.source.said_at,
            memory.terms,
            vector=memory.vector,
            model_id=memory.model_id,
        )
        add_documents(self._transaction, self._owner, [document])
        if memory.origin == "command":
            self.changes.record("saved", memory_id=memory_id)
        return int(memory_id)

    def add_source(self, memory_id: int, source: Source) -> bool:
        """Add a source to a fact; False if it has that source already."""
        columns = {**vars(source), "quote": storable(source.quote), "episode": source.episode}
        added = self._run(INSERT_SOURCE, memory_id=memory_id, **columns)
        add_told(self._transaction, self._owner, facts=[memory_id])
        return added > 0

    def touch(self, memory_id: int, fact: Fact) -> None:
        """Note that a fact was said again as ``fact``; it may gain importance or a pin."""
        self._run(TOUCH_MEMORY, **vars(fact), memory_id=memory_id)

    def retire(
        self, ids: Sequence[int], successor: int | None, reason: str, until: datetime | None = None
    ) -> int:
        """Retire facts that ended at ``until``; return how many were current.

        A replacement can be undone.
        """
        if reason == "replaced" and successor is not None:
            self.changes.record("saved", facts=ids, memory_id=successor)
        return self._run(RETIRE, ids=list(ids), successor=successor, reason=reason, until=until)

    def retire_surplus(self, limit: int) -> int:
        """Retire facts above ``limit``; return how many."""
        return self._run(RETIRE_SURPLUS, limit=limit)
