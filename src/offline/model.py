"""Offline chat model ("the notebook") with the same graph, tools and stores as a real model.

It classifies each line, calls the matching tool, and reports the result in the user's own words.
It never poses as a language model and states nothing that it has not read.
"""

import asyncio
import json
import re
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
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
from src.memory.line_kinds import (
    FORGET,
    GREETING,
    LIST_REMINDERS,
    MOVE,
    NOTE,
    ORDERS,
    QUESTION,
    REQUEST,
    UNDO,
    UNSURE,
    Classifier,
    Vector,
    kind_of,
    names_only,
)
from src.memory.tools import describe_forgotten, describe_saved
from src.offline import replies, tasks
from src.reading import lexicon, requests
from src.reading.contradictions import affirms
from src.reading.gate import holds_secret
from src.reading.plain_facts import to_remember
from src.reading.reminder_phrases import begins_as_question
from src.reading.sentences import FOLD, TELLING, is_question, sentences
from src.reading.words import content, has_verb, shared
from src.reminders import rules as reminders
from src.texts import Language, choose_language, detect_language, say
from src.texts.morphology import words

SAVE, SEARCH, UNDO_CHANGE = "save_user_fact", "search_memory", "undo_change"
SEARCHED = 20  # results per search
CONTEXT = 5  # messages that decide the language of a short one
MAX_ALSO = 5  # words of a question after another: "and the green one"
MAX_CALLS = 20  # per reply; more would not run
DAY = len("[Текущее время: 2026-11-21")  # the date in a message's label
OPTION = re.compile(r"^• (?:[\d. :]+ )?[«“](.+)[»”](?: .*)?$", re.M)
TAKES_BACK = lexicon.Expression(
    rf"{replies.LEAD}<lines.takes_back>(?![\w'-])"
    r"(?P<sign>(?:\W*<lines.laugh>)*\W*)(?P<more>.*)",
    re.I | re.S,
)
ABOUT = lexicon.AnyCase(r"<forget.about> ")
# Continuations of the previous note: "it's on the 25th", "в субботу", "I sold it".
IN_ITS_PLACE = lexicon.AnyCase(
    r"(?:<lines.continues>|<forget.that>|<lines.question_preposition>)(?![\w'-])"
    r"|.{1,60}\s<lines.continues>\W*$"
)
DIGIT = re.compile(r"\d")
IT = lexicon.AnyCase(r"\b<move.it>\b")
UNDOES = lexicon.AnyCase(r"(?<!\w)<lines.undoes>")
ALSO = lexicon.AnyCase(r"\W*<lines.question_and>\s+(?=\w)")
SIGN = re.compile(r"[,.;:!)—–]|\s-")
ASK_ME = lexicon.AnyCase(r"^\W*<lines.ask_me>[\s,]+")
GIVE_ME = lexicon.AnyCase(r"^\W*<lines.give_me>\s")  # "скинь номер сантехника"
Call = tuple[str, dict[str, Any]]
Prompt = Sequence[BaseMessage]
Names = Sequence[str]
Embed = Callable[[str], Awaitable[Vector | None]]
NEWEST: Call = (SEARCH, {"kinds": ["message"], "limit": SEARCHED})
# Replies to tool results, except for those of searching and the clock.
DESCRIBED: Mapping[str | None, Callable[[Mapping[str, Any], Language], str]] = {
    SAVE: describe_saved,
    **dict.fromkeys(("forget_fact", "forget_everything"), describe_forgotten),
    **dict.fromkeys(reminders.TOOLS, reminders.describe_reminder),
    UNDO_CHANGE: lambda found, _: str(found.get("said", "")),
}


class OfflineChatModel(BaseChatModel):
    """Chat model that stores and quotes notes.

    Attributes:
        embed: Embeds a line, to classify it; None: letters and marks decide.
    """

    embed: Embed | None = Field(default=None, exclude=True, repr=False)

    @property
    def _llm_type(self) -> str:
        return "pomni-offline"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind the names of the tools that may be called, and of the one that must be called."""
        names = [tool.name for tool in tools if isinstance(tool, BaseTool)]
        offered = {}
        if tool_choice != "none":
            offered = {"tool_names": names, "form": tool_choice}
        return self.bind(offered=offered, **kwargs)

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **bound: Any) -> ChatResult:
        vectors: dict[str, Vector | None] = {}
        if self.embed is not None:
            lines = lines_to_classify(messages)
            embeddings = await asyncio.gather(*map(self.embed, lines))  # each has a timeout
            vectors = dict(zip(lines, embeddings, strict=True))

        def kind(line: str) -> str:
            return kind_of(line, vectors.get(line))

        offered = bound.get("offered", {})
        message = await asyncio.to_thread(answer, messages, kind=kind, **offered)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        return asyncio.run(self._agenerate(*args, **kwargs))


def lines_to_classify(messages: Prompt) -> list[str]:
    """Return the lines of a prompt to classify: the question, and the notes that may be quoted.

    Lines that are to stay private are left out.
    """
    records, question = _records(messages), _question_text(history.own_words_of(messages))
    found = [*records.get("messages", ())[-1:]] if records is not None else [{"text": question}]
    if records is None:
        found += [one for tool in _results(messages) for one in _load(tool).get("memories") or ()]
    lines = (str(one.get("text", "")) for one in found)
    return [one for one in lines if one.strip() and not requests.asks_to_keep_private(one)]


def answer(
    messages: Prompt,
    tool_names: Names = (),
    *,
    form: str | None = None,
    kind: Classifier = kind_of,
) -> AIMessage:
    """Return the reply to a prompt: tool calls, a filled form, or text.

    Args:
        messages: The prompt as for any model, the user's message (or tool results) last.
        tool_names: Tools that may be called.
        form: Name of the schema to fill, as a call of that name.
        kind: Classifies a line, by default by its letters.
    """
    records = _records(messages)
    if form is not None:
        return _message([(form, tasks.fill_form(form, records or {}, kind))])
    if records is not None:
        return AIMessage(tasks.summary_of(records))
    turn = OfflineTurn(messages, tool_names, kind)
    is_of_note = turn.cancels_note() or turn.crosses_off()
    if not is_of_note and reminders.asks_about_no_reminders(turn.text, tool_names):
        return AIMessage(say("reminders_empty", turn.language))
    results = _results(messages)
    calls = [call for call in turn.calls() if call[0] in tool_names][len(results) :]
    # Forgetting hides the message, so its facts are saved in a separate reply before.
    saves = [call for call in calls if call[0] == SAVE and "forget_fact" in dict(calls)]
    if calls:
        return _message((saves or calls)[:MAX_CALLS])
    return AIMessage(turn.reply(results))


def read_calls(messages: Prompt, tool_names: Names) -> list[Call]:
    """Return the calls that the last message asks for, as far as rules can read it.

    They are for a language model that makes none itself: no search, and of the facts only what is
    stated beyond doubt.
    """
    calls = OfflineTurn(messages, tool_names, kind_of).calls()
    return [call for call in calls if call[0] in tool_names and call[0] != SEARCH]


def describe_result(result: ToolMessage, language: Language) -> str:
    """Return a sentence to the user about the result of a call; empty if there is none."""
    if result.name == "current_time":
        time = requests.describe_time(str(result.text), language)
        return say("offline_time" if time else "offline_no_city", language, time=time)
    describe = DESCRIBED.get(result.name)
    if describe:
        return describe(_load(result), language)
    return ""


class OfflineTurn:
    """Messages since the last answer, and their classification.

    Attributes:
        text: Text typed by the user who asks.
        language: Language of the reply.
    """

    def __init__(self, messages: Prompt, tool_names: Names, kind: Classifier) -> None:
        """Read the end of a prompt; ``kind`` classifies a line."""
        self._messages, self._tool_names, self._kind_of = messages, tool_names, kind
        self._words = history.own_words_of(messages)  # including other members of a group
        self.text = _question_text(self._words)
        self._kind = _certain_kind(self.text, kind(self.text))
        talk = [m for m in messages if isinstance(m, HumanMessage | AIMessage) and str(m.text)]
        last = history.last_user_index(talk)
        self._earlier, self._latest = talk[:last], talk[last:]
        self._past = [m for m in self._earlier if isinstance(m, HumanMessage)]  # oldest first
        if self._asks_also():
            self._kind = QUESTION
        elif self._kind == NOTE and self._repeats():
            self._kind = UNSURE
        asks, previous = requests.asks_to_keep_private, map(_text_of, self._past[-1:])
        self._is_private = asks(self.text) or any(map(requests.announces_private, previous))
        # A file without earlier messages decides by its own text.
        context = " ".join(map(_text_of, self._past[-CONTEXT:] or self._latest))
        spoken = detect_language(self.text, detect_language(context))
        self.language = choose_language(history.language_of(messages) or spoken)

    def _asks_also(self) -> bool:
        """Return True for a thing alone right after a question: "and the green one"."""
        asked = any(is_question(_text_of(one)) for one in self._past[-1:])
        said = words(self.text.lower())
        if not asked or self._kind not in (NOTE, UNSURE) or ALSO.match(self.text) is None:
            return False
        tells = bool(replies.ME_ALONE.intersection(said)) or has_verb(self.text)
        return len(said) <= MAX_ALSO and not tells and DIGIT.search(self.text) is None

    def _repeats(self) -> bool:
        """Return True for words of one note alone, which may ask for it: "the shed code"."""
        if not content(self.text) or has_verb(self.text) or DIGIT.search(self.text) is not None:
            return False
        return any(self._notes_with(self.text))

    def calls(self) -> list[Call]:
        """Return the calls to make, in order: the requested ones, or else saving and searching.

        A second search lists the newest messages. These correct what is found ("no, on Friday"),
        or answer a question about the user in other words ("where do I live?").
        """
        asked = self._requested_calls()
        notes = [words for words in self._words if not (words["is_asked"] and asked is not None)]
        calls: list[Call] = [(SAVE, fact) for words in notes for fact in tasks.facts_of(words)]
        if asked is not None:
            return calls + asked
        if self._question:
            calls += [(SEARCH, {"query": self._question, "limit": SEARCHED}), NEWEST]
        return calls

    def cancels_note(self) -> bool:
        """Return True if a bare "cancel it" takes back the last note."""
        last = ""
        if self._past:
            last = _text_of(self._past[-1])
        return reminders.cancels_note(self.text, last, self._messages) and replies.is_note(last)

    def crosses_off(self) -> bool:
        """Return True if an order names an item of a list among the notes: "cross off milk"."""
        request = requests.forget_request(self.text) or requests.list_request(self.text)
        if request is None or not request.about:
            return False
        if not requests.names_item(self.text, request.about):
            return False
        return any(requests.LISTED.search(text) for text in self._notes_with(request.about))

    def _notes_with(self, thing: str) -> Iterator[str]:
        """Yield the texts of the notes that have every word of a thing."""
        number = len(content(thing))
        for text in map(_text_of, self._past):
            if len(shared(thing, text)) == number and replies.is_note(text):
                yield text

    def reply(self, results: Sequence[ToolMessage]) -> str:
        """Return the final text of the turn."""
        files = () if self._is_private else history.file_names_of(self._messages)
        saved = [describe_saved(_load(one), self.language) for one in results if one.name == SAVE]
        found = [_load(one) for one in results if one.name == SEARCH]
        parts = [
            "\n".join(dict.fromkeys(saved)),
            replies.quote_found(found, self._question, self.language, self._kind_of),
            *(describe_result(one, self.language) for one in results if one.name != SAVE),
            *(say("offline_file", self.language, name=name) for name in dict.fromkeys(files)),
        ]
        return "\n\n".join(filter(None, parts)) or self._small_reply()

    @property
    def _notes(self) -> list[HumanMessage]:
        return [message for message in self._past if replies.is_note(_text_of(message))]

    @property
    def _question(self) -> str:
        if names_only(self.text):
            return self.text.partition(",")[0]
        *before, last = list(sentences(self.text)) or [""]
        asked = " ".join(part for part in (*before, last) if "?" in part and is_question(part))
        if before and not asked and is_question(last) and content(last):
            asked = last  # a question without a mark: "lol ok. what was it called"
        if requests.overview_of(self.text):
            return asked or self.text
        is_order = self._kind == REQUEST and ASK_ME.match(self.text) is not None
        is_asking = is_question(self.text) or GIVE_ME.match(self.text) is not None
        is_asked = is_order or (self._kind == NOTE and is_asking)
        if is_asked or self._kind in (QUESTION, UNSURE):
            return ASK_ME.sub("", asked or self.text)
        if self._kind == NOTE:
            return ASK_ME.sub("", asked)
        return ""

    def _requested_calls(self) -> list[Call] | None:
        if self.cancels_note():
            return _forget_message(self._past)
        if self.crosses_off():
            return [("forget_fact", {"about": self.text})]
        names, kind = self._tool_names, self._kind
        calls = reminders.reminder_calls(self.text, self._messages, names, kind=kind)
        if calls:
            return calls
        if self._is_private:
            return [("keep_private", {})]
        forgetting = self._forget_calls()
        if forgetting is not None:
            return forgetting
        if self._kind == UNDO or UNDOES.search(self.text):
            return [(UNDO_CHANGE, {})]
        place = requests.asked_place(self.text)
        if place is not None:
            return [("current_time", {"time_zone": place})]
        return None

    def _forget_calls(self) -> list[Call] | None:
        """Return the calls of a request to forget: [] if it names nothing, None without one."""
        match = TAKES_BACK.match(self.text.translate(FOLD))
        if match:
            about = ABOUT.behind(match["more"])
            thing = match["more"][about:]
            if about and any(shared(thing, _text_of(note)) for note in self._notes):
                return [("forget_fact", {"about": thing})]
            if about or not self._takes_back_last(match):
                return None
            correction = self.text[match.start("more") :]
            return [*self._save_calls(correction), *_forget_message(self._notes)]
        request = self._chosen_request(requests.forget_request(self.text))
        if request is None and self._kind == FORGET:
            request = requests.ForgetRequest(requests.without_order(self.text))
        if request is None:
            return None
        if request.about:
            return [("forget_fact", {"about": request.about, "everything": request.everything})]
        if request.everything:
            return [("forget_everything", {})]
        return _forget_message(self._past if request.is_last else ())

    def _takes_back_last(self, match: re.Match[str]) -> bool:
        """Return True if "scratch that" means the last note, whatever replaces it after a sign.

        Without a sign, the text that follows must deny the note: "jk i didn't sell it".
        """
        rest, last = match["more"], _text_of(self._past[-1]) if self._past else ""
        if not rest or not last or not replies.is_note(last):
            return not rest
        if SIGN.search(match["sign"]) is not None:
            return not is_question(rest) and IN_ITS_PLACE.match(rest) is None
        return not affirms(rest) and bool(shared(rest, last))

    def _save_calls(self, text: str) -> list[Call]:
        """Return the call that saves the correction in a message that is about to be hidden."""
        uid = next((words["uid"] for words in self._words if words["is_asked"]), "")
        if text:
            return [(SAVE, {"text": text, "quote": text, "message": uid})]
        return []

    def _chosen_request(
        self, request: requests.ForgetRequest | None
    ) -> requests.ForgetRequest | None:
        """Return the choice, if the bot has just asked which of several things to forget.

        The user names it, gives its place ("второе"), or wants all of them. A request for a place
        ("forget number 2") may also mean a quote of the last answer; another one stays.
        """
        if is_question(self.text) or not self._earlier:
            return request
        last_reply = self._earlier[-1]
        is_asked = last_reply.additional_kwargs.get(history.ASKS) == "forget_which"
        is_place = request is not None and requests.place_of(request.about) is not None
        if not (is_place or (is_asked and request is None)):
            return request
        if requests.ALL_OF_THEM.fullmatch(self.text):
            orders = [requests.forget_request(_text_of(one)) for one in self._past]
            return next((replace(one, everything=True) for one in reversed(orders) if one), None)
        options = OPTION.findall(str(last_reply.text))
        chosen = requests.pick_option(request.about if request else self.text, options)
        words = content(chosen)
        names = any(words and len(shared(chosen, option)) == len(words) for option in options)
        if names or chosen.isdecimal():
            return requests.ForgetRequest(chosen)
        return request

    def _small_reply(self) -> str:
        if self._is_private:
            is_next = requests.announces_private(self.text)
            return say("private_next" if is_next else "kept_private", self.language)
        if self._forget_calls() is not None:
            return say("forget_what", self.language)
        is_asking = is_question(self.text)
        is_unclear = self._kind in ORDERS and (
            reminders.LIST_REMINDERS in self._tool_names or replies.is_note(self.text, self._kind)
        )
        if is_unclear or (self._kind in (NOTE, UNSURE) and not (is_asking and self._question)):
            return self._note_reply()
        # A possible question may also state something.
        is_telling = TELLING.search(self.text.translate(FOLD)) is not None
        may_tell = self._kind in (QUESTION, UNSURE) and (is_telling or "?" not in self.text)
        if may_tell and replies.statement_in(self.text):
            return self._note_reply()
        if self._kind == GREETING:  # it says what the hint says
            return say("offline_greeting", self.language)
        if self._kind in ORDERS:  # there is nothing that it could be about
            return say("undo_nothing" if self._kind == UNDO else "reminders_empty", self.language)
        if not self._question or self._kind == REQUEST:
            return self._with_hint(say(f"offline_{self._kind}", self.language))
        is_sure = is_asking or requests.overview_of(self.text) is not None
        reply = say("offline_unknown" if is_sure else "offline_unsure", self.language)
        return self._with_hint(reply)

    def _note_reply(self) -> str:
        if self._tool_names and SEARCH not in self._tool_names:
            return say("refused_memory_off", self.language)
        if holds_secret(self.text):  # never stored
            return say("refused_secret", self.language)
        texts = (self.text, *map(_text_of, self._past[-1:])) if replies.corrects(self.text) else ()
        notes = [_text_of(one) for one in reversed(self._notes)]
        corrected = next((note for one in texts for note in notes if shared(one, note)), None)
        if corrected is None:
            return self._with_hint(say("offline_noted", self.language))
        return say("offline_beside", self.language, text=corrected)

    def _with_hint(self, reply: str) -> str:
        """Add to the first reply of a day that no model is connected."""
        messages = [*self._past[-1:], *self._latest[:1]]
        days = {history.split_time_label(str(one.text))[0][:DAY] for one in messages}
        note = say("offline_note", self.language)
        if self._past and len(days) == 1:
            return reply
        return f"{reply}\n\n{note}"


def _forget_message(messages: Sequence[HumanMessage]) -> list[Call]:
    """Return the call that forgets the last note, or the subject of the last question."""
    if not messages:
        return []
    text = _text_of(messages[-1])
    ids = [words["uid"] for words in history.own_words_of(messages[-1:]) if words["uid"]]
    return [("forget_fact", {"ids": ids} if ids and replies.is_note(text) else {"about": text})]


def _text_of(message: BaseMessage) -> str:
    return history.strip_time_label(str(message.text))


def _question_text(messages: Sequence[history.TypedWords]) -> str:
    return "\n".join(words["text"].strip() for words in messages if words["is_asked"])


def _load(result: ToolMessage) -> Any:
    """Return a tool's JSON; {} if the tool failed."""
    try:
        return json.loads(str(result.text))
    except ValueError:
        return {}


def _results(messages: Prompt) -> list[ToolMessage]:
    """Return the tool results of this turn."""
    turn = messages[history.last_user_index(messages) :]
    return [message for message in turn if isinstance(message, ToolMessage)]


def _certain_kind(text: str, kind: str) -> str:
    """Return the kind of a line, or another one if its words leave no doubt.

    Args:
        text: The line.
        kind: The kind of line that it is like.
    """
    is_asking, corrects = is_question(text), replies.corrects(text)
    is_slip = corrects and not is_asking and DIGIT.search(text) is not None
    if to_remember(text) is not None or is_slip or (corrects and kind == MOVE):
        return NOTE  # "запомни: …" is like "напомни …", "ой вру 2900" like a question
    if kind == UNDO and reminders.tells_of_past(text) and IT.search(text) is None:
        return NOTE  # "i got my deposit back"
    if kind in (REQUEST, UNDO) and replies.is_note(text, kind):
        return NOTE  # "add tea to the list", "put it back on the list"
    is_change = kind in ORDERS and kind != LIST_REMINDERS
    if is_change and is_asking and (kind == FORGET or begins_as_question(text)):
        return QUESTION  # "who forgets his keys", "how do I get into ward 6"
    if kind == LIST_REMINDERS and requests.TALKED.search(text):
        return QUESTION  # "what did I say about reminders"
    return kind


def _records(messages: Prompt) -> tasks.Records | None:
    """Return the records in a prompt that sets a task; None in a conversation."""
    if messages:
        return messages[-1].additional_kwargs.get(RECORDS)
    return None


def _message(calls: Sequence[Call]) -> AIMessage:
    tool_calls = [tool_call(name=name, args=args, id=uuid.uuid4().hex) for name, args in calls]
    return AIMessage("", tool_calls=tool_calls)
