"""Hostile Telegram updates: mutations of valid ones.

``mutate`` is a pure function of its choices, so that hypothesis can shrink them and a seeded
generator can draw them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

Json = dict[str, Any]

BOT_ID = 42
BOT_NAME = "pomni_test_bot"
USER = 2**41 + 7
GROUP = -1_001_234_567_890

REMOVE = object()
"""Marker among new values: delete the field."""


def person(user_id: int = USER, **fields: Any) -> Json:
    """Return a User."""
    return {"id": user_id, "is_bot": False, "first_name": "Анна", "language_code": "ru"} | fields


def private(user_id: int = USER) -> Json:
    """Return a private chat."""
    return {"id": user_id, "type": "private", "first_name": "Анна"}


def group(chat_id: int = GROUP, chat_type: str = "supergroup") -> Json:
    """Return a group."""
    return {"id": chat_id, "type": chat_type, "title": "Кухня"}


def message(text: str | None = None, **fields: Any) -> Json:
    """Return a Message of a person in the private chat."""
    content = {} if text is None else {"text": text}
    base = {"message_id": 5, "date": 1_700_000_000, "chat": private(), "from": person()}
    return base | content | fields


def update(update_id: int = 1000, **fields: Any) -> Json:
    """Return an Update."""
    return {"update_id": update_id, **fields}


OURS = message("прежний ответ", **{"from": person(BOT_ID, is_bot=True, username=BOT_NAME)})
PHOTO = [{"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1}]
MEMBERS = {
    "old_chat_member": {"status": "member", "user": person(BOT_ID, is_bot=True)},
    "new_chat_member": {"status": "kicked", "user": person(BOT_ID, is_bot=True), "until_date": 0},
}
VALID: tuple[Json, ...] = (
    update(message=message("привет 👋🏽")),
    update(message=message("/new", entities=[{"type": "bot_command", "offset": 0, "length": 4}])),
    update(message=message("/help тут", chat=group())),
    update(message=message(f"@{BOT_NAME} как дела?", chat=group())),
    update(message=message("да", chat=group(), reply_to_message=OURS | {"chat": group()})),
    update(message=message("/stop", chat=group(), message_thread_id=3, is_topic_message=True)),
    update(message=message(photo=PHOTO, caption="кот", media_group_id="1377")),
    update(message=message(voice={"file_id": "v", "file_unique_id": "u", "duration": 3})),
    update(message=message(chat=group(-17, "group"), migrate_to_chat_id=GROUP)),
    update(edited_message=message("иначе", edit_date=1_700_000_001)),
    update(callback_query={"id": "7", "from": person(), "message": OURS, "chat_instance": "1",
     "data": "x"}),
    update(my_chat_member={"chat": private(), "from": person(), "date": 1_700_000_000, **MEMBERS}),
    update(stopped_message_generation={"chat": private(), "draft_id": 5}),
    update(message=message("/remember кот")),
    update(message=message(photo=PHOTO, chat=group(), media_group_id="1378")),
    update(message_reaction={"chat": private(), "message_id": 5, "user": person(),
     "date": 1_700_000_000, "old_reaction": [],
     "new_reaction": [{"type": "emoji", "emoji": "👎"}]}),
)  # fmt: skip


def nested(depth: int) -> Any:
    """Return lists and objects within each other."""
    value: Any = "дно"
    for level in range(depth):
        value = [value] if level % 2 else {"message": value}
    return value


ODD_VALUES: tuple[Any, ...] = (
    REMOVE, None, True, False, 0, -1, 2**31, 2**52, 2**52 + 1, -(2**52) - 1, 2**63, -(2**64),
    10**400, 0.5, 1e308, float("nan"), float("-inf"), "", " ", "0", "-100", "private", "\x00",
    "до\x00после", "\ud800", "\udfff\ud83d", "\ud83d\ude00", "\u202eзадом наперёд\u2066",
    "z̵̢̛͍a̷l̶g̸o̴" * 10, "👨‍👩‍👧‍👦" * 2000, "длинно " * 12_000, "/new", "/stop@" + BOT_NAME,
    "/" + "x" * 70, "@" + BOT_NAME, "%(name)s %s {0} $1 '; DROP TABLE messages; --", [], [[]],
    [None, 1, "x"], {}, {"\x00": "\x00", "": 1, "\ud800": {}}, {"id": 2**63},
    {"id": "1", "type": 5}, nested(70), nested(400),
)  # fmt: skip


def mutate(base: Json, changes: Sequence[tuple[int, int]]) -> Any:
    """Return a copy of an update with values changed.

    Args:
        base: The update.
        changes: Pairs (index of a place, index into ``ODD_VALUES``), both modulo the count.
    """
    changed = copy.deepcopy(base)
    for where, what in changes:
        places = list(_places(changed))
        if not places:
            break
        container, key = places[where % len(places)]
        value = ODD_VALUES[what % len(ODD_VALUES)]
        if value is REMOVE:
            del container[key]
        else:
            container[key] = copy.deepcopy(value)
    return changed


def _places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) within a value, down to depth 8."""
    if depth > 8:
        return
    if isinstance(value, dict):
        entries: Any = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value))
    else:
        return
    for key, entry in entries:
        yield value, key
        yield from _places(entry, depth + 1)
