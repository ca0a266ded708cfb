"""Tools whose arguments are a form: described to a model in few words, and checked by the form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel

from src.llm.quoting import Form

Arguments = TypeVar("Arguments", bound=BaseModel)
SAID = ("type", "description", "enum", "items")  # of an argument; bounds and defaults cost tokens


class NoArguments(Form):
    """Of a tool that takes none."""


def form_tool(
    run: Callable[[ToolRuntime[Any, Any], Arguments], Awaitable[Any]],
    arguments: type[Arguments],
    description: str,
    *,
    with_finding: bool = True,
) -> BaseTool:
    """A tool named like ``run``.

    The schema is a dictionary: of any other LangChain makes a class for each tool, which takes
    longer than all the rest of building the bot.

    Args:
        run: Takes the checked form; ``runtime.context`` is the turn's.
        arguments: The form; what is wrong with it, ``describe_tool_error`` tells the model.
        description: What the model reads.
        with_finding: Whether ``run`` returns an artifact beside its text.
    """

    async def call(runtime: ToolRuntime[Any, Any], **values: Any) -> Any:
        return await run(runtime, arguments.model_validate(values))

    return StructuredTool(
        name=run.__name__,
        description=description,
        args_schema=_offered(arguments),
        coroutine=call,
        response_format="content_and_artifact" if with_finding else "content",
    )


@cache
def _offered(arguments: type[BaseModel]) -> dict[str, Any]:
    """The form as a model is told of it; what has no description speaks for itself."""
    schema = arguments.model_json_schema()
    told = {name: _told(one) for name, one in schema.get("properties", {}).items()}
    hidden: frozenset[str] = getattr(arguments, "untold", frozenset())
    properties = {name: one for name, one in told.items() if name not in hidden}
    needed = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": properties, **needed}


def _told(one: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: one[name] for name in SAID if name in one}
    if "items" in told:  # what they may be is checked, and said where the type does not tell
        told["items"] = {"type": one["items"]["type"]}
    return told
