"""How many tokens a prompt has, estimated without asking the provider.

The pieces that ``PIECES`` finds in a text are about what OpenAI's tokenizer (``o200k_base``) makes
of it; other models' counts are that times a factor of the family (``FAMILIES``). What providers
report of the prompts that they were sent corrects the counts of prompts: ``TokenCounter.learn``.

The weights are a least-squares fit to ``toktok``, which carries OpenAI's vocabularies, on 273
pieces of Russian, Ukrainian and English chats, notes, messages of programs, Markdown, JSON and
Python, made 4 % larger: a prompt that is too long fails, one that is a little short only forgets
earlier. Prompts as the bot builds them come out within 10 %, hostile texts at no less than 0.4 of
what they take; ``tests/unit/test_tokens.py`` holds both.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

# OpenAI's cookbook, "How to count tokens with tiktoken": every message costs three tokens and
# its role one, a name one besides its text, and the answer is primed with three.
TOKENS_PER_MESSAGE = 4
TOKENS_PER_NAME = 1
TOKENS_OF_PRIMING = 3

# A rough figure for a picture or a file, whose bytes say nothing of its tokens: about what
# Anthropic's documentation gives for a large picture. What it really costs, the provider decides.
TOKENS_PER_ATTACHMENT = 1_600
ATTACHMENTS = frozenset(
    {"image", "image_url", "input_image", "media", "audio", "input_audio", "video", "file"}
    | {"document"}
)
# Tool calls that some providers repeat in the content; ``AIMessage.tool_calls`` has them all.
CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "tool_call_chunk"})

MARKS = "!-/:-@\\[-`{-~«»–—‘’“”„…№•─│├└→"
# What to look for, and how many hundredths of a token each find is. Long words take more and more:
# such are no words. Ukrainian takes more than Russian: its own letters tell it.
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
    # All other characters, by how many bytes they take: other alphabets, Chinese, emoji.
    (re.compile(rf"[^\t-\r -~А-яЁёіїєґІЇЄҐ\u0800-\U0010ffff{MARKS}]"), 100),
    (re.compile(rf"[\u0800-\uffff](?<![{MARKS}])"), 130),
    (re.compile("[\U00010000-\U0010ffff]"), 200),
)
MAX_WHOLE = 100_000  # characters; a longer text is counted in samples
SAMPLES = 16  # of a longer text, evenly spread, MAX_WHOLE characters together
CACHE_SIZE = 4_096  # counts, about half a megabyte

OLDER_CLAUDE = 150
# Percent of OpenAI's count; the first pattern that the model's name begins with decides. Each is
# the ratio of the worst of Russian, Ukrainian, English, Markdown, JSON and Python, rounded up.
FAMILIES: tuple[tuple[re.Pattern[str], int], ...] = (
    # ``cl100k_base``: English 1.00 to 1.04, Ukrainian 1.48 to 1.71, Russian 1.47 to 1.78.
    (re.compile(r"(ft:)?gpt-(3|4(-|:|$))"), 180),
    (re.compile(r"(ft:)?(gpt-(\d|oss)|chatgpt-|o\d(-|:|$))"), 100),
    # Claude 3 to 4.6, by ``ctok``, which reconstructs the counts of Anthropic's endpoint:
    # English 1.03 to 1.13, Python 1.23, Ukrainian 1.18 to 1.28, Russian 1.33 to 1.50.
    (re.compile(r"claude-([1-3]|instant|[a-z]+-4([-.][0-6])?(-\d{8}|[@:]|$))"), OLDER_CLAUDE),
    # Claude from Opus 4.7 on has a finer tokenizer ("approximately 30 percent more", says
    # Anthropic's documentation): English 1.34 to 1.54, Russian 1.41 to 1.52, Python 1.62.
    (re.compile(r"claude-"), 165),
    # Gemini counts with the vocabulary of Gemma 3: Ukrainian 0.93 to 0.97, Russian 0.96 to 1.00,
    # English 1.01 to 1.08, Python 1.18.
    (re.compile(r"gemini-|gemma"), 120),
    # Nobody limits the offline model; it shows what OpenAI would count.
    (re.compile(r"offline$"), 100),
)
# Llama 3, Qwen 3, Mistral, DeepSeek 3, GLM 4 and Kimi 2: English 1.01 to 1.09, Russian 1.02 to
# 1.36, Ukrainian 0.95 to 1.40 (Qwen).
UNKNOWN = 140

SMOOTHING = 0.1  # how far one report moves the factor
# How a report may differ from the count. Beyond that it is of something else: some servers leave
# out what they had cached, or report nothing but zeros.
LEAST, MOST = 0.5, 2.0
# How the schemas of tools are written out is the provider's secret, and our count of them is a
# fifth off; a prompt teaches nothing of which they are a greater share than this.
SHARE_OF_TOOLS = 1 / 3


def percent_of(model: str) -> int:
    """How to count for ``model``: ``provider:name``, where the name may have a vendor before it.

    Servers that speak OpenAI's protocol serve others' models too, so the name decides and not
    the provider: ``openai:anthropic/claude-sonnet-5`` counts as a Claude.
    """
    name = model.partition(":")[2] or model
    name = name.lower().rpartition("/")[2]
    return next((percent for pattern, percent in FAMILIES if pattern.match(name)), UNKNOWN)


class TokenCounter:
    """Counts the tokens of texts and messages for one model, from any thread."""

    def __init__(self, model: str) -> None:
        """Count for ``model``, for example ``openai:gpt-5-mini`` or ``offline``."""
        self._percent = percent_of(model)
        self._factor = 1.0
        # By the texts' hashes, so that no messages are kept. Python's are keyed at random and
        # have 64 bits: the odds of one wrong count are about 1 in 10^15.
        self._known: dict[int, int] = {}

    def count(self, text: str) -> int:
        """The tokens of ``text``, as far as is known without any report.

        So the same facts fit into their part of the prompt in each turn, and its beginning stays
        as the provider has cached it.
        """
        key = hash(text)
        if (tokens := self._known.get(key)) is None:
            tokens = _divide_up(estimate(text) * self._percent, 100)
            if len(self._known) >= CACHE_SIZE:
                self._known.clear()
            self._known[key] = tokens
        return tokens

    def count_messages(self, messages: Sequence[BaseMessage]) -> int:
        """The tokens of a prompt: texts, tool calls, and the frame of every message.

        The descriptions of the tools are not in the messages, and so not in the count.
        """
        return round(self._count_prompt(messages) * self._factor)

    def count_tools(self, tools: Sequence[Any]) -> int:
        """The tokens of the descriptions of tools, as far as one can know; see SHARE_OF_TOOLS."""
        return sum(self.count(_json(tool)) for tool in tools)

    def learn(self, messages: Sequence[BaseMessage], tools: Sequence[Any], reported: int) -> None:
        """Correct the counts of prompts by what the provider reports of one.

        Args:
            messages: What it was sent.
            tools: The schemas of the tools that it was told of.
            reported: The tokens of both.
        """
        of_tools = self.count_tools(tools)
        counted = self._count_prompt(messages) + of_tools
        ratio = reported / counted
        if LEAST <= ratio <= MOST and of_tools <= counted * SHARE_OF_TOOLS:
            self._factor += SMOOTHING * (ratio - self._factor)

    def _count_prompt(self, messages: Sequence[BaseMessage]) -> int:
        texts = sum(self.count(text) for message in messages for text in _texts_of(message))
        return texts + sum(map(_frame_of, messages)) + TOKENS_OF_PRIMING


def estimate(text: str) -> int:
    """About the tokens of ``text`` in OpenAI's ``o200k_base``, rounded up.

    A text of more than ``MAX_WHOLE`` characters is estimated from ``SAMPLES`` pieces of it, so
    that nothing that a user sends takes long.
    """
    if len(text) > MAX_WHOLE:
        size = MAX_WHOLE // SAMPLES
        step = (len(text) - size) // (SAMPLES - 1)
        sample = "".join(text[n * step : n * step + size] for n in range(SAMPLES))
        return _divide_up(estimate(sample) * len(text), len(sample))
    hundredths = sum(len(piece.findall(text)) * weight for piece, weight in PIECES)
    return max(_divide_up(hundredths, 100), min(len(text), 1))


def _divide_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _texts_of(message: BaseMessage) -> Iterator[str]:
    """Everything in ``message`` that becomes tokens of its own."""
    if message.name:
        yield message.name
    if isinstance(message.content, str):
        yield message.content
    else:
        yield from filter(None, map(_block_text, message.content))
    if isinstance(message, AIMessage):
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            # The ids go over the wire too; langchain_core's own estimate counts them as well.
            yield _json({key: call[key] for key in ("id", "name", "args")})
    elif isinstance(message, ToolMessage):
        yield message.tool_call_id


def _block_text(block: str | Mapping[str, Any]) -> str:
    """The text of a content block; other blocks, such as reasoning, as their JSON."""
    if isinstance(block, str):
        return block
    kind = block.get("type")
    if kind in CALL_BLOCKS or kind in ATTACHMENTS:
        return ""
    text = block.get("text")
    return text if kind == "text" and isinstance(text, str) else _json(block)


def _frame_of(message: BaseMessage) -> int:
    """The tokens of ``message`` that are no text: its role, its name, its attachments."""
    blocks = message.content if isinstance(message.content, list) else []
    attachments = sum(
        isinstance(block, dict) and block.get("type") in ATTACHMENTS for block in blocks
    )
    name = TOKENS_PER_NAME if message.name else 0
    return TOKENS_PER_MESSAGE + name + attachments * TOKENS_PER_ATTACHMENT


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
