"""Yes and no to what the bot asked with its last answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
BEGINS_YES = re.compile(
    r"(?:да|так|yes|ага|угу|конечно|sure|ok|okay|yep|yeah|подтвер|підтвер|confirm)"
)


def reads_as_yes(text: str) -> bool | None:
    """True for yes, False for no, None for anything else."""
    flat = plain(text).strip(" .!…")
    if NO.fullmatch(flat):
        return False
    return True if BEGINS_YES.match(flat) and YES.fullmatch(flat) else None


def asked_before(history: Sequence[HistoryMessage]) -> Asks | None:
    """What the bot asked right before the newest message, if that still counts."""
    for entry in reversed(history[:-1]):
        if entry["role"] == "user":
            return None
        if entry["role"] == "assistant":
            return "erase_all" if entry.get("asks") == "erase_all" else None
    return None
