"""Who is served next: first messages before second ones, in order within each chat."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise

import pytest

from src.pg.client import PgClient
from src.queue.update_repo import NewUpdate, UpdateKind, UpdateRepository

BOT, ANNA, BORIS, VERA, GROUP = 555, 2**41 + 1, 2**41 + 2, 2**41 + 3, -(10**12)
FETCH = """
SELECT id, (args ->> 'update')::bigint, lock, queue_name
FROM procrastinate_fetch_job_v2(ARRAY[%(queue)s]::varchar[], %(worker)s)
"""
PRIORITIES = """
SELECT lock, id, priority FROM procrastinate_jobs WHERE status IN ('todo', 'doing') ORDER BY id
"""


class Line:
    """People who write, and a worker who serves them."""

    def __init__(self, client: PgClient) -> None:
        self.client = client
        self.updates = UpdateRepository(client)
        self.names: dict[int, str] = {}
        [(self.worker,)] = client.fetch_all("SELECT * FROM procrastinate_register_worker_v1()")
        self.running: dict[str, int] = {}

    def write(self, *named: tuple[str, NewUpdate]) -> None:
        """One batch of updates, each under a name of the test's."""
        self.updates.store(BOT, [update for _, update in named])
        rows = self.client.fetch_all("SELECT update_id, id FROM telegram_updates")
        ids = dict(rows)
        self.names |= {ids[update.update_id]: name for name, update in named}

    def serve(self, queue: str = "people") -> str | None:
        """A place is free: who gets it."""
        parameters = {"queue": queue, "worker": self.worker}
        row = self.client.fetch_one(FETCH, parameters)
        if row is None or row[0] is None:
            return None
        self.running[self.names[row[1]]] = row[0]
        return self.names[row[1]]

    def end(self, name: str) -> None:
        """What was served is done."""
        done = {"job": self.running.pop(name)}
        self.client.execute(
            "UPDATE telegram_updates SET handled_at = now() WHERE id = (SELECT"
            " (args ->> 'update')::bigint FROM procrastinate_jobs WHERE id = %(job)s)",
            done,
        )
        self.client.fetch_all(
            "SELECT procrastinate_finish_job_v1(%(job)s, 'succeeded', true)", done
        )

    def again(self, name: str) -> None:
        """What was served failed, and is tried again."""
        self.client.fetch_all(
            "SELECT procrastinate_retry_job_v2(%(job)s, now(), NULL, NULL, NULL)",
            {"job": self.running.pop(name)},
        )

    def serve_all(self, queue: str = "people") -> list[str]:
        """One place: everybody in turn."""
        served = []
        while (name := self.serve(queue)) is not None:
            served.append(name)
            self.end(name)
        return served

    def queues(self) -> dict[str, str]:
        """In which queue each one waits."""
        rows = self.client.fetch_all(
            "SELECT (args ->> 'update')::bigint, queue_name FROM procrastinate_jobs"
            " WHERE task_name = 'handle_update'"
        )
        return {self.names[update]: queue for update, queue in rows}


_numbers = iter(range(1, 10**9))


def update(
    user: int, chat: int | None = None, kind: UpdateKind = "message", **fields: object
) -> NewUpdate:
    number = next(_numbers)
    return NewUpdate(
        number, kind, {}, chat_id=chat or user, user_id=user, message_id=number, **fields
    )  # type: ignore[arg-type]


@pytest.fixture
def line(client: PgClient) -> Line:
    return Line(client)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_second_message_ranks_behind_the_first_one_of_others(line: Line, at_once: bool) -> None:
    arrivals = [
        *((f"a{n}", update(ANNA)) for n in range(1, 6)),
        *((f"b{n}", update(BORIS)) for n in range(1, 3)),
        ("v1", update(VERA)),
    ]
    if at_once:
        line.write(*arrivals)
    else:
        for arrival in arrivals:
            line.write(arrival)
    assert line.serve_all() == ["a1", "b1", "v1", "a2", "b2", "a3", "a4", "a5"]


def test_what_needs_no_order_does_not_wait_for_the_answer_of_its_chat(line: Line) -> None:
    line.write(("question", update(ANNA)))
    assert line.serve() == "question"
    line.write(
        ("mode", update(ANNA, kind="command")),
        ("button", update(ANNA, kind="callback", at_once=True)),
        ("other", update(ANNA, kind="callback", at_once=True)),
    )
    assert [line.serve("control") for _ in range(2)] == ["button", None], "one at a time"
    line.end("button")
    assert [line.serve("control"), line.serve()] == ["other", None]
    line.end("question")
    assert line.serve_all("control") == ["mode"]


def test_an_update_that_lost_its_job_comes_before_what_its_chat_wrote_later(line: Line) -> None:
    line.write(("lost", update(ANNA)), ("lost too", update(ANNA, kind="new")))
    line.client.execute("DELETE FROM procrastinate_jobs")
    line.client.execute("UPDATE telegram_updates SET received_at = now() - interval '1 hour'")
    line.write(("later", update(ANNA)))
    assert line.updates.requeue_orphaned(older_than=60) == 2
    line.write(("last", update(ANNA)))
    assert line.serve_all() == ["lost", "lost too", "later", "last"]


def test_what_lost_its_job_before_a_new_that_is_done_is_wiped(line: Line) -> None:
    line.write(
        ("said", update(ANNA)), ("photo", update(ANNA, kind="media")),
        ("taught", update(ANNA, kind="teach")), ("of another", update(BORIS)),
        ("new", update(ANNA, kind="new")), ("after", update(ANNA)),
    )  # fmt: skip
    line.client.execute("DELETE FROM procrastinate_jobs")
    line.client.execute("UPDATE telegram_updates SET received_at = now() - interval '1 hour'")
    line.client.execute("UPDATE telegram_updates SET handled_at = now(), outcome = 'done',"
                        " payload = '{}' WHERE kind = 'new'")  # fmt: skip
    assert line.updates.requeue_orphaned(older_than=60) == 3
    wiped = line.client.fetch_all(
        "SELECT kind FROM telegram_updates WHERE outcome = 'wiped' ORDER BY id"
    )
    assert wiped == [("message",), ("media",)]
    assert line.serve_all() == ["taught", "of another", "after"]


class Walk:
    """People write anywhere in batches, places open, turns end or are tried again."""

    def __init__(self, line: Line, seed: int) -> None:
        self.line = line
        self.chance = random.Random(seed)
        self.written: dict[str, list[str]] = defaultdict(list)
        self.served: dict[str, list[str]] = defaultdict(list)

    def write(self, step: int) -> None:
        """A batch, or nothing."""
        batch = []
        kinds: list[UpdateKind] = ["message", "message", "command", "edit", "new"]
        for number in range(self.chance.choice([0, 1, 1, 7])):
            person = ANNA + self.chance.randrange(3)
            chat = self.chance.choice([person, GROUP, GROUP - 1])
            name = f"{chat}#{step}.{number}"
            self.written[str(chat)].append(name)
            batch.append((name, update(person, chat, self.chance.choice(kinds))))
        if batch:
            self.line.write(*batch)

    def serve(self) -> None:
        """A place opens in some queue, and what it takes ends, or fails and comes back."""
        name = self.line.serve(self.chance.choice(["people", "control"]))
        if name is not None and self.chance.random() < 0.2:
            self.line.again(name)
        elif name is not None:
            self.line.end(name)
            self.served[name.partition("#")[0]].append(name)

    def priorities(self) -> list[list[int]]:
        """The priorities of what waits, chat by chat, in the order of arrival."""
        rows: dict[str, list[int]] = defaultdict(list)
        for lock, _, priority in self.line.client.fetch_all(PRIORITIES):
            rows[lock].append(priority)
        return list(rows.values())


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_each_chat_is_served_in_its_order(line: Line, seed: int) -> None:
    walk = Walk(line, seed)
    for step in range(60):
        walk.write(step)
        for _ in range(walk.chance.randrange(5)):
            walk.serve()
        assert all(a >= b for chat in walk.priorities() for a, b in pairwise(chat))
    for _ in range(10_000):
        if not walk.priorities():
            break
        walk.serve()
    assert walk.served == walk.written


def test_an_interruption_finds_what_runs_or_waits_for_another_attempt_and_is_older(
    line: Line,
) -> None:
    first, second = update(ANNA), update(ANNA)
    line.write(("first", first), ("second", second), ("stop", update(ANNA, kind="stop")))
    lock, before = f"chat:{BOT}:{ANNA}:0", max(line.names)
    assert line.updates.list_interruptible(lock, before=before) == [], "what waits stays"
    line.serve()
    [running] = line.updates.list_interruptible(lock, before=before)
    assert running == (line.running["first"], True, min(line.names))
    assert line.updates.list_interruptible(lock, before=min(line.names)) == []
    assert line.updates.list_interruptible(lock, before=before, draft_id=first.message_id)
    assert not line.updates.list_interruptible(lock, before=before, draft_id=second.message_id)
    line.again("first")
    [waiting] = line.updates.list_interruptible(lock, before=before)
    assert waiting == (running[0], False, running[2])
