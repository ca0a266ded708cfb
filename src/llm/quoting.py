"""Building blocks of prompts: quoted data, forms, and tools whose arguments are a form.

Quoted data cannot escape its place. A tool's form is described to the model briefly, and validated
when called.
"""

import json
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, model_validator
from pydantic.fields import FieldInfo

from src.llm.loose_json import as_list


class Form(BaseModel):
    """Form in which null means that the model left a field out: its default applies.

    For a list it may write the only entry, or JSON in a text.
    """

    @model_validator(mode="before")
    @classmethod
    def accept(cls, value: Any) -> Any:
        """Drop the fields that are null, and read what stands for a list as one."""
        if not isinstance(value, dict):
            return value
        written = {name: entry for name, entry in value.items() if entry is not None}
        lists = [name for name, field in cls.model_fields.items() if is_list(field)]
        return written | {name: as_list(written[name]) for name in lists if name in written}


def is_list(field: FieldInfo) -> bool:
    """Return True for a field that holds a list."""
    return str(field.annotation).startswith("list")


# Quoting of user text for a model, as data that cannot escape its place.
#
# Every record is JSON on one line, in which ``<`` and ``>`` are escaped, so no text can close its
# block or open another one.

# Angle brackets, and the line separators that JSON does not escape.
ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>\x85\u2028\u2029"}


def quoted(record: Mapping[str, Any]) -> str:
    """Return a record as one line of JSON without angle brackets."""
    return json.dumps(record, ensure_ascii=False).translate(ESCAPED)


def block(tag: str, records: Iterable[Mapping[str, Any]]) -> str:
    """Return ``<tag>``, one line per record, ``</tag>``."""
    return "\n".join([f"<{tag}>", *(quoted(record) for record in records), f"</{tag}>"])


# Key of a prompt's records, for the notebook; it is not sent to providers.
RECORDS = "records"


def prompt(system: str, **blocks: Iterable[Mapping[str, Any]]) -> list[BaseMessage]:
    """Return the messages of a task: instructions, and blocks of data in order."""
    records = {tag: list(entries) for tag, entries in blocks.items()}
    text = "\n\n".join(block(tag, entries) for tag, entries in records.items())
    return [SystemMessage(system), HumanMessage(text, additional_kwargs={RECORDS: records})]


Runtime = ToolRuntime[Any, Any]
DESCRIPTIONS = Path(__file__).with_name("parameters.toml")
DECLARED_KEYS = ("type", "enum")  # of a field; its bounds are only validated


class NoArguments(Form):
    """Arguments of a tool that takes none."""


def form_tool(run: Callable[..., Awaitable[Any]], description: str, *services: Any) -> BaseTool:
    """Build a tool named like ``run``.

    The schema is a dictionary, because LangChain would otherwise create a class for each tool,
    which takes longer than building the rest of the bot.

    Args:
        run: Called with the services, the runtime and the validated form, whose class is its last
            annotation; ``describe_tool_error`` tells the model about validation errors.
            ``runtime.context`` is the turn's. It returns a text or JSON-serializable data,
            optionally with an artifact.
        description: Description for the model.
        services: First arguments of ``run``.
    """
    form: type[BaseModel] = [*signature(run).parameters.values()][-1].annotation

    async def call(runtime: Runtime, **values: Any) -> tuple[str, Any]:
        text, artifact = await run(*services, runtime, form.model_validate(values)), None
        if isinstance(text, tuple):
            text, artifact = text
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False)
        return text, artifact

    return StructuredTool(
        name=run.__name__,
        description=description,
        args_schema=_declare_form(form),
        coroutine=call,
        response_format="content_and_artifact",
    )


@cache
def _descriptions() -> dict[str, dict[str, str]]:
    """Load the descriptions of the forms' fields."""
    return tomllib.loads(DESCRIPTIONS.read_text(encoding="utf-8"))


@cache
def _declare_form(arguments: type[BaseModel]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    hidden: frozenset[str] = getattr(arguments, "untold", frozenset())

    def declare(field: Mapping[str, Any]) -> dict[str, Any]:
        if "$ref" in field:
            field = schema["$defs"][field["$ref"].rpartition("/")[2]]
        declared = {name: field[name] for name in DECLARED_KEYS if name in field}
        if "items" in field:
            declared["items"] = declare(field["items"])
        if field["type"] != "object":
            return declared
        told = _descriptions().get(field["title"], {})
        fields = field.get("properties", {}).items()
        properties = {
            name: {**declare(one), "description": told.get(name, "")}
            for name, one in fields
            if name not in hidden
        }
        declared = {"type": "object", "properties": properties}
        if "required" in field:
            declared["required"] = field["required"]
        return declared

    return declare(schema)
