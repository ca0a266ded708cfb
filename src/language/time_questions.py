"""What time it is, here or in a city: the question, and the answer."""

from __future__ import annotations

import re
from datetime import datetime

from babel.dates import format_datetime

from src.language import lexicon
from src.language.cities import find_time_zone
from src.language.sentences import FOLD, sentences
from src.texts import Language

_PLACE = r"<clocktime.place>\s+(?P<{}>[^\s?.!,][^?.!,]{{1,39}}?)"
TIME_QUESTION = lexicon.Expression(
    rf"(?:<clocktime.lead>[\s,]+)*(?:{_PLACE.format('before')}[\s,]+)?<clocktime.question>"
    rf"(?: is it| it is)?(?:\s+<clocktime.now>)*(?:\s+{_PLACE.format('after')})?"
    r"(?:\s+<clocktime.now>|[\s,]+<requests.please>)*[\s?.!]*",
    re.IGNORECASE,
)
MAX_SENTENCE = 120  # characters; nobody asks for the time in more
ANSWER = re.compile(r"(\S+ \S+), \w+ \((\S+), UTC([+-]\d\d)(\d\d)\)")  # of the tool current_time


def asked_place(text: str) -> str | None:
    """Where somebody asks for the time; empty: here; None: he asks something else.

    A place is a city of a time zone, or at least a name: "сколько времени в пути" asks for none.
    """
    for sentence in sentences(text):
        folded = sentence.translate(FOLD).strip()
        match = TIME_QUESTION.fullmatch(folded) if len(folded) <= MAX_SENTENCE else None
        if match is None:
            continue
        place = (match["before"] or match["after"] or "").strip()
        if not place and (folded.endswith("?") or " " in folded):
            return ""
        if place and (place[0].isupper() or find_time_zone(place)):
            return place
    return None


def describe_time(answer: str, language: Language) -> str:
    """What ``current_time`` says, as people say it: ``01:38, понедельник, 23 ноября (…)``."""
    match = ANSWER.match(answer)
    if match is None:
        return answer
    moment, zone, hours, minutes = match.groups()
    now = datetime.fromisoformat(moment)
    day = format_datetime(now, "EEEE, d MMMM", locale=language)
    return f"{now:%H:%M}, {day} ({zone}, UTC{hours}:{minutes})"
