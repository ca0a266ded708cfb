"""A provider's chat model, and the one way to call any."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast
from uuid import UUID

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata
from pydantic import BaseModel, SecretStr

from src.base.config import Settings
from src.base.errors import AppError, ModelError
from src.base.metrics import Metrics
from src.base.providers import PROVIDERS, find_provider
from src.llm.completion_stream import MAX_TOKENS, CompletionStream
from src.llm.errors import model_error
from src.llm.prompt_cache import Call, ChatRunnable, PromptCache
from src.llm.reply import ARGUMENTS, JSON, ModelUsage, Reply, at, ending_of
from src.llm.tokens import TokenCounter

Schema = TypeVar("Schema", bound=BaseModel)

# An object (of doubled braces the inner one), or a list of objects.
JSON_BEGINS = re.compile(r"\{(?!\{)|\[\s*[{\]]")
MAX_REDIRECTS = 2  # of one call; more are a loop
MAX_SECONDS = 900.0  # of one call, however steadily it drips
# Told that a call of this task begins to wait for the first token of a slow server, or has it.
WAITING: ContextVar[Callable[[bool], None]] = ContextVar("waiting", default=lambda _waits: None)
GRACE_SECONDS = 5.0  # that a reply which is over is waited for: its usage may follow


def _ignore(_told: object) -> None:
    """Nobody wants to know."""


def build_provider_model(settings: Settings, name: str) -> BaseChatModel:
    """The chat model ``name`` (``provider:model``) of a provider.

    Retries are the queue's, so the SDK makes none. It waits for a connection ``LLM_TIMEOUT``, and
    for what comes over it as long as a model may be silent.
    """
    provider_name, _, model = name.partition(":")
    provider = PROVIDERS[provider_name]
    wait = settings.llm_timeout
    silence = max(wait, settings.first_token_timeout(name))
    options: dict[str, Any] = {
        "timeout": (wait, silence, wait, wait) if provider.has_openai_client else silence,
        "max_retries": 0,
        "api_key": provider.key(settings)
        or SecretStr("none"),  # a local server needs none, the SDK wants one
        **provider.options,
    }
    if base_url := provider.base_url(settings):
        options["base_url"] = base_url
    built: Any = init_chat_model(model, model_provider=provider.name, **options)
    if provider.has_openai_client:
        built.async_client = PlainCompletions(built.async_client)
        # The SDK follows twenty, and takes what was said along each time.
        built.root_async_client._client.max_redirects = MAX_REDIRECTS
    return cast("BaseChatModel", built)


class PlainCompletions:
    """OpenAI's chat completions, sending the request as it is.

    The SDK matches every message and every tool against every kind of parameter, to rename fields
    that have no other name there; that takes nearly half of a turn's processor time.
    LangChain's request is in the API's own form already, so it goes as ``extra_body``, which
    the SDK merges into its own untouched. And the response is read by ``CompletionStream``.
    """

    def __init__(self, completions: Any) -> None:
        """Wrap ``openai.resources.chat.AsyncCompletions``."""
        self._completions = completions

    def __getattr__(self, name: str) -> Any:
        """Everything else is the SDK's."""
        return getattr(self._completions, name)

    async def create(
        self, *, model: str, extra_body: dict[str, Any] | None = None, **payload: Any
    ) -> CompletionStream:
        """``AsyncCompletions.create`` with the same arguments, which ask for a stream."""
        body = {**payload, **(extra_body or {})}
        return CompletionStream(
            await self._completions.create(model=model, messages=[], stream=True, extra_body=body)
        )


@dataclass
class _Attempt:
    """A call under way, what has come of it, and the milliseconds until its first token."""

    call: Call
    reply: Reply
    first_ms: int = 0


class ModelCaller:
    """Calls a chat model: streams, bounds the time, maps errors, notes the tokens."""

    def __init__(  # noqa: PLR0913  (two bounds of the time)
        self,
        model: BaseChatModel,
        name: str,
        *,
        timeout: float,
        first_timeout: float | None = None,
        counter: TokenCounter | None = None,
        metrics: Metrics | None = None,
        cache: PromptCache | None = None,
    ) -> None:
        """Call ``model``, known as ``name`` in ``model_usage``, within ``timeout`` seconds.

        The time-out bounds the wait for each next piece, and that for the first where
        ``first_timeout`` is not given; a long answer that keeps coming may take longer in all.
        ``counter`` learns from what the provider reports, ``metrics`` counts it; ``cache`` has
        the provider keep what prompts begin with.
        """
        self._model = model
        self.name = name
        self._timeout = timeout
        self._first_timeout = timeout if first_timeout is None else first_timeout
        self._counter = counter
        self._metrics = metrics
        self._cache = cache or PromptCache()

    def with_tools(self, tools: Sequence[Any], *, may_call: bool = True) -> ChatRunnable:
        """The model, told which tools it may call; with ``may_call`` off, that it may not now.

        It is told of the tools all the same: some providers want to know those whose calls are
        in the prompt, and the prompt's beginning stays as it is cached.
        """
        if not tools:
            return self._model
        if may_call:
            return self._model.bind_tools(tools)
        provider = find_provider(self.name)
        no_tool: Any = "none" if provider is None else provider.no_tool
        return self._model.bind_tools(tools, tool_choice=no_tool)

    async def stream(
        self,
        runnable: ChatRunnable,
        messages: Sequence[BaseMessage],
        *,
        purpose: str,
        on_text: Callable[[str], None] = _ignore,
        on_usage: Callable[[ModelUsage], None],
        conversation_id: UUID | None = None,
    ) -> AIMessage:
        """One call; text goes to ``on_text`` as it comes, the whole message comes back.

        It is sound and within bounds, whatever the provider sent; see ``src.llm.reply``. The
        prompt of a conversation goes on from its last one, so its beginning is worth keeping.

        Raises:
            ModelUnavailableError: Worth another try: a time-out, 429, 5xx, the network.
            ModelError: The request was refused, or makes no sense to the provider.
        """
        start = time.perf_counter()
        call = whole = Call(runnable, messages)
        if conversation_id is not None:
            call = self._cache.prepare(whole, conversation_id)
        attempt = _Attempt(call, self._expected(whole))
        note = partial(self._note, attempt, purpose, on_usage)
        try:
            await self._read_or_send_all(attempt, whole, on_text, start)
        except AppError as error:
            note(_since(start), str(error))
            raise
        except asyncio.CancelledError:
            if attempt.reply.has_begun:  # it is cut short, and was paid for all the same
                note(0)
            raise
        call, reply, spent = attempt.call, attempt.reply, note(_since(start))
        if conversation_id is not None:
            self._cache.learn(call, spent.cached_tokens or 0)
        if self._counter is not None and reply.usage is not None:
            self._counter.learn(messages, whole.tools, reply.usage["input_tokens"])
        return reply.message()

    async def _read_or_send_all(
        self, attempt: "_Attempt", whole: Call, on_text: Callable[[str], None], start: float
    ) -> None:
        """Make the call; the whole one, when the provider has lost the beginning of it."""
        try:
            attempt.first_ms = await self._read(attempt.call, attempt.reply, on_text, start)
        except AppError as error:
            if attempt.reply.has_begun or not self._cache.lost(attempt.call, error):
                raise
            attempt.call, attempt.reply = whole, self._expected(whole)
            attempt.first_ms = await self._read(whole, attempt.reply, on_text, start)

    def _note(
        self,
        attempt: "_Attempt",
        purpose: str,
        on_usage: Callable[[ModelUsage], None],
        milliseconds: int,
        problem: str | None = None,
    ) -> ModelUsage:
        """Tell what a call cost, and why it failed."""
        tokens = _tokens_of(attempt.reply.usage)
        spent = ModelUsage(purpose, self.name, *tokens, milliseconds, attempt.first_ms, problem)
        if self._metrics is not None:
            spent.count(self._metrics)
        on_usage(spent)
        return spent

    def _expected(self, call: Call) -> Reply:
        """The reply to a call, before anything of it is there."""
        names = (at(tool, "function", "name") or at(tool, "name") for tool in call.tools)
        others = (str(m.text) for m in call.messages if not isinstance(m, AIMessage))
        return Reply(frozenset(filter(None, names)), others)

    async def _read(
        self, call: Call, reply: Reply, on_text: Callable[[str], None], start: float
    ) -> int:
        """Make the call, and read what comes into ``reply``.

        Returns the milliseconds until its first token.
        """
        first_ms, pieces = 0, cast("Any", call.runnable.astream(list(call.messages)))
        try:
            async with aclosing(pieces):
                while (piece := await self._next(pieces, reply, start + MAX_SECONDS)) is not None:
                    first_ms = first_ms or _since(start)
                    if text := reply.feed(piece):
                        on_text(text)
            if text := reply.flush():
                on_text(text)
        except Exception as error:
            raise model_error(error) from error
        return first_ms

    async def _next(
        self, pieces: AsyncIterator[Any], reply: Reply, deadline: float
    ) -> AIMessage | None:
        """The next piece; None at the end, and when a reply that is over or full goes on.

        A turn is told while a slow server reads the prompt for the first one.

        Raises:
            TimeoutError: Nothing came in time.
        """
        if reply.is_full:
            return None
        patience = self._timeout if reply.is_coming else self._first_timeout
        tell = WAITING.get() if patience > self._timeout else _ignore
        patience = min(patience, deadline - time.perf_counter())
        if reply.is_finished:
            patience = min(patience, GRACE_SECONDS)
        tell(True)
        try:
            # Not wait_for: Python 3.11's can swallow a cancellation, and so a Stop.
            async with asyncio.timeout(patience):
                return cast("AIMessage", await anext(pieces))
        except StopAsyncIteration:
            return None
        except TimeoutError:
            if reply.is_finished:
                return None
            raise
        finally:
            tell(False)

    async def read_ahead(self, runnable: ChatRunnable, messages: Sequence[BaseMessage]) -> None:
        """Let a server of one's own read how prompts begin, before anybody waits for it.

        It writes one token. Raises what ``stream`` raises.
        """
        short = runnable.bind(extra_body={"max_tokens": 1})  # the name that all servers know
        await self._read(Call(short, messages), Reply(), _ignore, time.perf_counter())

    async def structured(
        self,
        messages: Sequence[BaseMessage],
        schema: type[Schema],
        *,
        purpose: str,
        on_usage: Callable[[ModelUsage], None],
    ) -> Schema:
        """One call whose reply is an object: the model must call a tool of that form.

        A server that ignores the demand and writes JSON is understood as well.

        Raises:
            ModelUnavailableError: Worth another try.
            ModelError: The request was refused, or the reply does not fit the schema.
        """
        runnable = self._model.bind_tools([schema], tool_choice=schema.__name__)
        message = await self.stream(runnable, messages, purpose=purpose, on_usage=on_usage)
        call = _call_of(message, schema.__name__)
        return read_form(call["args"] if call is not None else str(message.text), schema)

    async def text(
        self,
        messages: Sequence[BaseMessage],
        *,
        purpose: str,
        on_usage: Callable[[ModelUsage], None],
    ) -> str:
        """One call whose reply is text, as a whole.

        Raises:
            ModelUnavailableError: Worth another try.
            ModelError: The request was refused, or a filter left nothing of the reply.
        """
        message = await self.stream(self._model, messages, purpose=purpose, on_usage=on_usage)
        text = str(message.text).strip()
        if not text and ending_of(message) == "filter":
            raise ModelError("the provider's filter left nothing of the reply")
        return text


def read_form(reply: Mapping[str, Any] | str, schema: type[Schema]) -> Schema:
    """A filled-in form: the arguments of a call, or a text that holds them as JSON.

    Small models write the call itself, or the list alone that the form's first field is.

    Raises:
        ModelError: It is no such form.
    """
    try:
        told = _json_in(reply) if isinstance(reply, str) else reply
        if isinstance(told, list):
            told = {next(iter(schema.model_fields)): told}
        if isinstance(told, dict) and schema.model_fields.keys().isdisjoint(told):
            told = next((told[key] for key in ARGUMENTS if key in told), told)
        return schema.model_validate(told)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the reply is no {schema.__name__}") from error


def _json_in(text: str) -> Any:
    """The first object, or list of objects, in a text; None: there is none.

    Raises:
        ValueError: It is malformed.
    """
    begin = JSON_BEGINS.search(text)
    return JSON.raw_decode(text, begin.start())[0] if begin is not None else None


def _tokens_of(usage: UsageMetadata | None) -> tuple[int | None, int | None, int | None]:
    """What the provider counted: of the prompt, of its cached part, of the reply.

    Zeros if it counted nothing, None for nonsense.
    """
    if usage is None:
        return 0, 0, 0
    cached = (usage.get("input_token_details") or {}).get("cache_read") or 0
    return _known(usage["input_tokens"]), _known(cached), _known(usage["output_tokens"])


def _since(start: float) -> int:
    return round((time.perf_counter() - start) * 1000)


def _known(tokens: int) -> int | None:
    return tokens if 0 <= tokens <= MAX_TOKENS else None


def _call_of(message: AIMessage, name: str) -> ToolCall | None:
    """The call of that name, else the first one."""
    named = (call for call in message.tool_calls if call["name"] == name)
    return next(named, message.tool_calls[0] if message.tool_calls else None)
