"""Questions to the user about contradicting facts: data on the row of the answer that asks.

``messages.question`` holds the new facts until the user decides. It is cleared when one of their
messages is edited, hidden or forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from src.base.owners import Owner
from src.base.zones import local_time
from src.history import turn_repo
from src.memory.memory_repo import FactQuery, MemoryRepository, StoredFact
from src.memory.search_index_repo import DELETE_EDITED as DELETE_DOCUMENTS
from src.memory.writer import SourceText
from src.pg.client import Repository, Transaction, storable
from src.queue.job_repo import CONTROL_QUEUE
from src.reading.facts import Fact

# Drop the open questions of and about these messages; also a step of edits and of forgetting.
CLEAR_QUESTIONS = """
UPDATE messages a SET question = NULL FROM conversations c
WHERE c.id = a.conversation_id AND c.owner_id = %(owner)s AND a.question IS NOT NULL
  AND (a.id = ANY(%(ids)s) OR a.reply_to_id = ANY(%(ids)s)
       OR EXISTS (SELECT 1 FROM jsonb_array_elements(a.question) AS disputed
                  WHERE (disputed ->> 'message')::bigint = ANY(%(ids)s)))
"""

# Keep the background from extracting disputed facts from these messages.
MARK_DISPUTED = """
UPDATE messages SET is_disputed = true
WHERE id = ANY(%(ids)s) AND conversation_id = %(conversation_id)s
"""

# An answer that asks, or has asked, and the sender of the message that it answers.
SELECT_QUESTION = """
SELECT a.content, m.sender_id, a.asks = 'conflict_over',
       a.changes, coalesce(a.question, '[]')
FROM messages a
JOIN messages m ON m.id = a.reply_to_id
JOIN conversations c ON c.id = m.conversation_id
WHERE a.id = %(answer_id)s AND a.role = 'assistant'
  AND a.asks IN ('conflict', 'conflict_over') AND NOT a.is_forgotten AND NOT m.is_forgotten
  AND c.owner_id = %(owner)s
"""

# Messages of the user, in their current text.
SELECT_SAID = """
SELECT m.id, message_text(m.content), m.said_at
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = ANY(%(ids)s) AND c.owner_id = %(owner)s AND m.role = 'user' AND NOT m.is_forgotten
ORDER BY m.id LIMIT 100
"""

# Append the ending to the question, and queue the answer for the index.
UPDATE_ANSWER = """
WITH changed AS (
    UPDATE messages a
    SET content = a.content || %(ending)s, asks = 'conflict_over', changes = %(changes)s,
        question = NULL
    FROM conversations c
    WHERE a.id = %(answer_id)s AND a.asks = 'conflict'
      AND c.id = a.conversation_id AND c.owner_id = %(owner)s
    RETURNING a.conversation_id, a.id
)
INSERT INTO unindexed_messages SELECT conversation_id, id FROM changed ON CONFLICT DO NOTHING
"""

# Queue a job that edits the question's message in Telegram.
DEFER_ENDING = """
SELECT procrastinate_defer_jobs_v1(ARRAY[
    ROW(%(queue)s, %(task)s, 0, NULL, NULL, jsonb_build_object('answer', a.id), NULL)
    ::procrastinate_job_to_defer_v1])
FROM messages a JOIN conversations c ON c.id = a.conversation_id AND c.owner_id = %(owner)s
WHERE a.id = %(answer_id)s AND cardinality(a.sent_message_ids) > 0
"""

# A closed question, and the Telegram messages that show it.
SELECT_ENDING = """
SELECT c.telegram_user_id, a.content, a.sent_message_ids
FROM messages a JOIN conversations c ON c.id = a.conversation_id
WHERE a.id = %(answer_id)s AND a.asks = 'conflict_over' AND NOT a.is_forgotten
  AND cardinality(a.sent_message_ids) > 0
"""

# Keep facts apart: the nightly job treats them like a merge that an operator undid.
KEEP_APART = """
INSERT INTO changes (owner_id, kind, memory_id, merged_id, before, undone_at)
SELECT new.owner_id, 'merged', new.id, known.id, '{"by": "user"}'::jsonb, now()
FROM memories known JOIN memories new ON new.owner_id = known.owner_id AND new.id <> known.id
WHERE known.id = ANY(%(known)s) AND new.id = %(new)s AND known.owner_id = %(owner)s
"""

SHOW_ENDING = "show_question_ending"  # the name of the task


@dataclass(frozen=True)
class Dispute:
    """New fact that denies important known ones.

    Attributes:
        fact: The new fact.
        said: The message that says it.
        denied: The known facts, which it would replace.
    """

    fact: Fact
    said: SourceText
    denied: Sequence[StoredFact]

    def as_record(self) -> dict[str, Any]:
        """Return what ``messages.question`` stores of it."""
        return {
            "fact": self.fact.model_dump(mode="json"),
            "message": self.said.message_id,
            "denies": [memory.id for memory in self.denied],
        }


@dataclass(frozen=True)
class ConflictQuestion:
    """An answer of the bot that asks which of two facts is right.

    Attributes:
        text: The text of the answer; with the ending after the question is over.
        sender_id: The sender of the message that it answers.
        is_over: True if it was decided or closed; ``text`` has the ending.
        changes: The changes of its turn, and those of the decision.
        disputes: What it asks about; empty if a message or a known fact is gone or has changed.
    """

    text: str
    sender_id: int | None
    is_over: bool
    changes: turn_repo.Changes
    disputes: Sequence[Dispute]


@dataclass(frozen=True)
class EndedQuestion:
    """A closed question that Telegram shows.

    Attributes:
        chat_id: The chat that shows it.
        text: The question and its ending.
        sent_message_ids: The Telegram messages that show it; the last one has the buttons.
    """

    chat_id: int
    text: str
    sent_message_ids: Sequence[int]


def mark_disputed(transaction: Transaction, answer: turn_repo.NewAnswer) -> None:
    """Mark the messages that an answer asks about; a step of storing the answer."""
    ids = [record["message"] for record in answer.question]
    if ids:
        transaction.execute(MARK_DISPUTED, ids=ids, conversation_id=answer.conversation_id)


class QuestionRepository(Repository):
    """Reads and closes questions; every method blocks (see ``PgClient.run``)."""

    def find(self, owner: Owner, answer_id: int, *, time_zone: str) -> ConflictQuestion | None:
        """Return the question of an answer; None if the answer is gone, or asks nothing.

        ``time_zone`` is the owner's: the times of the messages are in it.
        """
        row = self._client.fetch_one(SELECT_QUESTION, owner, answer_id=answer_id)
        if row is None:
            return None
        text, sender_id, is_over, changes, records = row
        messages = [record["message"] for record in records]
        rows = self._client.fetch_all(SELECT_SAID, owner, ids=messages)
        said = {
            id_: SourceText(id_, text, local_time(said_at, time_zone))
            for id_, text, said_at in rows
        }
        denied = {number for record in records for number in record["denies"]}
        query = FactQuery(ids=sorted(denied))
        facts = MemoryRepository(self._client).list_facts(owner, query)
        known = {fact.id: fact for fact in facts}
        disputes: list[Dispute] = []
        if len(said) == len(set(messages)) and len(known) == len(denied):
            disputes = [
                Dispute(
                    Fact.model_validate(record["fact"]),
                    said[record["message"]],
                    [known[number] for number in record["denies"]],
                )
                for record in records
            ]
        was_changed = turn_repo.Changes.from_row(changes)
        return ConflictQuestion(text, sender_id, is_over, was_changed, disputes)

    def close(
        self,
        owner: Owner,
        answer_id: int,
        ending: str,
        *,
        changes: turn_repo.Changes,
        is_shown: bool,
    ) -> None:
        """Append the ending to an open question and drop its data; part of a transaction.

        Args:
            owner: The owner of the question.
            answer_id: The answer that asks.
            ending: The text to append.
            changes: Changes that can be undone, for a later press of a button.
            is_shown: True if the caller shows the ending; else the job SHOW_ENDING does.
        """
        ending = storable(f"\n\n{ending}")
        self._client.execute(
            UPDATE_ANSWER, owner, answer_id=answer_id, ending=ending, changes=changes.as_row()
        )
        self._client.execute(DELETE_DOCUMENTS, owner, ids=[answer_id])
        if not is_shown:
            self._client.execute(
                DEFER_ENDING, owner, answer_id=answer_id, queue=CONTROL_QUEUE, task=SHOW_ENDING
            )

    def keep_apart(self, owner: Owner, memory_id: int, known: Sequence[int]) -> None:
        """Keep a new fact beside known ones also in the nightly consolidation."""
        self._client.execute(KEEP_APART, owner, new=memory_id, known=list(known))

    def find_ended(self, answer_id: int) -> EndedQuestion | None:
        """Return a closed question for the job that shows it; None without a Telegram message."""
        return self._first(EndedQuestion, SELECT_ENDING, answer_id=answer_id)
