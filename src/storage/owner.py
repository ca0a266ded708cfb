"""Whose rows: a person, or a group and topic."""

from __future__ import annotations

from typing import NamedTuple


class Owner(NamedTuple):
    """The owner of memories and of what the search knows.

    Attributes:
        telegram_user_id: The person's Telegram id, or a group's negative chat id.
        thread_id: The topic of a forum group, else 0.
    """

    telegram_user_id: int
    thread_id: int = 0

    @property
    def is_group(self) -> bool:
        """Whether several people speak there."""
        return self.telegram_user_id < 0

    def columns(self) -> dict[str, object]:
        """The parameters ``owner`` and ``thread_id`` that every statement on users' data takes."""
        return {"owner": self.telegram_user_id, "thread_id": self.thread_id}
