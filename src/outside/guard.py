"""A program without packages that starts one server on stdio, and ends with it.

asyncio kills a process alone when its start is given up, and nothing at all when the bot is
killed. So what it starts is this: it starts the server, which inherits stdin and stdout, and
kills its process group, itself included, when the server has ended, or when the bot has closed
the connection or died, however that happened::

    python -I -S guard.py END_SECONDS UNSET COMMAND [ARGUMENT …]

UNSET is the name of a variable that the server must not see, or empty.
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
    # asyncio may kill what it has started and leave its stdin open: that is a process of its own,
    # for whose end the other one waits, too.
    ended, lives = os.pipe()
    if os.fork():
        os.close(ended)
        os.close(1)
        os.wait()
        return
    os.close(lives)
    server = subprocess.Popen(command)
    os.close(1)  # or its end would not be seen
    threading.Thread(target=_await, args=(server,), daemon=True).start()
    ends = select.poll()
    for end in (0, ended):
        ends.register(end, 0)
    if (ended, select.POLLHUP) not in ends.poll():  # until one of them hangs up
        time.sleep(float(seconds))
    _end()


def _await(server: subprocess.Popen[bytes]) -> None:
    """End with the server, though a child of it may keep its stdout open."""
    server.wait()
    _end()


def _end() -> None:
    os.kill(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
