"""What is kept of a talk: messages once and in order, answers once, the newest tool calls."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest

from src.base.errors import AppError, ConversationGoneError
from src.base.owners import Owner
from src.history.conversation_repo import (
    ConversationRepository,
    StoredMessage,
    TelegramOrigin,
    get_conversation_repo,
    set_conversation_repo_factory,
)
from src.history.timeline_repo import (
    KEEP,
    MAX_ARGUMENTS,
    MAX_RESULT,
    ToolResult,
    ToolResultRepository,
)
from src.history.turn_repo import ModelUsage, NewAnswer, TurnRepository
from src.memory.memories import KEY_FACTS
from src.memory.memory_repo import MemoryRepository
from src.pg.client import PgClient
from tests.integration.person import edit

OWNER, BOT = 2**41, 555
ORIGIN = TelegramOrigin(BOT, OWNER, 1, OWNER)
LABEL = "[Текущее время: 2025-06-01 10:30] "
SAID_AT = datetime(2026, 11, 21, 9, 5, tzinfo=UTC)
USAGE = (
    ModelUsage("answer", "gpt-x", 1200, 1000, 80, 950),
    ModelUsage("answer", "gpt-x", 1300, 1200, 20, 400),
)


@dataclass
class Talk:
    """An owner's conversation, and the repositories of its history."""

    client: PgClient

    def __post_init__(self) -> None:
        self.repo = ConversationRepository(self.client)
        self.turns = TurnRepository(self.client)
        self.tools = ToolResultRepository(self.client)
        self.id = self.repo.get_or_create_conversation(OWNER)

    def ask(self, text: str = "Why?", **fields: Any) -> int:
        """Store a message of the user; returns its id."""
        return self.repo.append_message(self.id, "user", text, **fields)

    def store(self, text: str, origin: TelegramOrigin) -> StoredMessage:
        """Store a message from Telegram."""
        return self.client.in_transaction(
            lambda t: self.repo.store_message(t, Owner(OWNER), text, origin=origin)
        )

    def answer(self, question: int, text: str, tools: tuple[str, ...] = (), **more: Any) -> Any:
        return self.turns.save_answer(NewAnswer(self.id, question, text, tools, **more))

    def texts(self, conversation: UUID | None = None, limit: int = 100) -> list[str]:
        """Return the contents of the newest messages, oldest first."""
        found = self.repo.load_last_messages(conversation or self.id, limit)
        return [message["content"] for message in found]

    def count(self, table: str) -> int:
        return int(self.client.fetch_all(f"SELECT count(*) FROM {table}")[0][0])

    def calls(self, conversation: UUID | None = None) -> list[ToolResult]:
        """Return the kept tool calls, oldest first."""
        rows = self.client.fetch_all(
            "SELECT name, arguments, result, duration_ms, error FROM tool_results"
            " WHERE conversation_id = %(id)s ORDER BY id",
            {"id": str(conversation or self.id)},
        )
        return [ToolResult(*row) for row in rows]

    def teach(self, owner: int, message: int, text: str) -> int:
        """Store a fact without anything around it; returns its number."""
        [(memory,)] = self.client.fetch_all(
            "INSERT INTO memories (owner_id, memory_type, text, subject, relation, object,"
            " importance, origin, content_hash) VALUES (add_owner(%(owner)s, 0), 'user_fact',"
            " %(text)s, 'user', 'other', '', 9, 'tool', %(text)s) RETURNING id",
            {"owner": owner, "text": text},
        )
        self.client.execute(
            "INSERT INTO memory_sources (memory_id, message_id, uid, episode, quote, said_at)"
            " VALUES (%(memory)s, %(message)s, %(uid)s, '', %(text)s, %(said_at)s)",
            {"memory": memory, "message": message, "uid": f"msg-{message}", "text": text,
             "said_at": SAID_AT},
        )  # fmt: skip
        return int(memory)


@pytest.fixture
def talk(client: PgClient) -> Talk:
    return Talk(client)


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Do these at the same moment; returns their results."""
    together = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        together.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(run, works))


# Messages


def test_the_first_call_creates_a_conversation_and_the_next_finds_it(talk: Talk) -> None:
    for user, thread in ((-1_002_345_678_901, 0), (OWNER, 3), (OWNER + 1, 0)):
        made = at_once(
            *[partial(talk.repo.get_or_create_conversation, user, thread_id=thread)] * 16
        )
        assert len({*made, talk.id}) == 2
    assert talk.count("conversations") == 4


@pytest.mark.parametrize(("given", "stored"), [
    ("a\x00b\x00", "a\ufffdb\ufffd"), ("\ude00\ud83d", "\ufffd\ufffd"), ("", ""),
    ("\ud83d\ude00 \x00 \ud83d 😀", "😀 \ufffd \ufffd 😀"), (" \n\t ", " \n\t "),
    ("'q' \"q\" \\ %s %(x)s {x} $1 -- ; DROP TABLE messages",) * 2,
    ("👩‍👩‍👧‍👦 مرحبا \u202eעברית\u202c Z̸̢̛͙a̷͓͐ e\u0301",) * 2,
])  # fmt: skip
def test_any_text_comes_back_but_for_what_postgresql_cannot_hold(
    talk: Talk, given: str, stored: str
) -> None:
    talk.ask(given)
    assert talk.texts() == [stored]


def test_the_newest_thirty_messages_come_back_oldest_first(talk: Talk) -> None:
    for number in range(40):
        talk.ask(str(number))
    loaded = [message["content"] for message in talk.repo.load_last_messages(talk.id)]
    assert loaded == [str(number) for number in range(10, 40)]
    assert [talk.texts(limit=limit) for limit in (1, 0, -5)] == [["39"], [], []]


def test_a_message_that_telegram_delivers_often_is_stored_once(talk: Talk) -> None:
    for bot, chat in ((BOT, OWNER), (BOT + 1, OWNER), (BOT, -OWNER)):
        origin = TelegramOrigin(bot, chat, 1, OWNER)
        stored = at_once(*[partial(talk.store, "once", origin)] * 8)
        assert len({one.id for one in stored}) == 1
        assert sum(one.is_new for one in stored) == 1
    assert talk.texts() == ["once"] * 3
    other = talk.repo.get_or_create_conversation(OWNER + 1)
    with pytest.raises(ConversationGoneError):
        talk.repo.append_message(other, "user", "theirs", origin=ORIGIN)


@pytest.mark.parametrize(("stored", "edited"), [
    (LABEL + "helo", LABEL + "hello 😀"), (LABEL, LABEL + "hello 😀"),
    ("without a label", "hello 😀"), (LABEL + LABEL + "user wrote a label", LABEL + "hello 😀"),
    (f"not first: {LABEL}x", "hello 😀"),
])  # fmt: skip
def test_an_edit_replaces_the_text_and_keeps_the_time_label(
    talk: Talk, stored: str, edited: str
) -> None:
    talk.ask(stored, origin=ORIGIN)
    talk.ask("next", origin=replace(ORIGIN, message_id=2))
    for foreign in (replace(ORIGIN, bot_id=BOT + 1), replace(ORIGIN, chat_id=OWNER + 1)):
        assert edit(talk.client, Owner(OWNER), foreign, "hacked") == "unknown"
    assert edit(talk.client, Owner(OWNER), ORIGIN, "hello 😀") in ("older", "last")
    assert talk.texts() == [edited, "next"]


# /new


def test_facts_survive_new_with_the_words_that_told_them(talk: Talk) -> None:
    question = talk.ask("cats")
    talk.teach(OWNER, question, "cats")
    memories = MemoryRepository(talk.client)
    [before] = memories.list_facts(Owner(OWNER), KEY_FACTS)
    new = talk.repo.create_new_conversation(OWNER)
    after = replace(before, source=replace(before.source, message_id=None))
    assert memories.list_facts(Owner(OWNER), KEY_FACTS) == [after]
    source = memories.find_source(Owner(OWNER), before.source.uid)
    assert source is not None and (source.text, source.said_at) == ("cats", SAID_AT)
    for gone in (talk.id, str(talk.id), uuid4()):
        with pytest.raises(ConversationGoneError):
            talk.repo.append_message(gone, "user", "too late")
    for conversation in (talk.id, new):
        with pytest.raises(ConversationGoneError):
            talk.turns.save_answer(NewAnswer(conversation, question, "Too late", ("a",), USAGE))
    talk.turns.add_usage(talk.id, USAGE)
    assert talk.count("messages") == talk.count("model_usage") == 0


def test_new_from_eight_threads_leaves_one_conversation(talk: Talk) -> None:
    talk.ask()
    made = at_once(*[lambda: talk.repo.create_new_conversation(OWNER)] * 8)
    assert talk.repo.get_or_create_conversation(OWNER) in made
    assert (talk.count("conversations"), talk.count("messages")) == (1, 0)


def test_a_wipe_and_an_answer_at_once_never_leave_half_of_either(talk: Talk) -> None:
    def answer() -> bool:
        try:
            talk.answer(question, "Yes", ("a",), usage=USAGE)
        except ConversationGoneError:
            return False
        return True

    for _ in range(20):
        question = talk.ask()
        is_answered, talk.id = at_once(answer, lambda: talk.repo.create_new_conversation(OWNER))
        assert talk.repo.get_or_create_conversation(OWNER) == talk.id
        assert talk.count("messages") == 0
        assert talk.count("model_usage") == (2 if is_answered else 0)
        talk.client.execute("DELETE FROM model_usage")


# Answers


def test_two_workers_that_answer_at_once_agree_on_one_answer(talk: Talk) -> None:
    for number in range(10):
        question = talk.ask(str(number))
        works = [
            partial(talk.answer, question, text, ("tool",), usage=USAGE, stopped=True)
            for text in ("one", "two")
        ]
        one, two = at_once(*works)
        assert (one.id, one.text) == (two.id, two.text)
    assert (talk.count("messages"), talk.count("model_usage")) == (30, 20)
    assert talk.texts(limit=1) == ["Tools used: tool"]


# Tool calls


def test_a_call_is_stored_as_it_was_and_cut_where_it_is_long(talk: Talk) -> None:
    question, huge = talk.ask(), "щ😀" * 50_000
    whole = {"q": "x" * (MAX_ARGUMENTS - len(json.dumps({"q": ""})))}
    calls = [
        ToolResult("current_time", {"zone": "Europe/Kyiv", "n": [1, None, 2.5]}, "12:00", 3),
        ToolResult("search", {}, "", 30_000, "TimeoutError"),
        ToolResult("поиск", {"q": "кіт 😀 %s"}, "нашёл \\ '", 0), ToolResult("t", whole, "", 1),
    ]  # fmt: skip
    odd = ToolResult("a\x00b", {"\ud83d": talk.id, "x": [float("nan"), 1]}, "\ud83d\ude00", 1)
    for call in (*calls, odd, ToolResult(huge, {"q": huge, '"': "\\" * 9}, huge, 1)):
        talk.tools.add(talk.id, question, call)
    *kept, mended, cut = talk.calls()
    assert kept == calls
    assert (mended.name, mended.result) == ("a\ufffdb", "😀"), "what JSON knows not loses no call"
    assert (cut.name, cut.result) == (huge[:200], huge[:MAX_RESULT])
    assert cut.arguments == {"cut": ('{"q": "' + huge)[:MAX_ARGUMENTS]}


def test_only_the_newest_calls_of_a_conversation_are_kept(talk: Talk) -> None:
    question, other = talk.ask(), talk.repo.get_or_create_conversation(OWNER + 1)
    asked = talk.repo.append_message(other, "user", "And here?")
    talk.tools.add(other, asked, ToolResult("old", {}, "", 1))
    for number in range(KEEP + 5):
        talk.tools.add(talk.id, question, ToolResult("tool", {}, str(number), 1))
        assert len(talk.calls()) == min(number + 1, KEEP)
    newest = [call.result for call in talk.calls()]
    assert newest == [str(number) for number in range(5, KEEP + 5)]
    assert [call.name for call in talk.calls(other)] == ["old"]


# The one repository


@pytest.fixture
def no_factory() -> Iterator[None]:
    set_conversation_repo_factory(None)
    yield
    set_conversation_repo_factory(None)


@pytest.mark.usefixtures("no_factory")
def test_the_one_repository_is_made_at_the_first_call(client: PgClient) -> None:
    with pytest.raises(AppError, match="set_conversation_repo_factory"):
        get_conversation_repo()
    made: list[ConversationRepository] = []

    def make() -> ConversationRepository:
        made.append(ConversationRepository(client))
        return made[-1]

    set_conversation_repo_factory(make)
    assert made == []
    found = at_once(*[get_conversation_repo] * 8)
    assert len(made) == 1 and all(repo is made[0] for repo in found)
