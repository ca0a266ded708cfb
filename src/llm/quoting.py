"""Pieces of every prompt: what people said, as data that cannot leave its place, and forms."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
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


def prompt(system: str, **blocks: Iterable[Mapping[str, Any]]) -> list[BaseMessage]:
    """The messages of a task: what to do, and the blocks of data, in their order."""
    parts = [block(tag, records) for tag, records in blocks.items()]
    return [SystemMessage(system), HumanMessage("\n\n".join(parts))]
