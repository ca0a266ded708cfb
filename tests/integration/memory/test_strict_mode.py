"""Strict mode: the bot knows what it was taught, says where from, and nothing else."""

from __future__ import annotations

import json

import pytest

from src.base.errors import ModelUnavailableError
from src.base.owners import Owner
from src.texts import Language, detect_language, say
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import (
    Agents,
    Json,
    Person,
    Rig,
    asked,
    called,
    chosen,
    denied,
    fact,
    forgetting,
    forms,
    named,
    new_user,
    records,
    solved,
    taught,
)
from tests.integration.turns import answer_turn
from tests.languages import WRITTEN

CAPITAL = fact(
    "Київ - столиця України", subject="Київ", relation="столиця", object="Україна", importance=5
)
QUESTION = "Яка столиця України?"
KHARKIV, LVIV = (
    fact(
        f"Моє улюблене місто - {city}", memory_type="preference", subject="я",
        relation="улюблене місто", object=city,
    )
    for city in ("Харків", "Львів")
)  # fmt: skip


def pupil(rig: Rig) -> Person:
    return Person(rig, new_user(), language="uk", mode="strict", time_zone="Europe/Kyiv")


@pytest.fixture
async def person(agents: Agents) -> Person:
    return pupil(await agents.get())


@pytest.fixture
async def offline(agents: Agents) -> Person:
    return pupil(await agents.get(llm_model="offline"))


def lives(person: Person) -> dict[str, tuple[bool, str | None, str | None]]:
    """Of each fact: whether it holds, why not, and what took its place."""
    rows = person.rows(
        "SELECT text, retired_at IS NULL, retired_reason, replaced_by FROM facts"
        " WHERE owner_id = %(owner)s"
    )
    return {text: (holds, reason, successor) for text, holds, reason, successor in rows}


def messages(person: Person, role: str = "user") -> list[int]:
    return [*person.messages(role)]


def context_of(request: ChatRequest) -> list[Json]:
    """The quotes that a request gives the model as what is known."""
    prompt = named(request)[-1][1]
    _, _, rest = prompt.partition("<context>\n")
    return [json.loads(line) for line in rest.partition("</context>")[0].splitlines()]


# TEACH → SOLVE


async def test_what_is_taught_is_confirmed_and_stored_with_its_episode(person: Person) -> None:
    answer = await person.say(CAPITAL["text"], taught(CAPITAL))
    assert answer.text == say("taught_new", "uk", text="Київ - столиця України")
    assert (answer.intent, answer.sources) == ("teach", ())
    [message] = messages(person)
    uid = f"msg-{message}"
    assert person.sources() == [(CAPITAL["text"], uid, f"teach_{uid}", CAPITAL["text"])]
    assert person.rows(
        "SELECT subject, relation, object, memory_type, language, origin FROM memories"
        " WHERE owner_id = %(owner)s"
    ) == [("київ", "столиця", "Україна", "user_fact", "uk", "teach")]


async def test_what_was_taught_answers_the_question_with_its_reference(person: Person) -> None:
    await person.say(CAPITAL["text"], taught(CAPITAL))
    [message] = messages(person)
    reply = f"Столиця України - Київ [msg-{message}]"
    answer = await person.say(QUESTION, solved(reply))
    assert (answer.text, answer.intent) == ("Столиця України - Київ [1]", "solve")
    [source] = answer.sources
    assert (source.number, source.uid, source.text) == (1, f"msg-{message}", CAPITAL["text"])
    assert source.message_id == message
    assert source.memory_id == person.fact_id(CAPITAL["text"])
    [record] = context_of(person.requests[-1])
    assert (record["uid"], record["text"]) == (f"msg-{message}", CAPITAL["text"])
    assert record["said_at"] == "2026-11-20 08:01"
    assert person.facts() == [CAPITAL["text"]], "solving stores nothing as knowledge"


# Scenario 2: Conflict resolution


async def teach_both_cities(person: Person) -> str:
    """Харків, then Львів, which the model finds to deny it; the second reply."""
    await person.say(KHARKIV["text"], taught(KHARKIV))
    old = person.fact_id(KHARKIV["text"])
    answer = await person.say(LVIV["text"], taught(LVIV), denied((0, old)))
    return answer.text


async def test_the_model_is_shown_the_known_fact_the_new_takes_its_place(person: Person) -> None:
    reply = await teach_both_cities(person)
    assert reply == say("taught_update", "uk", text=LVIV["text"], old=KHARKIV["text"])
    assert forms(person.requests) == ["Understanding", "Understanding", "Conflicts"]
    prompt = named(person.requests[-1])[-1][1]
    old = person.fact_id(KHARKIV["text"])
    assert json.dumps({"known": old, "text": KHARKIV["text"]}, ensure_ascii=False) in prompt
    assert json.dumps({"new": 0, "text": LVIV["text"]}, ensure_ascii=False) in prompt
    assert lives(person) == {
        KHARKIV["text"]: (False, "replaced", LVIV["text"]),
        LVIV["text"]: (True, None, None),
    }
    first, second = (f"msg-{message}" for message in messages(person))
    assert person.sources() == [
        (KHARKIV["text"], first, f"teach_{first}", KHARKIV["text"]),
        (LVIV["text"], second, f"teach_{second}", LVIV["text"]),
    ]


async def test_who_asks_for_the_past_is_shown_what_held_before_as_past(person: Person) -> None:
    await teach_both_cities(person)
    await person.index()
    old, _ = messages(person)
    reply = f"Раніше улюбленим містом був Харків [msg-{old}]"
    answer = await person.say("Яке місто я раніше любив найбільше?", solved(reply))
    assert answer.text == "Раніше улюбленим містом був Харків [1]"
    shown = {one["text"]: one.get("note", "") for one in context_of(person.requests[-1])}
    assert shown[KHARKIV["text"]] == "held earlier, not any more" and not shown[LVIV["text"]]


async def test_a_model_that_finds_the_conflict_retires_what_no_rule_would(person: Person) -> None:
    known, told = "Я веганка", "Я щодня їм м’ясо"  # no word in common
    old_fact, new_fact = (fact(text, relation="habit", object=text) for text in (known, told))
    await person.say(known, taught(old_fact))
    conflict = denied((0, person.fact_id(known)))
    answer = await person.say(told, taught(new_fact), conflict)
    assert answer.text == say("taught_update", "uk", text=told, old=known)
    assert lives(person)[known] == (False, "replaced", told)


@pytest.mark.parametrize(("new", "known", "confidence"), [
    (0, 10**12, 0.9), (7, None, 0.9), (-1, None, 0.9), (0, None, 0.4),
], ids=["no such fact", "no such new", "negative", "doubtful"])  # fmt: skip
async def test_conflicts_that_the_model_makes_up_or_doubts_retire_nothing(
    person: Person, new: int, known: int | None, confidence: float
) -> None:
    first, second = (
        fact(f"Щосуботи вранці я купую {what} на ринку", relation="habit", object=what)
        for what in ("яблука", "груші")
    )
    await person.say(first["text"], taught(first))
    conflict = denied((new, known or person.fact_id(first["text"])), confidence=confidence)
    await person.say(second["text"], taught(second), conflict)
    assert forms(person.requests)[-1] == "Conflicts"
    assert person.facts() == [first["text"], second["text"]]


async def test_a_conflict_call_that_fails_loses_no_fact(person: Person) -> None:
    await person.say(KHARKIV["text"], taught(KHARKIV))
    answer = await person.say(LVIV["text"], taught(LVIV), Reply(status=503))
    assert answer.text == say("taught_update", "uk", text=LVIV["text"], old=KHARKIV["text"])
    assert person.facts() == [LVIV["text"]], "the rule for a favourite decides alone"


async def test_what_the_first_call_leaves_out_takes_another_and_all_conflicts_one_more(
    person: Person,
) -> None:
    known, *both = (
        fact(f"Щосуботи вранці я купую {what} на ринку", relation="habit", object=what)
        for what in ("яблука", "груші", "сливи")
    )
    await person.say(known["text"], taught(known))
    text = ". ".join(one["text"] for one in both)
    await person.say(text, taught(), called("ExtractedFacts", facts=both), denied())
    assert forms(person.requests[1:]) == ["Understanding", "ExtractedFacts", "Conflicts"]
    assert person.facts() == [one["text"] for one in (known, *both)]


# References


async def test_a_reference_that_was_not_in_the_context_is_dropped(person: Person) -> None:
    await person.say(CAPITAL["text"], taught(CAPITAL))
    [message] = messages(person)
    made_up = f"Столиця - Київ [msg-{message}] [msg-{message + 999}], стара [mem-1][sum-2] [7]."
    answer = await person.say(QUESTION, solved(made_up))
    assert answer.text == "Столиця - Київ [1], стара."
    assert [source.uid for source in answer.sources] == [f"msg-{message}"]


@pytest.mark.parametrize("reply", ["Київ.", "Київ [1]", "Київ [msg-999999999].", ""])
async def test_an_answer_without_a_reference_that_holds_becomes_i_do_not_know(
    person: Person, reply: str
) -> None:
    await person.say(CAPITAL["text"], taught(CAPITAL))
    for language in WRITTEN:
        answer = await person.say(QUESTION, solved(reply), language=language)
        assert answer.text == say("strict_unknown", language)
        assert answer.sources == () and detect_language(answer.text) == language
    assert len(person.requests) == 1 + len(WRITTEN)


async def test_without_any_context_nothing_is_generated(person: Person) -> None:
    person.model.reply = lambda _request: asked("ще щось")
    for language in WRITTEN:
        answer = await person.say(QUESTION, asked("столиця України"), language=language)
        assert answer.text == say("strict_unknown", language)
        assert (answer.sources, answer.intent) == ((), "solve")
    assert len(person.requests) == len(WRITTEN), "nothing is known that could be answered from"


async def test_nothing_is_shown_before_the_references_are_verified(person: Person) -> None:
    await person.say(CAPITAL["text"], taught(CAPITAL))
    shown: list[str] = []
    person.model.queue(solved("Вигадка [msg-999999999]"))
    turn = await person.begin(QUESTION)
    answer = await answer_turn(person.core.agent, turn, on_text=shown.append)
    assert shown == [answer.text] == [say("strict_unknown", "uk")]


# What is knowledge


async def test_what_the_bot_answers_is_never_knowledge(person: Person) -> None:
    lesson = "Мого кота звати Мурчик"
    await person.say(lesson, taught(fact(lesson, relation="name", subject="cat", object="Мурчик")))
    await person.index()
    uid = f"msg-{messages(person)[0]}"
    for number in range(4):
        claim = f"Мого кота звати Мурчик, а пса звати Брехло{number} [{uid}]"
        replies = [solved(claim)]
        answer = await person.say(f"Як звати мого кота, {number}?", *replies)
        assert answer.text == claim.replace(uid, "1")
        await person.core.memory.indexer.index_conversation(person.conversation())
    await person.index()
    await person.say("Як звати пса?", asked("пес Брехло"), solved(claim))

    answers = messages(person, "assistant")
    assert len(answers) == 6
    assert [text for text, *_ in person.sources()] == [lesson]
    assert person.rows(
        "SELECT count(*) FROM memory_sources WHERE message_id = ANY(%(ids)s)", ids=answers
    ) == [(0,)]
    quoted = [record for request in person.requests for record in context_of(request)]
    assert len(quoted) > 4
    assert {(record["uid"], record["text"]) for record in quoted} == {(uid, lesson)}


# The loop


async def test_the_loop_searches_three_times_at_most(person: Person) -> None:
    lessons = [f"У місті {name} живе моя тітка {name}а" for name in ("Аргос", "Бефор", "Векта")]
    for lesson in lessons:
        await person.say(lesson, taught(fact(lesson)))
    before = len(person.requests)
    person.model.reply = lambda _request: asked(f"ще {len(person.requests)}")
    await person.say("Аргос?", asked("Бефор"))
    turn = person.requests[before:]
    assert forms(turn) == ["Understanding"] * 4
    searched = [records(request, "searched") for request in turn]
    further = ["Аргос?", "Бефор", *(f"ще {before + number}" for number in (2, 3))]
    assert searched == [
        [], *([{"queries": further[: 4 - left], "searches_left": left}] for left in (2, 1, 0))
    ]  # fmt: skip


async def test_the_same_query_is_not_searched_twice(person: Person) -> None:
    await person.say(CAPITAL["text"], taught(CAPITAL))
    [message] = messages(person)
    again = [asked("столиця України"), asked(QUESTION), solved(f"Київ [msg-{message}]")]
    answer = await person.say(QUESTION, *again)
    assert answer.text == "Київ [1]"
    told = {"queries": [QUESTION, "столиця України"], "searches_left": 0}
    assert records(person.requests[-1], "searched") == [told]


async def test_a_turn_that_breaks_off_in_the_loop_is_answered_by_another_attempt(
    person: Person,
) -> None:
    await person.say(CAPITAL["text"], taught(CAPITAL))
    [message] = messages(person)
    turn = await person.begin(QUESTION)
    person.model.queue(asked("столиця"), Reply(status=503))
    with pytest.raises(ModelUnavailableError):
        await answer_turn(person.core.agent, turn)
    person.model.queue(solved(f"Київ [msg-{message}]"))
    assert (await answer_turn(person.core.agent, turn)).text == "Київ [1]"


# What is not learned


async def test_a_message_that_teaches_nothing_is_told_so(person: Person) -> None:
    answer = await person.say("Угу", taught(), called("ExtractedFacts", facts=[]))
    assert answer.text == say("taught_nothing", "uk")


# Forgetting


async def test_what_the_user_wants_forgotten_is_gone_for_good(person: Person) -> None:
    await person.say(CAPITAL["text"], taught(CAPITAL))
    await person.say(KHARKIV["text"], taught(KHARKIV))
    capital, city = messages(person)
    calls = len(person.requests)
    answer = await person.say(
        "Забудь про столицю", forgetting("столиця України"), chosen(f"msg-{capital}")
    )
    assert answer.text == say("forgot", "uk", text=CAPITAL["text"])
    assert (answer.intent, answer.sources) == ("forget", ())
    assert forms(person.requests[calls:]) == ["Understanding", "Forgetting"]
    assert person.facts() == [KHARKIV["text"]]
    assert [*person.messages(forgotten=False)] == [city]
    assert (await person.say(QUESTION, asked())).text == say("strict_unknown", "uk")


async def test_only_what_was_shown_can_be_forgotten(person: Person) -> None:
    await person.say(KHARKIV["text"], taught(KHARKIV))
    other = pupil(person.rig)
    await other.say(CAPITAL["text"], taught(CAPITAL))
    [theirs] = messages(person)
    answer = await other.say(
        "Забудь столицю",
        forgetting("столиця України"),
        chosen(f"msg-{theirs}", f"msg-{theirs + 1}0", "'; --", ""),
    )
    assert answer.text == say("forgot_nothing", "uk")
    assert context_of(other.requests[-1]), "there was something to choose from"
    assert other.facts() == [CAPITAL["text"]]
    assert person.facts() == [KHARKIV["text"]]


async def test_what_nobody_told_cannot_be_forgotten_and_costs_one_call(person: Person) -> None:
    answer = await person.say("Забудь про кота", forgetting("кіт"))
    assert answer.text == say("forgot_nothing", "uk")
    assert forms(person.requests) == ["Understanding"]


async def test_who_does_not_say_what_is_asked(person: Person) -> None:
    await person.say(CAPITAL["text"], taught(CAPITAL))
    for language in WRITTEN:
        answer = await person.say("Забудь усе", forgetting(), language=language)
        assert answer.text == say("erase_ask", language)
        answer = await person.say("Забудь", forgetting(), language=language)
        assert answer.text == say("forget_what", language)
    assert person.facts() == [CAPITAL["text"]]


# /mode


async def test_the_command_switches_the_mode_in_every_language(person: Person) -> None:
    commands, other = person.core.commands, Owner(person.user - 10**6)
    assert (await commands.settings.get(Owner(person.user))).mode == "assistant"
    for argument, mode in (
        ("strict", "strict"), ("обычный", "assistant"), ("строгий", "strict"),
        ("звичайний", "assistant"), ("суворий", "strict"), ("ASSISTANT", "assistant"),
        ("STRICT", "strict"),
    ):  # fmt: skip
        reply = await person.rig.command("mode", person.user, language="uk", argument=argument)
        assert reply == say(f"mode_set_{mode}", "uk")
        assert (await commands.settings.get(Owner(person.user))).mode == mode
        now = await person.rig.command("mode", person.user, language="uk")
        assert now == say(f"mode_is_{mode}", "uk")
    assert (await commands.settings.get(other)).mode == "assistant", "each has their own"


# The same with the model that needs no key


@pytest.mark.parametrize(("language", "tea", "request_", "question"), [
    ("ru", "Я люблю чай", "Забудь, что я люблю чай", "Что я люблю пить?"),
    ("uk", "Я люблю чай", "Забудь, що я люблю чай", "Що я люблю пити?"),
    ("en", "I love tea", "Forget that I love tea", "What do I love to drink?"),
])  # fmt: skip
async def test_the_offline_model_forgets(
    agents: Agents, language: Language, tea: str, request_: str, question: str
) -> None:
    offline = pupil(await agents.get(llm_model="offline"))
    offline.language = language
    await offline.say(CAPITAL["text"])
    await offline.say(tea)
    answer = await offline.say(request_)
    assert (answer.text, answer.intent) == (say("forgot", language, text=tea), "forget")
    assert offline.facts() == [CAPITAL["text"]]
    assert (await offline.say(question)).text == say("strict_unknown", language)
    assert (await offline.say(request_)).text == say("forgot_nothing", language)
