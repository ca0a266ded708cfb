"""Reading of forms: JSON that a model writes for a schema, however it bends it.

Models fence it, talk around it, think before it, leave commas behind, write a dict for a list,
null for nothing, or one bad entry among good ones. What can be read is read; a bad entry loses
only itself.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import json_repair
from pydantic import BaseModel, ValidationError

from src.base.errors import ModelError
from src.base.metrics import Metrics
from src.llm.text_calls import ARGUMENTS, NESTING
from src.llm.thoughts import without_thoughts

Schema = TypeVar("Schema", bound=BaseModel)
MAX_NESTING = 3  # calls and wrappers around a form
MAX_FORM = 200_000  # characters that are read


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
        entries = _find_entries(reply)
        forms = (_unwrap(entry, schema) for entry in reversed(entries))
        values = next((form for form in forms if form is not None), None)
        if values is not None:
            form, dropped = _validate(values, schema)
        else:  # only the entries of what is the first field
            form, dropped = _validate({next(iter(schema.model_fields)): entries}, schema)
            if entries and dropped == len(entries) and not _holds_empty_list(reply):
                raise ValueError("no entry fits")
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the reply is no {schema.__name__}") from error
    if metrics is not None:
        metrics.forms.labels("read").inc()
        metrics.forms.labels("entry dropped").inc(dropped)
    return form


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
    found = json_repair.loads(text)
    if isinstance(found, list):
        return found
    return [found]


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
        value = next((value[key] for key in keys if key in value), None)
        if isinstance(value, str):
            value = json_repair.loads(value)
    return None


def _validate(values: dict[str, Any], schema: type[Schema]) -> tuple[Schema, int]:
    """Validate a form without its bad entries and its bad optional fields.

    Raises:
        ValidationError: What is left is no form either.
    """
    for name, value in values.items():
        field = schema.model_fields.get(name)
        is_list = field is not None and str(field.annotation).startswith("list")
        if is_list and isinstance(value, dict):  # one entry, or entries under keys
            nested = [entry for entry in value.values() if isinstance(entry, dict)]
            if len(nested) < len(value):
                nested = [value]
            values[name] = nested
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
