"""Answers in words to what the bot asked with its last answer: yes, no, which of two facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from src.graph.conversation_state import Resolution
from src.language import lexicon
from src.language.plain_text import plain
from src.storage.conversation_repo import HistoryMessage
from src.storage.turn_repo import Asks

YES = lexicon.Expression("(?:<answers.yes>|[, ])+")
NO = lexicon.Expression(r"<answers.no>\b.*")
BEGINS_YES = lexicon.Expression("<answers.begins_yes>")
# Which of two facts holds, by what a whole message says.
_WHICH = "(?:<answers.keep> )?{}(?: <answers.right>)?"
CHOICES: tuple[tuple[Resolution, lexicon.Expression], ...] = (
    ("both", lexicon.Expression(_WHICH.format("<answers.both>"))),
    ("old", lexicon.Expression(f"{_WHICH.format('<answers.old>')}|<answers.keep_it>")),
    ("replace", lexicon.Expression(f"{_WHICH.format('<answers.new>')}|<answers.replace>")),
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
