"""A question outlives its process, in Ukrainian: killed before the press, and in its midst."""

from __future__ import annotations

import psycopg2
import pytest

from src.texts import say
from tests.e2e.bot_process import World, eventually
from tests.e2e.test_memory_in_hand import USER, data_of, facts, press, write
from tests.fakes.telegram_types import SentMessage
from tests.integration.person import denied, fact, taught

KYIV, LVIV = (
    fact(f"Я живу у місті {city}", relation="lives_in", object=city) for city in ("Київ", "Львів")
)
WAITS = "SELECT 1 FROM pg_locks WHERE NOT granted"
EXPIRE = """
SELECT procrastinate_defer_jobs_v1(ARRAY[ROW(
    'housekeeping', 'expire_questions', 0, NULL, NULL, '{"timestamp": 0}', NULL
)::procrastinate_job_to_defer_v1])
"""
LEFT = "SELECT count(*) FROM open_questions UNION ALL SELECT count(*) FROM checkpoint_blobs"


async def ask(world: World) -> SentMessage:
    """Teach a city, pin it, teach another; the bot asks."""
    await write(world, "/mode strict", 1)
    world.model.queue(taught(KYIV))
    await write(world, KYIV["text"], 2)
    world.query("UPDATE memories SET pinned = true")
    world.model.queue(taught(LVIV), denied())
    question = await write(world, LVIV["text"], 3)
    told = say("conflict_pinned", "uk", old=KYIV["text"], new=LVIV["text"])
    assert question.text == f"{told}\n{say('conflict_ask', 'uk')}"
    assert facts(world) == [KYIV["text"]]
    return question


def check_replaced(world: World, question: SentMessage) -> None:
    """The new fact stands once, the message says so, and nothing waits any more."""
    told = say("taught_update", "uk", text=LVIV["text"], old=KYIV["text"])
    assert question.text.endswith(told) and facts(world) == [LVIV["text"]]
    assert world.query("SELECT count(*) FROM memories") == [(2,)]
    assert world.query(LEFT) == [(0,), (0,)]
    assert len(world.telegram.sent_to(USER)) == 3, "it stands where the question stood"


async def test_killed_between_the_question_and_the_press(world: World) -> None:
    bot = await world.start()
    question = await ask(world)
    await bot.kill()
    await world.start()
    asked = world.model.request_count
    await press(world, question, data_of(question, "conflict_replace"))
    check_replaced(world, question)
    assert world.model.request_count == asked
    await press(world, question, data_of(question, "undo_button"))
    assert facts(world) == [KYIV["text"]]


async def test_killed_while_the_press_is_at_work(world: World) -> None:
    bot = await world.start()
    question = await ask(world)
    data = data_of(question, "conflict_replace")
    blocker = psycopg2.connect(world.dsn)
    with blocker.cursor() as cursor:
        cursor.execute("LOCK TABLE memories IN SHARE MODE")
    await world.telegram.press_button(USER, question.message_id, data)
    await eventually(lambda: world.query(WAITS), "the fact to wait")
    await bot.kill()
    blocker.close()
    await world.start()
    await world.settled()
    check_replaced(world, question)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_while_what_came_of_it_is_shown(world: World, when: str) -> None:
    bot = await world.start()
    question = await ask(world)
    data = data_of(question, "conflict_replace")
    world.telegram.hang_next("editMessageText", when=when)  # type: ignore[arg-type]
    await world.telegram.press_button(USER, question.message_id, data)
    await world.telegram.wait_for(lambda: world.telegram.calls_of("editMessageText"))
    assert facts(world) == [LVIV["text"]]
    await bot.kill()
    await world.start()
    await world.settled()
    check_replaced(world, question)


async def test_an_answer_in_words_counts_in_another_process(world: World) -> None:
    bot = await world.start()
    question = await ask(world)
    await bot.kill()
    await world.start()
    answer = await write(world, "Залиш обидва", 4)
    await world.telegram.wait_for(lambda: question.text.endswith(answer.text))
    assert question.reply_markup is None
    assert answer.text == say("taught_beside", "uk", text=LVIV["text"], old=KYIV["text"])
    assert facts(world) == [KYIV["text"], LVIV["text"]] and world.query(LEFT) == [(0,), (0,)]


async def test_a_question_that_nobody_answers_says_so_when_it_is_over(world: World) -> None:
    await world.start()
    question = await ask(world)
    world.query("UPDATE open_questions SET asked_at = now() - interval '8 days'")
    world.query(EXPIRE)
    over = say("conflict_expired", "uk")
    await world.telegram.wait_for(lambda: question.text.endswith(over))
    assert question.reply_markup is None and facts(world) == [KYIV["text"]]
    assert len(world.telegram.sent_to(USER)) == 3, "it disturbs nobody with a message of its own"
