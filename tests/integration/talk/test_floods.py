"""What a flood costs in the background: few calls, within a budget; nothing is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from src.memory.prompts import SUMMARY_PROMPT
from tests.integration.memory.test_memory_jobs import Works, is_extraction, open_works
from tests.integration.person import FAKE_EMBEDDINGS, USER, Rig

pytestmark = pytest.mark.core(embedding_model=FAKE_EMBEDDINGS)

HOUR_LATER = "UPDATE model_usage SET created_at = created_at - interval '1 hour'"


@pytest.fixture
async def works(rig: Rig) -> AsyncIterator[Works]:
    async with open_works(rig) as opened:
        yield opened


async def flood(works: Works, count: int, *, answered: bool = True) -> None:
    """So many messages of which only the last is answered."""
    conversation_id = works.rig.conversation()
    works.rig.fill(conversation_id, *[("user", f"сообщение {n}") for n in range(count - 1)])
    if answered:
        await works.turn("последнее")
    else:
        works.rig.fill(conversation_id, ("user", "последнее"))
        await works.defer("index_messages")


def covered(works: Works) -> tuple[int, int]:
    """Up to which position messages are summarised, and read for facts."""
    [row] = works.rig.rows(
        "SELECT coalesce((SELECT max(last_position) FROM conversation_summaries"
        " WHERE conversation_id = c.id), 0), c.extracted_position FROM conversations c"
        " WHERE c.telegram_user_id = %(user)s",
        user=USER,
    )
    return row


async def test_a_thousand_messages_cost_a_few_calls(works: Works) -> None:
    await flood(works, 1000)
    await works.work_off()
    assert covered(works) == (975, 1001)
    extractions = [request for request in works.digests if is_extraction(request)]
    summaries = [r for r in works.digests if r.system_text == SUMMARY_PROMPT]
    assert (len(summaries), len(extractions)) == (9, 6)
    assert len(works.digests) <= 17, "and a merge"
    ranges = works.rig.rows("SELECT first_position, last_position FROM conversation_summaries")
    assert sum(last - first + 1 for first, last in ranges) == 975, "gapless, nothing twice"
    assert works.unindexed() == 0


async def test_while_messages_keep_coming_the_digest_waits_for_a_while(works: Works) -> None:
    await flood(works, 100, answered=False)
    works.skip_pauses()
    await works.work()
    waits = 0
    while works.jobs() == [("digest_conversation", "todo")]:
        assert works.digests == []
        [(seconds,)] = works.rig.rows(
            "SELECT extract(epoch FROM scheduled_at - now()) FROM procrastinate_jobs"
        )
        assert 3 < seconds <= 5
        waits += 1
        works.rig.client.execute("UPDATE messages SET created_at = now()")  # still writing
        works.skip_pauses()
        await works.work()
    assert waits == 12, "a minute"
    assert covered(works) == (75, 100)
    await flood(works, 100, answered=False)
    works.rig.client.execute("UPDATE messages SET created_at = now() - interval '6 seconds'")
    works.skip_pauses()
    await works.work()
    assert covered(works)[1] == 200, "it ended, and nobody waits for an answer"


async def test_beyond_the_budget_the_rest_waits_and_comes_back(works: Works) -> None:
    works.rig.set(background_calls_per_hour=4)
    await flood(works, 1000)
    works.skip_pauses()
    await works.work()
    before = len(works.digests)
    assert before == 4
    seen = covered(works)
    assert 0 < seen[0] < 975
    for _ in range(3):  # the hour is not over; neither a turn nor the minute's job changes that
        await works.turn("ещё", USER + 1)
        await works.defer("remember_missed", timestamp=0)
        works.skip_pauses()
        await works.work()
    assert (len(works.digests), covered(works)) == (before, seen)
    [(seconds,)] = works.rig.rows(
        "SELECT extract(epoch FROM scheduled_at - now()) FROM procrastinate_jobs"
    )
    assert 3500 < seconds <= 3600, "no job spins until then"
    for _ in range(4):
        works.rig.client.execute(HOUR_LATER)
        works.skip_pauses()
        await works.work()
    assert covered(works) == (975, 1001), "nothing is lost"
    assert works.jobs() == []


async def test_the_budget_of_one_owner_is_not_another_s(works: Works) -> None:
    works.rig.set(background_calls_per_hour=1)
    for user in (USER, USER + 1):
        for number in range(10):
            await works.turn(f"реплика {number}", user)
    works.skip_pauses()
    await works.work()
    positions = works.rig.rows("SELECT extracted_position FROM conversations")
    assert positions == [(20,), (20,)], "each had one call"


async def test_a_digest_of_more_than_one_job_may_do_comes_back_by_itself(works: Works) -> None:
    works.rig.set(memory_extraction_window=2, summary_messages=100)
    await flood(works, 59)
    works.skip_pauses()
    await works.work()
    extractions = [request for request in works.digests if is_extraction(request)]
    assert (covered(works)[1], len(extractions)) == (60, 30), "windows of two, in three jobs"


async def test_one_s_flood_keeps_no_other_s_documents_from_being_embedded(works: Works) -> None:
    await works.turn("у меня есть кот", USER + 1)
    await works.turn("у меня есть пёс", USER + 2)
    await flood(works, 300)
    memory = works.rig.core.memory
    while await memory.digest.index_pending():
        pass
    model = await memory.space.model()
    texts = [document.text for document in memory.embeddings.list_unembedded(model.id, 8)]
    assert {"у меня есть кот", "у меня есть пёс", "последнее"} <= set(texts), "owners take turns"
    await memory.indexer.embed_pending()
    assert works.count("document_embeddings") == 302
