"""A model that calls no tools fills in forms: what is told is kept, and no JSON is seen."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from src.base.errors import ModelError
from src.core import build_caller
from src.llm.reply import ModelUsage
from src.talk.forms import ToldForm, find_words
from src.texts import say
from tests.attacks.model_replies import Script
from tests.fakes.openai_server import ChatRequest, Raw, Reply
from tests.integration.person import Agents, Person, Rig, called, fact, new_user, saved
from tests.integration.turns import answer_turn

pytestmark = pytest.mark.core(llm_calls="form")

REMINDERS = "SELECT text FROM reminders WHERE owner_id = %(owner)s AND is_waiting"


def told(*facts: str, **more: Any) -> str:
    """A filled form."""
    return json.dumps({"facts": facts, **more}, ensure_ascii=False)


def shapes(person: Person) -> list[str]:
    """What each request asked for: the form's name, tools, or text alone."""
    return [one.form or ("tools" if one.tools else "text") for one in person.requests]


async def test_what_is_told_comes_from_a_form_after_the_answer(person: Person) -> None:
    form = told("i cant eat gluten", "my brother jake lives in denver")
    said = "i cant eat gluten, and my brother jake lives in denver"
    answer = await person.say(said, "Noted!", form, language="en")
    assert answer.text == "Noted!"
    assert sorted(person.facts()) == ["i cant eat gluten", "my brother jake lives in denver"]
    assert answer.tools == ("save_user_fact", "save_user_fact")
    assert shapes(person) == ["text", "ToldForm"]
    asked, form_asked = person.requests
    assert form_asked.messages[: len(asked.messages)] == asked.messages, "the prefix is cached"
    assert said in form_asked.last_user_text
    form = told("my cat is called Tom", "user has a dog", "where is it?", "my cat is called Tom")
    answer = await person.say(
        "my cat is called Tom. where is it?", "Hi, Tom.\n\n⏰ I’ll remind you", form, language="en"
    )
    assert "i cant eat gluten" in person.rig.block("user_facts")
    prompt = str(person.requests[-1].messages)
    assert "save_user_fact" not in prompt and "Tools used" not in prompt
    assert person.facts()[2:] == ["my cat is called Tom"], "only the user's own words are kept"
    assert answer.text == "Hi, Tom.", "a copied confirmation is none"


async def test_a_form_that_stands_in_the_thoughts_alone_is_read(person: Person) -> None:
    form = f"They told me something.\n{told('my cat is called Tom')}"
    in_field = Script([], [], {}, "stop", extra={"reasoning_content": form}).stream()
    for thoughts in (Reply(raw=Raw(in_field)), f"<think>{form.replace('Tom', 'Rex')}</think>"):
        await person.say("my cat is called Tom, my cat is called Rex", "Noted!", thoughts)
    assert person.facts() == ["my cat is called Tom", "my cat is called Rex"]


@pytest.mark.parametrize(("wanted", "found"), [
    ("I'm Ann", "im Ann"), ("my cats name is Pixel", "my cat's name is Pixel"), ("Ель", "ёль"),
    ("and he is 4!", "and he is 4"), ("a dog", ""), ("", ""), ("...", ""),
])  # fmt: skip
def test_mended_words_are_found_as_they_were_typed(wanted: str, found: str) -> None:
    assert find_words(wanted, "hi, im Ann - my cat's name is Pixel and he is 4. ёль") == found


@pytest.mark.parametrize(("text", "language"), [
    ("remind me tomorrow at 9 to call the vet", "en"),
    ("напомни завтра в 9 позвонить врачу", "ru"), ("нагадай завтра о 9 подзвонити лікарю", "uk"),
])  # fmt: skip
async def test_a_reminder_is_read_and_confirmed_without_the_model(
    person: Person, text: str, language: Any
) -> None:
    answer = await person.say(text, language=language, moment=datetime.now(UTC))
    assert answer.text.startswith("⏰") and "9:00" in answer.text
    assert len(person.rows(REMINDERS)) == 1 and answer.changes.reminders
    assert not person.requests


async def test_what_rules_do_not_read_is_asked_in_the_form_before_the_answer(
    person: Person,
) -> None:
    form = told(reminders=[{"text": "the oven", "when": "in 20 minutes"}], forget=[])
    said = "can you give me a shout about the oven in 20 minutes"
    answer = await person.say(said, form, language="en", moment=datetime.now(UTC))
    assert shapes(person) == ["WantedForm"]
    assert [text for (text,) in person.rows(REMINDERS)] == ["the oven"]
    assert answer.text.startswith("⏰")


async def test_a_thing_is_forgotten_and_the_answer_says_so(person: Person) -> None:
    await person.say("не люблю рыбу", "Понятно.", told("не люблю рыбу"))
    answer = await person.say("забудь про рыбу")
    assert not person.facts() and answer.changes.forgetting is not None
    assert answer.text.startswith(say("forgot", "ru", text="не люблю рыбу"))


async def test_an_order_and_a_question_get_both(person: Person) -> None:
    said = "What is the capital of France? remind me tomorrow at 9 to call the vet"
    answer = await person.say(said, "Paris.", language="en", moment=datetime.now(UTC))
    assert answer.text.startswith("Paris.\n\n⏰")
    assert not person.requests[-1].tools
    assert "⏰" in str(person.requests[-1].messages[-1]["content"])


@pytest.mark.parametrize("text", [
    "как зовут мою собаку?", "привет!", "не запоминай это: у меня долг",
])  # fmt: skip
async def test_a_question_or_a_greeting_gets_no_form(person: Person, text: str) -> None:
    await person.say(text, "Ответ.")
    assert shapes(person) == ["text"] and not person.facts()


@pytest.mark.parametrize("text", ['{"answer": 1}', "<tools><function>x", "```json\n{}\n```"])
async def test_markup_is_no_answer(person: Person, text: str) -> None:
    shown: list[str] = []
    person.model.queue(Reply(text=text, chunk_size=1))
    turn = await person.begin("как дела у тебя?")
    answer = await answer_turn(person.core.agent, turn, on_text=shown.append)
    assert answer.text == say("empty_answer", "ru") and not "".join(shown)


@pytest.mark.parametrize("form", ["no JSON", "{}", '{"facts": [1, null]}', Reply(status=500)])
async def test_a_bad_form_costs_no_answer(rig: Rig, form: Reply | str) -> None:
    person = Person(rig, new_user())
    answer = await person.say("Мою собаку зовут Рекс", "Привет, Рекс!", form)
    assert answer.text == "Привет, Рекс!"
    await person.say("у меня есть кот", "Хорошо.", told("у меня есть кот"))  # counts as none


async def test_a_server_that_refuses_the_schema_is_asked_without(agents: Agents) -> None:
    # A process of its own: what a server refuses is remembered.
    person = Person(await agents.get(llm_calls="form", persona="Мария"), new_user())
    person.model.reply = _refuse_schema
    await person.say("люблю груши", language="ru")
    await person.say("люблю сливы", language="ru")
    assert person.facts() == ["люблю груши", "люблю сливы"]
    assert shapes(person) == ["text", "ToldForm", "text", "text", "text"]


def _refuse_schema(request: ChatRequest) -> Reply | str:
    if request.form:
        return Reply(status=400, error="response_format is not supported")
    if "JSON" in request.last_user_text:
        return told("люблю груши", "люблю сливы")
    return "Хорошо."


class Learner:
    """A new process, with a model of one's own that it does not know yet."""

    def __init__(self, rig: Rig) -> None:
        self.person = Person(rig, new_user(), language="en")
        self.person.model.reply = self._reply
        self.calls_tools = False
        self.fills_forms = True

    def _reply(self, request: ChatRequest) -> Reply | str:
        """Say something; fill in a form with all lines, if it can."""
        if request.form:
            asked = json.loads(request.last_user_text.split("\n")[1])["text"].splitlines()
            return told(*asked) if self.fills_forms else "Well!"
        if self.calls_tools and request.messages[-1]["role"] != "tool":
            return saved(fact(request.last_user_text))
        return "Nice."

    async def tell(self, *texts: str) -> list[str]:
        """Say these texts; returns the shapes of all requests for the last one."""
        for text in texts:
            before = len(self.person.requests)
            answer = await self.person.say(text)
            assert answer.text == "Nice."
        return shapes(self.person)[before:]


@pytest.fixture
def learner(rig: Rig) -> Learner:
    return Learner(rig)


FIRST, SECOND = "my cat is called Tom and he is four", "i left the spare keys with Olga next door"


@pytest.mark.core(llm_calls="auto")
@pytest.mark.own_database
async def test_a_model_that_calls_nothing_is_tried_and_then_given_forms(learner: Learner) -> None:
    assert await learner.tell(FIRST) == ["tools", "ToldForm"]
    assert await learner.tell(SECOND) == ["tools", "tools", "ToldForm"]
    assert sorted(learner.person.facts()) == sorted([FIRST, SECOND])
    answered, tried, form = learner.person.requests[-3:]
    assert tried.last_user_text == say("tools_example", "en")
    assert tried.messages[0] == answered.messages[0] and form.tools == answered.tools
    assert form.messages[: len(answered.messages)] == answered.messages, "the prefix is cached"
    assert await learner.tell("my brother lives in Denver now") == ["text", "ToldForm"]
    assert len(learner.person.facts()) == 3


@pytest.mark.core(llm_calls="auto")
@pytest.mark.own_database
async def test_a_model_that_calls_tools_keeps_them(learner: Learner) -> None:
    await learner.tell(FIRST)
    learner.calls_tools = True
    assert await learner.tell(SECOND) == ["tools", "tools"]
    learner.calls_tools = False
    assert await learner.tell("my brother lives in Denver now") == ["tools", "ToldForm"]
    assert await learner.tell("how are you?") == ["tools"]


@pytest.mark.core(llm_calls="auto")
@pytest.mark.own_database
async def test_a_model_that_saves_only_the_example_gets_forms_beside_its_tools(
    learner: Learner,
) -> None:
    await learner.tell(FIRST)
    learner.person.model.queue("Nice.", saved(fact("Olga is allergic to nuts")))
    assert await learner.tell(SECOND) == ["tools", "tools", "ToldForm"]
    assert await learner.tell("my neighbour has a red car") == ["tools", "ToldForm"]
    assert "my neighbour has a red car" in learner.person.facts()


@pytest.mark.core(llm_calls="auto")
@pytest.mark.own_database
async def test_what_is_told_to_a_model_that_only_searches_is_kept(
    learner: Learner,
) -> None:
    learner.person.model.queue(called("search_memory", query="cat"))
    assert await learner.tell(FIRST) == ["tools", "tools", "ToldForm"]
    assert learner.person.facts() == [FIRST]


@pytest.mark.core(llm_calls="auto")
@pytest.mark.own_database
async def test_a_reminder_that_it_only_promises_is_set_beside_its_answer(learner: Learner) -> None:
    said, now = "remind me tomorrow at 9 to call the vet", datetime.now(UTC)
    answer = await learner.person.say(said, moment=now)
    assert answer.text.startswith("Nice.\n\n⏰") and shapes(learner.person) == ["tools"]
    assert len(learner.person.rows(REMINDERS)) == 1


@pytest.mark.core(llm_calls="auto")
@pytest.mark.own_database
async def test_what_it_leaves_unsaid_after_its_tools_is_said(rig: Rig) -> None:
    person = Person(rig, new_user(), language="en")
    person.model.queue(saved(fact("i keep bees")), "")
    answer = await person.say("i keep bees")
    assert "i keep bees" in answer.text and answer.text != say("empty_answer", "en")


@pytest.mark.parametrize("way", ["auto", "tools"])
async def test_what_a_model_of_one_s_own_does_not_call_it_fills_in(rig: Rig, way: str) -> None:
    settings = rig.core.settings.model_copy(update={"llm_calls": way})
    caller, usage = build_caller(settings), list[ModelUsage]()
    rig.model.queue("I cannot call that.", told("i keep bees"))
    asked = caller.structured(
        [HumanMessage("i keep bees")], ToldForm, purpose="extract", on_usage=usage.append
    )
    if way == "tools":
        with pytest.raises(ModelError):
            await asked
    else:
        assert (await asked).facts == ["i keep bees"] and len(usage) == 2
