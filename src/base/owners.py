"""Owners: whose rows (a person's, or a group and topic's), and who called a command for one."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, Self

from src.base.zones import day_text
from src.texts import Language


class Owner(NamedTuple):
    """Who owns memories and what the search knows, and in which topic they talk now.

    The owner of a group's data is the group and topic. The owner of a person's is the person, in
    whichever topic of the private chat they write: only history belongs to a topic there.

    Attributes:
        telegram_user_id: The person's Telegram id, or a group's negative chat id.
        thread_id: The topic of a forum group or of a private chat, else 0.
    """

    telegram_user_id: int
    thread_id: int = 0

    @property
    def is_group(self) -> bool:
        """Whether several people speak there."""
        return self.telegram_user_id < 0

    @property
    def row(self) -> tuple[int, int]:
        """``telegram_user_id`` and ``thread_id`` of the row in ``owners``."""
        return self.telegram_user_id, self.thread_id if self.is_group else 0

    def columns(self) -> dict[str, object]:
        """The parameters that every statement on users' data takes.

        ``owner`` is the id in ``owners``, NULL when there is none, which ``owner_user`` and
        ``owner_thread`` tell a prepared statement; ``user`` and ``thread_id`` tell where the
        conversation stands.
        """
        user, thread = self.row
        return {
            "owner": _OwnerId(user, thread), "owner_user": user, "owner_thread": thread,
            "user": self.telegram_user_id, "thread_id": self.thread_id,
        }  # fmt: skip


class _OwnerId:
    """A parameter that looks the id up within the statement, so that it costs no round trip."""

    def __init__(self, telegram_user_id: int, thread_id: int) -> None:
        self._user, self._thread = int(telegram_user_id), int(thread_id)

    def __conform__(self, _protocol: object) -> Self:
        """How psycopg2 asks an object for its SQL."""
        return self

    def getquoted(self) -> bytes:
        """The SQL; it holds two numbers."""
        return (
            b"(SELECT id FROM owners WHERE telegram_user_id = %d AND thread_id = %d)"
            % (self._user, self._thread)
        )  # fmt: skip


@dataclass(frozen=True)
class Called:
    """A command, or a pressed button, with who it comes from.

    Attributes:
        owner: Whose memory it is about: the person, or the group and topic.
        language: The language of the reply.
        moment: When it came (aware).
        time_zone: The owner's, a tz database name.
        argument: What stands after a command's name.
        member: In a group, who called it.
        has_zone: Whether the owner chose the zone, or was told of it.
        is_admin: Whether they may do what concerns all of a group; true in a private chat.
    """

    owner: Owner
    language: Language
    moment: datetime
    time_zone: str
    argument: str = ""
    member: int | None = None
    is_admin: bool = True
    has_zone: bool = True

    @property
    def asker(self) -> int | None:
        """Who wants something of a group's memory; None in a private chat: all of it is theirs."""
        return self.member if self.owner.is_group else None

    def asking(self, text: str) -> Self:
        """The same, about another text."""
        return replace(self, argument=text)

    def day(self, moment: datetime) -> str:
        """The day of a moment, as people say it."""
        return day_text(moment, self.moment, self.language, self.time_zone)
