"""Time zones by the names that people give them: "Tokyo", "в Токио", "Лиссабоне", "Asia/Tokyo"."""

from __future__ import annotations

import unicodedata
from functools import cache

import pytz
from babel import Locale
from babel.core import get_global

from src.language.morphology import CYRILLIC, ENDING, dictionary_forms, words
from src.texts import LANGUAGES

MAX_TEXT = 100  # characters
NAME_WORDS = 4  # of the longest name that is looked for: "Port of Spain"
MIN_STEM = 4  # letters of a name without its ending; of shorter ones too many are alike
CONTINENTS = frozenset(
    ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe",
     "Indian", "Pacific")
)  # fmt: skip


def find_time_zone(place: str) -> str | None:
    """The zone of the tz database for its name, or for a city in any language; None: unknown."""
    place = place.strip()[:MAX_TEXT]
    by_name = {zone.lower(): zone for zone in pytz.all_timezones}
    if place.lower() in by_name:
        return by_name[place.lower()]
    found = plain_name(place).split()
    for length in range(min(NAME_WORDS, len(found)), 0, -1):
        for start in range(len(found) - length + 1):
            zone = _zone_of(found[start : start + length])
            if zone is not None:
                return zone
    return None


def _zone_of(name: list[str]) -> str | None:
    """The zone of a city by these words, which may be declined when they are one.

    A word that the dictionaries know is that word: "в Туле" is Тула, not Thule in Greenland.
    """
    written = " ".join(name)
    if len(name) > 1 or not CYRILLIC.search(written):
        return _cities().get(written)
    forms = dictionary_forms(written)
    if forms:
        return next((_cities()[form] for form in sorted(forms) if form in _cities()), None)
    return _cities().get(written) or _stems().get(ENDING.sub("", written))


@cache
def _cities() -> dict[str, str]:
    """The cities of the zones, from the CLDR (by Babel) and the tz database."""
    cities: dict[str, str] = {}
    for language in LANGUAGES:
        for zone, names in Locale.parse(language).time_zones.items():
            if "city" in names and zone in pytz.all_timezones_set:
                cities.setdefault(plain_name(str(names["city"])), _modern(zone))
    for zone in [*pytz.common_timezones, *pytz.all_timezones]:
        continent, _, city = zone.rpartition("/")
        if continent.partition("/")[0] in CONTINENTS:
            cities.setdefault(plain_name(city.replace("_", " ")), _modern(zone))
    return cities


@cache
def _stems() -> dict[str, str]:
    """The Cyrillic names of one word without their endings."""
    stems = {ENDING.sub("", name): zone for name, zone in _cities().items() if " " not in name}
    return {
        stem: zone
        for stem, zone in stems.items()
        if len(stem) >= MIN_STEM and CYRILLIC.search(stem)
    }


def _modern(zone: str) -> str:
    """The CLDR keeps some names that the tz database has changed: Europe/Kiev."""
    name = str(get_global("zone_aliases").get(zone, zone))
    return name if name in pytz.all_timezones_set else zone


def plain_name(name: str) -> str:
    """The words of a name, in lower case and without accents: "St. John’s", "São Paulo"."""
    flat = name.lower().replace("ё", "е")
    if not CYRILLIC.search(flat):
        decomposed = unicodedata.normalize("NFKD", flat)
        flat = "".join(c for c in decomposed if not unicodedata.combining(c))
    return " ".join(words(flat)).replace("'", "")
