"""A group that becomes a supergroup keeps its memory, whatever the new chat has already."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from src.base.errors import MessageMovedError
from src.base.owners import Owner
from src.history.conversation_repo import KEEP_UNREAD, ConversationRepository
from src.history.timeline_repo import ToolResult, ToolResultRepository
from src.history.turn_repo import AnswerSource, NewAnswer, TurnRepository
from src.llm.reply import ModelUsage
from src.memory.digest_repo import SummaryRepository
from src.memory.forgetting_repo import ForgettingRepository
from src.memory.group_moves import GroupMoveRepository
from src.memory.memory_repo import MemoryRepository, NewEntity, Proposal, Source, StoringRepository
from src.memory.retrieval_repo import RetrievalRepository, SearchRequest
from src.memory.search_index_repo import NewDocument, SearchIndexRepository
from src.pg.client import PgClient, Transaction
from src.pg.locks import lock_facts
from src.pg.settings_repo import UserSettings, UserSettingsRepository
from src.queue.update_repo import NewUpdate, UpdateRepository
from src.reading.facts import Fact
from src.reminders.reminder_repo import NewReminder, ReminderRepository
from tests.tables import ROWS_OF_OWNER, rows_of

OLD, NEW, BOT = -17, -1_000_000_000_017, 555
NOON = datetime(2026, 11, 21, 9, 5, tzinfo=UTC)
USAGE = ModelUsage("answer", "gpt", 10, 4, 3, 250)


class Group:
    """One side of the move, and what is stored of it."""

    def __init__(self, client: PgClient, chat: int, thread: int = 0) -> None:
        self.client = client
        self.owner = Owner(chat, thread)
        self.conversations = ConversationRepository(client)
        self.memories = MemoryRepository(client)

    @property
    def conversation(self) -> UUID:
        return self.conversations.get_or_create_conversation(
            *self.owner[:1], thread_id=self.thread
        )

    @property
    def thread(self) -> int:
        return self.owner.thread_id

    def write(self, text: str, minutes: int) -> int:
        number = self.conversations.append_message(self.conversation, "user", text)
        moment = NOON + timedelta(minutes=minutes)
        self.client.execute(
            "UPDATE messages SET created_at = %(at)s WHERE id = %(id)s",
            {"at": moment, "id": number},
        )
        return number

    def summarise(self, first: int, last: int) -> None:
        made = f"{self.owner.telegram_user_id}:{first}-{last}"
        assert SummaryRepository(self.client).replace(
            self.conversation, made, first=first, last=last
        )

    def read_to(self, position: int) -> None:
        self.client.execute(
            "UPDATE conversations SET extracted_position = %(position)s WHERE id = %(id)s",
            {"position": position, "id": str(self.conversation)},
        )

    def teach(self, message: int, text: str) -> int:
        fact = Proposal(
            Fact(text=text, subject="cat", relation="name", object=text),
            language="en", origin="teach", content_hash=text,
            source=Source.of_message(message, text, NOON), terms=["cats", text],
            entities=[
                NewEntity("Cat", [frozenset({"cat"})], "pet"),
                NewEntity(text, [frozenset({text})], "thing"),
            ],
        )  # fmt: skip

        def store(transaction: Transaction) -> int:
            lock_facts(transaction, self.owner)
            return StoringRepository(transaction, self.owner).add(fact)

        return self.client.in_transaction(store)

    def forget(self, fact: int) -> int:
        """Forget a fact and nothing of its message; the number of the forgetting."""
        return self.client.in_transaction(
            lambda t: ForgettingRepository(t, self.owner).forget([fact], texts=["lost"])
        )

    def index(self) -> None:
        repository = SearchIndexRepository(self.client)
        messages = repository.list_unindexed(self.conversation)
        documents = [
            NewDocument("message", m.id, m.role, m.said_at, ["cats", m.text]) for m in messages
        ]
        ids = [message.id for message in messages]
        assert repository.add_messages(self.owner, self.conversation, documents, ids) == len(ids)

    def fill(self, word: str, minutes: int) -> dict[str, int]:
        """Something in every table."""
        asked = self.write(f"cats of {word}", minutes)
        self.forget(self.teach(asked, f"lost {word}"))
        fact, common = self.teach(asked, word), self.teach(asked, "common")
        source = AnswerSource(1, f"msg-{asked}", "common", NOON, asked, common)
        answer = NewAnswer(
            self.conversation, asked, f"Purr {word}", (), (USAGE,), sources=(source,)
        )
        TurnRepository(self.client).save_answer(answer)
        self.client.execute(
            "UPDATE messages SET created_at = %(at)s WHERE reply_to_id = %(id)s",
            {"at": NOON + timedelta(minutes=minutes), "id": asked},
        )
        self.memories.add_rejected(self.owner, asked, reason="secret", text=None, origin="tool")
        tool = ToolResult("search", {"q": word}, "found", 12)
        ToolResultRepository(self.client).add(self.conversation, asked, tool)
        reminder = NewReminder(word, NOON, None, "Europe/Moscow", "ru", message_id=asked)
        ReminderRepository(self.client).add(self.owner, reminder, now=NOON)
        self.summarise(1, 1)
        self.index()
        self.client.execute(KEEP_UNREAD, {**self.owner.columns(), "limit": 10})
        return {"asked": asked, "fact": fact, "common": common}

    def texts(self) -> list[tuple[int, str]]:
        history = self.conversations.load_last_messages(self.conversation, 1000)
        return [(message["position"], message["content"]) for message in history]

    def spans(self) -> list[tuple[int, int, str]]:
        found = SummaryRepository(self.client).list_summaries(self.conversation)
        return [(s.first_position, s.last_position, s.content) for s in found]

    def extracted(self) -> int:
        [(position,)] = self.client.fetch_all(
            "SELECT extracted_position FROM conversations WHERE id = %(id)s",
            {"id": str(self.conversation)},
        )
        return int(position)

    def found(self, word: str) -> set[str]:
        request = SearchRequest(self.owner, [[word]], [word], with_assistant=True)
        return {found.text for found in RetrievalRepository(self.client).search(request)}


@pytest.fixture
def old(client: PgClient) -> Group:
    return Group(client, OLD)


@pytest.fixture
def new(client: PgClient) -> Group:
    return Group(client, NEW)


def move(client: PgClient, old: int = OLD, new: int = NEW) -> int:
    return GroupMoveRepository(client).migrate_owner(old, new)


def test_what_both_chats_remember_is_one_memory_afterwards(
    client: PgClient, old: Group, new: Group
) -> None:
    before, after = old.fill("old", 0), new.fill("new", 60)
    assert move(client) == 1
    left = {table for table, _ in rows_of(client.dsn, Owner(OLD))}
    assert left == set()
    filled = {table for table, _ in rows_of(client.dsn, Owner(NEW))}
    assert filled == ROWS_OF_OWNER.keys() - {
        "telegram_updates", "user_settings", "document_embeddings",
        "job_deaths", "batch_requests", "daily_messages", "failures",
        "unindexed_messages", "memory_tokens", "page_sessions", "imports", "import_rows",
        "conversation_summaries",
    }  # fmt: skip
    assert new.texts() == [(1, "cats of old"), (2, "Purr old"), (3, "cats of new"),
                           (4, "Purr new")]  # fmt: skip
    assert new.spans() == [], "both talked: summaries are made again"
    facts = {fact.id: fact.text for fact in MemoryRepository(client).list_facts(new.owner)}
    assert facts == {before["fact"]: "old", after["fact"]: "new", before["common"]: "common"}
    retired = "SELECT id, superseded_by FROM facts WHERE retired_reason = 'duplicate'"
    assert client.fetch_all(retired) == [(after["common"], before["common"])]
    names = client.fetch_all("SELECT name FROM entities WHERE name NOT LIKE 'lost%' ORDER BY name")
    assert names == [("Cat",), ("common",), ("new",), ("old",)]
    assert client.fetch_all("SELECT count(*) FROM tool_results") == [(2,)]
    assert {"old", "new", "common", "cats of old", "cats of new"} <= new.found("cats")
    assert new.found("old") >= {"old"} and old.found("cats") == set()


@pytest.mark.parametrize("seed", range(5))
def test_messages_come_in_the_order_of_time_and_what_is_digested_stays_so(
    client: PgClient, old: Group, new: Group, seed: int
) -> None:
    """Both talked at random moments; reading had come anywhere."""
    chance = random.Random(seed)
    said: dict[Group, list[tuple[int, str]]] = {}
    for side, start in ((old, 0), (new, chance.choice([0, 20, 200]))):
        count = chance.randint(0, 30)
        minutes = sorted(chance.sample(range(start, start + 100), count))
        said[side] = [(minute, f"{side.owner.telegram_user_id} {minute}") for minute in minutes]
        for minute, text in said[side]:
            side.write(text, minute)
        side.read_to(chance.randint(0, count))
    unread = {
        text for side in said for _, text in said[side][side.extracted() :] if said[side]
    }  # fmt: skip
    assert move(client) == 1
    merged = new.texts()
    assert [position for position, _ in merged] == list(range(1, len(merged) + 1))
    in_order = sorted(said[old] + said[new], key=lambda entry: entry[0])
    assert sorted(text for _, text in merged) == sorted(text for _, text in in_order)
    moments = [int(text.split()[1]) for _, text in merged]
    assert moments == sorted(moments)
    assert not {text for position, text in merged if position <= new.extracted()} & unread


def test_topics_move_each_to_its_own(client: PgClient) -> None:
    for chat, word in ((OLD, "old"), (NEW, "new")):
        for thread in (0, 3):
            Group(client, chat, thread).fill(f"{word}{thread}", 0 if chat == OLD else 60)
    Group(client, OLD, 4).fill("old4", 5)
    Group(client, NEW, 5).fill("new5", 5)
    assert move(client) == 3
    for thread, words in ((0, ["old0", "new0"]), (3, ["old3", "new3"]), (4, ["old4"]),
                          (5, ["new5"])):  # fmt: skip
        topic = Group(client, NEW, thread)
        facts = MemoryRepository(client).list_facts(topic.owner)
        assert {fact.text for fact in facts} == {*words, "common"}
        assert [text for _, text in topic.texts() if "cats" in text] == [
            f"cats of {word}" for word in words
        ]


def test_a_group_that_moves_on_takes_everything_along(client: PgClient, old: Group) -> None:
    old.fill("old", 0)
    newest = -1_000_000_000_999
    move(client)
    move(client, NEW, newest)
    moves = client.fetch_all("SELECT old_chat_id, new_chat_id FROM chat_moves ORDER BY 1")
    assert moves == [(NEW, newest), (OLD, newest)]
    assert len(Group(client, newest).texts()) == 2


def test_both_sides_tell_of_it_at_once(client: PgClient, old: Group, new: Group) -> None:
    old.fill("old", 0)
    new.fill("new", 60)
    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(lambda _: move(client), range(4))) == 1
    assert len(new.texts()) == 4 and rows_of(client.dsn, old.owner) == []


def test_the_settings_of_the_old_chat_come_along(client: PgClient) -> None:
    settings = UserSettingsRepository(client)
    settings.change(OLD, mode="strict")
    client.execute("UPDATE user_settings SET language = 'uk', time_zone = 'Europe/Kyiv'")
    settings.mark_inactive(NEW)
    move(client)
    assert settings.get(NEW) == UserSettings("uk", "Europe/Kyiv", mode="strict")
    assert settings.get(OLD) == UserSettings()
    settings.change(-18, mode="strict")
    move(client, -18, -19)
    assert settings.get(-19).mode == "strict"


def test_an_update_of_the_old_chat_that_waits_belongs_to_the_new_one(client: PgClient) -> None:
    updates = UpdateRepository(client)
    rows: list[Any] = []
    for number, (chat, thread) in enumerate([(OLD, 0), (OLD, 3), (NEW, 0), (-177, 0)], start=1):
        updates.store(BOT, [NewUpdate(number, "message", {"n": 1}, chat, thread, 7, number)])
    move(client)
    rows = client.fetch_all("SELECT id FROM telegram_updates ORDER BY id")
    found = [updates.find_waiting(row) for (row,) in rows]
    assert [(one.chat_id, one.home_id) for one in found if one] == [
        (OLD, NEW), (OLD, NEW), (NEW, NEW), (-177, -177)
    ]  # fmt: skip
    locks = client.fetch_all("SELECT lock FROM procrastinate_jobs ORDER BY id")
    assert locks == [(f"chat:{BOT}:{place}",) for place in (f"{NEW}:0", f"{NEW}:3", f"{NEW}:0",
                                                            "-177:0")]  # fmt: skip


def test_an_answer_that_was_under_way_in_the_new_chat_is_asked_for_again(
    client: PgClient, old: Group, new: Group
) -> None:
    """Its conversation went into the old one; the turn finds its message there."""
    turns = TurnRepository(client)
    old.write("before", 0)
    asked = new.write("question", 60)
    answer = NewAnswer(new.conversation, asked, "answer")
    kept = NewAnswer(old.conversation, old.write("late", 1), "answer")
    move(client)
    with pytest.raises(MessageMovedError):
        turns.save_answer(answer)
    assert turns.save_answer(NewAnswer(new.conversation, asked, "answer")).delivered is False
    assert turns.save_answer(kept).delivered is False, "turns of the old chat go on"


async def test_what_was_forgotten_before_the_move_can_be_taken_back_after_it(
    client: PgClient, old: Group, new: Group
) -> None:
    asked = old.write("cats of old", 0)
    old.forget(old.teach(asked, "lost"))
    new.fill("new", 60)
    move(client)

    def undo(transaction: Transaction, group: Group) -> list[str] | None:
        undone = ForgettingRepository(transaction, group.owner).undo()
        return undone.restored if undone else None

    assert client.in_transaction(lambda t: undo(t, old)) is None
    assert client.in_transaction(lambda t: undo(t, new)) == ["lost"]  # of the new chat
    assert client.in_transaction(lambda t: undo(t, new)) == ["lost"]
    facts = MemoryRepository(client).list_facts(new.owner)
    assert "lost" in {fact.text for fact in facts}
    assert client.fetch_all("SELECT 1 FROM changes") == []
