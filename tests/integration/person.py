"""Users who talk to the agent with a real database and a fake model server.

Creating a database takes longer than most of these tests, so they share one, and every test uses a
new user. The embedder is the local one unless the settings name another.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from src.base.config import Settings
from src.base.owners import Caller, Mode, Owner, Preferences
from src.base.zones import local_time
from src.core import Core
from src.history.conversation_repo import TelegramOrigin, set_conversation_repo_factory
from src.history.turn_repo import StoredAnswer
from src.memory.memory_repo import StoredFact
from src.memory.queries import Query
from src.memory.retrieval_repo import Hit
from src.memory.writer import Outcome, SourceText
from src.pg.client import PgClient
from src.reading.facts import Fact, Origin
from src.reading.gate import TYPED, Voice
from src.talk.edits import EditKind, take_edit
from src.talk.turn_state import IncomingMessage, Turn, TurnControl
from src.texts import Language
from src.texts import reply as replies
from src.texts.reply import Action, Button
from tests.conftest import execute, query
from tests.fakes.openai_server import ChatRequest, FakeOpenAI, Reply, text_of
from tests.integration.turns import answer_turn, begin_turn, mark_turn
from tests.tables import dump, empty_database

Json = dict[str, Any]

USER = 1001
PREFERENCES = frozenset(field.name for field in fields(Preferences))
ME = Owner(2**41 + 5)
NOON = datetime(2026, 11, 21, 9, 5, tzinfo=UTC)  # 12:05 in Moscow
MORNING = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)  # 9:00 in Moscow, a Friday
SATURDAY = datetime(2026, 11, 21, 12, 5, tzinfo=ZoneInfo("Europe/Moscow"))
TWO_YEARS_AGO = datetime(2024, 11, 20, 6, 0, tzinfo=UTC)
FAKE_EMBEDDINGS = "openai:fake-embedding"
# Tables that writing facts fills; a replay must not change them.
WRITTEN = (
    "memories", "memory_sources", "entities", "memory_entities", "rejected_facts",
    "search_documents", "search_postings", "document_embeddings", "search_owners",
)  # fmt: skip
# Restores the default global settings without recording the change.
USUAL_SETTINGS = """
DO $$
BEGIN
    SET LOCAL session_replication_role = replica;
    DELETE FROM global_settings;
    INSERT INTO global_settings DEFAULT VALUES;
END $$
"""
# Leftovers of a test that would disturb others: documents of another embedding model (the local
# one is the first of a database), or hundreds of unindexed messages or documents.
BURDEN = """
SELECT 1
WHERE EXISTS (SELECT FROM search_documents
              WHERE model_id > (SELECT min(id) FROM embedding_models))
   OR (SELECT count(*) FROM (SELECT FROM unindexed_messages LIMIT 500) m) = 500
   OR (SELECT count(*) FROM (SELECT FROM search_documents WHERE model_id IS NULL LIMIT 500) d)
      = 500
"""
# Far from the fixed user ids in tests, which may have left rows in the shared database.
new_user = itertools.count(2**41 + 2**30).__next__


def edit(client: PgClient, owner: Owner, origin: TelegramOrigin, text: str) -> EditKind:
    """Edit the text of a message; returns which one it was, such as ``last``."""
    return take_edit(client, owner, origin, text, is_own=True).what


@dataclass
class Rig:
    """A core with its fake model, and the actions of users."""

    core: Core
    model: FakeOpenAI
    client: PgClient

    async def begin(self, text: str, user: int = USER, **changes: Any) -> Turn:
        """Begin a turn: store a message."""
        return await begin_turn(self.core.agent, incoming(text, user, **changes))

    async def ask(self, text: str, user: int = USER, **changes: Any) -> StoredAnswer:
        """Run a whole turn, marked as delivered."""
        turn = await self.begin(text, user, **changes)
        answer = await answer_turn(self.core.agent, turn)
        await mark_turn(self.core.agent, turn, answer)
        return answer

    async def tell(self, text: str, user: int = USER, **changes: Any) -> StoredAnswer:
        """Run a whole turn and the background work after it."""
        answer = await self.ask(text, user, **changes)
        await self.core.memory.digest.digest_turn(self.conversation(user))
        return answer

    async def run_command(
        self, name: str, user: int = USER, *, language: Language = "ru", **called: Any
    ) -> replies.Reply:
        """Run a command, named without its slash."""
        return await self.core.commands.run(name, self.called(user, language, **called))

    async def command(
        self, name: str, user: int = USER, *, language: Language = "ru", argument: str = ""
    ) -> str:
        """Run a command, and return the text of the reply."""
        reply = await self.run_command(name, user, language=language, argument=argument)
        return reply.text

    async def press(
        self, button: Button, user: int = USER, *, language: Language = "ru", **called: Any
    ) -> replies.Reply:
        """Press a button; its data is packed and unpacked as by Telegram."""
        action = Action.unpack(button.action.pack())
        assert action == button.action
        reply = await self.core.commands.press(action, self.called(user, language, **called))
        assert reply is not None
        return reply

    def called(self, user: int, language: Language, **called: Any) -> Caller:
        """Return the context of a command."""
        usual: Json = {"moment": NOON, "time_zone": "Europe/Moscow", "member": user}
        given = usual | called
        chosen = {name: given.pop(name) for name in PREFERENCES if name in given}
        return Caller(Owner(user), Preferences(language, **chosen), **given)

    def conversation(self, user: int = USER, thread: int = 0) -> UUID:
        """Return the id of a user's conversation."""
        return self.core.conversations.get_or_create_conversation(user, thread_id=thread)

    def rows(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Query the database; ``%(owner)s`` is the owner id of ``user`` or ``group``."""
        chat = params.get("user", params.get("group"))
        owner = Owner(chat).columns() if chat is not None else {}
        return self.client.fetch_all(sql, {**owner, **params})

    def stored(self, user: int = USER) -> list[tuple[str, str]]:
        """Return (role, content) of all messages of a user, oldest first."""
        sql = (
            "SELECT m.role, m.content FROM messages m"
            " JOIN conversations c ON c.id = m.conversation_id"
            " WHERE c.telegram_user_id = %(user)s ORDER BY m.created_at, m.id"
        )
        return [(role, content) for role, content in self.rows(sql, user=user)]

    def prompt(self, number: int = -1) -> list[tuple[str, str]]:
        """Return (role, text) of each message of one request to the model."""
        request = self.model.requests[number]
        return [(m["role"], text_of(m.get("content"))) for m in request.messages]

    def block(self, name: str, number: int = -1) -> str:
        """Return the system message of this name in one request, or an empty string."""
        messages = self.model.requests[number].messages
        return "\n".join(str(m["content"]) for m in messages if m.get("name") == name)

    def fill(self, conversation_id: UUID, *messages: tuple[str, str]) -> None:
        """Append messages to a conversation."""
        for role, content in messages:
            self.core.conversations.append_message(conversation_id, role, content)  # type: ignore[arg-type]

    def set(self, **settings: Any) -> None:
        """Change global settings, as an operator does."""
        for name, value in settings.items():
            self.client.execute(f"UPDATE global_settings SET {name} = %(v)s", {"v": value})
        self.core.memory.settings.refresh()


@dataclass(frozen=True)
class Told:
    """Arguments with which a fact was written."""

    candidate: Fact
    said: SourceText
    origin: Origin
    contradicts: Collection[int] = ()


@dataclass
class Person:
    """A user who writes a message a minute, or writes facts without a model.

    Attributes:
        told: All facts that were written without a model, in order.
    """

    rig: Rig
    user: int = USER
    thread: int = 0
    language: Language = "ru"
    mode: Mode = "assistant"
    moment: datetime = MORNING
    time_zone: str = "Europe/Moscow"
    pace: timedelta = timedelta(minutes=1)
    told: list[Told] = field(default_factory=list)

    @property
    def core(self) -> Core:
        return self.rig.core

    @property
    def model(self) -> FakeOpenAI:
        return self.rig.model

    @property
    def client(self) -> PgClient:
        return self.rig.client

    @property
    def owner(self) -> Owner:
        return Owner(self.user, self.thread)

    @property
    def requests(self) -> list[ChatRequest]:
        """All requests to the model, of all users."""
        return self.model.requests

    def manner(self, changes: Json) -> Json:
        """Advance the time, and return the arguments of the next message."""
        self.moment += self.pace
        usual = {"language": self.language, "time_zone": self.time_zone, "mode": self.mode}
        return {"moment": self.moment, **usual, **changes}

    async def begin(self, text: str, **changes: Any) -> Turn:
        """Begin a turn: store a message."""
        return await self.rig.begin(text, self.user, **self.manner(changes))

    async def say(self, text: str, *replies: Reply | str, **changes: Any) -> StoredAnswer:
        """Run a whole turn with these model replies."""
        self.model.queue(*replies)
        return await self.rig.ask(text, self.user, **self.manner(changes))

    async def index(self) -> None:
        """Index and embed the conversation, as the background does after a turn."""
        await self.core.memory.indexer.index_conversation(self.conversation())
        await self.core.memory.indexer.embed_pending()

    def write(self, text: str, *, at: datetime | None = None, voice: Voice = TYPED) -> SourceText:
        """Store a message without a turn."""
        if at is None:
            self.moment += self.pace
        said_at = at or self.moment
        with self.client.transaction() as transaction:
            stored = self.core.conversations.store_message(
                transaction, self.owner, text, said_at=said_at, voice=voice
            )
        return SourceText(stored.id, text, said_at)

    async def remember(self, known: Json) -> Outcome:
        """Write a fact from a separate message two years ago."""
        said = self.write(known["text"], at=local_time(TWO_YEARS_AGO, self.time_zone))
        return await self.repeat(Told(Fact.model_validate(known), said, "tool"))

    async def tell(
        self,
        text: str,
        *,
        said: SourceText | None = None,
        contradicts: Collection[int] = (),
        origin: Origin = "teach",
        **fact: Any,
    ) -> Outcome:
        """Write a fact, by default from a new message with the same text."""
        told = Told(Fact(text=text, **fact), said or self.write(text), origin, contradicts)
        self.told.append(told)
        return await self.repeat(told)

    async def repeat(self, told: Told) -> Outcome:
        """Write a fact again, as after a crash."""
        return await self.core.memory.memories.writer.remember(
            self.owner, told.candidate, told.said, origin=told.origin, contradicts=told.contradicts
        )

    async def find(self, text: str, **query: Any) -> list[Hit]:
        """Search the memory, a year later."""
        asked = Query(self.owner, text, self.moment + timedelta(days=365))
        return await self.core.memory.retriever.search(replace(asked, **query))

    async def living(self) -> list[StoredFact]:
        """Return the current facts, oldest first."""
        found = self.core.memory.memories.facts.list_facts(self.owner)
        return sorted(found, key=lambda memory: memory.id)

    async def texts(self) -> list[str]:
        """Return the texts of the current facts, oldest first."""
        return [memory.text for memory in await self.living()]

    def written(self) -> list[tuple[str, str]]:
        """Return all rows of the tables that writing facts fills, of all owners."""
        return dump(self.core.dsn, *WRITTEN)

    def conversation(self) -> UUID:
        return self.rig.conversation(self.user, self.thread)

    def facts(self) -> list[str]:
        """Return the texts of the current facts, read with SQL, oldest first."""
        sql = (
            "SELECT text FROM facts WHERE telegram_user_id = %(user)s"
            " AND retired_at IS NULL ORDER BY id"
        )
        return [text for (text,) in self.rows(sql)]

    def messages(self, role: str = "user", *, forgotten: bool | None = None) -> dict[int, str]:
        """Return ids and texts of the user's messages, or of the answers, oldest first."""
        sql = (
            "SELECT m.id, message_text(m.content) FROM messages m"
            " JOIN conversations c ON c.id = m.conversation_id"
            " WHERE c.telegram_user_id = %(user)s AND m.role = %(role)s"
            " AND coalesce(m.is_forgotten = %(forgotten)s, true) ORDER BY m.id"
        )
        return dict(self.rows(sql, role=role, forgotten=forgotten))

    def fact_id(self, text: str) -> int:
        """Return the id of the fact with this text."""
        sql = "SELECT id FROM facts WHERE telegram_user_id = %(user)s AND text = %(text)s"
        [(number,)] = self.rows(sql, text=text)
        return int(number)

    def sources(self) -> list[tuple[Any, ...]]:
        """Return text, uid, episode and quote of every fact, oldest first."""
        return self.rows(
            "SELECT f.text, s.uid, s.episode, s.quote FROM memories f"
            " LEFT JOIN memory_sources s ON s.memory_id = f.id"
            " WHERE f.owner_id = %(owner)s ORDER BY f.id, s.id"
        )

    def rows(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        """Query the database; ``%(user)s`` is the user's id, ``%(owner)s`` the owner's."""
        return self.rig.rows(sql, user=self.user, **params)


def teller_of(rig: Rig, owner: Owner = ME) -> Person:
    """Return a user whose messages are an hour apart."""
    place = (owner.telegram_user_id, owner.thread_id)
    return Person(rig, *place, moment=SATURDAY, pace=timedelta(hours=1))


def incoming(
    text: str,
    user: int = USER,
    *,
    language: Language = "ru",
    time_zone: str = "Europe/Moscow",
    moment: datetime = NOON,
    mode: Mode = "assistant",
    origin: TelegramOrigin | None = None,
    **changes: Any,
) -> IncomingMessage:
    """Return a message as Telegram or the console passes it to the agent."""
    chosen = {name: changes.pop(name) for name in PREFERENCES if name in changes}
    preferences = Preferences(language, time_zone, mode=mode, **chosen)
    member = origin.sender_id if origin is not None else None
    caller = Caller(Owner(user), preferences, moment, member=member)
    return IncomingMessage(caller, text, origin, **changes)


class Agents:
    """Agents on one database, one per set of settings, warmed up as in a started bot.

    Attributes:
        client: Client of the database.
        model: The model server that all agents use.
    """

    def __init__(self, client: PgClient, model: FakeOpenAI) -> None:
        self.client = client
        self.model = model
        self._cores: dict[str, Core] = {}

    async def get(self, **settings: Any) -> Rig:
        """Return the agent for these settings, with a reset model.

        Changes of ``global_settings`` by the previous test are reverted.
        """
        await self.model.renew()
        if "embedding_model" not in settings and query(self.client.dsn, BURDEN):
            empty_database(self.client.dsn)
        execute(self.client.dsn, USUAL_SETTINGS)
        key = repr(sorted(settings.items()))
        if key not in self._cores:
            self._cores[key] = await build_warm_core(self.client, self.model, settings)
        core = self._cores[key]
        core.memory.settings.refresh()
        set_conversation_repo_factory(lambda: core.conversations)
        return Rig(core, self.model, self.client)

    async def person(self, **settings: Any) -> Person:
        """Return a new user."""
        return Person(await self.get(**settings), new_user())

    async def teller(self, **settings: Any) -> Person:
        """Return a user whose messages are an hour apart."""
        return teller_of(await self.get(**settings))

    async def close(self) -> None:
        """Close all agents."""
        for core in self._cores.values():
            await core.close()
        set_conversation_repo_factory(None)


async def build_warm_core(client: PgClient, model: FakeOpenAI, settings: Json) -> Core:
    """Build a core on the fake model, warmed up as in a started bot."""
    usual = {"llm_model": "openai:fake-model", "openai_base_url": model.url, "llm_calls": "tools"}
    core = Core(Settings(**{**usual, "llm_timeout": 10, "gather_seconds": 0, **settings}), client)
    await core.warm_up()
    return core


@asynccontextmanager
async def open_rig(client: PgClient, **settings: Any) -> AsyncIterator[Rig]:
    """Open a separate agent with its own model server."""
    async with FakeOpenAI() as model:
        core = await build_warm_core(client, model, settings)
        yield Rig(core, model, client)
        await core.close()
        set_conversation_repo_factory(None)


@asynccontextmanager
async def open_person(client: PgClient, **settings: Any) -> AsyncIterator[Person]:
    """Open a separate agent with a new user."""
    async with open_rig(client, **settings) as rig:
        yield Person(rig, new_user())


@asynccontextmanager
async def open_teller(client: PgClient, **settings: Any) -> AsyncIterator[Person]:
    """Open a separate agent with a user whose messages are an hour apart."""
    async with open_rig(client, **settings) as rig:
        yield teller_of(rig)


class Watcher:
    """Collects the shown text, and can stop the turn at a given text."""

    def __init__(self, stop_at: str | None = None) -> None:
        self.text = ""
        self.control = TurnControl()
        self._stop_at = stop_at

    def show(self, text: str) -> None:
        self.text += text
        if self._stop_at is not None and self._stop_at in self.text:
            self.control.stop()


def fact(text: str, **changes: Any) -> Json:
    """Return a fact as a model writes it, by default with the whole text as quote."""
    return {"text": text, "quote": text, "object": text, **changes}


def saved(*facts: Json) -> Reply:
    """Return a reply in which the model saves facts with its tool."""
    return Reply(tool_calls=[("save_user_fact", one) for one in facts])


def called(tool: str, **arguments: Any) -> Reply:
    """Return a reply in which the model calls a tool."""
    return Reply(tool_calls=[(tool, arguments)])


def taught(*facts: Json) -> Reply:
    """Return a strict-mode reply: the message teaches these facts."""
    return called("Understanding", intent="teach", facts=list(facts))


def solved(answer: str, query: str = "") -> Reply:
    """Return a strict-mode reply: the message is a question with this answer."""
    return called("Understanding", intent="solve", answer=answer, query=query)


def asked(query: str = "") -> Reply:
    """Return a strict-mode reply: the question needs a search or has no known answer."""
    return solved("", query)


def forgetting(query: str = "") -> Reply:
    """Return a strict-mode reply: the message asks to forget something."""
    return called("Understanding", intent="forget", query=query)


def chosen(*uids: str) -> Reply:
    """Return a strict-mode reply: the quotes to forget."""
    return called("Forgetting", uids=list(uids))


def denied(*pairs: tuple[int, int], confidence: float = 0.9) -> Reply:
    """Return a strict-mode reply: new facts, by number, that contradict known ones, by id."""
    conflicts = [{"new": new, "known": known, "confidence": confidence} for new, known in pairs]
    return called("Conflicts", conflicts=conflicts)


def forms(requests: list[ChatRequest]) -> list[str]:
    """Return the name of the form that each request demands, or ``text``."""
    return [
        request.raw["tool_choice"]["function"]["name"]
        if isinstance(request.raw.get("tool_choice"), dict)
        else "text"
        for request in requests
    ]


def named(request: ChatRequest) -> list[tuple[str, str]]:
    """Return (name or role, text) of each message of a prompt."""
    return [
        (message.get("name") or message["role"], text_of(message.get("content")))
        for message in request.messages
    ]


def results(request: ChatRequest) -> list[str]:
    """Return the tool results in a prompt."""
    return [text for name, text in named(request) if name == "tool"]


def records(request: ChatRequest, tag: str) -> list[Json]:
    """Return the JSON lines of a block in the last message of a prompt."""
    text = text_of(request.messages[-1]["content"])
    inside = text.partition(f"<{tag}>\n")[2].partition(f"</{tag}>")[0]
    return [json.loads(line) for line in inside.splitlines()]
