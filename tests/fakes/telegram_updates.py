"""Queue of a bot's updates, with the offset rules of the Bot API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.fakes import Changes, is_integer
from tests.fakes.telegram_types import Json

MAX_BATCH = 100
FUTURE_SLACK = 10
"""Offsets more than this beyond the queue's tail are ignored (TQueue::get in tdlib)."""

OFF_BY_DEFAULT = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
"""Kinds that Telegram sends only if allowed_updates names them."""


@dataclass(eq=False)
class Queued:
    """An update in the queue.

    Attributes:
        update_id: None for garbage, which is delivered once and never confirmed.
        redelivered: True until delivered again; an offset does not remove it before that.
    """

    update_id: int | None
    body: Any
    redelivered: bool = False


class UpdateQueue:
    """Updates that the bot has not confirmed yet, oldest first."""

    def __init__(self, changes: Changes) -> None:
        self.next_update_id = 1000
        self.confirmed_offset = 0
        self._allowed: frozenset[str] = frozenset()
        self._changes = changes
        self._queue: list[Queued] = []
        self._log: dict[int, Any] = {}

    @property
    def pending(self) -> list[Json]:
        """Unconfirmed updates with an id."""
        return [entry.body for entry in self._queue if entry.update_id is not None]

    @property
    def head(self) -> Queued | None:
        """The oldest entry, including garbage."""
        return self._queue[0] if self._queue else None

    def is_confirmed(self, update_id: int) -> bool:
        """Return True if the update was queued and is no longer pending."""
        waiting = any(entry.update_id == update_id for entry in self._queue)
        return update_id in self._log and not waiting

    def allow(self, kinds: list[str] | None) -> None:
        """Set allowed_updates; None keeps the last list, an empty one means the default."""
        if kinds is not None:
            self._allowed = frozenset(kinds)

    def add(self, kind: str, payload: Json) -> int:
        """Queue an update under the next id and return the id.

        A kind that the bot did not allow is dropped.
        """
        update_id = self.next_update_id
        self.next_update_id += 1
        body = {"update_id": update_id, kind: payload}
        if kind in self._allowed or (not self._allowed and kind not in OFF_BY_DEFAULT):
            self._append(Queued(update_id, body))
        return update_id

    def add_raw(self, update: Any) -> None:
        """Queue any object unchanged."""
        update_id = update.get("update_id") if isinstance(update, dict) else None
        if not is_integer(update_id):
            self._append(Queued(None, update))
            return
        self.next_update_id = max(self.next_update_id, update_id + 1)
        self._append(Queued(update_id, update))

    def redeliver(self, update_id: int) -> None:
        """Queue an old update again; it is delivered once more regardless of the offset.

        Raises:
            KeyError: No such update was ever queued.
        """
        self._append(Queued(update_id, self._log[update_id], redelivered=True))

    def apply_offset(self, offset: int) -> None:
        """Remove the updates that the offset confirms."""
        if offset < 0:
            self._remove_first(len(self._queue) + offset)
        elif offset <= self.next_update_id + FUTURE_SLACK:
            self._confirm_below(offset)

    def take(self, limit: int) -> list[Any]:
        """Return up to `limit` updates, then all garbage, which is removed thereby."""
        batch = [entry for entry in self._queue if entry.update_id is not None]
        batch = batch[: limit if 1 <= limit <= MAX_BATCH else MAX_BATCH]
        for entry in batch:
            entry.redelivered = False
        garbage = [entry for entry in self._queue if entry.update_id is None]
        if garbage:
            self._queue = [entry for entry in self._queue if entry.update_id is not None]
        return [entry.body for entry in batch + garbage]

    def confirm(self, entry: Queued) -> None:
        """Remove one entry, as a webhook's 2xx does."""
        if entry in self._queue:
            self._queue.remove(entry)
        if entry.update_id is not None:
            self.confirmed_offset = entry.update_id + 1
        self._changes.notify()

    def clear(self) -> None:
        """Remove all entries (drop_pending_updates)."""
        self._queue.clear()
        self._changes.notify()

    def _append(self, entry: Queued) -> None:
        if entry.update_id is not None:
            self._log[entry.update_id] = entry.body
        self._queue.append(entry)
        self._changes.notify()

    def _confirm_below(self, offset: int) -> None:
        remaining = [
            entry
            for entry in self._queue
            if entry.update_id is None or entry.update_id >= offset or entry.redelivered
        ]
        if offset > 0:
            self.confirmed_offset = offset
        self._queue = remaining
        self._changes.notify()

    def _remove_first(self, count: int) -> None:
        if count <= 0:
            return
        ids = [entry.update_id for entry in self._queue[:count] if entry.update_id is not None]
        self._queue = self._queue[count:]
        if ids:
            self.confirmed_offset = ids[-1] + 1
        self._changes.notify()
