"""An answer has an end: in characters, in seconds, and when there is nothing of it to see."""

from __future__ import annotations

import pytest

from src.talk.graph_run import truncate
from src.texts import say
from tests.fakes.openai_server import Reply
from tests.integration.person import Agents, Rig


async def test_a_model_that_streams_for_ever_is_cut_and_left(rig: Rig) -> None:
    rig.set(answer_max_characters=500)
    rig.model.queue(Reply(text="слово " * 100_000, chunk_size=50, chunk_delay=0.001))
    answer = await rig.ask("вопрос")
    sentence = say("cut_long", "ru")
    assert answer.text == f"{('слово ' * 100)[:500].rstrip()}\n\n{sentence}"
    await rig.model.wait_for(lambda: rig.model.abandoned == 1)
    assert rig.stored()[-1] == ("assistant", answer.text)


async def test_code_is_closed_before_the_sentence() -> None:
    text = truncate("```python\n" + "x = 1\n" * 100, 300, "en")
    assert text.endswith(f"\n```\n\n{say('cut_long', 'en')}")


async def test_what_a_slow_model_has_written_in_its_time_is_the_answer(rig: Rig) -> None:
    rig.set(answer_max_seconds=1)
    rig.model.queue(Reply(text="раз " * 1000, chunk_size=4, chunk_delay=0.2))
    answer = await rig.ask("вопрос")
    assert answer.text.startswith("раз") and answer.text.endswith(say("cut_slow", "ru"))
    await rig.model.wait_for(lambda: rig.model.abandoned == 1)


@pytest.mark.parametrize("timeouts", [{}, {"llm_timeout": 600}])
async def test_the_time_counts_from_the_first_word(
    agents: Agents, timeouts: dict[str, float]
) -> None:
    rig = await agents.get(**timeouts)
    rig.set(answer_max_seconds=1)
    rig.model.queue(Reply(text="прочитано", delay=1.5))
    assert (await rig.ask("вопрос")).text == "прочитано"


@pytest.mark.parametrize("text", [" \n" * 4000, "\u200b" * 8000])
async def test_a_model_that_sends_nothing_to_see_for_ever_ends(rig: Rig, text: str) -> None:
    rig.set(answer_max_seconds=1)
    rig.model.queue(Reply(text=text, chunk_size=2, chunk_delay=0.1))
    answer = await rig.ask("вопрос")
    assert answer.text == say("took_too_long", "ru")
