"""Kills of the bot at random moments under load, and their effects on users.

    python -m tests.e2e.kill_loop --kills 200

prints one JSON line: {"kills", "messages", "lost", "out_of_order", "duplicates", ...}. Each user
sends the next message as soon as the last one is answered. The model echoes, so that each answer
identifies its message.

A kill after Telegram accepted an answer but before the bot recorded it cannot be distinguished
from an earlier kill, so the answer is sent again: a duplicate. It is unexcused if its first copy
was sent longer than WINDOW before a kill. (At 30 answers per second, 100 kills caused 15
duplicates, each first sent within 12 ms of a kill.)

A message that was being handled at three kills is put aside like one that kills its process, and
the user gets an apology. Such a message is not lost; this is rare.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter, defaultdict
from collections.abc import Container
from dataclasses import dataclass
from itertools import pairwise

from src.texts import LANGUAGES, say
from tests.attacks.frame import own_postgres, run_attack
from tests.e2e.bot_process import World, open_world
from tests.fakes.openai_server import ChatRequest, Reply
from tests.fakes.telegram_types import SentMessage

SORRY = {say("error_put_aside", language) for language in LANGUAGES}
FIRST_PERSON = 2**41 + 1
ANSWER_SECONDS = 120.0  # timeout after which a message counts as lost
START_SECONDS = 0.5  # approximate time of a forked start, during which some kills happen
WINDOW = 0.25  # seconds from Telegram's acceptance of an answer to the commit, on a busy machine
AFTERWARDS = 0.05  # seconds after a kill in which a request already sent can take effect
WORK_SECONDS = 3.0  # longest life after a start; the warm-up takes half a second


@dataclass
class Result:
    """Counts of what users noticed, and of the database afterwards.

    Attributes:
        lost: Messages without an answer or an apology.
        put_aside: Messages with an apology.
        out_of_order: Answers that came after the answer to a later message.
        duplicates: Answers that came more than once.
        unexcused: Duplicates that no kill explains.
        unhandled: Remaining updates and jobs, and answers not marked as delivered.
        rows_wrong: Deviation of the stored messages from one user row and one answer each. A
            message put aside has neither. If the third kill hit while its answer was being
            sent, the user has already written the next message and takes the apology for its
            answer; that message is answered together with the one after it, so it has no answer
            row either.
    """

    kills: int
    messages: int
    lost: int
    put_aside: int
    out_of_order: int
    duplicates: int
    unexcused: int
    unhandled: int
    rows_wrong: int
    seconds: float


async def run_loop(world: World, *, kills: int, people: int, seed: int) -> Result:
    """Kill the bot ``kills`` times while ``people`` users write; returns the counts."""
    start = time.monotonic()
    numbers = random.Random(seed)
    world.model.reply = slow_echo
    world.model.keep_requests = world.telegram.keep_calls = False
    enough = asyncio.Event()
    persons = range(FIRST_PERSON, FIRST_PERSON + people)
    talks = [asyncio.create_task(talk(world, person, enough, [])) for person in persons]
    killed_at = [await one_life(world, numbers) for _ in range(kills)]
    bot = await world.start()
    enough.set()
    sent = await asyncio.gather(*talks)
    with contextlib.suppress(AssertionError):
        await world.settled(30)
    await bot.terminate()
    counts = dict(zip(persons, sent, strict=True))
    return judge(world, killed_at, counts, seconds=time.monotonic() - start)


async def one_life(world: World, numbers: random.Random) -> float:
    """Start the bot and kill it at a random moment, one time in five during its start.

    Returns:
        `time.monotonic()` of the kill.
    """
    bot = world.process()
    await bot.spawn()
    if numbers.random() < 0.2:
        await asyncio.sleep(numbers.uniform(0, START_SECONDS))
    else:
        await bot.wait_started()
        await asyncio.sleep(numbers.uniform(0, WORK_SECONDS))
    moment = time.monotonic()
    await bot.kill()
    world.processes.remove(bot)
    return moment


async def talk(
    world: World, person: int, enough: asyncio.Event, waits: list[float], pause: float = 0.0
) -> int:
    """Write at least two messages, each after the last answer; returns their number.

    Args:
        world: The world.
        person: Who writes.
        enough: Set when no more is to be written.
        waits: Gets the seconds of each wait for an answer.
        pause: Seconds between an answer and the next message.
    """
    sent = 0
    answers = world.telegram.state.sent_by_chat[person]
    while sent < 2 or not enough.is_set():
        sent += 1
        start, seen, ends = time.monotonic(), len(answers), {f"эхо: №{sent}", *SORRY}
        await world.telegram.send_text(person, f"№{sent}")
        try:
            await world.telegram.wait_for(
                lambda seen=seen, ends=ends: any(is_whole(m, ends) for m in answers[seen:]),
                ANSWER_SECONDS,
            )
        except AssertionError:
            break  # lost; ``judge`` counts it
        waits.append(time.monotonic() - start)
        await asyncio.sleep(pause)
    return sent


def is_whole(message: SentMessage, texts: Container[str]) -> bool:
    """Return True if a message is one of these answers and, without a button, stored."""
    return message.text in texts and not message.reply_markup


def slow_echo(request: ChatRequest) -> Reply:
    """Echo slowly, so that kills can hit streams."""
    return Reply(text=f"эхо: {request.last_user_text}", chunk_size=2, chunk_delay=0.03)


def judge(world: World, killed_at: list[float], sent: dict[int, int], *, seconds: float) -> Result:
    """Compute the result from the chats and the database."""
    messages = sum(sent.values())
    lost = out_of_order = duplicates = unexcused = put_aside = 0
    for person, count in sent.items():
        moments: dict[int, list[float]] = defaultdict(list)
        echoes = [answer for answer in world.telegram.sent_to(person) if answer.text not in SORRY]
        for answer in echoes:
            moments[int(answer.text.rpartition("№")[2])].append(answer.at)
        apologies = sum(text in SORRY for text in world.answers(person))
        answers = [int(answer.text.rpartition("№")[2]) for answer in echoes]
        lost += max(0, sum(n not in moments for n in range(1, count + 1)) - apologies)
        put_aside += apologies
        out_of_order += sum(later < earlier for earlier, later in pairwise(answers))
        repeated = [at for times in moments.values() for at in times[:-1]]
        duplicates += len(repeated)
        gaps = [min((kill - at for kill in killed_at), key=abs) for at in repeated]
        unexcused += sum(not -AFTERWARDS <= gap <= WINDOW for gap in gaps)
    rows = Counter(role for (role,) in world.query("SELECT role FROM messages"))
    return Result(
        kills=len(killed_at),
        messages=messages,
        lost=lost,
        put_aside=put_aside,
        out_of_order=out_of_order,
        duplicates=duplicates,
        unexcused=unexcused,
        unhandled=left_over(world),
        rows_wrong=sum(
            max(rows[role] - messages, messages - missing * put_aside - rows[role], 0)
            for role, missing in (("user", 1), ("assistant", 2))
        ),
        seconds=round(seconds, 1),
    )


def left_over(world: World) -> int:
    """Return the number of pending updates and jobs, and of undelivered answers."""
    [(updates, jobs, undelivered)] = world.query(
        "SELECT (SELECT count(*) FROM telegram_updates WHERE handled_at IS NULL),"
        "(SELECT count(*) FROM procrastinate_jobs"
        " WHERE queue_name IN ('people', 'control') AND task_name <> 'plan_reminders'"
        " AND id NOT IN (SELECT job_id FROM job_deaths WHERE put_aside_at IS NOT NULL)),"
        "(SELECT count(*) FROM messages WHERE role = 'assistant' AND delivered_at IS NULL)"
    )
    return int(updates + jobs + undelivered)


async def main(kills: int, people: int, seed: int) -> Result:
    """Run the loop on its own PostgreSQL."""
    async with own_postgres() as own, open_world(own.dsn) as world:
        return await run_loop(world, kills=kills, people=people, seed=seed)


if __name__ == "__main__":
    options = {"--kills": 200, "--people": 20, "--seed": 1}
    run_attack(main, options, wrong=["lost", "out_of_order", "unexcused"])
