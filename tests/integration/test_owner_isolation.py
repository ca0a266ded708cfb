"""No method of the memory's repositories returns or changes a row of another owner.

Every public method is called for one owner, with his own ids and with those of another one who
has as much: another person, or another topic of the same group. Where a method takes no owner but
a conversation, its id stands for the owner, so there the other ids are the other owner's.

The topics of a private chat have one owner, the person: there it is the history alone that each
keeps to itself.
"""

from __future__ import annotations

import inspect
import itertools
import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.base.errors import ConversationGoneError
from src.base.owners import Owner
from src.history.conversation_repo import ConversationRepository, TelegramOrigin
from src.history.timeline_repo import (
    PageCursor,
    TimelineRepository,
    ToolResult,
    ToolResultRepository,
)
from src.history.turn_repo import NO_CHANGES, AnswerSource, NewAnswer, TurnRepository
from src.imports.import_repo import ImportRepository
from src.imports.records import Record
from src.llm.reply import ModelUsage
from src.memory.change_repo import Change, ChangeRepository
from src.memory.digest_repo import ExtractionRepository, SummaryRepository
from src.memory.forgetter import Forgetter, Forgotten
from src.memory.forgetting_repo import ForgettingRepository
from src.memory.group_moves import GroupMoveRepository
from src.memory.memory_repo import (
    SELECT_FACTS,
    FactQuery,
    MemoryRepository,
    NewEntity,
    NewMemory,
    Source,
    StoredFacts,
)
from src.memory.question_repo import QuestionRepository, mark_disputed
from src.memory.retrieval_repo import RetrievalRepository, SearchRequest
from src.memory.retriever import Query
from src.memory.search_index_repo import (
    EmbeddingRepository,
    NewDocument,
    Scale,
    SearchIndexRepository,
)
from src.pg.client import PgClient, Transaction
from src.pg.user_settings_repo import UserSettingsRepository
from src.privacy.erasure_repo import ErasureRepository
from src.privacy.export import PARTS as EXPORTED
from src.privacy.export import ExportRepository
from src.queue.update_repo import NewUpdate, UpdateRepository
from src.reading.facts import Fact
from src.reading.recurrences import Recurrence
from src.reminders.reminder_repo import NewReminder, ReminderRepository
from src.talk.edits import EditedMessage, EditRepository
from src.talk.record_repo import RecordRepository
from src.texts.morphology import terms
from src.texts.reply import Action
from tests.conftest import new_client
from tests.integration.person import FAKE_EMBEDDINGS, open_rig, teller_of
from tests.tables import (
    NOBODYS,
    OF_ALL_TOPICS,
    ROWS_OF_OWNER,
    count_death,
    open_question,
    rows_of,
    send_batch,
    tables,
)

BOT = 555
SAID = datetime(2026, 11, 21, 9, tzinfo=UTC)
DUE = datetime(2032, 11, 21, 9, tzinfo=UTC)
LATER = DUE + timedelta(hours=1)
DAILY = Recurrence("daily", (9,))
USAGE = ModelUsage("answer", "gpt", 10, 4, 3, 250)
VECTOR = "[1,0,0]"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def shared(postgres_server: str) -> Iterator[PgClient]:
    """One database for the whole file; every test has owners of its own."""
    for opened in new_client(postgres_server):
        means = {
            f"{language} {form}": (0.0, 0.0, 0.0)
            for language in ("ru", "uk", "en")
            for form in ("statement", "question")
        }
        EmbeddingRepository(opened).add_model("three numbers", Scale(means, 0.0, 0.3))
        yield opened


@dataclass
class Filled:
    """An owner who has a row in every table; the word stands in all of his texts.

    Attributes:
        asked: His messages: answered and indexed, then not answered, then not indexed.
        answer: The answer to the first.
        facts: A plain one, one that replaced another, and that other one.
        documents: What the search holds of him.
        summary: Of his first two messages.
        reminders: One that comes once, and one that comes every day.
        imported: An import that waits, with a message and a memory.
    """

    owner: Owner
    word: str
    conversation: UUID
    asked: list[int]
    answer: int
    facts: list[int]
    documents: list[int]
    summary: int
    reminders: list[int]
    imported: int

    @property
    def uids(self) -> list[str]:
        """The names of his messages in references."""
        return [f"msg-{number}" for number in self.asked]

    def origin(self, number: int = 0) -> TelegramOrigin:
        """Where one of his messages stands in Telegram."""
        chat = self.owner.telegram_user_id
        return TelegramOrigin(BOT, chat, self.asked[0] + number, self.owner.telegram_user_id)


class Repositories:
    """All of them, on one client."""

    def __init__(self, client: PgClient) -> None:
        self.client = client
        self.conversations = ConversationRepository(client)
        self.turns = TurnRepository(client)
        self.moves = GroupMoveRepository(client)
        self.memories = MemoryRepository(client)
        self.exports = ExportRepository(client)
        self.timeline = TimelineRepository(client)
        self.index = SearchIndexRepository(client)
        self.retrieval = RetrievalRepository(client)
        self.embeddings = EmbeddingRepository(client)
        self.summaries = SummaryRepository(client)
        self.extraction = ExtractionRepository(client)
        self.erasure = ErasureRepository(client)
        self.questions = QuestionRepository(client)
        self.reminders = ReminderRepository(client)
        self.records = RecordRepository(client)
        self.imports = ImportRepository(client)

    @property
    def model(self) -> int:
        """The number of the embedding model."""
        found = self.embeddings.find_model("three numbers")
        assert found is not None
        return found.id

    def forget(self, owner: Owner, uids: list[str], request_id: int | None = None) -> Forgotten:
        """A request to forget, carried out."""
        with self.client.transaction() as transaction:
            forgetter = Forgetter(transaction, owner, request_id=request_id)
            return forgetter.forget(uids)

    def ids(self, sql: str, **parameters: Any) -> list[int]:
        """The first column."""
        return [row[0] for row in self.client.fetch_all(sql, parameters)]


def new_memory(word: str, text: str, message_id: int, **changes: Any) -> NewMemory:
    """A fact as the writer hands it to the repository; its hash is its text."""
    values: dict[str, Any] = {
        "fact": Fact(text=f"{text} {word}", relation="lives_in", object=word, importance=8),
        "language": "en",
        "origin": "teach",
        "content_hash": f"{text} {word}",
        "source": Source(message_id, f"{text} {word}", SAID),
        "terms": terms(f"{text} {word}"),
        "vector": VECTOR,
        "entities": [
            NewEntity(f"{word} brother", [frozenset({"brother"})], "person"),
            NewEntity(word, [frozenset({word})], "thing"),
        ],
        **changes,
    }
    return NewMemory(**values)


def fill(client: PgClient, owner: Owner) -> Filled:
    """Give an owner a row in every table."""
    do, word = Repositories(client), f"zq{next(_numbers)}zq"
    chat, thread = owner
    conversation = do.conversations.get_or_create_conversation(chat, thread_id=thread)
    first = next(_numbers) * 1000
    asked = [
        do.conversations.append_message(
            conversation,
            "user",
            f"[Текущее время: 2026-11-21 12:05] I hid {word} in place {number}",
            origin=TelegramOrigin(BOT, chat, first + number, chat),
            said_at=SAID + timedelta(minutes=number),
        )
        for number in range(3)
    ]
    indexed = [
        NewDocument("message", number, "user", SAID, terms(f"hid {word} place"), is_continued=True)
        for number in asked[:2]
    ]
    do.index.add_messages(owner, conversation, indexed, asked[:2])
    facts = fill_memories(do, owner, word, asked)
    source = AnswerSource(1, f"msg-{asked[0]}", word, SAID, asked[0], facts[0])
    answer = do.turns.save_answer(
        NewAnswer(
            conversation, asked[0], f"You hid {word}", ("search_memory",), (USAGE,),
            sources=(source,), asks="conflict",
        )
    )  # fmt: skip
    open_question(client.dsn, owner, asked[0])
    assert do.summaries.replace(conversation, f"Somebody hid {word}", first=1, last=2)
    tool = ToolResult("search_memory", {"query": word}, f"found {word}", 5)
    ToolResultRepository(client).add(conversation, asked[0], tool)
    UserSettingsRepository(client).change(chat, mode="strict")
    update = NewUpdate(next(_numbers), "message", {"text": word}, chat, thread, chat, first)
    UpdateRepository(client).store(BOT, [update])
    count_death(client.dsn, owner)
    send_batch(client.dsn, owner)
    mine = "SELECT id FROM search_documents WHERE owner_id = %(owner)s ORDER BY id"
    documents = do.ids(mine, **owner.columns())
    unembedded = [
        number
        for number in documents
        if not do.ids("SELECT 1 FROM document_embeddings WHERE document_id = %(id)s", id=number)
    ]
    do.embeddings.add_vectors(do.model, {(number, 0): VECTOR for number in unembedded})
    do.embeddings.add_failure(do.model, documents[0], is_hopeless=True)
    [summary] = do.summaries.list_summaries(conversation)
    kept = {"quotes": [], "texts": [word], "messages": [[asked[0], "", ""]]}
    client.execute(
        "INSERT INTO changes (owner_id, kind, before) VALUES (%(owner)s, 'forgotten', %(kept)s)",
        {**owner.columns(), "kept": json.dumps(kept)},
    )
    client.execute(
        "INSERT INTO parting_messages (message_id, owner_id, position, content, said_at)"
        " VALUES (%(id)s, %(owner)s, 1, %(word)s, now())",
        {**owner.columns(), "id": asked[2], "word": f"I left {word}"},
    )
    reminders = [set_reminder(do, owner, word, asked[0], again) for again in (None, DAILY)]
    return Filled(
        owner, word, conversation, asked, answer.id, facts, documents, summary.id, reminders,
        fill_import(client, owner, word),
    )  # fmt: skip


def fill_import(client: PgClient, owner: Owner, word: str) -> int:
    """Somebody brings a chat in which nobody is known yet, and what an assistant remembers."""
    sql = (
        "INSERT INTO imports (owner_id, source, name) VALUES (%(owner)s, 'list', %(word)s)"
        " RETURNING id"
    )
    [(number,)] = client.fetch_all(sql, {**owner.columns(), "word": word})
    imports = ImportRepository(client)
    records = [
        Record("whatsapp", word, word, f"{word} 1", f"I hid {word}", SAID, who=word),
        Record("list", word, word, f"{word} 2", f"hides {word}", SAID, kind="memory"),
    ]
    imports.add_rows(number, 0, records, SAID)
    imports.finish_reading(number, [word])
    client.execute("UPDATE imports SET days_first = NULL WHERE id = %(id)s", {"id": number})
    return int(number)


def set_reminder(
    do: Repositories, owner: Owner, word: str, message_id: int, repeats: Recurrence | None
) -> int:
    """Somebody asks to be reminded, in a message."""
    new = NewReminder(
        f"of {word}, {next(_numbers)}", DUE, repeats, "Europe/Moscow", "en", message_id=message_id
    )
    reminder = do.reminders.add(owner, new, now=SAID)
    assert reminder is not None
    return reminder.id


def fill_memories(do: Repositories, owner: Owner, word: str, asked: list[int]) -> list[int]:
    """A plain fact, one that replaced another, that other one; and a refused one."""

    def work(transaction: Transaction) -> list[int]:
        def add(text: str, number: int) -> int:
            memory = new_memory(word, text, asked[number], model_id=do.model)
            return StoredFacts(transaction, owner).add(memory)

        plain, old, new = add("has", 0), add("lived in", 0), add("lives in", 1)
        StoredFacts(transaction, owner).retire([old], successor=new, reason="replaced")
        return [plain, new, old]

    facts = do.client.in_transaction(work)
    do.memories.add_rejected(owner, asked[0], reason="question", text=f"{word}?", origin="tool")
    return facts


@dataclass
class Stage:
    """Two owners, one of whom acts."""

    do: Repositories
    me: Filled
    them: Filled

    def both(self, work: Callable[[Filled], Any]) -> list[Any]:
        """The results with my ids, and with theirs."""
        return [work(self.me), work(self.them)]

    def write(self, work: Callable[[Transaction], Any]) -> Any:
        """In one transaction."""
        return self.do.client.in_transaction(work)

    def rude_answer(self, whose: Filled) -> NewAnswer:
        """An answer of mine that names somebody's messages and facts as its sources."""
        sources = tuple(
            AnswerSource(number, "msg-1", "?", SAID, message, fact)
            for number, (message, fact) in enumerate(
                zip(whose.asked, whose.facts, strict=True), start=1
            )
        )
        return NewAnswer(
            self.me.conversation, self.me.asked[1], "So", (), (USAGE,), sources=sources,
            question=[{"message": message} for message in whose.asked],
        )  # fmt: skip

    def documents(self, whose: Filled) -> list[NewDocument]:
        """Somebody's messages for the index."""
        return [NewDocument("message", n, "user", SAID, ["hid"]) for n in whose.asked]

    def request(self, **changes: Any) -> SearchRequest:
        """I look for their words."""
        return SearchRequest(
            **{
                "owner": self.me.owner,
                "terms": [terms(self.them.word), ["hid"], ["live"]],
                "entity_terms": ["brother", *terms(self.them.word)],
                "vector": VECTOR,
                "model_id": self.do.model,
                "periods": [(SAID - timedelta(days=1), SAID + timedelta(days=1))],
                "with_assistant": True,
                "with_retired": True,
                **changes,
            }
        )


def save_answer(s: Stage) -> list[Any]:
    """With their sources; then as the answer to their messages."""
    saved = s.do.turns.save_answer(s.rude_answer(s.them), mark_disputed)
    found = s.do.turns.find_answer(s.me.conversation, s.me.asked[1])
    for asked in s.them.asked:
        refused(
            lambda asked=asked: s.do.turns.save_answer(
                NewAnswer(s.me.conversation, asked, "mine now")
            )
        )
    return [saved.id, found]


def similar(s: Stage) -> Any:
    """Everything of theirs that could be like a fact of mine."""
    theirs = new_memory(
        s.them.word, "has", s.me.asked[0], model_id=s.do.model,
        contradicts=[*s.them.facts, *s.me.facts],
    )  # fmt: skip
    return s.write(lambda t: StoredFacts(t, s.me.owner).list_similar(theirs))


def edited_by(s: Stage, name: str) -> Any:
    """One step of an edit: of one's own message, and of another's as if it were one's own."""
    owner = s.me.owner
    more: dict[str, tuple[Any, ...]] = {"set_text": (origin_of(s, s.me), "changed")}

    def work(transaction: Transaction) -> list[Any]:
        edits = EditRepository(transaction, owner)
        if name == "find":
            return [edits.find(origin_of(s, who)) for who in (s.them, s.me)]
        if name == "find_topic":
            return [
                edits.find_topic(origin_of(s, who))
                for who in (s.them, s.me)
                if who.owner.telegram_user_id == owner.telegram_user_id or who is s.me
            ]
        step = getattr(edits, name)
        found: list[Any] = []
        for who in (s.them, s.me):
            edited = EditedMessage(who.asked[0], "x", True, True, True, ())
            found.append(step(edited, *more.get(name, ())))
        return [[one.text for one in pair] for pair in found] if name == "find_nearby" else found

    return s.write(work)


def restored_reminder(whose: Filled) -> dict[str, Any]:
    """Columns of a reminder of an export."""
    columns = dict.fromkeys(("recurrence", "message_id", "snooze_of", "delivered_at"))
    text = {"text": f"of {whose.word[0]}", "language": "en", "time_zone": "UTC"}
    times = {"due_at": DUE, "created_at": SAID, "cancelled_at": None, "is_waiting": True}
    return columns | text | times


CASES: dict[str, Callable[[Stage], Any]] = {
    "StoredFacts.find_message": lambda s: s.write(
        lambda t: s.both(lambda who: StoredFacts(t, s.me.owner).find_message(who.asked[0]))
    ),
    "StoredFacts.list_similar": similar,
    "StoredFacts.add": lambda s: s.write(
        lambda t: s.both(
            lambda who: StoredFacts(t, s.me.owner).add(
                new_memory(s.me.word, f"{who.word[0]}", who.asked[0], model_id=s.do.model,
                           content_hash=f"new {who.word}")
            )
        )
    ),
    "StoredFacts.add_source": lambda s: s.write(
        lambda t: s.both(
            lambda who: StoredFacts(t, s.me.owner).add_source(
                who.facts[0], Source(s.me.asked[2], "words", SAID)
            )
        )
    ),
    "StoredFacts.touch": lambda s: s.write(
        lambda t: s.both(
            lambda who: StoredFacts(t, s.me.owner).touch(
                who.facts[0], Fact(text="x", importance=10)
            )
        )
    ),
    "StoredFacts.retire": lambda s: s.write(
        lambda t: StoredFacts(t, s.me.owner).retire(
            [*s.me.facts, *s.them.facts], successor=None, reason="replaced",
            until=SAID,
        )
    ),
    "StoredFacts.retire_surplus": lambda s: s.write(
        lambda t: StoredFacts(t, s.me.owner).retire_surplus(0)
    ),
    "MemoryRepository.add_rejected": lambda s: s.both(
        lambda who: s.do.memories.add_rejected(
            s.me.owner, who.asked[0], reason="secret", text=None, origin="tool"
        )
    ),
    "MemoryRepository.list_facts": lambda s: [
        s.do.memories.list_facts(s.me.owner, FactQuery(order, is_living=None))
        for order in SELECT_FACTS
    ],
    "MemoryRepository.list_replaced_behind": lambda s: s.both(
        lambda who: s.do.memories.list_replaced_behind(
            s.me.owner, who.conversation, who.asked[-1] + 10**6
        )
    ),
    "MemoryRepository.find_fact": lambda s: s.both(
        lambda who: [s.do.memories.find_fact(s.me.owner, number) for number in who.facts]
    ),
    "MemoryRepository.count_kinds": lambda s: s.do.memories.count_kinds(s.me.owner),
    "MemoryRepository.set_pinned": lambda s: s.both(
        lambda who: [
            s.do.memories.set_pinned(s.me.owner, number, pinned=True) for number in who.facts
        ]
    ),
    "MemoryRepository.count": lambda s: s.do.memories.count(s.me.owner),
    "ForgettingRepository.list_facts": lambda s: s.write(
        lambda t: mine(s, t).list_facts()
    ),
    "ForgettingRepository.list_messages": lambda s: s.write(
        lambda t: s.both(
            lambda who: mine(s, t).list_messages(
                facts=who.facts, ids=who.asked, beginnings=[who.word[:4].lower()]
            )
        )
    ),
    "ForgettingRepository.list_other_quotes": lambda s: s.write(
        lambda t: s.both(
            lambda who: mine(s, t).list_other_quotes(facts=[], ids=who.asked)
        )
    ),
    "ForgettingRepository.forget": lambda s: [
        s.do.forget(s.me.owner, s.them.uids, request_id=s.them.asked[1]).texts,
        s.do.forget(
            s.me.owner, [*s.me.uids[:1], *s.them.uids], request_id=s.them.asked[2]
        ).texts,
        s.do.forget(s.me.owner, [f"fact-{number}" for number in s.them.facts]).texts,
    ],
    "ForgettingRepository.hide_request": lambda s: s.write(
        lambda t: s.both(lambda who: mine(s, t).hide_request(who.asked[1]))
    ),
    "ForgettingRepository.mask": lambda s: s.write(
        lambda t: s.both(lambda who: mine(s, t).mask(who.asked[1], who.word))
    ),
    "ForgettingRepository.keep_private": lambda s: s.write(
        lambda t: s.both(lambda who: mine(s, t).keep_private(who.asked[1]))
    ),
    "ForgettingRepository.undo": lambda s: s.write(
        lambda t: [
            *(mine(s, t).undo(number) for number in (s.them.facts[1], s.me.facts[1], None)),
            *(
                mine(s, t).undo(number=number)
                for who in (s.them, s.me)
                for number in forgettings_of(s, who)
            ),
        ]
    ),
    "ForgettingRepository.list_facts_of": lambda s: s.write(
        lambda t: s.both(lambda who: mine(s, t).list_facts_of(who.asked[0]))
    ),
    "ForgettingRepository.remove_source": lambda s: s.write(
        lambda t: [
            mine(s, t).remove_source(who.asked[0], number, has_others=others)
            for who in (s.them, s.me)
            for number, others in ((who.facts[0], False), (who.facts[1], True))
        ]
    ),
    "ForgettingRepository.find_forgetting": lambda s: s.write(
        lambda t: [
            mine(s, t).find_forgetting(f"msg-{number}", None)
            for who in (s.them, s.me)
            for number in who.asked
        ]
    ),
    "MemoryRepository.find_source": lambda s: s.both(
        lambda who: [s.do.memories.find_source(s.me.owner, uid) for uid in who.uids]
    ),
    "MemoryRepository.get_message_uid_by_episode": lambda s: s.both(
        lambda who: s.do.memories.get_message_uid_by_episode(s.me.owner, f"teach_{who.uids[0]}")
    ),
    "SearchIndexRepository.list_unindexed": lambda s: s.do.index.list_unindexed(s.me.conversation),
    "SearchIndexRepository.add_messages": lambda s: [
        s.do.index.add_messages(s.me.owner, conversation, s.documents(who), who.asked)
        for conversation in (s.me.conversation, s.them.conversation)
        for who in (s.them, s.me)
    ],
    "RetrievalRepository.search": lambda s: s.both(
        lambda who: [
            s.do.retrieval.search(s.request()),
            s.do.retrieval.search(s.request(conversation_id=who.conversation, before_position=1)),
        ]
    ),
    "RetrievalRepository.has_documents_outside": lambda s: s.both(
        lambda who: s.do.retrieval.has_documents_outside(s.me.owner, who.conversation)
    ),
    "RetrievalRepository.read_private": lambda s: s.both(
        lambda who: s.do.retrieval.read_private(s.me.owner, who.facts)
    ),
    "RetrievalRepository.list_facts": lambda s: s.do.retrieval.list_facts(s.me.owner),
    "RetrievalRepository.find_successors": lambda s: s.both(
        lambda who: s.do.retrieval.find_successors(
            s.me.owner, facts=who.facts, messages=who.asked
        )
    ),
    "RetrievalRepository.list_messages": lambda s: s.both(
        lambda who: s.do.retrieval.list_messages(
            s.me.owner, period=(None, None), conversation_id=who.conversation, before_position=2
        )
    ),
    "RetrievalRepository.read_texts": lambda s: s.both(
        lambda who: s.do.retrieval.read_texts(s.me.owner, who.asked)
    ),
    "EmbeddingRepository.find_model": lambda s: s.do.embeddings.find_model("three numbers"),
    "EmbeddingRepository.add_model": lambda s: s.do.embeddings.add_model(
        "three numbers", Scale({"en question": (0.5,)}, 0.0, 0.1)
    ),
    "EmbeddingRepository.add_vectors": lambda s: s.do.embeddings.add_vectors(
        s.do.model, {(number, 0): "[0,1,0]" for number in s.me.documents}
    ),
    "EmbeddingRepository.add_failure": lambda s: s.do.embeddings.add_failure(
        s.do.model, s.me.documents[1], is_hopeless=False
    ),
    "EmbeddingRepository.count_embedded": lambda s: s.do.embeddings.count_embedded(s.do.model),
    "SummaryRepository.list_summaries": lambda s: s.do.summaries.list_summaries(s.me.conversation),
    "ConversationRepository.find_conversation": lambda s: s.do.conversations.find_conversation(
        s.me.owner
    ),
    "ConversationRepository.get_last_position": lambda s: s.do.conversations.get_last_position(
        s.me.conversation
    ),
    "ConversationRepository.list_messages": lambda s: s.do.conversations.list_messages(
        s.me.conversation, 0, 2**31 - 1
    ),
    "SummaryRepository.replace": lambda s: [
        s.do.summaries.replace(
            s.me.conversation, "new", first=1, last=2, merged=merged
        )
        for merged in ([s.them.summary], [s.me.summary, s.them.summary], [s.me.summary])
    ],
    "ExtractionRepository.list_to_index": lambda s: s.do.extraction.list_to_index()[0],
    "ExtractionRepository.find_state": lambda s: s.do.extraction.find_state(s.me.conversation),
    "ExtractionRepository.advance": lambda s: s.do.extraction.advance(
        s.me.conversation, first=1, last=3
    ),
    "ExtractionRepository.list_unread": lambda s: s.do.extraction.list_unread(
        window=20, minutes=0, limit=1000
    ),
    "ExtractionRepository.list_parting": lambda s: s.do.extraction.list_parting(
        s.me.owner, limit=1000
    ),
    "ExtractionRepository.delete_parting": lambda s: s.do.extraction.delete_parting(
        s.me.owner, [*s.me.asked, *s.them.asked]
    ),
    "ExportRepository.get_settings": lambda s: s.do.exports.get_settings(s.me.owner),
    "ExportRepository.has_owner": lambda s: s.do.exports.has_owner(s.me.owner.telegram_user_id),
    "ExportRepository.read": lambda s: [
        list(s.do.exports.read(part, *s.me.owner)) for part in EXPORTED
    ],
    "ErasureRepository.erase_facts": lambda s: s.do.erasure.erase_facts(s.me.owner),
    "TimelineRepository.list_before": lambda s: s.do.timeline.list_before(
        s.me.owner, limit=1000
    ),
    "TimelineRepository.list_from": lambda s: s.do.timeline.list_from(
        s.me.owner, PageCursor(0, 0), limit=1000
    ),
    "TimelineRepository.find_day": lambda s: s.do.timeline.find_day(s.me.owner, SAID),
    "TimelineRepository.find_message": lambda s: s.both(
        lambda who: s.do.timeline.find_message(s.me.owner, who.asked[0])
    ),
    "ErasureRepository.erase": lambda s: s.do.erasure.erase(s.me.owner.telegram_user_id),
    "TurnRepository.find_answer": lambda s: s.both(
        lambda who: s.do.turns.find_answer(s.me.conversation, who.asked[0])
    ),
    "TurnRepository.save_answer": save_answer,
    "TurnRepository.add_usage": lambda s: s.do.turns.add_usage(s.me.conversation, (USAGE,)),
    "TurnRepository.list_cited": lambda s: s.do.turns.list_cited(s.me.owner, 1),
    "TurnRepository.mark_delivered": lambda s: s.both(
        lambda who: s.do.turns.mark_delivered(s.me.conversation, who.answer, parts=9)
    ),
    "TurnRepository.mark_delivered_parts": lambda s: s.both(
        lambda who: s.do.turns.mark_delivered_parts(s.me.conversation, who.answer, 9)
    ),
    "TurnRepository.mark_stopped": lambda s: s.both(
        lambda who: s.do.turns.mark_stopped(s.me.conversation, who.asked[0])
    ),
    "TurnRepository.mark_delivery_stopped": lambda s: [
        s.do.turns.mark_delivery_stopped(update) for update in updates_of(s, s.me)
    ],
    "TurnRepository.find_budget_pause": lambda s: s.do.turns.find_budget_pause(
        s.me.conversation, 1
    ),
    "TurnRepository.mark_failed": lambda s: s.both(
        lambda who: s.do.turns.mark_failed(
            BOT, s.me.owner.telegram_user_id, telegram_number(s, who)
        )
    ),
    "TurnRepository.mark_left_out": lambda s: s.both(
        lambda who: s.do.turns.mark_left_out(s.me.conversation, who.asked[:1])
    ),
    "TurnRepository.set_stream_message": lambda s: s.both(
        lambda who: s.do.turns.set_stream_message(s.me.conversation, who.asked[0], 77)
    ),
    "TurnRepository.find_stream_message": lambda s: s.both(
        lambda who: s.do.turns.find_stream_message(s.me.conversation, who.asked[0])
    ),
    "TurnRepository.find_stop": lambda s: s.do.turns.find_stop(s.me.owner),
    "ConversationRepository.get_or_create_conversation": lambda s: (
        s.do.conversations.get_or_create_conversation(
            s.me.owner.telegram_user_id, thread_id=s.me.owner.thread_id
        )
    ),
    "ConversationRepository.hold_conversation": lambda s: s.do.client.in_transaction(
        lambda t: s.do.conversations.hold_conversation(t, s.me.owner)
    ),
    "ConversationRepository.store_message": lambda s: refused(
        lambda: s.do.client.in_transaction(
            lambda t: s.do.conversations.store_message(
                t, s.me.owner, "mine", origin=origin_of(s, s.them)
            )
        )
    ),
    "ConversationRepository.append_message": lambda s: s.do.conversations.append_message(
        s.me.conversation, "user", "more"
    ),
    "ReminderRepository.restore": lambda s: s.both(
        lambda who: s.do.reminders.restore(s.me.owner, restored_reminder(who))
    ),
    "ReminderRepository.remove": lambda s: s.do.reminders.remove(
        s.me.owner, [*s.them.reminders, s.me.reminders[0]]
    ),
    "ImportRepository.begin": lambda s: s.do.imports.begin(s.me.owner, "x", "en"),
    "ImportRepository.find": lambda s: s.both(
        lambda who: s.do.imports.find(s.me.owner, who.imported)
    ),
    "ImportRepository.find_last": lambda s: s.do.imports.find_last(s.me.owner),
    "ImportRepository.count": lambda s: s.both(
        lambda who: s.do.imports.count(s.me.owner, who.imported)
    ),
    "ImportRepository.list_memories": lambda s: s.both(
        lambda who: s.do.imports.list_memories(s.me.owner, who.imported, limit=10, offset=0)
    ),
    "ImportRepository.set_own_name": lambda s: s.both(
        lambda who: s.do.imports.set_own_name(s.me.owner, who.imported, who.word)
    ),
    "ImportRepository.set_order": lambda s: s.both(
        lambda who: s.do.imports.set_order(s.me.owner, who.imported, days_first=False)
    ),
    "ImportRepository.choose": lambda s: s.both(
        lambda who: s.do.imports.choose(s.me.owner, who.imported, reads_facts=True)
    ),
    "ImportRepository.keep": lambda s: s.both(
        lambda who: s.do.imports.keep(s.me.owner, who.imported, keeps=False)
    ),
    "ImportRepository.take_back": lambda s: s.both(
        lambda who: s.do.imports.take_back(s.me.owner, who.imported)
    ),
    "ImportRepository.show_in": lambda s: s.both(
        lambda who: s.do.imports.show_in(s.me.owner, who.imported, (1, 0, 2), "uk")
    ),
    "ReminderRepository.add": lambda s: s.both(
        lambda who: set_reminder(s.do, s.me.owner, s.me.word, who.asked[0], None)
    ),
    "RecordRepository.find_home": lambda s: s.both(
        lambda who: [
            (s.do.records.find_home(s.me.owner, who.owner[0], action, old_message=old))
            for old in (1, None)
            for action in records_of(s, who)
        ]
    ),
    "ReminderRepository.count": lambda s: s.do.reminders.count(s.me.owner),
    "ReminderRepository.list_waiting": lambda s: s.do.reminders.list_waiting(
        s.me.owner, limit=1000
    ),
    "ReminderRepository.list_delivered": lambda s: (
        s.do.reminders.mark_delivered(s.me.reminders[0], int(DUE.timestamp()), now=DUE),
        s.do.reminders.list_delivered(s.me.owner, SAID, limit=1000),
    ),
    "ReminderRepository.undo": lambda s: s.both(
        lambda who: [
            (
                s.do.reminders.cancel(s.me.owner, number),
                s.do.reminders.undo(s.me.owner, reminder=number, now=SAID),
            )
            for number in who.reminders
        ]
    ),
    "ChangeRepository.record": lambda s: s.write(
        lambda t: s.both(
            lambda who: ChangeRepository(t, s.me.owner).record("forgotten", facts=who.facts)
        )
    ),
    "ChangeRepository.find": lambda s: s.write(
        lambda t: s.both(
            lambda who: [
                ChangeRepository(t, s.me.owner).find(number=number)
                for number in forgettings_of(s, who)
            ]
        )
    ),
    "ChangeRepository.restore_replaced": lambda s: s.write(
        lambda t: s.both(
            lambda who: ChangeRepository(t, s.me.owner).restore_replaced(who.facts[1])
        )
    ),
    "ChangeRepository.restore": lambda s: s.write(
        lambda t: s.both(
            lambda who: ChangeRepository(t, s.me.owner).restore(change_of(s, who))
        )
    ),
    "ChangeRepository.close": lambda s: s.write(
        lambda t: s.both(lambda who: ChangeRepository(t, s.me.owner).close(change_of(s, who)))
    ),
    "ReminderRepository.find": lambda s: s.both(
        lambda who: [s.do.reminders.find(s.me.owner, number) for number in who.reminders]
    ),
    "ReminderRepository.cancel": lambda s: s.both(
        lambda who: [s.do.reminders.cancel(s.me.owner, number) for number in who.reminders]
    ),
    "ReminderRepository.snooze": lambda s: s.both(
        lambda who: [put_off(s, number) for number in who.reminders]
    ),
    "ReminderRepository.move": lambda s: s.both(
        lambda who: [
            s.do.reminders.move(
                s.me.owner, number, NewReminder("", LATER, None, "Europe/Moscow", "ru"), now=SAID
            )
            for number in who.reminders
        ]
    ),
    "ReminderRepository.finish": lambda s: s.both(
        lambda who: [
            (put_off(s, number), s.do.reminders.finish(s.me.owner, number))
            for number in who.reminders
        ]
    ),
    "ReminderRepository.change_zone": lambda s: s.do.reminders.change_zone(
        s.me.owner, "Asia/Tokyo", guessed="Europe/Moscow", now=SAID
    ),
    **{
        f"EditRepository.{name}": partial(edited_by, name=name)
        for name in (
            "find",
            "find_topic",
            "find_nearby",
            "set_text",
            "requeue_for_extraction",
            "delete_answer",
        )
    },
    "ConversationRepository.find_text": lambda s: [
        s.do.conversations.find_text(s.me.owner, origin_of(s, who)) for who in (s.them, s.me)
    ],
    "ConversationRepository.find_text_before": lambda s: s.both(
        lambda who: s.do.conversations.find_text_before(
            s.me.owner, origin_of(s, who), SAID + timedelta(minutes=5)
        ).text
    ),
    "QuestionRepository.find": lambda s: s.both(
        lambda who: s.do.questions.find(s.me.owner, who.answer, time_zone="UTC")
    ),
    "QuestionRepository.close": lambda s: s.both(
        lambda who: s.do.questions.close(
            s.me.owner, who.answer, "So", changes=NO_CHANGES, is_shown=False
        )
    ),
    "QuestionRepository.keep_apart": lambda s: s.both(
        lambda who: s.do.questions.keep_apart(s.me.owner, s.me.facts[0], [who.facts[1]])
    ),
    "ConversationRepository.load_last_messages": lambda s: s.do.conversations.load_last_messages(
        s.me.conversation, 1000
    ),
    "ConversationRepository.create_new_conversation": lambda s: (
        s.do.conversations.create_new_conversation(
            s.me.owner.telegram_user_id, thread_id=s.me.owner.thread_id
        )
    ),
    "ConversationRepository.clear_conversation_messages": lambda s: (
        s.do.conversations.clear_conversation_messages(s.me.conversation)
    ),
    "GroupMoveRepository.migrate_owner": lambda s: [
        s.do.moves.migrate_owner(
            s.me.owner.telegram_user_id, s.them.owner.telegram_user_id
        ),
        s.do.moves.migrate_owner(s.me.owner.telegram_user_id, -next(_numbers) - 2**50),
    ],
}  # fmt: skip
# Methods for the background, which work for all owners together and are tested elsewhere.
FOR_EVERYBODY = {
    **dict.fromkeys(
        (
            f"ImportRepository.{step}"
            for step in (
                "add_rows",
                "finish_reading",
                "lock",
                "list_rows",
                "list_unkept",
                "clear_text",
                "add_messages",
                "list_to_index",
                "add_summaries",
                "set_stored",
                "find_links",
                "list_successors",
                "note_settings",
                "find_former_settings",
                "finish",
                "list_messages",
                "list_new",
                "delete",
                "close",
            )
        ),
        "a step of a reading or of the job, on the one import that it has in hand",
    ),
    "ImportRepository.find_under_way": "the job of imports advances those of all owners",
    "ImportRepository.delete_abandoned": "what nobody decided on, of all owners",
    "ImportRepository.find_price": "the price of a model",
    "EmbeddingRepository.list_unembedded": "see the test of the messages before a document",
    "EmbeddingRepository.find_serving": "the model whose vectors all documents have",
    "EmbeddingRepository.note_progress": "how many documents of all owners a model has embedded",
    "EmbeddingRepository.find_progress": "the same",
    "EmbeddingRepository.choose_model": "changes which vectors are wanted, of all owners",
    "ExtractionRepository.find_pace": "how long ago anybody wrote, and how slow the server is",
    "ExtractionRepository.list_with_parting": "conversations of whoever left something unread",
    "MemoryRepository.count_all": "how many facts there are, for the growth of the whole bot",
    "QuestionRepository.find_ended": "for a job, which names an answer",
    "ReminderRepository.defer_soon": "jobs for what is due, of all owners",
    "ReminderRepository.find_due": "for such a job, which names a reminder",
    "ReminderRepository.mark_delivered": "the same",
    "ReminderRepository.count_failure": "the same",
    "ReminderRepository.prune": "deletes what came long ago, of all owners",
    "ErasureRepository.vacuum": "frees the places of deleted rows, and reads none",
    "EmbeddingRepository.delete_other_models": "deletes models that no document refers to",
}
# What concerns a chat as a whole, with all its topics.
CHAT_WIDE = frozenset(
    {
        "ErasureRepository.erase",
        "EditRepository.find",
        "GroupMoveRepository.migrate_owner",
        "TurnRepository.mark_failed",
        "ReminderRepository.change_zone",
        "RecordRepository.find_home",
    }
)
# All others return or change something of their own owner's: else they would prove nothing.
SAY_LITTLE = frozenset(
    {
        "ImportRepository.count", "EditRepository.find_topic",
        "ExportRepository.has_owner",
        "TurnRepository.find_budget_pause", "MemoryRepository.count", "ReminderRepository.count",
        "MemoryRepository.count_kinds", "ExportRepository.get_settings",
        "MemoryRepository.get_message_uid_by_episode", "MemoryRepository.list_replaced_behind",
        "EmbeddingRepository.find_model",
        "EmbeddingRepository.add_model", "EmbeddingRepository.count_embedded",
        "ConversationRepository.get_last_position",
        "TurnRepository.find_stream_message", "TurnRepository.list_cited",
        "TurnRepository.find_stop",
        "ConversationRepository.store_message", "TimelineRepository.find_day",
        "TimelineRepository.find_message",
        "RetrievalRepository.has_documents_outside",
        "RecordRepository.find_home",
        "RetrievalRepository.read_private",  # see test_secrets.py: they have no private facts
    }
)  # fmt: skip
REPOSITORIES = (
    MemoryRepository, StoredFacts, ForgettingRepository, ChangeRepository, GroupMoveRepository,
    SearchIndexRepository,
    RetrievalRepository,
    EmbeddingRepository, SummaryRepository, ExtractionRepository, ErasureRepository,
    TurnRepository, ConversationRepository,
    ExportRepository, EditRepository, QuestionRepository, ReminderRepository, TimelineRepository,
    RecordRepository, ImportRepository,
)  # fmt: skip


def refused(work: Callable[[], Any]) -> None:
    """The message belongs to somebody else's conversation."""
    with pytest.raises(ConversationGoneError):
        work()


def put_off(s: Stage, number: int) -> Any:
    """I let a reminder come later."""
    return s.do.reminders.snooze(
        s.me.owner, number, DUE + timedelta(hours=1), time_zone="Europe/Moscow", now=SAID
    )


def telegram_number(s: Stage, who: Filled) -> int:
    """Telegram's number of somebody's first message."""
    [number] = s.do.ids(
        "SELECT telegram_message_id FROM messages WHERE id = %(id)s", id=who.asked[0]
    )
    return number


def updates_of(s: Stage, who: Filled) -> list[int]:
    """Somebody's stored updates."""
    chat, thread = who.owner
    return s.do.ids(
        "SELECT id FROM telegram_updates WHERE chat_id = %(chat)s AND thread_id = %(thread)s",
        chat=chat,
        thread=thread,
    )


def records_of(s: Stage, who: Filled) -> list[Action]:
    """Actions of buttons that name somebody's records."""
    return [
        Action("done", (who.reminders[0],)), Action("fact", (who.facts[0],)),
        Action("source", (who.asked[0],)), Action("settle", (who.answer,)),
        Action("drop", (1, who.asked[0])), Action("undo", (0, forgettings_of(s, who)[0])),
    ]  # fmt: skip


def forgettings_of(s: Stage, who: Filled) -> list[int]:
    """What somebody has forgotten."""
    sql = "SELECT id FROM changes WHERE kind = 'forgotten' AND owner_id = %(owner)s"
    return s.do.ids(sql, **who.owner.columns())


def change_of(s: Stage, who: Filled) -> Change:
    """The change by which somebody's fact replaced another."""
    [row] = s.do.client.fetch_all(
        "SELECT id, kind, memory_id, before FROM changes"
        " WHERE kind = 'saved' AND owner_id = %(owner)s",
        who.owner,
    )
    return Change(*row)


def mine(s: Stage, transaction: Transaction) -> ForgettingRepository:
    """What forgets and takes back of mine."""
    return ForgettingRepository(transaction, s.me.owner)


def origin_of(s: Stage, who: Filled) -> TelegramOrigin:
    """Where somebody's first message stands in Telegram."""
    chat = who.owner.telegram_user_id
    return TelegramOrigin(BOT, chat, telegram_number(s, who), chat)


def public_methods() -> set[str]:
    """``Class.method`` of every repository."""
    return {
        f"{repository.__name__}.{name}"
        for repository in REPOSITORIES
        for name, _ in inspect.getmembers(repository, inspect.isfunction)
        if not name.startswith("_")
    }


def test_every_public_method_has_a_case() -> None:
    assert public_methods() == CASES.keys() | FOR_EVERYBODY.keys()
    assert not CASES.keys() & FOR_EVERYBODY.keys() and CASES.keys() >= CHAT_WIDE


def test_the_dump_of_an_owner_knows_every_table(shared: PgClient) -> None:
    named = {name for name in tables(shared.dsn) if not name.startswith("procrastinate_")}
    assert named == ROWS_OF_OWNER.keys() | NOBODYS
    filled = fill(shared, Owner(next(_numbers) + 2**41))
    assert {table for table, _ in rows_of(shared.dsn, filled.owner)} == ROWS_OF_OWNER.keys()


def two_owners(kind: str) -> tuple[Owner, Owner]:
    """Two people, or two topics of one group."""
    number = next(_numbers)
    if kind == "people":
        return Owner(2**42 + 2 * number), Owner(2**42 + 2 * number + 1)
    return Owner(-(2**41) - number, 3), Owner(-(2**41) - number, 4)


class Neighbours:
    """Two filled owners, of whom one acts; whoever was changed by it gives way to somebody new."""

    def __init__(self, client: PgClient, kind: str) -> None:
        self._client = client
        self._kind = kind
        self._left_out = OF_ALL_TOPICS if kind == "topics" else frozenset()
        self._topics = itertools.count(5)
        self._move_in()

    def _move_in(self) -> None:
        me, them = two_owners(self._kind)
        self._them, self._theirs = self._fill(them, self._left_out)
        self._me, self._mine = self._fill(me)

    def _fill(
        self, owner: Owner, left_out: frozenset[str] = frozenset()
    ) -> tuple[Filled, list[tuple[str, str]]]:
        filled = fill(self._client, owner)
        return filled, rows_of(self._client.dsn, owner, without=left_out)

    def try_out(self, name: str) -> str:
        """Why I must not call this method; nothing when it touches only what is mine."""
        failure = ""
        try:
            self._call(name)
        except Exception:  # noqa: BLE001  (also what another one did is told)
            failure = traceback.format_exc(limit=-2)
        me, them = self._me.owner, self._them.owner
        if failure or rows_of(self._client.dsn, them, without=self._left_out) != self._theirs:
            self._move_in()
        elif rows_of(self._client.dsn, me) != self._mine:
            somebody = Owner(me.telegram_user_id, next(self._topics))
            me = somebody if self._kind == "topics" else two_owners(self._kind)[0]
            self._me, self._mine = self._fill(me)
        return failure

    def _call(self, name: str) -> None:
        me, them = self._me, self._them
        result = repr(CASES[name](Stage(Repositories(self._client), me, them)))
        assert them.word not in result
        assert not [uid for uid in them.uids if f"'{uid}'" in result]
        theirs = rows_of(self._client.dsn, them.owner, without=self._left_out)
        assert theirs == self._theirs
        mine = rows_of(self._client.dsn, me.owner)
        shows = me.word in result or str(me.conversation) in result
        assert (shows or mine != self._mine) == (name not in SAY_LITTLE)
        links = [json.loads(row) for table, row in mine if table not in self._left_out]
        assert not [row for row in links if row.get("message_id") in [*them.asked, them.answer]]
        assert not [row for row in links if row.get("memory_id") in them.facts]
        assert not [row for row in links if row.get("reply_to_id") in them.asked]


@pytest.mark.parametrize("kind", ["people", "topics"])
def test_nothing_of_another_is_returned_or_changed(shared: PgClient, kind: str) -> None:
    neighbours = Neighbours(shared, kind)
    names = [name for name in CASES if kind == "people" or name not in CHAT_WIDE]
    failures = {name: neighbours.try_out(name) for name in names}
    told = "\n\n".join(f"{name}: {why}" for name, why in failures.items() if why)
    assert not told, told


def test_topics_of_a_person_have_one_memory_and_each_its_own_history(shared: PgClient) -> None:
    do, person = Repositories(shared), next(_numbers) + 2**41
    seven, eight = (fill(shared, Owner(person, topic)) for topic in (7, 8))
    stage = Stage(do, eight, seven)
    for name in (
        "MemoryRepository.list_facts", "MemoryRepository.find_fact",
        "MemoryRepository.find_source", "ReminderRepository.list_waiting",
        "RetrievalRepository.search", "ForgettingRepository.list_messages",
    ):  # fmt: skip
        found = repr(CASES[name](stage))
        assert seven.word in found and eight.word in found, name
    assert {one.owner for one in do.reminders.list_waiting(eight.owner, limit=9)} == {
        seven.owner,
        eight.owner,
    }  # each comes where it was set
    told = repr(
        [*do.timeline.list_before(eight.owner, limit=9), do.turns.list_cited(eight.owner, 1)]
    )
    assert eight.word in told and seven.word not in told
    before = do.conversations.load_last_messages(seven.conversation)
    do.conversations.create_new_conversation(person, thread_id=8)
    assert do.conversations.load_last_messages(seven.conversation) == before
    assert do.conversations.find_conversation(seven.owner) == seven.conversation
    kept = rows_of(shared.dsn, seven.owner, without=set(ROWS_OF_OWNER) - {"tool_results"})
    assert seven.word in repr(kept) and eight.word not in repr(kept)
    do.erasure.erase(person)
    assert rows_of(shared.dsn, eight.owner) == []


def test_a_document_is_embedded_with_a_message_of_its_owner_before_it(shared: PgClient) -> None:
    """Positions count per owner, so two owners have documents at the same ones."""
    do = Repositories(shared)
    filled = [fill(shared, owner) for kind in ("people", "topics") for owner in two_owners(kind)]
    shared.execute(
        "UPDATE search_documents SET model_id = NULL WHERE id = ANY(%(ids)s)",
        {"ids": [number for one in filled for number in one.documents]},
    )
    shared.execute("DELETE FROM embedding_failures")
    of_document = {number: one for one in filled for number in one.documents}
    waiting = [d for d in do.embeddings.list_unembedded(do.model, 1000) if d.id in of_document]
    assert len(waiting) == len(of_document)
    with_neighbour = [document for document in waiting if document.before]
    assert len(with_neighbour) == len(filled)
    for document in waiting:
        mine = of_document[document.id]
        others = [one.word for one in filled if one is not mine]
        assert mine.word in document.text
        assert not any(word in document.text + document.before for word in others)


@pytest.fixture(scope="module")
def crowd(shared: PgClient) -> list[Filled]:
    """People and topics side by side."""
    return [fill(shared, owner) for kind in ("people", "topics") for owner in two_owners(kind)]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_search_whatever_leads_to_another_owner(
    shared: PgClient, crowd: list[Filled], data: st.DataObject
) -> None:
    me, them = data.draw(st.permutations(crowd))[:2]
    do = Repositories(shared)
    words = st.lists(st.sampled_from([them.word, me.word, "hid", "live", "brother", "user"]))
    request = SearchRequest(
        owner=me.owner,
        terms=data.draw(st.lists(words, max_size=3)),
        entity_terms=data.draw(words),
        vector=data.draw(st.sampled_from([VECTOR, "[0,1,0]", None])),
        model_id=data.draw(st.sampled_from([do.model, do.model + 1, None])),
        periods=data.draw(
            st.lists(st.just((SAID - timedelta(days=1), SAID + timedelta(days=1))), max_size=2)
        ),
        conversation_id=data.draw(st.sampled_from([me.conversation, them.conversation, None])),
        before_position=data.draw(st.integers(0, 5)),
        with_assistant=data.draw(st.booleans()),
        with_retired=data.draw(st.booleans()),
        limit=data.draw(st.integers(0, 200)),
    )
    found = do.retrieval.search(request)
    assert all(me.word in document.text for document in found)
    assert {d.message_id for d in found} <= {*me.asked, None}
    sources = {(d.kind, d.source_id) for d in found}
    assert sources <= {
        *(("message", number) for number in me.asked),
        *(("memory", number) for number in me.facts),
        ("summary", me.summary),
    }


@pytest.mark.parametrize(("channel", "changes"), [
    ("dense", {"terms": [], "entity_terms": [], "periods": []}),
    ("lexical", {"entity_terms": [], "periods": [], "vector": None, "model_id": None}),
    ("time", {"terms": [], "entity_terms": [], "vector": None, "model_id": None}),
    ("entity", {"terms": [], "periods": [], "vector": None, "model_id": None}),
])  # fmt: skip
def test_each_channel_finds_ones_own_and_nothing_else(
    shared: PgClient, crowd: list[Filled], channel: str, changes: dict[str, Any]
) -> None:
    """The request names the words, the meaning, the time and the people of both."""
    do = Repositories(shared)
    for me, them in itertools.permutations(crowd, 2):
        request = Stage(do, me, them).request(**changes)
        found = do.retrieval.search(request)
        assert found, f"{channel} does find something"
        assert all(me.word in document.text for document in found)


async def test_the_secret_of_another_as_a_question_finds_nothing_of_his(client: PgClient) -> None:
    secret = "Ключ от дачи лежит под серым камнем у калитки"
    async with open_rig(client, embedding_model=FAKE_EMBEDDINGS) as rig:
        for theirs, mine in (two_owners("people"), two_owners("topics")):
            teller, asker = teller_of(rig, theirs), teller_of(rig, mine)
            await teller.tell(secret, subject="дача", object="камень")
            await asker.tell("Ключ от гаража лежит дома", subject="гараж", object="дом")
            await rig.core.memory.digest.index_pending()
            await rig.core.memory.indexer.embed_pending()
            everything = {"limit": 50, "threshold": 0.0, "with_assistant": True}
            assert secret in [hit.text for hit in await teller.find(secret, **everything)]
            for question in (secret, f"{secret} 22 ноября 2026", "дача", "камень"):
                found = await asker.find(question, **everything)
                assert not [hit for hit in found if "камнем" in hit.text]
            month = await rig.core.memory.retriever.search(
                Query(mine, "Что я говорил в ноябре?", teller.moment, limit=50, threshold=0.0)
            )
            assert month and not [hit for hit in month if "камнем" in hit.text]


def test_a_button_finds_the_records_of_its_own_chat_alone(shared: PgClient) -> None:
    do, group = Repositories(shared), -next(_numbers) - 2**41
    five, other = fill(shared, Owner(group, 5)), fill(shared, Owner(group - 2**20, 5))
    chat, person = Owner(group), 2**41 + next(_numbers)
    stage = Stage(do, five, other)
    for old in (1, None):
        for action in records_of(stage, five):
            assert do.records.find_home(chat, person, action, old_message=old) == five.owner
        for action in records_of(stage, other):
            assert do.records.find_home(chat, person, action, old_message=old) == chat
