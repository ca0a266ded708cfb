"""Schemas of others: written anew so that every provider takes them, else left out."""

from __future__ import annotations

import json
import re
from typing import Any

import anyio
import httpx
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import McpError, types

from src.base.errors import ToolServerError
from src.base.mcp_file import MAX_SCHEMA
from src.outside.sessions import describe
from src.outside.tools import (
    BadSchemaError,
    clean_schema,
    one_line,
    restore_names,
    tool_name,
)

STRING = {"type": "string"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


CIRCLE = of(a={"$ref": "#"})
TREE = {
    "$defs": {"N": of(name=STRING, children={"type": "array", "items": {"$ref": "#/$defs/N"}})}
}


@pytest.mark.parametrize(("schema", "clean"), [
    (True, of()), (None, of()), ({}, of()), ({"type": "object", "properties": None}, of()),
    (of(a={"type": "string", "pattern": "(a+)+$", "format": "uri", "title": "A"}), of(a=STRING)),
    (of(a={"type": ["string", "null"], "maxLength": 5}),
     of(a={"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null", "maxLength": 5}]})),
    (of(a={"type": "array"}), of(a={"type": "array", "items": {}})),
    (of(a={"$ref": "#/$defs/x"}) | {"$defs": {"x": STRING}}, of(a=STRING)),
    (of(a={"$ref": "#/definitions/x%20y"}) | {"definitions": {"x y": STRING}}, of(a=STRING)),
    (of(a={"allOf": [of(b=STRING), {"required": ["b"]}]}), of(a=of(b=STRING))),
    (of(a=STRING) | {"anyOf": [{"required": ["a"]}], "required": ["a", "b"]},
     of(a=STRING) | {"required": ["a"]}),
    (of(config=STRING) | {"required": ["config"]}, of(config_=STRING) | {"required": ["config_"]}),
    (of(config=STRING, config_={}), of(config_=STRING)),
    ({"oneOf": [of(id=STRING), of(name=STRING)]}, of(id=STRING, name=STRING)),
    (CIRCLE, of(a={})), (of(a={"$ref": "#/nowhere"}), of(a={})),
    (of(root={"$ref": "#/$defs/N"}) | TREE,
     of(root=of(name=STRING, children={"type": "array", "items": {}}))),
    (of(a={"$ref": "https://example.org/schema"}, b=None), of(a={}, b={})),
    (of(a={"type": "int", "required": True}, b={"type": {}}), of(a={}, b={})),
    (of(a={"type": "string", "enum": [f"C{n}" for n in range(249)]}), of(a=STRING)),
    (of(a={"enum": [{}]}, b={"enum": ["x" * 301]}), of(a={}, b={})),
    (of(a={"type": "integer", "enum": [1, 2]}, b={"enum": ["", "b"]}, c={"enum": [True]}),
     of(a={"type": "integer"}, b={}, c={})),
    (of(a={"type": ["string", "null"], "enum": ["b", None]}),
     of(a={"anyOf": [{"type": "string", "enum": ["b"]}, {"type": "null"}]})),
])  # fmt: skip
def test_a_schema_is_put_as_providers_want_it(schema: Any, clean: Any) -> None:
    assert clean_schema(schema)[0] == clean


BRANCHING = {
    "$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 4} for n in range(9)}
    | {"a9": STRING},
    **of(a={"$ref": "#/$defs/a0"}),
}


@pytest.mark.parametrize("schema", [
    {"type": "string"}, {"type": "array", "items": STRING}, BRANCHING,
    of(**{f"a{n}": STRING for n in range(401)}), of(**{f"a{n}" * 10: STRING for n in range(200)}),
])  # fmt: skip
def test_what_cannot_be_put_so_is_refused(schema: Any) -> None:
    with pytest.raises(BadSchemaError):
        clean_schema(schema)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5)
    | st.sampled_from(["object", "array", "string", "#", "#/properties/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "properties", "a", "items", "anyOf", "allOf", "$ref", "enum",
                         "required", "const", "default", "description", "minimum"]),
        inner, max_size=5,
    ),
    max_leaves=30,
)  # fmt: skip


@given(JSON)
def test_whatever_comes_is_a_valid_schema_or_refused(schema: Any) -> None:
    try:
        clean, _ = clean_schema(schema)
    except BadSchemaError:
        return
    jsonschema.Draft202012Validator.check_schema(clean)
    assert clean["type"] == "object" and len(json.dumps(clean)) <= MAX_SCHEMA * 6
    assert set(clean) <= {"type", "properties", "required"}
    assert set(clean.get("required", ())) <= set(clean["properties"])


def test_arguments_get_back_the_names_that_the_server_gave_them() -> None:
    inner = of(**{"два слова": STRING, "x": STRING})
    schema = of(
        **{"$filter": STRING, "config": STRING, "ids[]": {"type": "array", "items": inner}}
    )
    clean, names = clean_schema(schema)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    ours = {theirs: name for name, theirs in names.items()}
    assert {*clean["properties"]} == {ours["$filter"], "config_", ours["ids[]"]}
    given = {ours["$filter"]: 1, "config_": 2, ours["ids[]"]: [{ours["два слова"]: 3, "x": 4}]}
    restored = {"$filter": 1, "config": 2, "ids[]": [{"два слова": 3, "x": 4}]}
    assert restore_names(given, names) == restored


NAMES = st.text(max_size=80)


@given(NAMES, NAMES)
def test_names_are_fit_for_every_provider_and_differ_as_the_tools_do(a: str, b: str) -> None:
    first, second = tool_name("server", a), tool_name("server", b)
    assert len(first) <= 64 and first.startswith("server__") and first.isascii()
    assert set(first) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert (first == second) == (a == b) and first == tool_name("server", a)


def test_a_usual_name_stays_as_it_is() -> None:
    assert tool_name("time", "get_current-time") == "time__get_current-time"
    assert one_line("a\x00\n b\u202e" + " c" * 50, 10) == "a b c c c…"


REQUEST = httpx.Request("POST", "http://h/secret")


def refusal(code: int, message: str = "secret") -> McpError:
    return McpError(types.ErrorData(code=code, message=message))


@pytest.mark.parametrize(("error", "said"), [
    (TimeoutError("secret"), "it does not answer"),
    (FileNotFoundError("secret"), "its process cannot be started (FileNotFoundError)"),
    (httpx.ConnectError("secret"), "its address does not answer (name, port or certificate)"),
    (httpx.HTTPStatusError("secret", request=REQUEST, response=httpx.Response(503)),
     "it answers with HTTP 503"),
    (refusal(-32603), "it refuses the session"), (refusal(-32000), "it refuses the session"),
    (refusal(types.CONNECTION_CLOSED, "Connection closed"), "it ended"),
    (anyio.BrokenResourceError(), "it ended"), (ToolServerError("ours"), "ours"),
    (ExceptionGroup("secret", [ExceptionGroup("secret", [anyio.EndOfStream()])]), "it ended"),
    (ValueError("secret"), "it cannot be used (ValueError)"),
])  # fmt: skip
def test_the_end_of_a_session_is_told_without_a_word_of_the_server(
    error: Exception, said: str
) -> None:
    assert describe(error) == said
