"""Nobody searches for what the prompt shows whole, and everything else is still found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from src.memory.retrieval_repo import RetrievalRepository, Shown
from tests.integration.person import FAKE_EMBEDDINGS, Person, Rig, called

pytestmark = pytest.mark.core(embedding_model=FAKE_EMBEDDINGS)

ASKED = "где лежат запасные ключи от дачи"
TOLD = "запасные ключи от дачи лежат у соседа"


def is_all_shown(person: Person) -> bool:
    beyond = RetrievalRepository(person.client).has_documents_outside
    return not beyond(person.owner, person.conversation())


async def ask(person: Person, text: str = ASKED) -> str:
    await person.say(text, "Сейчас")
    return person.rig.block("memories")


# In the shared database another model may serve, whose requests nobody sees.
@pytest.mark.own_database
async def test_nothing_is_searched_while_the_prompt_shows_all(rig: Rig) -> None:
    person = Person(rig)
    await person.say(TOLD, called("save_user_fact", text=TOLD), "Запомнил")
    await person.index()
    assert person.facts() == [TOLD] and is_all_shown(person)
    person.model.embedding_requests.clear()
    assert await ask(person) == ""
    assert person.model.embedding_requests == [], "nor is the question embedded"
    found = await person.find(ASKED, shown=Shown(person.conversation(), 1))
    assert found == [], "a search finds nothing"
    assert await person.find(ASKED), "but for what the prompt shows"


async def test_what_left_the_prompt_is_found(person: Person) -> None:
    await person.say(TOLD, "Хорошо")
    for number in range(15):
        await person.say(f"день {number}", "Ясно")
    await person.index()
    assert TOLD in await ask(person)


async def test_a_fact_outlives_its_conversation(person: Person) -> None:
    await person.say(TOLD, called("save_user_fact", text=TOLD), "Запомнил")
    await person.index()
    await person.rig.command("new", person.user)
    assert not is_all_shown(person)


async def test_another_topic_is_searched(person: Person) -> None:
    other = replace(person, thread=7)
    other.write(TOLD)
    await other.index()
    assert not is_all_shown(person) and is_all_shown(other)
    assert TOLD in await ask(person)


async def test_a_secret_is_found_by_its_name_where_the_prompt_masks_it(person: Person) -> None:
    await person.say("код домофона 38к7162, запомни")
    await person.index()
    assert person.rows("SELECT text FROM memories WHERE owner_id = %(owner)s") and person.facts()
    assert not is_all_shown(person)
    assert "38к7162" in await ask(person, "какой код домофона")
