"""Owners of data (a person, or a group and topic), and callers of commands."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self

from src.base.zones import day_text, local_time
from src.texts import Language

Mode = Literal["assistant", "strict"]
AnswerLength = Literal["short", "normal", "long"]


class Owner(NamedTuple):
    """Owner of memories and search documents, and the topic of the current conversation.

    A group's data belong to the group and topic. A person's data belong to the person, in every
    topic of the private chat: only history belongs to a topic there.

    Attributes:
        telegram_user_id: The person's Telegram id, or a group's negative chat id.
        thread_id: The topic of a forum group or of a private chat, else 0.
    """

    telegram_user_id: int
    thread_id: int = 0

    @property
    def is_group(self) -> bool:
        """True if the owner is a group, where several people write."""
        return self.telegram_user_id < 0

    @property
    def row(self) -> tuple[int, int]:
        """``telegram_user_id`` and ``thread_id`` of the row in ``owners``."""
        return self.telegram_user_id, self.thread_id if self.is_group else 0

    def columns(self) -> dict[str, object]:
        """Return the parameters that every statement on users' data takes.

        ``owner`` is this owner, which the database client turns into the id of its row in
        ``owners``; ``user`` and ``thread_id`` identify the conversation.
        """
        return {"owner": self, "user": self.telegram_user_id, "thread_id": self.thread_id}


# Where the language is from: chosen in /settings, told by messages, or guessed.
LanguageSource = Literal["chosen", "spoken", "guessed"]


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Settings that an owner chooses in /settings, named like the columns of ``user_settings``.

    Attributes:
        mode: The path through the graph.
        answer_length: The length of answers that the owner wants.
        memory_on: True if messages are remembered and recalled.
        follow_ups: True if the bot asks the day after how something went.
    """

    mode: Mode = "assistant"
    answer_length: AnswerLength = "normal"
    memory_on: bool = True
    follow_ups: bool = False


@dataclass(frozen=True)
class Preferences(Chosen):
    """Settings of one owner as they apply, from the door to the graph.

    Attributes:
        language: Language of the bot's own sentences.
        time_zone: A tz database name.
        has_zone: True if the owner chose the zone, or was told about it.
        has_reminders: True if the owner may have pending reminders.
        language_from: Where the language is from.
    """

    language: Language
    time_zone: str
    has_zone: bool = True
    has_reminders: bool = True
    language_from: LanguageSource = "chosen"


@dataclass(frozen=True)
class Caller:
    """Caller of a turn, a command or a button; it travels unchanged from the door to the graph.

    Attributes:
        owner: Owner of the memory concerned: the person, or the group and topic.
        preferences: Settings of the owner.
        moment: When it arrived (aware).
        argument: Text after the command's name.
        replied: The caller's own words to which the command replies.
        member: The caller in a group.
        is_admin: True if the caller may change what concerns the whole group; always in a private
            chat.
    """

    owner: Owner
    preferences: Preferences
    moment: datetime
    argument: str = ""
    replied: str = ""
    member: int | None = None
    is_admin: bool = True

    @property
    def language(self) -> Language:
        """Language of the bot's own sentences."""
        return self.preferences.language

    @property
    def time_zone(self) -> str:
        """The owner's time zone, a tz database name."""
        return self.preferences.time_zone

    @property
    def now(self) -> datetime:
        """The moment on the owner's clock."""
        return local_time(self.moment, self.time_zone)

    @property
    def asker(self) -> int | None:
        """The caller in a group; None in a private chat, whose owner may see everything."""
        if self.owner.is_group:
            return self.member
        return None

    def with_preferences(self, **changes: Any) -> Self:
        """Return a copy with other preferences."""
        return replace(self, preferences=replace(self.preferences, **changes))

    def with_argument(self, text: str) -> Self:
        """Return a copy with another argument."""
        return replace(self, argument=text)

    def day(self, moment: datetime) -> str:
        """Format the day of a moment for the user."""
        return day_text(moment, self.moment, self.language, self.time_zone)


class WithCaller:
    """Something that a caller wants.

    Attributes:
        caller: The caller.
    """

    caller: Caller

    @property
    def owner(self) -> Owner:
        """Owner of the memory: the person, or the group and topic."""
        return self.caller.owner

    @property
    def preferences(self) -> Preferences:
        """Settings of the owner."""
        return self.caller.preferences

    @property
    def moment(self) -> datetime:
        """Moment at which it was written (aware)."""
        return self.caller.moment

    @property
    def language(self) -> Language:
        """Language of the bot's own sentences."""
        return self.caller.language

    @property
    def time_zone(self) -> str:
        """The owner's time zone, a tz database name."""
        return self.caller.time_zone

    @property
    def speaker_id(self) -> int | None:
        """Sender in a group, whom "I" means; None in a private chat."""
        return self.caller.asker
