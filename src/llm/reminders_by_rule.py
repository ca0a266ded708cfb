"""Reminders without a language model: the request in a message, and what is said to the tool."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from src.dates.reminder_phrases import ReminderRequest, read_reminder
from src.language import lexicon
from src.language.content import shared
from src.language.sentences import FOLD, is_question
from src.llm.prompts.new_words import asked_at_of, own_words_of
from src.llm.prompts.reminder_order import order_arguments
from src.llm.prompts.time_label import strip_time_label
from src.texts import LANGUAGES, Language, detect_language, say

# The tools.
SET_REMINDER, LIST_REMINDERS, CANCEL_REMINDER = "set_reminder", "list_reminders", "cancel_reminder"
MAX_LISTED = 20  # lines; /reminders has the rest
MAX_QUESTION = 80  # characters of a question for them
MAX_CANCELLING = 150  # characters of a request to cancel one
# Questions for what is set: "какие у меня напоминания?", "show my reminders".
ASKS_FOR_LIST = lexicon.Expression(
    r"\W*(?:<cancel.list>\b[\w ,']{0,30} )?<cancel.reminders>(?: <cancel.are_set>)*\W*",
    re.IGNORECASE,
)
# "Remind me": of what, and when? The answer completes it.
BARE_ORDER = lexicon.Expression("<cancel.bare_order>[.! ]*", re.IGNORECASE)
POLITE = lexicon.Expression(r"[ ,]*\b<requests.please>\b[ ,]*", re.IGNORECASE)
_OF = "(?:(?: <cancel.about>)? (?P<about>.{1,80}?))?"
# "Отмени напоминание про хлеб", "cancel the bread reminder", "больше не напоминай о хлебе".
CANCEL = tuple(
    lexicon.Expression(rf"\W*(?:<cancel.and>[ ,]+)?{source}\W*", re.IGNORECASE)
    for source in (
        "<cancel.stop> (?:<cancel.whose> )?(?:(?P<all><cancel.all>) )?(?:<cancel.whose> )?"
        "<cancel.noun>(?: (?:<cancel.about> )?(?P<about>.{1,80}?))?",
        "<cancel.stop> (?:<cancel.whose> )?(?P<about>.{1,40}?) reminders?",
        f"<cancel.no_more>{_OF}(?: <cancel.again>)?",
    )
)


@dataclass(frozen=True)
class Cancelling:
    """Which reminders shall not come.

    Attributes:
        about: Words of theirs; empty: none are named.
        is_all: Whether all are meant.
    """

    about: str
    is_all: bool


def read_cancelling(text: str) -> Cancelling | None:
    """What a message wants to be reminded of no more; None: it wants nothing of the kind."""
    if len(text) > MAX_CANCELLING or is_question(text):
        return None
    folded = POLITE.sub(" ", text.translate(FOLD)).strip()
    for pattern in CANCEL:
        if match := pattern.fullmatch(folded):
            groups = match.groupdict()
            return Cancelling(groups["about"] or "", bool(groups.get("all")))
    return None


def cancel_calls(wanted: Cancelling, found: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The calls that cancel it; nothing where several may be meant, or none is.

    Args:
        wanted: What shall not come.
        found: The result of LIST_REMINDERS.
    """
    listed = found.get("reminders") or []
    chosen = listed
    if wanted.about:
        shares = [len(shared(wanted.about, str(one["text"]))) for one in listed]
        most = max(shares, default=0)
        chosen = [one for one, share in zip(listed, shares, strict=True) if share == most > 0]
    if not wanted.is_all and len(chosen) != 1:
        return []
    return [(CANCEL_REMINDER, {"id": one["id"]}) for one in chosen]


def reminder_request(text: str, messages: Sequence[BaseMessage]) -> ReminderRequest | None:
    """What a new message asks to be reminded of; None: nothing.

    It may be the answer to our question when, which completes the request before it.

    Args:
        text: What was typed.
        messages: The prompt, with the time at which it was.
    """
    asked_at = asked_at_of(messages)
    if asked_at is None:
        return None
    request = read_reminder(text, *asked_at)
    begun = _without_time(messages)
    if request is None and begun:
        request = read_reminder(f"{begun.rstrip('.! ')} {text}", *asked_at)
    return request


def asks_for_reminder(text: str) -> bool:
    """Whether a text asks for a reminder, at whatever time."""
    return read_reminder(text, datetime.now(UTC), "UTC") is not None


def problem_text(messages: Sequence[BaseMessage], tool_names: Sequence[str]) -> str | None:
    """What is said to a request that cannot be fulfilled as it is; None to all else.

    Args:
        messages: The prompt.
        tool_names: The tools that may be called.
    """
    said = [words["text"].strip() for words in own_words_of(messages) if words["is_asked"]]
    text = "\n".join(said)
    if SET_REMINDER in tool_names and BARE_ORDER.fullmatch(text):
        return say("reminder_no_time", detect_language(text))
    request = reminder_request(text, messages) if SET_REMINDER in tool_names else None
    if request is None or request.problem is None:
        return None
    return say(f"reminder_{request.problem}", detect_language(text))


def reminder_calls(text: str, messages: Sequence[BaseMessage]) -> list[tuple[str, dict[str, Any]]]:
    """The call of the tool that fulfils a request, or lists them; nothing to other messages."""
    if len(text) <= MAX_QUESTION and ASKS_FOR_LIST.fullmatch(text):
        return [(LIST_REMINDERS, {})]
    request, asked_at = reminder_request(text, messages), asked_at_of(messages)
    if request is None or request.problem is not None or asked_at is None:
        return []
    return [(SET_REMINDER, order_arguments(request, asked_at[1]))]


def describe_reminder(found: Mapping[str, Any], language: Language) -> str:
    """What is said to the result of either tool."""
    listed = found.get("reminders")
    if listed is not None:
        title = say("reminders_title", language, count=len(listed))
        lines = [f"• {one['text']}: {one['time']}" for one in listed[:MAX_LISTED]]
        lines += [say("reminders_where", language)]
        return "\n".join([title, *lines]) if listed else say("reminders_empty", language)
    if "cancelled" in found:
        key = "reminder_cancelled" if found["cancelled"] else "reminder_gone"
        return say(key, language, text=found.get("text", ""))
    if found.get("set"):
        return say("reminder_set", language, text=found["text"], time=found["time"])
    return say(f"reminder_{found.get('reason', 'no_time')}", language)


def _without_time(messages: Sequence[BaseMessage]) -> str:
    """The request of which the bot has just asked when."""
    talk = [m for m in messages if isinstance(m, HumanMessage | AIMessage) and str(m.text)]
    if len(talk) < 3 or not isinstance(talk[-2], AIMessage):  # request, question, answer
        return ""
    asked = any(str(talk[-2].text) == say("reminder_no_time", one) for one in LANGUAGES)
    return strip_time_label(str(talk[-3].text)) if asked else ""
