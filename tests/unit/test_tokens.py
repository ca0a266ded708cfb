"""Counting tokens: OpenAI's exactly, others' as an estimate that is rather too high."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor

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

from src.llm.tokens import (
    CACHE_SIZE,
    MAX_CACHED,
    MAX_EXACT,
    TOKENS_OF_PRIMING,
    TOKENS_PER_ATTACHMENT,
    TOKENS_PER_MESSAGE,
    CountCache,
    TokenCounter,
    tokenizer_of,
)

OPENAI = TokenCounter("openai:gpt-5-mini")
CLAUDE = TokenCounter("anthropic:claude-haiku-4-5")
FRAME = TOKENS_PER_MESSAGE + TOKENS_OF_PRIMING
# Lone surrogates too: Telegram's JSON can hold halves of characters.
TEXTS = st.text(st.characters(codec=None), max_size=80)


@pytest.fixture(scope="module", autouse=True)
def loaded_vocabularies() -> None:
    """Loading takes longer than hypothesis gives an example."""
    OPENAI.load()
    TokenCounter("openai:gpt-4").load()


# The example of OpenAI's cookbook, whose counts the API itself confirms there.
COOKBOOK = [
    SystemMessage(
        "You are a helpful, pattern-following assistant that translates corporate jargon into"
        " plain English."
    ),
    SystemMessage("New synergies will help drive top-line growth.", name="example_user"),
    SystemMessage("Things working well together will increase revenue.", name="example_assistant"),
    SystemMessage(
        "Let's circle back when we have more bandwidth to touch base on opportunities for"
        " increased leverage.",
        name="example_user",
    ),
    SystemMessage(
        "Let's talk later when we're less busy about how to do better.", name="example_assistant"
    ),
    HumanMessage(
        "This late pivot means we don't have time to boil the ocean for the client deliverable."
    ),
]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [  # counted with tiktoken 0.14 and OpenAI's own o200k_base file
        ("", 0),
        ("hello world", 2),
        ("Привіт, світе! Об’єкт і п'ятниця.", 17),
        ("Сколько стоит доставка до Ижевска? «Ёлки-палки»", 17),
        ("def f(x):\n\treturn x**2  # квадрат\n\n\n", 12),
        ("😀👨‍👩‍👧‍👦🇺🇦👍🏽 e\u0301", 21),
        ("12345678 1,000.5\r\n\r\n  x", 12),
        ("[Текущее время: 2026-02-01 00:30] привет", 19),
        ("<|endoftext|>", 7),
        ("<|endoftext|> and <|im_start|>system", 15),
        ("a\ud800b", 3),
        ("a\ud83d\ude00b", 3),
    ],
)
def test_openai_texts_count_as_tiktoken_counts_them(text: str, tokens: int) -> None:
    assert OPENAI.count(text) == tokens


@pytest.mark.parametrize(
    ("model", "tokens"), [("openai:gpt-4o", 124), ("openai:gpt-4", 129), ("openai:gpt-3.5", 129)]
)
def test_a_prompt_counts_as_in_the_cookbook_of_openai(model: str, tokens: int) -> None:
    assert TokenCounter(model).count_messages(COOKBOOK) == tokens


@pytest.mark.parametrize(
    ("model", "encoding", "percent"),
    [
        ("openai:gpt-5-mini", "o200k_base", 100),
        ("openai:gpt-4.1-nano", "o200k_base", 100),
        ("openai:gpt-4o-mini-2024-07-18", "o200k_base", 100),
        ("openai:ft:gpt-4o-mini:someone::id", "o200k_base", 100),
        ("openai:o1", "o200k_base", 100),
        ("openai:o4-mini", "o200k_base", 100),
        ("openai:chatgpt-4o-latest", "o200k_base", 100),
        ("openai:openai/gpt-oss-20b", "o200k_base", 100),
        ("openai:gpt-4-turbo", "cl100k_base", 100),
        ("openai:gpt-3.5-turbo", "cl100k_base", 100),
        ("openai:ft:gpt-4:someone::id", "cl100k_base", 100),
        ("gpt-5", "o200k_base", 100),
        ("anthropic:claude-3-5-sonnet-latest", "o200k_base", 150),
        ("anthropic:claude-sonnet-4-20250514", "o200k_base", 150),
        ("anthropic:claude-sonnet-4-5-20250929", "o200k_base", 150),
        ("anthropic:claude-haiku-4-5", "o200k_base", 150),
        ("openai:anthropic/claude-opus-4.6", "o200k_base", 150),
        ("anthropic:claude-opus-4-7", "o200k_base", 165),
        ("anthropic:claude-opus-4-10", "o200k_base", 165),
        ("anthropic:claude-sonnet-5", "o200k_base", 165),
        ("google_genai:gemini-2.5-flash", "o200k_base", 120),
        ("openai:google/Gemma-3-27b-it", "o200k_base", 120),
        ("openai:some-local-model", "o200k_base", 140),
        ("openai:qwen/qwen3-32b", "o200k_base", 140),
        ("openai:gpt-j-6b", "o200k_base", 140),
        ("offline", "o200k_base", 100),
    ],
)
def test_the_name_of_the_model_decides_how_it_is_counted(
    model: str, encoding: str, percent: int
) -> None:
    found = tokenizer_of(model)
    assert (found.encoding, found.percent) == (encoding, percent)


@given(TEXTS)
def test_an_estimate_is_the_factor_times_the_real_count_rounded_up(text: str) -> None:
    assert CLAUDE.count(text) == math.ceil(OPENAI.count(text) * 3 / 2)


@given(TEXTS)
def test_a_text_has_at_most_as_many_tokens_as_bytes(text: str) -> None:
    tokens = OPENAI.count(text)
    assert (tokens > 0) == (text != "")
    assert tokens <= len(text.encode("utf-8", "surrogatepass"))


@given(TEXTS, TEXTS)
def test_joined_texts_count_about_as_much_as_apart(first: str, second: str) -> None:
    joined, apart = OPENAI.count(first + second), OPENAI.count(first) + OPENAI.count(second)
    assert joined <= apart + 4


@given(st.lists(TEXTS.map(HumanMessage), max_size=6))
def test_a_prompt_is_its_texts_and_a_frame_for_each_message(messages: list[BaseMessage]) -> None:
    texts = sum(CLAUDE.count(str(message.content)) for message in messages)
    frames = TOKENS_PER_MESSAGE * len(messages) + TOKENS_OF_PRIMING
    assert CLAUDE.count_messages(messages) == texts + frames


def test_text_blocks_count_as_their_text() -> None:
    blocks = HumanMessage(content=["hello world", {"type": "text", "text": "Сколько стоит?"}])
    assert OPENAI.count_messages([blocks]) == FRAME + 2 + OPENAI.count("Сколько стоит?")


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 50_000}},
        {"type": "image", "base64": "QUJD" * 50_000, "mime_type": "image/png"},
        {"type": "file", "file": {"file_id": "file-1"}},
    ],
)
def test_an_attachment_counts_the_same_however_many_bytes_it_has(block: dict[str, object]) -> None:
    message = HumanMessage(content=[block, {"type": "text", "text": "hello world"}])
    assert OPENAI.count_messages([message]) == FRAME + 2 + TOKENS_PER_ATTACHMENT


def test_other_blocks_count_as_their_json() -> None:
    block = {"type": "reasoning", "reasoning": "Он спросил про отпуск."}
    expected = OPENAI.count(json.dumps(block, ensure_ascii=False))
    assert OPENAI.count_messages([AIMessage(content=[block])]) == FRAME + expected


def test_tool_calls_and_their_answers_count() -> None:
    call = {"id": "call_1", "name": "search_messages", "args": {"query": "отпуск в августе"}}
    tokens = OPENAI.count(json.dumps(call, ensure_ascii=False))
    assert OPENAI.count_messages([AIMessage("", tool_calls=[call])]) == FRAME + tokens
    answer = ToolMessage("ничего", tool_call_id="call_1")
    assert OPENAI.count_messages([answer]) == (
        FRAME + OPENAI.count("ничего") + OPENAI.count("call_1")
    )


def test_a_call_that_the_content_repeats_counts_once() -> None:
    call = {"id": "toolu_1", "name": "current_time", "args": {}}
    repeated = {"type": "tool_use", "id": "toolu_1", "name": "current_time", "input": {}}
    once = AIMessage("", tool_calls=[call])
    assert CLAUDE.count_messages([AIMessage([repeated], tool_calls=[call])]) == (
        CLAUDE.count_messages([once])
    )


def test_a_malformed_tool_call_counts_too() -> None:
    broken = AIMessage(
        "", invalid_tool_calls=[{"id": None, "name": "x", "args": "{", "error": "no JSON"}]
    )
    assert OPENAI.count_messages([broken]) > FRAME


def test_counts_are_remembered_but_not_those_of_long_texts() -> None:
    counter = TokenCounter("offline")
    long = "слово " * (MAX_CACHED // 6 + 1)
    messages = [HumanMessage("раз"), HumanMessage("два"), HumanMessage("раз"), HumanMessage(long)]
    assert counter.count_messages(messages) == counter.count_messages(messages)
    assert counter.cached == 2


def test_the_cache_forgets_what_was_not_used_for_longest() -> None:
    cache = CountCache(2)
    cache.add({1: 10, 2: 20})
    assert cache.find([1, 9]) == {1: 10}
    cache.add({3: 30})
    assert cache.find([1, 2, 3]) == {1: 10, 3: 30}


def test_the_cache_never_grows_over_its_size() -> None:
    counter = TokenCounter("offline")
    counter.count_messages([HumanMessage(f"message {number}") for number in range(5_000)])
    assert counter.cached == CACHE_SIZE


def test_counting_in_many_threads_gives_the_same_counts() -> None:
    counter = TokenCounter("openai:gpt-5-mini")
    texts = [f"Сообщение номер {number % 300}" for number in range(3_000)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(counter.count, texts)) == [OPENAI.count(text) for text in texts]


def test_a_long_text_is_estimated_closely_from_samples() -> None:
    sentence = "Вчера ездили на дачу. We came back late, о дев'ятій вечора; cost: 1,250.50 RUB.\n"
    repeats = 4 * MAX_EXACT // len(sentence)
    real = OPENAI.count(sentence) * repeats
    assert real * 0.98 <= OPENAI.count(sentence * repeats) <= real * 1.02


def test_the_count_does_not_jump_where_sampling_begins() -> None:
    exact, sampled = OPENAI.count("привет " * 14_285), OPENAI.count("привет " * 14_286)
    assert exact <= sampled <= exact + 40


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "A",
        "7",
        " ",
        "\n",
        " \n",
        "'",
        "^",
        "\u0301",
        "😀",
        "漢字",
        "абв",
        "aB",
        "\u200d",
        "\x00",
    ],
)
def test_a_megabyte_that_is_hard_for_tokenizers_is_counted(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    almost = text[: MAX_EXACT - 1]
    assert 0 < OPENAI.count(text) <= len(text.encode())
    assert OPENAI.count(almost) > 0
