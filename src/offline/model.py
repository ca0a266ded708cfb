"""The notebook behind LangChain's interface: same graph, tools and stores as a real model.

It decides what a line is, calls the tool for it, and says what came of it in the user's own words.
It never pretends to be a language model, and claims nothing that it has not read.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
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
from pydantic import Field

from src.base.config import OFFLINE_MODEL, Settings
from src.history.new_messages import (
    NewWords,
    asked_at_of,
    file_names_of,
    language_of,
    own_words_of,
    read_time_label,
    strip_time_label,
)
from src.llm.chat import build_provider_model
from src.offline import replies, tasks
from src.offline.lines import NOTE, QUESTION, REQUEST, UNSURE, Vector, kind_of
from src.reading import lexicon, requests
from src.reading.gate import holds_secret
from src.reading.sentences import FOLD, is_question, sentences
from src.reading.words import shared
from src.reminders import rules as reminders
from src.texts import LANGUAGES, Language, choose_language, detect_language, say

SEARCHED = 20  # results that are looked at
CONTEXT = 5  # messages that tell the language of a short one
MAX_CALLS = 8  # of one reply; more would not run
OPTION = re.compile(r"^• [«“](.+)[»”]$", re.MULTILINE)
ALL_OF_THEM = lexicon.Expression(r"<answers.all_of_them>[.! ]*", re.IGNORECASE)
TAKES_BACK = lexicon.Expression(
    r"\W*<lines.takes_back>(?![\w'-])(?:\W*<lines.laugh>)*\W*(?P<more>.*)",
    re.IGNORECASE | re.DOTALL,
)
ASK_ME = lexicon.Expression(r"^\W*<lines.ask_me>[\s,]+", re.IGNORECASE)
Call = tuple[str, dict[str, Any]]
Prompt = Sequence[BaseMessage]
Embed = Callable[[str], Awaitable[Vector | None]]
NEWEST: Call = ("search_memory", {"kinds": ["message"], "limit": SEARCHED})
NO_KINDS: Mapping[str, str] = {}
NO_VECTORS: Mapping[str, Vector | None] = {}


class OfflineChatModel(BaseChatModel):
    """A chat model that keeps and quotes.

    Attributes:
        embed: Embeds a line, to tell what it is; None: it goes by letters and marks.
    """

    embed: Embed | None = Field(default=None, exclude=True, repr=False)

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

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        vectors: dict[str, Vector | None] = {}
        if self.embed is not None:
            lines = judged_lines(messages, kwargs.get("form"))
            found = await asyncio.gather(*map(self.embed, lines))  # each has a deadline
            vectors = dict(zip(lines, found, strict=True))
        return await asyncio.to_thread(self._generate, messages, stop, vectors=vectors, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002  (BaseChatModel's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        tool_names: Sequence[str] = (),
        form: str | None = None,
        vectors: Mapping[str, Vector | None] = NO_VECTORS,
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        kinds = {line: kind_of(line, vector) for line, vector in vectors.items()}
        found = answer(messages, tool_names, form=form, kinds=kinds)
        return ChatResult(generations=[ChatGeneration(message=found)])


def judged_lines(messages: Prompt, form: str | None) -> list[str]:
    """The lines of a prompt of which it is to be told what they are: asked, or about to be quoted.

    None of a line that is to be remembered nowhere.
    """
    text = _asked_text(own_words_of(messages))
    if form is None and tasks.do_task(_system_text(messages), "") is None:
        lines = [text, *(str(r.get("text", "")) for m in _results(messages) for r in _memories(m))]
    else:
        lines = [tasks.line_of(text)] if form == tasks.UNDERSTANDING else []
    return [one for one in lines if one.strip() and not requests.asks_to_keep_private(one)]


def answer(
    messages: Prompt,
    tool_names: Sequence[str] = (),
    *,
    form: str | None = None,
    kinds: Mapping[str, str] = NO_KINDS,
) -> AIMessage:
    """What the notebook says to a prompt: tool calls, a filled form, or text.

    Args:
        messages: The prompt as any model gets it, the user's message last (or tool results).
        tool_names: The tools that may be called.
        form: The schema that must be filled, as a call of that name.
        kinds: Of ``judged_lines``; of others the letters tell it.
    """
    text = _asked_text(own_words_of(messages))
    if form is not None:
        return _message([(form, tasks.fill_form(form, text, kinds))])
    task = tasks.do_task(_system_text(messages), text)
    if task is not None:
        return AIMessage(content=task)
    turn = Turn.read(messages, kinds)
    if reminders.asks_in_vain(turn.text, tool_names):
        return AIMessage(content=say("reminders_empty", turn.language))
    results = _results(messages)
    waits = reminders.LIST_REMINDERS in tool_names  # else there is none to move
    wanted = (call for call in turn.calls() if waits or "moves" not in call[1])
    calls = [call for call in wanted if call[0] in tool_names][len(results) :]
    if not calls and turn.is_missed(results):
        calls = [NEWEST]
    if calls:
        return _message(calls[:MAX_CALLS])
    if tool_names and "search_memory" not in tool_names and turn.kind == NOTE:
        return AIMessage(content=say("refused_memory_off", turn.language))
    return AIMessage(content=turn.reply(results))


@dataclass(frozen=True)
class Turn:
    """What was said since the last answer, and what it is.

    Attributes:
        messages: The prompt.
        said: What was typed, also by others of a group; only the one who asks asks for something.
        text: What the one who asks typed.
        kind: What that is.
        kinds: What that and the lines that were found are.
        language: Of the reply.
        before: What stood before it: what the user and the bot said, oldest first.
    """

    messages: Prompt
    said: Sequence[NewWords]
    text: str
    kind: str
    kinds: Mapping[str, str]
    language: Language
    before: Sequence[BaseMessage]

    @classmethod
    def read(cls, messages: Prompt, kinds: Mapping[str, str]) -> Turn:
        """The turn at the end of a prompt."""
        said = own_words_of(messages)
        text = _asked_text(said)
        talk = [m for m in messages if isinstance(m, HumanMessage | AIMessage) and str(m.text)]
        last = max((n for n, m in enumerate(talk) if isinstance(m, HumanMessage)), default=0)
        own = [_text_of(m) for m in talk if isinstance(m, HumanMessage)]
        context = " ".join(own[:-1][-CONTEXT:] or own)  # a file that comes first speaks for itself
        known = choose_language(language_of(messages))
        language = detect_language(text, detect_language(context, known))
        kind = kinds.get(text) or kind_of(text, None)
        return cls(messages, said, text, kind, kinds, language, talk[:last])

    @property
    def own(self) -> list[HumanMessage]:
        """What the user said before, oldest first."""
        return [message for message in self.before if isinstance(message, HumanMessage)]

    @property
    def notes(self) -> list[HumanMessage]:
        """What of it tells something."""
        return [message for message in self.own if replies.is_note(_text_of(message))]

    @property
    def question(self) -> str:
        """What it asks, if it may ask at all; empty: nothing."""
        *before, last = list(sentences(self.text)) or [""]
        asked = " ".join(part for part in (*before, last) if "?" in part and is_question(part))
        if before and not asked and is_question(last):  # "lol ok. what was it called"
            asked = last
        if requests.overview_of(self.text):
            return asked or self.text
        is_wanted = self.kind == REQUEST and ASK_ME.match(self.text) is not None
        is_asked = is_wanted or (self.kind == NOTE and is_question(self.text))
        if is_asked or self.kind in (QUESTION, UNSURE):
            asked = asked or self.text
        is_told = is_wanted or self.kind in (NOTE, QUESTION, UNSURE)
        return ASK_ME.sub("", asked) if is_told else ""

    def calls(self) -> list[Call]:
        """What is to be done, in order: what is asked for, else what is told and searched."""
        done = self._asked_for()
        told = [words for words in self.said if not (words["is_asked"] and done is not None)]
        facts = [_named(fact.model_dump(include=tasks.TOLD), w)
                 for w in told for fact in tasks.explicit_facts(w["text"])]  # fmt: skip
        calls: list[Call] = [("save_user_fact", fact) for fact in facts]
        return calls + (self._searches() if done is None else done)

    def is_missed(self, results: Sequence[ToolMessage]) -> bool:
        """Whether the search found nothing of what is asked of the user themselves."""
        found = [record for result in results for record in _memories(result)]
        is_searched = [result.name for result in results] == ["search_memory"]
        is_of_self = is_searched and bool(replies.asks_of_self(self.question))
        return is_of_self and not replies.near(found, self.question)

    def reply(self, results: Sequence[ToolMessage]) -> str:
        """What is said when nothing is left to do."""
        names = dict.fromkeys(file_names_of(self.messages))
        read = [say("offline_file", self.language, name=name) for name in names]
        told = [*self._after_tools(results), *read] or [self._small_reply()]
        return "\n\n".join(told)

    def _asked_for(self) -> list[Call] | None:
        """What a message asks to have done: to keep quiet, forget, tell the time, remind."""
        if of_reminders := reminders.reminder_calls(self.text, self.messages):
            return of_reminders
        before = _text_of(self.own[-1]) if self.own else ""
        if requests.asks_to_keep_private(self.text) or requests.announces_private(before):
            return [("keep_private", {})]
        forgetting = self._forgetting()
        if forgetting is not None:
            return forgetting
        place = requests.asked_place(self.text)
        return [("current_time", {"time_zone": place})] if place is not None else None

    def _forgetting(self) -> list[Call] | None:
        """The calls of a request to forget; none where it is not said what; None: no request."""
        taken = TAKES_BACK.match(self.text.translate(FOLD))
        if taken is not None:
            return None if taken["more"] else _forget_message(self.notes)
        wanted = requests.forget_request(self.text) or self._chosen()
        if wanted is None:
            return None
        if wanted.about:
            return [("forget_fact", {"about": wanted.about, "everything": wanted.everything})]
        if wanted.everything:
            return [("forget_everything", {})]
        return _forget_message(self.own if wanted.is_last else ())

    def _chosen(self) -> requests.ForgetRequest | None:
        """What is to be forgotten, when the bot has just asked which of several is meant.

        It is said in other words, by its place ("второе"), or as all of them.
        """
        asked = str(self.before[-1].text) if self.before else ""
        questions = tuple(say("forget_which", language) for language in LANGUAGES)
        if is_question(self.text) or not asked.startswith(questions):
            return None
        options = OPTION.findall(asked)
        place = lexicon.key_of("answers.place", self.text.lower().strip(" .!"))
        if place is not None and int(place) < len(options):
            return requests.ForgetRequest(options[int(place)])
        if ALL_OF_THEM.fullmatch(self.text) is None:
            return requests.ForgetRequest(self.text)
        wanted = [
            request for one in self.own if (request := requests.forget_request(_text_of(one)))
        ]
        return replace(wanted[-1], everything=True) if wanted else None

    def _searches(self) -> list[Call]:
        """The search for what is asked; for an overview the newest messages as well."""
        if not self.question:
            return []
        calls: list[Call] = [("search_memory", {"query": self.question, "limit": SEARCHED})]
        if requests.overview_of(self.question) in ("profile", "family"):
            calls.append(NEWEST)
        return calls

    def _after_tools(self, results: Sequence[ToolMessage]) -> list[str]:
        """What is said to what the tools returned."""
        saved = [_read(result) for result in results if result.name == "save_user_fact"]
        found = [{**_read(one), "memories": [
            {**record, "kind": self.kinds.get(str(record.get("text")))}
            for record in _memories(one)
        ]} for one in results if one.name == "search_memory"]  # fmt: skip
        parts = [replies.describe_saved(saved, self.language)] if saved else []
        if found:
            quoted = replies.quote_found(found, self.question, self.language)
            parts.append(quoted or ("" if saved else self._unknown()))
        parts += [self._said_to(result) for result in results]
        return list(filter(None, parts))

    def _said_to(self, result: ToolMessage) -> str:
        """What is said to one result; nothing to those of saving and searching."""
        found, language = _read(result), self.language
        match result.name:
            case "forget_fact":
                return replies.describe_forgotten(found, language)
            case "forget_everything":
                return say(
                    "forget_everything_ask" if found.get("confirm") else "forget_group", language
                )
            case "set_reminder" | "list_reminders" | "cancel_reminder":
                return reminders.describe_reminder(found, language)
            case "keep_private":
                is_next = requests.announces_private(self.text)
                return say("private_next" if is_next else "kept_private", language)
            case "current_time" if result.status == "error":
                return say("offline_no_city", language)
            case "current_time":
                time = requests.describe_time(str(result.text), language)
                return say("offline_time", language, time=time)
        return ""

    def _unknown(self) -> str:
        """What is said when nothing is near; a line that may be a note is kept, too."""
        if self.kind in (NOTE, UNSURE) and not is_question(self.text):
            return self._noted()
        if self.kind == REQUEST:
            return say("offline_request", self.language)
        is_sure = is_question(self.text) or requests.overview_of(self.text) is not None
        return self._with_hint(
            say("offline_unknown" if is_sure else "offline_unsure", self.language)
        )

    def _small_reply(self) -> str:
        """The reply to a line for which no tool is called."""
        if requests.asks_to_keep_private(self.text):
            return say("kept_private", self.language)
        if self._forgetting() is not None:
            return say("forget_what", self.language)
        if self.question:  # no tool may be called
            return self._unknown()
        if self.kind in (NOTE, UNSURE):
            return self._noted()
        reply = say(f"offline_{self.kind}", self.language)
        return self._with_hint(reply, always=self.kind == "identity")

    def _noted(self) -> str:
        if holds_secret(self.text):  # no memory keeps it
            return say("refused_secret", self.language)
        beside = self._beside()
        if beside is None:
            return self._with_hint(say("offline_noted", self.language))
        return say("offline_beside", self.language, text=beside)

    def _beside(self) -> str | None:
        """The note that it puts right: the last about the same, or the line before it."""
        if not replies.corrects(self.text):
            return None
        same = [text for one in self.notes if shared(self.text, text := _text_of(one))]
        near = [_text_of(one) for one in self.notes if one is self.own[-1]]
        return next(reversed(same or near), None)

    def _with_hint(self, reply: str, *, always: bool = False) -> str:
        """The reply; with the first one of a day, that no model is connected."""
        if not always and self.own and not self._is_first_of_day():
            return reply
        return f"{reply}\n\n{say('offline_note', self.language)}"

    def _is_first_of_day(self) -> bool:
        """Whether the line before, if its time is known, is of another day."""
        asked = asked_at_of(self.messages)
        if asked is None:
            return False
        before = read_time_label(str(self.own[-1].content), asked[1])
        return before is None or before.date() != asked[0].date()


def _forget_message(messages: Sequence[HumanMessage]) -> list[Call]:
    """The call that forgets the last note, or what the question was about."""
    if not messages:
        return []
    text = _text_of(messages[-1])
    ids = [words["uid"] for words in own_words_of(messages[-1:]) if words["uid"]]
    return [("forget_fact", {"ids": ids} if ids and replies.is_note(text) else {"about": text})]


def _text_of(message: BaseMessage) -> str:
    return strip_time_label(str(message.text))


def _asked_text(said: Sequence[NewWords]) -> str:
    return "\n".join(words["text"].strip() for words in said if words["is_asked"])


def _named(fact: dict[str, Any], words: NewWords) -> dict[str, Any]:
    """The arguments of a fact with the message that tells it."""
    return fact | ({"message": words["uid"]} if words["uid"] else {})


def _read(result: ToolMessage) -> dict[str, Any]:
    """A tool's JSON; nothing where it failed."""
    try:
        record = json.loads(str(result.text))
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _memories(result: ToolMessage) -> list[dict[str, Any]]:
    """What a search found."""
    return list(_read(result).get("memories") or ()) if result.name == "search_memory" else []


def _results(messages: Prompt) -> list[ToolMessage]:
    """What the tools of this turn returned."""
    last = max((n for n, m in enumerate(messages) if isinstance(m, HumanMessage)), default=0)
    return [message for message in messages[last:] if isinstance(message, ToolMessage)]


def _system_text(messages: Prompt) -> str:
    first = messages[0] if messages else None
    return str(first.text) if isinstance(first, SystemMessage) else ""


def _message(calls: Sequence[Call]) -> AIMessage:
    named = [
        {"name": name, "args": arguments, "id": f"call_{uuid.uuid4().hex}", "type": "tool_call"}
        for name, arguments in calls
    ]
    return AIMessage(content="", tool_calls=named)


def build_chat_model(
    settings: Settings, name: str | None = None, embed: Embed | None = None
) -> BaseChatModel:
    """The chat model ``name``, a provider's or ``offline``; by default the settings' own.

    ``embed`` is for the notebook: see ``OfflineChatModel``.
    """
    name = name or settings.chat_model_name
    if name.partition(":")[0] == OFFLINE_MODEL:
        return OfflineChatModel(embed=embed)
    return build_provider_model(settings, name)
