"""The notebook behind LangChain's interface: same graph, tools and stores as a real model.

It decides what a line is, calls the tool for it, and says what came of it in the user's own words.
It never pretends to be a language model, and claims nothing that it has not read.
"""

import asyncio
import json
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import Field

from src.history import new_messages as history
from src.llm.quoting import RECORDS
from src.memory.line_kinds import NOTE, QUESTION, REQUEST, UNSURE, Kind, Vector, kind_of
from src.memory.tools import describe_forgotten, describe_saved
from src.offline import replies, tasks
from src.reading import lexicon, requests
from src.reading.contradictions import stance
from src.reading.gate import holds_secret
from src.reading.sentences import FOLD, is_question, sentences
from src.reading.words import content, shared
from src.reminders import rules as reminders
from src.texts import LANGUAGES, Language, choose_language, detect_language, say

SAVE, SEARCH = "save_user_fact", "search_memory"
SEARCHED = 20  # results that are looked at
CONTEXT = 5  # messages that tell the language of a short one
MAX_CALLS = 8  # of one reply; more would not run
DAY = len("[Текущее время: 2026-11-21")  # of a message's label
OPTION = re.compile(r"^• [«“](.+)[»”]$", re.M)
TAKES_BACK = lexicon.Expression(
    rf"{replies.LEAD}<lines.takes_back>(?![\w'-])"
    r"(?P<sign>(?:\W*<lines.laugh>)*\W*)(?P<more>.*)",
    re.I | re.S,
)
ABOUT = lexicon.AnyCase(r"<forget.about> ")
# What goes on with the note before it: "it's on the 25th", "в субботу", "I sold it".
IN_ITS_PLACE = lexicon.AnyCase(
    r"(?:<lines.continues>|<forget.that>|<lines.question_preposition>)(?![\w'-])"
    r"|.{1,60}\s<lines.continues>\W*$"
)
SIGN = re.compile(r"[,.;:!)—–]|\s-")
ASK_ME = lexicon.AnyCase(r"^\W*<lines.ask_me>[\s,]+")
GIVE_ME = lexicon.AnyCase(r"^\W*<lines.give_me>\s")  # "скинь номер сантехника"
Call = tuple[str, dict[str, Any]]
Prompt = Sequence[BaseMessage]
Names = Sequence[str]
Embed = Callable[[str], Awaitable[Vector | None]]
NEWEST: Call = (SEARCH, {"kinds": ["message"], "limit": SEARCHED})
# What is said to the results of tools, but for those of saving, searching and the clock.
DESCRIBED: Mapping[str | None, Callable[[Mapping[str, Any], Language], str]] = {
    **dict.fromkeys(("forget_fact", "forget_everything"), describe_forgotten),
    **dict.fromkeys(reminders.TOOLS, reminders.describe_reminder),
}


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
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Keep the names of the tools that may be called, and the one that must be."""
        names = [tool.name for tool in tools if isinstance(tool, BaseTool)]
        offered = {} if tool_choice == "none" else {"tool_names": names, "form": tool_choice}
        return self.bind(offered=offered, **kwargs)

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **bound: Any) -> ChatResult:
        lines = judged_lines(messages) if self.embed is not None else []
        found = await asyncio.gather(*map(self.embed, lines)) if self.embed else []
        vectors = dict(zip(lines, found, strict=True))  # each has a deadline

        def kind(line: str) -> str:
            return kind_of(line, vectors.get(line))

        offered = bound.get("offered", {})
        said = await asyncio.to_thread(answer, messages, kind=kind, **offered)
        return ChatResult(generations=[ChatGeneration(message=said)])

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        return asyncio.run(self._agenerate(*args, **kwargs))


def judged_lines(messages: Prompt) -> list[str]:
    """The lines of a prompt of which it is to be told what they are: asked, or about to be quoted.

    None of a line that is to be remembered nowhere.
    """
    records, asked = _records(messages), _asked_text(history.own_words_of(messages))
    told = [*records.get("messages", ())[-1:]] if records is not None else [{"text": asked}]
    if records is None:
        told += [one for tool in _results(messages) for one in _read(tool).get("memories") or ()]
    lines = (str(one.get("text", "")) for one in told)
    return [one for one in lines if one.strip() and not requests.asks_to_keep_private(one)]


def answer(
    messages: Prompt, tool_names: Names = (), *, form: str | None = None, kind: Kind = kind_of
) -> AIMessage:
    """What the notebook says to a prompt: tool calls, a filled form, or text.

    Args:
        messages: The prompt as any model gets it, the user's message last (or tool results).
        tool_names: The tools that may be called.
        form: The schema that must be filled, as a call of that name.
        kind: Tells what a line is, by default by its letters.
    """
    records = _records(messages)
    if form is not None:
        return _calling([(form, tasks.fill_form(form, records or {}, kind))])
    if records is not None:
        return AIMessage(tasks.summary_of(records))
    turn = Turn(messages, tool_names, kind)
    if not turn.cancels_note() and reminders.asks_in_vain(turn.text, tool_names):
        return AIMessage(say("reminders_empty", turn.language))
    results = _results(messages)
    calls = [call for call in turn.calls() if call[0] in tool_names][len(results) :]
    # Forgetting hides the message, so that what it tells is saved before, and not beside it.
    first = [call for call in calls if call[0] == SAVE] if ("forget_fact" in dict(calls)) else []
    return _calling((first or calls)[:MAX_CALLS]) if calls else AIMessage(turn.reply(results))


class Turn:
    """What was said since the last answer, and what it is.

    Attributes:
        text: What the one who asks typed.
        language: Of the reply.
    """

    def __init__(self, messages: Prompt, tool_names: Names, kind: Kind) -> None:
        """Read the end of a prompt; ``kind`` tells what a line is."""
        self._messages, self._tool_names, self._kind_of = messages, tool_names, kind
        self._said = history.own_words_of(messages)  # also by others of a group
        self.text = _asked_text(self._said)
        self._kind = kind(self.text)
        talk = [m for m in messages if isinstance(m, HumanMessage | AIMessage) and str(m.text)]
        last = max((n for n, m in enumerate(talk) if isinstance(m, HumanMessage)), default=0)
        self._before, self._last = talk[:last], talk[last:]
        self._own = [m for m in self._before if isinstance(m, HumanMessage)]  # oldest first
        asks, before = requests.asks_to_keep_private, map(_text_of, self._own[-1:])
        self._is_private = asks(self.text) or any(map(requests.announces_private, before))
        # A file that comes first speaks for itself.
        context = " ".join(map(_text_of, self._own[-CONTEXT:] or self._last))
        known = choose_language(history.language_of(messages))
        self.language = detect_language(self.text, detect_language(context, known))

    def calls(self) -> list[Call]:
        """What is to be done, in order: what is asked for, else what is told and searched."""
        done = self._asked_for()
        told = [words for words in self._said if not (words["is_asked"] and done is not None)]
        calls: list[Call] = [(SAVE, fact) for words in told for fact in tasks.facts_of(words)]
        return calls + (self._searches() if done is None else done)

    def cancels_note(self) -> bool:
        """Whether a bare "cancel it" takes back the note that was told last."""
        last = _text_of(self._own[-1]) if self._own else ""
        return reminders.cancels_note(self.text, last, self._messages) and replies.is_note(last)

    def reply(self, results: Sequence[ToolMessage]) -> str:
        """What is said when nothing is left to do."""
        files = () if self._is_private else history.file_names_of(self._messages)
        saved = [describe_saved(_read(one), self.language) for one in results if one.name == SAVE]
        found = [_read(one) for one in results if one.name == SEARCH]
        parts = [
            "\n".join(dict.fromkeys(saved)),
            replies.quote_found(found, self._question, self.language, self._kind_of),
            *map(self._said_to, results),
            *(say("offline_file", self.language, name=name) for name in dict.fromkeys(files)),
        ]
        return "\n\n".join(filter(None, parts)) or self._small_reply()

    @property
    def _notes(self) -> list[HumanMessage]:
        """What the user said before that tells something."""
        return [message for message in self._own if replies.is_note(_text_of(message))]

    @property
    def _question(self) -> str:
        """What it asks, if it may ask at all; empty: nothing."""
        *before, last = list(sentences(self.text)) or [""]
        asked = " ".join(part for part in (*before, last) if "?" in part and is_question(part))
        if before and not asked and is_question(last) and content(last):
            asked = last  # "lol ok. what was it called"
        if requests.overview_of(self.text):
            return asked or self.text
        wants = self._kind == REQUEST and ASK_ME.match(self.text) is not None
        asks = is_question(self.text) or GIVE_ME.match(self.text) is not None
        is_asked = wants or (self._kind == NOTE and asks)
        if is_asked or self._kind in (QUESTION, UNSURE):
            return ASK_ME.sub("", asked or self.text)
        return ASK_ME.sub("", asked) if self._kind == NOTE else ""

    def _asked_for(self) -> list[Call] | None:
        """What a message asks to have done: to keep quiet, forget, tell the time, remind."""
        if self.cancels_note():
            return _forget_message(self._own)
        if calls := reminders.reminder_calls(self.text, self._messages, self._tool_names):
            return calls
        if self._is_private:
            return [("keep_private", {})]
        if (forgetting := self._forgetting()) is not None:
            return forgetting
        place = requests.asked_place(self.text)
        return [("current_time", {"time_zone": place})] if place is not None else None

    def _forgetting(self) -> list[Call] | None:
        """The calls of a request to forget; none where it is not said what; None: no request."""
        if taken := TAKES_BACK.match(self.text.translate(FOLD)):
            if about := ABOUT.match(taken["more"]):
                return self._forget_joke(taken["more"][about.end() :])
            if not self._takes_last_back(taken):
                return None
            instead = self.text[taken.start("more") :]
            return [*self._saving(instead), *_forget_message(self._notes)]
        wanted = requests.forget_request(self.text) or self._chosen()
        if wanted is None:
            return None
        if wanted.about:
            return [("forget_fact", {"about": wanted.about, "everything": wanted.everything})]
        if wanted.everything:
            return [("forget_everything", {})]
        return _forget_message(self._own if wanted.is_last else ())

    def _forget_joke(self, about: str) -> list[Call] | None:
        """The call for "I was joking about the lottery", if a note tells of it."""
        is_told = any(shared(about, _text_of(note)) for note in self._notes)
        return [("forget_fact", {"about": about})] if is_told else None

    def _takes_last_back(self, taken: re.Match[str]) -> bool:
        """Whether "scratch that" means the last note, whatever it says instead behind a sign.

        Without a sign what stands behind must deny it: "jk i didn't sell it".
        """
        more, last = taken["more"], _text_of(self._own[-1]) if self._own else ""
        if not more or not last or not replies.is_note(last):
            return not more
        if SIGN.search(taken["sign"]) is not None:
            return not is_question(more) and IN_ITS_PLACE.match(more) is None
        return not stance(more).is_positive and bool(shared(more, last))

    def _saving(self, told: str) -> list[Call]:
        """The call that saves what is told in a message that is hidden with what it takes back."""
        uid = next((words["uid"] for words in self._said if words["is_asked"]), "")
        return [(SAVE, {"text": told, "quote": told, "message": uid})] if told else []

    def _chosen(self) -> requests.ForgetRequest | None:
        """What is to be forgotten, when the bot has just asked which of several is meant.

        It is said in other words, by its place ("второе"), or as all of them.
        """
        asked = str(self._before[-1].text) if self._before else ""
        questions = tuple(say("forget_which", language) for language in LANGUAGES)
        if is_question(self.text) or not asked.startswith(questions):
            return None
        if requests.ALL_OF_THEM.fullmatch(self.text):
            wanted = [requests.forget_request(_text_of(one)) for one in self._own]
            return next((replace(one, everything=True) for one in reversed(wanted) if one), None)
        return requests.ForgetRequest(requests.picked(self.text, OPTION.findall(asked)))

    def _searches(self) -> list[Call]:
        """The search for what is asked; the newest messages as well, for an overview and for
        what the user asks of themselves, whose answer may share no word ("where do I live?").
        """
        if not self._question:
            return []
        calls: list[Call] = [(SEARCH, {"query": self._question, "limit": SEARCHED})]
        is_overview = requests.overview_of(self._question) in ("profile", "family")
        return [*calls, NEWEST] if is_overview or replies.asks_of_self(self._question) else calls

    def _said_to(self, result: ToolMessage) -> str:
        if result.name == "current_time":
            time = requests.describe_time(str(result.text), self.language)
            return say("offline_time" if time else "offline_no_city", self.language, time=time)
        describe = DESCRIBED.get(result.name)
        return describe(_read(result), self.language) if describe else ""

    def _small_reply(self) -> str:
        """The reply to a line for which no tool is called, or finds anything."""
        if self._is_private:
            is_next = requests.announces_private(self.text)
            return say("private_next" if is_next else "kept_private", self.language)
        if self._forgetting() is not None:
            return say("forget_what", self.language)
        asks = is_question(self.text)
        if self._kind in (NOTE, UNSURE) and not (asks and self._question):
            return self._noted()
        if self._tells():
            return self._noted()
        if not self._question or self._kind == REQUEST:
            return self._with_hint(say(f"offline_{self._kind}", self.language))
        is_sure = asks or requests.overview_of(self.text) is not None
        reply = say("offline_unknown" if is_sure else "offline_unsure", self.language)
        return self._with_hint(reply)

    def _tells(self) -> bool:
        """Whether what may be a question tells something besides, and does not surely ask."""
        if self._kind == QUESTION and replies.TELLING.search(self.text.translate(FOLD)):
            return True
        may_ask = self._kind in (QUESTION, UNSURE) and "?" not in self.text
        return may_ask and bool(replies.told_beside(self.text))

    def _noted(self) -> str:
        """What is said of a note: with what it puts right, the last about the same, or asked."""
        if self._tool_names and SEARCH not in self._tool_names:
            return say("refused_memory_off", self.language)
        if holds_secret(self.text):  # no memory keeps it
            return say("refused_secret", self.language)
        said = (self.text, *map(_text_of, self._own[-1:])) if replies.corrects(self.text) else ()
        known = [_text_of(one) for one in reversed(self._notes)] if said else []
        beside = next((note for one in said for note in known if shared(one, note)), None)
        if beside is None:
            return self._with_hint(say("offline_noted", self.language))
        return say("offline_beside", self.language, text=beside)

    def _with_hint(self, reply: str) -> str:
        """The reply; with the first one of a day, that no model is connected."""
        talk = [*self._own[-1:], *self._last[:1]]
        days = {history.split_time_label(str(one.text))[0][:DAY] for one in talk}
        note = say("offline_note", self.language)
        return reply if self._own and len(days) == 1 else f"{reply}\n\n{note}"


def _forget_message(messages: Sequence[HumanMessage]) -> list[Call]:
    """The call that forgets the last note, or what the question was about."""
    if not messages:
        return []
    text = _text_of(messages[-1])
    ids = [words["uid"] for words in history.own_words_of(messages[-1:]) if words["uid"]]
    return [("forget_fact", {"ids": ids} if ids and replies.is_note(text) else {"about": text})]


def _text_of(message: BaseMessage) -> str:
    return history.strip_time_label(str(message.text))


def _asked_text(said: Sequence[history.NewWords]) -> str:
    return "\n".join(words["text"].strip() for words in said if words["is_asked"])


def _read(result: ToolMessage) -> Any:
    """A tool's JSON; nothing where it failed."""
    try:
        return json.loads(str(result.text))
    except ValueError:
        return {}


def _results(messages: Prompt) -> list[ToolMessage]:
    """What the tools of this turn returned."""
    last = max((n for n, m in enumerate(messages) if isinstance(m, HumanMessage)), default=0)
    return [message for message in messages[last:] if isinstance(message, ToolMessage)]


def _records(messages: Prompt) -> tasks.Records | None:
    """What stands in a prompt that sets a task; None in one that continues a talk."""
    return messages[-1].additional_kwargs.get(RECORDS) if messages else None


def _calling(calls: Sequence[Call]) -> AIMessage:
    named = [tool_call(name=name, args=args, id=uuid.uuid4().hex) for name, args in calls]
    return AIMessage("", tool_calls=named)
