"""What a turn and the background cost, in calls of the model."""

from __future__ import annotations

from collections import Counter

import pytest

from src.base.errors import TransientError
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import (
    Person,
    asked,
    called,
    denied,
    fact,
    forms,
    named,
    records,
    solved,
    taught,
)

LESSONS = (
    "Каждую субботу я хожу на рынок за яблоками",
    "Каждую субботу я хожу на рынок за хлебом",
)
FACTS = [fact(lesson, relation="habit", object=lesson[-8:]) for lesson in LESSONS]
# The background has its own models, so that their calls can be told apart.
BACKGROUND = {"summary_model": "openai:summaries", "extraction_model": "openai:extraction"}
pytestmark = pytest.mark.core(**BACKGROUND)


@pytest.fixture
async def pupil(person: Person) -> Person:
    """The same person in strict mode."""
    person.mode = "strict"
    return person


def calls(person: Person) -> Counter[str]:
    """How often each model was called."""
    return Counter(request.model for request in person.requests)


def purposes(person: Person) -> Counter[str]:
    """What the recorded calls were for."""
    rows = person.rows("SELECT purpose FROM model_usage WHERE owner_id = %(owner)s")
    return Counter(purpose for (purpose,) in rows)


def talk(person: Person, count: int) -> None:
    """A conversation of so many messages, the user's and the bot's in turns."""
    roles = ("user", "assistant")
    person.rig.fill(
        person.conversation(),
        *[(roles[number % 2], f"сообщение {number}") for number in range(1, count + 1)],
    )


async def digest(person: Person) -> None:
    await person.core.memory.digest.digest(person.conversation())


def background(request: ChatRequest) -> Reply:
    """A summary, or a window without facts."""
    if request.model == "extraction":
        return called("ExtractedFacts", facts=[])
    return Reply(text=f"Говорили, часть {len(named(request)[-1][1])}.")


# A turn


async def test_a_plain_turn_takes_one_call_whatever_is_remembered(person: Person) -> None:
    await person.say("привет")
    assert person.model.request_count == 1
    await person.remember(fact("Меня зовут Анна", importance=9))
    await person.index()
    talk(person, 40)
    await person.say("Как меня зовут?")
    assert person.model.request_count == 2
    assert [name for name, _ in named(person.requests[-1])][:2] == ["system", "user_facts"]
    assert purposes(person) == {"answer": 2}


async def test_teaching_takes_two_calls_when_the_first_finds_no_facts(pupil: Person) -> None:
    await pupil.say(LESSONS[0], taught(), called("ExtractedFacts", facts=[FACTS[0]]))
    assert forms(pupil.requests) == ["Understanding", "ExtractedFacts"]
    assert pupil.facts() == [LESSONS[0]]


async def test_conflict_candidates_take_one_call_more_for_all_of_them(pupil: Person) -> None:
    both = [fact(f"По субботам {what}", relation="habit") for what in ("сплю", "гуляю")]
    text = f"{both[0]['text']}. {both[1]['text']}. {LESSONS[1]}"
    await pupil.say(LESSONS[0], taught(FACTS[0]))
    await pupil.say(both[0]["text"], taught(both[0]), denied())
    before = len(pupil.requests)
    await pupil.say(text, taught(), called("ExtractedFacts", facts=[*both, FACTS[1]]), denied())
    assert forms(pupil.requests[before:]) == ["Understanding", "ExtractedFacts", "Conflicts"]
    assert purposes(pupil) == {"classify": 3, "extract": 1, "conflicts": 2}


async def test_a_question_takes_one_call_where_nothing_is_to_be_searched_again(
    pupil: Person,
) -> None:
    await pupil.say(LESSONS[0], taught(FACTS[0]))
    before = len(pupil.requests)
    [(number,)] = pupil.rows("SELECT id FROM memories WHERE owner_id = %(owner)s")
    answer = await pupil.say("Куда я хожу по субботам?", solved(f"На рынок [fact-{number}]"))
    assert (answer.text, answer.intent) == ("На рынок [1]", "solve")
    assert forms(pupil.requests[before:]) == ["Understanding"]
    assert records(pupil.requests[-1], "searched") == []
    assert [one["text"] for one in records(pupil.requests[-1], "context")] == [LESSONS[0]]
    assert purposes(pupil) == {"classify": 2}


async def test_solving_takes_four_calls_though_the_model_would_search_on(pupil: Person) -> None:
    for lesson, known in zip(LESSONS, FACTS, strict=True):
        await pupil.say(lesson, taught(known))
    before = len(pupil.requests)
    pupil.model.reply = lambda _request: asked(f"ещё раз рынок {len(pupil.requests)}")
    await pupil.say("Куда я хожу по субботам?")
    assert forms(pupil.requests[before:]) == ["Understanding"] * 4
    left = [records(request, "searched") for request in pupil.requests[before:]]
    assert [one["searches_left"] for [one] in left[1:]] == [2, 1, 0]
    assert purposes(pupil) == {"classify": 3, "reason": 3, "conflicts": 1}


# The background


@pytest.mark.parametrize(("count", "windows"), [(19, 0), (20, 1), (39, 1), (60, 3), (61, 1)])
async def test_extraction_takes_one_call_for_twenty_messages(
    person: Person, count: int, windows: int
) -> None:
    """Farther behind than three windows, it takes one for all of them."""
    person.model.reply = background
    talk(person, count)
    await digest(person)
    await digest(person)
    assert calls(person)["extraction"] == windows
    assert purposes(person)["extract"] == windows


async def test_turn_by_turn_every_message_is_read_once_and_few_calls_fold_them(
    person: Person,
) -> None:
    person.model.reply = background
    for _ in range(30):
        talk(person, 2)
        await digest(person)
    extractions = [request for request in person.requests if request.model == "extraction"]
    lines = [line for one in extractions for line in named(one)[-1][1].splitlines()]
    read = [line for line in lines if '"uid"' in line]
    assert len(read) == len(set(read)) == 60 and len(extractions) == 3
    # Of 60 messages 45 have left the window, 15 at a time, folded as 6, 6 and 3.
    assert 0 <= calls(person)["summaries"] - 9 <= 2, "and so many merges"


async def test_where_nothing_is_to_be_read_no_call_is_made(person: Person) -> None:
    person.model.reply = background
    person.rig.fill(person.conversation(), *[("assistant", "напоминаю")] * 20)
    await digest(person)
    assert calls(person)["extraction"] == 0, "only the bot spoke"
    talk(person, 40)
    person.rig.set(memory_extraction_enabled=False)
    await digest(person)
    assert calls(person)["extraction"] == 0 and calls(person)["summaries"] > 0


async def test_a_window_that_failed_is_read_again_and_no_other(person: Person) -> None:
    def fail_once(request: ChatRequest) -> Reply:
        if request.model == "extraction" and calls(person)["extraction"] == 2:
            return Reply(status=503)
        return background(request)

    person.model.reply = fail_once
    talk(person, 60)
    with pytest.raises(TransientError):
        await digest(person)
    await digest(person)
    windows = [
        named(request)[-1][1] for request in person.requests if request.model == "extraction"
    ]
    first, second, again, third = windows
    assert second == again and len({first, second, third}) == 3


# 30 messages are the window and a turn adds up to 3, so from the 28th on the first 15 leave it.
@pytest.mark.parametrize(("count", "folds"), [(27, 0), (28, 3), (42, 3), (43, 5), (57, 5)])
async def test_compaction_takes_one_call_for_six_messages_that_left_the_window(
    person: Person, count: int, folds: int
) -> None:
    person.model.reply = background
    talk(person, count)
    await digest(person)
    await digest(person)
    assert calls(person)["summaries"] == purposes(person)["summary"] == folds
