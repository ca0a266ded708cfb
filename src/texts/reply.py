"""Answers to commands and buttons: a text with buttons, independent of the front end."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Literal, Self, TypedDict

MAX_DATA = 64  # bytes of a button's data; Telegram's limit
MAX_NUMBER = 2**63  # exclusive bound of a button's numbers: PostgreSQL's bigint
PACKED = re.compile("[A-Za-z]+(?::[0-9]+){0,4}")


@dataclass(frozen=True)
class Action:
    """Effect of a button: a name, and numbers that identify its target.

    Anyone can send any data, so the numbers must not be trusted before the owner is compared.

    Attributes:
        name: One of ``commands.ACTIONS``, or of the front end's own.
        numbers: Page numbers, ids of facts, and so on; 0 to 2^63.
    """

    name: str
    numbers: tuple[int, ...] = ()

    def pack(self) -> str:
        """Return ``fact:12:3``, within MAX_DATA bytes for every action that ``unpack`` accepts."""
        return ":".join((self.name, *map(str, self.numbers)))

    @classmethod
    def unpack(cls, data: str) -> Self | None:
        """Parse a button's data; return None for data that ``pack`` cannot have written."""
        if len(data) > MAX_DATA or PACKED.fullmatch(data) is None:
            return None
        name, *numbers = data.split(":")
        values = tuple(map(int, numbers))
        return cls(name, values) if all(value < MAX_NUMBER for value in values) else None

    def number(self, index: int, default: int = 0) -> int:
        """Return the number at an index, or the default if there is none."""
        return self.numbers[index] if index < len(self.numbers) else default


@dataclass(frozen=True)
class Button:
    """Button below an answer.

    Attributes:
        label: Text on the button.
        action: Its effect.
        url: Page to open instead; the console shows the label only.
    """

    label: str
    action: Action
    url: str | None = None


@dataclass(frozen=True)
class ReplyFile:
    """File to send.

    Attributes:
        name: File name shown to the user.
        content: Open file; its position does not matter.
    """

    name: str
    content: BinaryIO

    def save(self, folder: Path) -> Path:
        """Write it into a folder, close it, and return its absolute path there."""
        path = (folder / self.name).absolute()
        with self.content, path.open("wb") as target:
            self.content.seek(0)
            shutil.copyfileobj(self.content, target)
        return path


Rows = tuple[tuple[Button, ...], ...]
# Phrases of a text that tell a moment, in their order, with that moment (aware): a front end may
# show them by the reader's clock.
Times = tuple[tuple[str, datetime], ...]


class Question(TypedDict, total=False):
    """Question of a reply, as it is stored until a message answers it.

    Attributes:
        asks: ``zone``: for the user's time zone; ``correction``: how a fact is right; ``import``:
            for a file or a list.
        memory_id: That fact.
    """

    asks: Literal["zone", "correction", "import"]
    memory_id: int


ASK_ZONE: Question = {"asks": "zone"}
ASK_FILE: Question = {"asks": "import"}


@dataclass(frozen=True)
class Reply:
    """Answer to a command or a button, in plain text without markup.

    Attributes:
        text: The text.
        rows: Buttons below the text.
        hint: Explanation of the buttons; empty without buttons.
        is_screen: True if it replaces the message with the pressed button.
        keeps_button: True if the pressed button stays, because its work is not done.
        keeps_others: True if the other buttons of its message stay, below those of the reply.
        is_note: True if it is only shown as a pop-up to the user who pressed the button: a
            refusal, or that nothing is left to do. The chat stays as it is.
        popup: Text of the pop-up, if not the first line of the text.
        asks: Question that it asks, to be answered in words or by its buttons.
        files: Files to send with it; the sender closes them.
        times: Phrases of the text that tell a moment.
        is_personal: True if it concerns only the caller, also in a group; then it is only a text.
        import_id: The import of which it shows the state, which goes on changing.
    """

    text: str
    rows: Rows = ()
    hint: str = ""
    is_screen: bool = False
    asks: Question | None = None
    files: tuple[ReplyFile, ...] = ()
    keeps_button: bool = False
    keeps_others: bool = False
    is_note: bool = False
    popup: str = ""
    times: Times = ()
    is_personal: bool = False
    import_id: int | None = None

    @property
    def awaits_words(self) -> bool:
        """True if it can only be answered in words; the front end asks for them."""
        return self.asks is not None and not self.rows

    @property
    def hinted(self) -> str:
        """Text followed by its hint."""
        return f"{self.text}\n\n{self.hint}" if self.hint else self.text

    @classmethod
    def note(cls, text: str) -> Self:
        """Build a pop-up that keeps its button."""
        return cls(text, is_note=True, keeps_button=True)

    @classmethod
    def closing_note(cls, text: str) -> Self:
        """Build a pop-up that removes its button, whose target is gone."""
        return cls(text, is_note=True)

    @property
    def popup_text(self) -> str:
        """Text of the pop-up for the user who pressed the button."""
        return self.popup or self.text.strip().partition("\n")[0]

    def as_screen(self) -> Self:
        """Return a copy that is a screen."""
        return replace(self, is_screen=True)


def in_rows(buttons: Sequence[Button], width: int) -> Rows:
    """Split buttons into rows of ``width``."""
    return tuple(tuple(buttons[i : i + width]) for i in range(0, len(buttons), width))


def pager_row(number: int, last: int, name: str, *others: int) -> Rows:
    """Return a row of previous, current and next page buttons; none for a single page."""
    if last == 1:
        return ()
    pages = [("‹", number - 1), (f"{number}/{last}", number), ("›", number + 1)]
    existing = [(label, page) for label, page in pages if 1 <= page <= last]
    return (tuple(Button(label, Action(name, (page, *others))) for label, page in existing),)
