"""Extraction in batches, over providers that speak their wire formats: each window once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from src.pg.client import PgClient
from tests.attacks.batches import Scene, attack, open_scene
from tests.fakes.batch_servers import SERVERS, OpenAIBatches

JOBS = "SELECT status, requests, succeeded, failed, dropped FROM batch_jobs ORDER BY created_at"


@pytest.fixture
async def scene(client: PgClient) -> AsyncIterator[Scene]:
    async with open_scene(client, seed=1, share=0.0) as opened:
        yield opened


def facts(scene: Scene) -> list[str]:
    return [text for (text,) in scene.rig.rows("SELECT text FROM memories ORDER BY id")]


@pytest.mark.parametrize("provider", list(SERVERS))
async def test_windows_of_many_users_are_one_batch_and_leave_nothing_behind(
    scene: Scene, provider: str
) -> None:
    scene.rig.set(memory_extraction_provider=provider)
    scene.tell(5)
    asked_online = len(scene.rig.model.requests)
    for user in scene.users:  # the digest of a conversation leaves its window to the batch
        assert await scene.extraction.extract(scene.users[user]) == 0
    await scene.step()
    server = scene.servers[provider]
    assert server.submitted == 1 and server.holds("Барсик")
    await scene.step()
    assert facts(scene) == [], "it is not read yet"
    await scene.run()
    assert scene.check() == {} and len(facts(scene)) == 5
    assert scene.rig.rows(JOBS) == [("completed", 5, 5, 0, 0)]
    assert server.submitted == 1 and len(scene.rig.model.requests) == asked_online
    [(calls, tokens, models)] = scene.rig.rows(
        "SELECT count(*), sum(prompt_tokens), min(model) FROM model_usage"
        " WHERE purpose = 'extract_batch'"
    )
    assert (calls, tokens) == (5, 4500) and ":" in models


async def test_a_batch_is_begun_once_an_interval_and_none_without_being_asked(
    scene: Scene,
) -> None:
    server = scene.servers["openai"]
    scene.rig.set(memory_extraction_enabled=False)
    scene.tell(1)
    assert await scene.service.gather() == 0
    scene.rig.set(memory_extraction_enabled=True, memory_extraction_provider="immediate")
    assert await scene.service.gather() == 0
    scene.rig.set(memory_extraction_provider="openai", memory_extraction_interval_hours=2)
    assert await scene.service.gather() == 1
    await scene.run()
    scene.tell(3)
    assert await scene.service.gather() == 0, "not yet"
    age = "UPDATE batch_jobs SET created_at = created_at - interval '2 hours'"
    scene.rig.client.execute(age)
    assert await scene.service.gather() == 3
    assert server.submitted == 2


async def test_what_comes_after_new_or_an_erasure_is_for_nobody(scene: Scene) -> None:
    scene.tell(3)
    await scene.step()
    wiped, erased, left = scene.users
    scene.rig.core.conversations.create_new_conversation(wiped)
    scene.erased.add(wiped)
    scene.erase(erased)
    assert len(scene.rig.rows("SELECT 1 FROM batch_requests")) == 1
    await scene.run()
    assert scene.check() == {} and facts(scene) == [scene.words(left)]
    assert scene.rig.rows(JOBS) == [("completed", 3, 1, 0, 2)]


async def test_when_all_its_users_are_gone_a_batch_is_cancelled_and_deleted(scene: Scene) -> None:
    scene.rig.set(memory_extraction_provider="anthropic")
    scene.tell(2)
    await scene.step()
    for user in scene.users:
        scene.erase(user)
    await scene.step()
    assert ("POST", "/v1/messages/batches/msgbatch_1/cancel") in scene.servers["anthropic"].calls
    assert scene.check() == {} and scene.rig.rows("SELECT status FROM batch_jobs") == [
        ("completed",)
    ]


async def test_what_was_forgotten_while_it_was_read_stays_forgotten(scene: Scene) -> None:
    scene.tell(2)
    await scene.step()
    user, other = scene.users
    scene.rig.client.execute(
        "UPDATE messages SET is_forgotten = true, forgotten_at = now()"
        " WHERE conversation_id = %(id)s",
        {"id": str(scene.users[user])},
    )
    scene.erased.add(user)
    await scene.run()
    assert scene.check() == {} and facts(scene) == [scene.words(other)]


async def test_a_provider_that_refuses_us_leaves_the_windows_and_says_why(scene: Scene) -> None:
    server = scene.servers["openai"]
    server.failures = [("POST", "files", 401, False)]
    scene.tell(2)
    assert await scene.service.gather() == 2
    sql = "SELECT status, error_message, completed_at IS NOT NULL FROM batch_jobs"
    [(status, error, is_over)] = scene.rig.rows(sql)
    assert is_over, "so that it is deleted in time"
    assert status == "failed" and "401" in error
    assert scene.rig.rows("SELECT 1 FROM batch_requests") == []
    assert await scene.service.gather() == 0, "not at once"
    age = "UPDATE batch_jobs SET created_at = created_at - interval '61 minutes'"
    scene.rig.client.execute(age)
    await scene.run()
    assert scene.check() == {} and len(facts(scene)) == 2


async def test_a_paused_process_that_wakes_up_leaves_one_batch(scene: Scene) -> None:
    """It committed the intent, slept, and another process took it for dead."""
    server = scene.servers["openai"]
    assert isinstance(server, OpenAIBatches)
    scene.tell(1)
    sleeper, waker = scene._build(), scene.service
    submit = sleeper._submit
    hold: list[object] = []

    async def sleep(*args: object) -> None:
        hold.extend(args)

    sleeper._submit = sleep  # type: ignore[method-assign,assignment]
    await sleeper.gather()
    await waker.poll()
    await waker.gather()
    assert server.submitted == 1
    await submit(*hold)  # type: ignore[arg-type]
    assert server.submitted == 2
    await scene.run()
    assert scene.check() == {} and scene.rig.rows(JOBS) == [("completed", 1, 1, 0, 0)]


@pytest.mark.parametrize(
    ("provider", "stride"),
    [("openai", 3), *(pytest.param(name, 1, marks=pytest.mark.proof) for name in SERVERS)],
)
async def test_a_death_between_two_steps_changes_nothing(
    client: PgClient, provider: str, stride: int
) -> None:
    async with open_scene(client, seed=2, share=0.0) as scene:
        scene.rig.set(memory_extraction_provider=provider, memory_extraction_interval_hours=1)
        lives, deaths = 0, -1
        while deaths != scene.deaths:  # until a life is longer than the work
            deaths = scene.deaths
            scene.rig.client.execute(
                "UPDATE batch_jobs SET created_at = created_at - interval '2 hours'"
            )
            scene.tell(1, first=lives)
            scene.clock.left = stride * lives
            await scene.run()
            scene.clock.left = -1
            assert scene.check() == {}, f"after a death at step {stride * lives}"
            lives += 1
        assert scene.deaths == lives - 1 > 15 // stride
        assert scene.servers[provider].submitted <= lives, "none was sent twice for good"


async def test_a_bad_day_in_short(client: PgClient) -> None:
    report = await attack(client, windows=20, faults=0.2, seed=5)
    assert report["wrong"] == {}


async def test_the_attack_would_notice(scene: Scene) -> None:
    scene.tell(2)
    await scene.run()
    scene.rig.client.execute(
        "UPDATE memories SET text = 'чужое' WHERE id = (SELECT min(id) FROM memories)"
    )
    server = scene.servers["openai"]
    assert isinstance(server, OpenAIBatches)
    server.files["file-1"] = ("x", "Барсик")
    assert scene.check() == {"foreign": 1, "left at the provider": 1}
    scene.rig.client.execute("DELETE FROM memories")
    assert scene.check()["lost"] == 2
