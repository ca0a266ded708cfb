"""The chat model that the settings ask for, and the one way to call it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel, SecretStr, ValidationError

from src.config import OFFLINE_MODEL, PROVIDERS, Settings
from src.errors import ModelError
from src.llm.errors import model_error
from src.llm.offline.model import OfflineChatModel
from src.storage.turn_repo import ModelUsage

Schema = TypeVar("Schema", bound=BaseModel)
ChatRunnable = Runnable[LanguageModelInput, AIMessage]


def build_chat_model(settings: Settings, name: str | None = None) -> BaseChatModel:
    """The chat model ``name`` (``provider:model``), by default the one of the settings.

    Retries are the queue's, so the SDK makes none; its time-out is ``LLM_TIMEOUT``.
    """
    name = name or settings.chat_model_name
    provider_name, _, model = name.partition(":")
    if provider_name == OFFLINE_MODEL:
        return OfflineChatModel()
    provider = PROVIDERS[provider_name]
    key: SecretStr | None = getattr(settings, provider.key_variable.lower())
    options: dict[str, Any] = {
        "timeout": settings.llm_timeout,
        "max_retries": 0,
        "api_key": key or SecretStr("none"),  # a local server needs none, the SDK wants one
    }
    if base_url := getattr(settings, provider.base_url_variable.lower()):
        options["base_url"] = base_url
    if provider_name == "openai":
        options["stream_usage"] = True
    built: Any = init_chat_model(model, model_provider=provider_name, **options)
    if provider_name == "openai":
        built.async_client = PlainCompletions(built.async_client)
    return cast("BaseChatModel", built)


class PlainCompletions:
    """OpenAI's chat completions, sending the messages as they are.

    The SDK matches every message against every kind of message parameter, to rename fields that
    have no other name there: 5 of the 12 ms of processor time that a turn with 30 messages took.
    LangChain's messages are in the API's own form already, so they go as ``extra_body``, which
    the SDK merges into the request untouched.
    """

    def __init__(self, completions: Any) -> None:
        """Wrap ``openai.resources.chat.AsyncCompletions``."""
        self._completions = completions

    def __getattr__(self, name: str) -> Any:
        """Everything else is the SDK's."""
        return getattr(self._completions, name)

    async def create(
        self, *, messages: list[Any], extra_body: dict[str, Any] | None = None, **payload: Any
    ) -> Any:
        """``AsyncCompletions.create`` with the same arguments and result."""
        body = {**(extra_body or {}), "messages": messages}
        return await self._completions.create(messages=[], extra_body=body, **payload)


class ModelCaller:
    """Calls a chat model: streams, bounds the time, maps errors, counts tokens."""

    def __init__(self, model: BaseChatModel, name: str, *, timeout: float) -> None:
        """Call ``model``, known as ``name`` in ``model_usage``, within ``timeout`` seconds.

        The time-out bounds the wait for the first and for each next piece; a long answer that
        keeps coming may take longer in all.
        """
        self._model = model
        self.name = name
        self._timeout = timeout

    def with_tools(self, tools: Sequence[Any]) -> ChatRunnable:
        """The model, told which tools it may call."""
        return self._model.bind_tools(tools) if tools else self._model

    async def stream(
        self,
        runnable: ChatRunnable,
        messages: Sequence[BaseMessage],
        *,
        purpose: str,
        on_text: Callable[[str], None],
        on_usage: Callable[[ModelUsage], None],
    ) -> AIMessage:
        """One call; text goes to ``on_text`` as it comes, the whole message comes back.

        Raises:
            ModelUnavailableError: Worth another try: a time-out, 429, 5xx, the network.
            ModelError: The request was refused, or makes no sense to the provider.
        """
        start = time.perf_counter()
        whole: AIMessageChunk | None = None
        try:
            pieces = runnable.astream(list(messages))
            while True:
                try:
                    # Not wait_for: Python 3.11's can swallow a cancellation, and so a Stop.
                    async with asyncio.timeout(self._timeout):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    break
                chunk = _as_chunk(piece)
                whole = chunk if whole is None else whole + chunk
                if text := chunk.text:
                    on_text(str(text))
        except Exception as error:
            raise model_error(error) from error
        answer = whole or AIMessageChunk(content="")
        milliseconds = round((time.perf_counter() - start) * 1000)
        on_usage(usage_of(answer, purpose, self.name, milliseconds))
        return AIMessage(
            content=answer.content,
            tool_calls=answer.tool_calls,
            invalid_tool_calls=answer.invalid_tool_calls,
            id=answer.id,
        )

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
        message = await self.stream(
            runnable, messages, purpose=purpose, on_text=lambda _text: None, on_usage=on_usage
        )
        try:
            if message.tool_calls:
                return schema.model_validate(message.tool_calls[0]["args"])
            text = str(message.text)
            return schema.model_validate_json(text[text.find("{") : text.rfind("}") + 1])
        except ValidationError as error:
            raise ModelError(f"the reply is no {schema.__name__}") from error

    async def text(
        self,
        messages: Sequence[BaseMessage],
        *,
        purpose: str,
        on_usage: Callable[[ModelUsage], None],
    ) -> str:
        """One call whose reply is text, as a whole; raises what ``stream`` raises."""
        message = await self.stream(
            self._model, messages, purpose=purpose, on_text=lambda _text: None, on_usage=on_usage
        )
        return str(message.text).strip()


def usage_of(message: AIMessage, purpose: str, model: str, milliseconds: int) -> ModelUsage:
    """The tokens that the provider reported, zeros where it reported none."""
    usage = message.usage_metadata
    if usage is None:
        return ModelUsage(purpose, model, 0, 0, 0, milliseconds)
    cached = (usage.get("input_token_details") or {}).get("cache_read") or 0
    return ModelUsage(
        purpose, model, usage["input_tokens"], cached, usage["output_tokens"], milliseconds
    )


def _as_chunk(piece: Any) -> AIMessageChunk:
    if isinstance(piece, AIMessageChunk):
        return piece
    return AIMessageChunk(
        content=piece.content, tool_calls=piece.tool_calls, usage_metadata=piece.usage_metadata
    )
