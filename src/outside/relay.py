"""A program without packages that stands between the bot and one server on stdio.

The SDK's transport reads lines of any length, and asyncio kills a process alone when its start is
given up. So what they start is this: it starts the server, passes on what both say, and kills its
process group, itself included, when the server has ended, when it talks without end, or when the
bot has closed the connection or died, however that happened::

    python -I -S relay.py MAX_MESSAGE MAX_UNASKED END_SECONDS UNSET COMMAND [ARGUMENT …]

UNSET are names of variables, with commas between them, that the server must not see.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import IO

CHUNK = 65_536  # bytes
TOO_LONG = -32_001  # a JSON-RPC code of our own, within the range for such
ID = re.compile(rb'"id"\s*:\s*(\d{1,9})\s*[,}]')
LOOKED_AT = 200  # bytes at both ends of a line in which its id is looked for
DRAIN_SECONDS = 0.5  # for the last words of a server that has ended


class Lines:
    """Takes what a server prints, and gives its messages, a line each.

    Of a line that is too long only its ends are looked at: where it answers a request, that gets
    an error. What is no message is passed over.

    Attributes:
        unasked: Bytes so far that answered nothing.
    """

    def __init__(self, longest: int) -> None:
        """``longest`` are the bytes that a line may have."""
        self.unasked = 0
        self._longest = longest
        self._pieces: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The messages that end in the next piece."""
        *ends, rest = chunk.split(b"\n")
        found = [self._line(end) for end in ends]
        self._keep(rest)
        return [line for line in found if line]

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > self._longest:
            line = b"".join(self._pieces)
            self._pieces = [line[:LOOKED_AT], line[-LOOKED_AT:]]
            self.unasked += len(line) - 2 * LOOKED_AT

    def _line(self, end: bytes) -> bytes:
        self._keep(end)
        line, is_long = b"".join(self._pieces), self._length > self._longest
        self._pieces, self._length = [], 0
        if is_long:
            return _refusal(line)
        try:
            message = json.loads(line)
            is_message = message["jsonrpc"] == "2.0"
            is_answer = is_message and ("result" in message or "error" in message)
        except (ValueError, TypeError, LookupError, RecursionError):
            is_message = is_answer = False
        if not is_answer:
            self.unasked += len(line)
        return line + b"\n" if is_message else b""


def _refusal(line: bytes) -> bytes:
    """In place of an answer that is too long, by its two ends: that it is."""
    found = ID.search(line[:LOOKED_AT]) or ID.search(line[-LOOKED_AT:])
    if found is None:
        return b""
    error = {"code": TOO_LONG, "message": "the answer is too long"}
    refusal = {"jsonrpc": "2.0", "id": int(found[1]), "error": error}
    return json.dumps(refusal).encode() + b"\n"


def main() -> None:
    """Run until the server or the bot ends."""
    longest, most, seconds, unset, *command = sys.argv[1:]
    for name in filter(None, unset.split(",")):
        os.unsetenv(name)
    # asyncio may kill what it has started and leave its stdin open: that is a process of its own,
    # for whose end the other one waits, too.
    ended, lives = os.pipe()
    if os.fork():
        os.close(ended)
        os.wait()
        return
    os.close(lives)
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin and server.stdout
    reading = threading.Thread(
        target=_read, args=(server.stdout, Lines(int(longest)), int(most)), daemon=True
    )
    reading.start()
    threading.Thread(target=_write, args=(server.stdin,), daemon=True).start()
    threading.Thread(target=_await, args=(server, reading), daemon=True).start()
    ends = select.poll()
    for end in (0, ended):
        ends.register(end, 0)
    ends.poll()  # until one of them hangs up
    time.sleep(float(seconds))
    _end()


def _read(stdout: IO[bytes], lines: Lines, most: int) -> None:
    """Pass on the server's messages, until it ends or says too much unasked."""
    with suppress(OSError):
        while (chunk := os.read(stdout.fileno(), CHUNK)) and lines.unasked <= most:
            sys.stdout.buffer.writelines(lines.feed(chunk))
            sys.stdout.buffer.flush()
    _end()


def _write(stdin: IO[bytes]) -> None:
    """Pass on the bot's messages; the server's stdin ends with ours."""
    with suppress(OSError), stdin:
        while chunk := os.read(0, CHUNK):
            stdin.write(chunk)
            stdin.flush()


def _await(server: subprocess.Popen[bytes], reading: threading.Thread) -> None:
    """End with the server, though a child of it may keep its stdout open."""
    server.wait()
    reading.join(DRAIN_SECONDS)
    _end()


def _end() -> None:
    os.kill(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
