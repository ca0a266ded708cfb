"""Redaction of a person's words and names in the updates of others: pure functions on their JSON.

A pending update of another user may quote or forward a person's message, mention them, or contain
their name and phone number. A redacted update can still be handled.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

BLANK = "-"  # replaces a string of the person; Telegram's types require some text
HOLE = "…"  # replaces each UTF-16 unit of a name, so that the offsets of other entities stay valid
NAMES = ("first_name", "last_name", "username", "title")
MESSAGES = ("message", "edited_message")
QUOTED = ("reply_to_message", "pinned_message", "external_reply")
CONTENT = ("text", "caption", "rich_message", "entities", "caption_entities", "quote", *QUOTED)


def find_names(payload: Any, person: int) -> Iterator[str]:
    """Yield the names of the person in the objects that stand for them, full names as well."""
    for one in _nested(payload):
        if not _is_of(one, person):
            continue
        yield from (one[name] for name in NAMES if isinstance(one.get(name), str))
        if isinstance(one.get("last_name"), str):
            yield f"{one.get('first_name', '')} {one['last_name']}".strip()


def redact_person(
    payload: Json, person: int, names: Collection[str], *, in_room: bool
) -> Json | None:
    """Return the update of another user without a person's words and names.

    Args:
        payload: The update.
        person: The id of the person, or of a group or channel.
        names: The known names of the person.
        in_room: True for an update from a chat in which the person takes part: quotations of the
            bot are removed as well, since its messages may be about the person.

    Returns:
        The redacted update; None if it consists of a forwarded message of the person.
    """
    redaction = _Redaction(person, frozenset(names), in_room)
    update = dict(payload)
    for field in MESSAGES:
        message = update.get(field)
        if isinstance(message, dict):
            if redaction.wrote_forwarded(message):
                return None
            update[field] = redaction.redact_message(message)
    query = update.get("callback_query")
    if in_room and isinstance(query, dict) and isinstance(query.get("message"), dict):
        shown = {key: value for key, value in query["message"].items() if key not in CONTENT}
        update["callback_query"] = query | {"message": shown}
    cleaned: Json = redaction.anonymise(update)
    return cleaned


@dataclass(frozen=True)
class _Redaction:
    id: int
    names: frozenset[str]
    in_room: bool

    def wrote_forwarded(self, message: Mapping[str, Any]) -> bool:
        """Return True if the message is a forwarded one of the person."""
        origin = message.get("forward_origin")
        if not isinstance(origin, dict):
            return False
        return self._occurs_in(origin) or origin.get("sender_user_name") in self.names

    def redact_message(self, message: Json) -> Json:
        """Return the message of another user without quotations and mentions of the person."""
        redacted = {
            key: value
            for key, value in message.items()
            if key not in QUOTED or not self._is_quoted_in(value)
        }
        if len(redacted) < len(message):
            redacted.pop("quote", None)
        for text, entities in (("text", "entities"), ("caption", "caption_entities")):
            if isinstance(redacted.get(text), str) and isinstance(redacted.get(entities), list):
                redacted[text] = self._redact_mentions(redacted[text], redacted[entities])
        return redacted

    def anonymise(self, value: Any, *, is_theirs: bool = False) -> Any:
        """Return the value without strings and ids of the person; all types stay the same.

        Args:
            value: An update, or a part of one.
            is_theirs: True within an object that stands for the person.
        """
        if isinstance(value, list):
            return [self.anonymise(entry, is_theirs=is_theirs) for entry in value]
        if isinstance(value, dict):
            is_theirs = is_theirs or _is_of(value, self.id)
            clean = {key: self.anonymise(one, is_theirs=is_theirs) for key, one in value.items()}
            if is_theirs and "type" in value:
                clean["type"] = value["type"]
            return clean
        if isinstance(value, str) and (is_theirs or value in self.names):
            return BLANK
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if is_number and (is_theirs or value == self.id):
            return 0
        return value

    def _is_quoted_in(self, quoted: Any) -> bool:
        """Return True if a quoted message is by or about the person, or may be: the bot's."""
        if not isinstance(quoted, dict):
            return False
        sender = quoted.get("from")
        is_others = isinstance(sender, dict) and sender.get("is_bot") is not True
        return (self.in_room and not is_others) or self._occurs_in(quoted)

    def _occurs_in(self, value: Any) -> bool:
        return any(
            _is_of(one, self.id) or (isinstance(one, str) and one in self.names)
            for one in _nested(value)
        )

    def _redact_mentions(self, text: str, entities: list[Any]) -> str:
        units = text.encode("utf-16-le", "surrogatepass")
        for entity in entities:
            if not isinstance(entity, dict):
                continue
            first, length = entity.get("offset"), entity.get("length")
            if not isinstance(first, int) or not isinstance(length, int) or first < 0:
                continue
            part = units[2 * first : 2 * (first + length)]
            name = part.decode("utf-16-le", "replace").removeprefix("@")
            by_name = entity.get("type") == "mention" and name in self.names
            if by_name or _is_of(entity.get("user"), self.id):
                hole = (HOLE * (len(part) // 2)).encode("utf-16-le")
                units = units[: 2 * first] + hole + units[2 * first + len(part) :]
        return units.decode("utf-16-le", "replace")


def _nested(value: Any) -> Iterator[Any]:
    yield value
    inside: Iterable[Any] = ()
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list):
        inside = value
    for entry in inside:
        yield from _nested(entry)


def _is_of(value: Any, person: int) -> bool:
    """Return True if a JSON object stands for the person: a user, a chat, a contact."""
    return isinstance(value, dict) and person in (value.get("id"), value.get("user_id"))
