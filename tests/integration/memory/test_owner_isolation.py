"""No method of the memory's repositories returns or changes a row of another owner.

Every public method is called for one owner, with his own ids and with those of another one who
has as much: another person, or another topic of the same group. Where a method takes no owner but
a conversation, its id stands for the owner, so there the other ids are the other owner's.

The topics of a private chat have one owner, the person: there it is the history alone that each
keeps to itself.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.base.errors import ConversationGoneError
from src.base.owners import Owner
from src.history.conversation_repo import TelegramOrigin
from src.history.timeline_repo import (
    PageCursor,
    ToolResult,
    ToolResultRepository,
)
from src.history.turn_repo import NO_CHANGES, AnswerSource, NewAnswer
from src.imports.records import Record
from src.llm.reply import ModelUsage
from src.memory.change_repo import Change
from src.memory.forgetter import Forgetter
from src.memory.memory_repo import (
    SELECT_FACTS,
    FactQuery,
    NewEntity,
    Proposal,
    Source,
    StoringRepository,
)
from src.memory.question_repo import mark_disputed
from src.memory.retrieval_repo import SearchRequest, Shown
from src.memory.search_index_repo import (
    NewDocument,
    Scale,
)
from src.pg.client import PgClient, Transaction
from src.pg.settings_repo import UserSettingsRepository
from src.privacy.export import PARTS as EXPORTED
from src.queue.update_repo import NewUpdate, UpdateRepository
from src.reading.facts import Fact
from src.reading.recurrences import Recurrence
from src.reminders.reminder_repo import NewReminder
from src.talk.edits import EditedMessage
from src.texts.morphology import terms
from src.texts.reply import Action
from tests.conftest import new_client
from tests.tables import (
    NOBODYS,
    OF_ALL_TOPICS,
    ROWS_OF_OWNER,
    count_death,
    open_question,
    rows_of,
    select_rows,
    send_batch,
    tables,
)

# Every class that reads or writes rows of one owner, by its module.
MODULES = {
    "history.conversation_repo": "ConversationRepository",
    "history.timeline_repo": "TimelineRepository",
    "history.turn_repo": "TurnRepository",
    "imports.import_repo": "ImportRepository",
    "memory.change_repo": "ChangeRepository",
    "memory.digest_repo": "ExtractionRepository SummaryRepository",
    "memory.forgetting_repo": "ForgettingRepository",
    "memory.group_moves": "GroupMoveRepository",
    "memory.memory_repo": "MemoryRepository StoringRepository",
    "memory.question_repo": "QuestionRepository",
    "memory.retrieval_repo": "RetrievalRepository",
    "memory.search_index_repo": "EmbeddingRepository SearchIndexRepository",
    "privacy.erasure_repo": "ErasureRepository",
    "outside.connections": "ConnectionRepository PageSessionRepository",
    "privacy.export": "ExportRepository",
    "reminders.day_repo": "DayRepository",
    "reminders.reminder_repo": "ReminderRepository",
    "talk.edits": "EditRepository",
    "talk.record_repo": "RecordRepository",
}
KINDS: dict[str, Any] = {
    name: getattr(importlib.import_module(f"src.{module}"), name)
    for module, names in MODULES.items()
    for name in names.split()
}
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
        Repositories(opened).EmbeddingRepository.add_model("three numbers", Scale(means, 0.0, 0.3))
        yield opened


@dataclass
class Filled:
    """An owner who has a row in every table; the word stands in all of his texts.

    Attributes:
        sent: Telegram's number of his first message.
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
    sent: int
    asked: list[int]
    answer: int
    facts: list[int]
    documents: list[int]
    summary: int
    reminders: list[int]
    imported: int

    @property
    def uids(self) -> list[str]:
        return [f"msg-{number}" for number in self.asked]

    @property
    def origin(self) -> TelegramOrigin:
        """Where his first message stands in Telegram."""
        chat = self.owner.telegram_user_id
        return TelegramOrigin(BOT, chat, self.sent, chat)


class Repositories:
    """All of them, on one client."""

    def __init__(self, client: PgClient) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        """A repository of this class, ``ReminderRepository`` for example."""
        return KINDS[name](self.client)

    @property
    def model(self) -> int:
        return int(self.EmbeddingRepository.find_model("three numbers").id)

    def forget(self, owner: Owner, uids: list[str], request_id: int | None = None) -> Any:
        with self.client.transaction() as transaction:
            return Forgetter(transaction, owner, request_id=request_id).forget(uids)

    def build(self, kind: type, transaction: Transaction, owner: Owner) -> Any:
        """A repository; those of one transaction are of one owner."""
        if "owner" in inspect.signature(kind).parameters:
            return kind(transaction, owner)
        return kind(self.client)

    def ids(self, sql: str, **parameters: Any) -> list[int]:
        return [row[0] for row in self.client.fetch_all(sql, parameters)]


def new_memory(word: str, text: str, message_id: int, **changes: Any) -> Proposal:
    """A fact as the writer hands it to the repository; its hash is its text."""
    values: dict[str, Any] = {
        "fact": Fact(text=f"{text} {word}", relation="lives_in", object=word, importance=8),
        "language": "en",
        "origin": "teach",
        "content_hash": f"{text} {word}",
        "source": Source.of_message(message_id, f"{text} {word}", SAID),
        "terms": terms(f"{text} {word}"),
        "vector": VECTOR,
        "entities": [
            NewEntity(f"{word} brother", [frozenset({"brother"})], "person"),
            NewEntity(word, [frozenset({word})], "thing"),
        ],
        **changes,
    }
    return Proposal(**values)


def fill(client: PgClient, owner: Owner) -> Filled:
    do, word = Repositories(client), f"zq{next(_numbers)}zq"
    chat, thread = owner
    conversation = do.ConversationRepository.get_or_create_conversation(chat, thread_id=thread)
    first = next(_numbers) * 1000
    asked = [
        do.ConversationRepository.append_message(
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
    do.SearchIndexRepository.add_messages(owner, conversation, indexed, asked[:2])
    facts = fill_memories(do, owner, word, asked)
    source = AnswerSource(1, f"msg-{asked[0]}", word, SAID, asked[0], facts[0])
    answer = do.TurnRepository.save_answer(
        NewAnswer(
            conversation, asked[0], f"You hid {word}", ("search_memory",), (USAGE,),
            sources=(source,), asks="conflict",
        )
    )  # fmt: skip
    open_question(client.dsn, owner, asked[0])
    assert do.SummaryRepository.replace(conversation, f"Somebody hid {word}", first=1, last=2)
    tool = ToolResult("search_memory", {"query": word}, f"found {word}", 5)
    ToolResultRepository(client).add(conversation, asked[0], tool)
    UserSettingsRepository(client).change(chat, mode="strict")
    assert do.ConnectionRepository.add(owner, f"assistant of {word}")
    do.PageSessionRepository.add_link(owner)
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
    do.EmbeddingRepository.add_vectors(do.model, {(number, 0): VECTOR for number in unembedded})
    [summary] = do.SummaryRepository.list_summaries(conversation)
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
    imported = fill_import(do, owner, word)
    return Filled(
        owner, word, conversation, first, asked, answer.id, facts, documents, summary.id,
        reminders, imported,
    )  # fmt: skip


def fill_import(do: Repositories, owner: Owner, word: str) -> int:
    """Somebody brings a chat in which nobody is known yet, and what an assistant remembers."""
    sql = (
        "INSERT INTO imports (owner_id, source, name) VALUES (%(owner)s, 'list', %(word)s)"
        " RETURNING id"
    )
    [number] = do.ids(sql, **owner.columns(), word=word)
    records = [
        Record("whatsapp", word, word, f"{word} 1", f"I hid {word}", SAID, who=word),
        Record("list", word, word, f"{word} 2", f"hides {word}", SAID, kind="memory"),
    ]
    do.ImportRepository.add_rows(number, 0, records, SAID)
    do.ImportRepository.finish_reading(number, [word])
    do.client.execute("UPDATE imports SET days_first = NULL WHERE id = %(id)s", {"id": number})
    return number


def set_reminder(
    do: Repositories, owner: Owner, word: str, message_id: int, repeats: Recurrence | None
) -> int:
    new = NewReminder(
        f"of {word}, {next(_numbers)}", DUE, repeats, "Europe/Moscow", "en", message_id=message_id
    )
    reminder = do.ReminderRepository.add(owner, new, now=SAID)
    assert reminder is not None
    return reminder.id


def fill_memories(do: Repositories, owner: Owner, word: str, asked: list[int]) -> list[int]:
    """A plain fact, one that replaced another, that other one; and a refused one."""

    def work(transaction: Transaction) -> list[int]:
        def add(text: str, number: int) -> int:
            memory = new_memory(word, text, asked[number], model_id=do.model)
            return StoringRepository(transaction, owner).add(memory)

        plain, old, new = add("has", 0), add("lived in", 0), add("lives in", 1)
        StoringRepository(transaction, owner).retire([old], successor=new, reason="replaced")
        return [plain, new, old]

    facts = do.client.in_transaction(work)
    do.MemoryRepository.add_rejected(
        owner, asked[0], reason="question", text=f"{word}?", origin="tool"
    )
    return facts


@dataclass
class Stage:
    """Two owners, one of whom acts."""

    do: Repositories
    me: Filled
    them: Filled

    def edited(self, whose: Filled) -> EditedMessage:
        """Somebody's first message as one that was edited."""
        return EditedMessage(whose.asked[0], "x", True, True, True, ())

    def change(self, whose: Filled) -> Change:
        sql = (
            "SELECT id, kind, memory_id, before FROM changes"
            " WHERE kind = 'saved' AND owner_id = %(owner)s"
        )
        [row] = self.do.client.fetch_all(sql, whose.owner.columns())
        return Change(*row)

    def forgettings(self, whose: Filled) -> list[int]:
        sql = "SELECT id FROM changes WHERE kind = 'forgotten' AND owner_id = %(owner)s"
        return self.do.ids(sql, **whose.owner.columns())

    def connection(self, whose: Filled) -> int:
        """The first connection of another assistant to somebody's memory."""
        return int(self.do.ConnectionRepository.list_all(whose.owner)[0].id)

    def documents(self, whose: Filled) -> list[NewDocument]:
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


# What a parameter of this name is: who acts.
MINE: dict[str, Callable[[Stage], Any]] = {
    "owner": lambda s: s.me.owner,
    "telegram_user_id": lambda s: s.me.owner.telegram_user_id,
    "chat_id": lambda s: s.me.owner.telegram_user_id,
    "thread_id": lambda s: s.me.owner.thread_id,
    "conversation_id": lambda s: s.me.conversation,
}
# Records: theirs, and then mine.
SOMEBODYS: dict[str, Callable[[Stage, Filled], Any]] = {
    "message_id": lambda _, who: who.asked[0],
    "telegram_message_id": lambda _, who: who.sent,
    "memory_id": lambda _, who: who.facts[0],
    "answer_id": lambda _, who: who.answer,
    "number": lambda _, who: who.reminders[0],
    "uid": lambda _, who: who.uids[0],
    "episode": lambda _, who: f"teach_{who.uids[0]}",
    "messages": lambda _, who: who.asked,
    "message_ids": lambda _, who: who.asked[:1],
    "ids": lambda _, who: who.asked,
    "facts": lambda _, who: who.facts,
    "words": lambda _, who: [who.word.lower()],
    "secret": lambda _, who: who.word,
    "origin": lambda _, who: who.origin,
    "edited": Stage.edited,
    "change": Stage.change,
}
# Anything.
OTHERS: dict[str, Any] = {
    "limit": 1000, "window": 20, "minutes": 0, "first": 1, "last": 3, "calls": 1, "parts": 9,
    "sent_message": 1, "bot_id": BOT, "place": PageCursor(0, 0), "usage": (USAGE,),
    "since": SAID, "now": SAID, "moment": SAID + timedelta(minutes=5), "due_at": LATER,
    "time_zone": "Europe/Moscow", "new": NewReminder("", LATER, None, "Europe/Moscow", "ru"),
    "fact": Fact(text="x", importance=10), "kind": "forgotten", "asker": None,
    "pinned": True, "has_others": False, "role": "user", "content": "more", "text": "changed",
    "ending": "So", "changes": NO_CHANGES, "is_shown": False, "transaction": None,
}  # fmt: skip
# Parameters that are passed although they have a default.
PASSED = frozenset({"facts", "ids", "words", "thread_id", "limit"})


def call(s: Stage, name: str) -> list[Any]:
    """Call a method for me, with their records and with mine."""
    cls, _, method = name.partition(".")
    found = []
    for who in (s.them, s.me):
        with s.do.client.transaction() as transaction:
            mine = s.do.build(KINDS[cls], transaction, s.me.owner)
            if name in ODD:
                found.append(ODD[name](mine, s, who))
                continue
            given = arguments_of(getattr(mine, method), s, who)
            if "transaction" in given:
                given["transaction"] = transaction
            found.append(getattr(mine, method)(**given))
        if not given.keys() & SOMEBODYS.keys():
            break
    return found


def arguments_of(method: Any, s: Stage, who: Filled) -> dict[str, Any]:
    """What a method takes, about somebody's records.

    A conversation stands for its owner where a method takes no owner.
    """
    given: dict[str, Any] = {}
    parameters = inspect.signature(method).parameters
    for name, parameter in parameters.items():
        if parameter.default is not parameter.empty and name not in PASSED:
            continue
        if name == "conversation_id" and "owner" in parameters:
            given[name] = who.conversation
        elif name in MINE:
            given[name] = MINE[name](s)
        elif name in SOMEBODYS:
            given[name] = SOMEBODYS[name](s, who)
        elif parameter.kind is not parameter.VAR_KEYWORD:
            given[name] = OTHERS[name]
    return given


def save_answer(turns: Any, s: Stage, who: Filled) -> list[Any]:
    """With their messages and facts as sources; then as the answer to their messages."""
    if who is s.them:
        for asked in who.asked:
            with pytest.raises(ConversationGoneError):
                turns.save_answer(NewAnswer(s.me.conversation, asked, "mine now"))
    sources = tuple(
        AnswerSource(number, "msg-1", "?", SAID, message, fact)
        for number, (message, fact) in enumerate(zip(s.them.asked, s.them.facts, strict=True), 1)
    )
    question = [{"message": message} for message in s.them.asked]
    answer = NewAnswer(
        s.me.conversation, s.me.asked[1], "So", (), (USAGE,), sources=sources, question=question
    )
    saved = turns.save_answer(answer, mark_disputed)
    return [saved.id, turns.find_answer(s.me.conversation, s.me.asked[1])]


def store_message(conversations: Any, s: Stage, _: Filled) -> None:
    with pytest.raises(ConversationGoneError), s.do.client.transaction() as transaction:
        conversations.store_message(transaction, s.me.owner, "mine", origin=s.them.origin)


def similar(facts: Any, s: Stage, _: Filled) -> Any:
    """Everything of theirs that could be like a fact of mine."""
    theirs = [*s.them.facts, *s.me.facts]
    return facts.list_similar(
        new_memory(s.them.word, "has", s.me.asked[0], model_id=s.do.model, contradicts=theirs)
    )


def add_fact(facts: Any, s: Stage, who: Filled) -> Any:
    new = new_memory(
        s.me.word, who.word[0], who.asked[0], model_id=s.do.model, content_hash=f"new {who.word}"
    )
    return facts.add(new)


def deliver_and_list(reminders: Any, s: Stage, _: Filled) -> Any:
    reminders.mark_delivered(s.me.reminders[0], int(DUE.timestamp()), now=DUE)
    return reminders.list_delivered(s.me.owner, SAID, limit=1000)


def snooze_and_finish(reminders: Any, s: Stage, who: Filled) -> Any:
    for number in who.reminders:
        reminders.snooze(s.me.owner, number, LATER, time_zone="Europe/Moscow", now=SAID)
        reminders.finish(s.me.owner, number)


def of_import(method: str, *more: Any, **options: Any) -> Callable[[Any, Stage, Filled], Any]:
    def run(imports: Any, s: Stage, who: Filled) -> Any:
        return getattr(imports, method)(s.me.owner, who.imported, *more, **options)

    return run


def restored_reminder(whose: Filled) -> dict[str, Any]:
    columns = dict.fromkeys(("recurrence", "message_id", "snooze_of", "delivered_at"))
    text = {"text": f"of {whose.word[0]}", "language": "en", "time_zone": "UTC"}
    times = {"due_at": DUE, "created_at": SAID, "cancelled_at": None, "is_waiting": True}
    return columns | text | times


def with_brief(method: str) -> Callable[[Any, Stage, Filled], Any]:
    def run(days: Any, s: Stage, _: Filled) -> Any:
        new = NewReminder("brief", DUE, DAILY, "Europe/Moscow", "ru")
        brief = days.set_brief(s.me.owner, new, now=SAID)
        return brief.text if method == "set_brief" else getattr(days, method)(s.me.owner)

    return run


def ask_about(days: Any, s: Stage, who: Filled) -> bool:
    new = NewReminder("follow-up", DUE, None, "Europe/Moscow", "ru")
    about = f"fact-{who.facts[0]}"
    return bool(days.add_follow_up(s.me.owner, new, about, SAID.date(), now=SAID))


def mute_question(days: Any, s: Stage, who: Filled) -> bool:
    ask_about(days, s, who)
    [number] = s.do.ids("SELECT max(id) FROM reminders WHERE kind = 'follow_up'")
    s.do.ReminderRepository.mark_delivered(number, int(DUE.timestamp()), now=SAID)
    return bool(days.mute(s.me.owner))


def came(days: Any, s: Stage, _: Filled) -> Any:
    s.do.ReminderRepository.mark_delivered(s.me.reminders[0], int(DUE.timestamp()), now=DUE)
    return days.list_came(s.me.owner, SAID, LATER)


def cancel_and_undo(reminders: Any, s: Stage, who: Filled) -> Any:
    reminders.cancel(s.me.owner, who.reminders[0])
    return reminders.undo(s.me.owner, reminder=who.reminders[0], now=SAID)


def stop_deliveries(turns: Any, s: Stage, _: Filled) -> None:
    chat, thread = s.me.owner
    sql = "SELECT id FROM telegram_updates WHERE chat_id = %(chat)s AND thread_id = %(thread)s"
    for update in s.do.ids(sql, chat=chat, thread=thread):
        turns.mark_delivery_stopped(update)


def records_of(s: Stage, who: Filled) -> list[Action]:
    """Actions of buttons that name somebody's records."""
    return [
        Action("done", (who.reminders[0],)), Action("fact", (who.facts[0],)),
        Action("source", (who.asked[0],)), Action("settle", (who.answer,)),
        Action("drop", (1, who.asked[0])), Action("undo", (0, s.forgettings(who)[0])),
    ]  # fmt: skip


# Methods that the names of their parameters do not tell how to call: with my repository, about
# somebody's records.
ODD: dict[str, Callable[[Any, Stage, Filled], Any]] = {
    "StoringRepository.list_similar": similar,
    "StoringRepository.add": add_fact,
    "StoringRepository.add_source": lambda mine, s, who: mine.add_source(
        who.facts[0], Source.of_message(s.me.asked[2], "words", SAID)
    ),
    "StoringRepository.retire": lambda mine, _, who: mine.retire(
        who.facts, successor=None, reason="replaced", until=SAID
    ),
    "StoringRepository.retire_surplus": lambda mine, *_: mine.retire_surplus(0),
    "MemoryRepository.add_rejected": lambda mine, s, who: mine.add_rejected(
        s.me.owner, who.asked[0], reason="secret", text=None, origin="tool"
    ),
    "MemoryRepository.list_facts": lambda mine, s, _: [
        mine.list_facts(s.me.owner, FactQuery(order, is_living=None)) for order in SELECT_FACTS
    ],
    "ForgettingRepository.forget": lambda _mine, s, who: [
        s.do.forget(s.me.owner, who.uids, request_id=s.them.asked[1]).texts,
        s.do.forget(s.me.owner, [f"fact-{number}" for number in who.facts]).texts,
    ],
    "ForgettingRepository.list_other_quotes": lambda mine, _, who: mine.list_other_quotes(
        facts=[], ids=who.asked
    ),
    "ForgettingRepository.undo": lambda mine, s, who: [
        mine.undo(who.facts[1]), *(mine.undo(number=number) for number in s.forgettings(who)),
    ],
    "ChangeRepository.find": lambda mine, s, who: [
        mine.find(number=number) for number in s.forgettings(who)
    ],
    "ChangeRepository.restore_replaced": lambda mine, _, who: mine.restore_replaced(who.facts[1]),
    "SearchIndexRepository.add_messages": lambda mine, s, who: [
        mine.add_messages(s.me.owner, conversation, s.documents(who), who.asked)
        for conversation in (s.me.conversation, s.them.conversation)
    ],
    "RetrievalRepository.search": lambda mine, s, who: [
        mine.search(s.request()),
        mine.search(s.request(shown=Shown(who.conversation, 1))),
    ],
    "RetrievalRepository.list_messages": lambda mine, s, who: mine.list_messages(
        s.me.owner, since=None, until=None, shown=Shown(who.conversation, 2)
    ),
    "EmbeddingRepository.find_model": lambda mine, *_: mine.find_model("three numbers"),
    "EmbeddingRepository.add_model": lambda mine, *_: mine.add_model(
        "three numbers", Scale({"en question": (0.5,)}, 0.0, 0.1)
    ),
    "EmbeddingRepository.add_vectors": lambda mine, s, _: mine.add_vectors(
        s.do.model, {(number, 0): "[0,1,0]" for number in s.me.documents}
    ),
    "EmbeddingRepository.count_embedded": lambda mine, *_: mine.count_embedded("three numbers"),
    "SummaryRepository.replace": lambda mine, s, who: [
        mine.replace(s.me.conversation, "new", first=1, last=2, merged=merged)
        for merged in ([s.them.summary], [who.summary])
    ],
    "ExtractionRepository.list_to_index": lambda mine, *_: mine.list_to_index(),
    "ExportRepository.read": lambda mine, s, _: [
        list(mine.read(part, *s.me.owner)) for part in EXPORTED
    ],
    "TurnRepository.save_answer": save_answer,
    "TurnRepository.mark_delivery_stopped": stop_deliveries,
    "ConversationRepository.store_message": store_message,
    "ConversationRepository.find_text_before": lambda mine, s, who: mine.find_text_before(
        s.me.owner, who.origin, SAID + timedelta(minutes=5)
    ).text,
    "EditRepository.find_nearby": lambda mine, s, who: [
        nearby.text for nearby in mine.find_nearby(s.edited(who))
    ],
    "RecordRepository.find_home": lambda mine, s, who: [
        mine.find_home(s.me.owner, who.owner[0], action, old_message=old)
        for old in (1, None)
        for action in records_of(s, who)
    ],
    "ReminderRepository.add": lambda _mine, s, who: set_reminder(
        s.do, s.me.owner, s.me.word, who.asked[0], None
    ),
    "ReminderRepository.list_delivered": deliver_and_list,
    "ReminderRepository.restore": lambda mine, s, who: mine.restore(
        s.me.owner, restored_reminder(who)
    ),
    "ReminderRepository.remove": lambda mine, s, _: mine.remove(
        s.me.owner, [*s.them.reminders, s.me.reminders[0]]
    ),
    "ImportRepository.begin": lambda mine, s, _: mine.begin(s.me.owner, "x", "en"),
    "ImportRepository.find": of_import("find"),
    "ImportRepository.count": of_import("count"),
    "ImportRepository.list_memories": of_import("list_memories", limit=10, offset=0),
    "ImportRepository.set_own_name": lambda mine, s, who: mine.set_own_name(
        s.me.owner, who.imported, who.word
    ),
    "ImportRepository.set_order": of_import("set_order", days_first=False),
    "ImportRepository.choose": of_import("choose", reads_facts=True),
    "ImportRepository.keep": of_import("keep", keeps=False),
    "ImportRepository.take_back": of_import("take_back"),
    "ImportRepository.show_in": of_import("show_in", (1, 0, 2), "uk"),
    "DayRepository.list_said": lambda mine, s, _: mine.list_said(
        s.me.owner, SAID - timedelta(days=9), SAID + timedelta(days=9)
    ),
    "DayRepository.list_came": came,
    "DayRepository.set_brief": with_brief("set_brief"),
    "DayRepository.find_brief": with_brief("find_brief"),
    "DayRepository.stop_brief": with_brief("stop_brief"),
    "DayRepository.add_follow_up": ask_about,
    "DayRepository.list_asked": lambda mine, s, who: [
        ask_about(mine, s, who), mine.list_asked(s.me.owner)
    ],
    "DayRepository.mute": mute_question,
    "ReminderRepository.cancel": lambda mine, s, who: mine.cancel(s.me.owner, *who.reminders),
    "ReminderRepository.undo": cancel_and_undo,
    "ReminderRepository.finish": snooze_and_finish,
    "ReminderRepository.change_zone": lambda mine, s, _: mine.change_zone(
        s.me.owner, "Asia/Tokyo", guessed="Europe/Moscow", now=SAID
    ),
    "QuestionRepository.keep_apart": lambda mine, s, who: mine.keep_apart(
        s.me.owner, s.me.facts[0], [who.facts[1]]
    ),
    "ConnectionRepository.add": lambda mine, s, _: mine.add(s.me.owner, s.me.word),
    "ConnectionRepository.allow": lambda mine, s, who: mine.allow(
        s.me.owner, s.connection(who), may_remember=True
    ),
    "ConnectionRepository.mark_used": lambda mine, s, who: mine.mark_used(
        s.me.owner, s.connection(who)
    ),
    "ConnectionRepository.delete": lambda mine, s, who: mine.delete(
        s.me.owner, s.connection(who)
    ),
    "PageSessionRepository.close": lambda mine, s, who: [
        mine.close(s.me.owner, UUID(id_))
        for (id_,) in s.do.client.fetch_all(
            "SELECT id::text FROM page_sessions WHERE owner_id = %(owner)s", who.owner
        )
    ],
    "GroupMoveRepository.migrate_owner": lambda mine, s, _: [
        mine.migrate_owner(s.me.owner.telegram_user_id, chat)
        for chat in (s.them.owner.telegram_user_id, -next(_numbers) - 2**50)
    ],
}  # fmt: skip
# Methods for the background, which work for all owners together.
FOR_EVERYBODY = frozenset(
    {
        "EmbeddingRepository.list_unembedded", "EmbeddingRepository.find_serving",
        "EmbeddingRepository.choose_model", "EmbeddingRepository.delete_other_models",
        "ConnectionRepository.find_caller", "PageSessionRepository.open",
        "PageSessionRepository.find_user",
        "ExtractionRepository.find_pace", "ExtractionRepository.list_with_parting",
        "MemoryRepository.count_all", "QuestionRepository.find_ended",
        "ReminderRepository.defer_soon", "ReminderRepository.find_due",
        "ReminderRepository.mark_delivered", "ReminderRepository.count_failure",
        "ReminderRepository.prune", "ErasureRepository.vacuum",
        *(  # a step of a reading or of the job, on the one import that it has in hand
            f"ImportRepository.{step}"
            for step in (
                "add_rows", "finish_reading", "lock", "list_rows", "list_unkept", "clear_text",
                "add_messages", "list_to_index", "add_summaries", "set_stored", "find_links",
                "list_successors", "note_settings", "find_former_settings", "finish",
                "list_messages", "list_new", "delete", "close", "find_under_way",
                "delete_abandoned", "find_price",
            )
        ),
        "DayRepository.list_followed", "DayRepository.restore",
    }
)  # fmt: skip
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
        "ExportRepository.has_owner", "PageSessionRepository.count_open",
        "ImportRepository.count", "EditRepository.is_caption",
        "TurnRepository.find_budget_pause", "MemoryRepository.count",
        "MemoryRepository.count_kinds", "ExportRepository.get_settings",
        "MemoryRepository.get_message_uid_by_episode", "MemoryRepository.list_replaced_behind",
        "EmbeddingRepository.find_model",
        "EmbeddingRepository.add_model", "EmbeddingRepository.count_embedded",
        "ConversationRepository.get_last_position",
        "TurnRepository.find_stream_message", "TurnRepository.list_cited",
        "TurnRepository.find_stop",
        "ConversationRepository.store_message", "TimelineRepository.find_day",
        "TimelineRepository.find_message",
        "RecordRepository.find_home",
    }
)  # fmt: skip


def public_methods() -> set[str]:
    """``Class.method`` of every repository."""
    return {
        f"{kind}.{name}"
        for kind, repository in KINDS.items()
        for name, _ in inspect.getmembers(repository, inspect.isfunction)
        if not name.startswith("_")
    }


def test_the_lists_name_public_methods() -> None:
    assert public_methods() >= ODD.keys() | FOR_EVERYBODY | CHAT_WIDE | SAY_LITTLE
    assert not ODD.keys() & FOR_EVERYBODY


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


class Parts(PgClient):
    """Client whose transactions are parts of another one."""

    def __init__(self, client: PgClient, whole: Transaction) -> None:
        super().__init__(client.dsn)
        self.whole = whole

    @contextmanager
    def transaction(self, *, limits: Any = None) -> Iterator[Transaction]:
        self.whole.execute("SAVEPOINT part")
        try:
            yield self.whole
        except BaseException:
            self.whole.execute("ROLLBACK TO SAVEPOINT part")
            raise
        self.whole.execute("RELEASE SAVEPOINT part")

    @contextmanager
    def autocommit(self) -> Iterator[Transaction]:
        with self.transaction() as part:
            yield part

    def stream(self, sql: Any, params: Any = None, /) -> Iterator[Any]:
        yield from self.whole.fetch_all(sql, params)


@contextmanager
def undone(client: PgClient) -> Iterator[PgClient]:
    """A client of which nothing is left afterwards."""
    with client.transaction() as whole:
        whole.execute("SAVEPOINT untouched")
        yield Parts(client, whole)
        whole.execute("ROLLBACK TO SAVEPOINT untouched")


def check_calls(client: PgClient, names: Iterable[str], kind: str) -> Iterator[str]:
    """Call methods as one of two owners; yields what is wrong with each."""
    me, them = (fill(client, owner) for owner in two_owners(kind))
    left_out = OF_ALL_TOPICS if kind == "topics" else frozenset()
    of_me, of_them = select_rows(me.owner), select_rows(them.owner, without=left_out)
    before, theirs = client.fetch_all(of_me), client.fetch_all(of_them)

    def check(client: PgClient, name: str) -> None:
        result = repr(call(Stage(Repositories(client), me, them), name))
        client.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert them.word not in result
        assert not [uid for uid in them.uids if f"'{uid}'" in result]
        assert client.fetch_all(of_them) == theirs
        mine = client.fetch_all(of_me)
        shows = me.word in result or str(me.conversation) in result
        assert (shows or mine != before) == (name not in SAY_LITTLE)
        links = [json.loads(row) for table, row in mine if table not in left_out]
        assert not [row for row in links if row.get("message_id") in [*them.asked, them.answer]]
        assert not [row for row in links if row.get("memory_id") in them.facts]
        assert not [row for row in links if row.get("reply_to_id") in them.asked]

    for name in names:
        with undone(client) as undoing:
            try:
                check(undoing, name)
            except Exception:  # noqa: BLE001  (the other methods are tried, too)
                yield f"{name}: {traceback.format_exc(limit=-2)}"


@pytest.mark.parametrize("kind", ["people", "topics"])
def test_nothing_of_another_is_returned_or_changed(shared: PgClient, kind: str) -> None:
    names = public_methods() - FOR_EVERYBODY - (CHAT_WIDE if kind == "topics" else set())
    failures = [*check_calls(shared, sorted(names), kind)]
    assert not failures, "\n\n".join(failures)


def test_a_document_is_embedded_with_a_message_of_its_owner_before_it(shared: PgClient) -> None:
    """Positions count per owner, so two owners have documents at the same ones."""
    do = Repositories(shared)
    filled = [fill(shared, owner) for kind in ("people", "topics") for owner in two_owners(kind)]
    shared.execute(
        "UPDATE search_documents SET model_id = NULL WHERE id = ANY(%(ids)s)",
        {"ids": [number for one in filled for number in one.documents]},
    )
    of_document = {number: one for one in filled for number in one.documents}
    waiting = [
        d for d in do.EmbeddingRepository.list_unembedded(do.model, 1000) if d.id in of_document
    ]
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
        shown=Shown(
            data.draw(st.sampled_from([me.conversation, them.conversation, None])),
            data.draw(st.integers(0, 5)),
        ),
        with_assistant=data.draw(st.booleans()),
        with_retired=data.draw(st.booleans()),
        limit=data.draw(st.integers(0, 200)),
    )
    found = do.RetrievalRepository.search(request)
    assert all(me.word in document.text for document in found)
    assert {d.message_id for d in found} <= {*me.asked, None}
    sources = {(d.kind, d.source_id) for d in found}
    assert sources <= {
        *(("message", number) for number in me.asked),
        *(("memory", number) for number in me.facts),
        ("summary", me.summary),
    }


def test_a_button_finds_the_records_of_its_own_chat_alone(shared: PgClient) -> None:
    do, group = Repositories(shared), -next(_numbers) - 2**41
    five, other = fill(shared, Owner(group, 5)), fill(shared, Owner(group - 2**20, 5))
    chat, person = Owner(group), 2**41 + next(_numbers)
    stage, records = Stage(do, five, other), do.RecordRepository
    for old in (1, None):
        for action in records_of(stage, five):
            assert (
                do.RecordRepository.find_home(chat, person, action, old_message=old) == five.owner
            )
        for action in records_of(stage, other):
            assert records.find_home(chat, person, action, old_message=old) == chat
