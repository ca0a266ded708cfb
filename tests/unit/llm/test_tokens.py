"""Counting tokens: an estimate, held against the tokenizer of OpenAI's models."""

from __future__ import annotations

import base64
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from benchmarks.chat_texts import ANSWERS, REMARKS, STORIES
from src.history.new_messages import add_time_label
from src.llm.tokens import (
    CACHE_SIZE,
    LEAST,
    MOST,
    TOKENS_OF_PRIMING,
    TOKENS_PER_ATTACHMENT,
    TOKENS_PER_MESSAGE,
    TokenCounter,
    percent_of,
)
from src.memory.prompts import key_facts_text, memories_text, summary_text
from src.talk.prompt import SYSTEM_PROMPT
from tests.oracle import Oracle

NAME = "openai:gpt-5-mini"
OPENAI = TokenCounter(NAME)
ORACLE = Oracle(NAME)
FRAME = TOKENS_PER_MESSAGE + TOKENS_OF_PRIMING
MOST_OF_A_CHARACTER = 3  # tokens
LEAST_OF_HOSTILE = 0.4  # of what a text really takes
# Lone surrogates too: Telegram's JSON can hold halves of characters.
TEXTS = st.text(st.characters(codec=None), max_size=80)
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def loaded_vocabularies() -> None:
    """Loading takes longer than hypothesis gives an example."""
    ORACLE.count("")


def texts_of(language: str) -> list[str]:
    """What people say in the benchmarks: facts, questions, and dialogues that fitted nothing."""
    facts = json.loads((BENCHMARKS / "retrieval" / "personal_facts.json").read_text())
    told = [
        fact["text"]
        for owner in facts["owners"]
        for fact in owner["facts"]
        if fact["language"] == language
    ]
    dialogues = json.loads((BENCHMARKS / "dialogues" / f"{language}.json").read_text())
    return told + [turn["say"] for dialogue in dialogues for turn in dialogue["turns"]]


def prompt(seed: int, languages: str, turns: int) -> list[BaseMessage]:
    """A prompt as the graph builds it: the rules, the memory, the chat, the memories, a call."""
    chance, moment = random.Random(seed), datetime(2026, 11, 1, 9, tzinfo=UTC)
    names = languages.split()
    said = [text for name in names for text in (*texts_of(name), *REMARKS[name], *STORIES[name])]
    answers = [text for name in names for text in ANSWERS[name]]
    facts = [
        {"id": f"fact-{number}", "said_on": f"{moment:%Y-%m-%d}", "text": chance.choice(said)}
        for number in range(chance.randrange(20))
    ]
    found = [
        {"n": n, "id": f"m{n}", "uid": f"msg-{n}", "said_at": f"{moment:%F %R}", "text": text}
        for n, text in enumerate(chance.sample(said, chance.randrange(8)), start=1)
    ]
    summaries = [" ".join(chance.sample(answers, 3)) for _ in range(chance.randrange(4))]
    messages: list[BaseMessage] = [SystemMessage(SYSTEM_PROMPT)]
    if facts:
        messages.append(SystemMessage(key_facts_text(facts), name="user_facts"))
    if summaries:
        messages.append(SystemMessage(summary_text(summaries), name="history_summary"))
    for number in range(turns):
        moment += timedelta(minutes=chance.randrange(600))
        text = " ".join(chance.sample(said, chance.choice((1, 1, 2, 4))))
        messages.append(HumanMessage(add_time_label(text, moment, "Europe/Kyiv")))
        messages.append(AIMessage(" ".join(chance.sample(answers, chance.choice((1, 2, 4))))))
        if number % 5 == 0:
            messages.append(SystemMessage("Tools used: search_memory"))
    if found:
        messages.append(SystemMessage(memories_text(found, f"{moment:%F %R}"), name="memories"))
    call = {"id": f"call_{seed}", "name": "search_memory", "args": {"query": chance.choice(said)}}
    answer = ToolMessage(json.dumps(found, ensure_ascii=False), tool_call_id=call["id"])
    return [*messages, HumanMessage(chance.choice(said)), AIMessage("", tool_calls=[call]), answer]


@pytest.mark.parametrize("seeds", [2, pytest.param(20, marks=pytest.mark.proof)])
@pytest.mark.parametrize("turns", [1, 5, 15, 60])
@pytest.mark.parametrize("languages", ["ru", "uk", "en", "ru uk", "ru en", "uk en", "ru uk en"])
def test_a_prompt_is_estimated_within_ten_percent(languages: str, turns: int, seeds: int) -> None:
    for seed in range(seeds):
        messages = prompt(seed, languages, turns)
        real = ORACLE.count_messages(messages)
        assert 0.9 * real <= OPENAI.count_messages(messages) <= 1.1 * real


def written_in(alphabet: str) -> str:
    """Random letters, all in one word."""
    return "".join(random.Random(alphabet).choices(alphabet, k=20_000))


def letters(first: int, last: int) -> str:
    """The characters from one code point to another."""
    return "".join(map(chr, range(first, last)))


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(random.Random(1).randbytes(20_000)).decode(),
        random.Random(2).randbytes(10_000).hex(),
        written_in("!#$%&()*+,-./:;<=>?@[]^_{|}~"),
        written_in(letters(0x1F300, 0x1F6FF)),
        "👨‍👩‍👧‍👦🇺🇦👍🏽 " * 2_000,
        written_in(letters(0x4E00, 0x9FA5)),
        written_in(letters(0x620, 0x64A)),
        written_in(letters(0x12000, 0x12399)),
        "a" * 50_000,
        " \n" * 20_000,
    ],
)
def test_a_hostile_text_is_not_estimated_far_too_short(text: str) -> None:
    assert OPENAI.count(text) >= LEAST_OF_HOSTILE * ORACLE.count(text)


@pytest.mark.parametrize(("model", "percent"), [
    ("openai:gpt-5-mini", 100), ("openai:gpt-4.1-nano", 100),
    ("openai:ft:gpt-4o-mini:someone::id", 100), ("openai:o1", 100),
    ("openai:openai/gpt-oss-20b", 100), ("openai:gpt-4-turbo", 180), ("openai:gpt-3.5-turbo", 180),
    ("gpt-5", 100), ("anthropic:claude-sonnet-4-20250514", 150),
    ("anthropic:claude-sonnet-4-5-20250929", 150), ("openai:anthropic/claude-opus-4.6", 150),
    ("anthropic:claude-opus-4-7", 165), ("anthropic:claude-sonnet-5", 165),
    ("google_genai:gemini-2.5-flash", 120), ("openai:google/Gemma-3-27b-it", 120),
    ("openai:some-local-model", 140), ("openai:qwen/qwen3-32b", 140), ("offline", 100),
])  # fmt: skip
def test_the_name_of_the_model_decides_how_it_is_counted(model: str, percent: int) -> None:
    assert percent_of(model) == percent


@given(TEXTS)
def test_a_text_has_tokens_but_only_so_many(text: str) -> None:
    tokens = OPENAI.count(text)
    assert (tokens > 0) == (text != "")
    assert tokens <= MOST_OF_A_CHARACTER * len(text)


CALL = {"id": "call_1", "name": "search_messages", "args": {"query": "отпуск в августе"}}


REPEATED = {"type": "tool_use", "id": "call_1", "name": "search_messages", "input": {}}


REASONING = {"type": "reasoning", "reasoning": "Он спросил про отпуск."}


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 50_000}}


@pytest.mark.parametrize(("message", "texts", "attachments"), [
    (HumanMessage(["hello", {"type": "text", "text": "Сколько?"}]), ["hello", "Сколько?"], 0),
    (HumanMessage([PICTURE, {"type": "text", "text": "hello"}]), ["hello"], 1),
    (HumanMessage([{"type": "file", "file": {"file_id": "file-1"}}]), [], 1),
    (AIMessage([REASONING]), [json.dumps(REASONING, ensure_ascii=False)], 0),
    (AIMessage("", tool_calls=[CALL]), [json.dumps(CALL, ensure_ascii=False)], 0),
    (AIMessage([REPEATED], tool_calls=[CALL]), [json.dumps(CALL, ensure_ascii=False)], 0),
    (ToolMessage("ничего", tool_call_id="call_1"), ["ничего", "call_1"], 0),
])  # fmt: skip
def test_all_that_a_message_holds_counts_once(
    message: BaseMessage, texts: list[str], attachments: int
) -> None:
    expected = FRAME + sum(map(OPENAI.count, texts)) + attachments * TOKENS_PER_ATTACHMENT
    assert OPENAI.count_messages([message]) == expected


def test_a_malformed_call_counts_too() -> None:
    call = {"id": None, "name": "x", "args": "{", "error": "no JSON"}
    assert OPENAI.count_messages([AIMessage("", invalid_tool_calls=[call])]) > FRAME


def test_no_more_counts_are_remembered_than_there_is_room_for() -> None:
    counter = TokenCounter("offline")
    for number in range(5_000):
        counter.count(f"message {number}")
        assert len(counter._counts) <= CACHE_SIZE


SOME = [HumanMessage("Велосипед стоит в подъезде, а каретка скрипит. " * 50)]
TOOL = {"type": "function", "function": {"name": "current_time", "description": "Tell the time."}}


def learned(of_the_count: float, *, times: int, tools: tuple[object, ...] = ()) -> float:
    """How many times as much the same prompt counts after reports of so much of its count."""
    counter = TokenCounter(NAME)
    before = counter.count_messages(SOME)
    of_tools = sum(counter.count(json.dumps(tool)) for tool in tools)
    for _ in range(times):
        counter.learn(SOME, tools, round((before + of_tools) * of_the_count))
    return counter.count_messages(SOME) / before


@pytest.mark.parametrize("truth", [LEAST + 0.05, 0.8, 1.0, 1.3, MOST - 0.05])
@pytest.mark.parametrize("tools", [(), (TOOL,)])
def test_counts_of_prompts_come_near_to_what_the_provider_reports(
    truth: float, tools: tuple[object, ...]
) -> None:
    assert learned(truth, times=40, tools=tools) == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize("report", [-1.0, 0.0, 0.1, 2.5, 1e6])
def test_a_report_that_cannot_be_of_the_prompt_teaches_nothing(report: float) -> None:
    assert learned(report, times=10) == 1
    assert learned(1.5, times=10, tools=(TOOL,) * 50) == 1, "it is mostly schemas"
    assert learned(1.5, times=1) == pytest.approx(1.05, abs=0.01), "one moves it little"
