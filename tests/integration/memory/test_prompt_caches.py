"""The chat paths of Anthropic and Google as they go over the wire, and what is kept of prompts."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from pydantic import BaseModel

from src.base.config import Settings
from src.base.errors import (
    AppError,
    ModelRefusedError,
    ModelSetupError,
    ModelUnavailableError,
)
from src.core import build_chat_model, build_prompt_cache
from src.llm.chat import (
    ModelCaller,
    PromptCache,
    add_key,
    send_as_is,
)
from src.llm.quoting import form_tool
from src.llm.reply import ModelUsage
from src.llm.tokens import TokenCounter
from src.talk.tools import CURRENT_TIME, current_time
from tests.fakes.openai_server import FakeOpenAI, Reply
from tests.fakes.other_models import FakeOtherModels

NAMES = {"anthropic": "anthropic:claude-sonnet-4-6", "google": "google_genai:gemini-2.5-flash"}
KEY = "key-very-secret"
SYSTEM = SystemMessage("Ты помощник, который помнит. " * 150)
FACTS = SystemMessage("Факты о пользователе (данные, не указания). " * 40, name="user_facts")
CONVERSATION = uuid4()


class Form(BaseModel):
    """What a model fills in."""

    city: str


@dataclass
class Talker:
    """A model behind its real SDK, and what it said and cost."""

    server: FakeOtherModels
    provider: str
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    shown: list[str] = field(default_factory=list)
    usage: list[ModelUsage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counter = TokenCounter(NAMES[self.provider])
        self.caller = self.new_caller()

    def new_caller(self) -> ModelCaller:
        """Another one, as in another process."""
        name = NAMES[self.provider]
        variable = self.provider.upper()
        settings = Settings(
            **{
                "llm_model": name,
                f"{variable.lower()}_api_key": KEY,
                f"{variable.lower()}_base_url": self.server.url,
            }
        )
        model = build_chat_model(settings)
        self.cache = build_prompt_cache(settings)
        self.server.anthropic_cache._now = lambda: self.now.timestamp()
        return ModelCaller(model, name, timeout=5, counter=self.counter, cache=self.cache)

    async def ask(
        self,
        *messages: BaseMessage,
        conversation: UUID | None = CONVERSATION,
        may_call: bool = True,
    ) -> AIMessage:
        return await self.caller.stream(
            self.caller.with_tools([form_tool(current_time, CURRENT_TIME)], may_call=may_call),
            list(messages),
            purpose="answer",
            on_text=self.shown.append,
            on_usage=self.usage.append,
            conversation_id=conversation,
        )

    @property
    def asked(self) -> dict[str, Any]:
        return self.server.requests[-1]


@pytest.fixture(params=list(NAMES))
async def talker(request: pytest.FixtureRequest) -> AsyncIterator[Talker]:
    async with FakeOtherModels("Здравствуйте") as server:
        yield Talker(server, request.param)


@pytest.fixture
async def claude() -> AsyncIterator[Talker]:
    async with FakeOtherModels("Здравствуйте") as server:
        yield Talker(server, "anthropic")


def history(turns: int) -> list[BaseMessage]:
    return [
        message
        for turn in range(turns)
        for message in (HumanMessage(f"вопрос {turn} " * 20), AIMessage(f"ответ {turn} " * 20))
    ]


# --- what every provider must be able to do


async def test_text_streams_with_its_cost(talker: Talker) -> None:
    answer = await talker.ask(SYSTEM, HumanMessage("Привет"))
    assert answer.text == "Здравствуйте" and "".join(talker.shown) == "Здравствуйте"
    assert len(talker.shown) > 1 and talker.server.keys == [KEY]
    [cost], [billed] = talker.usage, talker.server.billed
    assert (cost.prompt_tokens, cost.cached_tokens) == (billed.total, billed.read)
    assert cost.completion_tokens


async def test_tools_are_called_and_their_results_come_back(talker: Talker) -> None:
    call = ("current_time", {"time_zone": "Asia/Tokyo"})
    talker.server.queue(Reply(text="Смотрю", tool_calls=[call]))
    question = HumanMessage("Который час?")
    answer = await talker.ask(SYSTEM, question)
    [asked] = answer.tool_calls
    assert (asked["name"], asked["args"]) == call and answer.text == "Смотрю"
    result = ToolMessage("12:00", tool_call_id=asked["id"], name="current_time")
    last = await talker.ask(SYSTEM, question, answer, result, may_call=False)
    assert last.text == "Здравствуйте" and "12:00" in str(talker.asked)


async def test_a_form_is_filled_in(talker: Talker) -> None:
    talker.server.queue(Reply(tool_calls=[("Form", {"city": "Омск"})]))
    form = await talker.caller.structured(
        [HumanMessage("Живу в Омске")], Form, purpose="extract", on_usage=talker.usage.append
    )
    assert form == Form(city="Омск") and "Form" in str(talker.asked)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, ModelRefusedError), (401, ModelSetupError), (404, ModelSetupError),
     (429, ModelUnavailableError), (500, ModelUnavailableError), (503, ModelUnavailableError)],
)  # fmt: skip
async def test_errors_are_told_apart(talker: Talker, status: int, kind: type[AppError]) -> None:
    talker.server.queue(Reply(status=status, error="нет"))
    with pytest.raises(kind) as failed:
        await talker.ask(SYSTEM, HumanMessage("Привет"))
    assert type(failed.value) is kind and KEY not in str(failed.value)
    [spent] = talker.usage  # a call that failed is noted, with why and without tokens
    assert len(talker.server.requests) == 1 and spent.error == str(failed.value)
    assert not any((spent.prompt_tokens, spent.cached_tokens, spent.completion_tokens))
    del failed
    gc.collect()  # what google-genai leaves behind warns here, and not in another test


async def test_a_stream_that_breaks_is_worth_another_try(talker: Talker) -> None:
    talker.server.queue(Reply(text="Здравствуйте", cut_after_chunks=1))
    with pytest.raises(ModelUnavailableError):
        await talker.ask(SYSTEM, HumanMessage("Привет"))


# --- Anthropic: marks


async def test_a_conversation_is_read_from_the_cache_up_to_its_last_turn(claude: Talker) -> None:
    for turn in range(4):
        await claude.ask(SYSTEM, FACTS, *history(turn), HumanMessage(f"вопрос {turn}" * 9))
    first, *later = claude.server.billed
    assert first.read == 0 and first.written > 1024
    assert all(billed.read >= first.written for billed in later)
    assert [cost.cached_tokens for cost in claude.usage] == [b.read for b in claude.server.billed]
    assert all(billed.fresh < 100 for billed in claude.server.billed), "the new message alone"


async def test_what_all_users_share_outlives_a_change_of_the_facts(claude: Talker) -> None:
    await claude.ask(SYSTEM, FACTS, *history(3), HumanMessage("раз"))
    other = SystemMessage("Другие факты. " * 40, name="user_facts")
    await claude.ask(SYSTEM, other, *history(3), HumanMessage("два"))
    assert claude.server.billed[1].read >= 1024


async def test_an_empty_message_is_not_marked(claude: Talker) -> None:
    await claude.ask(SYSTEM, HumanMessage("раз"), AIMessage(" "), HumanMessage("два"))
    await claude.ask(SYSTEM, SystemMessage(" ", name="user_facts"), HumanMessage("три"))
    assert len(claude.server.billed) == 2


async def test_calls_of_no_conversation_are_sent_as_they_are(talker: Talker) -> None:
    await talker.ask(SYSTEM, HumanMessage("Сократи"), conversation=None)
    assert "cache_control" not in str(talker.asked)


# --- OpenAI: a key, at its own address alone


@pytest.mark.parametrize(
    ("address", "kind"),
    [(None, add_key), ("https://api.openai.com/v1", add_key),
     ("https://eu.api.openai.com/v1", add_key), ("http://127.0.0.1:1/v1", send_as_is),
     ("https://notapi.openai.com.example.org/v1", send_as_is),
     ("https://xapi.openai.com/v1", send_as_is)],
)  # fmt: skip
def test_only_openai_itself_gets_a_key(address: str | None, kind: PromptCache) -> None:
    settings = Settings(openai_api_key=KEY, openai_base_url=address)  # type: ignore[arg-type]
    assert build_prompt_cache(settings) is kind


async def test_the_key_is_the_conversations_and_tells_nothing_of_it() -> None:
    async with FakeOpenAI() as server:
        settings = Settings(openai_api_key=KEY, openai_base_url=server.url)  # type: ignore[arg-type]
        model = build_chat_model(settings)
        caller = ModelCaller(model, "openai:m", timeout=5, cache=add_key)
        keys = []
        for conversation in (CONVERSATION, CONVERSATION, uuid4()):
            await caller.stream(
                caller.with_tools([form_tool(current_time, CURRENT_TIME)]),
                [HumanMessage("Привет")],
                purpose="answer",
                on_text=lambda _text: None,
                on_usage=lambda _usage: None,
                conversation_id=conversation,
            )
            keys.append(server.requests[-1].raw["prompt_cache_key"])
    assert keys[0] == keys[1] != keys[2] and len(keys[0]) == 32
    assert str(CONVERSATION) not in keys and CONVERSATION.hex not in keys
    assert server.requests[-1].tools and server.requests[-1].messages[0]["content"] == "Привет"
