"""Every sentence that the bot says, in Russian, Ukrainian and English.

The sentences stand in ``locales/<language>.po`` (gettext), or in the ``sentences.toml`` of a room
with all languages beside each other; they are written by hand in each language. What a language
lacks is said in English, so that a new one may begin with one sentence: it takes its file, and its
code in ``Language``.
"""

from __future__ import annotations

import gettext
import io
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

Language = Literal["ru", "uk", "en"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
FALLBACK: Language = "en"  # says what others lack
LOCALES = Path(__file__).parent / "locales"
ROOMS = Path(__file__).parents[1]  # each may have its own sentences.toml

# Frequent Ukrainian words without a letter of their own: what і ї є ґ leave undecided.
UKRAINIAN_WORDS = re.compile(
    r"\b(чи|як|що|мене|це|цей|ця|де|коли|хто|звати|щось|немає|треба|дякую|нагадай|"
    r"або|був|яка|яке|чому|зараз|година)\b",
    re.IGNORECASE,
)
# Frequent Russian words without ы, э, ъ or ё.
RUSSIAN_WORDS = re.compile(
    r"\b(что|как|кто|где|когда|мне|меня|или|если|почему|сколько|какой|какая|какое|зовут|есть|"
    r"было|теперь|сейчас|раньше|нужно|спасибо|привет|пожалуйста|напомни)\b",
    re.IGNORECASE,
)


def choose_language(*candidates: str | None) -> Language:
    """The first candidate that we speak, else English.

    Args:
        candidates: IETF tags, such as Telegram's ``language_code``: ``ru``, ``uk-UA``, None.
    """
    for candidate in candidates:
        code = (candidate or "").lower().replace("_", "-").partition("-")[0]
        for language in LANGUAGES:
            if code == language:
                return language
        if code == "be":  # Belarusian readers read Russian sooner than English
            return "ru"
    return "en"


def detect_language(text: str, default: Language = "en") -> Language:
    """The language of a text, by its letters and a few frequent words."""
    if re.search(r"[іїєґ]", text, re.IGNORECASE):
        return "uk"
    if re.search(r"[а-яё]", text, re.IGNORECASE):
        if re.search(r"[ыэъё]", text, re.IGNORECASE) or RUSSIAN_WORDS.search(text):
            return "ru"
        return "uk" if default == "uk" or UKRAINIAN_WORDS.search(text) else "ru"
    return "en" if re.search(r"[a-z]", text, re.IGNORECASE) else default


def say(key: str, language: Language, /, **values: Any) -> str:
    """The sentence ``key`` in ``language``, else in English, with ``{name}`` fields filled in.

    Raises:
        KeyError: There is no such sentence; a test finds those before a user does.
    """
    text = _catalogue(language).get(key) or _catalogue(FALLBACK).get(key)
    if text is None:
        raise KeyError(f"no sentence {key!r} in {language}")
    return text.format_map(values) if values else text


def keys(language: Language) -> frozenset[str]:
    """The keys of every sentence that is written in a language."""
    return frozenset(_catalogue(language))


@cache
def _catalogue(language: Language) -> Mapping[str, str]:
    with (LOCALES / f"{language}.po").open("rb") as source:
        catalogue = read_po(source, locale=language, abort_invalid=True)
    compiled = io.BytesIO()
    write_mo(compiled, catalogue)
    compiled.seek(0)
    translations = gettext.GNUTranslations(compiled)
    written = [str(entry.id) for entry in catalogue if entry.id and entry.string]
    found = {name: translations.gettext(name) for name in written}
    for path in sorted(ROOMS.glob("*/sentences.toml")):
        texts = tomllib.loads(path.read_text(encoding="utf-8"))
        found |= {name: text[language] for name, text in texts.items() if language in text}
    return found
