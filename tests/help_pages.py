"""The page of /help as a bot with these features shows it."""

from __future__ import annotations

from src.talk.commands import COMMANDS, Features, Place, help_page
from src.texts import Language

WITH_MODEL = Features(has_model=True, has_app=False, hears=False, sees=True)
OFFLINE = Features(has_model=False, has_app=False, hears=False, sees=False)
EVERYTHING = Features(
    has_model=True, has_app=True, hears=True, sees=True, has_page=True, lends=True
)


def help_of(language: Language, place: Place = "private", features: Features = WITH_MODEL) -> str:
    """Return the page."""
    return help_page(COMMANDS.values(), features, place, language)
