"""The forms that a model fills in."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, model_validator


class Form(BaseModel):
    """A form in which null stands for what the model left out: the default holds then."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: entry for name, entry in value.items() if entry is not None}
