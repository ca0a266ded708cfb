"""Schemas of others: written anew so that every provider takes them, or refused."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize(("schema", "clean"), [
    (True, of()),
    (of(a={"type": "string", "pattern": "(a+)+$", "format": "uri", "title": "A"}), of(a=STRING)),
    (of(a={"type": ["string", "null"], "maxLength": 5}),
     of(a={"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null", "maxLength": 5}]})),
    (of(a={"type": "array"}), of(a={"type": "array", "items": {}})),
    (of(a={"$ref": "#/$defs/x"}) | {"$defs": {"x": STRING}}, of(a=STRING)),
    (of(a={"allOf": [of(b=STRING), {"required": ["b"]}]}), of(a=of(b=STRING))),
    (of(a=STRING) | {"anyOf": [{"required": ["a"]}], "required": ["a", "b"]},
     of(a=STRING) | {"required": ["a"]}),
    (of(config=STRING) | {"required": ["config"]}, of(config_=STRING) | {"required": ["config_"]}),
])  # fmt: skip
def test_a_schema_is_put_as_providers_want_it(schema: Any, clean: Any) -> None:
    assert clean_schema(schema) == clean


CIRCLE = of(a={"$ref": "#"})
DOUBLING = {
    "$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(9)}
    | {"a9": STRING},
    **of(a={"$ref": "#/$defs/a0"}),
}


@pytest.mark.parametrize("schema", [
    None, False, {"type": "string"}, {"type": 5}, of(a=None), of(a={"$ref": "#/nowhere"}),
    of(a={"$ref": "https://example.org/schema"}), of(**{"два слова": STRING}),
    of(**{"a" * 65: STRING}), of(config=STRING, config_=STRING), of(a={"enum": [{}]}),
    of(a={"enum": ["x" * 301]}), of(a={"enum": list(range(201))}),
    of(**{f"a{n}": STRING for n in range(401)}), CIRCLE, DOUBLING,
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
        clean = clean_schema(schema)
    except BadSchemaError:
        return
    jsonschema.Draft202012Validator.check_schema(clean)
    assert clean["type"] == "object" and len(json.dumps(clean)) <= MAX_SCHEMA * 6
    assert set(clean) <= {"type", "properties", "required"}
    assert set(clean.get("required", ())) <= set(clean["properties"])


def test_arguments_get_back_the_names_that_the_server_gave_them() -> None:
    assert restore_names({"config_": 1, "name_": 2, "x": 3}) == {"config": 1, "name_": 2, "x": 3}


NAMES = st.text(max_size=80)


@given(NAMES, NAMES)
def test_names_are_fit_for_every_provider_and_differ_as_the_tools_do(a: str, b: str) -> None:
    first, second = tool_name("server", a), tool_name("server", b)
    assert len(first) <= 64 and first.startswith("server__") and first.isascii()
    assert set(first) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert (first == second) == (a == b) and first == tool_name("server", a)


def test_a_usual_name_stays_as_it_is() -> None:
    assert tool_name("time", "get_current-time") == "time__get_current-time"
    assert one_line("a\x00\n b\u202e" + "c" * 50, 10) == "a b" + "c" * 6 + "…"


REQUEST = httpx.Request("POST", "http://h/secret")


def refusal(code: int) -> McpError:
    return McpError(types.ErrorData(code=code, message="secret"))


@pytest.mark.parametrize(("error", "said"), [
    (TimeoutError("secret"), "it does not answer"),
    (FileNotFoundError("secret"), "its process cannot be started (FileNotFoundError)"),
    (httpx.ConnectError("secret"), "nobody listens at its address"),
    (httpx.HTTPStatusError("secret", request=REQUEST, response=httpx.Response(503)),
     "it answers with HTTP 503"),
    (refusal(-32603), "it refuses the session"), (refusal(types.CONNECTION_CLOSED), "it ended"),
    (anyio.BrokenResourceError(), "it ended"), (ToolServerError("ours"), "ours"),
    (ExceptionGroup("secret", [ExceptionGroup("secret", [anyio.EndOfStream()])]), "it ended"),
    (ValueError("secret"), "it cannot be used (ValueError)"),
])  # fmt: skip
def test_the_end_of_a_session_is_told_without_a_word_of_the_server(
    error: Exception, said: str
) -> None:
    assert describe(error) == said
