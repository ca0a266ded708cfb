"""Reading of forms: JSON that a model writes for a schema, however it bends it.

Models fence it, talk around it, think before it, leave commas behind, write a dict for a list,
null for nothing, or one bad entry among good ones. What can be read is read; a bad entry loses
only itself.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import json_repair
from pydantic import BaseModel, ValidationError

from src.base.errors import ModelError
from src.base.metrics import Metrics
from src.llm.loose_json import as_list, parse, read_values
from src.llm.quoting import is_list
from src.llm.reply_text import without_thoughts
from src.llm.text_calls import ARGUMENTS, NESTING

Schema = TypeVar("Schema", bound=BaseModel)
MAX_NESTING = 3  # calls and wrappers around a form
MAX_FORM = 200_000  # characters that are read
BRACKET = re.compile(r"[{\[]")


def read_form(
    reply: Mapping[str, Any] | str, schema: type[Schema], metrics: Metrics | None = None
) -> Schema:
    """Return the last whole form in a reply.

    Args:
        reply: Arguments of a call, or a text with JSON in it.
        schema: The form.
        metrics: Counts forms that were read, and entries of their lists that were dropped.

    Raises:
        ModelError: There is no such form.
    """
    try:
        found = _find_entries(reply)
        entries = [entry for entry in found if not _is_record(entry)]
        if found and not entries:
            raise ValueError("it repeats its prompt")
        forms = (_unwrap(entry, schema) for entry in reversed(entries))
        values = next((form for form in forms if form is not None), None)
        if values is None:  # only the entries of what is the first field
            values = {next(iter(schema.model_fields)): entries}
        form, dropped = _validate(values, schema)
        is_empty = not any(value for _, value in form)
        if dropped and is_empty and not _holds_empty_list(reply):
            raise ValueError("no entry fits")
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the reply is no {schema.__name__}") from error
    if metrics is not None:
        metrics.forms.labels("read").inc()
        metrics.forms.labels("entry dropped").inc(dropped)
    return form


def _is_record(entry: Any) -> bool:
    """Return True for a message of the prompt (``quoted``), which a model may repeat."""
    return isinstance(entry, dict) and {"uid", "text"} <= entry.keys()


def _find_entries(reply: Mapping[str, Any] | str) -> list[Any]:
    """Return the values in a reply, those of a list one by one.

    Raises:
        ValueError: It has no JSON.
    """
    if not isinstance(reply, str):
        return [reply]
    text = without_thoughts(reply)[:MAX_FORM]
    if "}" not in text and "]" not in text:
        raise ValueError("no JSON")
    whole, first = list(read_values(text)), BRACKET.search(text)
    is_valid = whole and first and text.startswith(whole[0][1], first.start())
    is_cut = text.count("{") > text.count("}")  # what is whole in it counts
    if is_valid or is_cut:
        found = [value for value, _ in whole]
    else:
        repaired = parse(json_repair.loads(text))
        found = repaired if isinstance(repaired, list) else [repaired]
    return [entry for one in found for entry in (one if isinstance(one, list) else [one])]


def _holds_empty_list(reply: Mapping[str, Any] | str) -> bool:
    """Return True for a list that is empty amid talk: "facts: [], as they tell nothing"."""
    return isinstance(reply, str) and "[]" in "".join(without_thoughts(reply).split())


def _unwrap(value: Any, schema: type[BaseModel]) -> dict[str, Any] | None:
    """Return the form out of the calls and objects around it; None for anything else."""
    for _ in range(MAX_NESTING):
        if not isinstance(value, Mapping):
            return None
        if not value or not schema.model_fields.keys().isdisjoint(value):
            return dict(value)
        keys = (*ARGUMENTS, *NESTING, schema.__name__)
        inner = next((value[key] for key in keys if key in value), None)
        if inner is None and len(value) == 1:  # {"result": {…}}
            inner = next(iter(value.values()))
        value = parse(inner)
        if isinstance(value, str):
            value = json_repair.loads(value)
        if isinstance(value, list):
            return {next(iter(schema.model_fields)): value}
    return None


def _validate(values: dict[str, Any], schema: type[Schema]) -> tuple[Schema, int]:
    """Validate a form without its bad entries and its bad optional fields.

    Raises:
        ValidationError: What is left is no form either.
    """
    for name in values.keys() & schema.model_fields.keys():
        if is_list(schema.model_fields[name]) and values[name] is not None:
            values[name] = as_list(values[name])
    try:
        return schema.model_validate(values), 0
    except ValidationError as error:
        bad = [entry["loc"] for entry in error.errors()]
    dropped = 0
    for name in {str(place[0]) for place in bad}:
        rows = {place[1] for place in bad if place[0] == name and len(place) > 1}
        value = values.get(name)
        if isinstance(value, list):
            values[name] = [row for n, row in enumerate(value) if n not in rows]
            dropped += len(rows)
        elif "list" not in str(schema.model_fields[name].annotation):
            values.pop(name, None)
    return schema.model_validate(values), dropped
