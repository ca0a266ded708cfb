"""Words of a message that Telegram keeps outside of its text, put into its text.

These functions work on Telegram's JSON before aiogram parses it: an unknown kind of block, which
aiogram refuses, costs nothing but itself, and whoever reads the text later has all of it.
"""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

# Fields that hold words in all kinds of rich blocks and rich texts, in reading order.
WORDS = (
    "label", "summary", "text", "expression", "alternative_text", "button", "buttons", "cells",
    "items", "blocks", "location", "caption", "credit",
)  # fmt: skip
SEPARATORS = {"blocks": "\n", "items": "\n", "cells": "\n", "buttons": " "}  # of their entries
CELL_SEPARATOR = " | "
# Files of rich blocks, and the fields of a message that hold the same.
FILES = {
    "photo": "photo", "video": "video", "animation": "animation", "audio": "audio",
    "document": "document", "voice_note": "voice",
}  # fmt: skip


def gather_words(message: Json) -> Json:
    """Return a message whose text or caption holds all its words; of any JSON that is not deep.

    These are the blocks of a rich message, whose first file becomes the message's own, and the
    addresses of links and of buttons. A message that is replied to is treated likewise; in a topic
    Telegram calls every message a reply to the one that opened it, which is none.
    """
    apart = ("rich_message", "reply_to_message")
    rich, replied = map(message.get, apart)
    gathered = {
        field: _with_addresses(value) for field, value in message.items() if field not in apart
    }
    _link_texts(gathered)
    if isinstance(rich, dict):
        _take_blocks(gathered, rich)
    buttons = "\n".join(_button_lines(gathered.get("reply_markup")))
    if buttons:
        field = "text"
        if isinstance(gathered.get("caption"), str):
            field = "caption"
        words = gathered.get(field)
        gathered[field] = f"{words}\n{buttons}" if isinstance(words, str) else buttons
    if isinstance(replied, dict) and "forum_topic_created" not in replied:
        gathered["reply_to_message"] = gather_words(replied)
    return gathered


def _take_blocks(message: Json, rich: Json) -> None:
    words = rich_words(rich).strip()
    if words and not message.get("text"):
        message["text"] = words
    for block in _dicts(rich):
        for field, own in FILES.items():
            has_file = any(map(message.get, FILES.values()))
            if isinstance(block.get(field), dict | list) and not has_file:
                message[own] = block[field]


def _dicts(value: Any) -> Iterator[Json]:
    inside = value
    if isinstance(value, dict):
        yield value
        inside = value.values()
    if isinstance(value, dict | list):
        for entry in inside:
            yield from _dicts(entry)


def rich_words(value: Any, separator: str = "") -> str:
    """Return the words of a rich message, of one of its blocks or texts, or of a list of them.

    Args:
        value: Its JSON.
        separator: Separator of the entries of a list.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        within = ""
        if separator == "\n":
            within = CELL_SEPARATOR
        parts = [rich_words(entry, within) for entry in value]
        return separator.join(part for part in parts if part or not separator)
    if not isinstance(value, dict):
        return ""
    if "latitude" in value:
        return f"📍 {value['latitude']}, {value.get('longitude')}"
    found = [
        rich_words(value[field], SEPARATORS.get(field, "")) for field in WORDS if field in value
    ]
    if value.get("has_checkbox") is True:
        found.insert(0, "✅" if value.get("is_checked") is True else "⬜")
    words = (" " if "label" in value else "\n").join(filter(None, found))
    return _with_address(words, value.get("url"))


def _with_addresses(value: Any) -> Any:
    """Return JSON in which the address of each linked word stands behind it."""
    if isinstance(value, list):
        return [_with_addresses(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    found = {field: _with_addresses(entry) for field, entry in value.items()}
    _link_texts(found)
    return found


def _link_texts(value: Json) -> None:
    """Put addresses into the texts of an object: into ``t`` by its ``t_entities``.

    Those of ``text`` are mostly called ``entities``.
    """
    for field, entities in list(value.items()):
        words = "text"
        if field != "entities":
            words = str(field).removesuffix("_entities")
        if words != field and isinstance(value.get(words), str) and isinstance(entities, list):
            value[words], value[field] = _add_addresses(value[words], entities)


def _with_address(words: str, url: Any) -> str:
    """Links to people (``tg://user``) have no address that anyone could read."""
    is_address = isinstance(url, str) and url != "" and not url.startswith("tg://user")
    if is_address and url.rstrip("/") not in words:
        return f"{words} ({url})"
    return words


def _add_addresses(text: str, entities: list[Any]) -> tuple[str, list[Any]]:
    """Put the address of each linked word behind it, and move the entities that follow."""
    found = [dict(one) for one in entities if isinstance(one, dict) and _has_place(one)]
    links = [one for one in found if one.get("type") == "text_link"]
    others = [one for one in found if one.get("type") != "text_link"]
    units = text.encode("utf-16-le", "surrogatepass")
    for link in sorted(links, key=lambda one: one["offset"] + one["length"], reverse=True):
        end = 2 * (link["offset"] + link["length"])
        word = part_of(text, link["offset"], link["length"])
        addition = _with_address(word, link.get("url")).removeprefix(word)
        added = addition.encode("utf-16-le", "surrogatepass")
        units = units[:end] + added + units[end:]
        for one in others:
            if one["offset"] >= link["offset"] + link["length"]:
                one["offset"] += len(added) // 2
    return units.decode("utf-16-le", "replace"), others


def part_of(text: str, offset: int, length: int) -> str:
    """Return a part of a text, given in UTF-16 units; half a character is replaced."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace")


def _has_place(entity: Json) -> bool:
    places = (entity.get("offset"), entity.get("length"))
    return all(type(place) is int and 0 <= place < 2**31 for place in places)


def _button_lines(markup: Any) -> Iterator[str]:
    for button in _dicts(markup):
        words = button.get("text")
        if isinstance(words, str) and _with_address("", button.get("url")):
            yield _with_address(words, button["url"])
