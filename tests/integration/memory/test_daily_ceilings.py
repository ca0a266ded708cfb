"""What a day may cost: the sentence, until when, who is exempt, and what the background does."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from src.base.errors import PostponedError
from src.history.conversation_repo import TelegramOrigin
from src.talk.turn_state import Turn
from src.texts import say
from src.texts.plain_text import plain
from tests.integration.person import Person, Rig, incoming
from tests.integration.turns import answer_turn, begin_turn

ADMIN = 2**41 + 7
pytestmark = pytest.mark.core(admin_user_ids=frozenset({ADMIN}), timezone="Europe/Kyiv")

REFUSALS = {
    "ru": r"На сегодня ваш лимит исчерпан.* начну (\S+) в (\S+)\.$",
    "uk": r"На сьогодні ваш ліміт вичерпано.* почну (\S+) о (\S+)\.$",
    "en": r"Your limit for today is used up.* on (\S+) at (\S+)\.$",
}


@pytest.mark.parametrize("language", ["ru", "uk", "en"])
async def test_a_user_s_limit_ends_in_a_sentence_that_says_until_when(
    rig: Rig, language: str
) -> None:
    somebody = Person(rig, language=language, time_zone="Europe/London")  # type: ignore[arg-type]
    rig.set(daily_messages_per_user=2)
    for number in range(2):
        assert (await somebody.say(f"вопрос {number}", "ответ")).text == "ответ"
    asked = len(somebody.requests)
    refused = await somebody.say("ещё вопрос")
    assert len(somebody.requests) == asked, "the model was not asked"
    told = re.search(REFUSALS[language], refused.text)
    assert told is not None
    until = datetime.strptime(" ".join(told.groups()), "%d.%m.%Y %H:%M").replace(tzinfo=UTC)
    ahead = until - datetime.now(UTC)
    assert timedelta(hours=-1) < ahead <= timedelta(hours=26)
    assert until.hour in (21, 22, 23), "midnight in Kyiv, as it is in London"

    assert ("user", "ещё вопрос") in [
        (role, text.partition("] ")[2]) for role, text in rig.stored(somebody.user)
    ], "nothing is lost"
    for _ in range(3):
        message = incoming("и ещё", somebody.user, language=language)  # type: ignore[arg-type]
        outcome = await rig.core.agent.run_turn(Turn(message))
        assert outcome == "refused silently", "it was said once"
    usage = await rig.command("usage", somebody.user, language=language)  # type: ignore[arg-type]
    assert say("usage_messages", language, count=2, limit=2) in usage.splitlines()  # type: ignore[arg-type]
    stored = [role for role, _ in rig.stored(somebody.user)]
    assert stored.count("user") == 6 and stored.count("assistant") == 3
    other = Person(rig, user=somebody.user + 1)
    assert (await other.say("вопрос", "ответ")).text == "ответ", "another has his own"


async def test_the_refusal_is_searched_by_nobody_and_said_once_however_often_it_is_tried(
    rig: Rig,
) -> None:
    somebody = Person(rig)
    rig.set(daily_messages_per_user=1)
    await somebody.say("вопрос", "ответ")
    turn = await somebody.begin("ещё вопрос")
    first = await answer_turn(rig.core.agent, turn)
    again = await answer_turn(rig.core.agent, turn)
    assert (first.id, first.text) == (again.id, again.text)
    await somebody.index()
    sql = "SELECT count(*) FROM search_documents d WHERE message_id = %(id)s"
    assert rig.rows(sql, id=first.id) == [(0,)]


async def test_a_retried_message_counts_once(rig: Rig) -> None:
    somebody = Person(rig)
    rig.set(daily_messages_per_user=1)
    origin = TelegramOrigin(1, somebody.user, 5, somebody.user)
    turn = await somebody.begin("вопрос", origin=origin)
    assert (
        await rig.core.ceilings.find_reached(
            turn.incoming.sender_id,
            turn.incoming.owner.telegram_user_id,
            conversation_id=turn.conversation_id,
            is_new=turn.is_new,
        )
        is None
    )  # and then the process died
    again = await begin_turn(rig.core.agent, turn.incoming)
    rig.model.queue("ответ")
    assert (await answer_turn(rig.core.agent, again)).text == "ответ"


async def test_tokens_have_a_limit_of_their_own_and_the_background_keeps_it(rig: Rig) -> None:
    somebody = Person(rig, language="en")
    await somebody.say("question", "answer")
    [(spent,)] = rig.rows("SELECT sum(prompt_tokens + completion_tokens) FROM model_usage")
    rig.set(daily_tokens_per_user=spent)
    assert "limit for today" in (await somebody.say("question")).text
    with pytest.raises(PostponedError) as caught:
        await rig.core.ceilings.check_background(rig.conversation(somebody.user))
    assert caught.value.retry_after is not None
    assert 60 <= caught.value.retry_after <= 86_400
    rig.set(daily_tokens_per_user=spent + 1)
    await rig.core.ceilings.check_background(rig.conversation(somebody.user))
    assert (await somebody.say("question", "answer")).text == "answer"


@pytest.mark.parametrize("ceiling", ["daily_messages", "daily_tokens"])
async def test_the_whole_bot_s_limit_stops_everybody_but_admins_and_is_counted(
    rig: Rig, ceiling: str
) -> None:
    somebody, other = Person(rig, language="en"), Person(rig, user=2**41 + 9, language="uk")
    admin = Person(rig, user=ADMIN)
    await admin.say("вопрос", "ответ")
    rig.set(**{ceiling: 1})
    if ceiling == "daily_messages":
        await somebody.say("question", "answer")
    assert plain((await somebody.say("question")).text).startswith("my limit for today")
    assert "ліміт бота" in (await other.say("питання")).text
    assert (await admin.say("вопрос", "ответ")).text == "ответ"
    refusals = rig.core.metrics.render().decode()
    assert f'pomni_ceiling_refusals_total{{ceiling="{ceiling}"}} 2.0' in refusals
