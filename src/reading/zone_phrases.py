"""Zones in plain words: the user's own, where they live, and that of one time of a reminder."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from src.base.zone_names import find_time_zones, is_region
from src.reading import lexicon
from src.reading.requests import ASKING
from src.reading.sentences import FOLD, OPENER

MAX_TEXT = 400  # characters; a longer message tells other things
MAX_CLAUSES = 6
PLACE = r"(?<!\w)(?P<place>[^\s,;:!?()][^,;!?()]{0,38})"
NAME = r"(?P<place>(?!for |the |для |про )[^\W\d][\w.'-]{2,}(?: [^\W\d][\w.'-]{2,}){0,2}?)"
CLAUSES = re.compile(r"[.!;)\n]+(?=\s|$)|,\s+")
# What stands beside a told zone and wants no answer: "haha kidding".
SMALL_TALK = lexicon.AnyCase(
    r"\W*(?:(?:<lines.opener>|<lines.takes_back>|<reminder.greeting>)(?![\w'-])\W*)*"
)
NAME_WORDS = 3  # of a zone named beside an hour: "San Francisco Bay"
MAX_CANDIDATES = 3
WORD = re.compile(r"[ (,]*([^\s,.;:!?()]+)")
BY = lexicon.Expression(r"(?<!\w)<zones.by> ")
TIME = lexicon.Expression(r"[ ](?P<time><zones.time>)(?!\w)\)?|\)")
# "Dinner time", which is no zone; "local time", which is the user's own.
USUAL = lexicon.Expression(r"\b<zones.usual>$")
OWN = lexicon.Expression(r"\b<zones.own>$")
NEVER = lexicon.Expression("<zones.never>")
# "Not Moscow but Samara": what is denied goes.
CORRECTED = lexicon.AnyCase(
    r" ?<zones.not> [^,.;!?\n]{1,38},? <zones.but> "
    r"|,? (?:<zones.but> )?<zones.not> [^,.;!?\n]{1,38}$"
)
# The end of a message: "not Denver but Chicago", "ugh not Denver, Chicago".
NOT_BUT = lexicon.Expression(
    r"(?:.{0,30}[,.!] |(?:[^\W\d]+ ){0,2})"
    r"<zones.not> (?!<zones.in> )(?P<was>[^,.;!?\n]{2,38}?)(?:,? <zones.but> |, )(?!<zones.in> )"
    r"(?P<place>[^,.;!?\n]{2,38}?)(?: <zones.fill>){0,2}"
)
# "London, Ontario": a region behind a city.
REGION = re.compile(r", ([^\s,.;!?()\n][^,.;!?()\n]{1,30})(?=[,.;!?()\n]|$)")
NOT = lexicon.Expression(r"<zones.not>(?![\w-])")
DISTANCE = re.compile(r"\d+ [^\W\d]")  # "2 hours ahead of London"
DECORATION = re.compile(r"\W+$")
OFFSET = re.compile(r"(?:utc|gmt|мск|msk)(?:[+-]\d{1,2})?|[+-]\d{1,2}")


@dataclass(frozen=True)
class ToldZone:
    """What a message says of the user's own zone.

    Attributes:
        zones: Those that may be meant; none where no such place is known.
        rest: What else the message says.
    """

    zones: tuple[str, ...]
    rest: str


def told_zone(text: str, own: str = "") -> ToldZone | None:
    """The zone that a message tells or orders: "мой часовой пояс Киев"; None: it tells none.

    Args:
        text: What the user wrote.
        own: The zone that they told before; it may be told that it is another one.
    """
    if own and (instead := _instead(text, own)):
        return ToldZone(instead, "")
    if len(text) > MAX_TEXT or ("?" in text and ASKING.match(text) is None):
        return None
    text = _joined(CORRECTED.sub(" ", ASKING.sub("", text).rstrip("?")))
    clauses = [part.strip() for part in CLAUSES.split(text) if part.strip()][:MAX_CLAUSES]
    whole = [text.strip(" .,!;)\n")] if len(clauses) > 1 else []
    for clause in [*clauses, *whole]:
        for kind in ("told", "hinted"):
            zones = _zones_in(kind, clause)
            if zones or (zones is not None and kind == "told" and len(clauses) == 1):
                rest = text.replace(clause, "", 1).strip(" .,!;)\n")
                return ToldZone(tuple(zones or ()), "" if SMALL_TALK.fullmatch(rest) else rest)
    return None


def _instead(text: str, own: str) -> tuple[str, ...]:
    """The zones that a message tells instead of the user's own: "not Denver but Chicago"."""
    folded = text[:MAX_TEXT].translate(FOLD).lower().rstrip(" .,!;)\n")
    told = NOT_BUT.fullmatch(folded, OPENER.behind(folded))
    if told is None or own not in find_time_zones(told["was"]):
        return ()
    return tuple(find_time_zones(told["place"]))


def home_zones(text: str) -> list[str]:
    """The zones of where a message says that the user lives now: "moved to Lisbon"."""
    if len(text) > MAX_TEXT or "?" in text:
        return []
    clauses = CLAUSES.split(_joined(text))[:MAX_CLAUSES]
    return next((zones for clause in clauses if (zones := _zones_in("home", clause.strip()))), [])


def _joined(text: str) -> str:
    return REGION.sub(lambda found: f" {found[1]}" if is_region(found[1]) else found[0], text)


def _zones_in(kind: str, clause: str) -> list[str] | None:
    """The zones of the place that a clause names; None: it is no such clause."""
    folded = clause.translate(FOLD).lower()
    begin = OPENER.behind(folded)
    matches = (p.fullmatch(folded) or p.fullmatch(folded, begin) for p in _patterns(kind))
    found = [_zones_of(match["place"]) for match in matches if match is not None]
    return next(filter(None, found), found[0] if found else None)


def _zones_of(place: str) -> list[str] | None:
    """The zones of a place; None where it is denied, none where only its distance is said."""
    if NOT.match(place):
        return None
    return [] if DISTANCE.match(place) else find_time_zones(DECORATION.sub("", place))


@cache
def _patterns(kind: str) -> list[re.Pattern[str]]:
    sources = lexicon.rules("zones.say", {"place": PLACE, "name": NAME})[kind]
    return [re.compile(source) for source in sources]


def zone_beside(
    folded: str, spans: Sequence[tuple[int, int]]
) -> tuple[int, int, str | None] | None:
    """Where a text names the zone of its hour, and which: "в 9 по Киеву", "9 am London time".

    It is empty for the user's own ("local time"), and None where no such place is known.

    Args:
        folded: The text, in lower case.
        spans: Where in it a time, or the order to remind, stands.
    """
    starts, ends = {start for start, _ in spans}, {end for _, end in spans}
    inside = {place for start, end in spans for place in range(start, end)}
    unknown, letters = None, lexicon.values("settings.letters")
    for begin, place, named in _candidates(folded, sorted(ends)):
        for end, words in _names(folded, place):
            if not inside.isdisjoint(range(place, end)):
                break
            suffix = TIME.match(folded, end)
            is_plain = bool(named or OFFSET.fullmatch(words) or words in letters)
            behind = suffix.end() if suffix else end
            is_before = suffix is not None and behind + 1 in starts
            if not (is_before or begin in ends) or NEVER.match(words):
                continue
            if (suffix or is_plain) and (zones := find_time_zones(words)):
                return begin, behind, zones[0]
            says_time = suffix is not None and suffix["time"] and (named or words.isascii())
            if (says_time or " " in named) and not USUAL.search(words):
                unknown = unknown or (begin, behind, "" if OWN.search(words) else None)
            if suffix:
                break
    return unknown


def _candidates(folded: str, ends: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """Where a zone may stand: behind a preposition (and which), or right behind a time."""
    named = [(max(0, m.start() - 1), m.end(), m[0].strip()) for m in BY.finditer(folded)]
    yield from named[:MAX_CANDIDATES]
    yield from [(end, end, "") for end in ends][:MAX_CANDIDATES]


def _names(folded: str, place: int) -> Iterator[tuple[int, str]]:
    """One, two and three words from a place on, with where they end."""
    end, words = place, []
    for _ in range(NAME_WORDS):
        match = WORD.match(folded, end)
        if match is None:
            return
        words.append(match[1])
        end = match.end()
        yield end, " ".join(words)
