"""The offline model behind LangChain's interface: same graph, tools and stores as a real one."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from src.base.config import OFFLINE_MODEL, Settings
from src.history.new_messages import (
    NewWords,
    file_names_of,
    language_of,
    own_words_of,
    strip_time_label,
)
from src.llm.chat import build_provider_model
from src.offline.replies import corrected, describe_forgotten, describe_saved, quote_found
from src.offline.tasks import do_task, fill_form
from src.reading.facts import MEMORY_TYPES, Fact
from src.reading.requests import (
    CORRECTION,
    ForgetRequest,
    asked_place,
    asks_about_bot,
    asks_to_keep_private,
    describe_time,
    forget_request,
)
from src.reading.sentences import FOLD, is_greeting, is_question, is_thanks, sentences
from src.reading.statements import TOLD, statements
from src.reminders import rules as reminders
from src.texts import LANGUAGES, Language, choose_language, detect_language, say

OPTION = re.compile(r"^• [«“](.+)[»”]$", re.MULTILINE)
ALL_OF_THEM = re.compile(
    r"(?:да,? |так,? |yes,? )?"
    r"(?:все|всё|всех|обе|оба|усе|усі|всі|обидва|обидві|all|both|everything)"
    r"(?: (?:это|этого|их|их все|три|ці|це|of (?:it|them)|three))?[.! ]*",
    re.IGNORECASE,
)
PLACES = {
    place: re.compile(rf"(?:the )?(?:{words})(?: (?:факт|one|пункт))?[.! ]*", re.IGNORECASE)
    for place, words in enumerate(
        (
            r"1|перв\w+|перш\w+|first",
            r"2|втор\w+|друг\w+|second",
            r"3|трет\w+|third",
            r"4|четв\w+|fourth",
            r"5|пят\w+|п.ят\w+|fifth",
        )
    )
} | {-1: re.compile(r"(?:the )?(?:последн\w+|останн\w+|last)(?: one)?[.! ]*", re.IGNORECASE)}


def choice_of(text: str, before: Sequence[str], answers: Sequence[str]) -> ForgetRequest | None:
    """What is to be forgotten, when the bot has just asked which of several is meant.

    It is said in other words, by its place ("второе"), or as all of them.

    Args:
        text: The answer to that.
        before: What the user wrote before it, oldest first.
        answers: What the bot said, oldest first.
    """
    asked = answers[-1] if answers else ""
    questions = tuple(say("forget_which", language) for language in LANGUAGES)
    if is_question(text) or not asked.startswith(questions):
        return None
    options = OPTION.findall(asked)
    place = next((n for n, word in PLACES.items() if word.fullmatch(text.strip())), None)
    if place is not None and place < len(options):
        return ForgetRequest(options[place])
    if ALL_OF_THEM.fullmatch(text.strip()) is None:
        return ForgetRequest(text)
    wanted = [request for one in before if (request := forget_request(one)) is not None]
    return replace(wanted[-1], everything=True) if wanted else None


# The offline model behind LangChain's interface: the same graph, tools and stores as a real one.
#
# It decides what a line is, calls the tool for it, and says what came of it, in the user's own
# words. It never pretends to be a language model.

SEARCHED = 20  # results that are looked at
CONTEXT = 5  # messages that tell the language of a short one
MAX_CALLS = 8  # of one reply; more would not run
Call = tuple[str, dict[str, Any]]
Prompt = Sequence[BaseMessage]


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
        found = answer(messages, tool_names, form=form)
        return ChatResult(generations=[ChatGeneration(message=found)])


def answer(
    messages: Sequence[BaseMessage], tool_names: Sequence[str] = (), *, form: str | None = None
) -> AIMessage:
    """What the rules say to a prompt: tool calls, a filled form, or text.

    Args:
        messages: The prompt as any model gets it, the user's message last (or tool results).
        tool_names: The tools that may be called.
        form: The schema that must be filled, as a call of that name.
    """
    human = _texts(messages, HumanMessage)
    text = human[-1].strip() if human else ""
    if form is not None:
        return _message([(form, fill_form(form, text))])
    task = do_task(_system_text(messages), text) or reminders.problem_text(messages, tool_names)
    if task is not None:
        return AIMessage(content=task)
    said = own_words_of(messages)
    text = "\n".join(words["text"].strip() for words in said if words["is_asked"])
    before = human[:-1]
    context = before[-CONTEXT:] or human[-1:]  # a file that comes first speaks for itself
    known = choose_language(language_of(messages))
    language = detect_language(text, detect_language(" ".join(context), known))
    results = _results(messages)
    if calls := _second_step(results, text, messages, tool_names):
        return _message(calls)
    wanted = forget_request(text) or choice_of(text, before, _texts(messages, AIMessage))
    if wanted is not None and not wanted.about and not wanted.everything:
        if not before or not wanted.is_last:
            return AIMessage(content=say("forget_what", language))
        wanted = ForgetRequest(before[-1])  # "forget it": what was spoken of
    calls = [call for call in _calls(said, wanted, messages) if call[0] in tool_names]
    if calls := calls[len(results) :]:
        return _message(calls[:MAX_CALLS])
    read = _read_files(messages, language)
    return AIMessage(content=_reply(results, read, text, language))


def _reply(results: Sequence[ToolMessage], read: str, text: str, language: Language) -> str:
    """The reply when nothing is left to do: to the results, to files, else to the text alone."""
    if results or read:
        after = _after_tools(results, text, language) if results else ""
        return "\n\n".join(filter(None, [after, read]))
    if asks_about_bot(text):
        return say("offline_help", language)
    if any(is_question(sentence) for sentence in sentences(text)):
        return _unknown(language)
    if is_greeting(text):
        return say("offline_hello", language)
    return say("offline_welcome" if is_thanks(text) else "offline_note", language)


def _second_step(
    results: Sequence[ToolMessage], text: str, messages: Prompt, tool_names: Sequence[str]
) -> list[Call]:
    """What needs a look at what there is before it is done: a correction, a changed reminder."""
    before = _texts(messages, HumanMessage)[:-1]
    if len(results) > 1:
        return []
    if before and _corrects(text):
        return _correct(results, text, before)
    if reminders.CANCEL_REMINDER not in tool_names:
        return []
    listed = _read(results[0]) if results else None
    return reminders.next_calls(text, messages, listed)[:MAX_CALLS]


def _read_files(messages: Prompt, language: Language) -> str:
    """That the files which came with the message were read."""
    names = dict.fromkeys(file_names_of(messages))
    return "\n".join(say("offline_file", language, name=name) for name in names)


def _calls(said: Sequence[NewWords], wanted: ForgetRequest | None, prompt: Prompt) -> list[Call]:
    """What is to be done with the messages that came together, each by itself.

    What others of a group told is remembered as well; only the one who asks asks for something.
    """
    calls: list[Call] = []
    questions: list[str] = []
    for words in said:
        text = words["text"].strip()
        own = forget_request(text)
        meant = wanted if own is None or own.is_last else own
        done = _asked_for(text, meant, prompt) if words["is_asked"] else []
        if not done:
            calls += [("save_user_fact", _named(fact, words)) for fact in statements(text)]
        if not done and words["is_asked"]:
            asked = (sentence for sentence in sentences(text) if is_question(sentence))
            questions += [sentence for sentence in asked if not asks_about_bot(sentence)]
        calls += done
    if questions:
        calls.append(("search_memory", {"query": " ".join(questions), "limit": SEARCHED}))
    return calls


def _asked_for(text: str, wanted: ForgetRequest | None, prompt: Prompt) -> list[Call]:
    """What a message asks to have done: forget, keep quiet, tell the time, remind of something."""
    if asks_to_keep_private(text):
        return [("keep_private", {})]
    if wanted is not None and not wanted.about:
        return [("forget_everything", {})] if wanted.everything else []
    if wanted is not None:
        return [("forget_fact", {"about": wanted.about, "everything": wanted.everything})]
    place = asked_place(text)
    if place is not None:
        return [("current_time", {"time_zone": place})]
    return reminders.reminder_calls(text, prompt)


def _named(fact: Fact, words: NewWords) -> dict[str, Any]:
    """The arguments of a fact with the message that tells it."""
    return fact.model_dump(include=TOLD) | ({"message": words["uid"]} if words["uid"] else {})


def _corrects(text: str) -> bool:
    """Whether a line only takes back a part of what was said, and is no statement of its own."""
    if is_question(text) or CORRECTION.match(text.translate(FOLD)) is None:
        return False
    return all(statement.relation == "other" for statement in statements(text))


def _correct(results: Sequence[ToolMessage], text: str, before: Sequence[str]) -> list[Call]:
    """The search for what a correction is about; then the fact that takes the place of that."""
    if not results:
        query = {"query": before[-1], "limit": SEARCHED, "kinds": list(MEMORY_TYPES)}
        return [("search_memory", query)]
    record = corrected(_read(results[0]), text)
    quote = text.strip().rstrip(".!… ")
    arguments: dict[str, Any] = {"text": quote, "quote": quote}
    return [("save_user_fact", arguments | ({"replaces": [record["id"]]} if record else {}))]


def _after_tools(results: Sequence[ToolMessage], text: str, language: Language) -> str:
    """The reply to what the tools returned, in the order of what the user said."""
    if _corrects(text):
        results = results[1:]  # the search for what is corrected
    if len(results) > 1 and results[0].name == reminders.LIST_REMINDERS:
        results = results[1:]  # the list of all
    saved = [_read(result) for result in results if result.name == "save_user_fact"]
    parts = [describe_saved(saved, language)] if saved else []
    parts += [_said_to(result, text, language) for result in results]
    return "\n\n".join(filter(None, parts)) or say("offline_note", language)


def _said_to(result: ToolMessage, text: str, language: Language) -> str:
    """What is said to one result; nothing to that of saving."""
    found = _read(result)
    match result.name:
        case "search_memory":
            question = " ".join(s for s in sentences(text) if is_question(s)) or text
            return quote_found(found, question, language) or _unknown(language)
        case "forget_fact":
            return describe_forgotten(found, language)
        case "forget_everything":
            is_asked = found.get("confirm", False)
            return say("forget_everything_ask" if is_asked else "forget_group", language)
        case "set_reminder" | "list_reminders" | "cancel_reminder":
            return reminders.describe_reminder(found, language, text)
        case "keep_private":
            return say("kept_private", language)
        case "current_time" if result.status != "error":
            time = describe_time(str(result.text), language)
            return say("offline_time", language, time=time)
        case "current_time":
            return say("offline_no_city", language)
    return ""


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


def _texts(messages: Sequence[BaseMessage], kind: type[BaseMessage]) -> list[str]:
    """What one side said, oldest first."""
    found = [strip_time_label(str(m.text)) for m in messages if isinstance(m, kind)]
    return [text for text in found if text.strip()]


def _system_text(messages: Sequence[BaseMessage]) -> str:
    first = messages[0] if messages else None
    return str(first.text) if isinstance(first, SystemMessage) else ""


def _unknown(language: Language) -> str:
    return f"{say('offline_unknown', language)} {say('offline_note', language)}"


def _message(calls: Sequence[Call]) -> AIMessage:
    named = [
        {"name": name, "args": arguments, "id": f"call_{uuid.uuid4().hex}", "type": "tool_call"}
        for name, arguments in calls
    ]
    return AIMessage(content="", tool_calls=named)


def build_chat_model(settings: Settings, name: str | None = None) -> BaseChatModel:
    """The chat model ``name``, a provider's or ``offline``; by default the settings' own."""
    name = name or settings.chat_model_name
    if name.partition(":")[0] == OFFLINE_MODEL:
        return OfflineChatModel()
    return build_provider_model(settings, name)
