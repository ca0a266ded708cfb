"""JSON as models write it: in fences, encoded twice, with a comma too many, several in a row.

Nothing truncated is completed here: an incomplete call must not run.
"""

import re
from collections.abc import Iterator
from itertools import islice
from json import JSONDecoder
from typing import Any, NoReturn

import json_repair

MAX_STARTS = 200  # brackets at which JSON is looked for


def _refuse(_constant: str) -> NoReturn:
    raise ValueError("NaN and Infinity are no JSON")


JSON = JSONDecoder(parse_constant=_refuse)


def decode(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value at ``start`` and its end; None and ``start`` if it is malformed."""
    try:
        return JSON.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start


def read_values(text: str) -> Iterator[tuple[Any, str]]:
    """Yield the objects and lists of a text, each with its source; skip what is malformed."""
    end = 0
    for match in islice(re.finditer(r"[{\[]", text), MAX_STARTS):
        start = match.start()
        if start >= end:
            value, end = decode(text, start)
            if value is not None:
                yield value, text[start:end]


def parse(value: Any) -> Any:
    """Return the object or list that a text holds, however often encoded; else the value."""
    inner = value
    while isinstance(inner, str):
        text = inner.strip()
        inner, end = decode(text, 0)
        if end < len(text):
            return value
    if isinstance(inner, dict | list):
        return inner
    return value


def repair(text: str) -> Any:
    """Return the object in a text that is almost JSON; None if there is none."""
    source = text[text.find("{") : text.rfind("}") + 1]
    if source and source.count("{") == source.count("}"):
        return json_repair.loads(source)
    return None


def read_object(text: str) -> dict[str, Any] | None:
    """Return the only object in a text, also if repeated or beside empty ones; else None."""
    whole = parse(text)
    values = whole if isinstance(whole, list) else [whole]
    if isinstance(whole, str):
        found = list(read_values(text))
        values = [value for value, _ in found] or [repair(text)]
        if found and sum(source.count("{") for _, source in found) < text.count("{"):
            return None  # truncated
    different: list[Any] = []
    for value in values:
        if value != {} and value not in different:
            different.append(value)
    if values and not different:
        return {}
    if len(different) == 1 and isinstance(different[0], dict):
        return different[0]
    return None


def as_list(value: Any) -> list[Any]:
    """Return the list that a value stands for: JSON in a text, a dict of entries, one entry."""
    value = parse(value)
    if isinstance(value, dict):
        entries = list(value.values())
        if len(entries) == 1 and isinstance(entries[0], list):  # {"item": […]}, as in XML
            return entries[0]
        if all(isinstance(entry, dict) for entry in entries):  # {"1": {…}, "2": {…}}
            return entries
    if isinstance(value, list):
        return value
    return [] if value == "" else [value]
