"""Several processes on one database: the chats' order holds, and a dead worker's turn is done."""

from __future__ import annotations

import asyncio

from tests.e2e.bot_process import BotProcess, World, eventually
from tests.fakes.openai_server import Reply

FIRST = 2**41 + 1


def handled(process: BotProcess) -> int:
    """How many updates a process says it handled."""
    return sum(line.get("event") == "handled" for line in process.lines)


async def test_three_processes_answer_each_message_once_and_in_order(world: World) -> None:
    processes = [world.process("run"), world.process("worker"), world.process("worker")]
    await asyncio.gather(*(process.start() for process in processes))
    people, messages = range(FIRST, FIRST + 20), 5
    world.model.reply = lambda request: Reply(
        text=f"эхо: {request.last_user_text}", chunk_size=3, chunk_delay=0.02
    )

    async def talk(person: int) -> None:
        for number in range(messages):
            await world.telegram.send_text(person, f"№{number}")
            await world.telegram.wait_sent(person, number + 1, timeout=60)

    await asyncio.gather(*(talk(person) for person in people))
    await world.settled()
    for person in people:
        assert world.answers(person) == [f"эхо: №{number}" for number in range(messages)]
    assert world.undelivered() == []
    assert [await process.terminate() for process in processes] == [0, 0, 0]
    assert sum(map(handled, processes)) == len(people) * messages
    assert sum(handled(process) > 0 for process in processes) >= 2, "the work was shared"


async def test_stop_reaches_a_turn_in_another_process(world: World) -> None:
    telegram, model = world.telegram, world.model
    worker = await world.start("worker")
    gate = asyncio.Event()
    model.queue(Reply(text="Начало. Конец.", chunk_size=8, gate=gate, gate_after_chunks=1))
    receiver = await world.start("run")
    await telegram.send_text(FIRST, "расскажи")
    await model.wait_for(lambda: model.waiting_at_gate)
    await telegram.send_text(FIRST, "/stop")
    await telegram.wait_sent(FIRST, 2)
    await world.settled()
    assert "Конец" not in world.answers(FIRST)[0]
    assert [await receiver.terminate(), await worker.terminate()] == [0, 0]


async def test_the_turn_of_a_killed_worker_is_taken_over(world: World) -> None:
    telegram, model = world.telegram, world.model
    people = range(FIRST, FIRST + 6)
    gate = asyncio.Event()
    model.reply = lambda request: Reply(text=f"эхо: {request.last_user_text}", gate=gate)
    worker = await world.start("worker")
    await eventually(lambda: len(world.workers()) == 7, "a worker for each kind of work")
    dead = world.workers()
    await world.start("run", WORKER_CONCURRENCY="1")  # it has room for one turn
    for person in people:
        await telegram.send_text(person, "вопрос")
    await model.wait_for(lambda: model.waiting_at_gate == len(people))
    await worker.kill()
    await model.wait_for(lambda: model.abandoned >= len(people) - 1)
    gate.set()
    world.presume_dead(dead)
    await telegram.wait_for(
        lambda: len(telegram.sent) >= len(people), timeout=30, what="the killed worker's turns"
    )
    await world.settled()
    assert sorted(message.chat_id for message in telegram.sent) == list(people)
    assert {message.text for message in telegram.sent} == {"эхо: вопрос"}
    assert world.undelivered() == []
