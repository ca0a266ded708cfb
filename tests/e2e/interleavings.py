"""Random interleavings of everything that people do in Telegram, with the bot's death among it.

    python -m tests.e2e.interleavings --n 10000 --seed 1

Each of ``n`` people does a few things, one after the other or without waiting: writes, edits,
presses buttons (of the newest message, of an old one, forged ones), sends pictures and broken
files, /new, /stop, /remember, and Telegram delivers an update twice. Meanwhile the bot is killed
and started again and again. Every word that a person writes is his own, so what is said and stored
tells where it came from. It prints one JSON line and ends with status 1 when anything was wrong:

lost: a message was neither answered nor deliberately dropped (by /new, /stop, or an edit of it);
stale: after /new something was answered that was said before it;
foreign: a chat shows, or a conversation holds, words of somebody else;
together: two turns of one chat asked the model at the same time.

A person's whole behaviour follows from the seed and his number, which ``wrong`` names.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from aiohttp import web

from src.pg.embedded import EmbeddedPostgres
from src.pg.migrations import migrate
from src.texts import LANGUAGES, say
from tests.conftest import execute
from tests.e2e.bot_process import BotProcess, World
from tests.fakes.openai_server import ChatRequest, FakeOpenAI, Reply, text_of
from tests.fakes.telegram_server import FakeTelegram
from tests.fakes.telegram_types import Json

FIRST_PERSON = 2**41 + 1
AT_ONCE = 24  # people who act at the same time
ACTIONS = (4, 9)  # of each person, at least and at most
ANSWER_SECONDS = 20.0  # how long somebody waits who waits for an answer
LIFE_ACTIONS = (60, 180)  # of all people together between two kills
SETTLE_SECONDS = 180  # without anything done
WORD = re.compile(r"w(\d+)n\d+")
ECHO = "эхо:"
NEWS = frozenset(say("new_done", language) for language in LANGUAGES)
PHOTO = [{"file_id": "photo", "file_unique_id": "p", "width": 9, "height": 9}]
FORGED = ("fact:1:1:0", "forget:1", "undo:1", "drop:0:1", "source:1", "zone:7", "x", "erase:1")
WEIGHTS = {
    "write": 40, "burst": 12, "edit": 12, "edit_old": 4, "new": 8, "stop": 7, "photo": 6,
    "broken": 4, "press": 10, "forge": 3, "remember": 5, "twice": 4, "wait": 14,
}  # fmt: skip


@dataclass
class Person:
    """Somebody, what he has done so far, and what has to come of it.

    Attributes:
        open: Words that somebody has to answer: nothing of his has excused it so far.
        before_new: Words that he wrote before each of his /new, by the number of that.
    """

    number: int
    numbers: random.Random
    words: int = 0
    open: set[str] = field(default_factory=set)
    written: list[str] = field(default_factory=list)
    before_new: list[set[str]] = field(default_factory=list)
    messages: list[tuple[int, str]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    @property
    def id(self) -> int:
        return FIRST_PERSON + self.number

    def word(self) -> str:
        """A word that nobody else uses."""
        self.words += 1
        self.written.append(f"w{self.number}n{self.words}")
        return self.written[-1]


@dataclass
class Result:
    """What went wrong, and how much there was."""

    seed: int
    people: int
    actions: int
    kills: int
    answers: int
    lost: int
    stale: int
    foreign: int
    together: int
    unhandled: int
    seconds: float
    wrong: list[str]


class Echo(FakeOpenAI):
    """Answers with the words of the newest messages, and sees how many turns a chat has."""

    def __init__(self) -> None:
        super().__init__(reply=self.echo, keep_requests=False)
        self.under_way: Counter[str] = Counter()
        self.together = 0
        self.numbers = random.Random(7)

    def echo(self, request: ChatRequest) -> Reply:
        newest = next(m for m in reversed(request.messages) if m.get("role") == "user")
        words = WORD.finditer(text_of(newest.get("content")))
        said = " ".join(match[0] for match in words)
        return Reply(
            text=f"{ECHO} {said}", chunk_size=4, chunk_delay=self.numbers.choice((0, 0.01, 0.05))
        )

    @asynccontextmanager
    async def _turn(self, chat: str) -> AsyncIterator[None]:
        self.under_way[chat] += 1
        self.together += self.under_way[chat] > 1
        try:
            yield
        finally:
            self.under_way[chat] -= 1

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        found = WORD.findall(await request.text())
        async with self._turn(found[-1] if found else "?"):
            return await super()._chat(request)


async def act(world: World, person: Person, action: str) -> None:
    """Do one thing, and note what has to come of it."""
    if action in ("write", "burst", "remember", "twice"):
        for _ in range(2 if action == "burst" else 1):
            await write(world, person, action)
    elif action in ("edit", "edit_old"):
        await edit(world, person, action)
    elif action in ("new", "stop"):
        if action == "new":
            person.before_new.append(set(person.written))
        person.open.clear()
        await world.telegram.send_text(person.id, f"/{action}")
    elif action in ("photo", "broken"):
        word = person.word()
        person.open.add(word)
        photo = [{**PHOTO[0], "file_id": "photo" if action == "photo" else "gone"}]
        await world.telegram.send_message(person.id, photo=photo, caption=word)
    elif action in ("press", "forge"):
        await press(world, person, is_forged=action == "forge")
    else:
        await wait(world, person)


async def write(world: World, person: Person, action: str) -> None:
    """Write a word, or have one remembered; or one that Telegram delivers twice."""
    word = person.word()
    text = f"/remember Код {word}" if action == "remember" else word
    message = await world.telegram.send_text(person.id, text)
    if action != "remember":
        person.open.add(word)
        person.messages.append((message, word))
    if action == "twice":
        await world.telegram.redeliver(world.telegram.update_id_of(message))


async def edit(world: World, person: Person, action: str) -> None:
    """Change the last message, or any."""
    if not person.messages:
        return
    place = -1 if action == "edit" else person.numbers.randrange(len(person.messages))
    message, old = person.messages[place]
    person.open.discard(old)
    person.messages[place] = (message, person.word())
    await world.telegram.edit_text(person.id, message, person.messages[place][1])


async def press(world: World, person: Person, *, is_forged: bool) -> None:
    """Press a button of a message of the bot's, or one that never was there."""
    sent = [m for m in world.telegram.sent_to(person.id) if m.reply_markup or is_forged]
    if not sent:
        await world.telegram.send_text(person.id, "/memory")
        return
    message = person.numbers.choice(sent)
    rows = (message.reply_markup or {}).get("inline_keyboard", [])
    found = [button["callback_data"] for row in rows for button in row]
    # Erasing is no interleaving of its own: it ends everything, and has attacks of its own.
    data = [one for one in found if not one.startswith(("delete", "erase", "wipe"))]
    chosen = person.numbers.choice(FORGED if is_forged or not data else data)
    await world.telegram.press_button(person.id, message.message_id, chosen)


async def wait(world: World, person: Person) -> None:
    """Wait for the answer to everything, for a while."""
    sent = world.telegram.state.sent_by_chat[person.id]

    def is_answered() -> bool:
        said = " ".join(text for m in sent for text in m.shown)
        return all(word in said for word in person.open)

    try:
        await world.telegram.wait_for(is_answered, ANSWER_SECONDS)
    except AssertionError:
        return


async def live(world: World, person: Person, actions: asyncio.Semaphore) -> None:
    """Do a few things at random, each of which releases ``actions``."""
    names, weights = list(WEIGHTS), list(WEIGHTS.values())
    for _ in range(person.numbers.randint(*ACTIONS)):
        [action] = person.numbers.choices(names, weights)
        person.done.append(action)
        await act(world, person, action)
        actions.release()
        if person.numbers.random() < 0.3:
            await asyncio.sleep(person.numbers.uniform(0, 0.3))


async def haunt(
    world: World,
    numbers: random.Random,
    actions: asyncio.Semaphore,
    enough: asyncio.Event,
    troubles: list[Json],
    life: tuple[int, int],
) -> int:
    """Kill the bot after some actions, until it is enough; it lives afterwards."""
    bot, kills = await world.start(), 0
    while True:
        for _ in range(numbers.randint(*life)):
            await actions.acquire()
            if enough.is_set():
                return kills
        await bot.kill()
        world.processes.remove(bot)
        troubles += troubles_of(bot)
        bot, kills = await world.start(), kills + 1


def troubles_of(bot: BotProcess) -> list[Json]:
    """What a process logged as an error, or as worth a warning."""
    return [line for line in bot.lines if line.get("level") in ("warning", "error")]


async def run(
    world: World, model: Echo, *, n: int, seed: int, life: tuple[int, int] = LIFE_ACTIONS
) -> Result:
    """Let ``n`` people act; then see what came of it."""
    start = time.monotonic()
    world.telegram.keep_calls = False
    world.telegram.state.files["photo"] = b"\xff\xd8\xff\xe0"
    execute(world.dsn, "UPDATE global_settings SET memory_extraction_enabled = false")
    people = [Person(number, random.Random(f"{seed}/{number}")) for number in range(n)]
    troubles: list[Json] = []
    enough, places = asyncio.Event(), asyncio.Semaphore(AT_ONCE)
    actions = asyncio.Semaphore(0)

    async def take_turn(person: Person) -> None:
        async with places:
            await live(world, person, actions)

    death = asyncio.create_task(haunt(world, random.Random(seed), actions, enough, troubles, life))
    await asyncio.gather(*map(take_turn, people))
    enough.set()
    actions.release()
    kills = await death
    unhandled = await settle(world)
    for process in world.processes:
        troubles += troubles_of(process)
    print(*map(json.dumps, troubles), sep="\n", file=sys.stderr)
    result = judge(world, people, model, seed=seed, seconds=time.monotonic() - start)
    return replace(result, kills=kills, unhandled=unhandled)


async def settle(world: World) -> int:
    """Wait until everything is handled; how many updates are not, all the same.

    Some may still be at Telegram, when the bot has just begun again. A job that was stopped when
    it died has failed; a minute later its update gets another. Thousands of people leave some
    work behind, so it ends when nothing has been done for a while.
    """
    waiting = "SELECT count(*) FROM telegram_updates WHERE handled_at IS NULL"

    def count() -> int:
        return int(world.query(waiting)[0][0]) + len(world.telegram.pending_updates)

    left, idle = count(), 0
    while left and idle < SETTLE_SECONDS:
        await asyncio.sleep(1)
        before, left = left, count()
        idle = 0 if left < before else idle + 1
    return left


def judge(world: World, people: list[Person], model: Echo, *, seed: int, seconds: float) -> Result:
    """Compare what everybody did with what everybody got, and with what is stored."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for person in people:
        for kind, count in faults_of(world, person).items():
            counts[kind] += count
            if count:
                wrong.append(f"{kind}: person {person.number}, {' '.join(person.done)}")
                wrong.append(str([(m.text, m.edits) for m in world.telegram.sent_to(person.id)]))
    stored = world.query(
        "SELECT c.telegram_user_id, message_text(m.content) FROM messages m"
        " JOIN conversations c ON c.id = m.conversation_id"
    )
    for owner, text in stored:
        counts["foreign"] += any(int(n) != owner - FIRST_PERSON for n in WORD.findall(text))
    return Result(
        seed=seed,
        people=len(people),
        actions=sum(len(person.done) for person in people),
        kills=0,
        answers=sum(len(world.telegram.sent_to(person.id)) for person in people),
        lost=counts["lost"],
        stale=counts["stale"],
        foreign=counts["foreign"],
        together=model.together,
        unhandled=0,
        seconds=round(seconds, 1),
        wrong=wrong[:20],
    )


def faults_of(world: World, person: Person) -> dict[str, int]:
    """What went wrong with one person."""
    sent = world.telegram.sent_to(person.id)
    texts = [message.text for message in sent]
    # A press may put a screen in the place of an answer that was read before.
    said = " ".join(text for message in sent for text in message.shown)
    echoes = [(place, text) for place, text in enumerate(texts) if text.startswith(ECHO)]
    stale = 0
    news = [place for place, text in enumerate(texts) if any(text.startswith(n) for n in NEWS)]
    for place, before in zip(news, person.before_new, strict=False):
        stale += sum(
            any(match[0] in before for match in WORD.finditer(text))
            for later, text in echoes
            if later > place
        )
    return {
        "lost": sum(word not in said for word in person.open),
        "stale": stale,
        "foreign": sum(int(number) != person.number for number in WORD.findall(said)),
    }


async def main(n: int, seed: int, life: tuple[int, int] = LIFE_ACTIONS) -> Result:
    """Run it on a PostgreSQL of its own."""
    with tempfile.TemporaryDirectory(prefix="pomni-interleavings-") as folder:
        server = EmbeddedPostgres(Path(folder))
        dsn = await asyncio.to_thread(server.start)
        try:
            execute(dsn, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
            await asyncio.to_thread(migrate, dsn)
            async with FakeTelegram() as telegram, Echo() as model:
                world = World(dsn, telegram, model)
                try:
                    return await run(world, model, n=n, seed=seed, life=life)
                finally:
                    await world.close()
        finally:
            await asyncio.to_thread(server.stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    result = asyncio.run(main(**vars(parser.parse_args())))
    print(json.dumps(asdict(result), ensure_ascii=False))
    faults = (result.lost, result.stale, result.foreign, result.together, result.unhandled)
    sys.exit(any(faults))
