"""Standalone program that runs one stdio server, bounds what it writes, and kills it at the end.

The SDK takes lines of any length, asyncio kills only the process that it started, and nothing
when the bot is killed. So the bot starts this program instead of the server. It passes on the
server's messages, and kills the whole process group, itself included, when the server has ended
or writes too much, or when the bot closes the connection or dies for any reason::

    python -I -S guard.py MAX_MESSAGE MAX_UNASKED COMMAND [ARGUMENT …]

No packages are imported.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial


def main() -> None:
    """Run until the server or the bot ends."""
    longest, unasked = map(int, sys.argv[1:3])
    # asyncio may kill the process that it started and leave its pipes open. So the parent only
    # waits, and the child, which guards the server, also watches for the parent's end.
    parent_end, alive = os.pipe()
    if os.fork():
        os.close(0)
        os.close(1)
        os.close(parent_end)
        os.wait()
        return
    os.close(alive)
    server = subprocess.Popen(sys.argv[3:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert server.stdout
    os.close(0)
    signal.signal(signal.SIGTERM, lambda *_: _kill_group())
    hangup = select.poll()
    hangup.register(1, 0)
    hangup.register(parent_end, 0)
    for watch in (server.wait, hangup.poll):
        threading.Thread(target=_kill_after, args=(watch,), daemon=True).start()
    for line in iter(partial(server.stdout.readline, longest + 1), b""):
        message = _parse(line)
        if not message.keys() & {"result", "error"}:
            unasked -= len(line)
        if len(line) > longest or unasked < 0:
            break
        if "jsonrpc" in message:
            sys.stdout.buffer.write(line.removeprefix(b"\xef\xbb\xbf"))  # of .NET's first line
            sys.stdout.buffer.flush()
    _kill_group()


def _parse(line: bytes) -> dict[str, object]:
    """Return a message; empty for what else a server prints."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if isinstance(message, dict):
        return message
    return {}


def _kill_after(wait: Callable[[], object]) -> None:
    """Kill the group after a wait, even if a child of the server keeps its stdout open."""
    wait()
    _kill_group()


def _kill_group() -> None:
    os.kill(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
