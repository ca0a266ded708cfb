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


def add_marks(call: Call, _conversation_id: UUID) -> Call:
    """Add Anthropic's: it caches the prefix before a ``cache_control`` mark for five idle minutes.

    There are three marks: at the end of the static system prompt, which all users share; at the
    end of key facts and summaries; and at the last message of the history, before what belongs to
    the new message only. The next turn's prompt extends this prefix; if the window has moved or a
    fact is new, the earlier marks still match. Marks of prefixes that are too short to be cached
    are ignored. See https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching.
    """
    messages = list(call.messages)
    kinds = [message.type for message in messages]
    systems = next((n for n, kind in enumerate(kinds) if kind != "system"), len(kinds))
    newest = max((n for n, kind in enumerate(kinds) if kind == "human"), default=0)
    for index in {0, systems - 1, newest - 1}:  # the last message of each stable part
        if 0 <= index < newest:
            messages[index] = _add_mark(messages[index])
    return Call(call.runnable, messages)


def _add_mark(message: BaseMessage) -> BaseMessage:
    if not isinstance(message.content, str) or not message.content.strip():
        return message
    block = {"type": "text", "text": message.content, "cache_control": {"type": "ephemeral"}}
    return message.model_copy(update={"content": [block]})
