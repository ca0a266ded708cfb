"""The memory's jobs on the real queue: asked for by turns, done in the background, never lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from procrastinate import App, JobContext
from procrastinate.exceptions import AlreadyEnqueued
from procrastinate.worker import Worker

from src.base.owners import Owner
from src.memory.indexer import INDEX_BATCH
from src.memory.search_index_repo import Scale
from src.memory.tasks import MOST_EMBEDDED, MemoryTasks
from src.queue.job_repo import BACKGROUND_QUEUE, JobRepository
from src.queue.workers import build_queue
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import FAKE_EMBEDDINGS, USER, Rig
from tests.integration.turns import answer_turn

pytestmark = pytest.mark.core(embedding_model=FAKE_EMBEDDINGS)

INSERT_UPDATE = """
INSERT INTO telegram_updates (id, bot_id, update_id, kind, chat_id, user_id, payload)
OVERRIDING SYSTEM VALUE VALUES (%(update)s, 1, %(update)s, 'message', %(user)s, %(user)s, '{}')
"""
DUE = "SELECT 1 FROM procrastinate_jobs WHERE status = 'todo' AND scheduled_at IS NULL"
JOBS = "SELECT task_name, status::text FROM procrastinate_jobs ORDER BY task_name, id"


class Works:
    """A rig with its queue, and one worker that works when told to."""

    def __init__(self, rig: Rig, app: App) -> None:
        self.rig = rig
        self.app = app
        self.update = 0

    async def turn(self, text: str, user: int = USER, **changes: Any) -> None:
        self.update += 1
        await self.rig.client.run(
            self.rig.client.execute, INSERT_UPDATE, {"update": self.update, "user": user}
        )
        turn = await self.rig.begin(text, user, **changes)
        answer = await answer_turn(self.rig.core.agent, turn)
        mark = self.rig.core.turns.mark_delivered
        await self.rig.client.run(mark, turn.conversation_id, answer.id, update=self.update)

    async def work(self, **options: Any) -> None:
        """Do every job that is due, and those that they lead to."""
        while self.rig.rows(DUE):
            await self.app.run_worker_async(
                queues=[BACKGROUND_QUEUE],
                wait=False,
                concurrency=3,
                delete_jobs="successful",
                install_signal_handlers=False,
                **options,
            )

    def skip_pauses(self) -> None:
        self.rig.client.execute("UPDATE procrastinate_jobs SET scheduled_at = NULL")

    async def work_off(self, **options: Any) -> None:
        for _ in range(20):
            self.skip_pauses()
            await self.work(**options)
            if not self.jobs():
                return
        raise AssertionError(f"there is no end to it: {self.jobs()}")

    async def defer(self, task: str, **arguments: Any) -> None:
        await self.app.configure_task(task, queue=BACKGROUND_QUEUE).defer_async(**arguments)

    def jobs(self) -> list[tuple[str, str]]:
        return [(task, status) for task, status in self.rig.rows(JOBS)]

    def unindexed(self) -> int:
        return self.count("unindexed_messages")

    def count(self, table: str) -> int:
        return int(self.rig.rows(f"SELECT count(*) FROM {table}")[0][0])

    @property
    def digests(self) -> list[ChatRequest]:
        """What the models of the background were asked: summaries and extractions."""
        return [r for r in self.rig.model.requests if not is_answer(r)]


@asynccontextmanager
async def open_works(rig: Rig) -> AsyncIterator[Works]:
    """Tests are the clock: nothing is periodic."""
    app = build_queue(rig.core.dsn)
    async with app.open_async():
        memory = rig.core.memory
        MemoryTasks(memory.digest, memory.batches, memory.consolidation).register(app)
        app.periodic_registry.periodic_tasks.clear()
        rig.model.reply = reply
        yield Works(rig, app)


@pytest.fixture
async def works(rig: Rig) -> AsyncIterator[Works]:
    async with open_works(rig) as opened:
        yield opened


def is_answer(request: ChatRequest) -> bool:
    return "You are Pomni" in request.system_text


def is_extraction(request: ChatRequest) -> bool:
    return any(tool["function"]["name"] == "ExtractedFacts" for tool in request.tools)


def reply(request: ChatRequest) -> Reply:
    """An answer, a summary, or no facts."""
    if is_extraction(request):
        return Reply(tool_calls=[("ExtractedFacts", {"facts": []})])
    return Reply(text="ответ" if is_answer(request) else "сводка")


async def test_a_turn_during_the_indexing_asks_for_another_one(works: Works) -> None:
    await works.turn("привет")
    works.rig.client.execute("UPDATE procrastinate_jobs SET status = 'doing'")
    await works.turn("ещё")
    assert works.jobs() == [("index_messages", "doing"), ("index_messages", "todo")]


async def test_the_jobs_index_and_embed_what_was_said_by_everybody(works: Works) -> None:
    for user in range(USER, USER + 3):
        await works.turn("у меня есть кот", user)
    await works.work_off()
    assert works.unindexed() == 0
    documents = works.rig.rows(
        "SELECT o.telegram_user_id, d.speaker, e.model_id IS NOT NULL FROM search_documents d"
        " JOIN owners o ON o.id = d.owner_id"
        " LEFT JOIN document_embeddings e ON e.document_id = d.id ORDER BY d.id"
    )
    assert sorted(documents) == [
        (user, speaker, speaker == "user")
        for user in range(USER, USER + 3)
        for speaker in ("assistant", "user")
    ]
    assert works.digests == [], "nothing is to be digested yet"


async def test_a_job_is_short_so_that_a_process_that_is_often_killed_gets_on(works: Works) -> None:
    count = 2 * INDEX_BATCH + 50
    conversation = works.rig.core.conversations.get_or_create_conversation(USER)
    for number in range(count):
        works.rig.core.conversations.append_message(conversation, "user", f"слово {number}")
    ended: list[tuple[str, int]] = []

    async def note_end(
        call_next: Callable[[], Awaitable[Any]], context: JobContext, _worker: Worker
    ) -> None:
        await call_next()
        ended.append((context.job.task_name, works.unindexed()))

    await works.rig.client.run(JobRepository(works.rig.client).defer_indexing)
    await works.work_off(worker_middleware=[note_end])
    unindexed = [left for task, left in ended if task == "index_messages"]
    assert unindexed == [INDEX_BATCH + 50, 50, 0]
    embeddings = [task for task, _ in ended if task == "embed_documents"]
    assert len(embeddings) > count // MOST_EMBEDDED
    assert works.count("document_embeddings") >= count, "and summaries"


async def test_messages_that_lost_their_job_are_picked_up(works: Works) -> None:
    await works.turn("у меня есть уж")
    works.rig.client.execute("DELETE FROM procrastinate_jobs")
    await works.defer("remember_missed", timestamp=0)
    await works.work_off()
    assert (works.unindexed(), works.count("document_embeddings")) == (0, 1)


@pytest.mark.parametrize(
    ("minutes", "enabled", "expected"),
    [
        (59, True, 0),
        (61, True, 1),
        (7 * 24 * 60 + 59, True, 1),
        (8 * 24 * 60, True, 0),
        (61, False, 0),
    ],
)
async def test_a_silent_conversation_is_read_for_facts_after_an_hour(
    works: Works, minutes: int, enabled: bool, expected: int
) -> None:
    works.rig.set(memory_extraction_enabled=enabled)
    await works.turn("у меня есть дача")
    await works.work_off()
    works.rig.client.execute(
        "UPDATE messages SET created_at = created_at - make_interval(mins => %(minutes)s)",
        {"minutes": minutes},
    )
    for _ in range(2):
        await works.defer("remember_missed", timestamp=0)
        await works.work_off()
    assert len(works.digests) == expected, "once, and not every minute"
    positions = works.rig.rows("SELECT extracted_position FROM conversations")
    assert positions == [(2 * expected,)]


# --- outages


async def test_an_embedder_that_is_down_is_asked_again_and_later_succeeds(works: Works) -> None:
    works.rig.model.embeddings_error = Reply(status=503)
    await works.turn("у меня есть ёж")
    works.skip_pauses()
    await works.work()
    assert (works.unindexed(), works.count("document_embeddings")) == (0, 0)
    pauses = []
    for attempts in range(1, 8):
        assert works.jobs() == [("embed_documents", "todo")]
        [(arguments, seconds)] = works.rig.rows(
            "SELECT args, extract(epoch FROM scheduled_at - now()) FROM procrastinate_jobs"
        )
        assert arguments == {"attempts": attempts}
        pauses.append(float(seconds))
        works.skip_pauses()
        await works.work()
    assert pauses[0] < 1.5 < pauses[2] < 6 < pauses[4] and pauses[6] < 80
    works.rig.model.embeddings_error = None
    await works.work_off()
    assert works.count("document_embeddings") == 1


async def test_a_refused_embedding_key_is_no_reason_to_ask_for_ever(works: Works) -> None:
    works.rig.model.embeddings_error = Reply(status=401)
    await works.turn("у меня есть попугай")
    works.skip_pauses()
    await works.work()
    assert works.jobs() == [("embed_documents", "failed")]
    works.rig.model.embeddings_error = None
    await works.turn("и собака")
    works.skip_pauses()
    await works.work()
    assert works.count("document_embeddings") == 2, "the next turn's job did it"


async def test_a_digest_whose_model_is_down_is_done_later(works: Works) -> None:
    for number in range(14):
        await works.turn(f"реплика {number}")
    works.rig.model.reply = lambda request: (
        Reply(text="ответ") if is_answer(request) else Reply(status=503)
    )
    works.skip_pauses()
    await works.work()
    waiting = [("digest_conversation", "todo")]
    assert works.jobs() == waiting and works.count("conversation_summaries") == 0
    await works.turn("ещё")
    works.skip_pauses()
    await works.work()
    assert works.jobs() == waiting, "one for the conversation"
    works.rig.model.reply = reply
    await works.work_off()
    assert works.count("conversation_summaries") == 3


async def test_a_job_that_a_shutdown_interrupts_begins_again_though_another_waits(
    works: Works,
) -> None:
    for number in range(14):
        await works.turn(f"реплика {number}")
    model = works.rig.model
    model.reply = lambda request: Reply(hang=not is_answer(request), text="ответ")
    worker = asyncio.ensure_future(works.work_off(shutdown_graceful_timeout=1.0))
    await model.wait_for(lambda: works.digests, timeout=30)
    await works.turn("ещё")
    conversation = works.rig.rows("SELECT id::text FROM conversations")[0][0]
    lock = f"digest_conversation:{conversation}"
    again = works.app.configure_task(
        "digest_conversation", queue=BACKGROUND_QUEUE, lock=lock, queueing_lock=lock
    )
    with suppress(AlreadyEnqueued):  # the shutdown was quicker
        await again.defer_async(conversation_id=conversation)
    while not worker.done():  # wait_for of Python 3.11, in psycopg's pool, may swallow a cancel
        worker.cancel()
        await asyncio.wait([worker], timeout=10)  # another cancel would interrupt the shutdown
    jobs = [job for job in works.jobs() if job[0] == "digest_conversation"]
    assert jobs == [("digest_conversation", "todo")]
    model.reply = reply
    await works.work_off()
    assert works.count("conversation_summaries") == 3


async def test_new_between_the_turn_and_its_jobs_is_no_error(works: Works) -> None:
    for number in range(14):
        await works.turn(f"реплика {number}")
    [(conversation_id,)] = works.rig.rows("SELECT id::text FROM conversations")
    await works.rig.core.commands.forgetting.start_new_conversation(Owner(USER))
    await works.defer("digest_conversation", conversation_id=conversation_id)
    await works.work_off()
    assert works.jobs() == []
    assert all(map(is_extraction, works.digests)), "what was told is learnt, nothing is summed up"
    assert works.rig.rows("SELECT 1 FROM parting_messages") == []


# --- vectors that nobody uses


@pytest.mark.own_database
async def test_vectors_of_a_replaced_model_are_deleted_an_hour_later(works: Works) -> None:
    await works.turn("у меня есть кот")
    await works.work_off()
    client, embeddings = works.rig.client, works.rig.core.memory.embeddings
    current = await works.rig.core.memory.space.model()
    old, chosen_now, half_done = (
        embeddings.add_model(name, Scale(current.means, 0.0, 0.1))
        for name in ("old", "new", "half")
    )
    every = "SELECT id FROM search_documents ORDER BY id"
    documents = [number for (number,) in client.fetch_all(every)]
    vector = "[" + ",".join(["0"] * (current.dimensions - 1) + ["1"]) + "]"
    embeddings.add_vectors(old.id, dict.fromkeys([(number, 0) for number in documents], vector))
    embeddings.add_vectors(half_done.id, {(documents[0], 0): vector})
    embeddings.add_vectors(current.id, {(documents[1], 0): vector})
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    client.execute(
        "UPDATE embedding_models SET created_at = %(then)s WHERE id <> %(id)s",
        {"then": long_ago, "id": chosen_now.id},
    )

    await works.defer("delete_unused_vectors", timestamp=0)
    await works.work_off()
    names = [name for (name,) in client.fetch_all("SELECT name FROM embedding_models ORDER BY id")]
    assert names == ["openai:fake-embedding", "new", "half"]
    vectors = "SELECT document_id, model_id FROM document_embeddings"
    assert set(client.fetch_all(vectors)) == {
        (documents[0], current.id),
        (documents[1], current.id),
        (documents[0], half_done.id),
    }
    client.execute(
        "UPDATE embedding_models SET created_at = %(then)s WHERE name = 'new'", {"then": long_ago}
    )
    await works.defer("delete_unused_vectors", timestamp=0)
    await works.work_off()
    assert works.count("embedding_models") == 2


@pytest.mark.parametrize(
    ("name", "model"), [("openai:reader", "reader"), ("nobody:reader", None), ("reader", None)]
)
async def test_the_operator_says_which_model_reads_what_was_said(
    works: Works, name: str, model: str | None
) -> None:
    works.rig.set(memory_extraction_model=name)  # as by SQL: the page would refuse the odd ones
    for number in range(10):
        await works.turn(f"реплика {number}")
    await works.work_off()
    [asked] = [request.model for request in works.digests if is_extraction(request)]
    usual = works.rig.model.requests[0].model
    assert asked == (model or usual)
