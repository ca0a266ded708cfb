"""Forgetting takes the thing and leaves its neighbours, without a model."""

from __future__ import annotations

import pytest

from tests.integration.person import Agents, Person, new_user


@pytest.mark.parametrize(("told", "order", "gone", "kept"), [
    ("mum takes warfarin, and she cant eat grapefruit", "forget the grapefruit bit",
     "grapefruit", "warfarin"),
    ("jonahs bday is 14 april and he likes lego", "dont like jonah lol forget his bday",
     "april", "lego"),
    ("flat 9 old lady tips cash, ring flat 4 twice", "forget the flat 9 thing she moved out",
     "cash", "twice"),
    ("рост: Лиза 98 см, Глеб 101 см", "забудь рост лизы, ошиблись", "98", "101"),
    ("масло в тракторе м10, аккум поменян в мае", "забудь про аккумулятор", "мае", "м10"),
    ("сукня: талія 66 груди 88 довжина 142", "забудь довжину сукні, зріжемо", "142", "66"),
    ("Мене звати Соломія, я граю на бандурі, а чоловік Остап ремонтує годинники",
     "забудь, що я граю на бандурі", "бандур", "Остап"),
    # What stands behind "but keep" stays, and so does what tells of health.
    ("cleaner bev comes mondays and charges 135, her number is 416 555 0172",
     "forget what bev charges but keep the rest", "135", "comes mondays and […], her number"),
    ("cleaner bev comes mondays and charges 135, her number is 416 555 0172",
     "forget bevs number, everything else stays", "0172", "charges 135"),
    ("my landlord phil is downstairs, rent is 950, he has a bad heart",
     "forget the rent but keep phil", "950", "downstairs, […], he has a bad heart"),
    ("няня оля по пятницам, берет 500 в час, у нее астма",
     "сколько оля берёт забудь, все остальное оставь", "500", "пятницам, […], у нее астма"),
    ("комната 417 сосед ринат, домофон 73К2", "забудь код домофона но про рината помни",
     "домофон", "сосед ринат"),
    ("домофон у мами 38В, живе на сихові, третій поверх",
     "забудь код домофона мами але де живе пам'ятай", "домофон", "живе на сихові, третій"),
    ("сестра катя у львові, працює в банку, в неї діабет",
     "забудь де працює катя, решту не чіпай", "банку", "львові, […], в неї діабет"),
])  # fmt: skip
async def test_a_clause_is_cut_out_and_the_others_stay(
    agents: Agents, told: str, order: str, gone: str, kept: str
) -> None:
    person = Person(await agents.get(llm_model="offline"), new_user())
    await person.say(told)
    await person.say(order)
    text = "\n".join(person.messages(forgotten=False).values())
    assert gone not in text and kept in text


@pytest.mark.parametrize(("told", "order", "left"), [
    (("milk makes me ill", "shopping list: glue, milk", "add milk to the shopping list"),
     "cross off milk", ["milk makes me ill", "shopping list: glue, […]"]),
    (("не пью кефир", "список покупок хлеб кефир сыр"), "кефир взял вычеркни",
     ["не пью кефир", "список покупок хлеб […] сыр"]),
    (("треба купити дріт, цвяхи та віск",), "викресли дріт",
     ["треба купити […], цвяхи та віск"]),
    (("shopping list milk eggs",), "forget my shopping list", []),
])  # fmt: skip
async def test_an_item_is_crossed_off_its_list_and_an_undo_brings_it_back(
    agents: Agents, told: tuple[str, ...], order: str, left: list[str]
) -> None:
    person = Person(await agents.get(llm_model="offline"), new_user())
    for text in (*told, order):
        await person.say(text)
    assert [*person.messages(forgotten=False).values()] == left
    await person.core.memory.memories.undo(person.owner)
    assert {*told} <= {*person.messages(forgotten=False).values()}


@pytest.mark.parametrize(("told", "order", "gone", "kept"), [
    ("I am allergic to nuts and I hate cilantro", "cilantro", "I hate cilantro",
     "I am allergic to nuts"),
    ("Люблю чай, кофе и какао", "кофе", "кофе", "Люблю чай, какао"),
    ("Олег любить джаз, а Віра грає в шахи", "про джаз Олега", "Олег любить джаз",
     "Віра грає в шахи"),
    ("Has asthma and plays the cello", "the cello", "plays the cello", "Has asthma"),
])  # fmt: skip
async def test_a_clause_is_cut_out_of_a_fact_and_an_undo_brings_it_back(
    agents: Agents, told: str, order: str, gone: str, kept: str
) -> None:
    person = Person(await agents.get(llm_model="offline"), new_user())
    await person.tell(told)
    memories = person.core.memory.memories
    assert (await memories.forget(person.owner, about=order)).texts == (gone,)
    assert person.facts() == [kept]
    cut = "SELECT text, object, quote FROM memories f JOIN memory_sources s ON s.memory_id = f.id"
    assert gone not in str(person.rows(f"{cut} WHERE owner_id = %(owner)s"))
    found = await person.find(kept)
    assert kept in [hit.text for hit in found if hit.kind == "memory"]
    assert await memories.undo(person.owner) == (None, [gone])
    assert person.facts() == [told]
    assert person.rows(f"{cut} WHERE owner_id = %(owner)s")[0][::2] == (told, told)


@pytest.mark.parametrize(("about", "gone", "kept"), [
    ("the plumber", "The plumber is Gus, 555 0199", []),
    ("the plumber's number", "555 0199", ["The plumber is Gus"]),
])  # fmt: skip
async def test_a_number_goes_with_the_clause_before_it_but_not_the_other_way_round(
    person: Person, about: str, gone: str, kept: list[str]
) -> None:
    await person.tell("The plumber is Gus, 555 0199", relation="phone")
    memories = person.core.memory.memories
    found = await memories.forget(person.owner, about=about)
    assert found.texts == (gone,) and person.facts() == kept
    assert len(person.messages(forgotten=False)) == len(kept)


@pytest.mark.parametrize(("order", "kept"), [
    ("забудь код сарая", ("private", "код ворот 1234, ключ у Лены")),
    ("забудь у кого ключ", ("private", "код ворот 1234, код сарая 5678")),
    ("забудь код ворот и код сарая", ("user_fact", None)),
])  # fmt: skip
async def test_a_code_that_was_forgotten_stays_in_no_fact(
    agents: Agents, order: str, kept: tuple[str, str | None]
) -> None:
    person = Person(await agents.get(llm_model="offline"), new_user())
    await person.say("код ворот 1234, код сарая 5678, ключ у Лены")
    private = "SELECT memory_type, private_text FROM memories WHERE owner_id = %(owner)s"
    told = person.rows(private)
    await person.say(order)
    assert person.rows(private) == [kept]
    await person.core.memory.memories.undo(person.owner)
    assert person.rows(private) == told


@pytest.mark.parametrize(("order", "choice", "other"), [
    ("забудь про заказ вадима он отменил", "первое", "купил молоко"),
    ("forget vadims order", "honey cake", "bought milk today"),
    ("he got it from vadim, forget about that debt", "honey cake", "bought milk today"),
])  # fmt: skip
async def test_the_nearest_is_forgotten_once_it_is_chosen(
    agents: Agents, order: str, choice: str, other: str
) -> None:
    told = "Вадим хочет медовик" if choice == "первое" else "vadim wants a honey cake"
    for answer, is_forgotten in ((choice, True), (other, False)):
        person = Person(await agents.get(llm_model="offline"), new_user())
        await person.say(told)
        await person.say(order)
        await person.say(answer)
        assert (told in person.messages(forgotten=True).values()) == is_forgotten
