"""Steps of forgetting and of its undo, in a transaction of the caller."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from src.base.owners import Owner
from src.history.timeline_repo import DELETE_RESULTS
from src.memory.change_repo import ChangeRepository
from src.memory.forget_matching import Statement
from src.memory.memory_repo import fact_terms, message_number
from src.memory.question_repo import CLEAR_QUESTIONS
from src.memory.search_index_repo import DELETE_EDITED as DELETE_DOCUMENTS
from src.memory.search_index_repo import (
    DELETE_TOLD,
    NewDocument,
    add_documents,
    reset_vectors,
    reword,
)
from src.pg.client import OwnerSteps, Transaction, storable
from src.reading.facts import content_hash, fact_number, fact_uid
from src.reading.gate import MASK
from src.texts.morphology import terms

BEGINNING = 4  # letters of a word that are searched for


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
                 WHERE s.memory_id = f.id), '{}'), f.speaker_id,
       coalesce((SELECT p.private_text FROM private_facts p WHERE p.id = f.id), '')
FROM facts f WHERE f.owner_id = %(owner)s ORDER BY f.id
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

# Forget facts: they are hidden until a job deletes them (``PurgeRepository``).
FORGET_FACTS = """
UPDATE memories SET retired_at = now(), retired_reason = 'forgotten'
WHERE id = ANY(%(facts)s) AND owner_id = %(owner)s RETURNING text
"""
DELETE_FACT_DOCUMENTS = """
DELETE FROM search_documents WHERE memory_id = ANY(%(facts)s) AND owner_id = %(owner)s
"""

# Facts from which a clause is cut, with the quotes of their sources.
SELECT_WHOLE = """
SELECT f.id, f.text, f.object, f.content_hash, f.private_text, s.id, s.quote
FROM memories f JOIN memory_sources s ON s.memory_id = f.id
WHERE f.id = ANY(%(facts)s) AND f.owner_id = %(owner)s ORDER BY f.id, s.id
"""

# Replace the text of a fact, which is private as long as there is a code in it.
UPDATE_FACT = """
UPDATE memories SET text = %(text)s, object = %(object)s, content_hash = %(content_hash)s,
    private_text = %(private_text)s,
    memory_type = CASE WHEN %(private_text)s::text IS NOT NULL THEN 'private'
                       WHEN memory_type = 'private' THEN 'user_fact' ELSE memory_type END
WHERE id = %(id)s AND owner_id = %(owner)s
"""

# Quotes of these facts, and entities that only they mention, but not in their text.
TRIM_SOURCES = """
UPDATE memory_sources s SET quote = f.text FROM memories f
WHERE f.id = ANY(%(facts)s) AND f.owner_id = %(owner)s AND s.memory_id = f.id
"""
DELETE_CUT_ENTITIES = """
DELETE FROM entities e USING memory_entities l JOIN memories f ON f.id = l.memory_id
WHERE f.id = ANY(%(facts)s) AND f.owner_id = %(owner)s AND e.id = l.entity_id
  AND position(lower(e.name) IN lower(f.text)) = 0
  AND NOT EXISTS (SELECT 1 FROM memory_entities other
                  WHERE other.entity_id = e.id AND other.memory_id <> f.id)
"""

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
FROM memory_sources s JOIN facts f ON f.id = s.memory_id
WHERE s.message_id = ANY(%(ids)s) AND s.memory_id <> ALL(%(facts)s) AND f.owner_id = %(owner)s
ORDER BY s.id
"""

# Replace quotes that were cut out of their messages with the text of their fact.
REPLACE_QUOTES = """
UPDATE memory_sources s SET quote = f.text FROM memories f, messages m
WHERE s.id = ANY(%(sources)s) AND f.id = s.memory_id AND f.owner_id = %(owner)s
  AND m.id = s.message_id
  AND (m.is_forgotten OR position(lower(s.quote) IN lower(m.content)) = 0)
"""

# Restore the quote of one source.
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

# Remove quotations of forgotten text from replies; a long one is cut, with an ellipsis.
CLEAR_QUOTED = """
UPDATE messages m SET quoted = NULL, quoted_author_id = NULL
FROM conversations c
WHERE c.id = m.conversation_id AND m.quoted IS NOT NULL AND c.owner_id = %(owner)s
  AND EXISTS (SELECT 1 FROM unnest(%(gone)s::text[]) AS gone
              WHERE position(rtrim(lower(m.quoted), '…') IN lower(gone)) > 0
                 OR position(lower(gone) IN lower(m.quoted)) > 0)
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


# Retire a fact that was wrong, or told by words that were edited; in a group an undo is up to the
# member who told it.
WITHDRAW = """
UPDATE memories SET retired_at = now(), retired_reason = %(reason)s, superseded_by = NULL
WHERE id = %(memory_id)s AND owner_id = %(owner)s AND retired_at IS NULL
  AND (%(reason)s = 'edited' OR speaker_id IS NULL OR speaker_id = %(asker)s)
RETURNING text
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

    def __init__(self, transaction: Transaction, owner: Owner) -> None:
        """Run the steps in ``transaction``, on the rows of ``owner``."""
        super().__init__(transaction, owner)
        self.changes = ChangeRepository(transaction, owner)

    def list_facts(self) -> list[Statement]:
        """List every fact, oldest first."""
        return [Statement(*row) for row in self._rows(SELECT_FACTS)]

    def list_messages(
        self,
        *,
        facts: Collection[int] = (),
        ids: Collection[int] = (),
        words: Collection[str] = (),
    ) -> list[TouchedMessage]:
        """List messages that may repeat forgotten facts.

        Args:
            facts: Ids of facts; adds answers that cite them.
            ids: Ids of messages; adds answers to them, and answers that cite them.
            words: Lemmas and written words; adds messages with a word that begins like one.
        """
        beginnings = {storable(word.lstrip("@~")[:BEGINNING]) for word in words}
        literal = [re.sub(r"([\\%_])", r"\\\1", word) for word in beginnings]
        patterns = [f"%{word}%" for word in literal]
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
        others: Sequence[OtherQuote] = (),
        rests: Mapping[int, tuple[str, str | None]] = {},
    ) -> int:
        """Delete facts and redact messages; returns the id of the forgetting, for its undo.

        Args:
            facts: Ids of the facts to delete.
            texts: The forgotten texts that the reply to the user lists.
            asked_by: In a group, the member who asked for it, and may undo it.
            changes: Changes of messages.
            others: Quotes of other facts in messages.
            rests: What stays of facts from which a clause is cut, and, with a code, of their
                private texts.
        """
        whole = self._rows(SELECT_WHOLE, facts=list(rests))
        quotes = [[other.source_id, other.quote] for other in others]
        quotes += [[source, quote] for *_, source, quote in whole]
        number = self.changes.record(
            "forgotten",
            facts=facts,
            asked_by=asked_by,
            texts=list(texts),
            messages=[[change.message_id, change.before, change.after] for change in changes],
            quotes=quotes,
            whole=[list(fact) for fact in dict.fromkeys(row[:5] for row in whole)],
        )
        for id_, (rest, private) in rests.items():
            hashed = content_hash(f"{rest} {fact_uid(id_)}")  # another fact may say the same
            text = storable(rest)
            private_text = None if private is None else storable(private)
            self._update(id_, text, text, hashed, private_text)
        trimmed = list(rests)
        self._run(TRIM_SOURCES, DELETE_CUT_ENTITIES, DELETE_FACT_DOCUMENTS, facts=trimmed)
        self._index(trimmed)
        gone = [text for (text,) in self._rows(FORGET_FACTS, facts=list(facts))]
        self._run(DELETE_FACT_DOCUMENTS, facts=list(facts))
        self._apply(changes)
        self._run(REPLACE_QUOTES, sources=[other.source_id for other in others])
        gone += [*texts, *(change.before for change in changes if change.before)]
        self._run(CLEAR_QUOTED, DELETE_RESULTS, gone=gone)
        return number

    def _update(
        self, id_: int, text: str, value: str, hashed: str, private_text: str | None = None
    ) -> None:
        row = {"id": id_, "text": text, "object": value, "content_hash": hashed}
        self._run(UPDATE_FACT, **row, private_text=private_text)

    def _index(self, facts: Sequence[int]) -> None:
        documents = [
            NewDocument("memory", int(id_), "user", said_at, fact_terms(text, relation))
            for id_, text, relation, said_at in self._rows(SELECT_UNINDEXED_FACTS, facts=facts)
        ]
        if documents:
            add_documents(self._transaction, self._owner, documents)

    def hide_request(self, message_id: int) -> None:
        """Hide a request and the answers to it, since it names the thing to forget."""
        hiding = (SET_HIDDEN, DELETE_DOCUMENTS, DELETE_SUMMARIES)
        self._run(*hiding, hidden=True, request=message_id, ids=[message_id])

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

    def undo(
        self, memory_id: int | None = None, asker: int | None = None, *, number: int | None = None
    ) -> UndoResult | None:
        """Undo the storing of a fact, or a change; None if that is impossible.

        Args:
            memory_id: The fact; what it replaced is current again.
            asker: In a group, the member who asks, and who must have made the change.
            number: Without a fact, the number of the change; None for the last one.
        """
        if memory_id is not None:
            return self._withdraw(memory_id, "undone", asker)
        change = self.changes.find(asker, number=number, kinds=("saved", "forgotten"))
        if change is None:
            return None
        if change.memory_id is not None:
            return self._withdraw(change.memory_id, "undone", asker)
        self.changes.restore(change)
        ids = [fact["id"] for fact in change.before.get("facts", ())]
        for id_, *values in change.before.get("whole", ()):
            self._update(id_, *values)
            self._run(DELETE_FACT_DOCUMENTS, facts=[id_])
            ids.append(id_)
        self._index(ids)
        for source, quote in change.before["quotes"]:
            self._run(UPDATE_QUOTE, source_id=source, quote=quote)
        messages = change.before["messages"]
        self._apply([TextChange(id_, after, before) for id_, before, after in messages])
        self._run(DELETE_RESULTS)
        return UndoResult(None, list(change.before["texts"]))

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

    def find_forgetting(self, uid: str, asker: int | None) -> tuple[int, list[str]] | None:
        """Return number and texts of the forgetting of a fact or message that can be undone.

        Args:
            uid: ``fact-12`` or ``msg-12``.
            asker: In a group, the member who may undo it.
        """
        fact, message = fact_number(uid), message_number(uid)
        rows = {"messages": [[message]]} if fact is None else {"facts": [{"id": fact}]}
        change = self.changes.find(asker, kinds=("forgotten",), **rows)
        return (change.id, list(change.before["texts"])) if change is not None else None

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

    def _withdraw(
        self, memory_id: int, reason: str, asker: int | None = None
    ) -> UndoResult | None:
        """Retire a fact, and restore those that it replaced; None if it does not hold.

        Its row stays, so that a replay of its message does not store it again.
        """
        rows = self._rows(WITHDRAW, memory_id=memory_id, reason=reason, asker=asker)
        if not rows:
            return None
        self._run(DELETE_TOLD, ids=[memory_id])
        return UndoResult(rows[0][0], self.changes.restore_replaced(memory_id))
