"""One turn on the real database: what is stored, what the model sees, what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from src.config import Settings
from src.graph.conversation_state import ConversationState
from src.graph.nodes.init_state import init_state
from src.llm.prompts.assistant import SYSTEM_PROMPT
from src.storage.conversation_repo import HistoryMessage
from src.storage.pg_client import PgClient
from src.texts import Language, say
from tests.fakes.openai_server import ChatRequest, Reply
from tests.integration.agent_rig import USER, Rig, Watcher, open_rig

LABEL = "[Текущее время: 2026-11-21 12:05]"


@pytest.fixture
async def rig(dsn: str, client: PgClient) -> AsyncIterator[Rig]:
    async with open_rig(dsn, client) as opened:
        yield opened


async def test_a_message_is_stored_with_the_time_in_moscow_before_it(rig: Rig) -> None:
    answer = await rig.ask("привет", time_zone=Settings().timezone)
    assert rig.stored() == [("user", f"{LABEL} привет"), ("assistant", "эхо: привет")]
    assert (answer.text, answer.delivered, answer.tools) == ("эхо: привет", False, ())


async def test_the_time_is_the_one_of_the_user_s_own_zone(rig: Rig) -> None:
    await rig.ask("hi", time_zone="Asia/Tokyo")
    assert rig.stored()[0] == ("user", "[Текущее время: 2026-11-21 18:05] hi")


async def test_the_model_sees_the_prompt_then_the_history_in_order(rig: Rig) -> None:
    await rig.ask("раз")
    await rig.ask("два")
    assert rig.prompt() == [
        ("system", SYSTEM_PROMPT),
        ("user", f"{LABEL} раз"),
        ("assistant", "эхо: раз"),
        ("user", f"{LABEL} два"),
    ]


async def test_the_model_sees_no_more_than_the_last_thirty_messages(rig: Rig) -> None:
    turn = await rig.begin("начало")
    rig.fill(turn.conversation_id, *[("user", f"сообщение {number}") for number in range(40)])
    await rig.ask("вопрос")
    seen = [text for _, text in rig.prompt()]
    assert seen[0] == SYSTEM_PROMPT and len(seen) == 31
    assert seen[1:] == [*(f"сообщение {number}" for number in range(11, 40)), f"{LABEL} вопрос"]


@pytest.mark.parametrize("chunk_size", [1, 5, 200])
async def test_a_time_label_that_the_model_copies_is_taken_out(rig: Rig, chunk_size: int) -> None:
    rig.model.queue(Reply(text=f"{LABEL} Здравствуйте!", chunk_size=chunk_size))
    watcher = Watcher()
    turn = await rig.begin("привет")
    answer = await rig.core.agent.answer(turn, on_text=watcher.show)
    assert answer.text == watcher.text == "Здравствуйте!"
    assert rig.stored()[-1] == ("assistant", "Здравствуйте!")


async def test_tools_that_ran_are_stored_after_the_answer(rig: Rig) -> None:
    calls = [("current_time", {}), ("search_messages", {"query": "кот"})]
    rig.model.queue(Reply(tool_calls=calls), "Кот дома.")
    answer = await rig.ask("где кот и который час?")
    assert answer.tools == ("current_time", "search_messages")
    assert rig.stored()[1:] == [
        ("assistant", "Кот дома."),
        ("system", "Tools used: current_time, search_messages"),
    ]
    await rig.ask("а теперь?")
    assert ("system", "Tools used: current_time, search_messages") in rig.prompt()


async def render(*, system_in_history: bool) -> list[tuple[str, str]]:
    history: list[HistoryMessage] = [
        {"role": "user", "content": "раз"},
        {"role": "assistant", "content": "один"},
        {"role": "system", "content": "Tools used: search_messages"},
        {"role": "user", "content": "два"},
    ]
    state: ConversationState = {"history": history}
    found = await init_state(state, system_prompt="static", system_in_history=system_in_history)
    return [(message.type, str(message.text)) for message in found["messages"]]


async def test_bookkeeping_stays_a_system_message_where_the_provider_takes_one() -> None:
    assert await render(system_in_history=True) == [
        ("system", "static"),
        ("human", "раз"),
        ("ai", "один"),
        ("system", "Tools used: search_messages"),
        ("human", "два"),
    ]


async def test_elsewhere_bookkeeping_stands_before_the_next_message_and_never_in_an_answer() -> (
    None
):
    assert await render(system_in_history=False) == [
        ("system", "static"),
        ("human", "раз"),
        ("ai", "один"),
        ("human", "[Tools used: search_messages]\nдва"),
    ]


async def test_a_plain_turn_takes_six_statements_and_one_model_call(rig: Rig) -> None:
    counts = []
    for text in ("раз", "два", "три"):
        before = rig.client.statements
        await rig.ask(text)
        counts.append(rig.client.statements - before)
    assert counts == [7, 6, 6], "the first makes the conversation; never more than seven"
    assert rig.model.request_count == 3


async def test_every_model_call_leaves_a_row_of_usage(rig: Rig) -> None:
    rig.model.queue(
        Reply(tool_calls=[("current_time", {})], prompt_tokens=50, completion_tokens=7),
        Reply(text="полдень", prompt_tokens=80, cached_tokens=48, completion_tokens=3),
    )
    await rig.ask("который час?")
    assert rig.rows(
        "SELECT telegram_user_id, purpose, model, prompt_tokens, cached_tokens, completion_tokens"
        " FROM model_usage ORDER BY id"
    ) == [
        (USER, "answer", "openai:fake-model", 50, 0, 7),
        (USER, "answer", "openai:fake-model", 80, 48, 3),
    ]
    metrics = rig.core.metrics.render().decode()
    assert 'pomni_tokens_total{kind="prompt",model="openai:fake-model"} 130.0' in metrics
    assert 'pomni_turns_total{outcome="answered"} 1.0' in metrics


@pytest.mark.parametrize("language", ["ru", "uk", "en"])
async def test_an_empty_answer_becomes_a_sentence(rig: Rig, language: Language) -> None:
    rig.model.queue(Reply(text=f" {LABEL} \n"))
    answer = await rig.ask("?", language=language)
    assert answer.text == say("empty_answer", language) == rig.stored()[-1][1]


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


async def test_what_postgresql_cannot_hold_does_not_fail_a_turn(rig: Rig) -> None:
    rig.model.queue("ответ\x00")
    answer = await rig.ask("нуль\x00 \ud83d")
    assert answer.text == "ответ\ufffd"
    assert rig.stored() == [("user", f"{LABEL} нуль\ufffd \ufffd"), ("assistant", answer.text)]
