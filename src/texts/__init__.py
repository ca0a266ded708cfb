"""Every sentence that the bot says, in Russian, Ukrainian and English.

They stand in the ``sentences.toml`` of each room, all languages of a sentence beside each other,
and are written by hand in each language. What a language lacks is said in English, so that a new
one may begin with one sentence: it takes a line there, and its code in ``Language``.
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
# By the codes of languages; Belarusian readers read Russian sooner than English.
SPOKEN: dict[str, Language] = {**{code: code for code in LANGUAGES}, "be": "ru"}
FALLBACK: Language = "en"  # says what others lack
ROOMS = Path(__file__).parents[1]  # each may have its own sentences.toml

CYRILLIC = re.compile("[а-яёіїєґ]")


def choose_language(*candidates: str | None) -> Language:
    """The first candidate that we speak, else English.

    Args:
        candidates: IETF tags, such as Telegram's ``language_code``: ``ru``, ``uk-UA``, None.
    """
    codes = ((one or "").lower().replace("_", "-").partition("-")[0] for one in candidates)
    return next((SPOKEN[code] for code in codes if code in SPOKEN), "en")


def detect_language(text: str, default: Language = "en") -> Language:
    """The language of a text, by its letters and a few frequent words."""
    lower = text.lower()
    if CYRILLIC.search(lower) is None:
        return "en" if re.search("[a-z]", lower) else default
    letters = lexicon.by_language("language.letters")
    counts = {code: sum(map(lower.count, own.split())) for code, own in letters}
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
    """The sentence ``key`` in ``language``, else in English, with ``{name}`` fields filled in.

    Raises:
        KeyError: There is no such sentence; a test finds those before a user does.
    """
    written = sentences().get(key, {})
    text = written.get(language) or written.get(FALLBACK)
    if text is None:
        raise KeyError(f"no sentence {key!r} in {language}")
    return text.format_map(values) if values else text


@cache
def sentences() -> Mapping[str, Mapping[str, str]]:
    """Every sentence by its key, in each language in which it is written."""
    files = (tomllib.loads(path.read_text("utf-8")) for path in ROOMS.glob("*/sentences.toml"))
    return {key: texts for file in files for key, texts in file.items()}
