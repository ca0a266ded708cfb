"""The file that ``MCP_SERVERS`` names: servers whose tools the model may call; their limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from src.base.addresses import check_http_url

# The file that ``MCP_SERVERS`` names: servers whose tools the model may call.
#
# It has the form that other programs use: ``{"mcpServers": {"name": {...}}}``, where a server has
# a ``command`` (it is started, and spoken to over its stdin and stdout) or a ``url``. ``${NAME}``
# in a value stands for a variable of the environment. Whatever stands in it may be a secret.

Transport = Literal["stdio", "http", "sse"]

VARIABLE = "MCP_SERVERS"
MAX_FILE = 1_000_000  # characters
MAX_SERVERS = 20
CALL_SECONDS = 30.0
MAX_CALL_SECONDS = 600.0
# A name begins those of its tools, which have 64 characters, and two underscores end it there.
NAME = re.compile(r"(?=.{1,32}\Z)[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*")
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, 5.1
TRANSPORTS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
NEEDED = ("PATH", "HOME", "LANG")  # what a process needs of our environment; it gets no more
MIN_SECRET = 6  # characters; shorter ones would blank out half of the log


@dataclass(frozen=True)
class McpServer:
    """A server of the file.

    Attributes:
        name: Begins the names of its tools.
        transport: How it is spoken to.
        command: The program and its arguments; only with ``stdio``.
        environment: All that its process gets to see of one.
        folder: Where it runs; None for our own.
        url: Its address; not with ``stdio``.
        headers: What every request carries.
        timeout: Seconds that one call may take.
        tools: The only tools that are taken, by their own names; None for all.
        secrets: What of this no log may hold.
    """

    name: str
    transport: Transport
    command: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path | None = field(default=None, repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = CALL_SECONDS
    tools: frozenset[str] | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)


def read_servers(
    path: Path, variables: Mapping[str, str]
) -> tuple[tuple[McpServer, ...], list[str]]:
    """The servers of a file by their names, and a line for each problem, which quotes no value.

    Args:
        path: The file.
        variables: What ``${NAME}`` may stand for.
    """
    try:
        entries = _entries(path)
    except ValueError as error:
        return (), [f"{VARIABLE}: {error}"]
    servers: list[McpServer] = []
    problems: list[str] = []
    for name, entry in sorted(entries.items()):
        if not NAME.fullmatch(name):
            problems.append(
                f"{VARIABLE}: a server's name is not fit for the names of its tools. Write 1 to "
                "32 of A-Z a-z 0-9 - _, a letter first, no two signs in a row"
            )
            continue
        try:
            servers += _server(name, entry, variables)
        except ValueError as error:
            problems.append(f"{VARIABLE}, {name}: {error}")
    return tuple(servers), list(dict.fromkeys(problems))


def find_references(path: Path) -> frozenset[str]:
    """The names that stand as ``${NAME}`` in a file, also where a server is disabled."""
    if not path.is_file():
        return frozenset()
    try:
        with path.open(encoding="utf-8") as file:
            return frozenset(REFERENCE.findall(file.read(MAX_FILE)))
    except (OSError, ValueError):
        return frozenset()  # ``read_servers`` says what is wrong with it


def _entries(path: Path) -> dict[str, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        raise ValueError(
            "the file is not there. Write the path of a JSON file, or leave it empty"
        ) from None
    except (OSError, ValueError) as error:  # no UTF-8, or a path with a null character
        problem = f"the file cannot be read ({type(error).__name__})"
        raise ValueError(f"{problem}. Save it as UTF-8 text that the bot may read") from None
    try:
        read = json.loads(text) if len(text) <= MAX_FILE else None
    except json.JSONDecodeError as error:
        problem = f"the file is no JSON (line {error.lineno}, column {error.colno})"
        raise ValueError(f'{problem}. Write {{"mcpServers": {{"name": {{…}}}}}}') from None
    except RecursionError:
        read = None
    entries = read.get("mcpServers") if isinstance(read, dict) else None
    if not isinstance(entries, dict):
        raise ValueError('there are no mcpServers. Write {"mcpServers": {"name": {…}}}')
    if len(entries) > MAX_SERVERS:
        raise ValueError(f"there are more than {MAX_SERVERS} servers. Write fewer")
    return entries


def _server(name: str, entry: Any, variables: Mapping[str, str]) -> Iterator[McpServer]:
    """The server of an entry; none where it is disabled.

    Raises:
        ValueError: What is wrong with it, and what to write.
    """
    if not isinstance(entry, dict):
        raise ValueError('it is no object. Write {"command": "…"} or {"url": "…"}')
    if entry.get("disabled") is True:
        return
    used: list[str] = []
    transport = _transport(entry)
    common: dict[str, Any] = {
        "name": name, "transport": transport, "timeout": _timeout(entry), "tools": _tools(entry),
    }  # fmt: skip
    if transport == "stdio":
        environment = _texts(entry, "env", variables, used)
        folder = _expanded(entry.get("cwd") or "", "cwd", variables, used)
        command = [_expanded(entry["command"], "command", variables, used)]
        command += [_expanded(one, "args", variables, used) for one in _list(entry, "args")]
        needed = {key: variables[key] for key in NEEDED if key in variables}
        yield McpServer(
            **common,
            command=tuple(command),
            environment={**needed, **environment},
            folder=Path(folder) if folder else None,
            secrets=_secrets([*used, *environment.values()]),
        )
        return
    headers = _texts(entry, "headers", variables, used)
    _check_headers(headers)
    url = _expanded(entry["url"], "url", variables, used)
    yield McpServer(
        **common,
        url=_checked_url(url),
        headers=headers,
        secrets=_secrets([*used, *_parts(headers), *_parts_of_url(url)]),
    )


def _checked_url(url: str) -> str:
    """The address with the slash at its end, which makes a difference to some servers.

    Raises:
        ValueError: It is no http(s) address.
    """
    try:
        check_http_url(url)
    except ValueError:
        raise ValueError("its url is not an http(s) address. Write https://…") from None
    if any(character.isspace() or not character.isprintable() for character in url):
        raise ValueError("its url has a space in it. Write https://…")
    return url


def _transport(entry: Mapping[str, Any]) -> Transport:
    has_command, has_url = (
        isinstance(entry.get(key), str) and entry[key].strip() for key in ("command", "url")
    )
    if bool(has_command) == bool(has_url):
        what = "both command and url" if has_command else "neither command nor url"
        raise ValueError(f"it has {what}. Write one of them")
    named = entry.get("type", entry.get("transport"))
    if named is None:
        return "stdio" if has_command else "http"
    transport = TRANSPORTS.get(named) if isinstance(named, str) else None
    if transport is None or (transport == "stdio") != bool(has_command):
        raise ValueError("its type does not fit. Write stdio with a command, http or sse with url")
    return transport


def _timeout(entry: Mapping[str, Any]) -> float:
    seconds = entry.get("timeout", CALL_SECONDS)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= MAX_CALL_SECONDS:
        raise ValueError(f"its timeout is not within 0 to {MAX_CALL_SECONDS:.0f}. Write seconds")
    return float(seconds)


def _tools(entry: Mapping[str, Any]) -> frozenset[str] | None:
    names = _list(entry, "tools") if entry.get("tools") is not None else None
    if names is not None and not all(isinstance(name, str) for name in names):
        raise ValueError("its tools are no texts. Write a list of names")
    return None if names is None else frozenset(names)


def _list(entry: Mapping[str, Any], key: str) -> list[Any]:
    values = entry.get(key) or []
    if not isinstance(values, list):
        raise ValueError(f'its {key} are no list. Write ["…"]')
    return values


def _texts(
    entry: Mapping[str, Any], key: str, variables: Mapping[str, str], used: list[str]
) -> dict[str, str]:
    values = entry.get(key) or {}
    if not isinstance(values, dict):
        raise ValueError(f'its {key} is no object. Write {{"NAME": "…"}}')
    return {name: _expanded(value, key, variables, used) for name, value in values.items()}


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        is_fit = HEADER.fullmatch(name) and value.isascii() and value.isprintable()
        if not is_fit:
            raise ValueError("one of its headers cannot be sent. Write printable ASCII")


def _expanded(value: Any, key: str, variables: Mapping[str, str], used: list[str]) -> str:
    """A text with what its ``${NAME}`` stand for; that is noted in ``used``."""
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"its {key} holds what is no text. Write texts, also for numbers")
    for name in REFERENCE.findall(value):
        if name not in variables:
            raise ValueError(f"its {key} names the variable {name}, which is not set. Set it")
        used.append(variables[name])
    if "${" in REFERENCE.sub("", value):
        raise ValueError(f"its {key} holds a ${{…}} of another kind. Write ${{NAME}}")
    return REFERENCE.sub(lambda match: variables[match[1]], value)


def _parts(headers: Mapping[str, str]) -> Iterator[str]:
    """The values, and what follows a word such as ``Bearer`` in them."""
    for value in headers.values():
        yield value
        yield value.partition(" ")[2]


def _parts_of_url(url: str) -> Iterator[str]:
    """The address as a whole, its password, and the values of its query."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return
    yield password or ""
    for _, value in parse_qsl(parts.query):
        yield value


def _secrets(values: list[str]) -> tuple[str, ...]:
    found = {value for value in values if len(value) >= MIN_SECRET}
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


CONNECT_SECONDS = 20.0  # from the start of a server to its list of tools
PING_SECONDS = 30.0  # between two signs of life of a server that nobody calls
ANSWER_SECONDS = 5.0  # for one of them, and for taking note that a call is given up
END_SECONDS = 2.0  # for a process whose stdin is closed to end by itself, as the protocol wants
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
