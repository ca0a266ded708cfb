"""Time zones: times in a zone, the zone of a place or a city's name, days as people say them."""

import math
import subprocess
import sys
import unicodedata
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache

import pytz
from babel import Locale
from babel.core import get_global
from babel.dates import format_date, format_skeleton

from src.texts import CYRILLIC, Language
from src.texts.morphology import words
from src.texts.plain_text import without_yo

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
# Where the users of a language begin, unless the operator chose a zone other than Moscow's.
USUAL_ZONE = "Europe/Moscow"
ZONES_OF_LANGUAGES: dict[Language, str] = {"uk": "Europe/Kyiv"}
LOOK_UP_TIME = 20  # seconds; it takes a tenth of one
LOOK_UP = "import sys, tzfpy; print(tzfpy.get_tz(float(sys.argv[1]), float(sys.argv[2])))"


def local_time(moment: datetime, time_zone: str) -> datetime:
    """An aware moment in a zone of the tz database."""
    return moment.astimezone(pytz.timezone(time_zone))


def in_zone(written: datetime, time_zone: str) -> datetime:
    """A wall-clock time as the aware moment that it was in a zone of the tz database."""
    return pytz.timezone(time_zone).localize(written)


def first_moment(written: datetime, time_zone: str | tzinfo) -> datetime:
    """The moment (in UTC) at which the clocks of a zone first show a time, or have passed it.

    A time that clocks show twice, in autumn, is the first of the two; one that they skip, in
    spring, is the moment right after the gap.

    Raises:
        OverflowError: It is at the very edge of the calendar.
    """
    zone = pytz.timezone(time_zone) if isinstance(time_zone, str) else time_zone
    as_utc = written.replace(tzinfo=UTC)
    before, after = (_offset(as_utc + shift, zone) for shift in (-DAY, DAY))
    for offset in (before, after):
        moment = as_utc - offset
        if _offset(moment, zone) == offset:
            return moment
    return _end_of_gap(as_utc - after, as_utc - before, zone)


def beginning_of(day: str, time_zone: str) -> datetime | None:
    """The moment at which a day begins, as ISO 8601 writes it; None for what is no day."""
    try:
        return first_moment(datetime.combine(date.fromisoformat(day), time()), time_zone)
    except (ValueError, OverflowError):
        return None


def is_shown_twice(moment: datetime, time_zone: str) -> bool:
    """Whether the clocks of a zone show the time of an aware moment twice on that day."""
    zone = pytz.timezone(time_zone)
    written = moment.astimezone(zone).replace(tzinfo=None)
    return zone.localize(written, is_dst=True) != zone.localize(written, is_dst=False)


def name_of_zone(zone: str) -> str:
    """As people read it: the sign of ``Etc/GMT-3`` is the other way round."""
    if zone.startswith(("Etc/GMT+", "Etc/GMT-")):
        sign = "-" if zone[7] == "+" else "+"
        return f"UTC{sign}{zone[8:]}"
    return zone


def first_zone(language: Language, default: str) -> str:
    """The zone of a user who has told none; ``default`` is the operator's."""
    return ZONES_OF_LANGUAGES.get(language, default) if default == USUAL_ZONE else default


def place_of_zone(zone: str, language: Language) -> str:
    """The city of a zone in a language (``Прага``), or its offset where it has none."""
    if "/" not in zone or zone.startswith("Etc/"):
        return name_of_zone(zone)
    named = _cities(language).get(zone)
    return named or zone.rpartition("/")[2].replace("_", " ")


@cache
def _cities(language: Language) -> dict[str, str]:
    """The CLDR's names of the cities of zones; it keeps older names of some: Europe/Kiev."""
    places = Locale(language).time_zones.items()
    aliases = get_global("zone_aliases")
    named = {zone: str(names["city"]) for zone, names in places if "city" in names}
    return {str(aliases.get(zone, zone)): city for zone, city in named.items()} | named


def zone_at(latitude: float, longitude: float) -> str | None:
    """The zone of the tz database at a place on the map, also at sea; None: no such place.

    The borders of the zones (tzfpy) take 35 MB of memory, so a child process looks at them and
    ends: some 100 ms, in which the caller waits.

    Args:
        latitude: In degrees, north of the equator positive.
        longitude: In degrees, east of Greenwich positive.
    """
    if not (math.isfinite(latitude) and math.isfinite(longitude)):
        return None
    if abs(latitude) > 90 or abs(longitude) > 180:
        return None
    place = [repr(float(longitude)), repr(float(latitude))]
    try:
        done = subprocess.run(
            [sys.executable, "-c", LOOK_UP, *place],
            capture_output=True, text=True, check=True, timeout=LOOK_UP_TIME,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    zone = done.stdout.strip()
    return zone if zone in pytz.all_timezones_set else None


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _end_of_gap(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    """The moment between two at which the offset of a zone changes."""
    former = _offset(low, zone)
    while high - low > SECOND:
        middle = low + (high - low) // 2 // SECOND * SECOND
        if _offset(middle, zone) == former:
            low = middle
        else:
            high = middle
    return high


def plain_name(name: str) -> str:
    """The words of a name, in lower case and without accents: "St. John’s", "São Paulo"."""
    flat = without_yo(name.lower())
    if not CYRILLIC.search(flat):
        decomposed = unicodedata.normalize("NFKD", flat)
        flat = "".join(c for c in decomposed if not unicodedata.combining(c))
    return " ".join(words(flat)).replace("'", "")


def day_text(moment: datetime, now: datetime, language: Language, time_zone: str) -> str:
    """The day of a moment: ``3 марта``, with the year unless it is this one."""
    day = local_time(moment, time_zone)
    if day.year == local_time(now, time_zone).year:
        return str(format_skeleton("MMMMd", day, locale=language))
    return long_day(day, language)


def long_day(day: date, language: Language) -> str:
    """A day with its year: ``3 марта 2026 г.``."""
    return str(format_date(day, "long", locale=language))
