"""Taking a person's words and names out of the updates of others: pure functions on their JSON.

A waiting update of another user may quote a person's message, forward it, mention them, or carry
their name and phone number. What is left can still be handled.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

BLANK = "-"  # in the place of a name; Telegram's types want some text
HOLE = "…"  # in the place of each UTF-16 unit of a name, so that other entities keep their places
NAMES = ("first_name", "last_name", "username", "title")
MESSAGES = ("message", "edited_message")
QUOTED = ("reply_to_message", "pinned_message", "external_reply")
SAID = ("text", "caption", "rich_message", "entities", "caption_entities", "quote", *QUOTED)


def names_in(payload: Any, person: int) -> Iterator[str]:
    """What the objects that stand for the person call them; also first and last name together."""
    for one in _nested(payload):
        if not _is_of(one, person):
            continue
        yield from (one[name] for name in NAMES if isinstance(one.get(name), str))
        if isinstance(one.get("last_name"), str):
            yield f"{one.get('first_name', '')} {one['last_name']}".strip()


def without_person(
    payload: Json, person: int, names: Collection[str], *, in_room: bool
) -> Json | None:
    """The update of another user without a person's words and names.

    Args:
        payload: The update.
        person: Whose words go; also a group or a channel.
        names: What the person is called, as far as it is known.
        in_room: Whether it comes from a chat in which the person takes part: there the bot's own
            messages may tell of the person, so they are not quoted either.

    Returns:
        None when all of it is the person's words: a forwarded message of theirs.
    """
    person_is = _Person(person, frozenset(names), in_room)
    update = dict(payload)
    for field in MESSAGES:
        message = update.get(field)
        if isinstance(message, dict):
            if person_is.wrote_forwarded(message):
                return None
            update[field] = person_is.leaves(message)
    query = update.get("callback_query")
    if in_room and isinstance(query, dict) and isinstance(query.get("message"), dict):
        shown = {key: value for key, value in query["message"].items() if key not in SAID}
        update["callback_query"] = query | {"message": shown}
    cleaned: Json = person_is.anonymised(update)
    return cleaned


@dataclass(frozen=True)
class _Person:
    """Who is taken out, and how."""

    id: int
    names: frozenset[str]
    in_room: bool

    def wrote_forwarded(self, message: Mapping[str, Any]) -> bool:
        """Whether the message is a forwarded one of the person's."""
        origin = message.get("forward_origin")
        if not isinstance(origin, dict):
            return False
        return self._is_named(origin) or origin.get("sender_user_name") in self.names

    def leaves(self, message: Json) -> Json:
        """The message of another user without quotations and names of the person."""
        kept = {
            key: value
            for key, value in message.items()
            if key not in QUOTED or not self._is_quoted_in(value)
        }
        if len(kept) < len(message):
            kept.pop("quote", None)
        for text, entities in (("text", "entities"), ("caption", "caption_entities")):
            if isinstance(kept.get(text), str) and isinstance(kept.get(entities), list):
                kept[text] = self._without_mentions(kept[text], kept[entities])
        return kept

    def anonymised(self, value: Any, *, is_theirs: bool = False) -> Any:
        """The value without what it tells of the person, all in the types that it had.

        Args:
            value: An update, or a part of one.
            is_theirs: Whether it lies in an object that stands for the person.
        """
        if isinstance(value, list):
            return [self.anonymised(entry, is_theirs=is_theirs) for entry in value]
        if isinstance(value, dict):
            is_theirs = is_theirs or _is_of(value, self.id)
            return {
                key: entry
                if is_theirs and key == "type"
                else self.anonymised(entry, is_theirs=is_theirs)
                for key, entry in value.items()
            }
        if isinstance(value, str):
            return BLANK if is_theirs or value in self.names else value
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return 0 if is_number and (is_theirs or value == self.id) else value

    def _is_quoted_in(self, quoted: Any) -> bool:
        """Whether a quoted message is by or about the person, or the bot's to them."""
        if not isinstance(quoted, dict):
            return False
        sender = quoted.get("from")
        is_others = isinstance(sender, dict) and sender.get("is_bot") is not True
        return (self.in_room and not is_others) or self._is_named(quoted)

    def _is_named(self, value: Any) -> bool:
        """Whether the person stands anywhere within."""
        return any(
            _is_of(one, self.id) or (isinstance(one, str) and one in self.names)
            for one in _nested(value)
        )

    def _without_mentions(self, text: str, entities: list[Any]) -> str:
        units = text.encode("utf-16-le", "surrogatepass")
        for entity in entities:
            if not isinstance(entity, dict):
                continue
            first, length = entity.get("offset"), entity.get("length")
            if not isinstance(first, int) or not isinstance(length, int) or first < 0:
                continue
            part = units[2 * first : 2 * (first + length)]
            called = part.decode("utf-16-le", "replace").removeprefix("@")
            by_name = entity.get("type") == "mention" and called in self.names
            if by_name or _is_of(entity.get("user"), self.id):
                hole = (HOLE * (len(part) // 2)).encode("utf-16-le")
                units = units[: 2 * first] + hole + units[2 * first + len(part) :]
        return units.decode("utf-16-le", "replace")


def _nested(value: Any) -> Iterator[Any]:
    """A part of an update with all that lies in it."""
    yield value
    inside = value.values() if isinstance(value, dict) else value
    for entry in inside if isinstance(value, dict | list) else ():
        yield from _nested(entry)


def _is_of(value: Any, person: int) -> bool:
    """Whether a JSON object stands for the person: a user, a chat, a contact."""
    return isinstance(value, dict) and person in (value.get("id"), value.get("user_id"))
