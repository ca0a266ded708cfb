"""Questions that an earlier version asked are still answered, wherever their types stood then."""

from __future__ import annotations

import pytest

from src.reading.facts import Fact
from src.talk.main_graph import checkpoint_serde


def test_a_pause_of_an_earlier_version_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    serde, state = checkpoint_serde(), {"extracted_facts": [Fact(text="Живу во Львове")]}
    monkeypatch.setattr(Fact, "__module__", "src.facts.fact")
    kind, stored = serde.dumps_typed(state)
    monkeypatch.undo()
    assert b"src.facts.fact" in stored
    assert serde.loads_typed((kind, stored)) == state
