"""Candidates for an answer in one round trip, and what is known, listed by kind and by time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from src.base.owners import Owner
from src.memory.memory_repo import Memory, memory_query
from src.memory.search_index_repo import Kind
from src.pg.client import PreparedStatement, Repository
from src.reading.voices import Provenance

MAX_SHOWN = 2000  # characters of a candidate
# So many vectors, or one in so many, are compared exactly. Of the ten nearest of 4,127 (what is
# said in both development halves) 98.7 % are among 300, and 99.9 % among 1,000, which would take
# as long as 6,000 without outlines.
NEAR, NEAR_SHARE = 300, 20


@dataclass(frozen=True)
class SearchRequest:
    """What to look for.

    Attributes:
        owner: Whose documents; no one else's can come back.
        terms: Search terms of the query.
        entity_terms: Terms that may name an entity (people's roles in their canonical form).
        vector: The centred embedding of the query as ``[...]``, or None: lexically only.
        model_id: The model of that vector.
        periods: Half-open periods of time that the query names, as (start, end).
        conversation_id: With ``before_position``: leave out this conversation's messages from
            that position on, which the model sees anyway.
        before_position: See ``conversation_id``.
        with_assistant: Everything that was said: also by the bot, and what told nothing but facts
            that their user took back.
        with_retired: Also facts that do not hold any more.
        limit: Candidates per channel.
    """

    owner: Owner
    terms: Sequence[str]
    entity_terms: Sequence[str] = ()
    vector: str | None = None
    model_id: int | None = None
    periods: Sequence[tuple[datetime, datetime]] = ()
    conversation_id: UUID | None = None
    before_position: int = 0
    with_assistant: bool = False
    with_retired: bool = False
    limit: int = 60


@dataclass(frozen=True)
class Hit:
    """Something that a channel of the search found, or that is listed.

    Attributes:
        kind: ``message``, ``memory`` or ``summary``.
        source_id: The id of that message, memory or summary.
        message_id: The message in which it was said, if it is still there.
        uid: ``msg-<id>`` of that message, also when it is gone; ``sum-<id>`` of a summary.
        speaker: ``user``, ``assistant``, or a name.
        said_at: When it was said.
        text: What it says, at most MAX_SHOWN characters from ``starts_at`` on.
        provenance: Whose words it holds; see ``Voice``.
        author: Whose words it holds, by name: another's than the user's, or a group member's.
        author_id: Who told it, in a group.
        cosine: Centred cosine with the query; None when it has no vector or the query none.
        bm25: BM25F of the query's terms; 0 when none occurs.
        hops: Links from an entity that the query names: 1, 2, or None.
        memory_type: Of a memory.
        valid_from: Since when a memory holds.
        valid_until: Until when it holds.
        retired_at: Since when it is not believed any more.
        quote: Of a memory: the user's own words behind it.
        starts_at: Of a long message: where the passage that fits best begins.
        tells_fact: Whether a message told a fact that is believed.
        score: By which it was ranked; higher is better.
        similarity: Of its meaning, on the model's own scale, 0 to 1.
        successor: Of what is retired, the fact that holds instead, or tells its end.
    """

    kind: Kind
    source_id: int
    message_id: int | None
    uid: str
    speaker: str
    said_at: datetime
    text: str
    provenance: Provenance = "typed"
    author: str | None = None
    author_id: int | None = None
    cosine: float | None = None
    bm25: float = 0.0
    hops: int | None = None
    memory_type: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    retired_at: datetime | None = None
    quote: str | None = None
    starts_at: int = 0
    tells_fact: bool = False
    score: float = 0.0
    similarity: float = 1.0
    successor: int | None = None

    @property
    def retired(self) -> bool:
        """Whether it is a retired fact, or the message that told one."""
        return self.retired_at is not None

    @property
    def is_own(self) -> bool:
        """Whether its sender typed it."""
        return self.provenance == "typed"

    @property
    def words(self) -> str:
        """What the user said, word for word."""
        return self.quote or self.text

    def is_of(self, speaker_id: int | None) -> bool:
        """Whether it tells of the one who asks: of the user, or of this member of the group."""
        return self.is_own and (speaker_id is None or self.author_id in (None, speaker_id))


def hit_of(fact: Memory) -> Hit:
    """A fact that is listed, or shown unasked, as if it had been found."""
    return Hit(
        "memory", fact.id, fact.message_id, fact.uid, "user", fact.said_at, fact.text,
        author=fact.speaker, author_id=fact.speaker_id, memory_type=fact.memory_type,
        quote=fact.quote,
    )  # fmt: skip


# BM25F (Robertson, Zaragoza, Taylor 2004) with k1 = 0.9, b = 0.2: the fields of a message are its
# own words (weight 1) and, where several people talk, those of the message before it (0.5), of the
# one before that (0.3) and of the next one (0.3); a word counts as found in a message when one of
# its fields holds it. The sum is multiplied by the share of the query's idf that the message
# covers: one common word is no match. A word that stands in more than a 25th of the messages tells
# next to nothing and costs most of the time, so it counts only when the query has no rarer one.
# Dense: the nearest neighbours among the owner's vectors: those whose outlines (a bit for each
# number) differ least, and of these the nearest exactly; of many passages one is always somewhat
# near, so that a later one counts a little less. Of a period those whose outlines differ least.
# Entities: the facts that hang on an entity whom the query names, and on the entities of those
# facts. Wishes about answers bear on every question, so that no fact which is nearer takes their
# place. What the bot said is left out by the indexes themselves, unless it is wanted.
SEARCH = PreparedStatement(
    "search_memory",
    """
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
    SELECT number::int, term
    FROM unnest(%(terms)s::text[]) WITH ORDINALITY AS asked (term, number)
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
           + (SELECT count(*) FROM asked
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
), one_link AS MATERIALIZED (
    SELECT DISTINCT l.memory_id FROM named JOIN memory_entities l ON l.entity_id = named.id
    LIMIT %(limit)s
), two_links AS (
    SELECT DISTINCT far.memory_id
    FROM one_link near
    JOIN memory_entities link ON link.memory_id = near.memory_id
    JOIN entities e ON e.id = link.entity_id AND e.normalised_name <> 'user'
    JOIN memory_entities far ON far.entity_id = link.entity_id
    WHERE far.memory_id NOT IN (SELECT memory_id FROM one_link)
    LIMIT %(limit)s
), linked AS MATERIALIZED (
    SELECT d.position, min(hops) AS hops
    FROM (SELECT memory_id, 1 AS hops FROM one_link
          UNION ALL SELECT memory_id, 2 FROM two_links) AS facts
    JOIN search_documents d ON d.memory_id = facts.memory_id
    WHERE d.owner_id = (SELECT id FROM me)
    GROUP BY d.position
), timed AS (
    SELECT d.position
    FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS period (start, until),
         LATERAL (
             SELECT d.position FROM search_documents d
             LEFT JOIN document_embeddings e ON e.owner_id = d.owner_id AND e.model_id = %(model)s
                  AND e.is_answer IN (false, %(with_assistant)s) AND e.position = d.position
             WHERE d.owner_id = (SELECT id FROM me)
               AND (d.speaker <> 'assistant' OR %(with_assistant)s)
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
    SELECT position, cosine, starts_at, bm25, hops
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
       coalesce(m.provenance, 'typed'), coalesce(m.origin, m.speaker, f.speaker),
       CASE WHEN %(user)s < 0 THEN coalesce(m.sender_id, f.speaker_id) END,
       coalesce(c.cosine, e.cosine), coalesce(c.bm25, 0)::float, c.hops,
       f.memory_type, f.valid_from, f.valid_until,
       coalesce(f.retired_at, outdated.retired_at),
       f.quote, coalesce(c.starts_at, e.starts_at, 0), coalesce(tells_fact, false)
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
LEFT JOIN conversation_summaries s ON s.id = d.summary_id
LEFT JOIN LATERAL (
    SELECT max(old.retired_at) FILTER (WHERE old.retired_reason IN
               ('replaced', 'outdated', 'contradicted', 'undone')) AS retired_at,
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
""",
)


# Whether ``SEARCH`` can find anything for a prompt that shows all of a conversation, by the same
# rule of what it leaves out: what was said elsewhere or is gone, a fact told there or kept with
# its secret, a summary. A prompt never shows as many as are looked at.
SELECT_BEYOND = PreparedStatement(
    "select_beyond",
    """
WITH oldest AS MATERIALIZED (
    SELECT message_id, memory_id FROM search_documents
    WHERE owner_id = %(owner)s ORDER BY position LIMIT 1000
)
SELECT EXISTS (
    SELECT FROM oldest d
    LEFT JOIN LATERAL (
        SELECT memory_type, (SELECT message_id FROM memory_sources WHERE memory_id = f.id
                             ORDER BY said_at DESC, id DESC LIMIT 1) AS message_id
        FROM memories f WHERE f.id = d.memory_id LIMIT 1
    ) AS told ON true
    LEFT JOIN LATERAL (
        SELECT conversation_id FROM messages WHERE id = coalesce(d.message_id, told.message_id)
        LIMIT 1
    ) AS said ON true
    WHERE said.conversation_id IS DISTINCT FROM %(conversation_id)s
       OR told.memory_type = 'private')
""",
)

# Private facts with their secrets.
SELECT_PRIVATE = """
SELECT id, private_text FROM memories
WHERE id = ANY(%(ids)s) AND owner_id = %(owner)s AND private_text IS NOT NULL
"""

SELECT_TEXTS = """
SELECT m.id, message_text(m.content)
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = ANY(%(ids)s) AND c.owner_id = %(owner)s
"""


FAMILY = [
    "mother", "father", "parents", "brother", "sister", "son", "daughter", "child", "wife",
    "husband", "partner", "grandmother", "grandfather", "aunt", "uncle", "cousin", "family",
]  # fmt: skip
# The subjects and the relations of what is told of them.
ABOUT: Mapping[str, tuple[list[str] | None, list[str]]] = {
    "profile": (None, []),
    "family": (FAMILY, ["has_child", "has_sibling", "has_parent", "married_to", "partner"]),
    "work": ([], ["works_as", "works_at", "studies_at", "studies"]),
    "wishes": ([], ["wish"]),
}


# The facts that hold, by kind, the most important first. A period is that of their newest source.
SELECT_FACTS = memory_query("""
SELECT {memory} FROM facts f
WHERE f.owner_id = %(owner)s AND f.retired_at IS NULL AND f.memory_type <> 'private'
  AND (f.valid_until IS NULL OR f.valid_until > now() OR f.valid_until <= f.said_at)
  AND (%(speaker_id)s::bigint IS NULL OR f.speaker_id = %(speaker_id)s)
  AND (%(types)s::text[] IS NULL OR f.memory_type = ANY(%(types)s))
  AND (%(subjects)s::text[] IS NULL OR f.subject = ANY(%(subjects)s)
       OR f.relation = ANY(%(relations)s))
  AND (%(since)s::timestamptz IS NULL OR f.said_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR f.said_at < %(until)s)
ORDER BY f.pinned DESC, f.importance DESC, f.said_at DESC, f.id DESC
LIMIT %(limit)s
""")

# What holds instead of retired facts, at the end of each line of replacements.
SELECT_SUCCESSORS = memory_query("""
WITH RECURSIVE line AS (
    SELECT f.id AS retired, f.superseded_by AS next, 1 AS step FROM memories f
    WHERE f.owner_id = %(owner)s
      AND (f.id = ANY(%(ids)s) OR f.id IN (
          SELECT memory_id FROM memory_sources WHERE message_id = ANY(%(messages)s)))
    UNION ALL
    SELECT line.retired, f.superseded_by, line.step + 1
    FROM line JOIN memories f ON f.id = line.next
    WHERE f.retired_at IS NOT NULL AND line.step < 50
)
SELECT line.retired, ARRAY(SELECT message_id FROM memory_sources WHERE memory_id = line.retired),
       {memory}
FROM line JOIN facts f ON f.id = line.next
WHERE f.owner_id = %(owner)s AND f.retired_at IS NULL
""")

# The newest of what the user said in a period.
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
    """Searches one owner's documents, and lists what is known; every method blocks."""

    def search(self, request: SearchRequest) -> list[Hit]:
        """What the channels found, in no particular order; a few hundred documents at most."""
        wanted = {
            **vars(request), **Owner(*request.owner.row).columns(), "model": request.model_id,
            "terms": list(dict.fromkeys(request.terms)),
            "entity_terms": list(request.entity_terms),
            "starts": [start for start, _ in request.periods],
            "ends": [end for _, end in request.periods],
            "shown": MAX_SHOWN, "near": NEAR, "share": NEAR_SHARE,
        }  # fmt: skip
        rows = self._client.fetch_all(SEARCH, wanted)
        return [Hit(*row) for row in rows]

    def is_anything_beyond(self, owner: Owner, conversation_id: UUID) -> bool:
        """Whether the index has anything of the owner's that this whole conversation does not."""
        return self._first(bool, SELECT_BEYOND, owner, conversation_id=conversation_id) or False

    def read_texts(self, owner: Owner, messages: Sequence[int]) -> dict[int, str]:
        """All that these messages of the owner say, by id."""
        return dict(self._client.fetch_all(SELECT_TEXTS, owner, ids=list(messages)))

    def read_private(self, owner: Owner, facts: Sequence[int]) -> dict[int, str]:
        """Private facts of the owner with their secrets, by id."""
        return dict(self._client.fetch_all(SELECT_PRIVATE, owner, ids=list(facts)))

    def list_facts(
        self,
        owner: Owner,
        *,
        types: Sequence[str] | None = None,
        about: str = "profile",
        period: tuple[datetime | None, datetime | None] = (None, None),
        speaker_id: int | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        """The facts that hold: of certain types, about what ``ABOUT`` names, told in a period.

        In a group those that the member ``speaker_id`` told.
        """
        subjects, relations = ABOUT[about]
        return self._all(
            lambda *row: hit_of(Memory(*row)), SELECT_FACTS, owner,
            since=period[0], until=period[1], limit=limit, speaker_id=speaker_id,
            types=list(types) if types is not None else None,
            subjects=subjects, relations=relations,
        )  # fmt: skip

    def find_successors(
        self, owner: Owner, *, facts: Sequence[int], messages: Sequence[int]
    ) -> dict[tuple[str, int], Hit]:
        """What holds instead of retired facts and of what messages told, by kind and id of those.

        A message that told several such facts has the successor of one of them.
        """
        ids = {**owner.columns(), "ids": list(facts), "messages": list(messages)}
        rows = self._client.fetch_all(SELECT_SUCCESSORS, ids)
        found: dict[tuple[str, int], Hit] = {}
        for retired, told_in, *row in rows:
            fact = hit_of(Memory(*row))
            found["memory", int(retired)] = fact
            found |= {("message", int(id_)): fact for id_ in told_in if id_ is not None}
        return found

    def list_messages(
        self,
        owner: Owner,
        *,
        period: tuple[datetime | None, datetime | None],
        conversation_id: UUID | None = None,
        before_position: int = 0,
        limit: int = 20,
    ) -> list[Hit]:
        """What the user said in a period, oldest first, before a position of a conversation.

        Of too much the newest.
        """
        return self._all(
            Hit, SELECT_MESSAGES, owner, since=period[0], until=period[1], limit=limit,
            conversation_id=conversation_id, before_position=before_position,
        )[::-1]  # fmt: skip
