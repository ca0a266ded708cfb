"""The offline model behind LangChain's interface: the same graph, tools and stores as a real one.

It decides what a line is, calls the tool for it, and says what came of it, in the user's own
words. It never pretends to be a language model.
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

from src.language.requests import forget_request, is_private
from src.language.sentences import is_question, sentences
from src.llm.offline.replies import describe_forgotten, describe_saved, quote_found
from src.llm.offline.statements import statements
from src.llm.offline.tasks import do_task, fill_form
from src.llm.prompts.new_words import NewWords, own_words_of
from src.llm.prompts.time_label import strip_time_label
from src.texts import Language, detect_language, say

SEARCHED = 20  # results that are looked at
MAX_CALLS = 8  # of one reply; more would not run
TIME_QUESTION = re.compile(
    r"(?:который час|сколько (?:сейчас )?времени|котра година|скільки (?:зараз )?часу|"
    r"what(?:'s| is)? (?:the )?time|current time)\b(?:\s+\w+){0,3}?"
    r"(?:\s+(?:в|во|у|на|in|at)\s+(?P<place>[^?.!,]{2,40}))?",
    re.IGNORECASE,
)
Call = tuple[str, dict[str, Any]]


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
        return _message([(form, fill_form(form, text))])
    task = do_task(_system_text(messages), text)
    if task is not None:
        return AIMessage(content=task)
    said = own_words_of(messages)
    text = "\n".join(words["text"].strip() for words in said if words["is_asked"])
    language = detect_language(text)
    results = _results(messages)
    wanted = forget_request(text)
    if not results and wanted is not None and not wanted.about and not wanted.everything:
        return AIMessage(content=say("forget_what", language))
    calls = [call for call in _calls(said) if call[0] in tool_names][len(results) :]
    if calls:
        return _message(calls[:MAX_CALLS])
    if results:
        return AIMessage(content=_after_tools(results, text, language))
    asked = any(is_question(sentence) for sentence in sentences(text))
    return AIMessage(content=_unknown(language) if asked else say("offline_note", language))


def _calls(said: Sequence[NewWords]) -> list[Call]:
    """What is to be done with the messages that came together, each by itself.

    What others of a group told is remembered as well; only the one who asks asks for something.
    """
    calls: list[Call] = []
    questions: list[str] = []
    for words in said:
        text = words["text"].strip()
        done = _asked_for(text) if words["is_asked"] else []
        if not done:
            calls += [("save_user_fact", _named(s.arguments(), words)) for s in statements(text)]
        if not done and words["is_asked"]:
            questions += [sentence for sentence in sentences(text) if is_question(sentence)]
        calls += done
    if questions:
        calls.append(("search_memory", {"query": " ".join(questions), "limit": SEARCHED}))
    return calls


def _asked_for(text: str) -> list[Call]:
    """What a message asks to have done: forget, keep quiet, tell the time."""
    wanted = forget_request(text)
    if is_private(text):
        return [("keep_private", {})]
    if wanted is not None and not wanted.about:
        return [("forget_everything", {})] if wanted.everything else []
    if wanted is not None:
        return [("forget_fact", {"about": wanted.about, "everything": wanted.everything})]
    time = TIME_QUESTION.search(text)
    if time is not None:
        return [("current_time", {"time_zone": (time["place"] or "").strip()})]
    return []


def _named(arguments: dict[str, Any], words: NewWords) -> dict[str, Any]:
    """The arguments of a fact with the message that tells it."""
    return arguments | ({"message": words["uid"]} if words["uid"] else {})


def _after_tools(results: Sequence[ToolMessage], text: str, language: Language) -> str:
    """The reply to what the tools returned, in the order of what the user said."""
    parts = []
    saved = [_read(result) for result in results if result.name == "save_user_fact"]
    if saved:
        parts.append(describe_saved(saved, language))
    for result in results:
        found = _read(result)
        if result.name == "search_memory":
            question = " ".join(s for s in sentences(text) if is_question(s)) or text
            parts.append(quote_found(found, question, language) or _unknown(language))
        elif result.name == "forget_fact":
            parts.append(describe_forgotten(found, language))
        elif result.name == "forget_everything":
            parts.append(say("forget_everything_ask", language))
        elif result.name == "keep_private":
            parts.append(say("kept_private", language))
        elif result.name == "current_time":
            known = result.status != "error"
            time = say("offline_time", language, time=str(result.text))
            parts.append(time if known else say("offline_no_city", language))
    return "\n\n".join(parts) or say("offline_note", language)


def _read(result: ToolMessage) -> dict[str, Any]:
    """A tool's JSON; nothing where it failed."""
    try:
        record = json.loads(str(result.text))
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _results(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """What the tools of this turn returned."""
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, ToolMessage):
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


def _message(calls: Sequence[Call]) -> AIMessage:
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
