"""A fact on its way into the memory, as a model proposes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

MemoryType = Literal["user_fact", "preference", "event", "conversation_insight"]
Origin = Literal["tool", "teach", "command", "extraction"]


@dataclass(frozen=True)
class CandidateFact:
    """What a model wants to have stored; nothing in it is trusted yet.

    Attributes:
        text: The fact as one sentence in the user's language.
        memory_type: What kind of fact it is.
        importance: 1 (a trifle) to 10 (never to be forgotten).
        quote: The user's own words that say so, exactly as written.
        subject: Whom or what it is about: "user" for the person himself, else a name or a role.
        relation: What links the subject and the object, for example "lives_in".
        object: The value: a city, a name, a date.
        valid_from: Since when it holds in the world, aware; None when nobody said.
        valid_until: Until when it holds, aware; None when nobody said.
    """

    text: str
    memory_type: MemoryType
    importance: int
    quote: str
    subject: str
    relation: str
    object: str
    valid_from: datetime | None = None
    valid_until: datetime | None = None
