"""The offline model: rules instead of a language model, behind the same interface.

It lets a machine without any key show the whole system: the same graph, tools, schemas and
stores. It remembers what it is told, finds it again by calling the same tools as a real model, and
quotes. It never pretends to be a language model.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
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
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from src.llm.offline_facts import forget_request, is_question, parse_facts
from src.llm.offline_replies import (
    describe_forgotten,
    describe_saved,
    quote_found,
    relevant_uids,
)
from src.llm.offline_tasks import do_task, fill_form
from src.llm.prompts.time_label import strip_time_label
from src.texts import Language, detect_language, say

SEARCHED = 8  # results that are looked at
MAX_FACTS = 8  # of one message
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
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Keep the names of the tools that may be called, and the one that must be."""
        if tool_choice == "none":
            return self.bind(**kwargs)
        names = [tool.name for tool in tools if isinstance(tool, BaseTool)]
        return self.bind(tool_names=names, form=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002  (BaseChatModel's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        tool_names: Sequence[str] = (),
        form: str | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        message = answer(messages, tool_names, form=form)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        tool_names: Sequence[str] = (),
        form: str | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> Iterator[ChatGenerationChunk]:
        message = answer(messages, tool_names, form=form)
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


def answer(
    messages: Sequence[BaseMessage], tool_names: Sequence[str] = (), *, form: str | None = None
) -> AIMessage:
    """What the rules say to a prompt: tool calls, a filled form, or text.

    Args:
        messages: The prompt as any model gets it, the user's message last (or tool results).
        tool_names: The tools that may be called.
        form: The schema that must be filled, as a call of that name.
    """
    text = strip_time_label(_last_user_text(messages)).strip()
    if form is not None:
        return _calls([(form, fill_form(form, text))])
    task = do_task(_system_text(messages), text)
    if task is not None:
        return AIMessage(content=task)
    language = detect_language(text)
    results = _results_at_the_end(messages)
    if results:
        return _after_tools(results, text, language, tool_names)
    return _first_step(text, language, tool_names)


def _first_step(text: str, language: Language, tool_names: Sequence[str]) -> AIMessage:
    """A user's message: forget, find, or remember."""
    wanted = forget_request(text)
    if wanted == "":
        return AIMessage(content=say("forget_what", language))
    if wanted is not None and "forget_fact" in tool_names:
        return _calls([("search_memory", {"query": wanted, "limit": SEARCHED})])
    facts = parse_facts(text)[:MAX_FACTS]
    if not facts and is_question(text):
        return _find(text, language, tool_names)
    if facts and "save_user_fact" in tool_names:
        return _calls(
            [
                (
                    "save_user_fact",
                    {
                        "text": fact.text,
                        "quote": fact.quote,
                        "memory_type": fact.memory_type,
                        "importance": fact.importance,
                        "subject": fact.subject,
                        "relation": fact.relation,
                        "object": fact.object,
                    },
                )
                for fact in facts
            ]
        )
    return AIMessage(content=say("offline_note", language))


def _find(text: str, language: Language, tool_names: Sequence[str]) -> AIMessage:
    if TIME_QUESTION.search(text) and "current_time" in tool_names:
        return _calls([("current_time", {})])
    if "search_memory" in tool_names:
        return _calls([("search_memory", {"query": text, "limit": SEARCHED})])
    return AIMessage(content=_unknown(language))


def _after_tools(
    results: Sequence[ToolMessage],
    text: str,
    language: Language,
    tool_names: Sequence[str],
) -> AIMessage:
    """The reply to what the tools returned; after a search to forget, the forgetting."""
    found = [_read(result) for result in results]
    name = results[0].name
    if name == "current_time" and results[0].status != "error":
        return AIMessage(content=say("offline_time", language, time=str(results[0].text)))
    if name == "save_user_fact":
        return AIMessage(content=describe_saved(found, language))
    if name == "forget_fact":
        return AIMessage(content=describe_forgotten(found[0], language))
    wanted = forget_request(text)
    if name == "search_memory" and wanted and "forget_fact" in tool_names:
        uids = relevant_uids(found[0], wanted)
        if uids:
            return _calls([("forget_fact", {"ids": uids})])
        return AIMessage(content=say("forgot_nothing", language))
    return AIMessage(content=quote_found(found[0], text, language) or _unknown(language))


def _read(result: ToolMessage) -> dict[str, Any]:
    """A tool's JSON; nothing where it failed."""
    try:
        record = json.loads(str(result.text))
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


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
            return str(message.text)
    return ""


def _system_text(messages: Sequence[BaseMessage]) -> str:
    first = messages[0] if messages else None
    return str(first.text) if isinstance(first, SystemMessage) else ""


def _unknown(language: Language) -> str:
    return f"{say('offline_unknown', language)} {say('offline_note', language)}"


def _calls(calls: Sequence[tuple[str, dict[str, Any]]]) -> AIMessage:
    return AIMessage(
        content="",
        tool_calls=[
            {
                "name": name,
                "args": arguments,
                "id": f"call_{uuid.uuid4().hex}",
                "type": "tool_call",
            }
            for name, arguments in calls
        ],
    )
