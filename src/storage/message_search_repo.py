"""Full-text search in what a user said (Russian, Ukrainian, English)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from src.storage.pg_client import PgClient, storable

MAX_WORDS = 32
MIN_PREFIX = 4  # letters; shorter prefixes match nearly everything
# Words of questions that PostgreSQL's Russian and English stop lists do not hold.
WORDS_OF_QUESTIONS = """
який яка яке які якого якої коли куди звідки чому навіщо мене мені мій моя моє мої
тебе тобі твій твоя було була були буде скажи розкажи нагадай
зачем почему сколько какой какая какое какие какого какую моего моей моих мою моём
расскажи напомни помнишь говорил говорила знаешь
what when where which whose about tell said remember know does have
"""
STOP_WORDS = frozenset(WORDS_OF_QUESTIONS.split())


@dataclass(frozen=True)
class FoundMessage:
    """A message that matches a search.

    Attributes:
        uid: ``msg-<id>``.
        text: What the user wrote, without the time label.
        said_at: When.
        score: PostgreSQL's ``ts_rank``; higher is better.
    """

    uid: str
    text: str
    said_at: datetime
    score: float


# A user's messages that share a stem or the beginning of a word with the query. The beginning, a
# crude stem where there is no stemmer, is the word without its last two letters; words that say
# nothing by themselves (PostgreSQL's stop words) have none.
SEARCH_MESSAGES = """
WITH prefixes AS (
    SELECT string_agg(left(word, greatest(%(min_prefix)s, length(word) - 2)) || ':*', ' | ') AS any
    FROM unnest(%(words)s) word
    WHERE length(word) >= %(min_prefix)s AND to_tsvector('russian', word) <> ''
), query AS (
    SELECT websearch_to_tsquery('russian', array_to_string(%(words)s, ' or '))
           || to_tsquery('simple', coalesce(prefixes.any, '')) AS terms
    FROM prefixes
)
SELECT 'msg-' || m.id, message_text(m.content), m.created_at,
       ts_rank(message_terms(m.content), query.terms) AS score
FROM messages m, query
WHERE m.conversation_id = %(conversation_id)s AND m.role = 'user'
  AND message_terms(m.content) @@ query.terms
  AND (%(before_id)s::bigint IS NULL OR m.id < %(before_id)s)
ORDER BY score DESC, m.created_at DESC, m.id DESC
LIMIT %(limit)s
"""


class MessageSearchRepository:
    """Searches one conversation; the method blocks (see ``PgClient.run``)."""

    def __init__(self, client: PgClient) -> None:
        """Use ``client``, which someone else opens and closes."""
        self._client = client

    def search(
        self, conversation_id: UUID, query: str, *, limit: int = 5, before_id: int | None = None
    ) -> list[FoundMessage]:
        """The user's messages that fit the query best.

        Args:
            conversation_id: Where to search; nobody else's messages can come back.
            query: Free text; any of its words may match.
            limit: 1 to 20 messages.
            before_id: Only messages older than this one.
        """
        words = query_words(query)
        if not words:
            return []
        rows = self._client.fetch_all(
            SEARCH_MESSAGES,
            {
                "conversation_id": str(conversation_id),
                "words": words,
                "min_prefix": MIN_PREFIX,
                "limit": max(1, min(limit, 20)),
                "before_id": before_id,
            },
        )
        return [FoundMessage(*row) for row in rows]


def query_words(query: str) -> list[str]:
    """The words of a query that say something, at most MAX_WORDS, each once."""
    words = re.findall(r"[^\W_]+", storable(query).lower())
    return list(dict.fromkeys(word for word in words if word not in STOP_WORDS))[:MAX_WORDS]
