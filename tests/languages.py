"""Languages with complete translations; others can be incomplete."""

from __future__ import annotations

from src.texts import Language

WRITTEN: tuple[Language, ...] = ("ru", "uk", "en")
