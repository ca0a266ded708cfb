"""``bot.py`` with tools that kill their process, in a thread or on the event loop.

The file LETHAL contains the way to die, so that a test can change it while the bot runs. Each call
appends a line to the file of the same name with the suffix ``.log``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from langchain_core.tools import tool

from bot import main


@tool
def lethal() -> str:
    """Do what must not be done."""
    order = Path(os.environ["LETHAL"])
    way = order.read_text()
    with order.with_suffix(".log").open("a") as log:
        log.write(f"{way} {os.getpid()}\n")
    die(way)
    return "harmless"


@tool
async def lethal_soon() -> str:
    """The same on the event loop."""
    return lethal.invoke({})


def die(way: str) -> None:
    """End this process in the given way; unknown ways do nothing."""
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    elif way == "exit":
        os._exit(0)
    elif way == "abort":
        os.abort()
    elif way == "segv":
        ctypes.string_at(0)
    elif way == "sys.exit":
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(extra_tools=[lethal, lethal_soon], root=Path.cwd()))
