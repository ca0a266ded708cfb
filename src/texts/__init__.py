"""Sentences of the bot in Russian, Ukrainian and English, and detection of these languages.

They are in the ``sentences.toml`` of each room, with all languages of a sentence side by side,
each written by hand. A sentence missing in a language falls back to English, so a new language may
start with one sentence: it needs a line there, and its code in ``Language``.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
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
WORD = re.compile(r"[^\W\d_]+(?:['’ʼ][^\W\d_]+)?")
NO_WORDS = re.compile(r"\S*[/@#_=]\S*")  # addresses, names of users, tags, code
UKRAINIAN_APOSTROPHE = re.compile("[бвмпфр]['’ʼ][яюєї]")
CLEAR_WORDS = 3  # from which a text may show its writer's language
MAX_READ = 2000  # characters of a text that are read for its language


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
    counts["uk"] += len(UKRAINIAN_APOSTROPHE.findall(lower))
    if any(counts.values()):
        return "uk" if counts["uk"] > counts["ru"] else "ru"
    if _frequent_words("ru").search(lower):
        return "ru"
    return "uk" if default == "uk" or _frequent_words("uk").search(lower) else "ru"


def clear_language(text: str) -> Language | None:
    """Return the language of a text, or None if it does not show what its writer speaks.

    It does not if it is short, mixed, or of words that another language has as well.
    """
    words = WORD.findall(NO_WORDS.sub(" ", text[:MAX_READ].lower()))
    if len(words) < CLEAR_WORDS:
        return None
    cyrillic = [word for word in words if CYRILLIC.search(word)]
    if not cyrillic:
        short = set(lexicon.of_language("language.short_words", "en"))
        is_clear = _count_marks("en", words) > 0 or len(short.intersection(words)) > 1
        return "en" if is_clear else None
    if 2 * len(cyrillic) < len(words):
        return None
    russian, ukrainian = _count_marks("ru", cyrillic), _count_marks("uk", cyrillic)
    if russian == ukrainian:
        return None
    return "ru" if russian > ukrainian else "uk"


def _count_marks(language: Language, words: Sequence[str]) -> int:
    """Count the words that show a language: by their letters, or since they are frequent."""
    letters = set(lexicon.of_language("language.letters", language, "").split())
    frequent = _frequent_words(language)
    return sum(
        not letters.isdisjoint(word)
        or frequent.fullmatch(word) is not None
        or (language == "uk" and UKRAINIAN_APOSTROPHE.search(word) is not None)
        for word in words
    )


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


def format_number(number: float, language: Language) -> str:
    """Return a whole number with its thousands apart, as the language writes it."""
    mark = "," if language == "en" else "\N{NO-BREAK SPACE}"
    return f"{number:,.0f}".replace(",", mark)


@cache
def sentences() -> Mapping[str, Mapping[str, str]]:
    """Load every sentence, by key and language."""
    files = (tomllib.loads(path.read_text("utf-8")) for path in ROOMS.glob("*/sentences.toml"))
    return {key: texts for file in files for key, texts in file.items()}
