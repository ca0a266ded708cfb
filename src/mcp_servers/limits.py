"""How much is taken from a server."""

from __future__ import annotations

CONNECT_SECONDS = 20.0  # from the start of a server to its list of tools
PING_SECONDS = 30.0  # between two signs of life of a server that nobody calls
ANSWER_SECONDS = 5.0  # for one of them, and for taking note that a call is given up
# For a process whose stdin is closed to end by itself, as the protocol wants; the SDK waits for 2.
END_SECONDS = 1.5
FIRST_PAUSE, MAX_PAUSE = 1.0, 300.0  # seconds before a server is tried again, growing by two
RELIST_SECONDS = 5.0  # at least between two looks at the tools of a server that says they changed

MAX_MESSAGE = 4 * 2**20  # bytes of one message; a picture of the screen has about one
MAX_UNASKED = 64 * 2**20  # bytes of a session that answer nothing: then it is opened anew
MAX_PAGES = 20  # of a list of tools
MAX_LISTED = 1000  # tools that are looked at
MAX_TOOLS = 32  # of one server; OpenAI takes 128 in all
MAX_ALL_TOOLS = 100  # of all servers
MAX_DESCRIPTION = 1000  # characters of a tool's description
MAX_NOTE = 300  # characters of a parameter's
MAX_SCHEMA = 6000  # characters of the JSON of a tool's parameters
MAX_NODES = 400  # schemas within it, when every reference is written out
MAX_DEPTH = 12
MAX_OUTPUT = 10_000  # characters of a result, about 2,500 tokens of English
MAX_CHECKS = 200_000  # parts of a schema times parts of arguments: about a tenth of a second
