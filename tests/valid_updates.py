"""Random Telegram updates that are valid by aiogram's own types.

A JSON object of any type is drawn from the annotations of its fields: the required ones, and some
of the optional ones.
"""

from __future__ import annotations

import random
import types as python_types
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from aiogram import types
from aiogram.client.default import Default
from pydantic import BaseModel
from typing_extensions import TypeAliasType

from tests.hostile_updates import BOT_ID, BOT_NAME, Json, group, person, private

DEEP = 4  # nesting of optional fields
WORDS = (
    "привет", "что это?", "запомни: я живу в Риге", f"@{BOT_NAME} глянь", "/help", "/remember кот",
    "слово " * 200, "👋🏽", "", "https://example.org", "2026-11-28", "Київ", "I moved to Leeds",
)  # fmt: skip
MISSING = object()


class Drawer:
    """Draws JSON for aiogram's types."""

    def __init__(self, seed: int, *, rate: float = 0.3, text: str | None = None) -> None:
        """Draw with a seed.

        Args:
            seed: Seed of all choices.
            rate: Share of the optional fields that are set.
            text: The string to draw; by default one of ``WORDS``.
        """
        self.random = random.Random(seed)
        self.rate = rate
        self.text = text

    def model(self, kind: type[BaseModel], depth: int = 0) -> Json:
        """Return an object of a type."""
        kind.model_rebuild()  # aiogram's models are built at their first use
        found: Json = {}
        for name, field in kind.model_fields.items():
            is_drawn = depth < DEEP and self.random.random() < self.rate
            if field.is_required() or name == "type" or is_drawn:
                value = self.value(field.annotation, depth + 1)
                if value is not MISSING:
                    found[field.alias or name] = value
        return found

    def value(self, annotation: Any, depth: int) -> Any:
        """Return a value of an annotation; what is too deep becomes an empty list or a string."""
        if isinstance(annotation, str | TypeAliasType) or "RichTextUnion" in str(annotation)[:40]:
            return self.rich_text(depth)
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self.value(arguments[0], depth)
        if origin in (Union, python_types.UnionType):
            kinds = [one for one in arguments if one not in (type(None), Default)]
            return self.value(self.random.choice(kinds), depth)
        if origin is list:
            count = self.random.randrange(1 if self.rate == 1 else 0, 3) if depth <= DEEP else 0
            return [self.value(arguments[0], depth + 1) for _ in range(count)]
        if origin is Literal:
            chosen = arguments[0]
            return chosen.value if isinstance(chosen, Enum) else chosen
        return self.plain(annotation, depth)

    def plain(self, kind: Any, depth: int) -> Any:
        """Return a value of a class."""
        if not isinstance(kind, type):
            return MISSING
        if issubclass(kind, BaseModel):
            return self.model(kind, depth)
        if issubclass(kind, bool):
            return self.random.random() < 0.5
        if issubclass(kind, Enum):
            return next(iter(kind)).value
        if issubclass(kind, int | datetime):
            return self.random.choice((0, 1, 5, 1_700_000_000))
        if issubclass(kind, float):
            return self.random.choice((0.0, 50.45, -179.9))
        return self.random.choice(WORDS) if self.text is None else self.text

    def rich_text(self, depth: int) -> Any:
        """Return a rich text: a string, some of them, or a marked one."""
        if depth > DEEP + 2:
            return self.plain(str, depth)
        if self.random.random() < 0.4:
            return [self.plain(str, depth), self.rich_text(depth + 1)]
        return self.model(self.random.choice(TEXTS), depth + 1)


def kinds_of(base: type[BaseModel]) -> list[type[BaseModel]]:
    """Return aiogram's types below a base, by name."""
    found = {
        name: one
        for name, one in vars(types).items()
        if isinstance(one, type) and issubclass(one, base) and one is not base
    }
    return [one for _, one in sorted(found.items())]


TEXTS, BLOCKS = kinds_of(types.RichText), kinds_of(types.RichBlock)


def draw_update(number: int) -> Json:
    """Return an update of a private chat, a group or a topic that aiogram can parse.

    Args:
        number: Its number, which is the seed of everything in it.
    """
    drawer = Drawer(number, rate=(0.05, 0.15, 0.4)[number % 3])
    chance = drawer.random
    content = drawer.model(types.Message)
    content |= {"message_id": number, "date": 1_700_000_000, "from": person()}
    content["chat"] = chance.choice((private(), group(), group()))
    content.pop("is_topic_message", None)
    if chance.random() < 0.3:
        content |= {"message_thread_id": 3, "is_topic_message": True}
    for moved in ("migrate_to_chat_id", "migrate_from_chat_id"):
        content.pop(moved, None)  # it would move the whole group
    answered = content.get("reply_to_message")
    if isinstance(answered, dict) and chance.random() < 0.5:
        answered["from"] = person(BOT_ID, is_bot=True)
    kind = "edited_message" if chance.random() < 0.2 else "message"
    update = {"update_id": number, kind: content}
    types.Update.model_validate(update)
    return update
