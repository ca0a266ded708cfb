"""One turn on the real database: what is stored, what the model sees, what it costs."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from src.base.config import Settings
from src.talk.graph_run import truncate
from src.talk.prompt import SYSTEM_PROMPT
from src.texts import say
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.person import Agents, Rig
from tests.integration.turns import answer_turn

LABEL = "[Текущее время: 2026-11-21 12:05]"


async def test_a_message_is_stored_with_the_time_in_moscow_before_it(rig: Rig) -> None:
    answer = await rig.ask("привет", time_zone=Settings().timezone)
    assert rig.stored() == [("user", f"{LABEL} привет"), ("assistant", "эхо: привет")]
    assert (answer.text, answer.delivered, answer.tools) == ("эхо: привет", False, ())
    rig.model.queue("ответ\x00")
    answer = await rig.ask("нуль\x00 \ud83d", time_zone="Asia/Tokyo")
    assert rig.stored()[2:] == [
        ("user", "[Текущее время: 2026-11-21 18:05] нуль\ufffd \ufffd"),
        ("assistant", "ответ\ufffd"),
    ]


@pytest.mark.parametrize(("before", "shown"), [(0, 1), (29, 30), (30, 16), (45, 16), (140, 21)])
async def test_the_model_sees_the_last_16_to_30_messages_of_a_long_conversation(
    rig: Rig, before: int, shown: int
) -> None:
    conversation = rig.conversation()
    said = [f"сообщение {number}" for number in range(before)]
    roles = itertools.cycle(["user", "assistant"] if before % 2 == 0 else ["assistant", "user"])
    rig.fill(conversation, *zip(roles, said, strict=False))
    turn = await rig.begin("вопрос")
    assert [entry["content"] for entry in turn.history] == [*said, f"{LABEL} вопрос"][-30:]
    await answer_turn(rig.core.agent, turn)
    system, *seen = [text for _, text in rig.prompt()]
    assert system == SYSTEM_PROMPT
    assert seen == [*said, f"{LABEL} вопрос"][-shown:]


async def test_tools_that_ran_are_stored_after_the_answer(rig: Rig) -> None:
    calls = [("current_time", {}), ("search_memory", {"query": "кот"})]
    rig.model.queue(Reply(tool_calls=calls), "Кот дома.")
    answer = await rig.ask("где кот и который час?")
    assert answer.tools == ("current_time", "search_memory")
    assert rig.stored()[1:] == [
        ("assistant", "Кот дома."),
        ("system", "Tools used: current_time, search_memory"),
    ]
    await rig.ask("а теперь?")
    assert ("system", "Tools used: current_time, search_memory") in rig.prompt()


@pytest.mark.parametrize("text", [
    f" {LABEL} \n", "\u200b\u200d", "\u2800\u3164\ufe0f", "\u034f\u00ad\u202e ",
])  # fmt: skip
async def test_an_empty_answer_becomes_a_sentence(rig: Rig, text: str) -> None:
    rig.model.queue(Reply(text=text))
    answer = await rig.ask("?", language="uk")
    assert answer.text == say("empty_answer", "uk") == rig.stored()[-1][1]
    await rig.ask("?!", language="uk")
    shown = [message["content"] for message in rig.model.requests[-1].messages]
    assert say("empty_answer", "uk") not in shown, "a model would repeat it"


async def test_two_users_at_once_never_see_each_other_s_words(rig: Rig) -> None:
    gate = asyncio.Event()

    def reply(request: ChatRequest) -> Reply:
        return Reply(text=f"эхо: {request.last_user_text}", gate=gate)

    rig.model.reply = reply
    words = {user: f"тайна-{user}" for user in (1, 2, 3, 4)}
    turns = [asyncio.create_task(rig.ask(word, user)) for user, word in words.items()]
    await rig.model.wait_for(lambda: rig.model.waiting_at_gate == len(words))
    gate.set()
    answers = [stored.text for stored in await asyncio.gather(*turns)]
    await asyncio.gather(*(rig.ask("повтори", user) for user in words))

    assert answers == [f"эхо: {word}" for word in words.values()]
    for request in rig.model.requests:
        text = str(request.raw)
        assert sum(word in text for word in words.values()) == 1
    for user, word in words.items():
        [question, answer, *_] = rig.stored(user)
        assert (question[1], answer[1]) == (f"{LABEL} {word}", f"эхо: {word}")


# An answer has an end: in characters, in seconds, and when there is nothing of it to see


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
    await rig.ask("другой")
    assert say("took_too_long", "ru") not in str(rig.prompt()), "small models repeat it"


async def test_what_was_done_is_told_where_the_time_ran_out_after_it(rig: Rig) -> None:
    rig.set(answer_max_seconds=1)
    order = {"text": "позвонить маме", "when": "завтра в 9"}
    silence = Reply(text=" \n" * 4000, chunk_size=2, chunk_delay=0.1)
    rig.model.queue(Reply(tool_calls=[("set_reminder", order)]), silence)
    answer = await rig.ask("Завтра в 9 мне надо позвонить маме, напомнишь?")
    assert answer.text.startswith("⏰") and say("took_too_long", "ru") not in answer.text
