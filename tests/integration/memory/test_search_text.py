"""What a message is found by: the words of its facts, words in other languages; and questions."""

from __future__ import annotations

import pytest

from src.memory.queries import Query
from src.memory.writer import SourceText
from src.reading.facts import Fact
from tests.integration.person import FAKE_EMBEDDINGS, Agents, Person


@pytest.fixture
async def teller(agents: Agents) -> Person:
    """A person whose messages are found by words alone: the fake vectors mean nothing."""
    return await agents.person(embedding_model=FAKE_EMBEDDINGS)


async def found(person: Person, text: str, **changes: object) -> list[str]:
    """The texts that a question finds by its words, best first."""
    query = Query(person.owner, text, person.moment, threshold=1, by_words_only=True, **changes)  # type: ignore[arg-type]
    return [hit.text for hit in await person.core.memory.retriever.search(query)]


async def learn(person: Person, said: SourceText, text: str) -> int:
    fact = Fact(text=text, quote=said.text)
    outcome = await person.core.memory.memories.writer.remember(
        person.owner, fact, said, origin="extraction"
    )
    assert outcome.memory_id is not None, outcome
    return outcome.memory_id


def words_of(person: Person, said: SourceText) -> set[str]:
    rows = person.rows(
        "SELECT p.term FROM search_postings p JOIN search_documents d ON d.id = p.document_id"
        " WHERE d.message_id = %(message)s AND d.owner_id = %(owner)s",
        message=said.message_id,
    )
    return {term for (term,) in rows}


@pytest.mark.parametrize("is_indexed_first", [True, False])
async def test_a_message_is_found_by_the_words_of_its_facts(
    teller: Person, is_indexed_first: bool
) -> None:
    said = teller.write("взял наконец ту самую рыжую из приюта")
    if is_indexed_first:
        await teller.index()
    await learn(teller, said, "У пользователя есть кошка")
    await teller.index()
    assert await found(teller, "Какая кошка живёт у меня?", kinds=("message",)) == [said.text]


async def test_forgetting_a_fact_takes_its_words_from_the_message(teller: Person) -> None:
    said = teller.write("взял наконец ту самую рыжую из приюта")
    await teller.index()
    number = await learn(teller, said, "У пользователя есть канарейка")
    assert "кана" in words_of(teller, said)
    teller.rows("DELETE FROM memories WHERE id = %(id)s RETURNING id", id=number)
    assert words_of(teller, said) == {"взял", "нако", "ту", "саму", "рыжу", "прию"}


async def test_what_a_person_takes_back_leaves_the_search_text(teller: Person) -> None:
    said = teller.write("взял наконец ту самую рыжую из приюта")
    await teller.index()
    number = await learn(teller, said, "У пользователя есть канарейка")
    await teller.core.memory.memories.undo(teller.owner, number)
    assert "кана" not in words_of(teller, said)


async def test_mere_questions_are_found_where_questions_are_asked_for(teller: Person) -> None:
    for text in ("когда готова виза?", "Когда готова виза?", "виза готова к пятнице"):
        teller.write(text)
    teller.write("переживаю за визу, когда же она будет готова?")
    await teller.index()
    assert await found(teller, "что с визой?") == [
        "виза готова к пятнице",
        "переживаю за визу, когда же она будет готова?",
    ]
    asked = await found(teller, "что я спрашивал про визу?")
    assert len([text for text in asked if text.lower() == "когда готова виза?"]) == 1
    asked = await found(teller, "виза", with_questions=True)
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("мама печёт пироги", "what does my mother bake?"),
        ("мама пече пироги", "что печёт мать?"),
        ("Oleg has the spare key", "где запасной ключ, у Олега?"),
        ("ключ у Олега", "did Oleh take it?"),
        ("свадьба у Наталии", "when does Nataliia marry?"),
        ("the visa runs out in october", "что кончается в октябре?"),
        ("Zhadan is my landlord", "кто такой Жадан?"),
    ],
)
async def test_what_was_told_in_one_language_is_found_in_another(
    teller: Person, told: str, asked: str
) -> None:
    teller.write("ничего особенного сегодня")
    teller.write("nothing much happened")
    teller.write(told)
    await teller.index()
    assert await found(teller, asked) == [told]
