"""What a command or a button says: a text, and buttons under it, wherever it is shown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Self

MAX_DATA = 64  # bytes of a button's data; a limit of Telegram's
MAX_NUMBER = 2**63  # of what a button names: PostgreSQL's bigint
PACKED = re.compile("[A-Za-z]+(?::[0-9]+){0,4}")


@dataclass(frozen=True)
class Action:
    """What a button does: a name, and what it does it to.

    Anybody can send any data, so the numbers mean nothing before the owner is compared.

    Attributes:
        name: One of ``command_service.ACTIONS``, or of the messenger's own.
        numbers: Pages, ids of facts, and so on; 0 to 2^63.
    """

    name: str
    numbers: tuple[int, ...] = ()

    def pack(self) -> str:
        """``fact:12:3``, at most MAX_DATA bytes for what ``unpack`` takes."""
        return ":".join((self.name, *map(str, self.numbers)))

    @classmethod
    def unpack(cls, data: str) -> Self | None:
        """The action of a button's data; None for what ``pack`` did not write."""
        if len(data) > MAX_DATA or PACKED.fullmatch(data) is None:
            return None
        name, *numbers = data.split(":")
        values = tuple(map(int, numbers))
        return cls(name, values) if all(value < MAX_NUMBER for value in values) else None

    def number(self, place: int, default: int = 0) -> int:
        """The number at a place, or the default where there is none."""
        return self.numbers[place] if place < len(self.numbers) else default


@dataclass(frozen=True)
class Button:
    """A button and what it does.

    Attributes:
        label: What stands on it.
        action: What it does.
        url: The page that it opens instead; the console has none, and shows only the text.
    """

    label: str
    action: Action
    url: str | None = None


@dataclass(frozen=True)
class ReplyFile:
    """A file to send.

    Attributes:
        name: What it is called there.
        content: An open one; where it stands in it does not matter.
    """

    name: str
    content: BinaryIO


Rows = tuple[tuple[Button, ...], ...]


@dataclass(frozen=True)
class Reply:
    """What is said, as it stands: no markup.

    Attributes:
        text: The text.
        rows: Buttons under it.
        hint: Tells what the buttons are for; only where there are buttons.
        is_screen: Whether it takes the place of what stood above the pressed button.
        keeps_button: Whether the pressed button stays where it is: it has not done its work.
        keeps_others: Whether the other buttons of its message stay, below those of the reply.
        is_note: Whether it is only told to who pressed the button, in a pop-up; a refusal, or that
            there is nothing to do any more. What stands in the chat stays as it is.
        popup: What the pop-up says, where that is not the first line of the text.
        corrects: The fact that the answer to it will correct; the messenger asks for one.
        asks: Whether it asks for an answer in words.
        files: What is sent with it; whoever sends them closes them.
    """

    text: str
    rows: Rows = ()
    hint: str = ""
    is_screen: bool = False
    corrects: int | None = None
    asks: bool = False
    files: tuple[ReplyFile, ...] = ()
    keeps_button: bool = False
    keeps_others: bool = False
    is_note: bool = False
    popup: str = ""

    @property
    def hinted(self) -> str:
        """The text with its hint."""
        return f"{self.text}\n\n{self.hint}" if self.hint else self.text

    @classmethod
    def note(cls, text: str) -> Self:
        """A pop-up alone, for a button that stays."""
        return cls(text, is_note=True, keeps_button=True)

    @classmethod
    def gone(cls, text: str) -> Self:
        """A pop-up alone, for a button that has nothing to do any more."""
        return cls(text, is_note=True)

    @property
    def tapped(self) -> str:
        """What the pop-up says to who pressed the button."""
        return self.popup or self.text.strip().partition("\n")[0]

    def in_place(self) -> Self:
        """The same, as a screen."""
        return replace(self, is_screen=True)


def in_rows(buttons: Sequence[Button], width: int) -> Rows:
    """The buttons in rows of ``width``."""
    return tuple(tuple(buttons[i : i + width]) for i in range(0, len(buttons), width))


def pager_row(number: int, last: int, name: str, *others: int) -> Rows:
    """Previous, current, next, each an action of a page's number; nothing for a single page."""
    if last == 1:
        return ()
    pages = [("‹", number - 1), (f"{number}/{last}", number), ("›", number + 1)]
    near = [(label, page) for label, page in pages if 1 <= page <= last]
    return (tuple(Button(label, Action(name, (page, *others))) for label, page in near),)
