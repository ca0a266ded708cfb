"""What the page is told of facts, messages and hits: plain JSON, days and times as people say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from src.memory.retriever import Hit
from src.services.called import Called
from src.storage.memory_page_repo import Replaced
from src.storage.memory_rows import Memory
from src.storage.timeline_repo import Place, TimelineMessage
from src.texts import Language, say
from src.texts.visible import shortened
from src.time_zones import local_time

MAX_SNIPPET = 600  # characters of what a search found
MAX_PAST = 5  # earlier values of a fact

Json = dict[str, Any]
# What the page itself says: each is the sentence ``app_<name>``, and ``app.js`` uses all of them.
NAMES = (
    "all", "before", "bot", "cancel", "close", "correct", "date", "export", "export_about",
    "export_json", "export_markdown", "export_phone", "exported", "fact", "facts", "find",
    "forget", "forgotten", "found", "kinds", "loading", "menu", "message", "more", "newest",
    "no_facts", "no_messages", "pin", "pinned", "privacy", "private", "retired", "retry", "right",
    "said", "save", "search", "search_hint", "search_label", "sections", "timeline", "undo",
    "undo_until", "unpin", "unreachable", "until", "you",
)  # fmt: skip


def page_texts(language: Language) -> dict[str, str]:
    """What the page says, by the names in ``NAMES``."""
    return {name: say(f"app_{name}", language) for name in NAMES}


def fact_view(fact: Memory, called: Called, replaced: Sequence[Replaced]) -> Json:
    """A fact with its source and its past, which ``replaced`` lists, the latest first."""
    return {
        "id": fact.id,
        "kind": fact.memory_type,
        "text": fact.text,
        "pinned": fact.pinned,
        "day": called.day(fact.said_at),
        "quote": fact.quote or fact.text,
        "before": [
            {"text": old.text, "until": called.day(old.until) if old.until else None}
            for old in replaced[:MAX_PAST]
        ],
    }


def hit_view(hit: Hit, called: Called) -> Json:
    """What a search found: a fact, or a message of the user's or the bot's."""
    at = local_time(hit.said_at, called.time_zone)
    return {
        "kind": "fact" if hit.kind == "memory" else "message",
        "by": "bot" if hit.speaker == "assistant" else "you",
        "text": shortened(hit.words, MAX_SNIPPET),
        "day": called.day(hit.said_at),
        "date": f"{at:%Y-%m-%d}",
        "time": f"{at:%H:%M}",
        "retired": hit.retired,
    }


def message_view(message: TimelineMessage, called: Called) -> Json:
    """A message with its day, by which the page groups."""
    at = local_time(message.said_at, called.time_zone)
    return {
        "by": "bot" if message.role == "assistant" else "you",
        "text": message.text,
        "day": called.day(message.said_at),
        "date": f"{at:%Y-%m-%d}",
        "time": f"{at:%H:%M}",
        "private": message.is_private,
    }


def pack_place(place: Place) -> str:
    """Where a page of messages ends, as the page hands it back for the next."""
    return f"{place.position}.{place.id}"


def unpack_place(text: str) -> Place | None:
    """What ``pack_place`` wrote; None for anything else."""
    position, _, id_ = text.partition(".")
    if not (_is_number(position, 9) and _is_number(id_, 18)):
        return None
    return Place(int(position), int(id_))


def by_fact(replaced: Iterable[Replaced]) -> dict[int, list[Replaced]]:
    """What each fact replaced, in the order given."""
    past: dict[int, list[Replaced]] = {}
    for one in replaced:
        past.setdefault(one.by, []).append(one)
    return past


def _is_number(text: str, digits: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= digits
