"""The beginning of a prompt, kept by the provider: what a call must say so that it is.

The prompt stands in the order of how seldom its parts change (tools, system prompt, key facts,
summaries, history, and what belongs to the new message alone), so that a provider which compares
beginnings finds nearly all of it again. Most providers do that unasked; the others are told here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable

from src.llm.tokens import TokenCounter

ChatRunnable = Runnable[LanguageModelInput, AIMessage]


@dataclass(frozen=True)
class Call:
    """What a model is about to be asked.

    Attributes:
        runnable: The model, bound to its tools.
        messages: The prompt.
        stored: What of it the provider keeps under a name and is not sent; empty when all is sent.
    """

    runnable: ChatRunnable
    messages: Sequence[BaseMessage]
    stored: str = ""

    @property
    def tools(self) -> Sequence[Any]:
        """The tools that the model is told of, as its provider takes them."""
        return list(getattr(self.runnable, "kwargs", {}).get("tools") or ())


class PromptCache:
    """Of providers and servers that compare beginnings by themselves: nothing is said."""

    def prepare(self, call: Call, conversation_id: UUID) -> Call:  # noqa: ARG002
        """The call as it is to be made; ``conversation_id`` tells whose prompts are alike."""
        return call

    def learn(self, call: Call, cached: int) -> None:
        """Take in how many tokens of a call's prompt the provider had kept."""

    def lost(self, call: Call, error: Exception) -> bool:  # noqa: ARG002
        """Whether the call failed for what is not kept any more, so that all must be sent."""
        return False


class KeyedPromptCache(PromptCache):
    """OpenAI's: requests with one ``prompt_cache_key`` go to one machine, which remembers them.

    Other servers that speak its protocol may refuse a field that they do not know, so it is for
    OpenAI's own address only. See https://platform.openai.com/docs/guides/prompt-caching.
    """

    def prepare(self, call: Call, conversation_id: UUID) -> Call:
        """The same, with a key that says nothing about whose conversation it is."""
        key = hashlib.blake2b(conversation_id.bytes, digest_size=16).hexdigest()
        return Call(call.runnable.bind(prompt_cache_key=key), call.messages)


class BreakpointPromptCache(PromptCache):
    """Anthropic's: kept is what stands before a ``cache_control`` mark, for five minutes of rest.

    Three marks: at the end of the static system prompt, which all users share, at the end of key
    facts and summaries, and at the last message of the history, before what belongs to the new
    message alone. The next turn's prompt goes on from there; when the window has moved, or a fact
    is new, the marks before still hold.
    To write costs a quarter more than to read anew, so nothing below the least length is marked.
    See https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching.
    """

    def __init__(self, model: str, counter: TokenCounter) -> None:
        """For a model by its name, whose tokens ``counter`` counts."""
        self._least = least_tokens(model)
        self._counter = counter

    def prepare(self, call: Call, conversation_id: UUID) -> Call:  # noqa: ARG002
        """The same, marked."""
        tools = self._counter.count_tools(call.tools)
        messages = list(call.messages)
        for place in self._places(messages):
            length = tools + self._counter.count_messages(messages[: place + 1])
            if length >= self._least and (marked := _marked(messages[place])) is not None:
                messages[place] = marked
        return Call(call.runnable, messages)

    def _places(self, messages: Sequence[BaseMessage]) -> list[int]:
        """Where the marks go: the last of the prompt's parts that stay as they are."""
        systems = 0
        while systems < len(messages) and messages[systems].type == "system":
            systems += 1
        newest = newest_question(messages)
        return sorted({place for place in (0, systems - 1, newest - 1) if 0 <= place < newest})


def newest_question(messages: Sequence[BaseMessage]) -> int:
    """Where the new message stands; the tools that it led to follow it."""
    places = [n for n, message in enumerate(messages) if isinstance(message, HumanMessage)]
    return places[-1] if places else 0


def _marked(message: BaseMessage) -> BaseMessage | None:
    """The message with a mark at its end; None for what cannot be marked."""
    if not isinstance(message.content, str) or not message.content.strip():
        return None
    block = {"type": "text", "text": message.content, "cache_control": {"type": "ephemeral"}}
    return message.model_copy(update={"content": [block]})


# Tokens below which Anthropic keeps nothing; its documentation, "Cache limitations", in 2026.
LEAST_TOKENS = {"haiku-4-5": 4096, "opus-4-5": 4096, "opus-4-6": 4096, "opus-4-7": 4096,
                "haiku-3": 2048, "3-haiku": 2048, "3-5-haiku": 2048}  # fmt: skip
LEAST_OF_OTHERS = 1024


def least_tokens(model: str) -> int:
    """The shortest beginning that Anthropic keeps of a model's prompts, in tokens."""
    return next((n for part, n in LEAST_TOKENS.items() if part in model), LEAST_OF_OTHERS)
