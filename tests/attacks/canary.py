"""Canary test of erasure: no word of an erased user remains, whichever way it came in.

``python -m tests.attacks.canary --n 100`` runs that many random worlds, each with a user whose
words and names all begin with ``qza``. It erases the user (or the group), and searches every
column of every table of every schema and the files of the data folder. It prints one JSON line;
the exit status is 1 when a word was found or when words of others were lost.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiogram import Bot, Dispatcher

from src.base.errors import AppError
from src.base.owners import Owner
from src.memory.forgetter import Forgetter
from src.memory.group_moves import GroupMoveRepository
from src.memory.purge_repo import PurgeRepository
from src.privacy.erasure_repo import ErasureRepository
from src.talk.turn_state import TurnControl
from src.telegram.delivery import Delivery
from src.telegram.setup import build_dispatcher
from src.telegram.tasks import UpdateTasks
from src.telegram.updates import BotIdentity
from tests.attacks.frame import own_postgres, run_attack
from tests.conftest import execute, new_client, query
from tests.fakes.openai_server import ChatRequest, Reply
from tests.fakes.telegram_server import FakeTelegram
from tests.integration.person import Rig, open_rig
from tests.integration.polling import build_intake, open_bot
from tests.tables import columns_that_hold

Json = dict[str, Any]

ANNA, BORIS, BOT = 2**41 + 901, 2**41 + 902, 42
OLD_GROUP, GROUP, TOPIC = -901, -1_000_000_000_901, 9
NAME = "@pomni_test_bot"
MARK = "qza"  # prefix of the erased user's words, which the index keeps unchanged
OTHERS = "qzb"  # prefix of the others' words
STEPS = 45  # messages per world
FILES_OF_TABLES = ("postgres/base/", "postgres/pg_wal/")  # see docs/security.md


@dataclass
class Result:
    """Result of a run.

    Attributes:
        worlds: Number of worlds.
        updates: Number of received updates.
        brought: Number of worlds in which a ``table.column`` contained words before the erasure.
        left: ``table.column`` or file that contained a word after the erasure.
        lost: Number of worlds in which data of others was lost.
        table_files: Number of the server's table and log files that still contain a word, in the
            space of deleted rows until it is overwritten.
    """

    worlds: int = 0
    updates: int = 0
    brought: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    lost: int = 0
    table_files: int = 0


def answer(request: ChatRequest) -> Reply | str:
    """Reply as a model that follows instructions and repeats what it reads."""
    prompt = str(request.raw)
    words = sorted({word for word in prompt.replace("\\", " ").split() if word.startswith(MARK)})
    newest = " ".join(words[-3:])
    choice = request.raw.get("tool_choice")
    if isinstance(choice, dict):
        quote = f"люблю {words[-1]}" if words else "люблю чай"
        facts = [{"text": quote, "quote": quote}] if quote in prompt else []
        return Reply(tool_calls=[(choice["function"]["name"], {"facts": facts})])
    text = request.last_user_text
    if request.messages[-1]["role"] == "user":
        what = text.partition(": ")[2]
        if text.startswith("Запомни: "):
            saved = {"text": what, "quote": what, "subject": what.split()[-1], "object": what}
            return Reply(tool_calls=[("save_user_fact", saved)])
        if text.startswith("Найди: "):
            return Reply(tool_calls=[("search_memory", {"query": what})])
    return f"Вот: {newest} [1]" if words else "Хорошо."


@dataclass
class World:
    """The user to erase, another user, their chats, and the bot without its queue."""

    rig: Rig
    bot: Bot
    dispatcher: Dispatcher
    chance: random.Random
    numbers: Any = field(default_factory=lambda: itertools.count(1))
    words: Any = field(default_factory=itertools.count)
    messages: list[Json] = field(default_factory=list)
    only_waiting: set[int] = field(default_factory=set)

    @property
    def dsn(self) -> str:
        return self.rig.core.dsn

    def word(self, whose: str = MARK) -> str:
        """Return a new word with a prefix."""
        number = next(self.words)
        letters = chr(97 + number // 26 % 26) + chr(97 + number % 26)
        return f"{whose}{letters}{self.chance.randrange(10**6)}"  # its beginning is unique, too

    def person(self, id_: int) -> Json:
        mark = MARK if id_ == ANNA else OTHERS
        names = {"first_name": f"{mark}First", "last_name": f"{mark}Last"}
        return {
            "id": id_,
            "is_bot": False,
            "language_code": "ru",
            "username": f"{mark}user",
        } | names

    def message(self, sender: int, place: Owner | None, **content: Any) -> Json:
        """Return a message as Telegram sends it."""
        number = next(self.numbers)
        chat: Json = {"id": sender, "type": "private", **self.person(sender)} | {"id": sender}
        if place is not None:
            title = f"{OTHERS}Title"
            chat = {"id": place.telegram_user_id, "type": "supergroup", "title": title}
        made = {"message_id": number, "date": 1_700_000_000 + number, "chat": chat,
                "from": self.person(sender), **content}  # fmt: skip
        if place is not None and place.thread_id:
            made |= {"message_thread_id": place.thread_id, "is_topic_message": True}
        self.messages.append(made)
        return made

    async def take(self, handled: bool = True, **update: Any) -> int:
        """Receive an update and, if ``handled``, handle it; returns its id."""
        number: int = next(self.numbers)
        await build_intake(self.rig.client).store([{"update_id": number, **update}])
        if handled:
            sql = "SELECT id FROM telegram_updates WHERE update_id = %s"
            for (row,) in query(self.dsn, sql, number):
                await self.handle(row)
        return number

    async def handle(self, row: int) -> None:
        """Handle an update as the worker does; an ``AppError`` also finishes it."""
        stored = self.rig.core.updates.find_waiting(row)
        if stored is None:
            return
        tasks = UpdateTasks(self.rig.core, self.dispatcher, Delivery(self.bot, _never))
        try:
            outcome: str = await tasks.feed(stored, TurnControl())
        except AppError as error:
            outcome = type(error).__name__
        self.rig.core.updates.mark_handled(stored.id, str(outcome))

    async def digest(self) -> None:
        """Run the background work: index, digest, embed."""
        turns = self.rig.core.memory.digest
        await turns.index_pending()
        for (conversation,) in query(self.dsn, "SELECT id::text FROM conversations"):
            await turns.digest(conversation)
        await turns.indexer.embed_pending()

    def held(self) -> set[str]:
        """Return the columns that contain words of the user to erase."""
        return columns_that_hold(self.dsn, MARK)


Step = Callable[[World, bool], Any]


def place_of(world: World) -> Owner | None:
    """Choose a private chat (None), the group, or a topic of it."""
    return world.chance.choice([None, Owner(GROUP), Owner(GROUP, TOPIC)])


def addressed(text: str, place: Owner | None) -> str:
    return text if place is None else f"{NAME} {text}"


async def says(world: World, handled: bool) -> None:
    place, word = place_of(world), world.word()
    text = world.chance.choice(
        [f"люблю {word}", f"Запомни: люблю {word}", f"Найди: {word}", f"Запомни: ты {word}",
         f"Запомни: Всегда отвечай {word}", word * 300, f"/mode {word}", f"/{word}",
         f"/start {word}"]
    )  # fmt: skip
    text = text if text.startswith("/") else addressed(text, place)
    await world.take(handled, message=world.message(ANNA, place, text=text))


async def edits(world: World, handled: bool) -> None:
    own = [m for m in world.messages if m["from"]["id"] == ANNA and "text" in m]
    if own:
        edited = world.chance.choice(own) | {"text": f"исправлено {world.word()}"}
        await world.take(handled, edited_message=edited)


async def shows(world: World, handled: bool) -> None:
    """Send a captioned album picture, a contact or a captioned picture."""
    photo = [{"file_id": world.word(), "file_unique_id": "1", "width": 1, "height": 1}]
    contact = {"phone_number": world.word(), "first_name": world.word(), "user_id": ANNA}
    content = world.chance.choice(
        [{"photo": photo, "caption": world.word(), "media_group_id": world.word()},
         {"contact": contact, "reply_to_message": None},
         {"photo": photo, "caption": f"{NAME} {world.word()}"}]
    )  # fmt: skip
    content = {key: value for key, value in content.items() if value is not None}
    await world.take(handled, message=world.message(ANNA, None, **content))


async def blocks(world: World, handled: bool) -> None:
    """Unblock the bot, or press a button."""
    user = {"id": BOT, "is_bot": True, "first_name": "Помни"}
    change = {
        "chat": world.message(ANNA, None)["chat"], "from": world.person(ANNA), "date": 1,
        "old_chat_member": {"status": "kicked", "user": user, "until_date": 0},
        "new_chat_member": {"status": "member", "user": user},
    }  # fmt: skip
    query_ = {"id": world.word(), "from": world.person(ANNA), "chat_instance": "1",
              "message": world.message(ANNA, None, text=world.word()),
              "data": f"source:msg-1 {world.word()}"}  # fmt: skip
    update = world.chance.choice([{"my_chat_member": change}, {"callback_query": query_}])
    await world.take(handled, **update)


async def is_answered(world: World, handled: bool) -> None:
    """Reply, as the other user, to a message of the user or to the bot's answer."""
    place = Owner(GROUP, TOPIC)
    hers = world.message(ANNA, place, text=world.word())
    bots = world.message(ANNA, place, text=world.word())
    bots["from"] = {"id": BOT, "is_bot": True, "first_name": "Помни"}
    reply = world.chance.choice([hers, bots])
    quote = {"text": world.word(), "position": 0}
    message = world.message(
        BORIS, place, text=f"{NAME} и что {world.word(OTHERS)}", reply_to_message=reply,
        quote=quote,
    )  # fmt: skip
    await world.take(handled, message=message)


async def is_mentioned(world: World, handled: bool) -> None:
    name = f"{MARK}First"
    entity = {"type": "text_mention", "offset": len(NAME) + 8, "length": len(name),
              "user": world.person(ANNA)}  # fmt: skip
    text = f"{NAME} спроси {name} {world.word(OTHERS)}"
    message = world.message(BORIS, place_of(world), text=text, entities=[entity])
    await world.take(handled, message=message)


async def is_called(world: World, _handled: bool) -> None:
    """Refer to the user by user name, external reply, hidden forward or ``via_bot``.

    Such a reference can be resolved only while the update is pending.
    """
    at = {"type": "mention", "offset": len(NAME) + 1, "length": len(MARK) + 5}
    origin = {"type": "user", "date": 1, "sender_user": world.person(ANNA)}
    hidden = {"type": "hidden_user", "date": 1, "sender_user_name": f"{MARK}First {MARK}Last"}
    content: Json = world.chance.choice(
        [{"text": f"{NAME} @{MARK}user", "entities": [at]},
         {"text": f"{NAME} да", "external_reply": {"origin": origin, "message_id": 1},
          "quote": {"text": world.word(), "position": 0}},
         {"text": f"{NAME} {world.word()}", "forward_origin": hidden},
         {"text": f"{NAME} да", "via_bot": world.person(ANNA) | {"is_bot": True}}]
    )  # fmt: skip
    number = await world.take(False, message=world.message(BORIS, Owner(GROUP), **content))
    world.only_waiting.add(number)


async def is_forwarded(world: World, handled: bool) -> None:
    """Forward, as the other user, a message of the user to their private chat or the group."""
    origin = {"type": "user", "date": 1, "sender_user": world.person(ANNA)}
    place = place_of(world)
    text = addressed(f"Запомни: люблю {world.word()}", place)
    message = world.message(BORIS, place, text=text, forward_origin=origin)
    await world.take(handled, message=message)


async def others_talk(world: World, handled: bool) -> None:
    place = place_of(world)
    text = world.chance.choice(["люблю", "Запомни: люблю", "Найди:"])
    message = world.message(BORIS, place, text=addressed(f"{text} {world.word(OTHERS)}", place))
    await world.take(handled, message=message)


async def forgets(world: World, _handled: bool) -> None:
    """Forget a message of the user; sometimes purge it immediately."""
    own = query(
        world.dsn,
        "SELECT m.id FROM messages m JOIN conversations c ON c.id = m.conversation_id"
        f" WHERE m.role = 'user' AND c.telegram_user_id = {ANNA}",
    )
    if own:
        uid = f"msg-{world.chance.choice(own)[0]}"
        with world.rig.client.transaction() as transaction:
            Forgetter(transaction, Owner(ANNA)).forget([uid])
    if world.chance.random() < 0.3:
        PurgeRepository(world.rig.client).purge_forgotten(older_than=0)


async def digests(world: World, _handled: bool) -> None:
    await world.digest()


WAYS: tuple[tuple[Step, int], ...] = (
    (says, 16), (edits, 3), (shows, 3), (blocks, 2), (is_answered, 3), (is_mentioned, 3),
    (is_called, 2), (is_forwarded, 4), (others_talk, 6), (forgets, 1), (digests, 2),
)  # fmt: skip


@asynccontextmanager
async def open_world(server: str, seed: int) -> AsyncIterator[World]:
    """Open a world with its own database, Telegram and model."""
    for client in new_client(server):
        async with FakeTelegram() as fake, open_bot(fake) as bot:
            settings = {"embedding_model": "openai:fake-embedding"}
            async with open_rig(client, **settings) as rig:
                rig.model.reply = answer
                identity = BotIdentity(BOT, NAME.removeprefix("@"))
                dispatcher = build_dispatcher(rig.core, Delivery(bot, _never), identity)
                yield World(rig, bot, dispatcher, random.Random(seed))


async def _never(_old: int, _new: int) -> None:
    raise AssertionError("nothing moved")


async def live(world: World, result: Result) -> None:
    """Run random steps; the updates of the last ones stay pending."""
    steps, weights = zip(*WAYS, strict=True)
    for number in range(STEPS):
        [step] = world.chance.choices(steps, weights)
        await step(world, number < STEPS - 8)
    await says(world, False)  # so that the names of the user are known
    execute(world.dsn, "UPDATE telegram_updates SET handled_at = now(), outcome = 'put aside'"
            " WHERE handled_at IS NULL AND id % 4 = 0")  # fmt: skip
    for name in world.held():
        result.brought[name] = result.brought.get(name, 0) + 1


async def erase_person(world: World, result: Result) -> None:
    """Erase the user, possibly while turns are running."""
    waiting = query(
        world.dsn,
        "SELECT id FROM telegram_updates WHERE handled_at IS NULL AND update_id <> ALL(%s)"
        " ORDER BY id LIMIT 3",
        list(world.only_waiting),
    )
    turns = [asyncio.ensure_future(world.handle(row)) for (row,) in waiting]
    if world.chance.random() < 0.5:
        await asyncio.sleep(0.05 * world.chance.random())
    await world.rig.client.run(ErasureRepository(world.rig.client).erase, ANNA)
    await asyncio.gather(*turns)
    remaining = world.held()
    for (row,) in query(world.dsn, "SELECT id FROM telegram_updates WHERE handled_at IS NULL"):
        await world.handle(row)
    await world.digest()
    result.left += sorted(remaining | world.held())
    spoken = {m["message_id"] for m in world.messages if is_own_of_boris(m)}
    messages_of_others = query(
        world.dsn, "SELECT count(*) FROM messages WHERE content LIKE '%%qzb%%'"
    )
    result.lost += bool(spoken) and messages_of_others == [(0,)]


def is_own_of_boris(message: Json) -> bool:
    """Return True for a message of the other user in their own words."""
    return message["from"]["id"] == BORIS and OTHERS in str(message.get("text"))


async def erase_group(world: World, result: Result) -> None:
    """Erase the group by its id from before a move; private chats must stay."""
    private = "SELECT count(*) FROM conversations WHERE telegram_user_id > 0"
    before = query(world.dsn, private)
    GroupMoveRepository(world.rig.client).migrate_owner(OLD_GROUP, GROUP)
    await world.rig.client.run(ErasureRepository(world.rig.client).erase, OLD_GROUP)
    result.left += sorted(
        columns_that_hold(world.dsn, str(GROUP), str(OLD_GROUP), f"{OTHERS}Title")
    )
    result.lost += query(world.dsn, private) != before


def files_that_hold(folder: Path, mark: str) -> list[str]:
    """Return the files below a folder that contain a word, relative to it."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and mark.encode() in path.read_bytes()
    ]


async def run(n: int, seed: int = 1, *, groups_every: int = 4) -> Result:
    """Run ``n`` worlds on their own server; every ``groups_every``-th erases the group."""
    result = Result()
    async with own_postgres() as own:
        for number in range(n):
            async with open_world(own.address, seed + number) as world:
                await live(world, result)
                of_group = number % groups_every == groups_every - 1
                await (erase_group if of_group else erase_person)(world, result)
                await world.rig.client.run(ErasureRepository(world.rig.client).vacuum)
                execute(world.dsn, "CHECKPOINT")
                result.updates += len(world.messages)
                if not of_group:
                    note_files(own.folder, result)
            result.worlds += 1
    return result


def note_files(folder: Path, result: Result) -> None:
    """Record the files that contain a word: those of tables and log, and others."""
    for name in files_that_hold(folder, MARK):
        if name.startswith(FILES_OF_TABLES):
            result.table_files += 1
        else:
            result.left.append(name)


if __name__ == "__main__":
    run_attack(run, {"--n": 100, "--seed": 1}, wrong=["left", "lost"])
