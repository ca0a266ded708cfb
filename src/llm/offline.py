"""The offline model: rules instead of a language model, behind the same interface.

It lets a machine without any key show the whole system. It stores what it is told (the turn
stores every message anyway), and answers questions by calling the same tools as a real model
and quoting what they return. It never pretends to be a language model.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
)
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from src.texts import Language, detect_language, say

LABEL = re.compile(r"^\[Текущее время: [^\]]*\]\s*")
# How questions begin, in the three languages; a question mark makes any text a question,
# and a hyphen none: "что-то", "как-то".
QUESTION = re.compile(
    r"^\W*(как|кто|что|где|когда|куда|откуда|зачем|почему|сколько|какой|какая|какое|какие|чей|"
    r"который час|котра година|напомни|расскажи|скажи|найди|помнишь|"
    r"як|хто|що|де|коли|куди|звідки|навіщо|чому|скільки|який|яка|яке|які|чи|нагадай|розкажи|"
    r"знайди|пам’ятаєш|пам'ятаєш|"
    r"what|who|where|when|why|how|which|whose|is|are|do|does|did|can|tell|remind|find)\b(?!-)",
    re.IGNORECASE,
)
CLAUSE = re.compile(r"^\W*(когда|коли|when|где|де|where)\b", re.IGNORECASE)
TIME_QUESTION = re.compile(
    r"который час|сколько времени|котра година|скільки часу|what time|current time",
    re.IGNORECASE,
)


class OfflineChatModel(BaseChatModel):
    """A rule-based chat model that remembers and quotes."""

    @property
    def _llm_type(self) -> str:
        return "pomni-offline"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,  # noqa: ARG002  (BaseChatModel's signature)
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Keep the names of the tools that may be called."""
        names = [tool.name for tool in tools if isinstance(tool, BaseTool)]
        return self.bind(tool_names=names, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002  (BaseChatModel's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        tool_names: Sequence[str] = (),
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=answer(messages, tool_names))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        tool_names: Sequence[str] = (),
        **kwargs: Any,  # noqa: ARG002
    ) -> Iterator[ChatGenerationChunk]:
        message = answer(messages, tool_names)
        chunk = AIMessageChunk(content=message.content, tool_calls=message.tool_calls)
        yield ChatGenerationChunk(message=chunk)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages, stop, None, **kwargs):
            yield chunk


def answer(messages: Sequence[BaseMessage], tool_names: Sequence[str] = ()) -> AIMessage:
    """What the rules say to a conversation: a tool call, or the answer.

    Args:
        messages: The prompt as any model gets it, the user's message last (or tool results).
        tool_names: The tools that may be called.
    """
    results = _results_at_the_end(messages)
    question = _last_user_text(messages)
    language = detect_language(question)
    if results:
        return AIMessage(content=_answer_from(results, language))
    if not is_question(question):
        return AIMessage(
            content=f"{say('offline_stored', language)} {say('offline_note', language)}"
        )
    if TIME_QUESTION.search(question) and "current_time" in tool_names:
        return _call("current_time", {})
    if "search_messages" in tool_names:
        return _call("search_messages", {"query": question, "limit": 10})
    return AIMessage(content=_unknown(language))


def is_question(text: str) -> bool:
    """Whether a text asks something, by its mark or its first word.

    "Когда я был маленьким, …" begins like a question and tells something.
    """
    if "?" in text:
        return True
    return QUESTION.match(text) is not None and not (CLAUSE.match(text) and "," in text)


def _results_at_the_end(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        results.append(message)
    return results[::-1]


def _last_user_text(messages: Sequence[BaseMessage]) -> str:
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return LABEL.sub("", str(message.text)).strip()
    return ""


def _answer_from(results: Sequence[ToolMessage], language: Language) -> str:
    for result in results:
        if result.name == "current_time" and result.status != "error":
            return say("offline_time", language, time=str(result.text))
        quotes = _quotes(str(result.text), language)
        if quotes:
            lines = "\n".join(quotes)
            return f"{say('offline_quote_one', language)}\n\n{lines}"
    return _unknown(language)


def _quotes(result: str, language: Language) -> list[str]:
    try:
        found = json.loads(result)["messages"]
    except (ValueError, KeyError, TypeError):
        return []
    return [
        say(
            "offline_quote",
            language,
            said_at=datetime.fromisoformat(entry["said_at"]).strftime("%d.%m.%Y %H:%M"),
            text=entry["text"],
        )
        for entry in [entry for entry in found if not is_question(entry["text"])][:3]
    ]


def _unknown(language: Language) -> str:
    return f"{say('offline_unknown', language)} {say('offline_note', language)}"


def _call(name: str, arguments: dict[str, Any]) -> AIMessage:
    call = {"name": name, "args": arguments, "id": f"call_{uuid.uuid4().hex}", "type": "tool_call"}
    return AIMessage(content="", tool_calls=[call])
