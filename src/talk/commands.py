"""Commands as data: what users write, and the entries of the table of commands."""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Self

from src.base.config import OFFLINE_MODEL, Settings
from src.base.owners import Caller
from src.queue.update_repo import UpdateKind
from src.texts.reply import Reply

Place = Literal["private", "group", "console"]
EVERYWHERE: tuple[Place, ...] = ("private", "group", "console")
PATTERN = re.compile(r"/([A-Za-z0-9_]{1,32})(?:@([A-Za-z0-9_]{3,64}))?(?:\s+(.*))?$", re.DOTALL)


@dataclass(frozen=True)
class Command:
    """Parsed ``/name@addressee argument``; the name is in lower case."""

    name: str
    addressee: str | None = None
    argument: str = ""

    def is_for(self, username: str) -> bool:
        """Return True if it is addressed to the bot of this user name, or to none."""
        return self.addressee is None or self.addressee.lower() == username.lower()


def parse_command(text: str) -> Command | None:
    """Return the command at the beginning of a text, or None."""
    match = PATTERN.match(text)
    if match is None:
        return None
    return Command(match[1].lower(), match[2], (match[3] or "").strip())


@dataclass(frozen=True)
class Features:
    """Parts of the bot that the operator may leave out.

    Attributes:
        has_model: True if there is a language model.
        has_app: True if Telegram can open the memory as a page.
        hears: True if speech is transcribed.
        sees: True if a model looks at pictures.
        has_page: True if that page also opens outside Telegram.
        lends: True if other assistants may read the memory.
    """

    has_model: bool
    has_app: bool
    hears: bool
    sees: bool
    has_page: bool = False
    lends: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the features that the settings switch on."""
        return cls(
            has_model=settings.chat_model_name != OFFLINE_MODEL,
            has_app=settings.app_url is not None,
            hears=settings.transcription_model is not None,
            sees=(settings.vision_model or settings.chat_model_name) != OFFLINE_MODEL,
            has_page=settings.page_url is not None,
            lends=settings.memory_server,
        )


@dataclass(frozen=True)
class CommandEntry:
    """Entry of the command table: all that the rest of the program knows of a command.

    Its texts are ``command_<name>`` (Telegram's menu), ``help_<name>`` (/help) and its replies.
    Menu and help offer it only where it works.

    Attributes:
        name: Its name without the slash.
        run: Runs it for the service of the commands, and returns the reply.
        kind: Kind of its updates. ``new`` and ``stop`` end the answer being written; the text
            after ``teach`` is a message, remembered as written.
        is_at_once: True if it changes nothing, so that its reply may come during an answer.
        is_in_help: True if /help lists it.
        is_for_admins: True if in a group only its admins may use it.
        places: Where it is offered.
        needs: Returns True if the bot has what it needs.
    """

    name: str
    run: Callable[[Any, Caller], Awaitable[Reply]]
    kind: UpdateKind = "command"
    is_at_once: bool = False
    is_in_help: bool = True
    is_for_admins: bool = False
    places: tuple[Place, ...] = EVERYWHERE
    needs: Callable[[Features], bool] = lambda _: True


def offered(
    entries: Iterable[CommandEntry], features: Features, place: Place, *, is_admin: bool = True
) -> list[CommandEntry]:
    """Return the commands that work for a user in a place, in the order of the menu."""
    return [
        entry
        for entry in entries
        if place in entry.places
        and entry.needs(features)
        and (is_admin or place != "group" or not entry.is_for_admins)
    ]
