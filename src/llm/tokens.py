"""Estimation of the tokens of a prompt, without asking the provider.

The matches of ``PIECES`` in a text approximate the tokens of OpenAI's tokenizer (``o200k_base``).
Other models' counts are that times a factor of their family (``FAMILIES``). Usage reported by
providers corrects the counts of prompts: ``TokenCounter.learn``.

The weights are a least-squares fit to ``toktok``, which contains OpenAI's vocabularies, on 273
pieces of Russian, Ukrainian and English chats, notes, program messages, Markdown, JSON and Python,
increased by 4 %: a prompt that is too long fails, one that is slightly short only forgets earlier.
The error is within 10 % for prompts of the bot, and hostile texts are estimated at no less than
0.4 of their tokens; ``tests/unit/llm/test_tokens.py`` verifies both.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

# OpenAI's cookbook, "How to count tokens with tiktoken": every message costs three tokens and
# its role one, a name one besides its text, and the answer is primed with three.
TOKENS_PER_MESSAGE = 4
TOKENS_PER_NAME = 1
TOKENS_OF_PRIMING = 3

# Rough figure for a picture or a file, whose size does not determine its tokens: about that of a
# large picture in Anthropic's documentation. The actual number depends on the provider.
TOKENS_PER_ATTACHMENT = 1_600
KINDS = "image image_url input_image media audio input_audio video file document"
ATTACHMENTS = frozenset(KINDS.split())
# Tool calls that some providers duplicate in the content; ``AIMessage.tool_calls`` has them all.
CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "tool_call_chunk"})

MARKS = "!-/:-@\\[-`{-~«»–—‘’“”„…№•─│├└→"
# Patterns, and the hundredths of a token that each match counts. Long words take more and more, as
# they are hardly words. Ukrainian takes more than Russian, and is recognized by its own letters.
PIECES: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"(?<=[a-z]{6})[a-z]{1,4}|[A-Z]?[a-z]{1,6}|[A-Z]{1,3}"), 88),
    (
        re.compile(
            r"(?<=[а-яёіїєґ]{14})[а-яёіїєґ]{1,2}|(?<=[а-яёіїєґ]{2})[а-яёіїєґ]{1,4}"
            r"|[А-ЯЁІЇЄҐа-яёіїєґ][а-яёіїєґ]?"
        ),
        75,
    ),
    (re.compile(r"[А-ЯЁІЇЄҐ]"), 15),
    (re.compile(r"[іїєґ]"), 150),
    (re.compile(r" (?=[0-9])|[0-9]{1,3}"), 135),
    (re.compile(rf"[{MARKS}]{{1,3}}"), 90),
    (re.compile(r"\s{2,4}|\n"), 50),
    # All other characters, by their length in bytes: other alphabets, Chinese, emoji.
    (re.compile(rf"[^\t-\r -~А-яЁёіїєґІЇЄҐ\u0800-\U0010ffff{MARKS}]"), 100),
    (re.compile(rf"[\u0800-\uffff](?<![{MARKS}])"), 130),
    (re.compile("[\U00010000-\U0010ffff]"), 200),
)
CACHE_SIZE = 4_096  # counts; about half a megabyte

# Percent of OpenAI's count, by the first pattern that matches the start of the model's name. Each
# is the worst ratio among Russian, Ukrainian, English, Markdown, JSON and Python, rounded up.
FAMILIES: tuple[tuple[re.Pattern[str], int], ...] = (
    # ``cl100k_base``: English 1.00 to 1.04, Ukrainian 1.48 to 1.71, Russian 1.47 to 1.78.
    (re.compile(r"(ft:)?gpt-(3|4(-|:|$))"), 180),
    (re.compile(r"(ft:)?(gpt-(\d|oss)|chatgpt-|o\d(-|:|$))"), 100),
    # Claude 3 to 4.6, by ``ctok``, which reconstructs the counts of Anthropic's endpoint:
    # English 1.03 to 1.13, Python 1.23, Ukrainian 1.18 to 1.28, Russian 1.33 to 1.50.
    (re.compile(r"claude-([1-3]|instant|[a-z]+-4([-.][0-6])?(-\d{8}|[@:]|$))"), 150),
    # Claude from Opus 4.7 on has a finer tokenizer ("approximately 30 percent more", says
    # Anthropic's documentation): English 1.34 to 1.54, Russian 1.41 to 1.52, Python 1.62.
    (re.compile(r"claude-"), 165),
    # Gemini counts with the vocabulary of Gemma 3: Ukrainian 0.93 to 0.97, Russian 0.96 to 1.00,
    # English 1.01 to 1.08, Python 1.18.
    (re.compile(r"gemini-|gemma"), 120),
    # The offline model has no limit; it shows OpenAI's count.
    (re.compile(r"offline$"), 100),
)
# Llama 3, Qwen 3, Mistral, DeepSeek 3, GLM 4 and Kimi 2: English 1.01 to 1.09, Russian 1.02 to
# 1.36, Ukrainian 0.95 to 1.40 (Qwen).
UNKNOWN = 140

SMOOTHING = 0.1  # weight of one report in the factor
# Plausible ratios of a report to the count. Others measure something else: some servers exclude
# cached tokens, or always report zero.
LEAST, MOST = 0.5, 2.0
# Providers do not document how they render tool schemas, and our count of them is off by a fifth.
# Prompts in which they have a greater share are not learned from.
SHARE_OF_TOOLS = 1 / 3


def percent_of(model: str) -> int:
    """Return the percentage of OpenAI's count for a model.

    The model is ``provider:name``, with an optional vendor before the name. OpenAI-compatible
    servers serve models of others too, so the name decides, not the provider:
    ``openai:anthropic/claude-sonnet-5`` is counted like Claude.
    """
    name = model.partition(":")[2] or model
    name = name.lower().rpartition("/")[2]
    return next((percent for pattern, percent in FAMILIES if pattern.match(name)), UNKNOWN)


class TokenCounter:
    """Counts the tokens of texts and messages for one model; thread-safe."""

    def __init__(self, model: str) -> None:
        """Count for ``model``, for example ``openai:gpt-5-mini`` or ``offline``."""
        self._percent = percent_of(model)
        self._factor = 1.0
        # By hash, so that no messages are kept in memory. Python's hashes are randomly keyed and
        # have 64 bits: the probability of a wrong count is about 1 in 10^15.
        self._counts: dict[int, int] = {}

    def count(self, text: str) -> int:
        """Return the tokens of ``text``, without the correction by reports.

        So the same facts fit into their part of the prompt in each turn, and its start stays
        cached by the provider.
        """
        key = hash(text)
        tokens = self._counts.get(key)
        if tokens is None:
            tokens = math.ceil(estimate(text) * self._percent / 100)
            if len(self._counts) >= CACHE_SIZE:
                self._counts.clear()
            self._counts[key] = tokens
        return tokens

    def count_messages(self, messages: Sequence[BaseMessage]) -> int:
        """Return the tokens of a prompt: texts, tool calls, and the overhead of each message.

        Tool schemas are not in the messages, and so not counted.
        """
        return round(self._count_prompt(messages) * self._factor)

    def count_tools(self, tools: Sequence[Any]) -> int:
        """Return the approximate tokens of tool schemas; see SHARE_OF_TOOLS."""
        return sum(self.count(_json(tool)) for tool in tools)

    def learn(self, messages: Sequence[BaseMessage], tools: Sequence[Any], reported: int) -> None:
        """Correct the counts of prompts by the usage that the provider reported for one.

        Args:
            messages: Messages of the prompt.
            tools: Schemas of the declared tools.
            reported: Tokens of both.
        """
        of_tools = self.count_tools(tools)
        counted = self._count_prompt(messages) + of_tools
        ratio = reported / counted
        if LEAST <= ratio <= MOST and of_tools <= counted * SHARE_OF_TOOLS:
            self._factor += SMOOTHING * (ratio - self._factor)

    def _count_prompt(self, messages: Sequence[BaseMessage]) -> int:
        tokens = TOKENS_OF_PRIMING
        for message in messages:
            tokens += TOKENS_PER_MESSAGE + sum(map(self.count, _texts_of(message)))
            if message.name:
                tokens += TOKENS_PER_NAME
            if isinstance(message.content, list):
                kinds = [block.get("type") for block in message.content if isinstance(block, dict)]
                tokens += TOKENS_PER_ATTACHMENT * len(
                    [kind for kind in kinds if kind in ATTACHMENTS]
                )
        return tokens


def estimate(text: str) -> int:
    """Return the approximate tokens of ``text`` in OpenAI's ``o200k_base``, rounded up."""
    hundredths = sum(len(piece.findall(text)) * weight for piece, weight in PIECES)
    return max(math.ceil(hundredths / 100), min(len(text), 1))


def _texts_of(message: BaseMessage) -> Iterator[str]:
    if message.name:
        yield message.name
    if isinstance(message.content, str):
        yield message.content
    else:
        yield from filter(None, map(_block_text, message.content))
    if isinstance(message, AIMessage):
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            # Ids are sent too; langchain_core's own estimate counts them as well.
            yield _json({key: call[key] for key in ("id", "name", "args")})
    elif isinstance(message, ToolMessage):
        yield message.tool_call_id


def _block_text(block: str | Mapping[str, Any]) -> str:
    if isinstance(block, str):
        return block
    kind = block.get("type")
    if kind in CALL_BLOCKS or kind in ATTACHMENTS:
        return ""
    text = block.get("text")
    if kind == "text" and isinstance(text, str):
        return text
    return _json(block)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
