"""The parameters of a tool of others, written anew so that every provider takes them.

One odd schema makes a provider refuse the whole request, with all tools, in every turn. So only
keywords that providers know are taken over, references are written out, and what cannot be put
that way costs the tool its place. Patterns are left out: as regular expressions of strangers they
could take for ever; the server checks them itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import jsonschema
from referencing import Registry

from src.mcp_servers.limits import MAX_CHECKS, MAX_DEPTH, MAX_NODES, MAX_NOTE, MAX_SCHEMA
from src.mcp_servers.words import one_line

Schema = dict[str, Any]

TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")  # Anthropic's documentation of tools; the narrowest
NUMBERS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "minItems", "maxItems",
)  # fmt: skip
MAX_NUMBER = 1e15  # providers read them with 53 bits
MAX_ENUM = 200
# Arguments that LangChain keeps to itself when it calls a tool; ours have another name.
RESERVED = frozenset({"self", "config", "run_manager", "runtime"})
SUFFIX = "_"


class BadSchemaError(ValueError):
    """A schema cannot be put as providers want it."""


def clean_schema(schema: Any) -> Schema:
    """The schema of a tool's arguments, an object's, as any provider takes it.

    Raises:
        BadSchemaError: There is no such schema.
    """
    try:
        whole = _Cleaner(schema).clean(schema, 0)
    except RecursionError:
        raise BadSchemaError("too deep") from None
    if whole.get("type", "object") != "object":
        raise BadSchemaError("no object")
    properties = {_outer(name): its for name, its in whole.get("properties", {}).items()}
    if len(properties) < len(whole.get("properties", {})):
        raise BadSchemaError("two parameters of one name")
    clean = {"type": "object", "properties": properties}
    if "required" in whole:
        clean["required"] = [_outer(name) for name in whole["required"]]
    if len(json.dumps(clean, ensure_ascii=False)) > MAX_SCHEMA:
        raise BadSchemaError("too long")
    return clean


def _outer(name: str) -> str:
    return name + SUFFIX if name in RESERVED else name


def inner_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names that the server gave them."""
    inner = {_outer(name): name for name in RESERVED}
    return {inner.get(name, name): value for name, value in arguments.items()}


def find_misfit(arguments: Mapping[str, Any], schema: Schema) -> str | None:
    """What is wrong with arguments, in a few words; None when they fit a clean schema.

    Arguments so many that checking them would hold everybody up are left to the server to check.
    """
    size = json.dumps(arguments, default=str).count(",") + 1
    if size * json.dumps(schema).count(",") > MAX_CHECKS:
        return None
    validator = jsonschema.Draft202012Validator(schema, registry=Registry())
    error = next(validator.iter_errors(dict(arguments)), None)
    if error is None:
        return None
    place = ".".join(map(str, error.absolute_path)) or "arguments"
    return one_line(f"{place}: {error.message}", 300)


class _Cleaner:
    """Writes one schema anew."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._nodes = 0

    def clean(self, schema: Any, depth: int) -> Schema:
        """The schema anew; ``depth`` is how deep it stands in the whole."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise BadSchemaError("too large")
        if schema is True:
            return {}
        if not isinstance(schema, dict):
            raise BadSchemaError("no schema")
        if "$ref" in schema:
            return self.clean(self._target(schema["$ref"]), depth + 1)
        kinds = schema.get("type")
        if isinstance(kinds, list):  # that is one of several schemas
            each = [{**schema, "type": kind, "description": None} for kind in kinds[: len(TYPES)]]
            note = _scalars({"description": schema.get("description")})
            return {**note, "anyOf": [self.clean(one, depth + 1) for one in each]}
        return self._plain(schema, depth + 1)

    def _plain(self, schema: Schema, depth: int) -> Schema:
        """A schema of one type; ``depth`` is that of the schemas in it."""
        clean = _scalars(schema)
        for keyword in ("anyOf", "oneOf"):  # providers know the first
            if options := _list(schema, keyword):
                clean["anyOf"] = [self.clean(one, depth) for one in options]
        for part in _list(schema, "allOf"):  # of which they know none
            _merge(clean, self.clean(part, depth))
        if isinstance(properties := schema.get("properties"), dict):
            if not all(isinstance(name, str) and KEY.fullmatch(name) for name in properties):
                raise BadSchemaError("a parameter's name")
            its = {name: self.clean(one, depth) for name, one in properties.items()}
            _merge(clean, {"type": "object", "properties": its})
        _merge(clean, {"required": _list(schema, "required")})
        if isinstance(more := schema.get("additionalProperties"), bool):
            clean["additionalProperties"] = more
        if clean.get("type") == "array":  # OpenAI wants to know what is in it
            items = schema.get("items")
            clean["items"] = self.clean(items if isinstance(items, dict) else True, depth)
        return clean

    def _target(self, reference: Any) -> Any:
        """What a reference within the schema names; a circle ends at MAX_DEPTH.

        Raises:
            BadSchemaError: It names nothing here.
        """
        start, *parts = reference.split("/") if isinstance(reference, str) else [""]
        if start != "#" or not parts:
            raise BadSchemaError("a reference to elsewhere")
        target = self._root
        for part in parts:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or key not in target:
                raise BadSchemaError("a reference to nothing")
            target = target[key]
        return target


def _list(schema: Schema, keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _merge(clean: Schema, other: Schema) -> None:
    """Both of two schemas, in the first; where they differ, that counts."""
    properties = {**clean.get("properties", {}), **other.get("properties", {})}
    names = [*clean.get("required", ()), *other.pop("required", ())]
    clean.update({**other, **clean})
    if "properties" in clean:
        clean["properties"] = properties
    known = [name for name in names if isinstance(name, str) and name in properties]
    if known:
        clean["required"] = list(dict.fromkeys(known))


def _scalars(schema: Schema) -> Schema:
    """The keywords that hold no schema."""
    clean: Schema = {}
    kind = schema.get("type")
    if kind is not None:
        if not isinstance(kind, str) or kind not in TYPES:
            raise BadSchemaError("an unknown type")
        clean["type"] = kind
    if isinstance(note := schema.get("description"), str) and note.strip():
        clean["description"] = one_line(note, MAX_NOTE)
    if "const" in schema:
        clean["enum"] = _values([schema["const"]])
    elif isinstance(schema.get("enum"), list):
        clean["enum"] = _values(schema["enum"])
    if isinstance(default := schema.get("default"), str | int | bool):
        clean["default"] = one_line(default, MAX_NOTE) if isinstance(default, str) else default
    return clean | {name: schema[name] for name in NUMBERS if _is_number(schema.get(name))}


def _is_number(value: Any) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and abs(value) < MAX_NUMBER


def _values(values: list[Any]) -> list[Any]:
    known = [one for one in values if one is None or isinstance(one, str | int | float)]
    if not known or len(known) < len(values) or len(known) > MAX_ENUM:
        raise BadSchemaError("an enumeration")
    if any(isinstance(one, str) and one != one_line(one, MAX_NOTE) for one in known):
        raise BadSchemaError("an enumeration")
    return known
