"""Time zones in plain words: the user's own, their home, and the zone of one reminder."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from src.base.zones import find_time_zones, is_region
from src.reading import lexicon
from src.reading.requests import ASKING
from src.reading.sentences import FOLD, OPENER

MAX_TEXT = 400  # characters; a longer message has other topics
MAX_CLAUSES = 6
PLACE = r"(?<!\w)(?P<place>[^\s,;:!?()][^,;!?()]{0,38})"
CLAUSES = re.compile(r"[.!;)\n]+(?=\s|$)|,\s+")
# Words beside a stated zone that need no answer: "haha kidding".
SMALL_TALK = lexicon.AnyCase(
    r"\W*(?:(?:<lines.opener>|<lines.takes_back>|<reminder.greeting>)(?![\w'-])\W*)*"
)
NAME_WORDS = 3  # of a zone named beside an hour: "San Francisco Bay"
MAX_CANDIDATES = 3
WORD = re.compile(r"[ (,]*([^\s,.;:!?()]+)")
BY_ZONE = lexicon.Expression(r"(?<!\w)<zones.by> ")
TIME_WORD = lexicon.Expression(r"[ ](?P<time><zones.time>)(?!\w)\)?|\)")
# "Dinner time", which is no zone; "local time", which is the user's own.
USUAL_TIME = lexicon.Expression(r"\b<zones.usual>$")
OWN_TIME = lexicon.Expression(r"\b<zones.own>$")
NO_ZONE = lexicon.Expression("<zones.never>")
# "Not Moscow but Samara": the negated place is removed.
CORRECTED = lexicon.AnyCase(
    r" ?<zones.not> [^,.;!?\n]{1,38},? <zones.but> "
    r"|,? (?:<zones.but> )?<zones.not> [^,.;!?\n]{1,38}$"
)
# "London, Ontario": a region after a city.
REGION = re.compile(r", ([^\s,.;!?()\n][^,.;!?()\n]{1,30})(?=[,.;!?()\n]|$)")
NEGATED = lexicon.Expression(r"<zones.not>(?![\w-])")
DISTANCE = re.compile(r"\d+ [^\W\d]")  # "2 hours ahead of London"
DECORATION = re.compile(r"\W+$")
OFFSET = re.compile(r"(?:utc|gmt|мск|msk)(?:[+-]\d{1,2})?|[+-]\d{1,2}")


@dataclass(frozen=True)
class ToldZone:
    """Statement of a message about the user's own zone.

    Attributes:
        zones: Possible zones; empty if no such place is known.
        rest: The rest of the message.
    """

    zones: tuple[str, ...]
    rest: str


def told_zone(text: str) -> ToldZone | None:
    """Return the zone that a message states or orders ("мой часовой пояс Киев"), or None."""
    if len(text) > MAX_TEXT or ("?" in text and ASKING.match(text) is None):
        return None
    text = _join_regions(CORRECTED.sub(" ", ASKING.sub("", text).rstrip("?")))
    clauses = [part.strip() for part in CLAUSES.split(text) if part.strip()][:MAX_CLAUSES]
    whole = [text.strip(" .,!;)\n")] if len(clauses) > 1 else []
    for clause in [*clauses, *whole]:
        for kind in ("told", "hinted"):
            zones = _zones_in(kind, clause)
            if zones or (zones is not None and kind == "told" and len(clauses) == 1):
                rest = text.replace(clause, "", 1).strip(" .,!;)\n")
                return ToldZone(tuple(zones or ()), "" if SMALL_TALK.fullmatch(rest) else rest)
    return None


def home_zones(text: str) -> list[str]:
    """Return the zones of the place to which the user has moved: "moved to Lisbon"."""
    if len(text) > MAX_TEXT or "?" in text:
        return []
    clauses = CLAUSES.split(_join_regions(text))[:MAX_CLAUSES]
    return next((zones for clause in clauses if (zones := _zones_in("home", clause.strip()))), [])


def _join_regions(text: str) -> str:
    return REGION.sub(lambda match: f" {match[1]}" if is_region(match[1]) else match[0], text)


def _zones_in(kind: str, clause: str) -> list[str] | None:
    """Return the zones of the place in a clause; None if it is no such clause."""
    folded = clause.translate(FOLD).lower()
    start = OPENER.behind(folded)
    matches = (p.fullmatch(folded) or p.fullmatch(folded, start) for p in _patterns(kind))
    zones_of_matches = [_zones_of(match["place"]) for match in matches if match is not None]
    return next(filter(None, zones_of_matches), zones_of_matches[0] if zones_of_matches else None)


def _zones_of(place: str) -> list[str] | None:
    """Return the zones of a place: None if it is negated, none if only a distance is given."""
    if NEGATED.match(place):
        return None
    return [] if DISTANCE.match(place) else find_time_zones(DECORATION.sub("", place))


@cache
def _patterns(kind: str) -> list[re.Pattern[str]]:
    sources = lexicon.rules("zones.say", {"place": PLACE})[kind]
    return [re.compile(source) for source in sources]


def zone_beside(
    folded: str, spans: Sequence[tuple[int, int]]
) -> tuple[int, int, str | None] | None:
    """Return the position and zone of a zone beside an hour: "в 9 по Киеву", "9 am London time".

    The zone is empty for the user's own ("local time"), and None if no such place is known.

    Args:
        folded: The text, in lower case.
        spans: Positions of the times and of the order to remind.
    """
    starts, ends = {start for start, _ in spans}, {end for _, end in spans}
    taken = {position for start, end in spans for position in range(start, end)}
    unknown, letters = None, lexicon.values("settings.letters")
    for start, position, named in _zone_positions(folded, sorted(ends)):
        for end, words in _one_to_three_words(folded, position):
            if not taken.isdisjoint(range(position, end)):
                break
            suffix = TIME_WORD.match(folded, end)
            is_plain = bool(named or OFFSET.fullmatch(words) or words in letters)
            end_of_zone = suffix.end() if suffix else end
            is_before = suffix is not None and end_of_zone + 1 in starts
            if not (is_before or start in ends) or NO_ZONE.match(words):
                continue
            if (suffix or is_plain) and (zones := find_time_zones(words)):
                return start, end_of_zone, zones[0]
            is_time = suffix is not None and suffix["time"] and (named or words.isascii())
            if (is_time or " " in named) and not USUAL_TIME.search(words):
                unknown = unknown or (start, end_of_zone, "" if OWN_TIME.search(words) else None)
            if suffix:
                break
    return unknown


def _zone_positions(folded: str, ends: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """Yield (start, start of the name, preposition) after prepositions and right after times."""
    after = [(max(0, m.start() - 1), m.end(), m[0].strip()) for m in BY_ZONE.finditer(folded)]
    yield from after[:MAX_CANDIDATES]
    yield from [(end, end, "") for end in ends][:MAX_CANDIDATES]


def _one_to_three_words(folded: str, position: int) -> Iterator[tuple[int, str]]:
    end, words = position, []
    for _ in range(NAME_WORDS):
        if (match := WORD.match(folded, end)) is None:
            return
        words.append(match[1])
        end = match.end()
        yield end, " ".join(words)
