"""Repository of search: candidates for an answer in one round trip, and overviews."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from src.base.owners import Owner
from src.memory.memory_repo import StoredFact
from src.memory.search_index_repo import DocumentKind
from src.pg.client import Repository
from src.reading.gate import OWN, Provenance

MAX_HIT_TEXT = 2000  # characters of a candidate's text
# Number of vectors that are compared exactly: NEAR, or one in NEAR_SHARE if that is more. Of the
# ten nearest among 4,127 vectors (both development halves), 98.7 % are among 300, and 99.9 % among
# 1,000, which would take as long as 6,000 without outlines.
NEAR, NEAR_SHARE = 300, 20


@dataclass(frozen=True)
class Shown:
    """Part of the memory that the prompt shows already; no search needs to find it.

    Attributes:
        conversation_id: The conversation whose messages it shows.
        since: Position of the first of these messages.
    """

    conversation_id: UUID | None = None
    since: int = 0


NOTHING_SHOWN = Shown()


@dataclass(frozen=True)
class SearchRequest:
    """Parameters of a search.

    Attributes:
        owner: Whose documents are searched; no one else's can come back.
        terms: Search terms of the query: for each word those that may stand for it.
        entity_terms: Terms that may name an entity (people's roles in canonical form).
        vector: Centred embedding of the query as ``[...]``; None for a lexical search.
        model_id: The model of ``vector``.
        periods: Half-open periods that the query names, as (start, end).
        shown: What is left out.
        with_assistant: True to include the bot's messages, the user's mere questions, and messages
            that told only facts that their user took back.
        with_retired: True to include retired facts.
        limit: Candidates per channel.
    """

    owner: Owner
    terms: Sequence[Sequence[str]]
    entity_terms: Sequence[str] = ()
    vector: str | None = None
    model_id: int | None = None
    periods: Sequence[tuple[datetime, datetime]] = ()
    shown: Shown = NOTHING_SHOWN
    with_assistant: bool = False
    with_retired: bool = False
    limit: int = 60


@dataclass(frozen=True)
class Author:
    """Author of a hit's words.

    Attributes:
        provenance: Whose words they are; see ``Voice``.
        name: Name of the author, if not the user; in a group, of the member.
        id: In a group, the member who told it.
    """

    provenance: Provenance = "typed"
    name: str | None = None
    id: int | None = None


@dataclass(frozen=True)
class Match:
    """Scores of a hit for the query.

    Attributes:
        cosine: Centred cosine with the query; None if either has no vector.
        bm25: BM25F of the query's terms; 0 if none occurs.
        is_linked: True for a fact linked to an entity that the query names.
        starts_at: Start of the best passage of a long message, in characters.
        score: Score of the ranking; higher is better.
        similarity: Similarity of meaning to the query on the model's own scale, 0 to 1.
    """

    cosine: float | None = None
    bm25: float = 0.0
    is_linked: bool = False
    starts_at: int = 0
    score: float = 0.0
    similarity: float = 1.0


@dataclass(frozen=True)
class Validity:
    """Time in which the fact of a hit holds, or the one that a message told.

    Attributes:
        start: Start in the world, if known.
        end: End in the world, if known.
        retired_at: When the fact was retired.
        successor: Id of the fact that replaced it.
    """

    start: datetime | None = None
    end: datetime | None = None
    retired_at: datetime | None = None
    successor: int | None = None


@dataclass(frozen=True)
class Hit:
    """A document that the search found, or an entry of an overview.

    Attributes:
        kind: ``message``, ``memory`` or ``summary``.
        source_id: The id of that message, memory or summary.
        message_id: The message behind it, if it still exists.
        uid: ``msg-<id>`` of that message, even if it was deleted; ``sum-<id>`` of a summary.
        speaker: ``user``, ``assistant``, or a name.
        said_at: When that message was written.
        text: Its text, at most MAX_HIT_TEXT characters from ``match.starts_at`` on.
        author: Author of the text.
        match: How well it fits the query.
        validity: When the memory holds.
        memory_type: Type of a memory.
        quote: The user's own words behind a memory; of a private one its text with the secret.
        tells_fact: True for a message that told a current fact.
    """

    kind: DocumentKind
    source_id: int
    message_id: int | None
    uid: str
    speaker: str
    said_at: datetime
    text: str
    author: Author = Author()
    match: Match = Match()
    validity: Validity = Validity()
    memory_type: str | None = None
    quote: str | None = None
    tells_fact: bool = False

    @classmethod
    def from_row(cls, *row: Any) -> Self:
        """Build a hit from a row of ``SEARCH``, or of a listing, which has its first columns."""
        groups = Author(*row[7:10]), Match(*row[10:14]), Validity(*row[14:18])
        return cls(*(*row[:7], *groups, *row[18:]))

    @property
    def retired(self) -> bool:
        """True for a retired fact, and for the message that told one."""
        return self.validity.retired_at is not None

    def is_over(self, now: datetime) -> bool:
        """Return True for a current fact that held until a day that has passed since it was told.

        One that had ended when it was told stays true: "I lived in Kyiv until 2020".
        """
        end = self.validity.end
        return not self.retired and end is not None and self.said_at < end <= now

    @property
    def is_own(self) -> bool:
        """True if the sender typed it."""
        return self.author.provenance in OWN

    @property
    def words(self) -> str:
        """The user's exact words."""
        return self.quote or self.text

    def is_by_asker(self, speaker_id: int | None) -> bool:
        """Return True if the asker typed it: the user, or this member of the group."""
        return self.is_own and (speaker_id is None or self.author.id in (None, speaker_id))

    def scored(self, score: float) -> Self:
        """Return the hit with this score of the ranking."""
        return replace(self, match=replace(self.match, score=score))


def fact_as_hit(stored: StoredFact) -> Hit:
    """Return a fact as a hit, for listings and prompts."""
    source = stored.source
    provenance: Provenance = "typed"
    if stored.is_of_assistant:
        provenance = "bot"
    return Hit(
        "memory",
        stored.id,
        source.message_id,
        source.uid,
        "user",
        source.said_at,
        stored.text,
        Author(provenance, source.speaker, source.speaker_id),
        validity=Validity(stored.fact.valid_from, stored.fact.valid_until),
        memory_type=stored.fact.memory_type,
        quote=source.quote,
    )


# BM25F (Robertson, Zaragoza, Taylor 2004) with k1 = 0.9, b = 0.2. The fields of a message are its
# own words (weight 1) and, where several people talk, the words of the message before it (0.5), of
# the one before that (0.3) and of the next one (0.3). A message has a term if one of its fields
# has it. The sum is multiplied by the share of the query's idf that the message covers: one common
# word is no match. A term in more than a 25th of the messages says next to nothing and costs most
# of the time, so it counts only if the query has no rarer one.
# Dense: the nearest neighbours among the owner's vectors. First those whose outlines (one bit per
# dimension) differ least, then the nearest of these by exact distance. Of many passages one is
# always somewhat near, so that later passages count a little less. In a named period: the
# documents whose outlines differ least.
# Entities: facts linked to an entity that the query names. Wishes about answers matter to every
# question; they are a channel of their own, so that nearer facts do not displace them. The indexes
# leave out the bot's messages unless they are requested, and with them the user's mere questions.
SEARCH = """
WITH query AS MATERIALIZED (
    SELECT %(vector)s::halfvec AS vector, binary_quantize(%(vector)s::halfvec) AS outline
), me AS MATERIALIZED (
    SELECT id FROM owners WHERE telegram_user_id = %(user)s AND thread_id = %(thread_id)s
), sizes AS MATERIALIZED (
    SELECT greatest(documents, 1)::float AS documents,
           greatest(terms, 1)::float / greatest(documents, 1) AS length
    FROM search_owners WHERE owner_id = (SELECT id FROM me)
), near AS MATERIALIZED (
    SELECT is_answer, position, starts_at FROM document_embeddings
    WHERE owner_id = (SELECT id FROM me) AND model_id = %(model)s
      AND is_answer IN (false, %(with_assistant)s)
    ORDER BY outline <~> (SELECT outline FROM query)
    LIMIT (SELECT greatest(%(near)s, documents / %(share)s) FROM sizes)
), dense AS MATERIALIZED (
    SELECT DISTINCT ON (position) position, starts_at,
           -distance - 0.05 * (starts_at > 0)::int AS cosine
    FROM (
        SELECT position, starts_at, e.distance
        FROM near CROSS JOIN LATERAL (
            SELECT embedding <#> (SELECT vector FROM query) AS distance FROM document_embeddings e
            WHERE e.owner_id = (SELECT id FROM me) AND e.model_id = %(model)s
              AND e.is_answer = near.is_answer AND e.position = near.position
              AND e.starts_at = near.starts_at
            LIMIT 1  -- looked up one by one, however many the owner has
        ) AS e
        ORDER BY distance LIMIT %(limit)s
    ) AS nearest
    ORDER BY position, cosine DESC
), asked AS MATERIALIZED (
    SELECT number, term FROM unnest(%(numbers)s::int[], %(terms)s::text[]) AS asked (number, term)
), own AS MATERIALIZED (
    SELECT asked.number AS term, p.position, p.in_talk,
           frequency / (0.8::float + 0.2::float * p.length / sizes.length) AS frequency
    FROM sizes, asked JOIN search_postings p ON p.term = asked.term
    WHERE p.owner_id = (SELECT id FROM me) AND p.is_answer IN (false, %(with_assistant)s)
), chosen AS MATERIALIZED (
    SELECT term
    FROM (SELECT term, count(*) AS postings, min(count(*)) OVER () AS fewest
          FROM own GROUP BY term) AS counted, sizes
    WHERE postings <= greatest(200, documents / 25, fewest)
), fields AS MATERIALIZED (
    SELECT term, position + distance AS position, sum(frequency * weight) AS frequency
    FROM own JOIN chosen USING (term)
    JOIN (VALUES (0, 1::float), (1, 0.5), (2, 0.3), (-1, 0.3)) AS field (distance, weight)
         ON in_talk OR distance = 0
    GROUP BY term, position + distance
), weights AS MATERIALIZED (
    SELECT term, ln(1 + greatest(documents - found, 0.5::float) / (found + 0.5::float)) AS idf
    FROM (SELECT term, count(*)::float AS found FROM fields GROUP BY term) AS counted, sizes
), whole AS MATERIALIZED (
    SELECT coalesce((SELECT sum(idf) FROM weights), 0)
           + (SELECT count(DISTINCT number) FROM asked
              WHERE term NOT LIKE '=%%' AND number NOT IN (SELECT term FROM own))
             * (SELECT ln(1 + documents / 0.5::float) FROM sizes) AS idf
), lexical AS MATERIALIZED (
    SELECT position,
           sum(idf * 1.9::float * frequency / (frequency + 0.9::float))
           * sum(idf) / nullif((SELECT idf FROM whole), 0) AS bm25
    FROM fields JOIN weights USING (term) GROUP BY position
), named AS (
    SELECT id FROM entities
    WHERE owner_id = (SELECT id FROM me)
      AND string_to_array(normalised_name, ' ') <@ %(entity_terms)s::text[]
      AND cardinality(%(entity_terms)s::text[]) > 0
), linked AS MATERIALIZED (
    SELECT DISTINCT d.position, true AS is_linked
    FROM named JOIN memory_entities l ON l.entity_id = named.id
    JOIN search_documents d ON d.memory_id = l.memory_id
    WHERE d.owner_id = (SELECT id FROM me)
    LIMIT %(limit)s
), timed AS (
    SELECT d.position
    FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS period (start, until),
         LATERAL (
             SELECT d.position FROM search_documents d
             LEFT JOIN document_embeddings e ON e.owner_id = d.owner_id AND e.model_id = %(model)s
                  AND e.is_answer IN (false, %(with_assistant)s) AND e.position = d.position
             WHERE d.owner_id = (SELECT id FROM me)
               AND (d.speaker <> 'assistant' AND NOT d.asks OR %(with_assistant)s)
               AND d.said_at >= period.start AND d.said_at < period.until
             ORDER BY e.outline <~> (SELECT outline FROM query), d.said_at DESC, d.id
             LIMIT %(limit)s
         ) AS d
), wished AS (
    SELECT d.position
    FROM memories f JOIN memory_sources s ON s.memory_id = f.id
    JOIN search_documents d ON d.message_id = s.message_id
    WHERE f.owner_id = (SELECT id FROM me) AND f.subject = 'user' AND f.relation = 'wish'
      AND f.retired_at IS NULL
    LIMIT %(limit)s
), candidates AS MATERIALIZED (
    SELECT position, cosine, starts_at, bm25, is_linked
    FROM (
        SELECT position FROM dense
        UNION (SELECT position FROM lexical ORDER BY bm25 DESC, position LIMIT %(limit)s)
        UNION SELECT position FROM linked
        UNION SELECT position FROM timed
        UNION SELECT position FROM wished
    ) AS chosen
    LEFT JOIN dense USING (position) LEFT JOIN lexical USING (position)
    LEFT JOIN linked USING (position)
)
SELECT d.kind, coalesce(d.message_id, d.memory_id, d.summary_id),
       coalesce(d.message_id, f.message_id),
       coalesce('msg-' || d.message_id, f.uid, 'sum-' || d.summary_id),
       d.speaker, coalesce(f.said_at, d.said_at),
       substr(coalesce(message_text(m.content), f.text, s.content),
              1 + coalesce(c.starts_at, e.starts_at, 0), %(shown)s),
       CASE WHEN f.origin = 'connected' THEN 'bot' ELSE coalesce(m.provenance, 'typed') END,
       coalesce(m.origin, m.speaker, f.speaker),
       CASE WHEN %(user)s < 0 THEN coalesce(m.sender_id, f.speaker_id) END,
       coalesce(c.cosine, e.cosine), coalesce(c.bm25, 0)::float, coalesce(c.is_linked, false),
       coalesce(c.starts_at, e.starts_at, 0),
       f.valid_from, f.valid_until, coalesce(f.retired_at, outdated.retired_at),
       coalesce(f.superseded_by, outdated.successor),
       f.memory_type, coalesce(p.private_text, f.quote), coalesce(tells_fact, false)
FROM candidates c
JOIN LATERAL (
    SELECT kind, message_id, memory_id, summary_id, speaker, said_at FROM search_documents
    WHERE owner_id = (SELECT id FROM me) AND position = c.position
    LIMIT 1
) AS d ON true
LEFT JOIN LATERAL (
    SELECT starts_at,
           -(embedding <#> (SELECT vector FROM query)) - 0.05 * (starts_at > 0)::int AS cosine
    FROM document_embeddings
    WHERE owner_id = (SELECT id FROM me) AND model_id = %(model)s
      AND is_answer IN (false, %(with_assistant)s) AND position = c.position
      AND c.cosine IS NULL
    ORDER BY cosine DESC LIMIT 1  -- the passage that fits best
) AS e ON true
LEFT JOIN messages m ON m.id = d.message_id
LEFT JOIN facts f ON f.id = d.memory_id
LEFT JOIN private_facts p ON p.id = d.memory_id
LEFT JOIN conversation_summaries s ON s.id = d.summary_id
LEFT JOIN LATERAL (
    SELECT max(old.retired_at) FILTER (WHERE old.retired_reason IN
               ('replaced', 'outdated', 'contradicted', 'undone')) AS retired_at,
           max(old.superseded_by) AS successor,
           bool_and(old.retired_reason IS NOT DISTINCT FROM 'undone') AS was_taken_back,
           bool_or(old.retired_at IS NULL) AS tells_fact
    FROM memory_sources ms JOIN memories old ON old.id = ms.memory_id
    WHERE ms.message_id = d.message_id
) AS outdated ON true
WHERE (%(with_assistant)s OR d.speaker <> 'assistant' AND NOT coalesce(was_taken_back, false))
  AND (%(with_retired)s OR f.retired_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM memories never  -- it never held: its user took it back
                  WHERE never.id = d.memory_id AND never.retired_reason IN ('undone', 'edited'))
  AND NOT coalesce(m.conversation_id = %(conversation_id)s::uuid
                   AND m.position >= %(before_position)s, false)
  AND (f.memory_type = 'private' OR NOT EXISTS (  -- the message has a mask in its place
      SELECT 1 FROM messages seen
      WHERE seen.id = f.message_id
        AND seen.conversation_id = %(conversation_id)s::uuid
        AND seen.position >= %(before_position)s))
"""


# Full texts of messages.
SELECT_TEXTS = """
SELECT m.id, message_text(m.content)
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = ANY(%(ids)s) AND c.owner_id = %(owner)s
"""

# The newest messages of the user in a period.
SELECT_MESSAGES = """
SELECT 'message', m.id, m.id, 'msg-' || m.id, 'user', m.said_at,
       left(message_text(m.content), 2000), m.provenance, coalesce(m.origin, m.speaker),
       CASE WHEN c.telegram_user_id < 0 THEN m.sender_id END
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.owner_id = %(owner)s AND m.role = 'user'
  AND NOT m.is_forgotten AND NOT m.is_private
  AND (%(since)s::timestamptz IS NULL OR m.said_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR m.said_at < %(until)s)
  AND NOT coalesce(m.conversation_id = %(conversation_id)s::uuid
                   AND m.position >= %(before_position)s, false)
ORDER BY m.said_at DESC, m.id DESC LIMIT %(limit)s
"""


class RetrievalRepository(Repository):
    """Search and listings of one owner's documents; every method blocks."""

    def search(self, request: SearchRequest) -> list[Hit]:
        """Return the candidates of all channels, unordered; a few hundred at most."""
        params = {
            **vars(request),
            **Owner(*request.owner.row).columns(),
            "model": request.model_id,
            "numbers": [number for number, group in enumerate(request.terms) for _ in group],
            "terms": [term for group in request.terms for term in group],
            "entity_terms": list(request.entity_terms),
            "starts": [start for start, _ in request.periods],
            "ends": [end for _, end in request.periods],
            "conversation_id": request.shown.conversation_id,
            "before_position": request.shown.since,
            "shown": MAX_HIT_TEXT,
            "near": NEAR,
            "share": NEAR_SHARE,
        }
        return self._all(Hit.from_row, SEARCH, params)

    def read_texts(self, owner: Owner, messages: Sequence[int]) -> dict[int, str]:
        """Return the full texts of messages of the owner, by id."""
        return dict(self._client.fetch_all(SELECT_TEXTS, owner, ids=list(messages)))

    def list_messages(
        self,
        owner: Owner,
        *,
        since: datetime | None,
        until: datetime | None,
        shown: Shown = NOTHING_SHOWN,
        limit: int = 20,
    ) -> list[Hit]:
        """Return the user's messages of a period, oldest first; of too many the newest.

        Messages that are ``shown`` are left out.
        """
        return self._all(
            Hit.from_row,
            SELECT_MESSAGES,
            owner,
            since=since,
            until=until,
            limit=limit,
            conversation_id=shown.conversation_id,
            before_position=shown.since,
        )[::-1]
