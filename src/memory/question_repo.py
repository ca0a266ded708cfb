"""Open questions to the user about contradicting facts, and their end.

The checkpoint of the paused graph references its question (migration 0105), and the question its
messages and facts, so it is deleted with any of them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from src.base.errors import ConversationGoneError
from src.base.owners import Owner
from src.history import conversation_repo, turn_repo
from src.memory.search_index_repo import DELETE_EDITED as DELETE_DOCUMENTS
from src.pg.client import Repository, Transaction, storable
from src.pg.locks import lock_history
from src.queue.job_repo import CONTROL_QUEUE

# Questions about these messages; also a step of edits and of forgetting.
DELETE_QUESTIONS = """
DELETE FROM open_questions q USING messages m, conversations c
WHERE m.id = q.message_id AND c.id = m.conversation_id AND c.owner_id = %(owner)s
  AND (m.id = ANY(%(ids)s)
       OR q.thread_id IN (SELECT thread_id FROM question_facts WHERE message_id = ANY(%(ids)s)))
"""

# A question, asked in the answer to a message of the owner.
INSERT_QUESTION = """
INSERT INTO open_questions (thread_id, message_id, language)
SELECT %(thread)s, m.id, %(language)s
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id = %(message_id)s AND NOT m.is_forgotten AND c.owner_id = %(owner)s
"""

# The messages of a question and the facts that they deny, all of the owner.
INSERT_FACTS = """
INSERT INTO question_facts (thread_id, message_id, memory_id)
SELECT %(thread)s, m.id, f.id
FROM unnest(%(messages)s::bigint[], %(memories)s::bigint[]) AS pair (message_id, memory_id)
JOIN messages m ON m.id = pair.message_id
JOIN conversations c ON c.id = m.conversation_id AND c.owner_id = %(owner)s
JOIN memories f ON f.id = pair.memory_id AND f.owner_id = %(owner)s
ON CONFLICT DO NOTHING
"""

# Keep the background from extracting disputed facts from these messages.
MARK_DISPUTED = """
UPDATE messages m SET is_disputed = true FROM conversations c
WHERE m.id = ANY(%(messages)s) AND c.id = m.conversation_id AND c.owner_id = %(owner)s
"""

# An answer that asks, its question if that is still open, and the message that it answers.
SELECT_QUESTION = """
SELECT a.id, a.content, m.id, m.conversation_id, message_text(m.content), m.said_at,
       m.sender_id, q.thread_id, coalesce(q.language, ''),
       coalesce(q.asked_at < now() - make_interval(days => %(days)s), false),
       EXISTS (SELECT 1 FROM question_facts k JOIN memories f ON f.id = k.memory_id
               WHERE k.thread_id = q.thread_id AND f.retired_at IS NOT NULL),
       a.asks = 'conflict_over', a.changes
FROM messages a
JOIN messages m ON m.id = a.reply_to_id
JOIN conversations c ON c.id = m.conversation_id
LEFT JOIN open_questions q ON q.message_id = m.id
WHERE a.id = %(answer_id)s AND a.role = 'assistant'
  AND a.asks IN ('conflict', 'conflict_over') AND NOT a.is_forgotten AND NOT m.is_forgotten
  AND c.owner_id = %(owner)s
"""

# The messages that deny known facts, in their current text.
SELECT_DENYING = """
SELECT m.id, m.role, m.content, m.position, m.sender_id
FROM messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.id IN (SELECT message_id FROM question_facts WHERE thread_id = %(thread)s)
  AND c.owner_id = %(owner)s AND m.role = 'user' AND NOT m.is_forgotten
ORDER BY m.position, m.id LIMIT 100
"""

# Append the ending to the question, and queue the answer for the index.
UPDATE_ANSWER = """
WITH changed AS (
    UPDATE messages a
    SET content = a.content || %(ending)s, asks = 'conflict_over', changes = %(changes)s
    FROM open_questions q, conversations c
    WHERE q.thread_id = %(thread)s AND a.reply_to_id = q.message_id AND a.asks = 'conflict'
      AND c.id = a.conversation_id AND c.owner_id = %(owner)s
    RETURNING a.conversation_id, a.id
), waiting AS (
    INSERT INTO unindexed_messages SELECT conversation_id, id FROM changed ON CONFLICT DO NOTHING
)
SELECT id FROM changed
"""

# Queue a job that edits the question's message in Telegram.
DEFER_ENDING = """
SELECT procrastinate_defer_jobs_v1(ARRAY[
    ROW(%(queue)s, %(task)s, 0, NULL, NULL, jsonb_build_object('answer', a.id), NULL)
    ::procrastinate_job_to_defer_v1])
FROM messages a WHERE a.id = %(answer_id)s AND cardinality(a.sent_message_ids) > 0
"""

# A closed question, and the Telegram messages that show it.
SELECT_ENDING = """
SELECT c.telegram_user_id, a.content, a.sent_message_ids
FROM messages a JOIN conversations c ON c.id = a.conversation_id
WHERE a.id = %(answer_id)s AND a.asks = 'conflict_over' AND NOT a.is_forgotten
  AND cardinality(a.sent_message_ids) > 0
"""

# Keep both facts: the nightly job treats them like a merge that an operator undid.
KEEP_APART = """
INSERT INTO consolidations (kind, memory_id, kept_memory_id, details, undone_at)
SELECT DISTINCT 'contradiction', k.memory_id, f.id, '{"by": "user"}'::jsonb, now()
FROM question_facts k
JOIN memory_sources s ON s.message_id = k.message_id
JOIN memories f ON f.id = s.memory_id AND f.retired_at IS NULL AND f.id <> k.memory_id
     AND f.owner_id = %(owner)s
WHERE k.thread_id = %(thread)s
"""

# A closed question, with its checkpoint.
DELETE_QUESTION = """
DELETE FROM open_questions q USING messages m, conversations c
WHERE q.thread_id = %(thread)s AND m.id = q.message_id AND c.id = m.conversation_id
  AND c.owner_id = %(owner)s
"""

# Questions that were not answered in time.
SELECT_EXPIRED = """
SELECT c.telegram_user_id, c.thread_id, q.thread_id, a.id, q.language
FROM open_questions q
JOIN messages m ON m.id = q.message_id JOIN conversations c ON c.id = m.conversation_id
LEFT JOIN messages a ON a.reply_to_id = m.id AND a.role = 'assistant' AND a.asks = 'conflict'
     AND NOT a.is_forgotten AND NOT m.is_forgotten
WHERE q.asked_at < now() - make_interval(days => %(days)s)
ORDER BY q.asked_at, q.thread_id LIMIT %(limit)s
"""

SHOW_ENDING = "show_question_ending"  # the name of the task
EXPIRE_DAYS = 7  # the lifetime of a question, and of the texts in its checkpoint


@dataclass(frozen=True)
class ConflictQuestion:
    """An answer of the bot that asks which of two facts is right.

    Attributes:
        answer_id: The id of the answer.
        text: The text of the answer; with the ending after the question is over.
        message_id: The message that it answers.
        conversation_id: The conversation of both.
        told: The text of that message.
        said_at: The time of that message (aware).
        sender_id: The sender of that message.
        thread: The LangGraph thread of the paused run; None when it was deleted.
        language: The language of the question.
        is_expired: True if it is older than EXPIRE_DAYS.
        is_stale: True if one of its facts was retired.
        is_over: True if it was decided or closed; ``text`` has the ending.
        changes: The changes of its turn, and those of the decision.
    """

    answer_id: int
    text: str
    message_id: int
    conversation_id: UUID
    told: str
    said_at: datetime
    sender_id: int | None
    thread: str | None
    language: str
    is_expired: bool
    is_stale: bool
    is_over: bool
    changes: turn_repo.Changes


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


@dataclass(frozen=True)
class ExpiredQuestion:
    """A question that was not answered in time.

    Attributes:
        owner: The owner of the question.
        thread: The LangGraph thread of the paused run.
        answer_id: The answer that asks, if it exists and is visible.
        language: The language of the question.
    """

    owner: Owner
    thread: str
    answer_id: int | None
    language: str


class QuestionRepository(Repository):
    """Opens and closes questions; every method blocks (see ``PgClient.run``)."""

    def open(
        self,
        owner: Owner,
        thread: str,
        message_id: int,
        *,
        language: str,
        pairs: Collection[tuple[int, int]],
    ) -> None:
        """Store a question before its run pauses; it replaces one about the same message.

        Args:
            owner: The owner of the turn.
            thread: The LangGraph thread of the paused run.
            message_id: The message whose answer asks.
            language: The language of the question and of its ending.
            pairs: Ids of a message and of a known fact that it denies.

        Raises:
            ConversationGoneError: The message was deleted.
        """
        parameters = {
            **owner.columns(), "thread": thread, "message_id": message_id, "language": language,
            "ids": [message_id], "messages": [message for message, _ in pairs],
            "memories": [memory for _, memory in pairs],
        }  # fmt: skip

        def work(transaction: Transaction) -> None:
            lock_history(transaction, *owner)
            transaction.execute(DELETE_QUESTIONS, parameters)
            if not transaction.execute(INSERT_QUESTION, parameters):
                raise ConversationGoneError("the message to ask about was deleted")
            transaction.execute(INSERT_FACTS, parameters)
            transaction.execute(MARK_DISPUTED, parameters)

        self._client.in_transaction(work)

    def find(self, owner: Owner, answer_id: int) -> ConflictQuestion | None:
        """Return the question of an answer; None if the answer is gone, or asks nothing."""
        return self._first(
            lambda *row: ConflictQuestion(*[*row[:-1], turn_repo.Changes.from_row(row[-1])]),
            SELECT_QUESTION, owner, answer_id=answer_id, days=EXPIRE_DAYS,
        )  # fmt: skip

    def list_denying(self, owner: Owner, thread: str) -> list[conversation_repo.HistoryMessage]:
        """List the messages that deny known facts, oldest first."""
        rows = self._client.fetch_records(SELECT_DENYING, owner, thread=thread)
        return cast("list[conversation_repo.HistoryMessage]", rows)

    def close(
        self,
        owner: Owner,
        thread: str,
        ending: str,
        *,
        changes: turn_repo.Changes = turn_repo.NO_CHANGES,
        keeps_both: bool = False,
        is_shown: bool = False,
    ) -> None:
        """Delete a question with its checkpoints, and append the ending to its answer, once.

        Args:
            owner: The owner of the question.
            thread: The LangGraph thread of the paused run.
            ending: The text to append.
            changes: Changes that can be undone, for a later press of a button.
            keeps_both: Keep both facts, also in the nightly consolidation.
            is_shown: True if the caller shows the ending; else the job SHOW_ENDING does.
        """
        parameters: dict[str, Any] = {
            **owner.columns(), "thread": thread, "ending": storable(f"\n\n{ending}"),
            "changes": changes.as_row(), "queue": CONTROL_QUEUE, "task": SHOW_ENDING,
        }  # fmt: skip

        def work(transaction: Transaction) -> None:
            lock_history(transaction, *owner)
            changed = transaction.fetch_one(UPDATE_ANSWER, parameters)
            if changed is not None:
                indexed = {**parameters, "answer_id": changed[0], "ids": [changed[0]]}
                transaction.execute(DELETE_DOCUMENTS, indexed)
                if not is_shown:
                    transaction.execute(DEFER_ENDING, indexed)
            if keeps_both:
                transaction.execute(KEEP_APART, parameters)
            transaction.execute(DELETE_QUESTION, parameters)

        self._client.in_transaction(work)

    def find_ended(self, answer_id: int) -> EndedQuestion | None:
        """Return a closed question for the job that shows it; None without a Telegram message."""
        return self._first(EndedQuestion, SELECT_ENDING, answer_id=answer_id)

    def list_expired(self, *, limit: int = 100) -> list[ExpiredQuestion]:
        """List questions older than EXPIRE_DAYS, oldest first."""
        return self._all(
            lambda user, thread, *row: ExpiredQuestion(Owner(user, thread), *row),
            SELECT_EXPIRED, days=EXPIRE_DAYS, limit=limit,
        )  # fmt: skip
