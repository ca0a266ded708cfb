"""The working folder's ``bot.py`` with the terminal TERMINAL as its stdin and stdout.

It starts its own session, so that the terminal that it opens becomes its controlling terminal.
"""

from __future__ import annotations

import os
import runpy

os.setsid()
terminal = os.open(os.environ["TERMINAL"], os.O_RDWR)
os.dup2(terminal, 0)
os.dup2(terminal, 1)
os.close(terminal)
runpy.run_path("bot.py", run_name="__main__")
