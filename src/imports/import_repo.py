"""Repository of imports: rows of a file until they are stored, and what came of them."""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from src.base.owners import Owner
from src.imports.records import SOURCES, Kind, Record
from src.pg.client import PATIENT, Repository, Transaction, storable

State = Literal["reading", "waiting", "storing", "done", "undoing"]
NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # as JSON escapes it
BATCH = 400  # rows of one transaction


@dataclass(frozen=True)
class Import:
    """An import.

    Attributes:
        id: Its number.
        owner: Whose it is.
        source: One of ``SOURCES``.
        name: Name of the file.
        state: See ``imports.state``.
        reads_facts: True if its messages are read for facts.
        keeps_memories: Whether memories become facts; None while the user has not decided.
        own_name: Which speaker of a chat the user is; None while it is not known.
        names: Names of the speakers, by ``Record.who``.
        days_first: Whether the day is first in dates; None while it is not known.
        broken: Titles of conversations that could not be read.
        total: Number of rows to store.
        shown_in: Chat, topic and number of the message that shows the progress.
        language: Language of that message.
    """

    id: int
    owner: Owner
    source: str
    name: str
    state: State
    reads_facts: bool
    keeps_memories: bool | None
    own_name: str | None
    names: dict[str, str]
    days_first: bool | None
    broken: list[str]
    total: int
    shown_in: tuple[int | None, int, int | None]
    language: str

    @classmethod
    def of(cls, id_: int, user: int, *row: Any) -> Self:
        """Build it from a row of ``SELECT_IMPORT``."""
        *columns, chat, thread, message, language = row
        values: list[Any] = [id_, Owner(user), *columns, (chat, thread, message), language]
        return cls(*values)

    @property
    def title(self) -> str:
        """Name of where it comes from."""
        return SOURCES.get(self.source, self.source)

    @property
    def question(self) -> Literal["import_who", "import_dates"] | None:
        """Key of the question that the user has to answer first, if there is one."""
        if self.state != "waiting":
            return None
        if self.names and self.own_name is None:
            return "import_who"
        return "import_dates" if self.days_first is None else None


@dataclass(frozen=True)
class Contents:
    """Numbers of what an import holds.

    Attributes:
        messages: Messages of the user, without files and answers.
        known: Those of them that were imported before.
        conversations: Their conversations.
        first: When the first one was written.
        last: When the last one was written.
        characters: Characters of the messages.
        files: Texts of files.
        memories: What another assistant remembers.
        facts: Facts of an export of ours.
        reminders: Reminders of it.
        left: Rows that are not stored yet.
    """

    messages: int
    known: int
    conversations: int
    first: datetime | None
    last: datetime | None
    characters: int
    files: int
    memories: int
    facts: int
    reminders: int
    left: int


@dataclass(frozen=True)
class StagedRow:
    """A row that is to be stored; ``stored_id`` is the message of a memory."""

    number: int
    kind: Kind
    source: str
    source_id: str
    text: str
    said_at: datetime
    details: dict[str, Any]
    stored_id: int | None


# Begin an import; what its owner has not decided before is dropped.
DELETE_UNDECIDED = """
DELETE FROM imports WHERE owner_id = %(owner)s AND state IN ('reading', 'waiting')
"""
INSERT_IMPORT = """
INSERT INTO imports (owner_id, source, name, language)
VALUES (add_owner(%(user)s, 0), 'list', %(name)s, %(language)s) RETURNING id
"""

# Go on with a pasted list: Telegram cuts a long one in two.
CONTINUE_PASTED = """
UPDATE imports i SET state = 'reading'
WHERE owner_id = %(owner)s AND state = 'waiting' AND source = 'list' AND %(name)s = ''
  AND name = ''
RETURNING id, (SELECT coalesce(max(number) + 1, 0) FROM import_rows WHERE import_id = i.id)
"""

# Rows as they are read; a row that a file holds twice is kept once.
INSERT_ROWS = """
INSERT INTO import_rows (import_id, number, kind, source, conversation, title, source_id, who,
                         said_at, text, details)
SELECT %(id)s, number, kind, source, conversation, title, source_id, who, said_at, text, details
FROM jsonb_populate_recordset(NULL::import_rows, %(rows)s::jsonb)
ON CONFLICT DO NOTHING
"""

# What another assistant remembers and the user has kept before is not asked again.
DELETE_KEPT = """
DELETE FROM import_rows r USING imports i, messages m
WHERE r.import_id = %(id)s AND i.id = r.import_id AND r.kind = 'memory'
  AND m.import_owner_id = i.owner_id AND m.import_source = r.source
  AND m.import_source_id = r.source_id
"""
# Words of others go where the file tells which ones are the user's.
DELETE_NAMED = """
DELETE FROM import_rows WHERE import_id = %(id)s AND who <> '' AND EXISTS (
    SELECT 1 FROM import_rows WHERE import_id = %(id)s AND who = '' AND kind = 'message')
"""
# The end of the reading; the most frequent source names the import.
FINISH_READING = """
UPDATE imports SET state = 'waiting', broken = %(broken)s,
       source = coalesce((SELECT source FROM import_rows WHERE import_id = %(id)s
                          GROUP BY source ORDER BY count(*) DESC, source LIMIT 1), source),
       names = coalesce((SELECT jsonb_object_agg(who, name) FROM (
           SELECT who, coalesce(max(details ->> 'name'), who) AS name FROM import_rows
           WHERE import_id = %(id)s AND who <> ''
           GROUP BY who ORDER BY count(*) DESC, who LIMIT 500) AS speakers), '{}'),
       days_first = CASE WHEN EXISTS (SELECT 1 FROM import_rows WHERE import_id = %(id)s
                                      AND details ? 'other_order') THEN NULL ELSE true END
WHERE id = %(id)s AND state = 'reading'
"""

# An import by its number, or an owner's last one; only the owner's, unless a job asks.
COLUMNS = """
SELECT i.id, o.telegram_user_id, i.source, i.name, i.state, i.reads_facts, i.keeps_memories,
       i.own_name, i.names, i.days_first, i.broken, i.total, i.chat_id, i.thread_id,
       i.telegram_message_id, i.language
FROM imports i JOIN owners o ON o.id = i.owner_id
"""
HAS_ROWS = "EXISTS (SELECT 1 FROM import_rows WHERE import_id = i.id)"
SELECT_IMPORT = COLUMNS + "WHERE i.id = %(id)s AND i.owner_id = %(owner)s"
SELECT_LAST = f"""{COLUMNS}
WHERE i.owner_id = %(owner)s AND i.state <> 'reading'
  AND (NOT %(has_something)s OR i.state <> 'done' OR i.total > 0 OR {HAS_ROWS})
ORDER BY i.id DESC LIMIT 1
"""
SELECT_UNDER_WAY = f"""{COLUMNS}
WHERE i.finished_at IS NULL AND i.state IN ('storing', 'undoing', 'done') AND i.id > %(after)s
  AND i.id <> ALL(%(without)s::bigint[]) ORDER BY i.id LIMIT 1
"""
LOCK_IMPORT = COLUMNS + "WHERE i.id = %(id)s AND i.state = %(state)s FOR UPDATE OF i"

SELECT_CONTENTS = """
SELECT count(*) FILTER (WHERE is_own),
       count(*) FILTER (WHERE is_own AND r.stored_id IS NULL AND EXISTS (
           SELECT 1 FROM messages m
           WHERE m.import_owner_id = i.owner_id AND m.import_source = r.source
             AND m.import_source_id = r.source_id)),
       count(DISTINCT (r.source, r.conversation)) FILTER (WHERE is_own),
       min(r.said_at) FILTER (WHERE is_own), max(r.said_at) FILTER (WHERE is_own),
       coalesce(sum(length(r.text)) FILTER (WHERE is_own), 0),
       count(*) FILTER (WHERE r.details ->> 'provenance' = 'file'),
       count(*) FILTER (WHERE r.kind = 'memory'), count(*) FILTER (WHERE r.kind = 'fact'),
       count(*) FILTER (WHERE r.kind = 'reminder'),
       count(*) FILTER (WHERE r.stored_id IS NULL AND r.kind <> 'memory')
FROM imports i JOIN import_rows r ON r.import_id = i.id, LATERAL (
    SELECT r.kind = 'message' AND coalesce(r.details ->> 'role', 'user') = 'user' AND
           coalesce(r.details ->> 'provenance', 'typed') IN ('typed', 'imported') AS is_own) AS o
WHERE i.id = %(id)s AND i.owner_id = %(owner)s AND r.who IN ('', coalesce(i.own_name, ''))
"""

# What another assistant remembers, in the order of the file.
SELECT_MEMORIES = """
SELECT r.text FROM import_rows r JOIN imports i ON i.id = r.import_id
WHERE r.import_id = %(id)s AND i.owner_id = %(owner)s AND r.kind = 'memory' AND r.text <> ''
ORDER BY r.number LIMIT %(limit)s OFFSET %(offset)s
"""

# Decisions of the user.
DELETE_OTHERS = "DELETE FROM import_rows WHERE import_id = %(id)s AND who NOT IN ('', %(who)s)"
UPDATE_OWN_NAME = """
UPDATE imports SET own_name = %(who)s
WHERE id = %(id)s AND owner_id = %(owner)s AND state = 'waiting' AND names ? %(who)s
"""
SWAP_DATES = """
UPDATE import_rows SET said_at = (details ->> 'other_order')::timestamptz
WHERE import_id = %(id)s AND details ? 'other_order' AND NOT %(days_first)s
"""
UPDATE_ORDER = """
UPDATE imports SET days_first = %(days_first)s
WHERE id = %(id)s AND owner_id = %(owner)s AND state = 'waiting' AND days_first IS NULL
"""
UPDATE_CHOICE = """
UPDATE imports SET state = 'storing', reads_facts = %(reads_facts)s, finished_at = NULL,
       total = (SELECT count(*) FROM import_rows
                WHERE import_id = %(id)s AND stored_id IS NULL AND kind <> 'memory')
WHERE id = %(id)s AND owner_id = %(owner)s AND state = 'waiting'
"""
# An import goes on to wait for the choice about its messages.
UPDATE_KEEPS = """
UPDATE imports SET keeps_memories = %(keeps)s, finished_at = NULL,
       state = CASE WHEN state = 'waiting' AND EXISTS (
                         SELECT 1 FROM import_rows WHERE import_id = %(id)s AND kind <> 'memory')
                    THEN 'waiting'
                    WHEN %(keeps)s OR state = 'storing' THEN 'storing' ELSE 'done' END
WHERE id = %(id)s AND owner_id = %(owner)s AND state IN ('waiting', 'storing', 'done')
  AND keeps_memories IS NULL
"""
DELETE_MEMORIES = """
DELETE FROM import_rows WHERE import_id = %(id)s AND kind = 'memory' AND NOT %(keeps)s
"""
DELETE_OTHER_KINDS = """
DELETE FROM import_rows WHERE import_id = %(id)s AND kind <> 'memory' AND NOT %(with_messages)s
"""
UPDATE_UNDOING = """
UPDATE imports SET state = 'undoing', finished_at = NULL WHERE id = %(id)s AND owner_id = %(owner)s
"""
UPDATE_SHOWN_IN = """
UPDATE imports SET chat_id = %(chat)s, thread_id = %(thread)s, telegram_message_id = %(message)s,
                   language = %(language)s
WHERE id = %(id)s AND owner_id = %(owner)s
"""

# The next rows of a kind to store.
SELECT_ROWS = """
SELECT number, kind, source, source_id, text, said_at, details, stored_id FROM import_rows
WHERE import_id = %(id)s AND kind = %(kind)s AND stored_id IS NULL
ORDER BY number LIMIT %(limit)s
"""
# Memories whose message is stored, and whose fact is not.
SELECT_UNKEPT = """
SELECT r.number, r.kind, r.source, r.source_id, r.text, r.said_at, r.details, r.stored_id
FROM import_rows r JOIN imports i ON i.id = r.import_id
WHERE r.import_id = %(id)s AND i.state = 'storing' AND r.kind = 'memory' AND r.stored_id > 0
  AND r.text <> ''
ORDER BY r.number LIMIT %(limit)s
"""
CLEAR_TEXT = """
UPDATE import_rows SET text = '' WHERE import_id = %(id)s AND number = ANY(%(numbers)s)
"""
UPDATE_STORED = """
UPDATE import_rows SET stored_id = %(stored)s, is_new = %(is_new)s, text = ''
WHERE import_id = %(id)s AND number = %(number)s
"""

# A conversation for each one of the source, numbered below zero.
INSERT_CONVERSATIONS = """
INSERT INTO conversations (owner_id, telegram_user_id, thread_id, import_id, source_id, title)
SELECT i.owner_id, o.telegram_user_id, -nextval('imported_conversations'), i.id, c.source_id,
       c.title
FROM imports i JOIN owners o ON o.id = i.owner_id, (
    SELECT source || ':' || conversation AS source_id, max(title) AS title FROM import_rows
    WHERE import_id = %(id)s AND number = ANY(%(numbers)s) GROUP BY 1 ORDER BY 1) AS c
WHERE i.id = %(id)s AND NOT EXISTS (
    SELECT 1 FROM conversations WHERE import_id = %(id)s AND source_id = c.source_id)
"""
# Messages of an export of ours that are still here.
MATCH_OWN = """
UPDATE import_rows r SET stored_id = m.id
FROM imports i JOIN conversations c ON c.owner_id = i.owner_id
JOIN messages m ON m.conversation_id = c.id
WHERE r.import_id = %(id)s AND i.id = r.import_id AND r.number = ANY(%(numbers)s)
  AND r.source = 'pomni' AND m.said_at = r.said_at AND m.role = r.details ->> 'role'
  AND message_text(m.content) = r.text
"""
INSERT_MESSAGES = """
WITH chosen AS (
    SELECT r.*, c.id AS conversation_id, i.owner_id,
           coalesce((SELECT max(position) FROM messages WHERE conversation_id = c.id), 0)
           + row_number() OVER (PARTITION BY c.id ORDER BY r.number) AS position
    FROM import_rows r JOIN imports i ON i.id = r.import_id
    JOIN conversations c ON c.import_id = i.id AND c.source_id = r.source || ':' || r.conversation
    WHERE r.import_id = %(id)s AND r.number = ANY(%(numbers)s) AND r.stored_id IS NULL
), added AS (
    INSERT INTO messages (conversation_id, role, content, position, said_at, provenance, origin,
                          import_owner_id, import_source, import_source_id, sender_id, speaker,
                          telegram_message_id, quoted, edited_at, is_private)
    SELECT conversation_id, coalesce(details ->> 'role', 'user'), text, position, said_at,
           coalesce(details ->> 'provenance', 'imported'),
           coalesce(details ->> 'origin', %(names)s::jsonb ->> nullif(source, 'pomni')),
           owner_id, source, source_id, (details ->> 'sender_id')::bigint, details ->> 'speaker',
           (details ->> 'telegram_message_id')::bigint, details ->> 'quoted',
           (details ->> 'edited_at')::timestamptz,
           coalesce((details ->> 'is_private')::boolean, false)
    FROM chosen ORDER BY number
    ON CONFLICT (import_owner_id, import_source, import_source_id)
        WHERE import_owner_id IS NOT NULL DO NOTHING
    RETURNING id, conversation_id, role, is_private, import_source, import_source_id
), waiting AS (
    INSERT INTO unindexed_messages SELECT conversation_id, id FROM added
    WHERE role IN ('user', 'assistant') AND NOT is_private
)
UPDATE import_rows r SET stored_id = a.id, is_new = true FROM added a
WHERE r.import_id = %(id)s AND r.number = ANY(%(numbers)s)
  AND (a.import_source, a.import_source_id) = (r.source, r.source_id)
"""
# What was imported before, and the end of what is stored: memories still need their words.
MATCH_KNOWN = """
UPDATE import_rows r
SET text = CASE kind WHEN 'memory' THEN text ELSE '' END, stored_id = coalesce(stored_id, (
    SELECT m.id FROM messages m JOIN imports i ON i.owner_id = m.import_owner_id
    WHERE i.id = r.import_id AND m.import_source = r.source
      AND m.import_source_id = r.source_id), 0)
WHERE r.import_id = %(id)s AND r.number = ANY(%(numbers)s)
"""
# Answers belong to what they answer.
LINK_ANSWERS = """
UPDATE messages m SET reply_to_id = asked.stored_id
FROM import_rows r JOIN import_rows asked ON asked.import_id = r.import_id
     AND asked.details ->> 'uid' = r.details ->> 'answers' AND asked.stored_id > 0
WHERE r.import_id = %(id)s AND r.number = ANY(%(numbers)s) AND r.is_new AND m.id = r.stored_id
  AND NOT EXISTS (SELECT 1 FROM messages other WHERE other.reply_to_id = asked.stored_id
                  AND other.role = 'assistant' AND m.role = 'assistant')
"""
# Messages that are only searched count as read for facts.
MARK_READ = """
UPDATE conversations c
SET extracted_position = (SELECT coalesce(max(position), 0) FROM messages
                          WHERE conversation_id = c.id)
WHERE c.import_id = %(id)s AND c.id IN (
    SELECT m.conversation_id FROM import_rows r JOIN messages m ON m.id = r.stored_id
    WHERE r.import_id = %(id)s AND r.number = ANY(%(numbers)s) AND r.is_new)
"""
# The conversations to index after a batch.
SELECT_TO_INDEX = """
SELECT DISTINCT m.conversation_id FROM import_rows r JOIN messages m ON m.id = r.stored_id
WHERE r.import_id = %(id)s AND r.number = ANY(%(numbers)s) AND r.is_new
ORDER BY m.conversation_id
"""
# Summaries of an export have no positions of their own.
INSERT_SUMMARIES = """
INSERT INTO conversation_summaries (conversation_id, first_position, last_position, content,
                                    created_at)
SELECT c.id, -r.number, -r.number, r.text, r.said_at
FROM import_rows r JOIN conversations c
     ON c.import_id = r.import_id AND c.source_id = r.source || ':' || r.conversation
WHERE r.import_id = %(id)s AND r.number = ANY(%(numbers)s) AND NOT EXISTS (
    SELECT 1 FROM conversation_summaries s JOIN conversations own ON own.id = s.conversation_id
    WHERE own.owner_id = c.owner_id AND s.content = r.text AND s.created_at = r.said_at)
ON CONFLICT DO NOTHING
"""
# What rows of an export became, by their names in it.
SELECT_LINKS = """
SELECT coalesce(details ->> 'uid', source_id), stored_id FROM import_rows
WHERE import_id = %(id)s AND stored_id > 0
  AND (details ->> 'uid' = ANY(%(names)s) OR source_id = ANY(%(names)s))
"""
SELECT_SUCCESSORS = """
SELECT old.stored_id, new.stored_id FROM import_rows old JOIN import_rows new
    ON new.import_id = old.import_id AND new.kind = 'fact'
   AND new.source_id = old.details ->> 'replaced_by'
WHERE old.import_id = %(id)s AND old.kind = 'fact' AND old.is_new AND new.stored_id > 0
"""
FINISH = """
UPDATE imports SET state = 'done', total = (
    SELECT count(*) FROM conversations c JOIN messages m ON m.conversation_id = c.id
    WHERE c.import_id = %(id)s) + (
    SELECT count(*) FROM import_rows
    WHERE import_id = %(id)s AND is_new AND kind IN ('fact', 'reminder'))
WHERE id = %(id)s
"""
# The end is shown.
CLOSE = "UPDATE imports SET finished_at = now() WHERE id = %(id)s AND state = 'done'"
# The words are stored; what was decided on leaves only numbers, for an undo.
DELETE_ROWS = """
DELETE FROM import_rows WHERE import_id = %(id)s
  AND (kind = 'summary' OR (kind <> 'memory' AND NOT is_new) OR (kind = 'message'))
"""

SELECT_MESSAGES = """
SELECT m.id FROM conversations c JOIN messages m ON m.conversation_id = c.id
WHERE c.import_id = %(id)s ORDER BY m.id LIMIT %(limit)s
"""
SELECT_NEW = """
SELECT stored_id FROM import_rows WHERE import_id = %(id)s AND kind = %(kind)s AND is_new
"""
SELECT_FORMER_SETTINGS = """
SELECT details -> 'before' FROM import_rows
WHERE import_id = %(id)s AND kind = 'settings' AND details ? 'before'
"""
NOTE_FORMER_SETTINGS = """
UPDATE import_rows SET details = jsonb_build_object('before', %(before)s::jsonb)
WHERE import_id = %(id)s AND number = %(number)s
"""
DELETE_IMPORT = "DELETE FROM imports WHERE id = %(id)s"
DELETE_ABANDONED = """
DELETE FROM imports
WHERE state IN ('reading', 'waiting') AND created_at < now() - interval '7 days'
"""

# The price of a million tokens of a model, if the operator has set it.
SELECT_PRICE = "SELECT prompt, completion FROM model_prices WHERE model = %(model)s"


class ImportRepository(Repository):
    """Stores imports; every method blocks (see ``PgClient.run``)."""

    def begin(self, owner: Owner, name: str, language: str) -> tuple[int, int]:
        """Begin an import, and drop what its owner has not decided before.

        Returns:
            Its number, and that of its next row: a pasted list, without a name, goes on with the
            one before.
        """

        def work(transaction: Transaction) -> tuple[int, int]:
            named = {"name": storable(name)[:200], "language": language}
            values = owner.columns() | named
            for number, row in transaction.fetch_all(CONTINUE_PASTED, values):
                return int(number), int(row)
            transaction.execute(DELETE_UNDECIDED, owner)
            [(number,)] = transaction.fetch_all(INSERT_IMPORT, values)
            return int(number), 0

        return self._client.in_transaction(work)

    def add_rows(self, number: int, first: int, records: Sequence[Record], now: datetime) -> None:
        """Store records of a file, numbered from ``first``; without a time they are of ``now``."""
        rows = [
            {**vars(record), "number": place, "said_at": (record.said_at or now).isoformat()}
            for place, record in enumerate(records, start=first)
        ]
        self._client.execute(INSERT_ROWS, id=number, rows=_encode(rows), limits=PATIENT)

    def finish_reading(self, number: int, broken: Sequence[str]) -> None:
        """Let the import wait for its owner's choice."""
        for statement in (DELETE_KEPT, DELETE_NAMED):
            self._client.execute(statement, id=number, limits=PATIENT)
        titles = _encode(broken)
        self._client.execute(FINISH_READING, id=number, broken=titles, limits=PATIENT)

    def find(self, owner: Owner, number: int) -> Import | None:
        """Return an import of the owner, or None."""
        return self._first(Import.of, SELECT_IMPORT, owner, id=number)

    def find_last(self, owner: Owner, *, has_something: bool = False) -> Import | None:
        """Return the owner's last import, or the last one that something is left of, or None."""
        return self._first(Import.of, SELECT_LAST, owner, has_something=has_something)

    def find_under_way(self, after: int = 0, without: Collection[int] = ()) -> Import | None:
        """Return the next import of any owner that a job has to advance, or None."""
        return self._first(Import.of, SELECT_UNDER_WAY, after=after, without=list(without))

    def count(self, owner: Owner, number: int) -> Contents:
        """Return what an import of the owner holds."""
        columns = {**owner.columns(), "id": number}
        [row] = self._client.fetch_all(SELECT_CONTENTS, columns, limits=PATIENT)
        return Contents(*row)

    def list_memories(self, owner: Owner, number: int, *, limit: int, offset: int) -> list[str]:
        """Return a page of what another assistant remembers."""
        page = {"id": number, "limit": limit, "offset": offset}
        return self._all(str, SELECT_MEMORIES, owner, **page)

    def set_own_name(self, owner: Owner, number: int, who: str) -> bool:
        """Note which speaker the user is, and drop the others' words."""
        return self._decide(owner, UPDATE_OWN_NAME, DELETE_OTHERS, id=number, who=who)

    def set_order(self, owner: Owner, number: int, *, days_first: bool) -> bool:
        """Note whether the day is first in dates."""
        return self._decide(owner, UPDATE_ORDER, SWAP_DATES, id=number, days_first=days_first)

    def choose(
        self, owner: Owner, number: int, *, reads_facts: bool, with_messages: bool = True
    ) -> bool:
        """Let the job store an import, or its memories alone; False if that was decided."""
        values = {"id": number, "reads_facts": reads_facts, "with_messages": with_messages}
        return self._decide(owner, UPDATE_CHOICE, DELETE_OTHER_KINDS, **values)

    def keep(self, owner: Owner, number: int, *, keeps: bool) -> bool:
        """Note whether memories become facts; False if that was decided already."""
        return self._decide(owner, UPDATE_KEEPS, DELETE_MEMORIES, id=number, keeps=keeps)

    def take_back(self, owner: Owner, number: int) -> bool:
        """Let the job take an import back."""
        return self._decide(owner, UPDATE_UNDOING, id=number)

    def show_in(
        self, owner: Owner, number: int, place: tuple[int, int, int], language: str
    ) -> None:
        """Note the chat, topic and message that show the progress."""
        shown = dict(zip(("chat", "thread", "message"), place, strict=True))
        self._decide(owner, UPDATE_SHOWN_IN, id=number, language=language, **shown)

    def _decide(self, owner: Owner, decision: str, *then: str, **values: Any) -> bool:
        def work(transaction: Transaction) -> bool:
            if not transaction.execute(decision, owner, **values):
                return False
            for statement in then:
                transaction.execute(statement, owner, **values)
            return True

        return self._client.in_transaction(work, limits=PATIENT)

    def lock(self, number: int, state: State) -> Import | None:
        """Lock an import until the transaction ends; None if its state is another one."""
        return self._first(Import.of, LOCK_IMPORT, id=number, state=state)

    def list_rows(self, number: int, kind: Kind, limit: int = BATCH) -> list[StagedRow]:
        """Return the next rows of a kind to store."""
        return self._all(StagedRow, SELECT_ROWS, id=number, kind=kind, limit=limit)

    def list_unkept(self, number: int, limit: int) -> list[StagedRow]:
        """Return memories whose message is stored, but not yet their fact."""
        return self._all(StagedRow, SELECT_UNKEPT, id=number, limit=limit)

    def clear_text(self, number: int, rows: Sequence[int]) -> None:
        """Empty the words of rows that became facts."""
        self._client.execute(CLEAR_TEXT, id=number, numbers=list(rows))

    def add_messages(self, import_: Import, rows: Sequence[StagedRow]) -> None:
        """Store rows as messages in conversations of the import, each once per owner."""
        values: dict[str, Any] = {"id": import_.id, "numbers": [row.number for row in rows]}
        self._client.execute(INSERT_CONVERSATIONS, values)
        if any(row.source == "pomni" for row in rows):
            self._client.execute(MATCH_OWN, values)
        self._client.execute(INSERT_MESSAGES, values, names=json.dumps(SOURCES))
        self._client.execute(MATCH_KNOWN, values)
        if any("answers" in row.details for row in rows):
            self._client.execute(LINK_ANSWERS, values)
        is_read = not import_.reads_facts or import_.source == "pomni"
        if is_read or any(row.kind == "memory" for row in rows):
            self._client.execute(MARK_READ, values)

    def list_to_index(self, number: int, rows: Sequence[StagedRow]) -> list[UUID]:
        """Return the conversations with new messages of these rows."""
        return self._values(SELECT_TO_INDEX, id=number, numbers=[row.number for row in rows])

    def add_summaries(self, number: int, rows: Sequence[StagedRow]) -> None:
        """Store rows as summaries."""
        values: dict[str, Any] = {"id": number, "numbers": [row.number for row in rows]}
        for statement in (INSERT_CONVERSATIONS, INSERT_SUMMARIES, MATCH_KNOWN):
            self._client.execute(statement, values)

    def set_stored(self, number: int, row: int, stored: int | None) -> None:
        """Note what came of a row; None: nothing new."""
        values = {"row": row, "stored": stored or 0, "is_new": stored is not None}
        self._client.execute(UPDATE_STORED, values, id=number, number=row)

    def find_links(self, number: int, names: Sequence[str]) -> dict[str, int]:
        """Return what rows of an export became, by their names in it."""
        return dict(self._client.fetch_all(SELECT_LINKS, id=number, names=list(names)))

    def list_successors(self, number: int) -> list[tuple[int, int]]:
        """Return the new facts that others replaced, with their successors."""
        return [(*row,) for row in self._client.fetch_all(SELECT_SUCCESSORS, id=number)]

    def note_settings(self, number: int, row: int, before: dict[str, Any]) -> None:
        """Note the settings that an import changed."""
        former = json.dumps(before)
        self._client.execute(NOTE_FORMER_SETTINGS, id=number, number=row, before=former)

    def find_former_settings(self, number: int) -> dict[str, Any]:
        """Return the settings that an import changed; empty if it changed none."""
        return self._first(dict, SELECT_FORMER_SETTINGS, id=number) or {}

    def finish(self, number: int) -> None:
        """End an import: all of it is stored."""
        self._client.execute(FINISH, id=number)
        self._client.execute(DELETE_ROWS, id=number)

    def close(self, number: int) -> None:
        """Note that the end of an import was shown."""
        self._client.execute(CLOSE, id=number)

    def list_messages(self, number: int, limit: int = BATCH) -> list[int]:
        """Return ids of messages that an import brought."""
        return self._values(SELECT_MESSAGES, id=number, limit=limit)

    def list_new(self, number: int, kind: Kind) -> list[int]:
        """Return ids of the facts or reminders that an import brought."""
        return self._values(SELECT_NEW, id=number, kind=kind)

    def delete(self, number: int) -> None:
        """Delete an import with its conversations."""
        self._client.execute(DELETE_IMPORT, id=number)

    def delete_abandoned(self) -> int:
        """Delete imports on which nobody decided within a week; return how many."""
        return self._client.execute(DELETE_ABANDONED, limits=PATIENT)

    def find_price(self, model: str) -> tuple[float, float] | None:
        """Return the prices of a million tokens of prompts and replies, or None."""
        row = self._client.fetch_one(SELECT_PRICE, model=model)
        return (float(row[0]), float(row[1])) if row else None


def _encode(value: Any) -> str:
    """Return a value as JSON that PostgreSQL can store."""
    return storable(NUL.sub("\\1\ufffd", json.dumps(value, ensure_ascii=False)))
