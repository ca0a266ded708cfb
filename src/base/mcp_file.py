"""Parser of the file named by ``MCP_SERVERS``, and the limits of MCP servers.

The file has the usual form ``{"mcpServers": {"name": {...}}}``, where a server has a ``command``
(a child process that speaks over stdin and stdout) or a ``url``. ``${NAME}`` in a value is
replaced by an environment variable. Any value may be a secret.
"""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

import pydantic

from src.base.addresses import check_http_url

VARIABLE = "MCP_SERVERS"
MAX_SERVERS = 20
MAX_CALL_SECONDS = 600.0
# Prefix of its tools' names, which have 64 characters; two underscores separate the two parts.
NAME = re.compile(r"(?=.{1,32}\Z)[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*")
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, 5.1
NEEDED = ("PATH", "HOME", "LANG")  # the only environment variables that a server inherits
MIN_SECRET = 6  # characters; redacting shorter ones would garble the log

CONNECT_SECONDS = 20.0  # from starting a server to its list of tools
PING_SECONDS = 30.0  # between pings of an idle server
ANSWER_SECONDS = 5.0  # to answer a ping, or to acknowledge a cancellation
END_SECONDS = 2.0  # to exit after its stdin was closed, before the SDK kills it
FIRST_PAUSE, MAX_PAUSE = 1.0, 300.0  # seconds of back-off before reconnecting, doubled each time
RELIST_SECONDS = 5.0  # least interval between two listings of tools that a server says changed

MAX_MESSAGE = 4 * 2**20  # bytes of one message; a screenshot has about 2**20
MAX_UNASKED = 64 * 2**20  # unsolicited bytes, after which a session is reopened
MAX_PAGES = 20  # of a tool listing
MAX_LISTED = 1000  # tools examined
MAX_TOOLS = 32  # per server; OpenAI accepts 128 in total
MAX_ALL_TOOLS = 100  # of all servers
MAX_DESCRIPTION = 1000  # characters of a tool's description
MAX_NOTE = 300  # characters of a parameter's description
MAX_SCHEMA = 6000  # characters of the JSON of a tool's parameters
MAX_NODES = 400  # subschemas, with every reference expanded
MAX_DEPTH = 12
MAX_OUTPUT = 10_000  # characters of a result, about 2,500 tokens of English

HTTP_NAMES = dict.fromkeys(("streamable-http", "streamable_http", "streamableHttp"), "http")
NO_NAME = (
    "a server's name is not fit for the names of its tools. Write 1 to 32 of A-Z a-z 0-9 - _, "
    "a letter first, no two signs in a row"
)


def _check_address(url: str) -> str:
    """Validate a URL, but keep its trailing slash, which matters to some servers."""
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
    """MCP server as configured in the file.

    Attributes:
        name: Prefix of the names of its tools.
        transport: How to connect to it.
        command: Program to run; only with ``stdio``.
        args: Arguments of the program.
        env: Complete environment of its process.
        cwd: Working directory; empty for our own.
        url: Address; not with ``stdio``.
        headers: HTTP headers of every request.
        timeout: Seconds that one call may take.
        tools: Own names of the only tools to use; None for all.
        secrets: Values to redact in logs, the longest first.
    """

    # Strict: pydantic converts nothing. No value is shown, since any may be a secret.
    model_config = pydantic.ConfigDict(frozen=True, strict=True, hide_input_in_errors=True)

    name: str
    transport: Annotated[
        Literal["stdio", "http", "sse"],
        pydantic.BeforeValidator(lambda kind: HTTP_NAMES.get(str(kind), kind)),
    ] = pydantic.Field(validation_alias=pydantic.AliasChoices("type", "transport"))
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    url: Annotated[str, pydantic.AfterValidator(_check_address)] = ""
    headers: Annotated[dict[str, str], pydantic.AfterValidator(_check_headers)] = {}
    timeout: Annotated[float, pydantic.Field(gt=0, le=MAX_CALL_SECONDS)] = 30.0
    tools: Annotated[frozenset[str], pydantic.Strict(False)] | None = None
    secrets: tuple[str, ...] = ()

    def __repr_args__(self) -> Iterable[tuple[str, str]]:
        """Show its name only."""
        return [("name", self.name)]

    @pydantic.model_validator(mode="after")
    def _check_transport(self) -> Self:
        if (self.transport == "stdio") != bool(self.command):
            raise ValueError(
                "its type does not fit. Write stdio with a command, http or sse with url"
            )
        return self

    def find_secrets(self, referenced: list[str]) -> tuple[str, ...]:
        """Return the values to redact, among them those of the variables referenced."""
        values = [*referenced, *self.env.values(), *self.headers.values()]
        values += [value.partition(" ")[2] for value in self.headers.values()]  # after "Bearer"
        address = urlsplit(self.url)
        values += [address.password or "", *(value for _, value in parse_qsl(address.query))]
        secrets = {value for value in values if len(value) >= MIN_SECRET}
        return tuple(sorted(secrets, key=lambda value: (-len(value), value)))


ENTRY_KEYS = McpServer.model_fields.keys() - {"name", "secrets"} | {"type"}  # keys of an entry


def read_servers(
    path: Path, variables: Mapping[str, str]
) -> tuple[tuple[McpServer, ...], list[str]]:
    """Return the servers of a file, sorted by name, and one line for each problem.

    No line quotes a value.

    Args:
        path: The file.
        variables: Values for ``${NAME}``.
    """
    try:
        entries = _read_entries(path)
    except ValueError as error:
        return (), [f"{VARIABLE}: {error}"]
    servers: list[McpServer] = []
    problems: list[str] = []
    for name, entry in sorted(entries.items()):
        if not NAME.fullmatch(name):
            problems.append(f"{VARIABLE}: {NO_NAME}")
        elif not (isinstance(entry, dict) and entry.get("disabled") is True):
            try:
                servers.append(_build_server(name, entry, variables))
            except ValueError as error:
                problems.append(f"{VARIABLE}, {name}: {error}")
    return tuple(servers), list(dict.fromkeys(problems))


def find_references(path: Path) -> frozenset[str]:
    """Return the names referenced as ``${NAME}`` in a file, also by disabled servers."""
    with suppress(OSError, ValueError), path.open(encoding="utf-8") as file:
        return frozenset(REFERENCE.findall(file.read()))
    return frozenset()  # ``read_servers`` reports the problem


class _McpFile(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(hide_input_in_errors=True)

    servers: Annotated[dict[str, Any], pydantic.Field(max_length=MAX_SERVERS)] = pydantic.Field(
        validation_alias=pydantic.AliasChoices("mcpServers", "servers")
    )


def _read_entries(path: Path) -> dict[str, Any]:
    try:
        return _McpFile.model_validate_json(path.read_text("utf-8-sig")).servers
    except pydantic.ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise ValueError(
            f'it holds no mcpServers ({problem}). Write {{"mcpServers": {{"name": {{…}}}}}}'
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        problem = f"the file cannot be read ({type(error).__name__})"
        raise ValueError(f"{problem}. Write the path of a JSON file, or leave it empty") from None


def _build_server(name: str, entry: Any, variables: Mapping[str, str]) -> McpServer:
    """Build the server of an entry.

    Raises:
        ValueError: It is malformed; the message names the problem and the remedy.
    """
    if not isinstance(entry, dict):
        raise ValueError('it is no object. Write {"command": "…"} or {"url": "…"}')
    fields = {
        key: _expand_references(key, value, variables)
        for key, value in entry.items()
        if key in ENTRY_KEYS and value is not None
    }
    has_command, has_url = (str(fields.get(key, "")).strip() != "" for key in ("command", "url"))
    if has_command == has_url:
        raise ValueError("it needs either a command or a url. Write one of them")
    if not fields.keys() & {"type", "transport"}:
        fields["type"] = {True: "stdio", False: "http"}[has_command]
        if str(fields.get("url")).partition("?")[0].rstrip("/").endswith("/sse"):
            fields["type"] = "sse"
    try:
        server = McpServer.model_validate({**fields, "name": name})
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        problem, place = str(first["msg"]), "".join(map(str, first["loc"][:1]))
        if first["type"] == "value_error":
            raise ValueError(problem.removeprefix("Value error, ")) from None
        raise ValueError(
            f"its {place} does not fit ({problem.lower()}). Write as documented"
        ) from None
    used = [variables[one] for one in REFERENCE.findall(json.dumps(entry)) if one in variables]
    env = {key: variables[key] for key in NEEDED if key in variables} | server.env
    return server.model_copy(update={"env": env, "secrets": server.find_secrets(used)})


def _expand_references(key: str, value: Any, variables: Mapping[str, str]) -> Any:
    text = json.dumps(value)
    unset = set(REFERENCE.findall(text)) - variables.keys()
    if unset:
        raise ValueError(f"its {key} names the variable {min(unset)}, which is not set. Set it")
    if "${" in REFERENCE.sub("", text):
        raise ValueError(f"its {key} holds a ${{…}} of another kind. Write ${{NAME}}")
    return json.loads(REFERENCE.sub(lambda match: json.dumps(variables[match[1]])[1:-1], text))
