"""Facts: stored once, with their sources, and retired rather than overwritten."""

from collections.abc import Collection, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal

from src.base.owners import Owner
from src.history.turn_repo import NewAnswer
from src.memory.search_index_repo import NewDocument, add_documents
from src.pg.client import OwnerSteps, Repository, Transaction, storable
from src.pg.connection import PATIENT
from src.reading.facts import MEMORY_TYPES, PRIVATE, Fact, Origin, fact_number
from src.reading.relations import relation_term
from src.texts.morphology import terms

KINDS = [*MEMORY_TYPES, PRIVATE]  # as they are listed


@dataclass(frozen=True)
class Replaced:
    """A fact that another one took the place of; ``until`` when it held, as far as is known."""

    id: int
    text: str
    until: datetime | None


@dataclass(frozen=True)
class Memory:
    """A stored fact, as the view ``facts`` shows it.

    What has a default is filled by ``MemoryRepository.list_facts`` alone.

    Attributes:
        id: Its number.
        text: What it says, in the user's language.
        memory_type: One of ``MEMORY_TYPES``.
        subject: Whom it is about, canonical: ``user``, ``brother``, a name.
        relation: Canonical: ``lives_in``.
        object: As it was said.
        importance: 1 to 10.
        pinned: Whether the user wants it always in view.
        valid_from: Since when it holds in the world, if known.
        valid_until: Until when.
        retired_at: Since when it is not believed any more.
        uid: ``msg-<id>`` of its newest source.
        said_at: When that was said.
        message_id: That message, if it is still there.
        quote: Its exact words.
        speaker_id: In a group, the member who told it, and whom "user" means in it.
        speaker: What they are called.
        origin: What kind of call stored it.
        created_at: When it was stored.
        retired_reason: Why it is not believed any more.
        superseded_by: The number of the fact that took its place.
        replaced_by: The text of that fact.
        past: What it took the place of, the latest first.
    """

    id: int
    text: str
    memory_type: str
    subject: str
    relation: str
    object: str
    importance: int
    pinned: bool
    valid_from: datetime | None
    valid_until: datetime | None
    retired_at: datetime | None
    uid: str
    said_at: datetime
    message_id: int | None
    quote: str | None
    speaker_id: int | None
    speaker: str | None
    origin: str = ""
    created_at: datetime | None = None
    retired_reason: str | None = None
    superseded_by: int | None = None
    replaced_by: str | None = None
    past: tuple[Replaced, ...] = ()

    @property
    def fact(self) -> Fact:
        """As if it were new."""
        known = vars(self)
        return Fact.model_construct(**{n: known[n] for n in Fact.model_fields if n in known})


def memory_query(sql: str) -> str:
    """A statement on the view ``facts f``, which calls the columns what ``Memory`` does.

    ``{memory}`` are those without a default, ``{more}`` the others that the view has.
    """
    columns = [(field.name, field.default is MISSING) for field in fields(Memory)[:-1]]
    for place, is_wanted in (("{memory}", True), ("{more}", False)):
        found = (f"f.{name}" for name, is_needed in columns if is_needed is is_wanted)
        sql = sql.replace(place, ", ".join(found))
    return sql


@dataclass(frozen=True)
class FactQuery:
    """Which facts of an owner are read, and in which order.

    Attributes:
        order: ``newest``; ``kind``: kind by kind, of each the pinned first, then the newest;
            ``weight``: the pinned first, then the most important, without their past and what is
            private: prompts are made of it.
        ids: Only these.
        kind: Only this one of ``MEMORY_TYPES``.
        is_living: Whether they are believed (True), or not any more (False); None: either.
        is_pinned: Whether only the pinned are wanted.
        is_valid: Whether no event is wanted that is over.
        text: Only those whose text has this in it, in whatever case.
        before: Only those with a lower number.
        limit: How many at most.
        offset: How many are passed over.
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
class Telling:
    """A message that tells a fact, as it is stored now.

    Attributes:
        text: Without the time label.
        is_own: Whether the sender typed it.
        speaker_id: In a group, the sender.
        speaker: What they are called there.
        is_disputed: Whether the sender is, or was, asked what it is to replace.
    """

    text: str
    is_own: bool
    speaker_id: int | None = None
    speaker: str | None = None
    is_disputed: bool = False


@dataclass(frozen=True)
class Similar(Memory):
    """A fact that a new one might repeat or replace."""

    content_hash: str = ""
    cosine: float | None = None


@dataclass(frozen=True)
class Source:
    """Where a fact was said: the message, its exact words, and when."""

    message_id: int
    quote: str
    said_at: datetime

    @property
    def uid(self) -> str:
        """The name of the message in references."""
        return f"msg-{self.message_id}"

    @property
    def episode(self) -> str:
        """The name of the teaching."""
        return f"teach_{self.uid}"


@dataclass(frozen=True)
class SourceMessage:
    """Where something was said.

    Attributes:
        text: The message, or the quote when the message is gone.
        said_at: When.
        chat_id: With ``telegram_message_id``: where the message stands in Telegram, if it is
            still known.
        telegram_message_id: See ``chat_id``.
        bot_id: The bot that numbered it so.
        is_bots: Whether the bot said it.
    """

    text: str
    said_at: datetime
    chat_id: int | None = None
    telegram_message_id: int | None = None
    bot_id: int | None = None
    is_bots: bool = False


@dataclass(frozen=True)
class NewMemory:
    """A fact to store, its subject and relation canonical, and what the row has beside it.

    Attributes:
        fact: The fact.
        language: Of its text.
        origin: What kind of call stores it.
        content_hash: Of its text.
        source: Where it was said.
        terms: Its search terms.
        vector: Its embedding, if there is one yet.
        model_id: The model of that, with whose vectors it is compared.
        contradicts: Ids of facts that it takes the place of, as its proposer says.
        entities: (name, normalised name) of whom and what it is about.
        speaker_id: See ``Memory``.
        speaker: See ``Memory``.
        private_text: Of a private fact: its text with the secret, which ``fact`` has masked.
    """

    fact: Fact
    language: str
    origin: Origin
    content_hash: str
    source: Source
    terms: Sequence[str]
    vector: str | None = None
    model_id: int | None = None
    contradicts: list[int] = field(default_factory=list)
    entities: Sequence[tuple[str, str]] = ()
    speaker_id: int | None = None
    speaker: str | None = None
    private_text: str | None = None


def count_recalls(transaction: Transaction, answer: NewAnswer) -> None:
    """Count that an answer relied on the facts among its sources; a step of storing it."""
    ids = [source.memory_id for source in answer.sources if source.memory_id is not None]
    if ids:
        place = {"conversation_id": answer.conversation_id, "memory_ids": ids}
        transaction.execute(COUNT_RECALLS, place)


def fact_terms(text: str, relation: str) -> list[str]:
    """The search terms of a fact: its words, and its relation for questions that ask for it."""
    return [*terms(text), relation_term(relation)]


def message_number(uid: str) -> int | None:
    """12 for ``msg-12``; None for anything else."""
    return fact_number(uid, "msg-")


# A page of an owner's facts.
PAGE = """
WHERE f.owner_id = %(owner)s
  AND (%(ids)s::bigint[] IS NULL OR f.id = ANY(%(ids)s))
  AND (%(is_living)s::boolean IS NULL OR (f.retired_at IS NULL) = %(is_living)s)
  AND (%(kind)s::text IS NULL OR f.memory_type = %(kind)s)
  AND (NOT %(is_pinned)s OR f.pinned)
  AND (NOT %(is_valid)s OR f.valid_until IS NULL OR f.valid_until > now())
  AND (%(text)s = '' OR strpos(lower(f.text), lower(%(text)s)) > 0)
  AND (%(before)s::bigint IS NULL OR f.id < %(before)s)
  AND (%(order)s <> 'weight' OR f.memory_type <> 'private')
ORDER BY {order} LIMIT %(limit)s OFFSET %(offset)s
"""
# As a prompt needs them: an index has them in this order.
SELECT_BARE = "SELECT {memory} FROM facts f {page}"
# With what each took the place of; the page is chosen before sources and past are looked up.
SELECT_WITH_PAST = """
WITH page AS MATERIALIZED (SELECT f.id FROM memories f {page})
SELECT {memory}, {more}, past.ids, past.texts, past.untils
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
    name: memory_query(sql.replace("{page}", PAGE).replace("{order}", order))
    for name, sql, order in (
        ("newest", SELECT_WITH_PAST, "f.id DESC"),
        ("kind", SELECT_WITH_PAST, BY_KIND),
        ("weight", SELECT_BARE, BY_WEIGHT),
    )
}

# How many facts of some owners hold, inside another statement; below, of everybody, by kind.
COUNT_LIVING = """
SELECT owner_id, count(*) AS facts FROM memories
WHERE owner_id = ANY(%(owners)s) AND retired_at IS NULL GROUP BY owner_id
"""
COUNT_ALL = "SELECT count(*) FROM memories WHERE retired_at IS NULL"  # of everybody, patiently
COUNT_KINDS = """
SELECT memory_type, count(*) FROM memories
WHERE owner_id = %(owner)s AND retired_at IS NULL
GROUP BY memory_type
"""

# The user wants it always in view, or does not; in a group only who told it may say so.
UPDATE_PINNED = """
UPDATE memories SET pinned = %(pinned)s, updated_at = now()
WHERE id = %(memory_id)s AND owner_id = %(owner)s
  AND retired_at IS NULL
  AND (%(asker)s::bigint IS NULL OR speaker_id IS NULL OR speaker_id = %(asker)s)
"""

# The message behind a reference, or an answer of the bot's; of the owner alone.
SELECT_SOURCE = """
SELECT message_text(m.content), m.said_at, coalesce(m.chat_id, asked.chat_id),
       coalesce(abs(m.telegram_message_id), m.sent_message_ids[1]),
       coalesce(m.bot_id, asked.bot_id), m.role = 'assistant'
FROM messages m JOIN conversations c ON c.id = m.conversation_id
LEFT JOIN messages asked ON asked.id = m.reply_to_id
WHERE m.id = %(message_id)s AND c.owner_id = %(owner)s AND m.role IN ('user', 'assistant')
  AND NOT m.is_forgotten
"""

# What is kept of a message that is gone: the words that a fact quotes.
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

# A message of the owner that may be remembered, as it reads now, or as /new left it to be read;
# and who says "I" in it, where the owner is a group.
SELECT_TELLING = """
SELECT message_text(m.content), m.provenance = 'typed',
       CASE WHEN %(user)s < 0 THEN m.sender_id END, m.speaker, m.is_disputed
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = %(message_id)s AND m.role = 'user' AND NOT m.is_forgotten AND NOT m.is_private
  AND c.owner_id = %(owner)s
UNION ALL
SELECT message_text(p.content), true,
       CASE WHEN %(user)s < 0 THEN p.sender_id END, p.speaker, false
FROM parting_messages p
WHERE p.message_id = %(message_id)s AND p.owner_id = %(owner)s
"""

# Living facts that a new one might repeat or replace, of the same member where the owner is a
# group: the same words, the same subject and relation, those that a model names, relations whose
# end it may tell, what shares most words with it, or the nearest by meaning; and what its message
# has told before, living or not.
SELECT_SIMILAR = memory_query("""
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
    UNION SELECT id FROM memories
          WHERE owner_id = %(owner)s
            AND relation = ANY(%(ended)s) AND retired_at IS NULL
    UNION (SELECT d.memory_id
           FROM search_postings p JOIN search_documents d ON d.id = p.document_id
           JOIN memories known ON known.id = d.memory_id AND known.retired_at IS NULL
           WHERE p.owner_id = %(owner)s
             AND p.term = ANY(%(terms)s)
           GROUP BY d.memory_id ORDER BY count(*) DESC, d.memory_id DESC LIMIT 30)
    UNION (SELECT id FROM living WHERE cosine IS NOT NULL ORDER BY cosine DESC, id LIMIT 5)
    UNION SELECT memory_id FROM memory_sources WHERE episode = %(episode)s
)
SELECT {memory}, f.content_hash, -(e.embedding <#> %(vector)s::halfvec) AS cosine
FROM chosen
JOIN facts f ON f.id = chosen.id AND f.owner_id = %(owner)s
     AND f.speaker_id IS NOT DISTINCT FROM %(speaker_id)s
LEFT JOIN search_documents d ON d.memory_id = f.id
LEFT JOIN document_embeddings e ON e.document_id = d.id AND e.model_id = %(model)s
ORDER BY f.retired_at IS NULL, f.content_hash = %(content_hash)s DESC, cosine DESC NULLS LAST, f.id
""")

# A new fact.
INSERT_MEMORY = """
INSERT INTO memories (owner_id, memory_type, text, language, subject, relation, object,
                      importance, pinned, origin, valid_from, valid_until, content_hash,
                      speaker_id, speaker, private_text)
VALUES (%(owner)s, %(memory_type)s, %(text)s, %(language)s, %(subject)s, %(relation)s, %(object)s,
        %(importance)s, %(pinned)s, %(origin)s, %(valid_from)s,
        %(valid_until)s, %(content_hash)s, %(speaker_id)s, %(speaker)s, %(private_text)s)
RETURNING id
"""

# Where it was said, once per message.
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

# It was said again: nothing new but the time.
TOUCH_MEMORY = """
UPDATE memories SET updated_at = now(), importance = greatest(importance, %(importance)s),
       pinned = pinned OR %(pinned)s
WHERE id = %(memory_id)s AND owner_id = %(owner)s
"""

# People, places and things of a fact.
INSERT_ENTITIES = """
WITH added AS (
    INSERT INTO entities (owner_id, name, normalised_name)
    SELECT %(owner)s, name, normalised_name
    FROM unnest(%(names)s::text[], %(normalised)s::text[]) AS e (name, normalised_name)
    ON CONFLICT ON CONSTRAINT entities_once DO UPDATE
    SET normalised_name = EXCLUDED.normalised_name
    RETURNING id
)
INSERT INTO memory_entities (memory_id, entity_id)
SELECT f.id, added.id FROM added, memories f
WHERE f.id = %(memory_id)s AND f.owner_id = %(owner)s
ON CONFLICT DO NOTHING
"""

# A fact that does not hold any more, and what took its place.
RETIRE = """
UPDATE memories
SET retired_at = now(), retired_reason = %(reason)s, superseded_by = %(successor)s,
    valid_until = coalesce(valid_until, %(until)s)
WHERE id = ANY(%(ids)s) AND owner_id = %(owner)s
  AND retired_at IS NULL
"""

# Facts that a successor took the place of hold again, or the one of them with this number, until
# the end that they had before; one that was told anew meanwhile holds already.
RESTORE = """
UPDATE memories f SET retired_at = NULL, retired_reason = NULL, superseded_by = NULL,
       updated_at = now(),
       valid_until = nullif(valid_until, CASE WHEN retired_reason = 'replaced'
           THEN (SELECT said_at FROM memory_sources
                 WHERE memory_id = %(successor)s ORDER BY id LIMIT 1)
           ELSE %(until)s::timestamptz END)
WHERE superseded_by = %(successor)s AND retired_reason = ANY(%(reasons)s)
  AND (%(id)s::bigint IS NULL OR id = %(id)s) AND owner_id = %(owner)s
  AND NOT EXISTS (SELECT 1 FROM memories living
                  WHERE living.content_hash = f.content_hash AND living.retired_at IS NULL
                    AND living.owner_id = %(owner)s)
RETURNING text
"""

# Beyond the limit the least important and least recalled go, never the pinned.
RETIRE_SURPLUS = """
UPDATE memories SET retired_at = now(), retired_reason = 'limit'
WHERE id IN (
    SELECT id FROM memories
    WHERE owner_id = %(owner)s AND retired_at IS NULL
    ORDER BY pinned DESC, importance DESC, recalls DESC, updated_at DESC, id DESC
    OFFSET %(limit)s
) AND NOT pinned AND owner_id = %(owner)s
"""

# Facts that an answer relied on.
COUNT_RECALLS = """
UPDATE memories SET recalls = recalls + 1
WHERE id = ANY(%(memory_ids)s)
  AND owner_id = (SELECT owner_id FROM conversations WHERE id = %(conversation_id)s)
"""

# What the gate refused, once per message and text.
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
    """Reads facts, and what concerns them; every method blocks (see ``PgClient.run``)."""

    def list_facts(self, owner: Owner, wanted: FactQuery = FactQuery()) -> list[Memory]:
        """A page of facts."""
        return self._all(_memory, SELECT_FACTS[wanted.order], owner, **vars(wanted), kinds=KINDS)

    def find_fact(self, owner: Owner, memory_id: int) -> Memory | None:
        """A fact, living or retired; None when there is none."""
        found = self.list_facts(owner, FactQuery(ids=[memory_id], is_living=None))
        return found[0] if found else None

    def count_kinds(self, owner: Owner) -> dict[str, int]:
        """How many living facts there are of each kind that has some, in order."""
        found: dict[str, int] = dict(self._client.fetch_all(COUNT_KINDS, owner))
        return {kind: found[kind] for kind in KINDS if found.get(kind)}

    def count(self, owner: Owner) -> int:
        """How many facts hold."""
        return sum(self.count_kinds(owner).values())

    def count_all(self) -> int:
        """How many facts of everybody hold; it reads a whole index."""
        return self._first(int, COUNT_ALL, limits=PATIENT) or 0

    def set_pinned(
        self, owner: Owner, memory_id: int, *, pinned: bool, asker: int | None = None
    ) -> bool:
        """Pin a living fact, or let it go; False when it is not there, or another's."""
        return self._client.execute(
            UPDATE_PINNED, owner, memory_id=memory_id, pinned=pinned, asker=asker
        ) > 0  # fmt: skip

    def find_source(self, owner: Owner, uid: str) -> SourceMessage | None:
        """The message behind ``msg-<id>``, or what a fact quotes of it; None: both are gone."""
        number = message_number(uid)
        if number is None:
            return None
        found = self._first(SourceMessage, SELECT_SOURCE, owner, message_id=number)
        return found or self._first(SourceMessage, SELECT_QUOTE, owner, uid=uid)

    def get_message_uid_by_episode(self, owner: Owner, episode: str) -> str | None:
        """``msg-12`` for ``teach_msg-12``; None when no fact has that source."""
        return self._first(str, SELECT_UID_BY_EPISODE, owner, episode=episode)

    def add_rejected(
        self, owner: Owner, message_id: int, *, reason: str, text: str | None, origin: str
    ) -> None:
        """Note what was refused; ``text`` is None when it must not be kept."""
        kept = None if text is None else storable(text)
        self._client.execute(
            INSERT_REJECTED, owner, message_id=message_id, reason=reason, text=kept, origin=origin
        )


class StoredFacts(OwnerSteps):
    """Changes facts, after ``lock_facts``; ``src/memory/writer.py`` puts the steps in order."""

    def find_message(self, message_id: int) -> Telling | None:
        """What a message of the owner says now; None: it is not there to be remembered.

        It may have been erased, forgotten, or be private.
        """
        rows = self._rows(SELECT_TELLING, message_id=message_id)
        return Telling(*rows[0]) if rows else None

    def list_similar(self, memory: NewMemory, *, ended: Collection[str] = ()) -> list[Similar]:
        """Facts that ``memory`` might repeat or replace, equal words first.

        Retired ones, which come before the living, are those that its message has told earlier.
        Those that it ``contradicts`` are among them, however far away they are, and those whose
        relation is in ``ended``.
        """
        words = list({term for term in memory.terms if not term.startswith("=")})
        rows = self._rows(
            SELECT_SIMILAR, **vars(memory.fact) | vars(memory) | {"terms": words},
            model=memory.model_id, ended=list(ended), episode=memory.source.episode,
        )  # fmt: skip
        return [replace(Similar(*known), content_hash=h, cosine=c) for *known, h, c in rows]

    def add(self, memory: NewMemory) -> int:
        """Store a fact with its source, its entities and its search document; returns its id."""
        fact = vars(memory.fact)
        texts = {name: storable(fact[name]) for name in ("text", "subject", "relation", "object")}
        [(memory_id,)] = self._rows(INSERT_MEMORY, **vars(memory) | fact | texts)
        self.add_source(memory_id, memory.source)
        named = {normalised: storable(name) for name, normalised in memory.entities if normalised}
        if named:
            names = {"normalised": list(named), "names": list(named.values())}
            self._run(INSERT_ENTITIES, memory_id=memory_id, **names)
        document = NewDocument(
            "memory", memory_id, "user", memory.source.said_at, memory.terms,
            vector=memory.vector, model_id=memory.model_id,
        )  # fmt: skip
        add_documents(self._transaction, self._owner, [document])
        return int(memory_id)

    def add_source(self, memory_id: int, source: Source) -> bool:
        """Note where a fact was said; False when that is known."""
        columns = {**vars(source), "uid": source.uid, "episode": source.episode}
        columns["quote"] = storable(source.quote)
        return self._run(INSERT_SOURCE, memory_id=memory_id, **columns) > 0

    def touch(self, memory_id: int, fact: Fact | Memory) -> None:
        """A fact was said again, as ``fact``; it may be more important, or pinned, now."""
        self._run(TOUCH_MEMORY, **vars(fact), memory_id=memory_id)

    def retire(
        self,
        ids: Sequence[int],
        *,
        successor: int | None,
        reason: str,
        until: datetime | None = None,
    ) -> int:
        """Facts that do not hold any more, since ``until``; returns how many there were."""
        return self._run(RETIRE, ids=list(ids), successor=successor, reason=reason, until=until)

    def retire_surplus(self, limit: int) -> int:
        """Retire what exceeds ``limit`` living facts; returns how many."""
        return self._run(RETIRE_SURPLUS, limit=limit)


def _memory(*row: Any) -> Memory:
    """A fact of ``SELECT_FACTS``; the last three columns, if there, are its past."""
    *columns, ids, texts, untils = row
    if len(row) < len(fields(Memory)):
        return Memory(*row)
    return Memory(*(*columns, tuple(map(Replaced, ids or (), texts or (), untils or ()))))
