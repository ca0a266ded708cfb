"""Forgetting, and taking it back: the steps of one transaction, put in order by its callers."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from src.history.timeline_repo import DELETE_RESULTS
from src.memory.forget_matching import Told
from src.memory.memory_repo import RESTORE, RETIRE, fact_terms, message_number
from src.memory.purge_repo import UNDO_SECONDS
from src.memory.question_repo import DELETE_QUESTIONS
from src.memory.search_index_repo import DELETE_EDITED as DELETE_DOCUMENTS
from src.memory.search_index_repo import NewDocument, add_documents, reset_vectors, reword
from src.pg.client import OwnerSteps, storable
from src.reading.facts import fact_number
from src.reading.gate import MASK
from src.texts.morphology import terms


@dataclass(frozen=True)
class TouchedMessage:
    """A message that may repeat what is forgotten.

    Attributes:
        id: Its number.
        role: ``user`` or ``assistant``.
        text: Without the time label.
        reply_to_id: What an answer answers.
        cites: Whether the answer names a forgotten fact, or its message, as its source.
        sender_id: In a group, the member who wrote it.
    """

    id: int
    role: str
    text: str
    reply_to_id: int | None
    cites: bool
    sender_id: int | None


class OtherQuote(NamedTuple):
    """What another fact quotes of a message: the ids of source and message, and the fact."""

    source_id: int
    message_id: int
    quote: str
    text: str
    object: str


@dataclass(frozen=True)
class Change:
    """What becomes of a message: other words; None: it is hidden, or was before."""

    message_id: int
    before: str | None
    after: str | None


# Every fact of the owner with its quotes.
SELECT_FACTS = """
SELECT f.text, f.subject, f.relation, f.object, true, f.id, f.retired_at IS NULL, f.superseded_by,
       coalesce((SELECT jsonb_object_agg(s.uid, s.quote) FROM memory_sources s
                 WHERE s.memory_id = f.id), '{}'), f.speaker_id
FROM memories f
WHERE f.owner_id = %(owner)s
ORDER BY f.id
"""

# Messages that may hold what is forgotten: the sources, answers to them and answers that cite
# it, and whatever holds one of the words, by their beginnings.
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

# What undoing needs, as the rows are now; whose they are stands beside it, also after a move.
KEEP_ROWS = """
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

# The facts leave the memory.
DELETE_FACTS = """
DELETE FROM memories
WHERE id = ANY(%(facts)s) AND owner_id = %(owner)s
"""

# Messages that are hidden, a request with what the bot has answered to it so far: neither shown to
# the model nor searched any more, and deleted for good by a job (``PurgeRepository``). Or shown
# again, when the search takes them in anew.
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

# A message with other words behind its time label, unless it was edited meanwhile.
UPDATE_TEXT = """
UPDATE messages m
SET file_id = NULL,
    content = left(m.content, length(m.content) - length(message_text(m.content))) || %(after)s
FROM conversations c
WHERE m.id = %(message_id)s AND message_text(m.content) = %(before)s
  AND c.id = m.conversation_id AND c.owner_id = %(owner)s
"""

# What others facts quote of the messages that are cut.
SELECT_OTHER_QUOTES = """
SELECT s.id, s.message_id, s.quote, f.text, f.object
FROM memory_sources s JOIN memories f ON f.id = s.memory_id
WHERE s.message_id = ANY(%(ids)s) AND s.memory_id <> ALL(%(facts)s) AND f.owner_id = %(owner)s
ORDER BY s.id
"""
UPDATE_QUOTE = """
UPDATE memory_sources s SET quote = %(quote)s FROM memories f
WHERE s.id = %(source_id)s AND f.id = s.memory_id AND f.owner_id = %(owner)s
"""

# Summaries that told of them; the compaction writes them anew.
DELETE_SUMMARIES = """
DELETE FROM conversation_summaries s USING messages m, conversations c
WHERE m.id = ANY(%(ids)s) AND s.conversation_id = m.conversation_id
  AND m.position BETWEEN s.first_position AND s.last_position
  AND c.id = s.conversation_id AND c.owner_id = %(owner)s
"""

# What was refused of them may say the same.
DELETE_REJECTED = """
DELETE FROM rejected_facts
WHERE message_id = ANY(%(ids)s) AND owner_id = %(owner)s
"""

# Names that no fact mentions any more.
DELETE_ORPHANED_ENTITIES = """
DELETE FROM entities e
WHERE e.owner_id = %(owner)s
  AND NOT EXISTS (SELECT 1 FROM memory_entities l WHERE l.entity_id = e.id)
"""

# Replies that quote what is gone.
CLEAR_QUOTED = """
UPDATE messages m SET quoted = NULL, quoted_author_id = NULL
FROM conversations c
WHERE c.id = m.conversation_id AND m.quoted IS NOT NULL AND c.owner_id = %(owner)s
  AND EXISTS (SELECT 1 FROM unnest(%(gone)s::text[]) AS gone
              WHERE position(lower(m.quoted) IN lower(gone)) > 0
                 OR position(lower(gone) IN lower(m.quoted)) > 0)
"""

# What can be taken back for a while.
INSERT_FORGETTING = """
INSERT INTO forgettings (owner_id, kept) VALUES (%(owner)s, %(kept)s) RETURNING id
"""


# A message that nothing shall remember, with the answers to it and those that cite it.
SELECT_PRIVATE = """
SELECT m.id FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE (m.id = %(request)s OR m.reply_to_id = %(request)s
       OR EXISTS (SELECT 1 FROM answer_sources s
                  WHERE s.answer_id = m.id AND s.message_id = %(request)s))
  AND c.owner_id = %(owner)s
"""

# They are marked; and what was taken of the message already goes.
KEEP_PRIVATE = (
    """
UPDATE messages m SET is_private = true
FROM conversations c
WHERE m.id = ANY(%(ids)s) AND c.id = m.conversation_id AND c.owner_id = %(owner)s
""",
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


class Undone(NamedTuple):
    """What was taken back.

    Attributes:
        text: The fact that is not believed any more; None when a forgetting was taken back.
        restored: What holds, or is known, again.
    """

    text: str | None
    restored: list[str]


# The last change that can be taken back: of facts that replaced others, of one kept with /remember
# after which nothing was said, or how a certain one came about, and of forgettings; in a group of
# what the one who asks told, or wanted forgotten.
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

# Living facts that a message told, with its words for each, and whether another one tells them.
SELECT_TOLD = """
SELECT f.id, s.quote, EXISTS (SELECT 1 FROM memory_sources other
                              WHERE other.memory_id = f.id AND other.id <> s.id)
FROM memory_sources s JOIN memories f ON f.id = s.memory_id
WHERE s.message_id = %(message_id)s AND f.owner_id = %(owner)s AND f.retired_at IS NULL
"""

# A fact that others tell as well, or all that it told.
DELETE_SOURCE = """
DELETE FROM memory_sources s USING memories f
WHERE s.message_id = %(message_id)s AND f.id = s.memory_id AND f.owner_id = %(owner)s
  AND (%(memory_id)s::bigint IS NULL OR f.id = %(memory_id)s)
"""

# One without a source: told again, it is new.
RENAME_EPISODE = """
UPDATE memory_sources s SET episode = 'edited_' || s.uid FROM memories f
WHERE s.memory_id = f.id AND f.id = %(memory_id)s AND f.owner_id = %(owner)s
"""

# A forgetting that can still be taken back, once; in a group by the member who wanted it.
TAKE_FORGETTING = """
DELETE FROM forgettings
WHERE id = %(id)s AND owner_id = %(owner)s
  AND created_at > now() - make_interval(secs => %(seconds)s)
  AND (kept ->> 'asked_by' IS NULL OR kept ->> 'asked_by' = %(asker)s::text)
RETURNING kept
"""

# The same, of a fact or a message, without taking it back.
SELECT_FORGETTING = """
SELECT id, kept -> 'texts' FROM forgettings
WHERE owner_id = %(owner)s AND created_at > now() - make_interval(secs => %(seconds)s)
  AND (kept ->> 'asked_by' IS NULL OR kept ->> 'asked_by' = %(asker)s::text)
  AND (kept -> 'facts' @> jsonb_build_array(jsonb_build_object('id', %(fact)s::bigint))
       OR kept -> 'messages' @> jsonb_build_array(jsonb_build_array(%(message)s::bigint)))
ORDER BY id DESC LIMIT 1
"""

# Rows as they were: facts, sources, names, links, in this order. What was told anew meanwhile
# stands, what hung on it is passed over, and so are references to what is gone. A column that a
# table does not have counts for nothing.
KEPT_TABLES = {
    "facts": "memories", "sources": "memory_sources", "entities": "entities",
    "links": "memory_entities",
}  # fmt: skip
RESTORE_ROWS = """
INSERT INTO {table} OVERRIDING SYSTEM VALUE
SELECT (jsonb_populate_record(NULL::{table}, old || jsonb_build_object(
    'owner_id', %(owner)s,
    'message_id', (SELECT id FROM messages WHERE id = (old->>'message_id')::bigint),
    'superseded_by', (
        SELECT id FROM (SELECT id FROM memories UNION ALL
                        SELECT (fact->>'id')::bigint
                        FROM jsonb_array_elements(%(facts)s::jsonb) AS fact) AS there (id)
        WHERE id = (old->>'superseded_by')::bigint LIMIT 1)))).*
FROM jsonb_array_elements(%({kept})s::jsonb) AS old
WHERE (old->>'memory_id' IS NULL
       OR EXISTS (SELECT 1 FROM memories WHERE id = (old->>'memory_id')::bigint))
  AND (old->>'entity_id' IS NULL
       OR EXISTS (SELECT 1 FROM entities WHERE id = (old->>'entity_id')::bigint))
ON CONFLICT DO NOTHING
"""

# Facts that came back and are not in the search.
SELECT_UNINDEXED_FACTS = """
SELECT f.id, f.text, f.relation, f.said_at FROM facts f
WHERE f.id = ANY(%(facts)s) AND f.owner_id = %(owner)s
  AND NOT EXISTS (SELECT 1 FROM search_documents d WHERE d.memory_id = f.id)
"""


class ForgettingRepository(OwnerSteps):
    """Forgets and takes back, after ``lock_history``.

    ``src/memory/forgetter.py`` puts those of forgetting in order.
    """

    def list_facts(self) -> list[Told]:
        """Every fact, oldest first."""
        return [Told(*row) for row in self._rows(SELECT_FACTS)]

    def list_messages(
        self,
        *,
        facts: Collection[int] = (),
        ids: Collection[int] = (),
        beginnings: Collection[str] = (),
    ) -> list[TouchedMessage]:
        """Messages that told these facts, cite or answer them, or hold one of the words."""
        patterns = [f"%{_literal(word)}%" for word in beginnings]
        rows = self._rows(SELECT_MESSAGES, facts=list(facts), ids=list(ids), patterns=patterns)
        return [TouchedMessage(*row) for row in rows]

    def list_other_quotes(
        self, *, facts: Collection[int], ids: Collection[int]
    ) -> list[OtherQuote]:
        """What other facts quote of these messages."""
        rows = self._rows(SELECT_OTHER_QUOTES, facts=list(facts), ids=list(ids))
        return [OtherQuote(*row) for row in rows]

    def forget(
        self,
        facts: Collection[int],
        *,
        texts: Sequence[str],
        asked_by: int | None = None,
        changes: Sequence[Change] = (),
        quotes: Mapping[int, tuple[str, str]] = MappingProxyType({}),
    ) -> int:
        """Take the facts and the words away; returns the number under which it can be undone.

        Args:
            facts: Ids of the facts that go.
            texts: What the user is told to be forgotten.
            asked_by: In a group, the member who wants it, and may undo it.
            changes: What becomes of messages.
            quotes: Quotes of other facts, before and after, by the id of the source.
        """
        [(kept,)] = self._rows(KEEP_ROWS, facts=list(facts))
        kept |= {"texts": list(texts), "asked_by": asked_by}
        kept["messages"] = [[c.message_id, c.before, c.after] for c in changes]
        kept["quotes"] = [[number, before, after] for number, (before, after) in quotes.items()]
        for number, (_, after) in quotes.items():
            self._run(UPDATE_QUOTE, source_id=number, quote=after)
        self._run(DELETE_FACTS, facts=list(facts))
        self._change(changes)
        gone = [*texts, *(change.before for change in changes)]
        gone += [row["text"] for row in kept["facts"]]
        self._run(CLEAR_QUOTED, gone=[text for text in gone if text])
        self._run(DELETE_RESULTS, DELETE_ORPHANED_ENTITIES)
        [(number,)] = self._rows(INSERT_FORGETTING, kept=json.dumps(kept, ensure_ascii=False))
        return int(number)

    def hide_request(self, message_id: int) -> None:
        """The request names what to forget; it is shown to no model again."""
        self._run(
            SET_HIDDEN, DELETE_DOCUMENTS, DELETE_SUMMARIES,
            hidden=True, request=message_id, ids=[message_id],
        )  # fmt: skip

    def mask(self, message_id: int, secret: str) -> None:
        """Put a mask in the place of a secret that a message is, also in the answer to it."""
        found = self.list_messages(ids=[message_id])
        self._change([Change(m.id, m.text, m.text.replace(secret, MASK)) for m in found])

    def keep_private(self, message_id: int) -> None:
        """Keep a message, and the answers to it, out of everything but the window.

        What was made of them goes: facts that nothing else tells, documents, summaries; the
        vectors of what was said right after them are made anew.
        """
        ids = [int(row[0]) for row in self._rows(SELECT_PRIVATE, request=message_id)]
        reset_vectors(self._transaction, self._owner, ids)
        self._run(
            *KEEP_PRIVATE, DELETE_SOURCE, DELETE_REJECTED, DELETE_DOCUMENTS, DELETE_SUMMARIES,
            DELETE_QUESTIONS, request=message_id, ids=ids, message_id=message_id, memory_id=None,
        )  # fmt: skip

    def undo(self, memory_id: int | None = None, asker: int | None = None) -> Undone | None:
        """Take the last change back, or how ``memory_id`` came about; None: there is none.

        In a group only what ``asker`` told, or wanted forgotten.
        """
        rows = self._rows(SELECT_LAST, memory_id=memory_id, asker=asker, seconds=UNDO_SECONDS)
        if not rows:
            return None
        [(kind, number, text, _)] = rows
        if kind == "forgetting":
            return self.undo_forgetting(number, asker)
        return Undone(text, self._withdraw(number, "undone"))

    def list_told(self, message_id: int) -> list[tuple[int, str, bool]]:
        """Numbers of living facts that it told, its words for each, and whether others tell it."""
        return [(*row,) for row in self._rows(SELECT_TOLD, message_id=message_id)]

    def untell(self, message_id: int, memory_id: int, *, has_others: bool) -> None:
        """A message does not tell this fact any more.

        One that no other message tells is retired, and what it had replaced holds again.
        """
        if has_others:
            self._run(DELETE_SOURCE, message_id=message_id, memory_id=memory_id)
        else:
            self._withdraw(memory_id, "edited")
            self._run(RENAME_EPISODE, memory_id=memory_id)

    def find_forgetting(self, uid: str, asker: int | None) -> tuple[int, list[str]] | None:
        """Number and texts of the forgetting of a fact or message, while ``asker`` may undo it.

        Args:
            uid: ``fact-12`` or ``msg-12``.
            asker: Who looks, in a group.
        """
        rows = self._rows(
            SELECT_FORGETTING, asker=asker, seconds=UNDO_SECONDS,
            fact=fact_number(uid) or 0, message=message_number(uid) or 0,
        )  # fmt: skip
        return (int(rows[0][0]), list(rows[0][1])) if rows else None

    def undo_forgetting(self, number: int, asker: int | None = None) -> Undone | None:
        """Take a forgetting back; None when it is too late.

        Args:
            number: As ``forget`` returned it.
            asker: Who wants it back, in a group.
        """
        rows = self._rows(TAKE_FORGETTING, id=number, seconds=UNDO_SECONDS, asker=asker)
        if not rows:
            return None
        [(kept,)] = rows
        old = {name: json.dumps(kept[name]) for name in KEPT_TABLES}
        for name, table in KEPT_TABLES.items():
            self._run(RESTORE_ROWS.replace("{table}", table).replace("{kept}", name), **old)
        back = self._rows(SELECT_UNINDEXED_FACTS, facts=[fact["id"] for fact in kept["facts"]])
        documents = [
            NewDocument("memory", int(id_), "user", said_at, fact_terms(text, relation))
            for id_, text, relation, said_at in back
        ]
        if documents:
            add_documents(self._transaction, self._owner, documents)
        for source, before, _ in kept["quotes"]:
            self._run(UPDATE_QUOTE, source_id=source, quote=before)
        self._change([Change(id_, after, before) for id_, before, after in kept["messages"]])
        self._run(DELETE_RESULTS)
        return Undone(None, [str(text) for text in kept["texts"]])

    def _change(self, changes: Sequence[Change]) -> None:
        """Let messages say something else, hide them, or show them again."""
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
        self._run(DELETE_SUMMARIES, DELETE_REJECTED, DELETE_QUESTIONS, ids=ids)

    def _withdraw(self, memory_id: int, reason: str) -> list[str]:
        """Believe a fact no more; returns the texts of what it had replaced, which hold again.

        It stays, so that a replay of its message does not bring it back.
        """
        self._run(RETIRE, ids=[memory_id], reason=reason, successor=None, until=None)
        restored = self._rows(
            RESTORE, successor=memory_id, reasons=["replaced"], id=None, until=None
        )
        return [str(text) for (text,) in restored]


def _literal(word: str) -> str:
    """A word in which LIKE sees no signs of its own."""
    return storable(word).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
