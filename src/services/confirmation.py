"""Answers in words to what the bot asked with its last answer: yes, no, which of two facts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from src.graph.conversation_state import Resolution
from src.language.plain_text import plain
from src.storage.conversation_repo import HistoryMessage
from src.storage.turn_repo import Asks

YES = re.compile(
    r"(?:да|ага|угу|конечно|подтверждаю|согласен|согласна|удаляй|удали|стирай|сотри|забудь|давай|точно"
    r"|так|авжеж|звісно|звичайно|підтверджую|видаляй|видали|стирай|зітри|забудь"
    r"|yes|yep|yeah|sure|ok|okay|confirm|confirmed|do it|delete|erase|go ahead|please|absolutely"
    r"|все|всё|всe|everything|it|всё верно|,| |пожалуйста|будь ласка)+"
)
NO = re.compile(
    r"(?:нет|не надо|не нужно|не стоит|отмена|отмени|стоп|передумал\w*|не удаляй|не стирай|оставь"
    r"|ні|не треба|не потрібно|скасуй|скасувати|передумав|передумала|не видаляй|залиш"
    r"|no|nope|nah|don't|do not|cancel|stop|keep|never ?mind|not now|wait)\b.*"
)
# Which of two facts holds, by what a whole message says.
VERB = (
    r"(?:(?:оставь(?:те)?|оставить|сохрани(?:те)?|запомни(?:те)?|верн[оы]|пусть будут?"
    r"|залиш(?:и|те|ити)?|збережи|запам'ятай|правильн[еі]|хай буд(?:е|уть)"
    r"|keep|leave|save|use|take) )?"
)
RIGHT = r"(?: верн[оы]| правильн[еі]| (?:is|are) right)?"
BOTH = (
    r"(?:и то,? и (?:то|другое)|оба|обе|і те,? і (?:те|інше)|обидва|обидві|обоє|both(?: of them)?)"
)
OLD = (
    r"(?:прежнее|старое|первое|как было|попереднє|старе|перше|як було"
    r"|(?:the )?(?:old|previous|first)(?: one)?)"
)
NEW = r"(?:новое|второе|нове|друге|(?:the )?(?:new|second)(?: one)?)"
KEEP = (
    r"не (?:меняй|заменяй|змінюй|заміняй|міняй)(?:те)?|не надо менять|не треба міняти|keep it"
    r"|(?:do not|don't) (?:replace|change)(?: it)?"
)
REPLACE = (
    r"замени(?:ть|те)?|поменяй(?:те)?|обнови(?:те)?|замін(?:и|іть|ити)|зміни|онови"
    r"|(?:replace|change|update)(?: it| the old one)?"
)
CHOICES: tuple[tuple[Resolution, re.Pattern[str]], ...] = (
    ("both", re.compile(f"{VERB}{BOTH}{RIGHT}")),
    ("old", re.compile(f"{VERB}{OLD}{RIGHT}|{KEEP}")),
    ("replace", re.compile(f"{VERB}{NEW}{RIGHT}|{REPLACE}")),
)
BEGINS_YES = re.compile(
    r"(?:да|так|yes|ага|угу|конечно|sure|ok|okay|yep|yeah|подтвер|підтвер|confirm)"
)


def reads_as_yes(text: str) -> bool | None:
    """True for yes, False for no, None for anything else."""
    flat = plain(text).strip(" .!…")
    if NO.fullmatch(flat):
        return False
    return True if BEGINS_YES.match(flat) and YES.fullmatch(flat) else None


def reads_as_choice(text: str) -> Resolution | None:
    """Which of two facts a whole message wants to hold; None for anything else."""
    flat = plain(text).strip(' .!…«»"')
    return next((choice for choice, words in CHOICES if words.fullmatch(flat)), None)


def question_before(history: Sequence[HistoryMessage]) -> HistoryMessage | None:
    """The answer of the bot's right before the newest message, if it asks and that counts."""
    for entry in reversed(history[:-1]):
        if entry["role"] == "user":
            return None
        if entry["role"] == "assistant":
            return entry if entry.get("asks") else None
    return None


def asked_before(history: Sequence[HistoryMessage]) -> Asks | None:
    """What the bot asked right before the newest message, if that still counts."""
    entry = question_before(history)
    return next((asked for asked in get_args(Asks) if entry and entry.get("asks") == asked), None)
