"""Servers that take less than the whole protocol: what they refuse is asked for more simply."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from src.base.config import Settings
from src.base.errors import ModelError, ModelUnavailableError
from src.core import build_caller
from src.llm.chat import ModelCaller
from src.llm.errors import Report
from src.llm.quoting import form_tool
from src.memory.prompts import ExtractedFacts
from src.talk.tools import CURRENT_TIME, current_time
from tests.attacks.model_replies import Script, delta
from tests.fakes.openai_server import ChatRequest, FakeOpenAI, Raw, Reply

FORM = json.dumps({"facts": [{"text": "Живёт в Праге", "quote": "я в Праге"}]}, ensure_ascii=False)
PROMPT: list[BaseMessage] = [
    SystemMessage("Правила."), SystemMessage("Факты.", name="key_facts"), HumanMessage("раз"),
    AIMessage("да"), SystemMessage("Tools used: x"), HumanMessage("два"), SystemMessage("Память."),
]  # fmt: skip


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as server:
        yield server


@pytest.fixture
def caller(fake: FakeOpenAI) -> ModelCaller:
    return build_caller(Settings(llm_model="openai:fake", openai_base_url=fake.url))


async def ask(caller: ModelCaller, messages: list[BaseMessage] | None = None) -> AIMessage:
    tools = caller.with_tools([form_tool(current_time, CURRENT_TIME)])
    prompt = PROMPT if messages is None else messages
    return await caller.stream(tools, prompt, purpose="answer", on_usage=lambda _: None)


async def fill(caller: ModelCaller) -> ExtractedFacts:
    return await caller.structured(
        [HumanMessage("я в Праге")], ExtractedFacts, purpose="x", on_usage=lambda _: None
    )


def refusing(
    is_refused: Callable[[ChatRequest], bool], error: str, status: int = 400, reply: str = "ответ"
) -> Callable[[ChatRequest], Reply]:
    return lambda chat: Reply(status=status, error=error) if is_refused(chat) else Reply(reply)


def roles(chat: ChatRequest) -> list[str]:
    return [message["role"] for message in chat.messages]


def said(chat: ChatRequest) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in chat.messages]


def has_late_system(chat: ChatRequest) -> bool:
    return "system" in roles(chat)[1:]


def has_no_turns(chat: ChatRequest) -> bool:
    talk = [role for role in roles(chat) if role != "system"]
    return has_late_system(chat) or any(a == b for a, b in pairwise(talk))


def has_name(chat: ChatRequest) -> bool:
    return any("name" in message for message in chat.messages)


def names(name: str) -> Callable[[ChatRequest], bool]:
    return lambda chat: name in chat.raw


SERVERS = [
    (has_late_system, "System message must be at the beginning.", 400),
    (has_no_turns, "Conversation roles must alternate user/assistant/user/assistant/...", 500),
    (lambda chat: "system" in roles(chat), "System role not supported", 400),
    (lambda chat: "system" in roles(chat), "Only user and assistant roles are supported!", 500),
    (names("stream_options"), "Unrecognized request argument supplied: stream_options", 400),
    (names("tools"), "registry.ollama.ai/library/x does not support tools", 400),
    (names("stream_options"), "bad request", 422),
    (has_late_system, "bad request", 400),
    (has_late_system, "Only one system message!", 500),
    (has_name, "'messages.1' : property 'name' is unsupported", 400),
    (has_name, "Bad body", 422),
    (names("tools"), "bad request", 400),
]


@pytest.mark.parametrize(("is_refused", "error", "status"), SERVERS)
async def test_the_shape_that_a_server_takes_is_found_once_and_remembered(
    fake: FakeOpenAI, caller: ModelCaller, is_refused: Any, error: str, status: int
) -> None:
    fake.reply = refusing(is_refused, error, status)
    assert (await ask(caller)).text == "ответ"
    if error == "bad request":  # which may have passed by itself
        assert (await ask(caller)).text == "ответ"
    tries = fake.request_count
    assert (await ask(caller)).text == "ответ"
    assert fake.request_count == tries + 1, "what worked is remembered"
    last = json.dumps(fake.requests[-1].messages, ensure_ascii=False)
    for text in ("Правила.", "Факты.", "раз", "Tools used: x", "два", "Память."):
        assert text in last
    assert caller.takes_tools == ("tools" in fake.requests[-1].raw)


async def test_a_call_that_its_server_cannot_read_costs_no_shape(
    fake: FakeOpenAI, caller: ModelCaller
) -> None:
    fake.queue(Reply(status=400, error="tool_use_failed: Failed to call a function."))
    with pytest.raises(ModelUnavailableError):
        await ask(caller)
    fake.queue("ответ")
    assert (await ask(caller)).text == "ответ"
    assert caller.takes_tools and fake.request_count == 2


@pytest.mark.parametrize("error", [
    "tool_choice: forced choice is not supported", "Tool choice 'named' is not supported",
    "bad request",
])  # fmt: skip
async def test_a_form_is_asked_for_without_force(
    fake: FakeOpenAI, caller: ModelCaller, error: str
) -> None:
    fake.reply = refusing(
        lambda chat: chat.raw.get("tool_choice") not in (None, "auto"), error, reply=FORM
    )
    assert [fact.text for fact in (await fill(caller)).facts] == ["Живёт в Праге"]
    assert "ExtractedFacts" in fake.requests[-1].last_user_text


async def test_a_form_in_several_calls_is_one(fake: FakeOpenAI, caller: ModelCaller) -> None:
    calls = [("ExtractedFacts", {"facts": [{"text": text}]}) for text in ("раз", "два")]
    fake.queue(Reply(tool_calls=calls))
    assert [fact.text for fact in (await fill(caller)).facts] == ["раз", "два"]


async def test_a_form_is_asked_for_as_text_where_there_are_no_tools(
    fake: FakeOpenAI, caller: ModelCaller
) -> None:
    fake.reply = refusing(names("tools"), "tools are not supported", reply=f"Вот: {FORM}")
    assert [fact.text for fact in (await fill(caller)).facts] == ["Живёт в Праге"]
    assert '"facts"' in fake.requests[-1].last_user_text


@pytest.mark.parametrize(("status", "error"), [
    (401, "wrong key"),
    (400, {"message": "no", "code": "content_filter"}), (404, "model 'x' not found"),
    (500, "internal error"), (403, "unsupported country"),
])  # fmt: skip
async def test_other_refusals_are_not_tried_in_another_shape(
    fake: FakeOpenAI, caller: ModelCaller, status: int, error: Any
) -> None:
    fake.reply = lambda _chat: Reply(status=status, error=error)
    with pytest.raises(Exception, match=str(status)):
        await ask(caller)
    assert fake.request_count == 1


TOO_LONG = [
    (400, "This model's maximum context length is 8192 tokens."),
    (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    (400, "The decoder prompt (length 9000) is longer than the maximum model length of 8192."),
    (400, "This model's maximum prompt length is 131072 but the request contains 150000 tokens."),
    (422, "Input validation error: `inputs` must have less than 1024 tokens. Given: 1525"),
    (400, "Range of input length should be [1, 30720]"),
    (400, "Prompt exceeds max length"),
    (400, "Invalid request: Your request exceeded model token limit: 8192"),
    (413, "Request too large on tokens per minute (TPM): Limit 6000, Requested 9000"),
]


@pytest.mark.parametrize(("status", "error"), TOO_LONG)
async def test_a_prompt_that_is_too_long_goes_again_with_its_newer_half(
    fake: FakeOpenAI, caller: ModelCaller, status: int, error: str
) -> None:
    talk = [HumanMessage(f"раз {n}") if n % 2 else AIMessage(f"да {n}") for n in range(8)]
    fake.reply = refusing(lambda chat: len(chat.messages) > 6, error, status)
    assert (await ask(caller, [*PROMPT, *talk, *PROMPT[-2:]])).text == "ответ"
    sent = [text for _, text in said(fake.requests[-1])]
    assert fake.request_count == 3 and sent == [
        "Правила.", "Факты.", "раз 7", "два", "Память.",
    ]  # fmt: skip
    assert (await ask(caller, PROMPT[:3])).text == "ответ"
    assert len(fake.requests[-1].messages) == 3, "nothing is remembered of it"


@pytest.mark.parametrize(("status", "text", "name"), [
    (400, "1301 系统检测到输入或生成内容可能包含不安全或敏感内容", "filter"),
    (451, "The content is blocked. censorship_blocked", "filter"),
    (400, "Content Exists Risk", "filter"), (403, "Your input was flagged", "filter"),
    (429, "1113 余额不足或无可用资源包,请充值。", "quota"),
    (500, "input (900 tokens) is too large to process", "context"),
    (400, "input length and `max_tokens` exceed context limit: 19000 + 2000 > 20000", "context"),
    (422, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", "context"),
])  # fmt: skip
def test_what_a_server_says_tells_its_failure(status: int, text: str, name: str) -> None:
    assert Report(str(status), (text,)).failure.name == name


async def test_one_refusal_without_a_reason_costs_no_tools(
    fake: FakeOpenAI, caller: ModelCaller
) -> None:
    fake.reply = refusing(names("tools"), "bad request")
    assert (await ask(caller)).text == "ответ" and caller.takes_tools
    fake.reply = lambda _chat: Reply("ответ")
    assert (await ask(caller)).text == "ответ" and "tools" in fake.requests[-1].raw


async def test_a_refusal_of_every_shape_is_reported_and_nothing_is_remembered(
    fake: FakeOpenAI, caller: ModelCaller
) -> None:
    fake.reply = lambda _chat: Reply(status=400, error="bad request")
    with pytest.raises(ModelError):
        await ask(caller)
    fake.reply = lambda _chat: Reply("ответ")
    assert (await ask(caller)).text == "ответ" and caller.takes_tools


def with_calls(beside: dict[str, Any], in_call: dict[str, Any]) -> Reply:
    """A streamed call with fields of the provider's own; its id is missing."""
    function = {"name": "current_time", "arguments": "{}"}
    call = {"index": 0, "type": "function", "function": function, **in_call}
    script = Script([], [], {}, "tool_calls", before=[delta(beside)], middle=[])
    script.calls = [call]
    return Reply(raw=Raw(script.stream()))


@pytest.mark.parametrize(("beside", "in_call"), [
    ({"reasoning_content": "думаю"}, {}),
    ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "id": "r"}]}, {}),
    ({}, {"extra_content": {"google": {"thought_signature": "c2ln"}}}),
    ({"some_new_field": {"a": [1]}}, {"signature": "s"}),
])  # fmt: skip
async def test_what_a_provider_sends_beside_calls_goes_back_with_them(
    fake: FakeOpenAI, caller: ModelCaller, beside: dict[str, Any], in_call: dict[str, Any]
) -> None:
    fake.queue(with_calls(beside, in_call), "полдень")
    called = await ask(caller)
    assert called.text == ""
    [call] = called.tool_calls
    result = ToolMessage("12:00", tool_call_id=call["id"])
    assert (await ask(caller, [*PROMPT, called, result])).text == "полдень"
    [sent] = [m for m in fake.requests[-1].messages if m.get("tool_calls")]
    assert sent.items() >= beside.items()
    assert sent["tool_calls"][0].items() >= in_call.items()


async def test_thoughts_in_parts_of_the_content_are_not_shown(
    fake: FakeOpenAI, caller: ModelCaller
) -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "думаю"}]},
             {"type": "reasoning", "text": "думаю"}, {"type": "text", "text": "да"}]  # fmt: skip
    fake.queue(Reply(raw=Raw(Script([parts], [], {}, "stop").stream())))
    assert (await ask(caller)).text == "да"
