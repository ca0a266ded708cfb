"""Three processes on one database: the chats' order holds, and a dead worker's turns are done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.e2e.bot_process import BotProcess, World, eventually, open_world
from tests.fakes.openai_server import Reply

FIRST = 2**41 + 1
HELD = (
    "SELECT 1 FROM procrastinate_jobs WHERE status = 'doing' AND queue_name = 'people'"
    " AND worker_id = ANY(%s)"
)


class Hosts:
    """A receiver with room for one turn, and two workers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.processes: list[BotProcess] = []
        self.workers: list[list[int]] = []

    async def start(self, command: str, **settings: str) -> None:
        """One more process; of each it is known which workers it has."""
        self.processes.append(await self.world.start(command, **settings))
        before = {number for numbers in self.workers for number in numbers}
        count = len(before) + 3
        await eventually(lambda: len(self.world.workers()) == count, "all workers")
        self.workers.append([n for n in self.world.workers() if n not in before])

    def handled(self) -> list[int]:
        """How many updates each process says it handled."""
        return [
            sum(line.get("event") == "handled" for line in process.lines)
            for process in self.processes
        ]


@pytest.fixture(scope="module")
async def hosts(shared_dsn: str) -> AsyncIterator[Hosts]:
    async with open_world(shared_dsn) as world:
        made = Hosts(world)
        await made.start("run", WORKER_CONCURRENCY="1")
        await made.start("worker")
        await made.start("worker")
        yield made


async def test_three_processes_answer_each_message_once_and_in_order(hosts: Hosts) -> None:
    world = hosts.world
    people, messages = range(FIRST, FIRST + 12), 3
    world.model.reply = lambda request: Reply(
        text=f"эхо: {request.last_user_text}", chunk_size=3, chunk_delay=0.02
    )

    async def talk(person: int) -> None:
        for number in range(messages):
            await world.telegram.send_text(person, f"№{number}")
            await world.telegram.wait_sent(person, number + 1)

    await asyncio.gather(*(talk(person) for person in people))
    await world.settled()
    for person in people:
        assert world.answers(person) == [f"эхо: №{number}" for number in range(messages)]
    assert world.undelivered() == []
    total = len(people) * messages
    await eventually(lambda: sum(hosts.handled()) >= total, hosts.handled)
    assert sum(hosts.handled()) == total, "each once"
    assert sum(count > 0 for count in hosts.handled()) >= 2, "the work was shared"


async def test_stop_reaches_a_turn_in_another_process(hosts: Hosts) -> None:
    world, model = hosts.world, hosts.world.model
    people = range(FIRST + 100, FIRST + 103)
    model.reply = lambda _request: Reply(
        text="Начало. Конец.", chunk_size=8, gate=asyncio.Event(), gate_after_chunks=1
    )
    for person in people:
        await world.telegram.send_text(person, "расскажи")
    await model.wait_for(lambda: model.waiting_at_gate == len(people))
    at_receiver = world.query(HELD, hosts.workers[0])
    assert len(at_receiver) <= 1, "the others' turns are in the workers"

    def is_stopped(person: int) -> bool:
        return any("останов" in answer.lower() for answer in world.answers(person))

    for person in people:
        await world.telegram.send_text(person, "/stop")
        await eventually(partial(is_stopped, person), f"the end of {person}'s answer")
    await world.settled()
    assert not any("Конец" in world.answers(person)[0] for person in people)


async def test_every_reminder_is_delivered_once(hosts: Hosts) -> None:
    world = hosts.world
    people = range(FIRST + 200, FIRST + 212)
    for person in people:
        await world.telegram.send_text(person, "/remind через 2 секунды снять чайник")
    for person in people:
        await world.telegram.wait_sent(person, 2)
    waiting = "SELECT id FROM reminders WHERE is_waiting"
    await eventually(lambda: not world.query(waiting), "the deliveries to be noted")
    for person in people:
        assert world.answers(person).count("⏰ снять чайник") == 1
        assert len(world.answers(person)) == 2


async def test_the_turns_of_a_killed_worker_are_taken_over(hosts: Hosts) -> None:
    world, telegram, model = hosts.world, hosts.world.telegram, hosts.world.model
    people = range(FIRST + 300, FIRST + 306)
    gate = asyncio.Event()
    model.reply = lambda request: Reply(text=f"эхо: {request.last_user_text}", gate=gate)
    for person in people:
        await telegram.send_text(person, "вопрос")
    await model.wait_for(lambda: model.waiting_at_gate == len(people))
    held = [len(world.query(HELD, workers)) for workers in hosts.workers]
    assert sum(held) == len(people) and held[0] <= 1
    victim = held.index(max(held))
    abandoned = model.abandoned
    await hosts.processes[victim].kill()
    await model.wait_for(lambda: model.abandoned >= abandoned + held[victim])
    gate.set()
    world.presume_dead(hosts.workers[victim])
    for person in people:
        await telegram.wait_sent(person)
    await world.settled()
    assert [world.answers(person) for person in people] == [["эхо: вопрос"]] * len(people)
    assert world.undelivered() == []
    alive = [process for process in hosts.processes if process.running]
    assert [await process.terminate() for process in alive] == [0, 0]
