"""The file that ``MCP_SERVERS`` names: servers whose tools the model may call, and their limits.

It has the form that other programs use: ``{"mcpServers": {"name": {...}}}``, where a server has a
``command`` (it is started, and spoken to over its stdin and stdout) or a ``url``. ``${NAME}`` in a
value stands for a variable of the environment. Whatever stands in it may be a secret.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

import pydantic

from src.base.addresses import check_http_url

VARIABLE = "MCP_SERVERS"
MAX_FILE = 1_000_000  # characters
MAX_SERVERS = 20
MAX_CALL_SECONDS = 600.0
# A name begins those of its tools, which have 64 characters, and two underscores end it there.
NAME = re.compile(r"(?=.{1,32}\Z)[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*")
NUL = json.dumps("\0")[1:-1]
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, 5.1
NEEDED = ("PATH", "HOME", "LANG")  # what a process needs of our environment; it gets no more
MIN_SECRET = 6  # characters; shorter ones would blank out half of the log

CONNECT_SECONDS = 20.0  # from the start of a server to its list of tools
PING_SECONDS = 30.0  # between two signs of life of an idle server
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

HTTP_NAMES = frozenset({"streamable-http", "streamable_http", "streamableHttp"})
# What is wrong with a value of the file, by the kind of pydantic's error.
PROBLEMS = {
    "string_type": "its {key} holds what is no text. Write texts, also for numbers",
    "list_type": 'its {key} are no list. Write ["…"]',
    "frozen_set_type": 'its {key} are no list. Write ["…"]',
    "dict_type": 'its {key} is no object. Write {{"NAME": "…"}}',
    "literal_error": "its type does not fit. Write stdio with a command, http or sse with url",
}
NO_SECONDS = f"its timeout is not within 0 to {MAX_CALL_SECONDS:.0f}. Write seconds"


def _check_address(url: str) -> str:
    """The address with the slash at its end, which makes a difference to some servers."""
    try:
        check_http_url(url)
    except ValueError:
        raise ValueError("its url is not an http(s) address. Write https://…") from None
    if any(character.isspace() or not character.isprintable() for character in url):
        raise ValueError("its url has a space in it. Write https://…")
    return url


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not (HEADER.fullmatch(name) and value.isascii() and value.isprintable()):
            raise ValueError("one of its headers cannot be sent. Write printable ASCII")
    return headers


class McpServer(pydantic.BaseModel):
    """A server of the file.

    Attributes:
        name: Begins the names of its tools.
        transport: How it is spoken to.
        command: The program; only with ``stdio``.
        args: Its arguments.
        env: All that its process gets to see of an environment.
        cwd: Where it runs; empty for our own folder.
        url: Its address; not with ``stdio``.
        headers: What every request carries.
        timeout: Seconds that one call may take.
        tools: The only tools that are taken, by their own names; None for all.
        secrets: What of this no log may hold, the longest first.
    """

    model_config = pydantic.ConfigDict(frozen=True, hide_input_in_errors=True)

    name: str
    transport: Annotated[
        Literal["stdio", "http", "sse"],
        pydantic.BeforeValidator(lambda kind: "http" if str(kind) in HTTP_NAMES else kind),
    ] = pydantic.Field(validation_alias=pydantic.AliasChoices("type", "transport"))
    command: pydantic.StrictStr = pydantic.Field("", repr=False)
    args: list[pydantic.StrictStr] = pydantic.Field([], repr=False)
    env: dict[str, pydantic.StrictStr] = pydantic.Field({}, repr=False)
    cwd: pydantic.StrictStr = pydantic.Field("", repr=False)
    url: Annotated[pydantic.StrictStr, pydantic.AfterValidator(_check_address)] = pydantic.Field(
        "", repr=False
    )
    headers: Annotated[dict[str, pydantic.StrictStr], pydantic.AfterValidator(_check_headers)] = (
        pydantic.Field({}, repr=False)
    )
    timeout: Annotated[pydantic.StrictFloat, pydantic.Field(gt=0, le=MAX_CALL_SECONDS)] = 30.0
    tools: frozenset[pydantic.StrictStr] | None = None
    secrets: tuple[str, ...] = pydantic.Field((), repr=False)

    @pydantic.model_validator(mode="after")
    def _check_transport(self) -> Self:
        if (self.transport == "stdio") != bool(self.command):
            raise ValueError(PROBLEMS["literal_error"])
        return self


GIVEN = McpServer.model_fields.keys() - {"name", "secrets"} | {"type"}  # what an entry may hold


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
        elif not (isinstance(entry, dict) and entry.get("disabled") is True):
            try:
                servers.append(_server(name, entry, variables))
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


def _server(name: str, entry: Any, variables: Mapping[str, str]) -> McpServer:
    """The server of an entry.

    Raises:
        ValueError: What is wrong with it, and what to write.
    """
    if not isinstance(entry, dict):
        raise ValueError('it is no object. Write {"command": "…"} or {"url": "…"}')
    given = {
        key: _expanded(key, value, variables)
        for key, value in entry.items()
        if key in GIVEN and value is not None
    }
    has_command, has_url = (str(given.get(key, "")).strip() != "" for key in ("command", "url"))
    if has_command == has_url:
        what = "both command and url" if has_command else "neither command nor url"
        raise ValueError(f"it has {what}. Write one of them")
    if not given.keys() & {"type", "transport"}:
        given["type"] = "stdio" if has_command else "http"
    try:
        server = McpServer.model_validate({**given, "name": name})
    except pydantic.ValidationError as error:
        raise ValueError(_describe(error)) from None
    used = [variables[one] for one in REFERENCE.findall(json.dumps(entry)) if one in variables]
    env = {key: variables[key] for key in NEEDED if key in variables} | server.env
    return server.model_copy(update={"env": env, "secrets": _secrets(server, used)})


def _expanded(key: str, value: Any, variables: Mapping[str, str]) -> Any:
    """A value with what the ``${NAME}`` in its texts stand for."""
    text = json.dumps(value)
    if NUL in text:
        raise ValueError(PROBLEMS["string_type"].format(key=key))
    if absent := set(REFERENCE.findall(text)) - variables.keys():
        raise ValueError(f"its {key} names the variable {min(absent)}, which is not set. Set it")
    if "${" in REFERENCE.sub("", text):
        raise ValueError(f"its {key} holds a ${{…}} of another kind. Write ${{NAME}}")
    return json.loads(REFERENCE.sub(lambda match: json.dumps(variables[match[1]])[1:-1], text))


def _describe(error: pydantic.ValidationError) -> str:
    first = error.errors()[0]
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    return PROBLEMS.get(first["type"], NO_SECONDS).format(key=first["loc"][0])


def _secrets(server: McpServer, used: list[str]) -> tuple[str, ...]:
    """What variables held, what it is given in its environment, headers and address."""
    values = [*used, *server.env.values(), *server.headers.values()]
    values += [value.partition(" ")[2] for value in server.headers.values()]  # behind "Bearer"
    address = urlsplit(server.url)
    values += [address.password or "", *(value for _, value in parse_qsl(address.query))]
    found = {value for value in values if len(value) >= MIN_SECRET}
    return tuple(sorted(found, key=lambda value: (-len(value), value)))
