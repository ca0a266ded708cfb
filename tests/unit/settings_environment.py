"""Settings from a chosen environment, for the tests of ``src/base/config.py``."""

from __future__ import annotations

import os

import pytest

from src.base.config import Settings, load_settings
from src.base.errors import ConfigError


def load(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Settings:
    """The settings when these variables are set and no other, and there is no file."""
    fields = {name.upper() for name in Settings.model_fields}
    for name in [name for name in os.environ if name.upper() in fields]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return load_settings(env_file=None)


def problems(monkeypatch: pytest.MonkeyPatch, **variables: str) -> list[str]:
    """The lines with which these variables are refused."""
    with pytest.raises(ConfigError) as refused:
        load(monkeypatch, **variables)
    assert str(refused.value) == "\n".join(refused.value.problems)
    return refused.value.problems
