"""The languages of our users, whose sentences are all written; others may be begun."""

from __future__ import annotations

from src.texts import Language

WRITTEN: tuple[Language, ...] = ("ru", "uk", "en")
