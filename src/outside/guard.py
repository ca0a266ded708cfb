"""Standalone program that starts one stdio server and kills it when the bot is gone.

asyncio kills only the process itself when its start is cancelled, and nothing when the bot is
killed. So the bot starts this program instead of the server. It starts the server, which inherits
stdin and stdout, and kills the whole process group, itself included, as soon as the server has
ended, or the bot has closed the connection or died for any reason::

    python -I -S guard.py END_SECONDS UNSET COMMAND [ARGUMENT …]

UNSET is the name of a variable to hide from the server, or empty. No packages are imported.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time


def main() -> None:
    """Run until the server or the bot ends."""
    seconds, unset, *command = sys.argv[1:]
    if unset:
        os.unsetenv(unset)
    # asyncio may kill the process that it started and leave its stdin open. So the parent only
    # waits, and the child, which guards the server, also watches for the parent's end.
    parent_end, alive = os.pipe()
    if os.fork():
        os.close(parent_end)
        os.close(1)
        os.wait()
        return
    os.close(alive)
    server = subprocess.Popen(command)
    os.close(1)  # an open copy of stdout would hide the server's end from the bot
    threading.Thread(target=_kill_with_server, args=(server,), daemon=True).start()
    poller = select.poll()
    for descriptor in (0, parent_end):
        poller.register(descriptor, 0)
    if (parent_end, select.POLLHUP) not in poller.poll():  # blocks until one of them hangs up
        time.sleep(float(seconds))
    _kill_group()


def _kill_with_server(server: subprocess.Popen[bytes]) -> None:
    """Kill the group at the server's end, even if a child of the server keeps its stdout open."""
    server.wait()
    _kill_group()


def _kill_group() -> None:
    os.kill(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
