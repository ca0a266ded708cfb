"""Lines that a person types on a terminal: the arrow keys recall what was typed before.

What is recalled lives in the process alone and is written nowhere: a file of it would hold words
that neither /new nor forgetting reaches.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

NOT_SHOWN = "\x01{}\x02"  # tells readline that a colour takes no room in the line


def prompt_of(sign: str, colour: str, reset: str) -> str:
    """A coloured sign to type behind."""
    if "readline" not in sys.modules:
        return f"{colour}{sign}{reset} "
    return f"{NOT_SHOWN.format(colour)}{sign}{NOT_SHOWN.format(reset)} "


@contextmanager
def kept_terminal(descriptor: int) -> Iterator[None]:
    """Leave the terminal as it was, also when we are interrupted while somebody types."""
    with contextlib.suppress(ImportError):  # some Pythons come without: no arrow keys there
        import readline  # from now on ``input`` uses it

        # A pasted text is as many messages as it has lines, as everywhere in the console; and
        # the terminal needs no telling at the end that nobody expects a paste any more.
        readline.parse_and_bind("set enable-bracketed-paste off")
    before = termios.tcgetattr(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def read_line(prompt: str) -> str | None:
    """The next line of the terminal that is stdin and stdout; None when the input ends.

    It is read in a thread that nobody waits for: Ctrl-C ends the program, not only the line.
    """
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str | None] = loop.create_future()

    def read() -> None:
        try:
            tell: Callable[[], None] = partial(_tell, line, input(prompt))
        except EOFError:
            tell = partial(_tell, line, None)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=read, name="terminal", daemon=True).start()
    return await line


def _tell(line: asyncio.Future[str | None], text: str | None) -> None:
    if not line.done():
        line.set_result(text)
