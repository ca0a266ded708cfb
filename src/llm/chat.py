"""Chat models: construction for a provider, calls of any model, caching of prompts."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import httpx2
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import Runnable

from src.base import config, errors, providers
from src.base.metrics import Metrics
from src.llm.completions import Requests
from src.llm.errors import model_error
from src.llm.forms import Schema, read_form
from src.llm.reply import ModelReply, ModelUsage, at, ending_of
from src.llm.tokens import TokenCounter

MAX_SECONDS = 900.0  # per call, even if the reply keeps coming
# Called with True while a call of this task waits for its first token, then with False.
WAITING: ContextVar[Callable[[bool], None]] = ContextVar("waiting", default=lambda _waits: None)
# Called when a call of this task receives thoughts, which are not shown.
THINKING: ContextVar[Callable[[], None]] = ContextVar("thinking", default=lambda: None)
GRACE_SECONDS = 5.0  # wait after the end of a reply, as its usage may follow


# Caching of prompt prefixes by the provider, for each kind of provider.
#
# The parts of a prompt are ordered by how rarely they change (tools, system prompt, key facts,
# summaries, history, and what belongs to the new message only), so that a provider that caches
# prefixes finds nearly all of it. Most providers do so automatically; some need a key or marks.
# Google's stored contents are not used: they are billed by the hour, and its automatic cache
# covers twice as much of our prompts (docs/memory.md).

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
        return list(self.options.get("tools") or ())

    @property
    def is_form(self) -> bool:
        """True if the reply is JSON by a schema."""
        return "response_format" in self.options.get("extra_body", {})

    @property
    def options(self) -> Mapping[str, Any]:
        """Options that are bound to the model."""
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
    for index in {0, systems - 1, newest - 1} & set(range(newest)):  # the end of each stable part
        text = messages[index].content
        if isinstance(text, str) and text.strip():
            block = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
            messages[index] = messages[index].model_copy(update={"content": [block]})
    return Call(call.runnable, messages)


def _ignore(_told: object) -> None:
    """Do nothing."""


@contextmanager
def unbounded() -> Iterator[None]:
    """Let the calls within take longer than the turn may: what they write is not the answer."""
    notify = WAITING.get()
    notify(True)
    token = WAITING.set(_ignore)
    try:
        yield
    finally:
        WAITING.reset(token)
        notify(False)


def build_provider_model(settings: config.Settings, name: str) -> BaseChatModel:
    """Build the chat model ``name`` (``provider:model``) of a provider.

    The SDK makes no retries, because the queue does. The timeout of a connection is
    ``LLM_TIMEOUT``; that of a read is the longest permitted silence of the model.
    """
    provider_name, _, model = name.partition(":")
    provider = providers.PROVIDERS[provider_name]
    connect_timeout = settings.llm_timeout
    read_timeout = max(connect_timeout, settings.first_token_timeout(name))
    secret = provider.secret(settings)
    options: dict[str, Any] = {"timeout": read_timeout, "max_retries": 0, "api_key": secret}
    options |= provider.options
    base_url, proxy = provider.base_url(settings), provider.proxy(settings)
    if base_url:
        options["base_url"] = base_url
    if provider.has_openai_client:
        options["timeout"] = (connect_timeout, read_timeout, connect_timeout, connect_timeout)
    if proxy is not None and provider.proxy_option is not None:
        options[provider.proxy_option] = proxy
    chat_model: Any = init_chat_model(model, model_provider=provider.name, **options)
    if proxy is not None and provider.proxy_option is None:
        # Google's SDK on httpx: its default, aiohttp, has no SOCKS.
        from google.genai import Client
        from google.genai.types import HttpOptions

        clients = HttpOptions(
            base_url=base_url,
            httpx_client=httpx2.Client(proxy=proxy),
            httpx_async_client=httpx2.AsyncClient(proxy=proxy),
        )
        chat_model.client = Client(api_key=secret.get_secret_value(), http_options=clients)
    if provider.has_openai_client:
        chat_model.async_client = Requests(chat_model.async_client)
    return cast("BaseChatModel", chat_model)


@dataclass(eq=False, repr=False)
class ModelCaller:
    """Calls a chat model: streams, enforces timeouts, maps errors, records token usage.

    Attributes:
        name: Name of the model in ``model_usage``.
        timeout: Seconds to wait for each chunk; a long reply that keeps coming may take longer.
        first_timeout: Seconds to wait for the first chunk; by default ``timeout``.
        counter: Learns from the reported usage.
        metrics: Counts the reported usage.
        cache: Makes the provider cache the start of prompts.
        may_think_first: True while its replies may begin with thoughts that no tag announces: on
            a server whose template writes the opening tag. Its first reply tells.
        may_take_form: True if a model that was forced to call a tool, and did not, is asked for
            the same by a schema: on a server of one's own.
        known_tools: Names of the tools that were ever declared; calls of them are never shown.
    """

    _model: BaseChatModel
    name: str
    timeout: float
    first_timeout: float | None = None
    counter: TokenCounter | None = None
    metrics: Metrics | None = None
    cache: PromptCache = send_as_is
    may_think_first: bool = False
    may_take_form: bool = False
    known_tools: frozenset[str] = frozenset()

    @property
    def takes_tools(self) -> bool:
        """False after the server has refused tools."""
        return getattr(getattr(self._model, "async_client", None), "takes_tools", True)

    def with_tools(self, tools: Sequence[Any], *, may_call: bool = True) -> ChatRunnable:
        """Bind tools to the model; with ``may_call`` off, forbid calls of them.

        The tools are declared all the same: some providers require those whose calls are in the
        prompt, and the start of the prompt stays cached.
        """
        if not tools:
            return self._model
        self.known_tools |= {getattr(tool, "name", "") for tool in tools} - {""}
        if may_call:
            return self._model.bind_tools(tools)
        provider = providers.find_provider(self.name)
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
        """Make one call; pass text to ``on_text`` as it arrives, and return the whole message.

        The message is valid and bounded, whatever the provider sent; see ``src.llm.reply``. The
        prompt of a conversation extends its previous one, so its start is worth caching.

        Raises:
            ModelUnavailableError: A retry may succeed: a timeout, 429, 5xx, the network.
            ModelError: The request was refused, or is malformed for the provider.
        """
        start, problem = time.perf_counter(), None
        whole = call = Call(runnable, messages)
        if conversation_id is not None:
            call = self.cache(whole, conversation_id)
        reply = self._build_reply(whole)
        try:
            await self._read_reply(call, reply, on_text)
        except errors.AppError as error:
            problem = str(error)
            raise
        finally:
            if problem is not None or reply.is_coming:  # a partial reply has its price too
                tokens, milliseconds = _tokens_of(reply.usage), _milliseconds_since(start)
                usage = ModelUsage(
                    purpose, self.name, *tokens, milliseconds, reply.first_ms, problem
                )
                if self.metrics is not None:
                    usage.count(self.metrics)
                on_usage(usage)
        self.may_think_first = reply.thought_first
        if self.counter is not None and reply.usage is not None:
            self.counter.learn(messages, whole.tools, reply.usage["input_tokens"])
        return reply.message()

    def _build_reply(self, call: Call) -> ModelReply:
        if call.is_form:  # what looks like a call there is what was asked for
            return ModelReply(may_think_first=self.may_think_first, is_form=True)
        quoted = (str(m.text) for m in call.messages if not isinstance(m, AIMessage))
        offered: dict[str, Collection[str]] = {}
        for tool in call.tools:
            function = at(tool, "function") or tool
            if at(function, "name"):
                offered[function["name"]] = at(function, "parameters", "properties") or ()
        said = (str(m.text) for m in reversed(call.messages) if isinstance(m, HumanMessage))
        return ModelReply(
            offered,
            quoted,
            known=self.known_tools,
            asked=next(said, ""),
            may_think_first=self.may_think_first,
        )

    async def _read_reply(
        self, call: Call, reply: ModelReply, on_text: Callable[[str], None]
    ) -> None:
        """Make the call, and feed its chunks into ``reply``."""
        start, chunks = time.perf_counter(), cast("Any", call.runnable.astream(call.messages))
        try:
            async with asyncio.timeout(MAX_SECONDS), aclosing(chunks):
                while not reply.is_full:
                    chunk = await self._next(chunks, reply)
                    if chunk is None:
                        break
                    reply.first_ms = reply.first_ms or _milliseconds_since(start)
                    text = reply.feed(chunk)
                    if text:
                        on_text(text)
                    elif reply.is_thinking:
                        THINKING.get()()
            text = reply.flush()
            if text:
                on_text(text)
        except Exception as error:
            raise model_error(error) from error

    async def _next(self, chunks: AsyncIterator[Any], reply: ModelReply) -> AIMessage | None:
        """Return the next chunk; None at the end, or if nothing follows a finished reply.

        Until the first token, while the server reads the prompt, ``WAITING`` informs the turn.

        Raises:
            TimeoutError: No chunk arrived in time.
        """
        timeout = self.timeout
        notify: Callable[[bool], None] = _ignore
        if self.first_timeout is not None and not reply.is_coming:
            timeout, notify = self.first_timeout, WAITING.get()
        if reply.is_finished:
            timeout = GRACE_SECONDS
        notify(True)
        try:
            # Not wait_for: in Python 3.11 it can swallow a cancellation, and with it a Stop.
            async with asyncio.timeout(timeout):
                return await anext(chunks, None)
        except TimeoutError:
            if not reply.is_finished:
                raise
            return None
        finally:
            notify(False)

    async def read_ahead(self, runnable: ChatRunnable, messages: Sequence[BaseMessage]) -> None:
        """Have a self-hosted server process the start of prompts before a user waits for it.

        It generates one token. Raises the errors of ``stream``.
        """
        one_token = runnable.bind(extra_body={"max_tokens": 1})  # the name that all servers accept
        await self._read_reply(Call(one_token, messages), ModelReply(), _ignore)

    async def structured(
        self,
        messages: Sequence[BaseMessage],
        schema: type[Schema],
        *,
        purpose: str,
        on_usage: Callable[[ModelUsage], None],
    ) -> Schema:
        """Make one call whose reply is an object: the model must call a tool with that schema.

        JSON from a server that ignores the tool is accepted as well; see ``read_form``. If the
        reply does not fit, it may be asked for once more, as a ``form``.

        Raises:
            ModelUnavailableError: A retry may succeed.
            ModelError: The request was refused, or the reply does not fit the schema.
        """
        runnable = self._model.bind_tools([schema], tool_choice=schema.__name__)
        message = await self.stream(runnable, messages, purpose=purpose, on_usage=on_usage)
        forms = [call["args"] for call in message.tool_calls]
        try:
            return read_form(forms or str(message.text), schema, self.metrics)
        except errors.ModelError:
            if not self.may_take_form:
                raise
        return await self.form(messages, schema, purpose=purpose, on_usage=on_usage)

    async def form(
        self,
        messages: Sequence[BaseMessage],
        schema: type[Schema],
        *,
        purpose: str,
        on_usage: Callable[[ModelUsage], None],
        tools: Sequence[Any] = (),
    ) -> Schema:
        """Make one call whose reply is JSON, to which the server holds the model by the schema.

        llama.cpp, Ollama, vLLM and LM Studio do. A server that refuses the schema gets it as text.

        Args:
            messages: The prompt, which names the fields.
            schema: The form.
            purpose: Purpose of the call in ``model_usage``.
            on_usage: Called with the usage.
            tools: Tools that the conversation's other calls declare: with them the prompt begins
                with what the server has cached. They are not called.

        Raises:
            ModelUnavailableError: A retry may succeed.
            ModelError: The request was refused, or the reply does not fit the schema.
        """
        declared = {"name": schema.__name__, "schema": schema.model_json_schema()}
        format_ = {"type": "json_schema", "json_schema": declared}
        body = {"response_format": format_, "temperature": 0}
        bound = self.with_tools(tools, may_call=False).bind(extra_body=body)
        message = await self.stream(bound, messages, purpose=purpose, on_usage=on_usage)
        return read_form(str(message.text), schema, self.metrics)

    async def text(
        self,
        messages: Sequence[BaseMessage],
        *,
        purpose: str,
        on_usage: Callable[[ModelUsage], None],
    ) -> str:
        """Make one call, and return the complete text of the reply.

        Raises:
            ModelUnavailableError: A retry may succeed.
            ModelError: The request was refused, or a filter removed the whole reply.
        """
        message = await self.stream(self._model, messages, purpose=purpose, on_usage=on_usage)
        text = str(message.text).strip()
        if not text and ending_of(message) == "filter":
            raise errors.ModelFilteredError("the provider's filter left nothing of the reply")
        return text


def _tokens_of(usage: UsageMetadata | None) -> tuple[int | None, int | None, int | None]:
    """Return the reported tokens: of the prompt, of its cached part, of the reply.

    Zero if not reported, None for implausible counts.
    """
    if usage is None:
        return 0, 0, 0
    cached = (usage.get("input_token_details") or {}).get("cache_read") or 0
    return _valid(usage["input_tokens"]), _valid(cached), _valid(usage["output_tokens"])


def _milliseconds_since(start: float) -> int:
    return round((time.perf_counter() - start) * 1000)


def _valid(tokens: int) -> int | None:
    if tokens < 0:
        return None
    return tokens
