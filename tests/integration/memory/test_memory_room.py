"""What is found for a message fills its room in the prompt, and takes no more than that."""

from __future__ import annotations

import json
import re
from typing import Any

from src.memory.retriever import SHORT_PASSAGE
from tests.integration.person import FAKE_EMBEDDINGS, Agents, Person, fact
from tests.oracle import Oracle

MODEL = "openai:gpt-5-mini"
COUNTER = Oracle(MODEL)
QUESTION = "что с велосипедом?"
NOTES = 120


async def cyclist(agents: Agents, **settings: Any) -> Person:
    """A user whose many notes about a bicycle can be found and have left the window."""
    person = await agents.person(llm_model=MODEL, embedding_model=FAKE_EMBEDDINGS, **settings)
    notes = [("user", f"{n}. Велосипед скрипит, надо смазать цепь.") for n in range(NOTES)]
    person.rig.fill(person.conversation(), *notes, *[("assistant", "Хорошо.")] * 31)
    await person.index()
    return person


async def shown(person: Person, question: str = QUESTION) -> list[dict[str, Any]]:
    await person.say(question, "Сейчас")
    found = re.search(r"<memories>\n(.*)</memories>", person.rig.block("memories"), re.DOTALL)
    return [json.loads(line) for line in found[1].splitlines()] if found else []


async def test_it_is_filled_in_order_of_time(agents: Agents) -> None:
    person = await cyclist(agents)
    for tokens, least in ((500, 6), (3000, 50)):
        person.rig.set(memory_context_tokens=tokens)
        records = await shown(person)
        assert least <= len(records) < NOTES
        assert 0.8 * tokens < COUNTER.count(person.rig.block("memories")) <= tokens
        assert [record["n"] for record in records] == list(range(1, len(records) + 1))
        ids = [int(record["id"].removeprefix("msg-")) for record in records]
        assert ids == sorted(ids)


async def test_it_is_a_quarter_of_a_small_context(agents: Agents) -> None:
    person = await cyclist(agents, llm_context_size=4096)
    assert await shown(person)
    assert 700 < COUNTER.count(person.rig.block("memories")) <= 1024


async def test_facts_are_limited_by_number_and_give_way_to_messages(agents: Agents) -> None:
    person = await cyclist(agents)
    for number in range(40):  # more than the key facts have room for
        text = f"{number}. Храню велосипед в сарае вместе с лыжами и старым самокатом"
        await person.remember(fact(text, quote=text, object=text, importance=5))
    await person.index()
    for limit in (0, 2):
        person.rig.set(memory_retrieve_limit=limit)
        records = await shown(person, f"{limit}: где храню велосипед с лыжами?")
        facts = [record for record in records if record["id"].startswith("fact-")]
        assert len(facts) <= limit < 10 <= len(records)


async def test_of_a_long_message_the_passage_that_answers_is_shown(agents: Agents) -> None:
    person = await cyclist(agents)
    around = "Сегодня ездили на дачу, погода была хорошая, потом пили чай. " * 15
    told = f"{around}Ключ от сарая лежит под ковриком. {around}"
    again = [("user", "Велосипед снова скрипит"), ("user", "велосипед снова скрипит ")]
    answers = [("assistant", "Хорошо.")] * 31
    person.rig.fill(person.conversation(), ("user", told), *again, *answers)
    await person.index()
    texts = [record["text"].strip().lower() for record in await shown(person)]
    assert texts.count("велосипед снова скрипит") == 1, "what was repeated takes room once"
    records = await shown(person, "где ключ от сарая?")
    [text] = [record["text"] for record in records if "Ключ" in record["text"]]
    assert "под ковриком" in text and len(text) <= SHORT_PASSAGE
