"""Sentences of the bot in Russian, Ukrainian and English, and detection of these languages.

They are in the ``sentences.toml`` of each room, with all languages of a sentence side by side,
each written by hand. A sentence missing in a language falls back to English, so a new language may
start with one sentence: it needs a line there, and its code in ``Language``.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from src.reading import lexicon

Language = Literal["ru", "uk", "en"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
# By language code; Belarusian readers are shown Russian rather than English.
SPOKEN: dict[str, Language] = {**{code: code for code in LANGUAGES}, "be": "ru"}
FALLBACK: Language = "en"  # for sentences that a language lacks
ROOMS = Path(__file__).parents[1]  # each may contain a sentences.toml

CYRILLIC = re.compile("[а-яёіїєґ]")


def choose_language(*candidates: str | None) -> Language:
    """Return the first supported candidate, else English.

    Args:
        candidates: IETF tags, such as Telegram's ``language_code`` (``ru``, ``uk-UA``, None), or
            names of locales (``uk_UA.UTF-8``).
    """
    codes = (re.split("[-_.@]", (tag or "").lower())[0] for tag in candidates)
    return next((SPOKEN[code] for code in codes if code in SPOKEN), FALLBACK)


def detect_language(text: str, default: Language = FALLBACK) -> Language:
    """Detect the language of a text by its letters and a few frequent words.

    Latin letters alone do not tell English from ``default``, if that is written in them too.
    """
    lower = text.lower()
    letters = lexicon.by_language("language.letters")
    if CYRILLIC.search(lower) is None:
        is_foreign = default in dict(letters) and re.search("[a-z]", lower) is not None
        return FALLBACK if is_foreign else default
    counts = {code: sum(map(lower.count, characters.split())) for code, characters in letters}
    if any(counts.values()):
        return "uk" if counts["uk"] > counts["ru"] else "ru"
    if _frequent_words("ru").search(lower):
        return "ru"
    return "uk" if default == "uk" or _frequent_words("uk").search(lower) else "ru"


@cache
def _frequent_words(language: Language) -> re.Pattern[str]:
    entries = lexicon.of_language("language.words", language)
    return re.compile(rf"\b(?:{'|'.join(map(lexicon.pattern_of, entries))})\b")


def say(key: str, language: Language, /, **values: Any) -> str:
    """Return the sentence ``key`` in ``language``, with ``{name}`` fields filled in.

    English is the fallback.

    Raises:
        KeyError: There is no such sentence; a test checks all keys.
    """
    translations = sentences().get(key, {})
    text = translations.get(language) or translations.get(FALLBACK)
    if text is None:
        raise KeyError(f"no sentence {key!r} in {language}")
    return text.format_map(values) if values else text


@cache
def sentences() -> Mapping[str, Mapping[str, str]]:
    """Load every sentence, by key and language."""
    files = (tomllib.loads(path.read_text("utf-8")) for path in ROOMS.glob("*/sentences.toml"))
    return {key: texts for file in files for key, texts in file.items()}
