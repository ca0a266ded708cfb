"""Tools of a server, as LangChain calls them and a model is told of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langchain_mcp_adapters.interceptors import MCPToolCallRequest, MCPToolCallResult
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
from mcp import ClientSession, types
from pydantic import ValidationError

from src.mcp_file import McpServer
from src.mcp_servers.limits import ANSWER_SECONDS, MAX_TOOLS
from src.mcp_servers.schemas import BadSchemaError, clean_schema, find_misfit, inner_arguments
from src.mcp_servers.words import describe_tool, one_line, result_text

Call = Callable[[str, Mapping[str, Any]], Awaitable[types.CallToolResult]]

MAX_NAME = 64  # characters; OpenAI's and Anthropic's limit
NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
MAX_SHORT = 100  # characters of a description in a list for people


def usable_tools(
    server: McpServer, listed: Sequence[Any], session: ClientSession, call: Call
) -> tuple[tuple[BaseTool, ...], int]:
    """The tools that can be offered to a model, by name, and how many others are left out.

    Args:
        server: Whose they are.
        listed: What it says of them, each an object in the protocol's form, or anything else.
        session: The session in which they can be called.
        call: Calls one of them, by its own name.
    """
    found: dict[str, BaseTool] = {}
    refused = 0
    for tool in _sorted(server, listed):
        name = tool_name(server.name, tool.name)
        try:
            schema = clean_schema(tool.inputSchema)
        except BadSchemaError:
            refused += 1
            continue
        if name not in found and len(found) < MAX_TOOLS:
            found[name] = _as_tool(server, tool, schema, session, call)
    wanted = len(listed) if server.tools is None else len(found) + refused
    return tuple(found.values()), wanted - len(found)


def tool_name(server: str, tool: str) -> str:
    """``server__tool`` in the characters that providers take; where it had others, with a hash.

    Two tools of one server have different names, and so have tools of two servers: no server's
    name has two underscores in it, or one at its end. None of our own tools has them.
    """
    whole = f"{server}__{tool}"
    name = NO_NAME.sub("_", whole)
    if name == whole and len(name) <= MAX_NAME and tool:
        return name
    mark = hashlib.blake2b(whole.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{name[: MAX_NAME - len(mark) - 1]}_{mark}"


def _sorted(server: McpServer, listed: Sequence[Any]) -> list[types.Tool]:
    tools = [tool for entry in listed for tool in _read(entry)]
    wanted = (tool for tool in tools if server.tools is None or tool.name in server.tools)
    return sorted(wanted, key=lambda tool: tool_name(server.name, tool.name))


def _read(entry: Any) -> Iterator[types.Tool]:
    try:
        yield types.Tool.model_validate(entry)
    except ValidationError:
        return


def _as_tool(
    server: McpServer,
    tool: types.Tool,
    schema: dict[str, Any],
    session: ClientSession,
    call: Call,
) -> BaseTool:
    async def intercept(
        request: MCPToolCallRequest,
        handler: Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]],  # noqa: ARG001
    ) -> MCPToolCallResult:
        """Call it ourselves: within its time, whatever happens to the session meanwhile."""
        if misfit := find_misfit(request.args, schema):
            raise ValueError(misfit)
        result = await call(tool.name, inner_arguments(request.args))
        status = "error" if result.isError else "success"
        text = result_text(server.name, result)
        call_id = getattr(request.runtime, "tool_call_id", None) or ""
        return ToolMessage(text, name=name, tool_call_id=call_id, status=status)

    name = tool_name(server.name, tool.name)
    ours = types.Tool(
        name=name, description=describe_tool(server.name, tool.description), inputSchema=schema
    )
    adapted = convert_mcp_tool_to_langchain_tool(
        session, ours, tool_interceptors=[intercept], server_name=server.name
    )
    adapted.metadata = {
        "server": server.name,
        "title": one_line(tool.description or "", MAX_SHORT),
        "timeout": server.timeout + ANSWER_SECONDS,
    }
    return adapted
