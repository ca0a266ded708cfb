"""Repository of turns: the answer, its delivery, its token usage."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from src.base import errors, owners
from src.base.owners import Mode
from src.history.conversation_repo import FOREIGN_KEY_VIOLATION
from src.llm.reply import ModelUsage
from src.pg.client import Repository, Transaction, storable
from src.queue.job_repo import BACKGROUND_QUEUE, INDEX_MESSAGES
from src.queue.update_repo import UpdateOutcome

# Questions of an answer: erase everything; which of two facts is right, open or closed; which of
# several things to forget; which reminder is meant, or when to remind; the user's time zone.
# "reminder" asks nothing: the answer names reminders, and the next message may cancel or move one.
Asks = (
    Literal["erase_all", "conflict", "conflict_over", "forget_which"]
    | Literal["reminder_which", "reminder_time", "reminder", "zone"]
)


@dataclass(frozen=True)
class AnswerSource:
    """Source of a reference in an answer.

    Attributes:
        number: 1 for ``[1]``.
        uid: ``msg-<id>``.
        text: The quoted words, verbatim.
        said_at: When they were said.
        message_id: The message, unless it was deleted.
        memory_id: The fact, if the source is one.
    """

    number: int
    uid: str
    text: str
    said_at: datetime
    message_id: int | None = None
    memory_id: int | None = None


@dataclass(frozen=True)
class Changes:
    """Changes of a turn, by ids only: their texts may be forgotten meanwhile.

    Attributes:
        saved: New facts.
        replaced_by: New facts that replaced others.
        forgetting: Number under which something was forgotten.
        reminders: Reminders that were set.
        zones: Time zones offered to the user as their own.
        names_zone: True if the answer names the time zone that the bot goes by.
        wish: The wish about answers that is offered to be kept, or "".
    """

    saved: tuple[int, ...] = ()
    replaced_by: tuple[int, ...] = ()
    forgetting: int | None = None
    reminders: tuple[int, ...] = ()
    zones: tuple[str, ...] = ()
    names_zone: bool = False
    wish: str = ""

    @classmethod
    def from_row(cls, stored: dict[str, Any] | None) -> Self:
        """Build the changes from their stored form; None means no changes."""
        changes = dict(stored or {})
        for name in LISTS:
            changes[name] = tuple(changes.get(name, ()))
        return cls(**changes)

    def __add__(self, later: "Changes") -> "Changes":
        """Merge two sets of changes; of single values the later one wins."""
        merged = {name: value or getattr(self, name) for name, value in vars(later).items()}
        for name in LISTS:
            merged[name] = getattr(self, name) + getattr(later, name)
        return Changes(**merged)

    def as_row(self) -> str | None:
        """Return the changes as JSON for the database, None if there are none."""
        if self == NO_CHANGES:
            return None
        return json.dumps(vars(self))


NO_CHANGES = Changes()
LISTS = ("saved", "replaced_by", "reminders", "zones")  # of ``Changes``


@dataclass(frozen=True)
class StoredAnswer:
    """Answer in the database.

    Attributes:
        id: Its message id.
        text: Markdown, as the model wrote it.
        delivered: True if the user has it.
        delivered_parts: Number of its Telegram messages that have arrived.
        tools: Names of the tools that ran; known only right after it was made.
        sources: Sources of its references.
        intent: Intent that strict mode read; known only right after it was made.
        asks: Its question, if it asks one.
        changes: Changes of its turn.
    """

    id: int
    text: str
    delivered: bool
    delivered_parts: int
    tools: tuple[str, ...] = ()
    sources: tuple[AnswerSource, ...] = ()
    intent: str | None = None
    asks: Asks | None = None
    changes: Changes = NO_CHANGES

    @classmethod
    def from_row(cls, *row: Any) -> Self:
        """Build it from a row of ``SELECT_ANSWER``."""
        id_, text, delivered, parts, asks, changes = row
        return cls(id_, text, delivered, parts, asks=asks, changes=Changes.from_row(changes))


@dataclass(frozen=True)
class NewAnswer:
    """Answer of a finished turn, to be stored.

    Attributes:
        conversation_id: The conversation.
        message_id: The user message that is answered.
        text: The answer, Markdown.
        tools: Names of the tools that ran, in order.
        usage: The model calls.
        stopped: True if the user stopped it, so that the text is only its beginning.
        sources: Sources of its references.
        asks: Its question, if it asks one.
        is_private: True if it answers a private message beside the one it replies to.
        changes: Changes of its turn.
        mode: Mode in which it was given.
        recall: What was recalled for it, as JSON; None if no model was asked.
        question: Data of its question, as JSON.
    """

    conversation_id: UUID
    message_id: int
    text: str
    tools: tuple[str, ...] = ()
    usage: tuple[ModelUsage, ...] = ()
    stopped: bool = False
    sources: tuple[AnswerSource, ...] = ()
    asks: Asks | None = None
    is_private: bool = False
    changes: Changes = NO_CHANGES
    mode: Mode = "assistant"
    recall: Mapping[str, Any] | None = None
    question: Sequence[Mapping[str, Any]] = ()

    def columns(self) -> dict[str, Any]:
        """Return the parameters of ``INSERT_ANSWER``."""
        return vars(self) | {
            "content": storable(self.text),
            "changes": self.changes.as_row(),
            "usage": _usage_json(self.usage),
            "recall": json.dumps(self.recall),
            "question": json.dumps(self.question),
        }


# The answer to a message.
SELECT_ANSWER = """
SELECT a.id, a.content, a.delivered_at IS NOT NULL, a.delivered_parts, a.asks, a.changes
FROM messages a
WHERE a.conversation_id = %(conversation_id)s AND a.reply_to_id = %(message_id)s
  AND a.role = 'assistant'
"""

# Record model calls, one row each, for the conversation's owner.
INSERT_USAGE = """
INSERT INTO model_usage (owner_id, purpose, model, prompt_tokens, cached_tokens,
                         completion_tokens, duration_ms, error)
SELECT c.owner_id, u.purpose, u.model, u.prompt_tokens, u.cached_tokens,
       u.completion_tokens, u.duration_ms, left(u.error, 200)
FROM conversations c, jsonb_to_recordset(%(usage)s::jsonb)
     AS u (purpose text, model text, prompt_tokens int, cached_tokens int, completion_tokens int,
           duration_ms int, error text)
WHERE c.id = %(conversation_id)s
"""

# Store the answer and its usage. A message has one answer, so a second attempt returns no row.
# The answer to a forgotten or private message is forgotten or private too.
INSERT_ANSWER = f"""
WITH answer AS (
    INSERT INTO messages (conversation_id, role, content, reply_to_id, is_forgotten, forgotten_at,
                          is_private, asks, question, changes, mode, recall, position)
    SELECT m.conversation_id, 'assistant', %(content)s, m.id, m.is_forgotten, m.forgotten_at,
           m.is_private OR %(is_private)s, %(asks)s, nullif(%(question)s::jsonb, '[]'),
           %(changes)s, %(mode)s, nullif(%(recall)s::jsonb, 'null'),
           1 + greatest(c.last_position, (SELECT max(position) FROM messages
                                          WHERE conversation_id = %(conversation_id)s))
    FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE m.id = %(message_id)s AND m.conversation_id = %(conversation_id)s
    ON CONFLICT (reply_to_id) WHERE role = 'assistant' DO NOTHING
    RETURNING id, conversation_id, is_forgotten OR is_private AS is_hidden
), waiting AS (
    INSERT INTO unindexed_messages SELECT conversation_id, id FROM answer WHERE NOT is_hidden
), usage AS ({INSERT_USAGE} AND EXISTS (SELECT 1 FROM answer))
SELECT id FROM answer
"""  # noqa: S608  (it holds a constant of ours)

# A row if the conversation exists, or the message in another one.
SELECT_MOVED = """
SELECT 1 FROM conversations WHERE id = %(conversation_id)s
UNION ALL SELECT 1 FROM messages WHERE id = %(message_id)s
"""

# Store the names of the tools that ran as a system message.
INSERT_TOOLS_USED = """
INSERT INTO messages (conversation_id, role, content, reply_to_id, position)
VALUES (%(conversation_id)s, 'system', %(content)s, %(message_id)s,
        (SELECT max(position) + 1 FROM messages WHERE conversation_id = %(conversation_id)s))
"""

# Store the sources of an answer: messages of its conversation, and imported ones; ids of messages
# and facts deleted meanwhile become NULL.
INSERT_SOURCES = """
INSERT INTO answer_sources (answer_id, number, message_id, memory_id)
SELECT %(answer_id)s, s.number, m.id, f.id
FROM conversations own CROSS JOIN
     unnest(%(numbers)s::int[], %(message_ids)s::bigint[], %(memory_ids)s::bigint[])
     AS s (number, message_id, memory_id)
LEFT JOIN (messages m JOIN conversations c ON c.id = m.conversation_id)
     ON m.id = s.message_id
    AND (c.id = own.id OR (c.owner_id = own.owner_id AND c.import_id IS NOT NULL))
LEFT JOIN facts f ON f.id = s.memory_id AND f.owner_id = own.owner_id
WHERE own.id = %(conversation_id)s
ON CONFLICT DO NOTHING
"""

# The sources of a stored answer.
SELECT_SOURCES = """
SELECT s.number, coalesce('msg-' || s.message_id, f.uid, ''),
       coalesce(nullif(f.quote, ''), f.text, message_text(m.content), ''),
       coalesce(m.said_at, f.said_at, a.created_at), s.message_id, s.memory_id
FROM answer_sources s
JOIN messages a ON a.id = s.answer_id AND a.conversation_id = %(conversation_id)s
LEFT JOIN messages m ON m.id = s.message_id
LEFT JOIN facts f ON f.id = s.memory_id
WHERE s.answer_id = %(answer_id)s AND num_nonnulls(s.message_id, s.memory_id) > 0
ORDER BY s.number
"""

# Mark the message as one whose answer the user stopped.
UPDATE_STOPPED = """
UPDATE messages SET stopped_at = now()
WHERE id = %(message_id)s AND conversation_id = %(conversation_id)s
"""

# Mark the message as one that the bot gave up answering.
UPDATE_FAILED = """
UPDATE messages SET failed_at = now()
WHERE bot_id = %(bot_id)s AND chat_id = %(chat_id)s AND telegram_message_id = %(message_id)s
"""

# Leave messages and the answers to them out of prompts and memory: they would trip a model's
# filter again, or teach it to say nothing.
UPDATE_LEFT_OUT = """
UPDATE messages SET failed_at = coalesce(failed_at, now()), is_private = true
WHERE conversation_id = %(conversation_id)s AND (id = ANY(%(ids)s) OR reply_to_id = ANY(%(ids)s))
"""

# The Telegram message ids of an answer, with new ones appended in order.
SENT_IDS = """coalesce(sent_message_ids, '{}') || array(
        SELECT id FROM unnest(%(sent)s::bigint[]) WITH ORDINALITY AS new (id, place)
        WHERE id <> ALL(coalesce(sent_message_ids, '{}')) ORDER BY place)"""

# Mark the answer as delivered and its update as handled, and defer the indexing job of the memory:
# one statement, right after sending. A process killed before that sends the answer again.
UPDATE_DELIVERED = f"""
WITH delivered AS (
    UPDATE messages SET delivered_at = now(), delivered_parts = %(parts)s,
                        sent_message_ids = {SENT_IDS}
    WHERE id = %(answer_id)s AND conversation_id = %(conversation_id)s
)
UPDATE telegram_updates SET handled_at = now(), outcome = %(outcome)s, payload = '{{}}',
                            first_word_at = %(first_word_at)s
WHERE id = %(update)s RETURNING defer_once(%(queue)s, %(task)s)
"""  # noqa: S608  (it holds a constant of ours)

# Mark the answer to a stored update's message as stopped and delivered: no more parts are sent.
UPDATE_DELIVERY_STOPPED = """
WITH question AS (
    UPDATE messages m SET stopped_at = now()
    FROM telegram_updates u
    WHERE u.id = %(update)s AND m.bot_id = u.bot_id AND m.chat_id = u.chat_id
      AND m.telegram_message_id = u.message_id
    RETURNING m.id, m.conversation_id
)
UPDATE messages a SET delivered_at = now()
FROM question q
WHERE a.conversation_id = q.conversation_id AND a.reply_to_id = q.id AND a.role = 'assistant'
  AND a.delivered_at IS NULL
"""

# Store the number and ids of the delivered parts of a long answer.
UPDATE_DELIVERED_PARTS = f"""
UPDATE messages SET delivered_parts = %(parts)s, sent_message_ids = {SENT_IDS}
WHERE id = %(answer_id)s AND conversation_id = %(conversation_id)s
"""  # noqa: S608  (it holds a constant of ours)

# Store the Telegram message that shows the growing answer in a group, on the question's row.
UPDATE_STREAM_MESSAGE = """
UPDATE messages SET stream_message_id = %(telegram_message_id)s
WHERE id = %(message_id)s AND conversation_id = %(conversation_id)s
"""

# The Telegram message that shows the growing answer to a message.
SELECT_STREAM_MESSAGE = """
SELECT stream_message_id FROM messages
WHERE id = %(message_id)s AND conversation_id = %(conversation_id)s
"""

# How the answer to the newest user message of the topic was stopped: with a word about it if the
# transaction that stored it marked the message, since the model was still writing.
SELECT_STOP = """
SELECT CASE WHEN m.stopped_at = a.created_at THEN 'shown'
            WHEN m.stopped_at IS NOT NULL THEN 'silent' END
FROM messages m JOIN conversations c ON c.id = m.conversation_id
LEFT JOIN messages a ON a.reply_to_id = m.id AND a.role = 'assistant'
WHERE c.telegram_user_id = %(user)s AND c.thread_id = %(thread_id)s AND m.role = 'user'
ORDER BY m.created_at DESC, m.id DESC LIMIT 1
"""

# Current facts, or else messages, cited by the answer in a Telegram message, and one row without a
# uid for the answer itself. Only the newest 300 answers are searched.
SELECT_CITED = """
WITH answer AS (
    SELECT id FROM (
        SELECT a.id, a.sent_message_ids
        FROM messages a JOIN conversations c ON c.id = a.conversation_id
        WHERE c.owner_id = %(owner)s
          AND a.role = 'assistant'
        ORDER BY a.created_at DESC, a.id DESC LIMIT 300) AS newest
    WHERE %(sent)s = ANY(sent_message_ids) LIMIT 1
)
SELECT NULL AS uid, NULL AS text FROM answer
UNION SELECT coalesce('fact-' || f.id, 'msg-' || m.id), coalesce(f.text, message_text(m.content))
FROM answer JOIN answer_sources s ON s.answer_id = answer.id
LEFT JOIN facts f ON f.id = s.memory_id AND f.retired_at IS NULL AND f.owner_id = %(owner)s
LEFT JOIN messages m ON m.id = s.message_id AND m.role = 'user' AND NOT m.is_forgotten
ORDER BY uid LIMIT 20
"""

# Seconds until the owner's hourly budget of background calls has one left; no row: has one now.
SELECT_BUDGET_PAUSE = """
SELECT extract(epoch FROM u.created_at + interval '1 hour' - now())::float
FROM conversations c JOIN owners o ON o.telegram_user_id = c.telegram_user_id
JOIN model_usage u ON u.owner_id = o.id
WHERE c.id = %(conversation_id)s AND u.created_at > now() - interval '1 hour'
  AND u.purpose IN ('summary', 'extract') AND u.error IS NULL
ORDER BY u.created_at DESC, u.id DESC LIMIT 1 OFFSET %(calls)s - 1
"""


class TurnRepository(Repository):
    """Answers and their delivery in the database; every method blocks (see ``PgClient.run``)."""

    def find_answer(self, conversation_id: UUID, message_id: int) -> StoredAnswer | None:
        """Return the stored answer to a user message, or None."""
        ids = _ids(conversation_id, message_id)
        answer = self._first(StoredAnswer.from_row, SELECT_ANSWER, ids)
        if answer is None:
            return None
        sources = self._all(AnswerSource, SELECT_SOURCES, ids, answer_id=answer.id)
        return replace(answer, sources=tuple(sources))

    def save_answer(
        self, answer: NewAnswer, *steps: Callable[[Transaction, NewAnswer], None]
    ) -> StoredAnswer:
        """Store the answer, its tools and its usage, in one transaction.

        If the message has an answer already (two workers ran one turn), that one is returned and
        nothing is stored.

        Args:
            answer: The answer.
            steps: Further steps of the transaction, run once the answer is stored.

        Raises:
            ConversationGoneError: /new wiped the conversation meanwhile.
            MessageMovedError: The message is to be answered again.
        """
        try:
            stored = self._client.in_transaction(lambda t: _save_answer(t, answer, steps))
        except errors.StorageRejectedError as error:
            if error.sqlstate == FOREIGN_KEY_VIOLATION:
                raise self._missing_message_error(answer) from error
            raise
        if stored is None:
            raise self._missing_message_error(answer)
        return stored

    def _missing_message_error(self, answer: NewAnswer) -> errors.AppError:
        ids = _ids(answer.conversation_id, answer.message_id)
        if self._client.fetch_one(SELECT_MOVED, ids) is None:
            return errors.ConversationGoneError("the conversation was deleted")
        return errors.MessageMovedError("the message has another place by now")

    def add_usage(self, conversation_id: UUID, usage: tuple[ModelUsage, ...]) -> None:
        """Record model calls that led to no answer."""
        if usage:
            self._client.execute(
                INSERT_USAGE, conversation_id=conversation_id, usage=_usage_json(usage)
            )

    def find_budget_pause(self, conversation_id: UUID, calls: int) -> float | None:
        """Return the seconds until the owner may make another background call; None: now.

        ``calls`` is the budget of an hour.
        """
        parameters = {"conversation_id": conversation_id, "calls": calls}
        return self._first(float, SELECT_BUDGET_PAUSE, parameters)

    def mark_delivered(
        self,
        conversation_id: UUID,
        answer_id: int,
        *,
        parts: int = 1,
        update: int | None = None,
        sent: Sequence[int] = (),
        first_word_at: datetime | None = None,
    ) -> None:
        """Mark the answer as delivered and its update as handled.

        Args:
            conversation_id: The conversation.
            answer_id: The answer.
            parts: Number of its Telegram messages.
            update: Row id of the stored update; with one the memory's job is deferred too, unless
                one waits.
            sent: Ids of the Telegram messages that arrived just now.
            first_word_at: When the first word of a streamed answer arrived.
        """
        outcome: UpdateOutcome = "done"
        self._client.execute(
            UPDATE_DELIVERED,
            conversation_id=conversation_id,
            answer_id=answer_id,
            parts=parts,
            update=update,
            outcome=outcome,
            sent=list(sent),
            first_word_at=first_word_at,
            queue=BACKGROUND_QUEUE,
            task=INDEX_MESSAGES,
        )

    def mark_delivered_parts(
        self, conversation_id: UUID, answer_id: int, parts: int, *, sent: Sequence[int] = ()
    ) -> None:
        """Store that the first ``parts`` messages of the answer arrived, and their ids."""
        ids = {"conversation_id": conversation_id, "answer_id": answer_id}
        self._client.execute(UPDATE_DELIVERED_PARTS, ids, parts=parts, sent=list(sent))

    def mark_stopped(self, conversation_id: UUID, message_id: int) -> None:
        """Store that the user stopped the answer to this message before it began."""
        self._client.execute(UPDATE_STOPPED, _ids(conversation_id, message_id))

    def mark_delivery_stopped(self, update: int) -> None:
        """Store that the user stopped the delivery for the stored update (its row id)."""
        self._client.execute(UPDATE_DELIVERY_STOPPED, update=update)

    def mark_left_out(self, conversation_id: UUID, message_ids: Sequence[int]) -> None:
        """Keep messages, and the answers to them, out of prompts and memory."""
        self._client.execute(
            UPDATE_LEFT_OUT, conversation_id=conversation_id, ids=list(message_ids)
        )

    def mark_failed(self, bot_id: int, chat_id: int, telegram_message_id: int) -> None:
        """Store that the bot gave up answering this Telegram message; it stays in the history."""
        self._client.execute(
            UPDATE_FAILED, bot_id=bot_id, chat_id=chat_id, message_id=telegram_message_id
        )

    def set_stream_message(
        self, conversation_id: UUID, message_id: int, telegram_message_id: int
    ) -> None:
        """Store the group message that shows the answer to ``message_id`` as it grows."""
        ids = _ids(conversation_id, message_id)
        self._client.execute(UPDATE_STREAM_MESSAGE, ids, telegram_message_id=telegram_message_id)

    def find_stream_message(self, conversation_id: UUID, message_id: int) -> int | None:
        """Return the group message that already shows a part of the answer, or None."""
        ids = _ids(conversation_id, message_id)
        return self._first(lambda number: number, SELECT_STREAM_MESSAGE, ids)

    def list_cited(self, owner: owners.Owner, sent_message: int) -> list[tuple[str, str]] | None:
        """List uid (``fact-<id>`` or ``msg-<id>``) and text of each source that an answer cited.

        It returns None for a Telegram message that shows none of the newest answers.

        Args:
            owner: The owner of the conversation.
            sent_message: A Telegram message that shows the answer.
        """
        rows = self._client.fetch_all(SELECT_CITED, owner, sent=sent_message)
        if not rows:
            return None
        return [(uid, text) for uid, text in rows if uid is not None]

    def find_stop(self, owner: owners.Owner) -> Literal["shown", "silent"] | None:
        """Return whether the answer to the owner's newest message shows that it was stopped.

        Returns:
            None if it was not stopped.
        """
        return self._first(lambda stop: stop, SELECT_STOP, owner)


def _save_answer(
    transaction: Transaction,
    answer: NewAnswer,
    steps: Sequence[Callable[[Transaction, NewAnswer], None]],
) -> StoredAnswer | None:
    """Store an answer within a transaction; return None if the message was deleted."""
    ids = _ids(answer.conversation_id, answer.message_id)
    row = transaction.fetch_one(INSERT_ANSWER, answer.columns())
    if row is None:
        earlier = transaction.fetch_one(SELECT_ANSWER, ids)
        if earlier:
            return StoredAnswer.from_row(*earlier)
        return None
    if answer.tools:
        tools = f"Tools used: {', '.join(answer.tools)}"
        transaction.execute(INSERT_TOOLS_USED, ids, content=storable(tools))
    if answer.stopped:
        transaction.execute(UPDATE_STOPPED, ids)
    if answer.sources:
        places = [(one.number, one.message_id, one.memory_id) for one in answer.sources]
        numbers, messages, facts = map(list, zip(*places, strict=True))
        sources = {"numbers": numbers, "message_ids": messages, "memory_ids": facts}
        transaction.execute(INSERT_SOURCES, ids | sources, answer_id=row[0])
    for step in steps:
        step(transaction, answer)
    return StoredAnswer(
        row[0],
        storable(answer.text),
        delivered=False,
        delivered_parts=0,
        tools=answer.tools,
        sources=answer.sources,
        asks=answer.asks,
        changes=answer.changes,
    )


def _ids(conversation_id: UUID, message_id: int) -> dict[str, object]:
    return {"conversation_id": conversation_id, "message_id": message_id}


def _usage_json(usage: Sequence[ModelUsage]) -> str:
    return json.dumps([vars(call) for call in usage])
