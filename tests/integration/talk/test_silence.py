"""A slow server of one's own works for the background only while nobody writes."""

from __future__ import annotations

import pytest

from src.base.errors import PostponedError
from src.memory.tasks import SILENCE_SECONDS, SLOW_MILLISECONDS
from tests.fakes.openai_server import Reply
from tests.integration.person import Person, Rig, new_user

LAST_ANSWER_TOOK = """
UPDATE model_usage SET duration_ms = %(ms)s WHERE id = (SELECT max(id) FROM model_usage)
"""
SAID = "UPDATE messages SET created_at = now() - %(seconds)s * interval '1 second'"


@pytest.fixture
def reader(rig: Rig) -> Person:
    """A user whose every message is read for facts by the background."""
    rig.set(memory_extraction_window=1)
    rig.model.reply = lambda _request: Reply(tool_calls=[("ExtractedFacts", {"facts": []})])
    return Person(rig, new_user())


async def read(person: Person) -> int:
    """Do the background work; returns how many calls of the model it made."""
    before = len(person.requests)
    await person.core.memory.digest.digest_turn(person.conversation())
    return len(person.requests) - before


async def test_the_background_waits_until_everybody_is_silent(reader: Person) -> None:
    other = Person(reader.rig, new_user())
    await reader.say("я живу в Твери", "Понятно.")
    await other.say("привет", "Привет!")
    reader.client.execute(LAST_ANSWER_TOOK, {"ms": SLOW_MILLISECONDS})
    assert await read(reader) == 0
    digest = reader.core.memory.digest
    with pytest.raises(PostponedError) as postponed:
        await digest.wait_for_quiet(reader.conversation())
    assert 0 < postponed.value.retry_after <= SILENCE_SECONDS
    reader.client.execute(SAID, {"seconds": SILENCE_SECONDS})
    await digest.wait_for_quiet(reader.conversation())
    assert await read(reader) == 1


async def test_a_fast_server_serves_the_background_at_once(reader: Person) -> None:
    await reader.say("я живу в Твери", "Понятно.")
    reader.client.execute(LAST_ANSWER_TOOK, {"ms": SLOW_MILLISECONDS - 1})
    assert await read(reader) == 1


async def test_messages_that_new_deleted_wait_as_well(reader: Person) -> None:
    await reader.say("я живу в Твери", "Понятно.")
    reader.client.execute(LAST_ANSWER_TOOK, {"ms": SLOW_MILLISECONDS})
    await reader.rig.command("new", reader.user)
    before = len(reader.requests)
    await reader.say("привет", "Привет!")
    await reader.core.memory.digest.read_parting()
    assert len(reader.requests) == before + 1
    reader.client.execute(SAID, {"seconds": SILENCE_SECONDS})
    await reader.core.memory.digest.read_parting()
    assert len(reader.requests) == before + 2
