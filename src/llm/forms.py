"""Reading of forms: JSON that a model writes for a schema, however it bends it.

Models fence it, talk around it, think before it, leave commas behind, write a dict for a list,
null for nothing, or one bad entry among good ones. What can be read is read; a bad entry loses
only itself.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import json_repair
from pydantic import BaseModel, ValidationError

from src.base.errors import ModelError
from src.base.metrics import Metrics
from src.llm.loose_json import as_list, parse, read_values
from src.llm.quoting import is_list
from src.llm.reply_text import without_thoughts

Schema = TypeVar("Schema", bound=BaseModel)
MAX_NESTING = 6  # calls, objects and lists around a form
MAX_FORM = 200_000  # characters that are read
BRACKET = re.compile(r"[{\[]")


def read_form(reply: Any, schema: type[Schema], metrics: Metrics | None = None) -> Schema:
    """Return the last whole form in a reply; the forms of a list, or of several calls, are one.

    Args:
        reply: Arguments of a call, a list of those of several, or a text with JSON in it.
        schema: The form.
        metrics: Counts forms that were read, and entries of their lists that were dropped.

    Raises:
        ModelError: There is no such form.
    """
    try:
        values = [value for value in _find_values(reply) if not _is_record(value)]
        if not values:
            raise ValueError("it holds nothing but its prompt")
        groups = [list(_forms_in(value, schema)) for value in values]
        is_empty = any({} in group for group in groups)
        if isinstance(reply, str):  # or amid talk: "facts: [], as they tell nothing"
            is_empty = is_empty or "[]" in "".join(without_thoughts(reply).split())
        forms: list[dict[str, Any]] = next(filter(any, reversed(groups)), [])
        if not forms:  # only the entries of what is the first field
            told = [one for value in values for one in as_list(value) if one]
            forms = [{next(iter(schema.model_fields)): told}]
        form, dropped = _validate(_merge(forms, schema), schema)
        if dropped and not is_empty and not any(value for _, value in form):
            raise ValueError("no entry fits")
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the reply is no {schema.__name__}") from error
    if metrics is not None:
        metrics.forms.labels("read").inc()
        metrics.forms.labels("entry dropped").inc(dropped)
    return form


def _is_record(value: Any) -> bool:
    """Return True for messages of the prompt (``quoted``), which a model may repeat."""
    if isinstance(value, list):
        return bool(value) and all(map(_is_record, value))
    return isinstance(value, dict) and {"uid", "text"} <= value.keys()


def _find_values(reply: Any) -> list[Any]:
    """Return the objects and lists in a reply.

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
        return [value for value, _ in whole]
    return [parse(json_repair.loads(text))]


def _forms_in(
    value: Any, schema: type[BaseModel], depth: int = MAX_NESTING
) -> Iterator[dict[str, Any]]:
    """Yield the forms in a value, out of the calls, objects and lists around them."""
    value = parse(value)
    if isinstance(value, str) and "{" in value:
        value = json_repair.loads(value)
    if isinstance(value, dict) and not (value and schema.model_fields.keys().isdisjoint(value)):
        yield dict(value)
    elif depth and isinstance(value, dict | list):
        if isinstance(value, dict):
            value = value.values()
        for inner in value:
            yield from _forms_in(inner, schema, depth - 1)


def _merge(forms: Iterable[dict[str, Any]], schema: type[BaseModel]) -> dict[str, Any]:
    """Return one form of several: their lists together, of other fields the last."""
    merged: dict[str, Any] = {}
    for name, value in (field for form in forms for field in form.items()):
        if name in schema.model_fields and is_list(schema.model_fields[name]):
            listed = [] if value is None else as_list(value)
            merged[name] = [*merged.get(name, ()), *listed]
        else:
            merged[name] = value
    return merged


def _validate(values: dict[str, Any], schema: type[Schema]) -> tuple[Schema, int]:
    """Validate a form without its bad entries and its bad optional fields.

    Raises:
        ValidationError: What is left is no form either.
    """
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
        else:
            values.pop(name, None)
    return schema.model_validate(values), dropped
