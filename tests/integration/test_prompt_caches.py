"""The chat paths of Anthropic and Google as they go over the wire, and what is kept of prompts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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
from src.llm.chat import ModelCaller
from src.llm.prompt_cache import (
    PAYS_FROM,
    CachedContentRepository,
    KeyedPromptCache,
    PromptCache,
    StoredPromptCache,
    least_tokens,
)
from src.llm.quoting import form_tool
from src.llm.reply import ModelUsage
from src.llm.tokens import TokenCounter
from src.pg.client import PgClient
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
    client: PgClient
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
        contents = CachedContentRepository(self.client)
        self.cache = build_prompt_cache(settings, model, self.counter, contents)
        if self.provider == "google":
            self.cache = StoredPromptCache(
                model,
                "gemini-2.5-flash",
                counter=self.counter,
                contents=contents,
                now=lambda: self.now,
            )
            self.server.google_cache.now = lambda: self.now.timestamp()
        self.server.anthropic_cache._now = lambda: self.now.timestamp()
        return ModelCaller(model, name, timeout=5, counter=self.counter, cache=self.cache)

    async def ask(
        self,
        *messages: BaseMessage,
        conversation: UUID | None = CONVERSATION,
        may_call: bool = True,
    ) -> AIMessage:
        """One call with a tool, as the assistant makes it."""
        answer = await self.caller.stream(
            self.caller.with_tools([form_tool(current_time, CURRENT_TIME)], may_call=may_call),
            list(messages),
            purpose="answer",
            on_text=self.shown.append,
            on_usage=self.usage.append,
            conversation_id=conversation,
        )
        if isinstance(self.cache, StoredPromptCache):
            await self.cache.settle()
        return answer

    @property
    def asked(self) -> dict[str, Any]:
        return self.server.requests[-1]


@pytest.fixture(params=list(NAMES))
async def talker(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Talker]:
    async with FakeOtherModels("Здравствуйте") as server:
        yield _talker(server, dsn, request.param)


@pytest.fixture
async def claude(dsn: str) -> AsyncIterator[Talker]:
    async with FakeOtherModels("Здравствуйте") as server:
        yield _talker(server, dsn, "anthropic")


@pytest.fixture
async def gemini(dsn: str) -> AsyncIterator[Talker]:
    async with FakeOtherModels("Здравствуйте") as server:
        yield _talker(server, dsn, "google")


@pytest.fixture
def client(dsn: str) -> PgClient:
    return PgClient(dsn)


def _talker(server: FakeOtherModels, dsn: str, provider: str) -> Talker:
    client = PgClient(dsn)
    client.open()
    return Talker(server, client, provider)


def history(turns: int) -> list[BaseMessage]:
    """So many turns of a conversation."""
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


async def test_nothing_short_is_marked(claude: Talker) -> None:
    await claude.ask(SystemMessage("Коротко."), HumanMessage("Привет"), AIMessage("Да"),
                     HumanMessage("И?"))  # fmt: skip
    assert "cache_control" not in str(claude.asked) and claude.server.billed[0].written == 0


async def test_an_empty_message_is_not_marked(claude: Talker) -> None:
    await claude.ask(SYSTEM, HumanMessage("раз"), AIMessage(" "), HumanMessage("два"))
    await claude.ask(SYSTEM, SystemMessage(" ", name="user_facts"), HumanMessage("три"))
    assert len(claude.server.billed) == 2


async def test_calls_of_no_conversation_are_sent_as_they_are(talker: Talker) -> None:
    for _ in range(PAYS_FROM + 1):
        await talker.ask(SYSTEM, HumanMessage("Сократи"), conversation=None)
    assert "cache_control" not in str(talker.asked) and "cachedContent" not in talker.asked
    assert talker.server.cache_calls == []


@pytest.mark.parametrize(
    ("model", "tokens"),
    [("claude-haiku-4-5", 4096), ("claude-opus-4-5-20251101", 4096), ("claude-sonnet-4-5", 1024),
     ("claude-3-5-haiku-latest", 2048), ("claude-new", 1024)],
)  # fmt: skip
def test_the_least_length_is_the_models(model: str, tokens: int) -> None:
    assert least_tokens(model) == tokens


# --- Google: contents under a name


async def warm(gemini: Talker) -> None:
    """So many calls that the static beginning pays for itself."""
    for number in range(PAYS_FROM):
        await gemini.ask(SYSTEM, FACTS, *history(1), HumanMessage(f"вопрос {number}"))


async def test_the_static_beginning_is_kept_once_and_named_from_then_on(gemini: Talker) -> None:
    await warm(gemini)
    assert all("cachedContent" not in request for request in gemini.server.requests)
    assert gemini.server.cache_calls == ["create"]
    [kept] = gemini.server.google_cache.kept.values()
    assert SYSTEM.text in str(kept) and "current_time" in str(kept["tools"])
    assert "Факты" not in str(kept) and "вопрос" not in str(kept), "no text of a user"
    answer = await gemini.ask(SYSTEM, FACTS, *history(1), HumanMessage("и?"))
    assert answer.text == "Здравствуйте" and gemini.asked["cachedContent"] == kept["name"]
    assert not {"systemInstruction", "tools", "toolConfig"} & gemini.asked.keys()
    assert "Факты о пользователе" in str(gemini.asked["contents"][0])
    assert gemini.usage[-1].cached_tokens == kept["tokens"] > 1024
    call = ("current_time", {"time_zone": "Asia/Tokyo"})
    gemini.server.queue(Reply(tool_calls=[call]))
    asked = (await gemini.ask(SYSTEM, HumanMessage("час?"))).tool_calls[0]
    assert (asked["name"], asked["args"]) == call, "its tools are the kept ones"


async def test_nothing_is_kept_where_google_caches_more_by_itself(gemini: Talker) -> None:
    gemini.server.reply = lambda _request: Reply(text="да", cached_tokens=3000)
    await warm(gemini)
    assert gemini.usage[-1].cached_tokens == 3000 and gemini.server.cache_calls == []
    gemini.server.reply = lambda _request: Reply(text="да", cached_tokens=300)
    await warm(gemini)
    assert gemini.server.cache_calls == ["create"], "when it does so no more, it is asked to"


async def test_calls_that_must_call_no_tool_say_so_themselves(gemini: Talker) -> None:
    await warm(gemini)
    await gemini.ask(SYSTEM, HumanMessage("и?"), may_call=False)
    assert "cachedContent" not in gemini.asked and "NONE" in str(gemini.asked["toolConfig"])


async def test_another_process_uses_what_one_has_made(gemini: Talker) -> None:
    await warm(gemini)
    gemini.caller = gemini.new_caller()
    await warm(gemini)
    await gemini.ask(SYSTEM, HumanMessage("и?"))
    assert gemini.server.cache_calls == ["create"] and "cachedContent" in gemini.asked


async def test_what_is_in_use_is_renewed_before_it_ends(gemini: Talker) -> None:
    await warm(gemini)
    for _ in range(4):
        gemini.now += timedelta(minutes=50)
        await gemini.ask(SYSTEM, HumanMessage("и?"))
        assert "cachedContent" in gemini.asked
    assert gemini.server.cache_calls == ["create", *["update"] * 4]
    [name] = gemini.server.google_cache.kept
    row = gemini.client.fetch_one("SELECT name, model FROM cached_contents")
    assert row == (name, "gemini-2.5-flash")


async def test_what_nobody_used_ends_and_is_made_anew_when_it_pays_again(gemini: Talker) -> None:
    await warm(gemini)
    gemini.now += timedelta(hours=5)
    gemini.client.execute("UPDATE cached_contents SET expires_at = now() - interval '4 h'")
    await gemini.ask(SYSTEM, HumanMessage("и?"))
    assert "cachedContent" not in gemini.asked and gemini.server.cache_calls == ["create"]
    await warm(gemini)
    await gemini.ask(SYSTEM, HumanMessage("и?"))
    assert gemini.server.cache_calls == ["create", "create"]
    assert gemini.asked["cachedContent"] == "cachedContents/2"


async def test_what_is_gone_is_sent_again_and_nobody_notices(gemini: Talker) -> None:
    await warm(gemini)
    gemini.server.google_cache.kept.clear()
    answer = await gemini.ask(SYSTEM, FACTS, HumanMessage("и?"))
    refused, sent = gemini.server.requests[-2:]
    assert answer.text == "Здравствуйте" and "cachedContent" in refused
    assert "cachedContent" not in sent and SYSTEM.text in str(sent["systemInstruction"])
    assert gemini.client.fetch_one("SELECT count(*) FROM cached_contents") == (0,)
    await warm(gemini)
    assert gemini.server.cache_calls == ["create"], "it rests after a failure"
    gemini.now += timedelta(minutes=11)
    await warm(gemini)
    assert gemini.server.cache_calls == ["create", "create"]


async def test_an_outage_is_no_reason_to_send_all(gemini: Talker) -> None:
    await warm(gemini)
    gemini.server.queue(Reply(status=503, error="нет"))
    with pytest.raises(ModelUnavailableError):
        await gemini.ask(SYSTEM, HumanMessage("и?"))
    await gemini.ask(SYSTEM, HumanMessage("и?"))
    assert "cachedContent" in gemini.asked


@pytest.mark.parametrize("status", [400, 403, 429, 500])
async def test_a_provider_that_keeps_nothing_is_asked_seldom(gemini: Talker, status: int) -> None:
    gemini.server.cache_status = status
    for _ in range(3):
        await warm(gemini)
    assert gemini.server.cache_calls == ["create"]
    assert len(gemini.server.billed) == 3 * PAYS_FROM, "every call was answered"
    assert gemini.usage[-1].cached_tokens == 0


async def test_what_is_short_is_not_kept(gemini: Talker) -> None:
    for _ in range(3 * PAYS_FROM):
        await gemini.ask(SystemMessage("Коротко."), HumanMessage("Привет"))
    assert gemini.server.cache_calls == []


# --- OpenAI: a key, at its own address alone


@pytest.mark.parametrize(
    ("address", "kind"),
    [(None, KeyedPromptCache), ("https://api.openai.com/v1", KeyedPromptCache),
     ("https://eu.api.openai.com/v1", KeyedPromptCache), ("http://127.0.0.1:1/v1", PromptCache),
     ("https://notapi.openai.com.example.org/v1", PromptCache),
     ("https://xapi.openai.com/v1", PromptCache)],
)  # fmt: skip
def test_only_openai_itself_gets_a_key(
    client: PgClient, address: str | None, kind: type[PromptCache]
) -> None:
    settings = Settings(openai_api_key=KEY, openai_base_url=address)  # type: ignore[arg-type]
    model = build_chat_model(settings)
    counter = TokenCounter(settings.chat_model_name)
    cache = build_prompt_cache(settings, model, counter, CachedContentRepository(client))
    assert type(cache) is kind


async def test_the_key_is_the_conversations_and_tells_nothing_of_it() -> None:
    async with FakeOpenAI() as server:
        settings = Settings(openai_api_key=KEY, openai_base_url=server.url)  # type: ignore[arg-type]
        model = build_chat_model(settings)
        caller = ModelCaller(model, "openai:m", timeout=5, cache=KeyedPromptCache())
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
