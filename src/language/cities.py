"""Time zones by the names that people give them: "Tokyo", "в Токио", "Лиссабоне", "Asia/Tokyo"."""

from __future__ import annotations

from functools import cache

import pytz
from babel import Locale

from src.language.morphology import lemmas, words
from src.texts import LANGUAGES, Language

MAX_TEXT = 100  # characters
NAME_WORDS = 3  # of the longest name that is looked for
KEPT_LETTERS = 2  # that an ending may change


def find_time_zone(place: str) -> str | None:
    """The zone of the tz database for its name, or for a city in any language; None: unknown."""
    place = place.strip()[:MAX_TEXT]
    by_name = {zone.lower(): zone for zone in pytz.all_timezones}
    if place.lower() in by_name:
        return by_name[place.lower()]
    found = words(place)
    for length in range(min(NAME_WORDS, len(found)), 0, -1):
        for start in range(len(found) - length + 1):
            zone = _zone_of(tuple(found[start : start + length]))
            if zone is not None:
                return zone
    return None


def _zone_of(name: tuple[str, ...]) -> str | None:
    written = " ".join(name).lower()
    for language in LANGUAGES:
        cities = _cities(language)
        if written in cities:
            return cities[written]
    if len(name) > 1:
        return None
    for form in lemmas(name[0]):
        for language in LANGUAGES:
            if form in _cities(language):
                return _cities(language)[form]
    return _inflected(written)


def _inflected(written: str) -> str | None:
    """A city that begins like the word: "лиссабоне" is "лиссабон", whatever its ending."""
    if len(written) < 2 * KEPT_LETTERS + 1 or written.isascii():
        return None
    stem = written[:-KEPT_LETTERS]
    for language in LANGUAGES:
        for city, zone in _cities(language).items():
            if city.startswith(stem) and abs(len(city) - len(written)) <= KEPT_LETTERS:
                return zone
    return None


@cache
def _cities(language: Language) -> dict[str, str]:
    """The cities of the zones in lower case, from the CLDR (by Babel)."""
    common = set(pytz.common_timezones)
    cities = {
        zone.rpartition("/")[2].replace("_", " ").lower(): zone
        for zone in pytz.common_timezones
        if "/" in zone
    }
    for zone, names in Locale.parse(language).time_zones.items():
        if "city" in names and (zone in common or zone in pytz.all_timezones_set):
            cities[str(names["city"]).lower()] = zone
    return cities
