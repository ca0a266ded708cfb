"""Pieces of every prompt: what people said, as data that cannot leave its place, and forms.

Also tools whose arguments are a form: described to a model in few words, and checked by the form.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from inspect import signature
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, model_validator


class Form(BaseModel):
    """A form in which null stands for what the model left out: the default holds then."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: entry for name, entry in value.items() if entry is not None}


# How what people said is put before a model: as data that cannot leave its place.
#
# Everything quoted is one JSON string on one line, in which ``<`` and ``>`` are escaped, so no
# text can close the block that it stands in, or open another. So are the line ends that JSON
# leaves.

# JSON escapes the other characters at which a line may end.
ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>\x85\u2028\u2029"}


def quoted(record: Mapping[str, Any]) -> str:
    """One line of JSON without angle brackets."""
    return json.dumps(record, ensure_ascii=False).translate(ESCAPED)


def block(tag: str, records: Iterable[Mapping[str, Any]]) -> str:
    """``<tag>``, a line for each record, ``</tag>``."""
    return "\n".join([f"<{tag}>", *(quoted(record) for record in records), f"</{tag}>"])


# The records of a prompt, for the notebook; providers are sent none of it.
RECORDS = "records"


def prompt(system: str, **blocks: Iterable[Mapping[str, Any]]) -> list[BaseMessage]:
    """The messages of a task: what to do, and the blocks of data, in their order."""
    records = {tag: list(said) for tag, said in blocks.items()}
    text = "\n\n".join(block(tag, said) for tag, said in records.items())
    return [SystemMessage(system), HumanMessage(text, additional_kwargs={RECORDS: records})]


Runtime = ToolRuntime[Any, Any]
SAID = ("type", "description", "enum", "items")  # of an argument; bounds and defaults cost tokens


class NoArguments(Form):
    """Of a tool that takes none."""


def form_tool(run: Callable[..., Awaitable[Any]], description: str, *services: Any) -> BaseTool:
    """A tool named like ``run``.

    The schema is a dictionary: of any other LangChain makes a class for each tool, which takes
    longer than all the rest of building the bot.

    Args:
        run: Takes the services, the runtime and the checked form, which its last annotation
            names; what is wrong with it, ``describe_tool_error`` tells the model.
            ``runtime.context`` is the turn's. It returns a text, or what becomes JSON, and
            perhaps an artifact beside it.
        description: What the model reads.
        services: What ``run`` works with.
    """
    form: type[BaseModel] = [*signature(run).parameters.values()][-1].annotation

    async def call(runtime: Runtime, **values: Any) -> tuple[str, Any]:
        found = await run(*services, runtime, form.model_validate(values))
        told, artifact = found if isinstance(found, tuple) else (found, None)
        return told if isinstance(told, str) else json.dumps(told, ensure_ascii=False), artifact

    return StructuredTool(
        name=run.__name__,
        description=description,
        args_schema=_offered(form),
        coroutine=call,
        response_format="content_and_artifact",
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
