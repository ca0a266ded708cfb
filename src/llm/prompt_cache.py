"""How the beginning of a prompt is cached by its provider, for each kind of provider.

The prompt stands in the order of how seldom its parts change (tools, system prompt, key facts,
summaries, history, and what belongs to the new message alone), so that a provider which compares
beginnings finds nearly all of it again. Most providers do that unasked; the others are told here.
Gemini's cached contents are made, renewed and deleted, each with a row of ``cached_contents``.
"""

import asyncio
import hashlib
import json
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.runnables import Runnable

from src.base.errors import ModelUnavailableError
from src.llm.errors import model_error
from src.llm.tokens import TokenCounter
from src.pg.client import Repository

logger = logging.getLogger(__name__)

ChatRunnable = Runnable[LanguageModelInput, AIMessage]


@dataclass(frozen=True)
class Call:
    """What a model is about to be asked.

    Attributes:
        runnable: The model, bound to its tools.
        messages: The prompt.
        stored: What of it is cached under a name and is not sent; empty when all is sent.
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
        """Take in how many tokens of a call's prompt the provider had cached."""

    def lost(self, call: Call, error: Exception) -> bool:  # noqa: ARG002
        """Whether the call failed for what is not cached any more, so that all must be sent."""
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
    """Anthropic's: it caches what stands before a ``cache_control`` mark, for five idle minutes.

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
        kinds = [message.type for message in messages]
        systems = next((n for n, kind in enumerate(kinds) if kind != "system"), len(kinds))
        newest = max((n for n, kind in enumerate(kinds) if kind == "human"), default=0)
        return sorted({place for place in (0, systems - 1, newest - 1) if 0 <= place < newest})


def _marked(message: BaseMessage) -> BaseMessage | None:
    """The message with a mark at its end; None for what cannot be marked."""
    if not isinstance(message.content, str) or not message.content.strip():
        return None
    block = {"type": "text", "text": message.content, "cache_control": {"type": "ephemeral"}}
    return message.model_copy(update={"content": [block]})


# Tokens below which Anthropic caches nothing; its documentation, "Cache limitations", in 2026.
LEAST_TOKENS = {"haiku-4-5": 4096, "opus-4-5": 4096, "opus-4-6": 4096, "opus-4-7": 4096,
                "haiku-3": 2048, "3-haiku": 2048, "3-5-haiku": 2048}  # fmt: skip
LEAST_OF_OTHERS = 1024


def least_tokens(model: str) -> int:
    """The shortest beginning that Anthropic caches of a model's prompts, in tokens."""
    return next((n for part, n in LEAST_TOKENS.items() if part in model), LEAST_OF_OTHERS)


CLAIM_SECONDS = 60  # after which a process that claimed and was not heard of is given up

SELECT_CONTENT = """
SELECT name, expires_at FROM cached_contents
WHERE content_hash = %(content_hash)s AND name IS NOT NULL AND expires_at > now()
"""
CLAIM = """
INSERT INTO cached_contents AS c (content_hash, model) VALUES (%(content_hash)s, %(model)s)
ON CONFLICT (content_hash) DO UPDATE
SET model = EXCLUDED.model, name = NULL, expires_at = NULL, claimed_at = now()
WHERE coalesce(c.expires_at <= now(), c.claimed_at < now() - make_interval(secs => %(seconds)s))
RETURNING content_hash
"""
SAVE = """
UPDATE cached_contents SET name = %(name)s, expires_at = %(expires_at)s
WHERE content_hash = %(content_hash)s
"""
FORGET = "DELETE FROM cached_contents WHERE content_hash = %(content_hash)s AND name = %(name)s"


@dataclass(frozen=True)
class CachedContent:
    """What is cached: its name at the provider, and until when."""

    name: str
    expires_at: datetime


class CachedContentRepository(Repository):
    """Reads and writes ``cached_contents``; it blocks."""

    def find(self, content_hash: str) -> CachedContent | None:
        """What is cached of these contents and has not expired."""
        return self._first(CachedContent, SELECT_CONTENT, content_hash=content_hash)

    def claim(self, content_hash: str, model: str) -> bool:
        """Whether the caller is to have it cached: it is not, and no other process is at it."""
        claimed = self._client.fetch_one(
            CLAIM, content_hash=content_hash, model=model, seconds=CLAIM_SECONDS
        )
        return claimed is not None

    def save(self, content_hash: str, content: CachedContent) -> None:
        """Note what is cached, or until when it is cached now."""
        self._client.execute(SAVE, content_hash=content_hash, **vars(content))

    def forget(self, content_hash: str, name: str) -> None:
        """Evict it; another one that has taken its place stays."""
        self._client.execute(FORGET, content_hash=content_hash, name=name)


TTL = timedelta(hours=1)
RENEW_BEFORE = timedelta(minutes=15)  # its end, by the next call that uses it
MARGIN = timedelta(minutes=1)  # before its end it is used no more: the clocks may differ
REST = timedelta(minutes=10)  # after a failure, and before asking for what another process makes
# What must be cached in an hour costs as much as 1.00 / (0.30 - 0.03) = 3.7 prompts of it with
# Gemini 2.5 Flash, 4.50 / (1.25 - 0.125) = 4.0 with Pro (USD for a million tokens; the page
# "Gemini Developer API pricing", November 2025). So fewer calls an hour do not pay.
PAYS_FROM = 4
# The shortest contents that are cached; https://ai.google.dev/gemini-api/docs/caching.
GOOGLE_LEAST, GOOGLE_LEAST_OF_PRO = 1024, 4096


class StoredPromptCache(PromptCache):
    """Has Google keep the beginning of the prompts, and sends its name instead.

    No turn waits for it: what has to be looked up, made or renewed is so beside the calls, which
    send all meanwhile. After a cache miss a call is made again with all of it. Calls that must not
    call tools send all: what is cached cannot be told so.
    """

    def __init__(
        self,
        model: BaseChatModel,
        name: str,
        *,
        counter: TokenCounter,
        contents: CachedContentRepository,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """For LangChain's ``ChatGoogleGenerativeAI``, whose model is called ``name``."""
        self._model: Any = model
        self._name = name
        self._counter = counter
        self._contents = contents
        self._now = now
        self._least = GOOGLE_LEAST_OF_PRO if "pro" in name else GOOGLE_LEAST
        self._cached: dict[str, CachedContent] = {}
        self._calls: dict[str, deque[tuple[datetime, int]]] = defaultdict(
            lambda: deque(maxlen=PAYS_FROM)
        )
        self._rest_until: dict[str, datetime] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def prepare(self, call: Call, conversation_id: UUID) -> Call:  # noqa: ARG002
        """The call with the name of what is cached; as it is while nothing is."""
        key, now = self._key(call), self._now()
        content = self._cached.get(key)
        if content is None or content.expires_at - MARGIN <= now:
            return call
        if content.expires_at - RENEW_BEFORE <= now:
            self._start(key, self._renew(key, content))
        shorter = self._model.bind(cached_content=content.name)
        return Call(shorter, _as_contents(call.messages[1:]), stored=key)

    def learn(self, call: Call, cached: int) -> None:
        """Have the beginning cached when that pays: it is long and in use, and it is not cached.

        For newer models Google caches unasked what prompts begin with, but promises nothing. As
        long as it finds more by itself than the beginning has, it is left alone.
        """
        key, now = self._key(call), self._now()
        if call.stored or not key:
            return
        calls = self._calls[key]
        calls.append((now, cached))
        if len(calls) < PAYS_FROM or now - calls[0][0] > TTL:
            return
        length = self._counter.count_tools(call.tools)
        length += self._counter.count_messages(call.messages[:1])
        if length >= self._least and sum(tokens for _, tokens in calls) < PAYS_FROM * length:
            self._start(key, self._cache(key, call))

    def lost(self, call: Call, error: Exception) -> bool:
        """Whether a call that named what is cached was refused; the next ones do not name it."""
        if not call.stored or isinstance(error, ModelUnavailableError):
            return False
        content = self._cached.pop(call.stored, None)
        logger.warning("the cached beginning of the prompt is gone, all is sent", exc_info=error)
        self._rest(call.stored)
        if content is not None:
            forget = asyncio.to_thread(self._contents.forget, call.stored, content.name)
            self._start(call.stored, forget, urgent=True)
        return True

    async def settle(self) -> None:
        """Return when nothing is being looked up, made or renewed."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _start(self, key: str, work: Coroutine[Any, Any, None], *, urgent: bool = False) -> None:
        """Do it beside the calls, one at a time for each beginning, and not while that rests."""
        resting = self._now() < self._rest_until.get(key, datetime.min.replace(tzinfo=UTC))
        if key in self._tasks or (resting and not urgent):
            work.close()
            return
        task = asyncio.create_task(self._guarded(key, work))
        self._tasks[key] = task
        task.add_done_callback(lambda _task: self._tasks.pop(key, None))

    async def _guarded(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._rest(key)
            logger.warning("no beginning of the prompts is cached", exc_info=model_error(error))

    def _rest(self, key: str) -> None:
        self._rest_until[key] = self._now() + REST

    def _key(self, call: Call) -> str:
        """What tells the beginning of a call from all others: the system prompt and the tools.

        No user's text is in it. Empty when the call says more than can be cached: to call no tool.
        """
        first = call.messages[0] if call.messages else None
        is_free = "tool_choice" not in getattr(call.runnable, "kwargs", {})
        if not isinstance(first, SystemMessage) or not is_free:
            return ""
        parts = [self._name, first.text, [repr(tool) for tool in call.tools]]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()

    async def _cache(self, key: str, call: Call) -> None:
        """Take what another process has made; else make it, unless another one is at it."""
        content = await asyncio.to_thread(self._contents.find, key)
        if content is None:
            if not await asyncio.to_thread(self._contents.claim, key, self._name):
                return
            content = await self._create(call)
            await asyncio.to_thread(self._contents.save, key, content)
        self._cached[key] = content

    async def _create(self, call: Call) -> CachedContent:
        from langchain_google_genai import create_context_cache

        expires_at = self._now() + TTL
        told: Any = {"ttl": _seconds(TTL), "tools": list(call.tools)}
        name = await asyncio.to_thread(
            create_context_cache, self._model, list(call.messages[:1]), **told
        )
        return CachedContent(name, expires_at)

    async def _renew(self, key: str, content: CachedContent) -> None:
        """Prolong it; another process may have done so already."""
        from google.genai.types import UpdateCachedContentConfig

        stored = await asyncio.to_thread(self._contents.find, key)
        if stored is None or stored.expires_at - RENEW_BEFORE <= self._now():
            config = UpdateCachedContentConfig(ttl=_seconds(TTL))
            made = await self._model.async_client.caches.update(name=content.name, config=config)
            stored = CachedContent(made.name, made.expire_time or self._now() + TTL)
            await asyncio.to_thread(self._contents.save, key, stored)
        self._cached[key] = stored


def _as_contents(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The rest of a prompt without system messages, which may stand in the cached part alone.

    What they said (key facts and summaries, marked as data) begins the first message.
    """
    said = "\n\n".join(m.text for m in messages if isinstance(m, SystemMessage))
    first, *rest = (message for message in messages if not isinstance(message, SystemMessage))
    if said:  # for Google the first one is a user's; see ``init_state``
        first = first.model_copy(update={"content": f"{said}\n\n{first.text}"})
    return [first, *rest]


def _seconds(time: timedelta) -> str:
    return f"{round(time.total_seconds())}s"
