"""Caching of prompt prefixes by the provider, for each kind of provider.

The parts of a prompt are ordered by how rarely they change (tools, system prompt, key facts,
summaries, history, and what belongs to the new message only), so that a provider that caches
prefixes finds nearly all of it. Most providers do so automatically; some need a key or marks.
Google's stored contents are not used: they are billed by the hour, and its automatic cache covers
twice as much of our prompts (docs/memory.md).
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable

from src.llm.tokens import TokenCounter

ChatRunnable = Runnable[LanguageModelInput, AIMessage]


@dataclass(frozen=True)
class Call:
    """Pending call of a model.

    Attributes:
        runnable: The model, bound to its tools.
        messages: The prompt.
    """

    runnable: ChatRunnable
    messages: Sequence[BaseMessage]

    @property
    def tools(self) -> Sequence[Any]:
        """Tools declared to the model, in its provider's format."""
        return list(self._bound.get("tools") or ())

    @property
    def is_form(self) -> bool:
        """True if the reply is JSON by a schema."""
        return "response_format" in self._bound.get("extra_body", {})

    @property
    def _bound(self) -> Mapping[str, Any]:
        return getattr(self.runnable, "kwargs", {})


# Returns the call to make; prompts of one conversation, whose id it takes, share their start.
PromptCache = Callable[[Call, UUID], Call]


def send_as_is(call: Call, _conversation_id: UUID) -> Call:
    """Leave it to the provider or server, which caches prefixes automatically."""
    return call


def add_key(call: Call, conversation_id: UUID) -> Call:
    """Add a key that does not reveal the conversation: OpenAI's ``prompt_cache_key``.

    Requests with the same key go to one machine and its cache. Other servers with this API may
    refuse unknown fields, so it is used with OpenAI's own address only. See
    https://platform.openai.com/docs/guides/prompt-caching.
    """
    key = hashlib.blake2b(conversation_id.bytes, digest_size=16).hexdigest()
    return Call(call.runnable.bind(prompt_cache_key=key), call.messages)


class Breakpoints:
    """Anthropic's: it caches the prefix before a ``cache_control`` mark, until five minutes idle.

    There are three marks: at the end of the static system prompt, which all users share; at the
    end of key facts and summaries; and at the last message of the history, before what belongs to
    the new message only. The next turn's prompt extends this prefix; if the window has moved or a
    fact is new, the earlier marks still match. Writing the cache costs a quarter more than plain
    input, so nothing below the least cacheable length is marked. See
    https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching.
    """

    def __init__(self, model: str, counter: TokenCounter) -> None:
        """Use ``counter`` for the tokens of ``model``."""
        self._least = least_tokens(model)
        self._counter = counter

    def __call__(self, call: Call, _conversation_id: UUID) -> Call:
        """Add the marks."""
        tools = self._counter.count_tools(call.tools)
        messages = list(call.messages)
        for index in self._find_mark_positions(messages):
            length = tools + self._counter.count_messages(messages[: index + 1])
            if length >= self._least:
                messages[index] = _add_mark(messages[index])
        return Call(call.runnable, messages)

    def _find_mark_positions(self, messages: Sequence[BaseMessage]) -> list[int]:
        """Return the indices to mark: the last message of each stable part of the prompt."""
        kinds = [message.type for message in messages]
        systems = next((n for n, kind in enumerate(kinds) if kind != "system"), len(kinds))
        newest = max((n for n, kind in enumerate(kinds) if kind == "human"), default=0)
        return sorted({index for index in (0, systems - 1, newest - 1) if 0 <= index < newest})


def _add_mark(message: BaseMessage) -> BaseMessage:
    if not isinstance(message.content, str) or not message.content.strip():
        return message
    block = {"type": "text", "text": message.content, "cache_control": {"type": "ephemeral"}}
    return message.model_copy(update={"content": [block]})


# Least cacheable tokens; Anthropic's documentation, "Cache limitations", in 2026.
LEAST_TOKENS = {
    **dict.fromkeys(("haiku-4-5", "opus-4-5", "opus-4-6", "opus-4-7"), 4096),
    **dict.fromkeys(("haiku-3", "3-haiku", "3-5-haiku"), 2048),
}
LEAST_OF_OTHERS = 1024


def least_tokens(model: str) -> int:
    """Return the least number of tokens that Anthropic caches for a model."""
    return next((n for part, n in LEAST_TOKENS.items() if part in model), LEAST_OF_OTHERS)
