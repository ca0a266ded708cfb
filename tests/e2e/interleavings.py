"""Random interleavings of user actions in Telegram and deaths of the bot.

    python -m tests.e2e.interleavings --n 10000 --seed 1

Each of ``n`` users performs a few actions, with or without waiting in between: writes, edits,
presses buttons (of new and old messages, and forged ones), sends pictures, broken files, /new,
/stop and /remember; Telegram delivers some updates twice. Meanwhile the bot is killed and
restarted repeatedly. Every user writes unique words, so the origin of all sent and stored text is
known. It prints one JSON line; the exit status is 1 on a violation:

lost: a message was neither answered nor deliberately dropped (by /new, /stop, or an edit of it),
    and its user has no apology for one at which the bot died three times;
stale: after /new, a message from before it was answered;
foreign: a chat or a conversation contains words of another user;
together: two turns of one chat called the model at the same time.

A user's behaviour is determined by the seed and the user's number, which ``wrong`` contains.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from aiohttp import web

from src.texts import LANGUAGES, say
from tests.attacks.frame import own_postgres, run_attack
from tests.conftest import execute
from tests.e2e.bot_process import BotProcess, World, open_world
from tests.fakes.openai_server import ChatRequest, FakeOpenAI, Reply, text_of
from tests.fakes.telegram_types import Json

FIRST_PERSON = 2**41 + 1
AT_ONCE = 24  # concurrent users
ACTIONS = (4, 9)  # minimum and maximum per user
ANSWER_SECONDS = 20.0  # timeout of the action "wait"
LIFE_ACTIONS = (60, 180)  # minimum and maximum actions of all users between two kills
SETTLE_SECONDS = 180  # without progress
WORD = re.compile(r"w(\d+)n\d+")
ECHO = "эхо:"
NEWS = frozenset(say("new_done", language) for language in LANGUAGES)
SORRY = frozenset(say("error_put_aside", language) for language in LANGUAGES)
PHOTO = [{"file_id": "photo", "file_unique_id": "p", "width": 9, "height": 9}]
FORGED = ("fact:1:1:0", "forget:1", "undo:1", "drop:0:1", "source:1", "zone:7", "x", "erase:1")
WEIGHTS = {
    "write": 40, "burst": 12, "edit": 12, "edit_old": 4, "new": 8, "stop": 7, "photo": 6,
    "broken": 4, "press": 10, "forge": 3, "remember": 5, "twice": 4, "wait": 14,
}  # fmt: skip


@dataclass
class Person:
    """A user, their actions so far, and the expected answers.

    Attributes:
        open: Words that must be answered unless a later action excuses it.
        before_new: Words written before each /new, in order.
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
        """Return a new word, unique among all users."""
        self.words += 1
        self.written.append(f"w{self.number}n{self.words}")
        return self.written[-1]


@dataclass
class Result:
    """Figures and violations of a run."""

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
    """Model that echoes the newest words, and counts concurrent turns of a chat."""

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
    """Perform one action, and record the expected answer."""
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
    """Write a word, plainly, with /remember, or delivered twice."""
    word = person.word()
    text = f"/remember Код {word}" if action == "remember" else word
    message = await world.telegram.send_text(person.id, text)
    if action != "remember":
        person.open.add(word)
        person.messages.append((message, word))
    if action == "twice":
        await world.telegram.redeliver(world.telegram.update_id_of(message))


async def edit(world: World, person: Person, action: str) -> None:
    """Edit the last message or a random one."""
    if not person.messages:
        return
    index = -1 if action == "edit" else person.numbers.randrange(len(person.messages))
    message, old = person.messages[index]
    person.open.discard(old)
    person.messages[index] = (message, person.word())
    await world.telegram.edit_text(person.id, message, person.messages[index][1])


async def press(world: World, person: Person, *, is_forged: bool) -> None:
    """Press a button of a message of the bot, or a forged one."""
    sent = [m for m in world.telegram.sent_to(person.id) if m.reply_markup or is_forged]
    if not sent:
        await world.telegram.send_text(person.id, "/memory")
        return
    message = person.numbers.choice(sent)
    rows = (message.reply_markup or {}).get("inline_keyboard", [])
    existing = [button["callback_data"] for row in rows for button in row]
    # Erasing would end the interleaving; other attacks cover it.
    data = [one for one in existing if not one.startswith(("delete", "erase", "wipe"))]
    chosen = person.numbers.choice(FORGED if is_forged or not data else data)
    await world.telegram.press_button(person.id, message.message_id, chosen)


async def wait(world: World, person: Person) -> None:
    """Wait until all open words are answered, at most ANSWER_SECONDS."""
    sent = world.telegram.state.sent_by_chat[person.id]

    def is_answered() -> bool:
        said = " ".join(text for m in sent for text in m.shown)
        return all(word in said for word in person.open)

    try:
        await world.telegram.wait_for(is_answered, ANSWER_SECONDS)
    except AssertionError:
        return


async def live(world: World, person: Person, actions: asyncio.Semaphore) -> None:
    """Perform random actions, each of which releases ``actions``."""
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
) -> int:
    """Kill and restart the bot after some actions until ``enough``; returns the kills."""
    bot, kills = await world.start(), 0
    while True:
        for _ in range(numbers.randint(*LIFE_ACTIONS)):
            await actions.acquire()
            if enough.is_set():
                return kills
        await bot.kill()
        world.processes.remove(bot)
        troubles += troubles_of(bot)
        bot, kills = await world.start(), kills + 1


def troubles_of(bot: BotProcess) -> list[Json]:
    """Return a process's log lines of levels warning and error."""
    return [line for line in bot.lines if line.get("level") in ("warning", "error")]


async def run(world: World, model: Echo, *, n: int, seed: int) -> Result:
    """Let ``n`` users act, and return the result."""
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

    death = asyncio.create_task(haunt(world, random.Random(seed), actions, enough, troubles))
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
    """Wait until all updates are handled; returns the number of unhandled ones.

    Some can still be at Telegram when the bot has just restarted. A job that died with its process
    has failed, and its update gets another job a minute later. Thousands of users leave much work,
    so the wait ends when there is no progress for SETTLE_SECONDS.
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
    """Compare the actions of all users with their chats and the database."""
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
    """Return the violations of one user by kind."""
    sent = world.telegram.sent_to(person.id)
    texts = [message.text for message in sent]
    # A press can replace an earlier answer by another screen.
    said = " ".join(text for message in sent for text in message.shown)
    echoes = [(index, text) for index, text in enumerate(texts) if text.startswith(ECHO)]
    stale = 0
    news = [index for index, text in enumerate(texts) if any(text.startswith(n) for n in NEWS)]
    for index, before in zip(news, person.before_new, strict=False):
        stale += sum(
            any(match[0] in before for match in WORD.finditer(text))
            for later, text in echoes
            if later > index
        )
    unanswered = sum(word not in said for word in person.open)
    is_told = any(text in SORRY for text in texts)
    return {
        "lost": 0 if is_told else unanswered,
        "stale": stale,
        "foreign": sum(int(number) != person.number for number in WORD.findall(said)),
    }


async def main(n: int, seed: int) -> Result:
    """Run it on its own PostgreSQL."""
    model = Echo()
    async with own_postgres() as own, open_world(own.dsn, model=model) as world:
        return await run(world, model, n=n, seed=seed)


if __name__ == "__main__":
    faults = ["lost", "stale", "foreign", "together", "unhandled"]
    run_attack(main, {"--n": 1000, "--seed": 1}, wrong=faults)
