"""What time it is, here or in a city: the question, and the answer, in three languages."""

from __future__ import annotations

import re
from datetime import datetime

from babel.dates import format_datetime

from src.language.cities import find_time_zone
from src.language.sentences import FOLD, sentences
from src.texts import Language

_NOW = r"(?:сейчас|теперь|там|зараз|тепер|now|right now|currently|there)"
_LEAD = (
    r"(?:(?:а|и|і|й|ну|слушай|слухай|(?:не\s+)?скажи\w*|(?:не\s+)?подскаж\w*|"
    r"(?:чи\s+)?(?:не\s+)?підкаж\w*|знаешь|знаєш|пожалуйста|интересно|цікаво|"
    r"(?:можешь|можете|можеш) (?:мне |мені )?(?:сказать|подсказать|сказати|підказати)|"
    r"будь ласка|привет|привіт|hi|hey|and|so|please|tell me|do you know|wondering|"
    r"(?:can|could|would|will) you (?:please )?(?:tell me|say)|any idea)[\s,]+)*"
)
_PLACE = r"(?:в|во|у|на|in|at)\s+(?P<{}>[^\s?.!,][^?.!,]{{1,39}}?)"
_WHAT = (
    rf"(?:котор\w+(?: {_NOW})? час|сколько(?: {_NOW})? (?:времени|время|на часах)"
    rf"|какое(?: {_NOW})? время|(?:текущее |точное |местное )?время"
    rf"|(?:котра|яка)(?: {_NOW})? година|скільки(?: {_NOW})? (?:часу|на годиннику)"
    rf"|який(?: {_NOW})? час|(?:поточний |точний |місцевий )?час"
    rf"|what(?:'?s| is)?(?: {_NOW})?(?: the)?(?: current| local| exact)? (?:time|hour)"
    r"|(?:the )?(?:current |local |exact )?time"
    rf"|как(?:ой|ая|ое)(?: (?:сегодня|сейчас))? (?:день(?: недели)?|число|дата)(?: сегодня)?"
    rf"|сегодня как(?:ой|ое) (?:день(?: недели)?|число)"
    rf"|як(?:ий|а|е)(?: (?:сьогодні|зараз))? (?:день(?: тижня)?|число|дата)(?: сьогодні)?"
    rf"|сьогодні як(?:ий|е) (?:день(?: тижня)?|число)"
    rf"|what(?:'?s| is)? (?:the date(?: today)?|today's date|day is (?:it|today)|"
    rf"day of the week is it)(?: today)?)"
)
TIME_QUESTION = re.compile(
    rf"{_LEAD}(?:{_PLACE.format('before')}[\s,]+)?{_WHAT}(?: is it| it is)?(?:\s+{_NOW})*"
    rf"(?:\s+{_PLACE.format('after')})?"
    rf"(?:\s+{_NOW}|[\s,]+(?:please|пожалуйста|будь ласка))*[\s?.!]*",
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
