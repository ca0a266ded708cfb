"""What the field complains about: facts lost, refused, invented or retired; a scripted model.

Each case is told by a user whose model saves it with its tool, on a real database.
"""

from __future__ import annotations

import pytest

from tests.fakes.openai_server import Reply
from tests.integration.person import Agents, Json, Person, fact, saved

PORT = fact("Работает в порту", quote="Работаю в порту", relation="works_at", object="порт")
LEEDS = fact("Lives in Leeds", quote="I live in Leeds", relation="lives_in", object="Leeds")


@pytest.fixture
async def person(agents: Agents) -> Person:
    return await agents.person()


async def tell(person: Person, said: str, *facts: Json) -> None:
    """The user says something, and the model saves these facts of it."""
    await person.say(said, saved(*facts), "Ок")


def about(quote: str, relation: str, *values: str, subject: str = "user") -> list[Json]:
    """Facts of one sentence with one relation and different values."""
    return [
        fact(f"{value}: {quote}", quote=quote, relation=relation, object=value, subject=subject)
        for value in values
    ]


@pytest.mark.parametrize(("said", "relation", "values"), [
    ("Телефоны: мобильный 067 555 01 02, домашний 044 555 03 04", "phone", ("067 555 01 02",
     "044 555 03 04")),
    ("По будням работаю в школе, по выходным в баре", "works_at", ("школа", "бар")),
    ("Зимой живу в Омске, летом в Туле", "lives_in", ("Омск", "Тула")),
    ("Розмір 42 у взутті Nike і 43 в Adidas", "shoe_size", ("42", "43")),
])  # fmt: skip
async def test_two_values_of_one_sentence_both_hold(
    person: Person, said: str, relation: str, values: tuple[str, str]
) -> None:
    both = about(said, relation, *values)
    await tell(person, said, *both)
    assert {*person.facts()} == {one["text"] for one in both}  # tools run side by side


@pytest.mark.parametrize(("now", "then"), [
    (PORT, fact("Работал в аптеке", quote="До этого я работал в аптеке",
     relation="works_at", object="аптека")),
    (LEEDS, fact("Lives in Bath", quote="Living in Bath now",
     relation="lives_in", object="Bath", valid_until="2020-01-01")),
    (LEEDS, fact("Lives in Hull", quote="Living in Hull now",
     relation="lives_in", object="Hull", valid_from="2030-06")),
    (LEEDS, fact("Lives in York", quote="Living in York now",
     relation="lives_in", object="York", valid_until="2026-12-01")),
])  # fmt: skip
@pytest.mark.parametrize("claims", [False, True])
async def test_the_present_stays_whatever_was_or_will_be(
    person: Person, now: Json, then: Json, claims: bool
) -> None:
    await tell(person, now["quote"], now)
    [(known,)] = person.rows("SELECT id FROM memories WHERE owner_id = %(owner)s")
    await tell(person, then["quote"], then | {"replaces": [f"fact-{known}"] if claims else []})
    assert now["text"] in person.facts()


@pytest.mark.parametrize(("said", "quote", "value"), [
    ("If I lived in Tokyo I'd eat sushi daily", "I lived in Tokyo", "Tokyo"),
    ("My profile says \"I live in Paris\" but that's old", "I live in Paris", "Paris"),
    ("Сосед думает, что я живу в Киеве", "я живу в Киеве", "Киев"),
])  # fmt: skip
@pytest.mark.parametrize("claims", [False, True])
async def test_what_stands_around_a_trimmed_quote_counts(
    person: Person, said: str, quote: str, value: str, claims: bool
) -> None:
    await tell(person, LEEDS["quote"], LEEDS)
    known = person.fact_id(LEEDS["text"])
    guess = fact(f"Lives in {value}", quote=quote, relation="lives_in", object=value)
    await tell(person, said, guess | {"replaces": [f"fact-{known}"] if claims else []})
    assert LEEDS["text"] in person.facts()


async def test_a_wrong_id_does_not_retire_the_pinned_allergy(person: Person) -> None:
    nuts = fact("Аллергия на арахис", relation="allergic_to", importance=9, pinned=True)
    await tell(person, nuts["text"], nuts)
    [(known,)] = person.rows("SELECT id FROM memories WHERE owner_id = %(owner)s")
    tea = fact("Люблю чай", relation="likes", object="чай", replaces=[f"fact-{known}"])
    await tell(person, tea["text"], tea)
    assert person.facts() == [nuts["text"], tea["text"]]
    gone = fact(
        "Аллергии на арахис больше нет", relation="allergic_to", replaces=[f"fact-{known}"]
    )
    answer = await person.say(gone["text"], saved(gone), "Хорошо")
    assert answer.asks == "conflict" and person.facts() == [nuts["text"], tea["text"]]
    await person.say("Замени")
    assert person.facts() == [tea["text"], gone["text"]]


@pytest.mark.parametrize(("said", "text"), [
    ("Мой номер +380 67 123 45 67", "Телефон +380671234567"), ("Получаю 120к", "Зарплата 120 000"),
    ("I get up at half past seven", "Gets up at 7:30"), ("Живу в Киеве", "Lives in Kyiv"),
    ("Мама родилась 5 марта 1961", "Мама родилась 1961-03-05"),
    ("Ｍｙ ｃａｔ ｉｓ Ｔｏｍ", "The cat is Tom"),
])  # fmt: skip
async def test_what_the_model_writes_otherwise_is_kept(
    person: Person, said: str, text: str
) -> None:
    await tell(person, said, fact(text, quote=said))
    assert person.facts() == [text]


@pytest.mark.parametrize(("relation", "old", "new"), [
    ("address", ("Живу: дом 12", "дом 12"), ("Нет, дом 12а", "дом 12а")),
    ("lives_in", ("Живу в Києві", "Київ"), ("Переїхала до Львова", "Львів")),
])  # fmt: skip
async def test_a_correction_is_no_duplicate_and_is_named_with_its_undo(
    person: Person, relation: str, old: tuple[str, str], new: tuple[str, str]
) -> None:
    for text, value in (old, new):
        answer = await person.say(text, saved(fact(text, relation=relation, object=value)), "Ок")
    assert person.facts() == [new[0]] and len(answer.changes.replaced_by) == 1
    await person.rig.command("undo", person.user, language="ru")
    assert person.facts() == [old[0]]


@pytest.mark.parametrize(("told", "asked"), [
    ("Мій кiт Мурчик спить", "де кіт?"), ("Сын в школе №25", "школа 25"),
])  # fmt: skip
async def test_words_of_mixed_scripts_are_found(person: Person, told: str, asked: str) -> None:
    await tell(person, told, fact(told))
    await person.index()
    assert told in {hit.text for hit in await person.find(asked, by_words_only=True)}


@pytest.mark.parametrize(("first", "then", "asked"), [
    ("Живу в Омске", "Теперь живу в Туле", "Какой у меня был прежний город?"),
    ("I live in Leeds", "I've moved to York", "What was my previous city?"),
    ("I weigh 80 kg", "I weigh 77 kg now", "How much did I weigh before?"),
])  # fmt: skip
async def test_what_was_replaced_answers_a_question_about_the_past(
    person: Person, first: str, then: str, asked: str
) -> None:
    relation = "weight" if "weigh" in first else "lives_in"
    for text in (first, then):
        await tell(person, text, fact(text, relation=relation))
    await person.index()
    assert person.facts() == [then]
    assert first in {hit.text for hit in await person.find(asked) if hit.retired}


@pytest.mark.parametrize(("told", "asked"), [
    ("Will is my plumber", "Who is Will?"), ("Ли - мой тренер", "Кто такой Ли?"),
])  # fmt: skip
async def test_a_name_that_is_a_common_word_is_found(
    agents: Agents, told: str, asked: str
) -> None:
    alone = await agents.person(llm_model="offline")
    await alone.say(told)
    await alone.index()
    assert told in (await alone.say(asked)).text


@pytest.mark.parametrize("names", [
    ("Анне Петровне", "Анна Петровна"), ("Оле", "Оля"), ("Білій Церкві", "Біла Церква"),
])  # fmt: skip
async def test_forms_of_one_name_are_one_entity(person: Person, names: tuple[str, str]) -> None:
    for name in names:
        await tell(person, f"Тут {name}", fact(f"Тут {name}", object=name))
    entities = "SELECT count(*) FROM entities WHERE owner_id = %(owner)s"
    assert person.rows(entities) == [(1,)]


async def test_an_unsure_fact_does_not_replace_a_sure_one(person: Person) -> None:
    await tell(person, LEEDS["quote"], LEEDS)
    guess = fact("Lives in Oslo", quote="Oslo I guess", relation="lives_in", confidence=0.3)
    await tell(person, "Oslo I guess", guess)
    assert person.facts() == [LEEDS["text"], guess["text"]]
    sure = fact("Lives in Rome", quote="I live in Rome now", relation="lives_in", object="Rome")
    assert (await person.say("I live in Rome now", saved(sure), Reply(text="Ok"))).asks is None
    assert person.facts() == [sure["text"]]
