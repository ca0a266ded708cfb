"""What the field complains about: facts lost, refused, invented or retired; a scripted model.

Each case is told by a user whose model saves it with its tool, on a real database.
"""

from __future__ import annotations

import pytest

from src.reading.gate import MASK
from src.texts import say
from tests.fakes.openai_server import Reply
from tests.integration.person import Agents, Json, Person, denied, fact, saved, taught

PORT = fact("Работает в порту", quote="Работаю в порту", relation="works_at", object="порт")
LEEDS = fact("Lives in Leeds", quote="I live in Leeds", relation="lives_in", object="Leeds")
KYIV = fact("Мешкає в Києві", quote="Живу в Києві", relation="lives_in", object="Київ")


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
    (LEEDS, fact("Lives in Rome", quote="I wish I lived in Rome",
     relation="lives_in", object="Rome")),
    (KYIV, fact("Переїде до Одеси", quote="Наступного року переїду до Одеси",
     relation="lives_in", object="Одеса")),
    (KYIV, fact("Жив у Львові", quote="Раніше жив у Львові", relation="lives_in", object="Львів")),
    (fact("Жену зовут Аня", relation="married_to", object="Аня"),
     fact("Первую жену звали Катя", quote="Мою первую жену звали Катя",
      relation="married_to", object="Катя")),
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
    ("I almost moved to Rome", "moved to Rome", "Rome"),
    ("I'm thinking about moving to Bath", "moving to Bath", "Bath"),
    ("My profile says \"I live in Paris\" but that's old", "I live in Paris", "Paris"),
    ("Хотел бы жить у моря, в Сочи", "жить у моря, в Сочи", "Сочи"),
    ("Сосед думает, что я живу в Киеве", "я живу в Киеве", "Киев"),
    ("Кажуть, що я вже мешкаю у Римі, брехня", "я вже мешкаю у Римі", "Рим"),
    ("Should I move to Hull? Not sure", "move to Hull", "Hull"),
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


@pytest.mark.parametrize("thanks", [
    "ок, спасибо", "Ok thanks!", "дякую, зрозуміла", "да", "👍", "да-да", "не надо, спасибо",
    "Отлично, так и сделаю", "без проблем", "Good idea, will try!", "не треба, дякую",
])  # fmt: skip
async def test_thanks_for_advice_make_no_fact(person: Person, thanks: str) -> None:
    await person.say("Что от сахара?", "Помогает метформин")
    await tell(person, thanks, fact("Принимает метформин", quote=thanks))
    assert person.facts() == []


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


@pytest.mark.parametrize(("said", "quote"), [
    ("Ещё пью чёрный чай", "Еще пью черный чай"), ("Квартира 54 м2", "квартира 54 м²"),
    ("Сын в школе №25", "Сын в школе No 25"), ("Мій кiт Мурчик", "Мій кіт Мурчик"),
    ("Сын в школе № 25", "Сын в школе N25"), ("Люблю ... чай", "Люблю… чай"),
    ("Мама:Ольга (врач), 60", "Мама Ольга, врач, 60"), ("вешу ~80кг", "вешу 80 кг"),
    ("Рост 1,80м", "рост 1.80 м"), ("моя дочка — Аня", "моя дочка Аня"),
    ("люблю ка\u0301шу", "люблю кашу"), ("Зарплата 120 000₽", "зарплата 120000 ₽"),
    ("Мій комп\"ютер старий", "Мій комп’ютер старий"), ("Сім*я в Одесі", "Сім'я в Одесі"),
])  # fmt: skip
async def test_quotes_that_differ_in_signs_are_found(
    person: Person, said: str, quote: str
) -> None:
    await tell(person, said, fact("Так сказано", quote=quote))
    assert person.facts() == ["Так сказано"]


@pytest.mark.parametrize(("subject", "relation", "first", "second"), [
    ("Саша", "lives_in", ("Мой друг Саша живёт в Киеве", "Киев"),
     ("Коллега Саша живёт в Одессе", "Одесса")),
    ("brother", "works_as", ("My older brother is a cook", "cook"),
     ("My younger brother is a pilot", "pilot")),
    ("daughter", "age", ("Дочке Кате 5 лет", "5"), ("Дочке Маше 8 лет", "8")),
])  # fmt: skip
@pytest.mark.parametrize("claims", [False, True])
async def test_two_people_of_one_name_or_role_keep_their_facts(
    person: Person, subject: str, relation: str, first: tuple[str, str],
    second: tuple[str, str], claims: bool,
) -> None:  # fmt: skip
    for text, value in (first, second):
        known = person.rows("SELECT id FROM memories WHERE owner_id = %(owner)s")
        one = fact(text, subject=subject, relation=relation, object=value)
        one["replaces"] = [f"fact-{known[0][0]}"] if claims and known else []
        await tell(person, text, one)
    assert person.facts() == [first[0], second[0]]


@pytest.mark.parametrize(("relation", "old", "new"), [
    ("address", ("Живу: дом 12", "дом 12"), ("Нет, дом 12а", "дом 12а")),
    ("address", ("I live at 7 High St", "7 High St"), ("No, 7b High St", "7b High St")),
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


@pytest.mark.parametrize("text", [
    "I moved to Linux", "меня зовут домой", "My name is not John", "My name isn't Bob",
    "we moved to the new office",
])  # fmt: skip
async def test_plain_words_make_no_false_facts(agents: Agents, text: str) -> None:
    alone = await agents.person(llm_model="offline")
    await alone.say("Меня зовут Анна")
    await alone.say("Запомни: я живу в Лидсе")
    known = alone.facts()
    await alone.say(text)
    await alone.core.memory.digest.digest_turn(alone.conversation())
    assert alone.facts() == known


@pytest.mark.parametrize(("text", "secret"), [
    ("пiн-код картки 4455", "4455"), ("пapоль солнышко2020", "солнышко2020"),
    ("My pаsswоrd is hunter22", "hunter22"), ("мiй пapoль: ceкpeт77", "ceкpeт77"),
])  # fmt: skip
async def test_a_secret_in_mixed_scripts_is_one(person: Person, text: str, secret: str) -> None:
    await tell(person, text, fact(text))
    assert person.facts() == []
    stored = [content for role, content in person.rig.stored(person.user) if role == "user"]
    assert all(secret not in content for content in stored) and MASK in stored[0]


@pytest.mark.parametrize(("told", "asked"), [
    ("Мій кiт Мурчик спить", "де кіт?"), ("Мій кіт Мурчик спить", "де кiт?"),
    ("Мая сoбака Рекс", "собака"), ("Сын в школе №25", "школа 25"),
])  # fmt: skip
async def test_words_of_mixed_scripts_are_found(person: Person, told: str, asked: str) -> None:
    await tell(person, told, fact(told))
    await person.index()
    assert told in {hit.text for hit in await person.find(asked, by_words_only=True)}


@pytest.mark.parametrize(("first", "then", "asked"), [
    ("Живу в Омске", "Теперь живу в Туле", "Какой у меня был прежний город?"),
    ("I live in Leeds", "I've moved to York", "What was my previous city?"),
    ("Мешкаю в Сумах", "Переїхала до Черкас", "Де я жила раніше?"),
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
    ("Will works in the bank", "Where does Will work?"), ("Will is my plumber", "Who is Will?"),
    ("Our IT sits on floor 3", "what about IT?"), ("Ли - мой тренер", "Кто такой Ли?"),
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


async def test_a_false_verdict_of_a_conflict_retires_nothing(person: Person) -> None:
    person.mode, person.language = "strict", "uk"
    capital = fact("Київ - столиця України", subject="Київ", relation="столиця", object="Україна")
    await person.say(capital["text"], taught(capital))
    [(number,)] = person.rows("SELECT id FROM memories WHERE owner_id = %(owner)s")
    city = fact("Моє улюблене місто Львів", relation="favourite_city", object="Львів")
    answer = await person.say(city["text"], taught(city), denied((0, number)))
    assert answer.text == say("taught_new", "uk", text=city["text"])
    assert person.facts() == [capital["text"], city["text"]]


async def test_an_unsure_fact_does_not_replace_a_sure_one(person: Person) -> None:
    await tell(person, LEEDS["quote"], LEEDS)
    guess = fact("Lives in Oslo", quote="Oslo I guess", relation="lives_in", confidence=0.3)
    await tell(person, "Oslo I guess", guess)
    assert person.facts() == [LEEDS["text"], guess["text"]]
    sure = fact("Lives in Rome", quote="I live in Rome now", relation="lives_in", object="Rome")
    assert (await person.say("I live in Rome now", saved(sure), Reply(text="Ok"))).asks is None
    assert person.facts() == [sure["text"]]
