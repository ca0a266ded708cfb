"""JSON views of facts, messages, reminders and settings for the Mini App."""

from datetime import datetime

from src.base.owners import Caller
from src.base.zones import local_time
from src.history.timeline_repo import TimelineMessage
from src.memory import memory_repo, retrieval_repo
from src.reminders import reminder_repo, reminder_service
from src.talk.settings import CHOICES, Choice
from src.texts.markdown import parse_markdown
from src.texts.plain_text import shortened
from src.texts.reply import Reply
from src.web.app_gate import Json

MAX_SNIPPET = 600  # characters of a search hit
MAX_PAST = 5  # previous values of a fact
MAX_MARKED = 8_000  # characters; the Markdown of a longer answer is not parsed
AUTHORS = {"assistant": "bot"}  # by role; others are the user
HIT_KINDS = {"memory": "fact"}  # others are messages
ASKED = ("command", "teach")  # origins of facts that the user asked to remember
# Buttons of the chat that the page offers; they check the owner of what they name.
PRESSED = frozenset({"unremind", "later", "delete", "import", *CHOICES})


def fact_view(fact: memory_repo.StoredFact, caller: Caller) -> Json:
    """Return a fact with its source and its past, the latest first."""
    return {
        "id": fact.id,
        "kind": fact.fact.memory_type,
        "text": fact.text,
        "pinned": fact.fact.pinned,
        "day": caller.day(fact.source.said_at),
        "quote": fact.source.quote or fact.text,
        "asked": fact.origin in ASKED,
        "message": fact.source.message_id,
        "before": [
            {"text": old.text, "until": caller.day(old.until) if old.until else None}
            for old in fact.past[:MAX_PAST]
        ],
    }


def hit_view(hit: retrieval_repo.Hit, caller: Caller) -> Json:
    """Return a search hit: a fact, or a message of the user or the bot."""
    return {
        "kind": HIT_KINDS.get(hit.kind, "message"),
        "by": AUTHORS.get(hit.speaker, "you"),
        "text": shortened(hit.words, MAX_SNIPPET),
        "retired": hit.retired,
        "message": hit.message_id,
        **_moment_view(hit.said_at, caller),
    }


def message_view(message: TimelineMessage, caller: Caller) -> Json:
    """Return a message with its day, by which the page groups, and its Markdown nodes."""
    nodes = None
    if message.role == "assistant" and len(message.text) <= MAX_MARKED:
        nodes = parse_markdown(message.text)
    if nodes in ([], [["p", message.text]]):  # it is plain text
        nodes = None
    return {
        "id": message.place.id,
        "by": AUTHORS.get(message.role, "you"),
        "text": message.text,
        "nodes": nodes,
        "private": message.is_private,
        **_moment_view(message.said_at, caller),
    }


def reminder_view(reminder: reminder_repo.Reminder, caller: Caller) -> Json:
    """Return a reminder; ``at`` is its local time as the value of a datetime input."""
    return {
        "id": reminder.id,
        "text": reminder.text,
        "time": reminder_service.describe_time(reminder, caller),
        "at": f"{local_time(reminder.due_at, caller.time_zone):%Y-%m-%dT%H:%M}",
        "due": int(reminder.due_at.timestamp()),
    }


def choice_view(choice: Choice) -> Json:
    """Return a setting with its choices."""
    return {**vars(choice), "value": choice.labels[choice.chosen]}


def reply_view(reply: Reply) -> Json:
    """Return the reply of a command or button, with those of its buttons that the page has."""
    buttons = [
        {"label": button.label, "action": button.action.pack()}
        for row in reply.rows
        for button in row
        if button.action.name in PRESSED
    ]
    is_done = bool(reply.rows) and not reply.awaits_words
    return {"text": reply.text, "buttons": buttons, "done": is_done}


def _moment_view(moment: datetime, caller: Caller) -> Json:
    at = local_time(moment, caller.time_zone)
    return {"day": caller.day(moment), "date": f"{at:%Y-%m-%d}", "time": f"{at:%H:%M}"}
