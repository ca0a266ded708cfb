"""Caching of prompt prefixes by the provider, for each kind of provider.

The parts of a prompt are ordered by how rarely they change (tools, system prompt, key facts,
summaries, history, and what belongs to the new message only), so that a provider that caches
prefixes finds nearly all of it. Most providers do so automatically; the others need instructions.
Gemini's cached contents are created, renewed and deleted explicitly, each with a row of
``cached_contents``.
"""

import asyncio
import hashlib
import json
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from langchain_core.language_models import LanguageModelInput
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
    """Pending call of a model.

    Attributes:
        runnable: The model, bound to its tools.
        messages: The prompt.
        stored: Key of the cached part that is not sent; empty if everything is sent.
    """

    runnable: ChatRunnable
    messages: Sequence[BaseMessage]
    stored: str = ""

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


class PromptCache:
    """Base class, for providers and servers that cache prefixes automatically."""

    def prepare(self, call: Call, conversation_id: UUID) -> Call:  # noqa: ARG002
        """Return the call to make; prompts of one ``conversation_id`` share their start."""
        return call

    def learn(self, call: Call, cached: int) -> None:
        """Record how many tokens of a call's prompt the provider had cached."""

    def lost(self, call: Call, error: Exception) -> bool:  # noqa: ARG002
        """Return True if the call failed because of a lost cache entry: it must be sent whole."""
        return False


class KeyedPromptCache(PromptCache):
    """OpenAI's: requests with the same ``prompt_cache_key`` go to one machine and its cache.

    Other servers with this API may refuse unknown fields, so it is used with OpenAI's own address
    only. See https://platform.openai.com/docs/guides/prompt-caching.
    """

    def prepare(self, call: Call, conversation_id: UUID) -> Call:
        """Add a key that does not reveal the conversation."""
        key = hashlib.blake2b(conversation_id.bytes, digest_size=16).hexdigest()
        return Call(call.runnable.bind(prompt_cache_key=key), call.messages)


class BreakpointPromptCache(PromptCache):
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

    def prepare(self, call: Call, conversation_id: UUID) -> Call:  # noqa: ARG002
        """Add the marks."""
        tools = self._counter.count_tools(call.tools)
        messages = list(call.messages)
        for index in self._find_mark_positions(messages):
            length = tools + self._counter.count_messages(messages[: index + 1])
            if length >= self._least and (marked := _add_mark(messages[index])) is not None:
                messages[index] = marked
        return Call(call.runnable, messages)

    def _find_mark_positions(self, messages: Sequence[BaseMessage]) -> list[int]:
        """Return the indices to mark: the last message of each stable part of the prompt."""
        kinds = [message.type for message in messages]
        systems = next((n for n, kind in enumerate(kinds) if kind != "system"), len(kinds))
        newest = max((n for n, kind in enumerate(kinds) if kind == "human"), default=0)
        return sorted({index for index in (0, systems - 1, newest - 1) if 0 <= index < newest})


def _add_mark(message: BaseMessage) -> BaseMessage | None:
    if not isinstance(message.content, str) or not message.content.strip():
        return None
    block = {"type": "text", "text": message.content, "cache_control": {"type": "ephemeral"}}
    return message.model_copy(update={"content": [block]})


# Least cacheable tokens; Anthropic's documentation, "Cache limitations", in 2026.
LEAST_TOKENS = {"haiku-4-5": 4096, "opus-4-5": 4096, "opus-4-6": 4096, "opus-4-7": 4096,
                "haiku-3": 2048, "3-haiku": 2048, "3-5-haiku": 2048}  # fmt: skip
LEAST_OF_OTHERS = 1024


def least_tokens(model: str) -> int:
    """Return the least number of tokens that Anthropic caches for a model."""
    return next((n for part, n in LEAST_TOKENS.items() if part in model), LEAST_OF_OTHERS)


CLAIM_SECONDS = 60  # after which the claim of another process expires

# Unexpired cached content of a hash.
SELECT_CONTENT = """
SELECT name, expires_at FROM cached_contents
WHERE content_hash = %(content_hash)s AND name IS NOT NULL AND expires_at > now()
"""
# Claims a hash unless its content is valid, or another process's claim is recent.
CLAIM = """
INSERT INTO cached_contents AS c (content_hash, model) VALUES (%(content_hash)s, %(model)s)
ON CONFLICT (content_hash) DO UPDATE
SET model = EXCLUDED.model, name = NULL, expires_at = NULL, claimed_at = now()
WHERE coalesce(c.expires_at <= now(), c.claimed_at < now() - make_interval(secs => %(seconds)s))
"""
# Name and expiry of a created or renewed content.
SAVE = """
UPDATE cached_contents SET name = %(name)s, expires_at = %(expires_at)s
WHERE content_hash = %(content_hash)s
"""
# A lost content, unless another one has replaced it.
FORGET = "DELETE FROM cached_contents WHERE content_hash = %(content_hash)s AND name = %(name)s"


@dataclass(frozen=True)
class CachedContent:
    """Cached content: its name at the provider, and its expiry."""

    name: str
    expires_at: datetime


class CachedContentRepository(Repository):
    """Reads and writes ``cached_contents``; its methods block."""

    def find(self, content_hash: str) -> CachedContent | None:
        """Return the unexpired cached content of a hash, or None."""
        return self._first(CachedContent, SELECT_CONTENT, content_hash=content_hash)

    def claim(self, content_hash: str, model: str) -> bool:
        """Return True if the caller must create the content: no other process has or does."""
        values = {"content_hash": content_hash, "model": model, "seconds": CLAIM_SECONDS}
        return self._client.execute(CLAIM, values) == 1

    def save(self, content_hash: str, content: CachedContent) -> None:
        """Store a created or renewed content."""
        self._client.execute(SAVE, content_hash=content_hash, **vars(content))

    def forget(self, content_hash: str, name: str) -> None:
        """Delete a content, unless another one has replaced it."""
        self._client.execute(FORGET, content_hash=content_hash, name=name)


TTL = timedelta(hours=1)
TTL_TEXT = f"{round(TTL.total_seconds())}s"
RENEW_BEFORE = timedelta(minutes=15)  # its expiry, by the next call that uses it
MARGIN = timedelta(minutes=1)  # not used so shortly before its expiry: clocks may differ
PAUSE = timedelta(minutes=10)  # pause after a failure
# Caching for an hour costs as much as it saves in 1.00 / (0.30 - 0.03) = 3.7 prompts with
# Gemini 2.5 Flash, 4.50 / (1.25 - 0.125) = 4.0 with Pro (USD per million tokens; the page
# "Gemini Developer API pricing", November 2025). So it does not pay for fewer calls an hour.
PAYS_FROM = 4
# Least tokens of cached contents; https://ai.google.dev/gemini-api/docs/caching.
GOOGLE_LEAST, GOOGLE_LEAST_OF_PRO = 1024, 4096


@dataclass(eq=False, repr=False)
class StoredPromptCache(PromptCache):
    """Google's: it stores the start of prompts, and calls send its name instead.

    No turn waits for it: contents are looked up, created and renewed in parallel to calls, which
    meanwhile send the whole prompt. After a cache miss a call is repeated in full. Calls that must
    not call tools send everything, because a cached content cannot express that.

    The model is LangChain's ``ChatGoogleGenerativeAI``.

    Attributes:
        counter: Counts the tokens of a start.
        contents: Repository of the cached contents.
        now: Returns the current time.
    """

    _model: Any
    _name: str
    counter: TokenCounter
    contents: CachedContentRepository
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def __post_init__(self) -> None:
        """Start without cached contents."""
        self._least = GOOGLE_LEAST_OF_PRO if "pro" in self._name else GOOGLE_LEAST
        self._cached: dict[str, CachedContent] = {}
        self._calls: dict[str, deque[tuple[datetime, int]]] = defaultdict(
            lambda: deque(maxlen=PAYS_FROM)
        )
        self._paused_until: dict[str, datetime] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def prepare(self, call: Call, conversation_id: UUID) -> Call:  # noqa: ARG002
        """Return the call with the name of the cached content; unchanged if there is none."""
        key, now = self._key(call), self.now()
        content = self._cached.get(key)
        if content is None or content.expires_at - MARGIN <= now:
            return call
        if content.expires_at - RENEW_BEFORE <= now:
            self._spawn(key, self._renew_content(key, content))
        shorter = self._model.bind(cached_content=content.name)
        return Call(shorter, _as_contents(call.messages[1:]), stored=key)

    def learn(self, call: Call, cached: int) -> None:
        """Cache the start of the prompt if that pays: it is long, in use, and not cached yet.

        Google caches prefixes for newer models automatically, but without guarantee. Nothing is
        done as long as its own cache covers more than the start.
        """
        key, now = self._key(call), self.now()
        if call.stored or not key:
            return
        calls = self._calls[key]
        calls.append((now, cached))
        if len(calls) < PAYS_FROM or now - calls[0][0] > TTL:
            return
        length = self.counter.count_tools(call.tools)
        length += self.counter.count_messages(call.messages[:1])
        if length >= self._least and sum(tokens for _, tokens in calls) < PAYS_FROM * length:
            self._spawn(key, self._obtain_content(key, call))

    def lost(self, call: Call, error: Exception) -> bool:
        """Return True if a call with a cached content was refused; stop using that content."""
        if not call.stored or isinstance(error, ModelUnavailableError):
            return False
        content = self._cached.pop(call.stored, None)
        logger.warning("the cached beginning of the prompt is gone, all is sent", exc_info=error)
        self._paused_until[call.stored] = self.now() + PAUSE
        if content is not None:
            forget = asyncio.to_thread(self.contents.forget, call.stored, content.name)
            self._spawn(call.stored, forget, urgent=True)
        return True

    async def settle(self) -> None:
        """Wait until no content is being looked up, created or renewed."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _spawn(self, key: str, work: Coroutine[Any, Any, None], *, urgent: bool = False) -> None:
        """Run work in the background: one task per key, and none during its pause."""
        is_paused = self.now() < self._paused_until.get(key, datetime.min.replace(tzinfo=UTC))
        if key in self._tasks or (is_paused and not urgent):
            work.close()
            return
        task = asyncio.create_task(self._run_safely(key, work))
        self._tasks[key] = task
        task.add_done_callback(lambda _task: self._tasks.pop(key, None))

    async def _run_safely(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._paused_until[key] = self.now() + PAUSE
            logger.warning("no beginning of the prompts is cached", exc_info=model_error(error))

    def _key(self, call: Call) -> str:
        """Return the key of a call's start: a hash of the system prompt and the tools.

        It covers no user text. Empty if the call cannot use cached content: it must call no tool.
        """
        first = call.messages[0] if call.messages else None
        is_free = "tool_choice" not in getattr(call.runnable, "kwargs", {})
        if not isinstance(first, SystemMessage) or not is_free:
            return ""
        parts = [self._name, first.text, [repr(tool) for tool in call.tools]]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()

    async def _obtain_content(self, key: str, call: Call) -> None:
        content = await asyncio.to_thread(self.contents.find, key)
        if content is None:
            if not await asyncio.to_thread(self.contents.claim, key, self._name):
                return
            content = await self._create_content(call)
            await asyncio.to_thread(self.contents.save, key, content)
        self._cached[key] = content

    async def _create_content(self, call: Call) -> CachedContent:
        from langchain_google_genai import create_context_cache

        expires_at = self.now() + TTL
        options: Any = {"ttl": TTL_TEXT, "tools": list(call.tools)}
        name = await asyncio.to_thread(
            create_context_cache, self._model, list(call.messages[:1]), **options
        )
        return CachedContent(name, expires_at)

    async def _renew_content(self, key: str, content: CachedContent) -> None:
        from google.genai.types import UpdateCachedContentConfig

        stored = await asyncio.to_thread(self.contents.find, key)
        if stored is None or stored.expires_at - RENEW_BEFORE <= self.now():
            config = UpdateCachedContentConfig(ttl=TTL_TEXT)
            new = await self._model.async_client.caches.update(name=content.name, config=config)
            stored = CachedContent(new.name, new.expire_time or self.now() + TTL)
            await asyncio.to_thread(self.contents.save, key, stored)
        self._cached[key] = stored


def _as_contents(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the rest of a prompt without system messages, which only the cached part may have.

    Their text (key facts and summaries, marked as data) is prepended to the first message.
    """
    system = "\n\n".join(m.text for m in messages if isinstance(m, SystemMessage))
    first, *rest = (message for message in messages if not isinstance(message, SystemMessage))
    if system:  # for Google the first message is a user's; see ``init_state``
        first = first.model_copy(update={"content": f"{system}\n\n{first.text}"})
    return [first, *rest]
