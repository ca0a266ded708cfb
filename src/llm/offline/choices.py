"""Which of several things is to be forgotten: the answer to the bot's own question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from src.language.requests import ForgetRequest, forget_request
from src.language.sentences import is_question
from src.texts import LANGUAGES, say

OPTION = re.compile(r"^• [«“](.+)[»”]$", re.MULTILINE)
ALL_OF_THEM = re.compile(
    r"(?:да,? |так,? |yes,? )?"
    r"(?:все|всё|всех|обе|оба|усе|усі|всі|обидва|обидві|all|both|everything)"
    r"(?: (?:это|этого|их|их все|три|ці|це|of (?:it|them)|three))?[.! ]*",
    re.IGNORECASE,
)
PLACES = {
    place: re.compile(rf"(?:the )?(?:{words})(?: (?:факт|one|пункт))?[.! ]*", re.IGNORECASE)
    for place, words in enumerate(
        (
            r"1|перв\w+|перш\w+|first",
            r"2|втор\w+|друг\w+|second",
            r"3|трет\w+|third",
            r"4|четв\w+|fourth",
            r"5|пят\w+|п.ят\w+|fifth",
        )
    )
} | {-1: re.compile(r"(?:the )?(?:последн\w+|останн\w+|last)(?: one)?[.! ]*", re.IGNORECASE)}


def choice_of(text: str, before: Sequence[str], answers: Sequence[str]) -> ForgetRequest | None:
    """What is to be forgotten, when the bot has just asked which of several is meant.

    It is said in other words, by its place ("второе"), or as all of them.

    Args:
        text: The answer to that.
        before: What the user wrote before it, oldest first.
        answers: What the bot said, oldest first.
    """
    asked = answers[-1] if answers else ""
    questions = tuple(say("forget_which", language) for language in LANGUAGES)
    if is_question(text) or not asked.startswith(questions):
        return None
    options = OPTION.findall(asked)
    place = next((n for n, word in PLACES.items() if word.fullmatch(text.strip())), None)
    if place is not None and place < len(options):
        return ForgetRequest(options[place])
    if ALL_OF_THEM.fullmatch(text.strip()) is None:
        return ForgetRequest(text)
    wanted = [request for one in before if (request := forget_request(one)) is not None]
    return replace(wanted[-1], everything=True) if wanted else None
