"""Calls for a model that makes none: what a message wants, read by rules or from a form.

A model at another address than its provider's own may call no tools, or call them badly. How it
works is learned from its turns: for a message that wanted a call and got none that worked, it is
given a form: JSON, to which the server holds it by a schema. After two in a row it is asked to
save an example; if it fails, it is given forms instead of tools from then on.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from langchain_core.messages import AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_core.tools import BaseTool
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field
from pydantic.config import JsonDict

from src.base.config import Settings
from src.base.errors import AppError
from src.base.providers import find_provider
from src.history.new_messages import last_user_index, own_words_of
from src.llm import chat, quoting
from src.llm.reply import new_id
from src.memory.line_kinds import AGREEMENT, NOTE, QUESTION, REQUEST, UNSURE, kind_of
from src.memory.turn_context import TurnContext, get_finding
from src.offline.model import Embed, describe_result, read_calls
from src.reading.facts import Fact, Words, normalise
from src.reading.plain_facts import plain_facts, to_remember
from src.reading.requests import ASKING
from src.reading.sentences import FOLD, is_wish, sentences
from src.reading.time_expressions import read_time
from src.texts import Language, say
from src.texts.morphology import parts_of_speech, words

logger = logging.getLogger(__name__)

Call = tuple[str, dict[str, Any]]
SAVE, SET, FORGET = "save_user_fact", "set_reminder", "forget_fact"
# Calls that are made up for beside an answer: what changes something, and names what it changes.
MADE_UP_FOR = frozenset({SAVE, SET, FORGET, "cancel_reminder", "keep_private"})
READS = frozenset({"current_time", "search_memory", "list_reminders"})  # they keep nothing
TELLING = frozenset({NOTE, REQUEST, UNSURE})  # kinds of lines that may tell something
MAX_MISSED = 2  # messages in a row whose wish got no call, until the model is tried
MAX_ENTRIES: JsonDict = {"maxItems": 8}  # per field: a small model may repeat itself forever


def _as_words(value: Any) -> Any:
    """Return the words of an entry that a model wrote as an object: its first value."""
    if isinstance(value, dict):
        return next(iter(value.values()), "")
    return value


Entry = Annotated[str, BeforeValidator(_as_words)]


@dataclass(frozen=True)
class Line:
    """The message that is answered.

    Attributes:
        text: What its sender typed.
        orders: The calls that it asks for, as far as rules can read it.
        facts: The calls for what it states beyond doubt.
        is_request: True if it asks for something to be done.
        tells: True if it may tell something.
    """

    text: str
    orders: Sequence[Call]
    facts: Sequence[Call]
    is_request: bool
    tells: bool


class ToldForm(quoting.Form):
    """Form for what the user tells."""

    facts: list[Entry] = Field(default_factory=list, json_schema_extra=MAX_ENTRIES)

    def calls(self, line: Line) -> Iterator[Call]:
        """Yield the calls for the entries that the line says, or else for its facts."""
        facts = list(line.facts)
        for told in dict.fromkeys(find_words(fact, line.text) for fact in self.facts):
            if told and (kind_of(told) in (NOTE, UNSURE) or is_wish(told)):
                same = normalise(told)
                plain = (one for one in plain_facts(told) if normalise(one.text) == same)
                fact = next(plain, Fact(text=told))
                facts = []
                yield SAVE, fact.model_dump(exclude_defaults=True)
        yield from facts


class WantedReminder(BaseModel):
    """A reminder that the user asks for."""

    text: str
    when: Words = Field(validation_alias=AliasChoices("when", "time", "date", "at"))


class WantedForm(ToldForm):
    """Form for what the user tells and asks to be done."""

    reminders: list[WantedReminder] = Field(default_factory=list, json_schema_extra=MAX_ENTRIES)
    forget: list[Entry] = Field(default_factory=list, json_schema_extra=MAX_ENTRIES)

    def calls(self, line: Line) -> Iterator[Call]:
        """Yield the calls for the entries that the line says."""
        yield from super().calls(line)
        for reminder in self.reminders:
            text = find_words(reminder.text, line.text)
            if text:
                when = find_words(reminder.when, line.text) or line.text
                yield SET, {"text": text, "when": when}
        for wanted in self.forget:
            about = find_words(wanted, line.text)
            if about:
                yield FORGET, {"about": about}


@dataclass(eq=False, repr=False)
class FormFilling:
    """Calls that messages want, and what is known of how the model works.

    Attributes:
        by_form: True if the model is given a form instead of tools.
        is_watched: True while it is being learned whether it calls tools.
    """

    _caller: chat.ModelCaller
    _embed: Embed
    by_form: bool = False
    is_watched: bool = False
    _missed: int = 0  # messages in a row whose wish got no call

    @classmethod
    def of(cls, settings: Settings, caller: chat.ModelCaller, embed: Embed) -> Self | None:
        """Return the forms for a model that may call no tools: one on a server of one's own."""
        provider, way = find_provider(settings.chat_model_name), settings.llm_calls
        has_forms = provider is not None and provider.has_openai_client
        is_own = settings.is_own_server(settings.chat_model_name)
        if not has_forms or way == "tools" or not (is_own or way == "form"):
            return None
        return cls(caller, embed, by_form=way == "form", is_watched=way == "auto")

    @property
    def is_needed(self) -> bool:
        """True if the model gets forms: it calls no tools, or its server takes none."""
        return self.by_form or not self._caller.takes_tools

    async def read(self, messages: Sequence[AnyMessage], names: Sequence[str]) -> Line:
        """Read the newest message of a prompt by rules; ``names`` are the usable tools."""
        typed = [one["text"] for one in own_words_of(messages) if one["is_asked"]]
        text = "\n".join(typed).strip()
        calls = await asyncio.to_thread(read_calls, messages, names)
        is_saved = to_remember(text) is not None
        orders = [call for call in calls if is_saved or call[0] != SAVE]
        facts = [call for call in calls if call not in orders]
        kind = AGREEMENT
        if text:
            kind = kind_of(text, await self._embed(text))
        kinds = {kind_of(part) for part in sentences(text)} if kind == QUESTION else {kind}
        tells = not kinds.isdisjoint(TELLING) and SAVE in names
        # A text with a time may be an order: "wake me up at 7", "скажи в пять".
        said = words(text)
        is_order = bool(said) and ("me" in said or "impr" in parts_of_speech(said[0]))
        is_request = kind == REQUEST
        if not is_request and (is_order or ASKING.match(text)):
            periods = read_time(text, datetime.now(UTC)).periods
            is_request = bool(periods) or any(map(str.isdigit, text))
        return Line(text, orders, facts, is_request, tells)

    async def missed_calls(
        self, messages: Sequence[AnyMessage], tools: Sequence[BaseTool], context: TurnContext
    ) -> list[Call]:
        """Return the calls that a model with tools should have made in the turn it has answered.

        Args:
            messages: The prompt, and the answer.
            tools: The tools that were offered.
            context: Context of the turn.
        """
        for result in turn_of(messages):
            if not isinstance(result, ToolMessage) or result.status == "error":
                continue
            kept_nothing = result.name == SAVE and not get_finding(result).facts_changed
            if result.name not in READS and not kept_nothing:
                self._missed = 0
                return []
        line = await self.read(messages, [tool.name for tool in tools])
        orders = [c for c in line.orders if c[0] in MADE_UP_FOR and "ids" not in c[1]]
        if not (orders or line.tells):
            return []
        self._missed += 1
        if self._missed == MAX_MISSED and not await self._can_call(messages[0], tools, context):
            logger.info("the model calls no tools; it is given forms instead")
            self.by_form = True
        return orders or await self.fill(messages, line, context, tools)

    async def fill(
        self,
        messages: Sequence[AnyMessage],
        line: Line,
        context: TurnContext,
        tools: Sequence[BaseTool] = (),
    ) -> list[Call]:
        """Have the model fill in the form for a line, and return the calls for its entries.

        Args:
            messages: The prompt so far.
            line: The line; what it does not say is dropped.
            context: Context of the turn.
            tools: The tools that the calls before have declared.
        """
        if context.is_private:
            return []
        schema: type[ToldForm] = ToldForm
        task = say("form_task", context.language, text=quoting.quoted({"text": line.text}))
        if line.is_request:
            schema = WantedForm
            task += "\n" + say("form_wishes", context.language)
        prompt, usage = [*messages, HumanMessage(task)], context.on_usage
        try:
            with chat.unbounded():
                form = await self._caller.form(
                    prompt, schema, purpose="form", on_usage=usage, tools=tools
                )
        except AppError as error:
            logger.warning("the form was not filled in", exc_info=error)
            return list(line.facts)
        return list(form.calls(line))

    async def _can_call(
        self, system: AnyMessage, tools: Sequence[BaseTool], context: TurnContext
    ) -> bool:
        """Return True if the model calls its tool for an example, after the same system prompt."""
        example = HumanMessage(say("tools_example", context.language))
        runnable = self._caller.with_tools(tools)
        prompt, usage = [system, example], context.on_usage
        try:
            with chat.unbounded():
                message = await self._caller.stream(
                    runnable, prompt, purpose="form", on_usage=usage
                )
        except AppError as error:
            logger.warning("the model could not be tried", exc_info=error)
            return True
        return any(call["name"] == SAVE for call in message.tool_calls)


def tool_calls(calls: Sequence[Call]) -> list[ToolCall]:
    """Return calls as those of a message."""
    return [tool_call(name=name, args=args, id=new_id()) for name, args in calls]


def asks_beside(text: str) -> bool:
    """Return True if a message with an order also asks a question."""
    return "?" in text and len(list(sentences(text))) > 1


def turn_of(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Return the messages of a prompt from the newest one of the user on."""
    return messages[last_user_index(messages) :]


def describe_results(
    messages: Sequence[AnyMessage], language: Language, *, with_facts: bool
) -> str:
    """Return sentences to the user about what the calls of the turn have done."""
    said = (
        describe_result(one, language)
        for one in turn_of(messages)
        if isinstance(one, ToolMessage) and (with_facts or one.name != SAVE)
    )
    return "\n\n".join(dict.fromkeys(filter(None, said)))


def find_words(wanted: str, said: str) -> str:
    """Return the words in a text that have the same letters, as they stand there; "" if none.

    Small models mend what they copy: "im Ann" becomes "I'm Ann".
    """
    places = [place for place, letter in enumerate(said) if letter.isalnum()]
    letters = "".join(said[place] for place in places).translate(FOLD).lower()
    sought = "".join(filter(str.isalnum, wanted)).translate(FOLD).lower()
    start = letters.find(sought) if sought else -1
    if start >= 0:
        return said[places[start] : places[start + len(sought) - 1] + 1]
    return ""
