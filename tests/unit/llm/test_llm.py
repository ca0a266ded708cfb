"""Calling a chat model, as a real SDK sees it: text, tools, tokens, and every failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import BaseModel

from src.base.config import Settings
from src.base.errors import (
    AppError,
    ModelError,
    ModelRefusedError,
    ModelSetupError,
    ModelUnavailableError,
)
from src.core import build_caller, build_chat_model
from src.llm.chat import WAITING, ModelCaller
from src.llm.quoting import form_tool
from src.llm.reply import ModelUsage
from src.llm.tokens import TokenCounter
from src.offline.model import OfflineChatModel
from src.talk.tools import CURRENT_TIME, current_time
from tests.fakes.openai_server import FakeOpenAI, Reply

KEY = "sk-very-secret-key"
NAME = "openai:fake-model"
PRIVATE = "СЕКРЕТНЫЙ ТЕКСТ"
QUOTA = {"message": "внутри", "type": "insufficient_quota", "code": "insufficient_quota"}


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI(api_key=KEY) as server:
        yield server


def settings(fake: FakeOpenAI, **changes: Any) -> Settings:
    values = {"llm_model": NAME, "openai_base_url": fake.url, "openai_api_key": KEY, **changes}
    return Settings(**values)


@dataclass
class Asked:
    """One call, and what it showed."""

    shown: list[str] = field(default_factory=list)
    usage: list[ModelUsage] = field(default_factory=list)

    async def of(self, fake: FakeOpenAI, text: str = PRIVATE, **changes: Any) -> AIMessage:
        chosen = settings(fake, **changes)
        caller = ModelCaller(build_chat_model(chosen), NAME, timeout=chosen.llm_timeout)
        return await caller.stream(
            caller.with_tools([form_tool(current_time, CURRENT_TIME)]),
            [HumanMessage(text)],
            purpose="answer",
            on_text=self.shown.append,
            on_usage=self.usage.append,
        )


async def failure(fake: FakeOpenAI, reply: Reply | None = None, **changes: Any) -> AppError:
    """The error of a call; it holds no secret, and only a refused shape is tried once more."""
    if reply is not None:
        fake.reply = lambda _request: reply
    asked = Asked()
    with pytest.raises(AppError) as failed:
        await asked.of(fake, **changes)
    for secret in (KEY, "wrong-key", PRIVATE, "внутри"):
        assert secret not in str(failed.value)
    is_refused = reply is not None and reply.status in (400, 422)
    assert fake.request_count <= (3 if is_refused else 1)
    assert [spent.error for spent in asked.usage] == [str(failed.value)]
    assert failed.value.__cause__ is not None, "the log needs the cause"
    return failed.value


async def test_the_next_call_goes_over_the_same_connection(fake: FakeOpenAI) -> None:
    fake.keeps_connections = True
    model: Any = build_chat_model(settings(fake))
    caller = ModelCaller(model, NAME, timeout=10)
    for _ in range(3):
        await caller.text([HumanMessage(PRIVATE)], purpose="answer", on_usage=lambda _spent: None)
    await model.root_async_client.close()
    assert fake.request_count == 3 and len(fake.peers) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("9999", None), ("-1", None), ("soon", None), ("nan", None)],
)
async def test_too_many_requests_is_worth_another_try(
    fake: FakeOpenAI, header: str, seconds: float | None
) -> None:
    error = await failure(fake, Reply(status=429, error="внутри", headers={"Retry-After": header}))
    assert isinstance(error, ModelUnavailableError) and error.retry_after == seconds


@pytest.mark.parametrize(("status", "body", "kind"), [
    (500, "внутри", ModelUnavailableError), (408, "внутри", ModelUnavailableError),
    (429, QUOTA, ModelError), (400, f"внутри {PRIVATE}", ModelRefusedError),
    (403, "внутри", ModelSetupError), (404, "внутри", ModelSetupError),
    (413, "внутри", ModelRefusedError),
])  # fmt: skip
async def test_a_status_decides_whether_to_try_again(
    fake: FakeOpenAI, status: int, body: Any, kind: type[AppError]
) -> None:
    error = await failure(fake, Reply(status=status, error=body))
    assert isinstance(error, kind) and str(status) in str(error) and error.retry_after is None
    assert kind is ModelError or type(error) is kind


async def test_a_key_is_asked_for_by_its_server_alone(fake: FakeOpenAI) -> None:
    error = await failure(fake, openai_api_key="wrong-key")
    assert type(error) is ModelSetupError and "401" in str(error)
    fake.api_key = None
    assert (await Asked().of(fake, "привет", openai_api_key=None)).text == "эхо: привет"


async def test_a_refused_connection_is_worth_another_try(fake: FakeOpenAI) -> None:
    await fake.stop()
    error = await failure(fake)
    assert type(error) is ModelUnavailableError and "could not be reached" in str(error)


async def test_a_long_answer_that_keeps_coming_may_take_its_time(fake: FakeOpenAI) -> None:
    fake.queue(Reply(text="по букве", chunk_size=1, chunk_delay=0.3))
    message = await Asked().of(fake, llm_timeout=2.0)
    assert message.text == "по букве", "2.4 s in all, though the time-out is 2 s"


async def test_the_counter_learns_what_the_provider_reports(fake: FakeOpenAI) -> None:
    counter, chosen = TokenCounter(NAME), settings(fake)
    caller = ModelCaller(build_chat_model(chosen), NAME, timeout=5, counter=counter)
    prompt = [HumanMessage(PRIVATE * 100)]
    before = counter.count_messages(prompt)
    for factor in (0.0, 1.5):
        fake.queue(Reply(text="да", prompt_tokens=round(before * factor)))
        await caller.text(prompt, purpose="summary", on_usage=lambda _usage: None)
    assert counter.count_messages(prompt) == pytest.approx(before * 1.05, rel=0.01)


async def test_a_connection_cut_in_mid_answer_is_worth_another_try(fake: FakeOpenAI) -> None:
    fake.queue(Reply(text="оборвётся посередине", cut_after_chunks=1))
    asked = Asked()
    with pytest.raises(ModelUnavailableError, match="could not be reached"):
        await asked.of(fake)
    assert asked.shown == ["оборвётс"] and "not be reached" in str(asked.usage[0].error)


async def test_a_defect_of_ours_is_not_taken_for_the_network(fake: FakeOpenAI) -> None:
    def fail(_text: str) -> None:
        raise ZeroDivisionError(PRIVATE)

    caller = ModelCaller(build_chat_model(settings(fake)), NAME, timeout=5)
    with pytest.raises(ModelError, match=r"failed \(ZeroDivisionError\)$"):
        await caller.stream(
            caller.with_tools([]),
            [HumanMessage("?")],
            purpose="answer",
            on_text=fail,
            on_usage=lambda _usage: None,
        )


def test_without_a_model_and_a_key_the_offline_model_is_built() -> None:
    assert isinstance(build_chat_model(Settings()), OfflineChatModel)
    assert isinstance(build_chat_model(Settings(openai_api_key=KEY), "offline"), OfflineChatModel)


async def called(fake: FakeOpenAI, **timeouts: float) -> list[bool]:
    """When a turn was told that the server reads, and that it writes."""
    told: list[bool] = []
    WAITING.set(told.append)  # of this test's task
    caller = ModelCaller(build_chat_model(settings(fake)), NAME, **timeouts)
    await caller.text([HumanMessage("?")], purpose="x", on_usage=lambda _usage: None)
    return told


async def test_a_server_may_read_for_long_and_the_turn_knows_it(fake: FakeOpenAI) -> None:
    fake.queue(Reply(text="да", delay=0.5), Reply(text="да", delay=0.5), "да")
    assert await called(fake, timeout=0.2, first_timeout=5) == [True, False]
    with pytest.raises(ModelUnavailableError):
        await called(fake, timeout=0.2)
    assert await called(fake, timeout=5) == [], "without a limit of its own it is no reading"
    assert await called(fake, timeout=5, first_timeout=5) == [True, False]


async def test_after_the_first_token_the_time_out_is_one_of_silence(fake: FakeOpenAI) -> None:
    gate = asyncio.Event()
    fake.queue(Reply(text="первая вторая", chunk_size=7, gate=gate, gate_after_chunks=1))
    with pytest.raises(ModelUnavailableError):
        await called(fake, timeout=0.3, first_timeout=60)
    await fake.wait_for(lambda: fake.abandoned == 1)


async def test_nothing_but_white_space_is_not_waited_for(fake: FakeOpenAI) -> None:
    gate = asyncio.Event()
    fake.queue(Reply(text="да" + "\n" * 900, chunk_size=450, gate=gate, gate_after_chunks=1))
    caller = ModelCaller(build_chat_model(settings(fake)), NAME, timeout=5)
    said = await caller.text([HumanMessage("?")], purpose="x", on_usage=lambda _usage: None)
    assert said.strip() == "да"
    await fake.wait_for(lambda: fake.abandoned == 1)


async def test_reading_ahead_takes_the_tools_and_one_token(fake: FakeOpenAI) -> None:
    caller = ModelCaller(build_chat_model(settings(fake)), NAME, timeout=5)
    await caller.read_ahead(
        caller.with_tools([form_tool(current_time, CURRENT_TIME)]), [HumanMessage("?")]
    )
    [request] = fake.read_ahead
    assert request.raw["max_tokens"] == 1 and fake.request_count == 0
    assert [tool["function"]["name"] for tool in request.tools] == ["current_time"]


class Words(BaseModel):
    """A form."""

    words: list[str]


async def test_a_form_is_asked_with_its_schema_and_the_tools_of_the_prompt(
    fake: FakeOpenAI,
) -> None:
    server = {"openai_base_url": fake.url, "openai_api_key": fake.api_key}
    caller = build_caller(Settings(llm_model="openai:x", **server))
    ask = partial(caller.form, [HumanMessage("?")], Words, purpose="form", on_usage=print)
    fake.reply = lambda _request: '{"words": ["a"]}'
    assert (await ask(tools=[Words])).words == ["a"]
    refused = Reply(status=400, error="response_format is not supported")
    fake.reply = lambda request: refused if request.form else '{"words": ["b"]}'
    assert [(await ask()).words for _ in range(2)] == [["b"], ["b"]]
    first, _, second, third = fake.requests
    declared = first.raw["response_format"]["json_schema"]
    assert declared == {"name": "Words", "schema": Words.model_json_schema()}
    assert first.raw["tool_choice"] == "none" and first.tools
    assert '"words"' in second.last_user_text, "the schema comes as text"
    assert not (second.form or third.form)


async def test_text_and_calls_come_in_pieces_and_back_whole(fake: FakeOpenAI) -> None:
    calls = [("current_time", {"time_zone": "Asia/Tokyo"}), ("current_time", {})]
    counts = {"prompt_tokens": 70, "completion_tokens": 5, "cached_tokens": 64}
    fake.queue(Reply(text="длинный ответ", tool_calls=calls, chunk_size=4, **counts))
    asked = Asked()
    message = await asked.of(fake)
    assert asked.shown == ["длин", "ный ", "отве", "т"]
    assert type(message) is AIMessage and message.text == "длинный ответ"
    assert [(call["name"], call["args"]) for call in message.tool_calls] == calls
    assert message.invalid_tool_calls == []
    [request] = fake.requests
    assert request.stream and request.model == "fake-model"
    assert [tool["function"]["name"] for tool in request.tools] == ["current_time"]
    assert "runtime" not in request.tools[0]["function"]["parameters"]["properties"]
    [usage] = asked.usage
    assert (usage.purpose, usage.model) == ("answer", NAME)
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (70, 64, 5)
    assert 0 <= usage.duration_ms < 10_000
    fake.queue(Reply(text=""))
    nothing = await (asked := Asked()).of(fake)
    assert (nothing.text, nothing.tool_calls, asked.shown) == ("", [], [])
