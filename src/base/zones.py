"""Time zones: local times, zones of places, localized names of zones and days."""

import subprocess
import sys
import unicodedata
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache

import pytz
from babel import Locale
from babel.core import get_global
from babel.dates import format_date, format_skeleton
from babel.localedata import exists

from src.texts import CYRILLIC, FALLBACK, Language, morphology, plain_text

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
    return _end_of_gap(as_utc - after, as_utc - before, zone)


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


def _end_of_gap(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    former = _offset(low, zone)
    while high - low > SECOND:
        middle = low + (high - low) // 2 // SECOND * SECOND
        if _offset(middle, zone) == former:
            low = middle
        else:
            high = middle
    return high


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
