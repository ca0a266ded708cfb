"""Floods of one user and forty slow chats: the waits of other users and the cost.

    python -m tests.attacks.flood --n 1000 --slow 40

runs the bot as a process against loopback fakes, once per kind of flood, and prints one JSON line:
the seconds (p50, p99, max) that other users, each writing for the first time, wait for the reply
to a command and to a plain message during the flood, and the number of model calls. The exit
status is 1 when a command waited longer than a second (p99), or the flood of messages cost more
than MAX_CALLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.attacks.frame import own_postgres, run_attack
from tests.e2e.bot_process import World, eventually
from tests.e2e.conftest import open_world
from tests.fakes.openai_server import ChatRequest, Reply
from tests.fakes.telegram_people import Sender

MAX_COMMAND_SECONDS = 1.0  # limit of others' p99 wait for a command
MAX_CALLS = 40  # model calls for a flood of a thousand messages
WARM_SECONDS = 0.5  # upper bound of a reply's time once the embedder is ready
FLOODER = 2**41
FIRST_SLOW = 2**41 + 1_000
FIRST_OTHER = 2**41 + 100_000
GROUP = -1_002_000_000_000
SLOW = "медленно"  # start of a message that gets a slow answer
SLOW_SECONDS = 5.0  # duration of a slow answer
SLOW_PIECES = 10
PROBE_PAUSE = 0.15  # seconds between two probes of the same kind
MIN_PROBES = 50
# Jobs due within a minute, except the periodic ones.
WORK_LEFT = """
SELECT count(*) FROM procrastinate_jobs
WHERE task_name NOT IN ('recover_jobs', 'prune', 'remember_missed', 'delete_unused_vectors')
  AND (scheduled_at IS NULL OR scheduled_at < now() + interval '1 minute')
"""

Flood = Callable[[World, int], Awaitable[None]]


@dataclass
class Waits:
    """Waits for replies, in seconds."""

    seconds: list[float] = field(default_factory=list)

    def share(self, share: float) -> float:
        """Return a quantile of the waits; ``share`` is from 0 to 1."""
        ordered = sorted(self.seconds)
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    def summary(self) -> dict[str, float]:
        """Return the figures of the report."""
        return {
            "n": len(self.seconds),
            "p50": self.share(0.5),
            "p99": self.share(0.99),
            "max": round(max(self.seconds), 3),
        }


class Others:
    """Other users who write to the bot during a flood."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._people = itertools.count(FIRST_OTHER)
        self.waits = {"command": Waits(), "message": Waits()}

    async def write(self, kind: str, text: str, over: asyncio.Event) -> None:
        """Write ``text`` repeatedly, each time as a new user, until ``over`` is set."""
        waits = self.waits[kind]
        pending: set[asyncio.Task[None]] = set()
        while not over.is_set() or len(waits.seconds) + len(pending) < MIN_PROBES:
            task = asyncio.create_task(self._ask(next(self._people), text, waits))
            pending.add(task)
            task.add_done_callback(pending.discard)
            await asyncio.sleep(PROBE_PAUSE)
        await asyncio.gather(*pending)

    async def _ask(self, person: int, text: str, waits: Waits) -> None:
        start = time.monotonic()
        await self._world.telegram.send_text(person, text)
        await self._world.telegram.wait_sent(person, timeout=300)
        waits.seconds.append(time.monotonic() - start)


def purpose(request: ChatRequest) -> str:
    """Return the purpose of a model call."""
    if any(tool["function"]["name"] == "ExtractedFacts" for tool in request.tools):
        return "extractions"
    return "answers" if "You are Pomni" in request.system_text else "summaries"


def reply(request: ChatRequest) -> Reply:
    """Answer with an echo (slowly if asked), a summary, or no facts."""
    kind = purpose(request)
    if kind == "extractions":
        return Reply(tool_calls=[("ExtractedFacts", {"facts": []})])
    if kind == "summaries":
        return Reply(text="Сводка того, что было сказано.")
    if request.last_user_text.startswith(SLOW):
        text = "медленный ответ. " * 5
        size = len(text) // SLOW_PIECES
        return Reply(text=text, chunk_size=size, chunk_delay=SLOW_SECONDS / SLOW_PIECES)
    return Reply(text=f"эхо: {request.last_user_text}")


async def flood_messages(world: World, count: int) -> None:
    """Write all messages at once."""
    for number in range(count):
        await world.telegram.send_text(FLOODER, f"сообщение номер {number} о всяком разном")


async def flood_commands(world: World, count: int) -> None:
    """Send commands, of which some must keep their order."""
    for _, text in zip(range(count), itertools.cycle(("/help", "/mode", "/stop", "/new"))):
        await world.telegram.send_text(FLOODER, text)


async def flood_buttons(world: World, count: int) -> None:
    """Press a button of an old answer."""
    await world.telegram.send_text(FLOODER, "/help")
    [message] = await world.telegram.wait_sent(FLOODER)
    for _ in range(count):
        await world.telegram.press_button(FLOODER, message.message_id, "old:button")


async def flood_edits(world: World, count: int) -> None:
    """Edit one message repeatedly."""
    message = await world.telegram.send_text(FLOODER, "черновик")
    await world.telegram.wait_sent(FLOODER)
    for number in range(count):
        await world.telegram.edit_text(FLOODER, message, f"черновик {number}")


async def flood_group(world: World, count: int) -> None:
    """Write to the bot in a group."""
    place = Sender(chat_id=GROUP, chat_type="supergroup")
    for number in range(count):
        await world.telegram.send_text(FLOODER, f"@pomni_test_bot вопрос {number}", **place)


async def flood_groups(world: World, count: int) -> None:
    """Request slow answers and send commands in forty groups at once."""
    for number in range(count):
        place = Sender(chat_id=GROUP - 1 - number % 40, chat_type="supergroup")
        text = f"/mode@{world.telegram.state.username}" if number % 2 else "@pomni_test_bot "
        await world.telegram.send_text(FLOODER, text + SLOW * (1 - number % 2), **place)


async def no_flood(_world: World, _count: int) -> None:
    """Do nothing."""


@asynccontextmanager
async def slow_chats(world: World, count: int) -> AsyncIterator[None]:
    """Run ``count`` users who request one slow answer after another."""

    async def talk(number: int) -> None:
        person = FIRST_SLOW + number
        await asyncio.sleep(SLOW_SECONDS * number / count)  # spread the starts
        for asked in itertools.count(1):
            await world.telegram.send_text(person, f"{SLOW} {asked}")
            await world.telegram.wait_sent(person, asked, timeout=300)

    people = [asyncio.create_task(talk(number)) for number in range(count)]
    if people:
        await asyncio.sleep(SLOW_SECONDS)  # until they occupy all slots
    yield
    for person in people:
        person.cancel()
    await asyncio.gather(*people, return_exceptions=True)


async def attack(world: World, flood: Flood, *, count: int, slow: int) -> dict[str, Any]:
    """Run one kind of flood beside ``slow`` slow chats; returns the figures of others."""
    start = time.monotonic()
    before = Counter(map(purpose, world.model.requests))
    others, over = Others(world), asyncio.Event()
    async with slow_chats(world, slow):
        probes = [
            asyncio.create_task(others.write("command", "/help", over)),
            asyncio.create_task(others.write("message", "привет", over)),
        ]
        await flood(world, count)
        with contextlib.suppress(AssertionError):
            await eventually(lambda: not waiting_of(world, FLOODER), "the flood's end", 240)
        seconds = time.monotonic() - start
        over.set()
        await asyncio.gather(*probes)
    await world.settled(120)
    await eventually(lambda: world.query(WORK_LEFT) == [(0,)], "the background", 240)
    calls = Counter(map(purpose, world.model.requests)) - before
    return {
        "seconds": round(seconds, 1),
        "command": others.waits["command"].summary(),
        "message": others.waits["message"].summary(),
        "calls": dict(calls),
    }


def waiting_of(world: World, person: int) -> int:
    """Return the number of a user's unhandled updates plus all pending ones at Telegram."""
    sql = "SELECT count(*) FROM telegram_updates WHERE handled_at IS NULL AND user_id = %s"
    return len(world.telegram.pending_updates) + int(world.query(sql, person)[0][0])


FLOODS: dict[str, tuple[Flood, bool]] = {
    "messages": (flood_messages, False),
    "slow": (no_flood, True),
    "commands": (flood_commands, False),
    "buttons": (flood_buttons, False),
    "edits": (flood_edits, False),
    "group": (flood_group, False),
    "groups": (flood_groups, False),
}


async def measure(world: World, kinds: list[str], *, count: int, slow: int) -> dict[str, Any]:
    """Run floods, each on a new bot; returns the figures by kind."""
    world.model.reply = reply
    seen: dict[str, Any] = {}
    for kind in kinds:
        flood, beside_slow = FLOODS[kind]
        bot = await world.start()
        await warm_up(world)
        seen[kind] = await attack(world, flood, count=count, slow=slow if beside_slow else 0)
        await bot.terminate()
        world.processes.remove(bot)
        clear(world)
    return seen


async def warm_up(world: World) -> None:
    """Write until the embedder is ready, which takes seconds on a new database."""
    for number in itertools.count(1):
        start = time.monotonic()
        await world.telegram.send_text(FIRST_OTHER - 1, "привет")
        await world.telegram.wait_sent(FIRST_OTHER - 1, number, timeout=60)
        if time.monotonic() - start < WARM_SECONDS:
            return


def clear(world: World) -> None:
    """Delete all conversations and recorded requests."""
    world.query("TRUNCATE telegram_updates, conversations, model_usage, user_settings CASCADE")
    world.model.requests.clear()
    world.telegram.state.sent_by_chat.clear()


def violations(seen: dict[str, Any]) -> Iterator[str]:
    """Yield the limits that were exceeded."""
    for kind, result in seen.items():
        if result["command"]["p99"] >= MAX_COMMAND_SECONDS:
            yield f"{kind}: a command waited {result['command']['p99']} s"
    calls = sum(seen.get("messages", {}).get("calls", {}).values())
    others = seen.get("messages", {}).get("message", {}).get("n", 0)
    if calls - others > MAX_CALLS:
        yield f"messages: {calls - others} model calls"


async def main(n: int, slow: int, kinds: list[str]) -> dict[str, Any]:
    """Run ``kinds`` of floods of ``n`` messages, some beside ``slow`` slow chats."""
    async with own_postgres() as own, open_world(own.dsn) as world:
        world.telegram.keep_calls = False
        seen = await measure(world, kinds, count=n, slow=slow)
    return {**seen, "violations": list(violations(seen))}


if __name__ == "__main__":
    run_attack(main, {"--n": 1000, "--slow": 40, "kinds": list(FLOODS)}, wrong=["violations"])
