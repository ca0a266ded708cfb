"""Steps of forgetting and of its undo, in a transaction of the caller."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from psycopg2.sql import SQL, Identifier, Placeholder

from src.history.timeline_repo import DELETE_RESULTS
from src.memory.forget_matching import Candidate
from src.memory.memory_repo import RESTORE, RETIRE, fact_terms, message_number
from src.memory.purge_repo import UNDO_SECONDS
from src.memory.question_repo import CLEAR_QUESTIONS
from src.memory.search_index_repo import DELETE_EDITED as DELETE_DOCUMENTS
from src.memory.search_index_repo import (
    DELETE_TOLD,
    NewDocument,
    add_documents,
    reset_vectors,
    reword,
)
from src.pg.client import OwnerSteps, storable
from src.reading.facts import fact_number
from src.reading.gate import MASK
from src.texts.morphology import terms


@dataclass(frozen=True)
class TouchedMessage:
    """A message that may repeat a forgotten fact.

    Attributes:
        id: The id of the message.
        role: ``user`` or ``assistant``.
        text: The content without the time label.
        reply_to_id: The message that an answer answers.
        cites: True if the answer has a forgotten fact, or its message, as a source.
        sender_id: In a group, the member who wrote it.
    """

    id: int
    role: str
    text: str
    reply_to_id: int | None
    cites: bool
    sender_id: int | None


class OtherQuote(NamedTuple):
    """A quote in another fact of a message: the ids of source and message, and the fact."""

    source_id: int
    message_id: int
    quote: str
    text: str
    object: str


@dataclass(frozen=True)
class TextChange:
    """A change of a message's text; None stands for a hidden message."""

    message_id: int
    before: str | None
    after: str | None


# Every fact of the owner, with its quotes.
SELECT_FACTS = """
SELECT f.text, f.subject, f.relation, f.object, true, f.id, f.retired_at IS NULL, f.superseded_by,
       coalesce((SELECT jsonb_object_agg(s.uid, s.quote) FROM memory_sources s
                 WHERE s.memory_id = f.id), '{}'), f.speaker_id
FROM memories f WHERE f.owner_id = %(owner)s ORDER BY f.id
"""

# Messages that may repeat the forgotten facts: their sources, answers to those, answers that cite
# them, and messages with one of the words (``patterns`` match the beginnings).
SELECT_MESSAGES = """
SELECT m.id, m.role, message_text(m.content), m.reply_to_id,
       EXISTS (SELECT 1 FROM answer_sources s WHERE s.answer_id = m.id
               AND (s.memory_id = ANY(%(facts)s) OR s.message_id = ANY(%(ids)s))),
       m.sender_id
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE c.owner_id = %(owner)s AND m.role IN ('user', 'assistant') AND NOT m.is_forgotten
  AND (m.id = ANY(%(ids)s) OR m.reply_to_id = ANY(%(ids)s)
       OR translate(lower(m.content), 'ё’', 'е''') LIKE ANY(%(patterns)s)
       OR EXISTS (SELECT 1 FROM answer_sources s WHERE s.answer_id = m.id
                  AND (s.memory_id = ANY(%(facts)s) OR s.message_id = ANY(%(ids)s))))
ORDER BY m.id
"""

# Rows that an undo needs, as they are now. Their owner is left out: the row in ``forgettings``
# has it, also after a group moved.
SELECT_UNDO_ROWS = """
SELECT jsonb_build_object(
    'facts', coalesce((SELECT jsonb_agg(to_jsonb(f) - 'owner_id')
                       FROM memories f WHERE f.id = ANY(%(facts)s)), '[]'),
    'sources', coalesce((SELECT jsonb_agg(to_jsonb(s)) FROM memory_sources s
                         WHERE s.memory_id = ANY(%(facts)s)), '[]'),
    'entities', coalesce((SELECT jsonb_agg(to_jsonb(e) - 'owner_id')
                  FROM entities e WHERE e.id IN (
                  SELECT entity_id FROM memory_entities WHERE memory_id = ANY(%(facts)s))), '[]'),
    'links', coalesce((SELECT jsonb_agg(to_jsonb(l)) FROM memory_entities l
                       WHERE l.memory_id = ANY(%(facts)s)), '[]'))
"""

# The forgotten facts.
DELETE_FACTS = "DELETE FROM memories WHERE id = ANY(%(facts)s) AND owner_id = %(owner)s"

# Hide messages (and the answers to a request) from model and search until a job deletes them
# (``PurgeRepository``), or show them again and queue them for the index.
SET_HIDDEN = """
WITH changed AS (
    UPDATE messages m
    SET is_forgotten = %(hidden)s,
        forgotten_at = CASE WHEN %(hidden)s THEN coalesce(m.forgotten_at, now()) END
    FROM conversations c
    WHERE (m.id = ANY(%(ids)s) OR m.reply_to_id = %(request)s) AND c.id = m.conversation_id
      AND c.owner_id = %(owner)s
    RETURNING m.conversation_id, m.id
)
INSERT INTO unindexed_messages SELECT conversation_id, id FROM changed WHERE NOT %(hidden)s
ON CONFLICT DO NOTHING
"""

# Replace the text behind a message's time label, unless it was edited meanwhile.
UPDATE_TEXT = """
UPDATE messages m
SET file_id = NULL,
    content = left(m.content, length(m.content) - length(message_text(m.content))) || %(after)s
FROM conversations c
WHERE m.id = %(message_id)s AND message_text(m.content) = %(before)s
  AND c.id = m.conversation_id AND c.owner_id = %(owner)s
"""

# Quotes in other facts of the messages that are redacted.
SELECT_OTHER_QUOTES = """
SELECT s.id, s.message_id, s.quote, f.text, f.object
FROM memory_sources s JOIN memories f ON f.id = s.memory_id
WHERE s.message_id = ANY(%(ids)s) AND s.memory_id <> ALL(%(facts)s) AND f.owner_id = %(owner)s
ORDER BY s.id
"""

# Replace the quote of one source.
UPDATE_QUOTE = """
UPDATE memory_sources s SET quote = %(quote)s FROM memories f
WHERE s.id = %(source_id)s AND f.id = s.memory_id AND f.owner_id = %(owner)s
"""

# Summaries of these messages; the compaction rewrites them.
DELETE_SUMMARIES = """
DELETE FROM conversation_summaries s USING messages m, conversations c
WHERE m.id = ANY(%(ids)s) AND s.conversation_id = m.conversation_id
  AND m.position BETWEEN s.first_position AND s.last_position
  AND c.id = s.conversation_id AND c.owner_id = %(owner)s
"""

# Rejected facts of these messages, which may repeat the forgotten ones.
DELETE_REJECTED = """
DELETE FROM rejected_facts WHERE message_id = ANY(%(ids)s) AND owner_id = %(owner)s
"""

# Entities that no fact mentions any more.
DELETE_ORPHANED_ENTITIES = """
DELETE FROM entities e
WHERE e.owner_id = %(owner)s
  AND NOT EXISTS (SELECT 1 FROM memory_entities l WHERE l.entity_id = e.id)
"""

# Remove quotations of forgotten text from replies; a long one is cut, with an ellipsis.
CLEAR_QUOTED = """
UPDATE messages m SET quoted = NULL, quoted_author_id = NULL
FROM conversations c
WHERE c.id = m.conversation_id AND m.quoted IS NOT NULL AND c.owner_id = %(owner)s
  AND EXISTS (SELECT 1 FROM unnest(%(gone)s::text[]) AS gone
              WHERE position(rtrim(lower(m.quoted), '…') IN lower(gone)) > 0
                 OR position(lower(gone) IN lower(m.quoted)) > 0)
"""

# The data of an undo, for ``UNDO_SECONDS``.
INSERT_FORGETTING = """
INSERT INTO forgettings (owner_id, kept) VALUES (%(owner)s, %(kept)s) RETURNING id
"""


# Mark a message, the answers to it and the answers that cite it as private.
MARK_PRIVATE = """
UPDATE messages m SET is_private = true
FROM conversations c
WHERE (m.id = %(request)s OR m.reply_to_id = %(request)s
       OR EXISTS (SELECT 1 FROM answer_sources s
                  WHERE s.answer_id = m.id AND s.message_id = %(request)s))
  AND c.id = m.conversation_id AND c.owner_id = %(owner)s
RETURNING m.id
"""

# Delete facts without another source, and empty the results of tools.
CLEAR_PRIVATE = (
    """
DELETE FROM memories f USING memory_sources s
WHERE s.memory_id = f.id AND s.message_id = %(request)s AND f.owner_id = %(owner)s
  AND NOT EXISTS (SELECT 1 FROM memory_sources other
                  WHERE other.memory_id = f.id AND other.uid <> s.uid)
""",
    """
UPDATE tool_results t SET arguments = '{}', result = ''
FROM conversations c
WHERE t.message_id = %(request)s AND c.id = t.conversation_id AND c.owner_id = %(owner)s
""",
)


class UndoResult(NamedTuple):
    """Result of an undo.

    Attributes:
        text: The fact that was retired; None when a forgetting was undone.
        restored: The texts of the facts that are current again.
    """

    text: str | None
    restored: list[str]


# The last change that can be undone: a replacement of facts, a fact from /remember that no message
# followed, a given fact, or a forgetting; in a group only those of the member who asks.
SELECT_LAST = """
SELECT 'replacement' AS kind, f.id, f.text, coalesce(max(old.retired_at), f.created_at) AS at
FROM memories f LEFT JOIN memories old ON old.superseded_by = f.id
     AND old.retired_reason = 'replaced' AND old.owner_id = %(owner)s
WHERE f.owner_id = %(owner)s AND f.retired_at IS NULL
  AND (f.id = %(memory_id)s OR %(memory_id)s::bigint IS NULL AND (old.id IS NOT NULL
       OR f.origin = 'command' AND f.created_at >= (
           SELECT max(said.created_at) FROM messages said
           JOIN conversations c ON c.id = said.conversation_id
           WHERE c.owner_id = %(owner)s AND said.role = 'user')))
  AND (f.speaker_id IS NULL OR f.speaker_id = %(asker)s)
GROUP BY f.id, f.text
UNION ALL
SELECT 'forgetting', id, NULL, created_at FROM forgettings
WHERE owner_id = %(owner)s AND %(memory_id)s::bigint IS NULL
  AND created_at > now() - make_interval(secs => %(seconds)s)
  AND (kept ->> 'asked_by' IS NULL OR kept ->> 'asked_by' = %(asker)s::text)
ORDER BY at DESC, kind DESC, id DESC LIMIT 1
"""

# Current facts of a message, with its quote for each, and whether they have another source.
SELECT_FACTS_OF_MESSAGE = """
SELECT f.id, s.quote, EXISTS (SELECT 1 FROM memory_sources other
                              WHERE other.memory_id = f.id AND other.id <> s.id)
FROM memory_sources s JOIN memories f ON f.id = s.memory_id
WHERE s.message_id = %(message_id)s AND f.owner_id = %(owner)s AND f.retired_at IS NULL
"""

# The message as a source of one fact, or of all.
DELETE_SOURCE = """
DELETE FROM memory_sources s USING memories f
WHERE s.message_id = %(message_id)s AND f.id = s.memory_id AND f.owner_id = %(owner)s
  AND (%(memory_id)s::bigint IS NULL OR f.id = %(memory_id)s)
"""

# Rename the episode of a fact's sources, so that the same fact can be stored again.
RENAME_EPISODE = """
UPDATE memory_sources s SET episode = 'edited_' || s.uid FROM memories f
WHERE s.memory_id = f.id AND f.id = %(memory_id)s AND f.owner_id = %(owner)s
"""

# Take a forgetting that can still be undone; in a group only the member who asked for it can.
TAKE_FORGETTING = """
DELETE FROM forgettings
WHERE id = %(id)s AND owner_id = %(owner)s
  AND created_at > now() - make_interval(secs => %(seconds)s)
  AND (kept ->> 'asked_by' IS NULL OR kept ->> 'asked_by' = %(asker)s::text)
RETURNING kept
"""

# A forgetting of a given fact or message that can still be undone.
SELECT_FORGETTING = """
SELECT id, kept -> 'texts' FROM forgettings
WHERE owner_id = %(owner)s AND created_at > now() - make_interval(secs => %(seconds)s)
  AND (kept ->> 'asked_by' IS NULL OR kept ->> 'asked_by' = %(asker)s::text)
  AND (kept -> 'facts' @> jsonb_build_array(jsonb_build_object('id', %(fact)s::bigint))
       OR kept -> 'messages' @> jsonb_build_array(jsonb_build_array(%(message)s::bigint)))
ORDER BY id DESC LIMIT 1
"""

# Restore rows: facts, sources, entities, links, in this order. A fact that was stored again
# meanwhile stays, and rows that hung on the old one are skipped; references to deleted rows become
# NULL. Columns that a table does not have are ignored.
UNDO_TABLES = {
    "facts": "memories",
    "sources": "memory_sources",
    "entities": "entities",
    "links": "memory_entities",
}
RESTORE_ROWS = SQL("""
INSERT INTO {table} OVERRIDING SYSTEM VALUE
SELECT (jsonb_populate_record(NULL::{table}, old || jsonb_build_object(
    'owner_id', %(owner)s,
    'message_id', (SELECT id FROM messages WHERE id = (old->>'message_id')::bigint),
    'superseded_by', (
        SELECT id FROM (SELECT id FROM memories UNION ALL
                        SELECT (fact->>'id')::bigint
                        FROM jsonb_array_elements(%(facts)s::jsonb) AS fact) AS there (id)
        WHERE id = (old->>'superseded_by')::bigint LIMIT 1)))).*
FROM jsonb_array_elements({rows}::jsonb) AS old
WHERE (old->>'memory_id' IS NULL
       OR EXISTS (SELECT 1 FROM memories WHERE id = (old->>'memory_id')::bigint))
  AND (old->>'entity_id' IS NULL
       OR EXISTS (SELECT 1 FROM entities WHERE id = (old->>'entity_id')::bigint))
ON CONFLICT DO NOTHING
""")

# Restored facts that are not in the search index.
SELECT_UNINDEXED_FACTS = """
SELECT f.id, f.text, f.relation, f.said_at FROM facts f
WHERE f.id = ANY(%(facts)s) AND f.owner_id = %(owner)s
  AND NOT EXISTS (SELECT 1 FROM search_documents d WHERE d.memory_id = f.id)
"""


class ForgettingRepository(OwnerSteps):
    """Steps of forgetting and of undo; the caller has run ``lock_history``.

    ``src/memory/forgetter.py`` orders the steps of forgetting.
    """

    def list_facts(self) -> list[Candidate]:
        """List every fact, oldest first."""
        return [Candidate(*row) for row in self._rows(SELECT_FACTS)]

    def list_messages(
        self,
        *,
        facts: Collection[int] = (),
        ids: Collection[int] = (),
        beginnings: Collection[str] = (),
    ) -> list[TouchedMessage]:
        """List messages that may repeat forgotten facts.

        Args:
            facts: Ids of facts; adds answers that cite them.
            ids: Ids of messages; adds answers to them, and answers that cite them.
            beginnings: Beginnings of words; adds messages with one of the words.
        """
        patterns = [f"%{_escape_like(word)}%" for word in beginnings]
        rows = self._rows(SELECT_MESSAGES, facts=list(facts), ids=list(ids), patterns=patterns)
        return [TouchedMessage(*row) for row in rows]

    def list_other_quotes(
        self, *, facts: Collection[int], ids: Collection[int]
    ) -> list[OtherQuote]:
        """List quotes of these messages in facts other than ``facts``."""
        rows = self._rows(SELECT_OTHER_QUOTES, facts=list(facts), ids=list(ids))
        return [OtherQuote(*row) for row in rows]

    def forget(
        self,
        facts: Collection[int],
        *,
        texts: Sequence[str],
        asked_by: int | None = None,
        changes: Sequence[TextChange] = (),
        quotes: Mapping[int, tuple[str, str]] = {},
    ) -> int:
        """Delete facts and redact messages; returns the id of the forgetting, for its undo.

        Args:
            facts: Ids of the facts to delete.
            texts: The forgotten texts that the reply to the user lists.
            asked_by: In a group, the member who asked for it, and may undo it.
            changes: Changes of messages.
            quotes: Quotes of other facts, before and after, by the id of the source.
        """
        [(undo,)] = self._rows(SELECT_UNDO_ROWS, facts=list(facts))
        undo |= {"texts": list(texts), "asked_by": asked_by}
        undo["messages"] = [[c.message_id, c.before, c.after] for c in changes]
        undo["quotes"] = [[source, before, after] for source, (before, after) in quotes.items()]
        for source, (_, after) in quotes.items():
            self._run(UPDATE_QUOTE, source_id=source, quote=after)
        self._run(DELETE_FACTS, facts=list(facts))
        self._apply(changes)
        forgotten = [*texts, *(change.before for change in changes)]
        forgotten += [row["text"] for row in undo["facts"]]
        self._run(CLEAR_QUOTED, gone=[text for text in forgotten if text])
        self._run(DELETE_RESULTS, DELETE_ORPHANED_ENTITIES)
        [(number,)] = self._rows(INSERT_FORGETTING, kept=json.dumps(undo, ensure_ascii=False))
        return int(number)

    def hide_request(self, message_id: int) -> None:
        """Hide a request and the answers to it, since it names the thing to forget."""
        self._run(
            SET_HIDDEN,
            DELETE_DOCUMENTS,
            DELETE_SUMMARIES,
            hidden=True,
            request=message_id,
            ids=[message_id],
        )

    def mask(self, message_id: int, secret: str) -> None:
        """Replace a secret in a message, and in the answers to it, with ``MASK``."""
        messages = self.list_messages(ids=[message_id])
        self._apply([TextChange(m.id, m.text, m.text.replace(secret, MASK)) for m in messages])

    def keep_private(self, message_id: int) -> None:
        """Keep a message, and the answers to it, out of everything but the window.

        Deletes facts without another source, documents, summaries, open questions; resets the
        vectors of the messages right after them, which are embedded together with them.
        """
        ids = [int(row[0]) for row in self._rows(MARK_PRIVATE, request=message_id)]
        reset_vectors(self._transaction, self._owner, ids)
        self._run(
            *CLEAR_PRIVATE,
            DELETE_SOURCE,
            DELETE_REJECTED,
            DELETE_DOCUMENTS,
            DELETE_SUMMARIES,
            CLEAR_QUESTIONS,
            request=message_id,
            ids=ids,
            message_id=message_id,
            memory_id=None,
        )

    def undo(self, memory_id: int | None = None, asker: int | None = None) -> UndoResult | None:
        """Undo the last change, or the storing of ``memory_id``; None if there is none.

        In a group only a change by the member ``asker``.
        """
        rows = self._rows(SELECT_LAST, memory_id=memory_id, asker=asker, seconds=UNDO_SECONDS)
        if not rows:
            return None
        [(kind, number, text, _)] = rows
        if kind == "forgetting":
            return self.undo_forgetting(number, asker)
        return UndoResult(text, self._withdraw(number, "undone"))

    def list_facts_of(self, message_id: int) -> list[tuple[int, str, bool]]:
        """List a message's current facts: id, quote, and whether there is another source."""
        return [(*row,) for row in self._rows(SELECT_FACTS_OF_MESSAGE, message_id=message_id)]

    def remove_source(self, message_id: int, memory_id: int, *, has_others: bool) -> None:
        """Remove a message as a source of a fact.

        A fact without other sources is retired, and the facts that it replaced are restored.
        """
        if has_others:
            self._run(DELETE_SOURCE, message_id=message_id, memory_id=memory_id)
        else:
            self._withdraw(memory_id, "edited")
            self._run(RENAME_EPISODE, memory_id=memory_id)

    def find_forgetting(self, uid: str, asker: int | None) -> tuple[int, list[str]] | None:
        """Return id and texts of the forgetting of a fact or message that can still be undone.

        Args:
            uid: ``fact-12`` or ``msg-12``.
            asker: In a group, the member who may undo it.
        """
        rows = self._rows(
            SELECT_FORGETTING,
            asker=asker,
            seconds=UNDO_SECONDS,
            fact=fact_number(uid) or 0,
            message=message_number(uid) or 0,
        )
        return (int(rows[0][0]), list(rows[0][1])) if rows else None

    def undo_forgetting(self, number: int, asker: int | None = None) -> UndoResult | None:
        """Undo a forgetting; None when it is too late.

        Args:
            number: The id that ``forget`` returned.
            asker: In a group, the member who asks.
        """
        rows = self._rows(TAKE_FORGETTING, id=number, seconds=UNDO_SECONDS, asker=asker)
        if not rows:
            return None
        [(undo,)] = rows
        old = {name: json.dumps(undo[name]) for name in UNDO_TABLES}
        for name, table in UNDO_TABLES.items():
            statement = RESTORE_ROWS.format(table=Identifier(table), rows=Placeholder(name))
            self._run(statement, **old)
        facts = self._rows(SELECT_UNINDEXED_FACTS, facts=[fact["id"] for fact in undo["facts"]])
        documents = [
            NewDocument("memory", int(id_), "user", said_at, fact_terms(text, relation))
            for id_, text, relation, said_at in facts
        ]
        if documents:
            add_documents(self._transaction, self._owner, documents)
        for source, before, _ in undo["quotes"]:
            self._run(UPDATE_QUOTE, source_id=source, quote=before)
        self._apply([TextChange(id_, after, before) for id_, before, after in undo["messages"]])
        self._run(DELETE_RESULTS)
        return UndoResult(None, [str(text) for text in undo["texts"]])

    def _apply(self, changes: Sequence[TextChange]) -> None:
        ids = [change.message_id for change in changes]
        reset_vectors(self._transaction, self._owner, ids)
        for change in changes:
            if change.before is None or change.after is None:
                continue
            after = storable(change.after)
            if self._run(UPDATE_TEXT, **vars(change) | {"after": after}):
                reword(self._transaction, self._owner, change.message_id, terms(after))
        if hidden := [change.message_id for change in changes if change.after is None]:
            self._run(SET_HIDDEN, DELETE_DOCUMENTS, hidden=True, request=None, ids=hidden)
        if shown := [change.message_id for change in changes if change.before is None]:
            self._run(SET_HIDDEN, hidden=False, request=None, ids=shown)
        self._run(DELETE_SUMMARIES, DELETE_REJECTED, CLEAR_QUESTIONS, ids=ids)

    def _withdraw(self, memory_id: int, reason: str) -> list[str]:
        """Retire a fact, restore those that it replaced, and return their texts.

        Its row stays, so that a replay of its message does not store it again.
        """
        self._run(RETIRE, ids=[memory_id], reason=reason, successor=None, until=None)
        self._run(DELETE_TOLD, ids=[memory_id])
        rows = self._rows(RESTORE, successor=memory_id, reasons=["replaced"], id=None, until=None)
        return [text for (text,) in rows]


def _escape_like(word: str) -> str:
    return storable(word).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
