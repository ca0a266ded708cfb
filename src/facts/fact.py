"""A fact on its way into the memory: one type from a model's reply to the row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

MemoryType = Literal["user_fact", "preference", "event", "conversation_insight"]
Origin = Literal["tool", "teach", "command", "extraction"]

# What facts there are, and what a model is told of each kind. A new one wants a migration as well:
# the database checks ``memories.memory_type``.
MEMORY_TYPES: Mapping[MemoryType, str] = {
    "user_fact": "who the person is, lives, works, has",
    "preference": "likes, dislikes, habits",
    "event": "what happens at a time",
    "conversation_insight": "a goal or a plan",
}

MAX_SUBJECT, MAX_RELATION, MAX_OBJECT = 100, 60, 400  # characters; the rest is cut off
MAX_REPLACED = 20  # facts that one may take the place of
FACT_UID = "fact-"
WISH = "wish"  # the relation of how the user wants to be answered


class Fact(BaseModel):
    """What a model wants to have stored; nothing in it is trusted before the gate.

    Sloppy values become usable ones here (a type that does not exist, an importance of 11, no
    quote), so that a model's slip costs no fact.

    Attributes:
        text: The fact as one sentence in the user's language.
        quote: The user's own words that say so, exactly as written; by default the text.
        message: ``msg-<id>`` of the message that the quote is from, when the model was shown ids.
        memory_type: What kind of fact it is: one of ``MEMORY_TYPES``.
        importance: 1 (a trifle) to 10 (never to be forgotten).
        subject: Whom or what it is about: "user" for the person himself, else a name or a role.
        relation: What links the subject and the object, for example "lives_in".
        object: The value: a city, a name, a date; by default the text.
        replaces: ``fact-<id>`` of each fact that does not hold any more because of it.
        pinned: Whether it shall always be in the prompt.
        valid_from: Since when it holds in the world, aware; None when nobody said.
        valid_until: Until when it holds, aware; None when nobody said.
    """

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    text: str = Field(description="the fact as one short sentence in the user's own language")
    quote: str = Field(default="", description="the user's exact words that say it")
    message: str = Field(default="", description="uid of the user's message, such as msg-12")
    memory_type: MemoryType = "user_fact"
    importance: int = Field(
        default=5,
        description="1 to 10; name, family, health 8 to 9, home and work 7, others 3 to 6",
    )
    subject: str = Field(default="user", description='"user", a role such as "brother", a name')
    relation: str = Field(default="other", description="in English, such as lives_in, likes, wish")
    object: str = Field(default="", description="what the relation leads to, as the user wrote it")
    replaces: list[str] = Field(
        default_factory=list,
        description='ids of known facts that hold no more because of this one: ["fact-12"]',
    )
    pinned: bool = Field(default=False, description="true when he wants it always in mind")
    valid_from: SkipJsonSchema[datetime | None] = None
    valid_until: SkipJsonSchema[datetime | None] = None

    @field_validator("memory_type", mode="before")
    @classmethod
    def _known_type(cls, value: Any) -> Any:
        return value if value in tuple(MEMORY_TYPES) else "user_fact"

    @field_validator("importance", mode="before")
    @classmethod
    def _within_scale(cls, value: Any) -> int:
        try:
            return max(1, min(10, round(float(value))))
        except (TypeError, ValueError, OverflowError):
            return 5

    @field_validator("text", "quote", "message", "subject", "relation", "object", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> str:
        return "" if value is None else str(value).strip()

    @field_validator("replaces", mode="before")
    @classmethod
    def _as_ids(cls, value: Any) -> list[str]:
        values = value if isinstance(value, list | tuple | set | frozenset) else [value]
        return [str(entry).strip() for entry in values if entry][:MAX_REPLACED]

    @field_validator("pinned", mode="before")
    @classmethod
    def _as_bool(cls, value: Any) -> bool:
        return value is True or str(value).lower() == "true"

    @model_validator(mode="after")
    def _completed(self) -> Fact:
        """A fact without a quote or an object stands for itself; long names are cut."""
        filled = {
            "quote": self.quote or self.text,
            "subject": self.subject[:MAX_SUBJECT] or "user",
            "relation": self.relation[:MAX_RELATION] or "other",
            "object": self.object[:MAX_OBJECT] or self.text[:MAX_OBJECT],
        }
        for name, value in filled.items():
            object.__setattr__(self, name, value)  # frozen for everybody else
        return self

    def replaced_ids(self) -> frozenset[int]:
        """The numbers of the facts that it claims to replace."""
        numbers = (fact_number(uid) for uid in self.replaces)
        return frozenset(number for number in numbers if number is not None)


def fact_uid(memory_id: int) -> str:
    """The name by which models and buttons know a fact: ``fact-12``."""
    return f"{FACT_UID}{memory_id}"


def fact_number(uid: str, prefix: str = FACT_UID) -> int | None:
    """12 for ``fact-12``, or for another prefix and 12; None for anything else."""
    number = uid.removeprefix(prefix)
    is_number = number != uid and number.isascii() and number.isdigit() and len(number) <= 18
    return int(number) if is_number else None
