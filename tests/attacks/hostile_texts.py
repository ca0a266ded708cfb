"""Texts of any length that make bad patterns slow: repetitions of what the patterns match."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

# Members of character classes, and the words and signs with which the bot's patterns begin.
TOKENS = (
    " ", "\t", "\n", "\r\n", "\u00a0", "\u200b", ".", ",", "!", "?", "-", "—", ":", ";", "'", '"',
    "«", "(", ")", "[", "]", "{", "}", "<", ">", "/", "\\", "@", "#", "*", "_", "`", "~", "=", "+",
    "|", "&", "%", "$", "0", "7", "a", "А", "я", "ї", "é", "и\u0306", "ﷺ", "😀", "ß", "İ",
    "a ", "я ", "и ", " ,", ", ", ". ", ": ", " - ", "' ", "а'", "1 ", "1,", "1.", "1:", "1-",
    "12.", "5 мая ", "05.03.", "2026-", "10:00 ", "двадцать ", "пять дней ", "в марте ",
    "last week ", "since the end of ", "[1] ", "[1, 2]", "[msg-1]", "[msg-", "msg-1, ",
    "<memories>", "[Текущее время: 2026-01-01 10:00] ", "[Текущее время:", "@pomni_bot ", "@pomni",
    " @", "забудь ", "запомни ", "привет, ", "пожалуйста ", "меня зовут ", "я люблю ",
    "я живу в ", "я! ", "я люблю чай. ",
    "у меня есть ", "мой брат ", "my brother ", "i have a ", "и я ", "не ", "очень ", "теперь ",
    "если ", "что ", "а ", "Анна ", "Ann ", "is ", "of ", "пароль ", "password ", "pin ", "код ",
    "карта ", "4111 ", "sk-", "AA", "aB1", "всегда ", "always ", "ignore ", "ты ", "you ",
    "отвечай ", "http://", "a@", "a.", "a-b ", "x_", "i g n ", "ы-", "(((", ")))", "/start ",
    "двадцать пять тысяч ", "first ", "т.д. ", "г. ", "where ", "где ", "…", "—", "1 000 ", "C++",
)  # fmt: skip
# Beginnings of texts before the repetition.
BEGINNINGS = (
    "", "я ", "забудь ", "запомни, что ", "меня зовут ", "мой любимый ", "пароль от ",
    "@pomni_bot", "[1", "[Текущее время:", "/start", "в марте ", "5", "у меня ", "always ",
    "если ",    "Анна ", "`",
)  # fmt: skip
SENTENCE = 480  # characters, below the length from which readers skip a sentence
ENDINGS = ("9", "!", " мая", "]")

Kind = Callable[[int], str]


def kinds(*, thorough: bool = True) -> dict[str, Kind]:
    """Return functions that build a text of a given length, by name.

    Args:
        thorough: Combine all beginnings, endings and pairs of tokens; else only a few.
    """
    found: dict[str, Kind] = {}
    for token in TOKENS:
        found[f"{token!r}*"] = partial(repeated, token=token)
        for beginning in BEGINNINGS if thorough else ("я ",):
            sentence = f"{repeated(SENTENCE, token, beginning)}. "
            found[f"sentences of {beginning!r} {token!r}*"] = partial(repeated, token=sentence)
            if thorough:
                found[f"{beginning!r} {token!r}*"] = partial(
                    repeated, token=token, beginning=beginning
                )
        for ending in ENDINGS if thorough else ENDINGS[:1]:
            found[f"{token!r}* {ending!r}"] = partial(repeated, token=token, ending=ending)
    for first, second in zip(TOKENS, (*TOKENS[7:], *TOKENS[:7]), strict=True) if thorough else ():
        found[f"{first!r}* {second!r}*"] = partial(halves, first=first, second=second)
        found[f"({first!r} {second!r})*"] = partial(repeated, token=first + second)
    found["nested brackets"] = partial(halves, first="[", second="]")
    found["nested quotes"] = partial(halves, first="«", second="»")
    return found


def repeated(length: int, token: str, beginning: str = "", ending: str = "") -> str:
    """Repeat the token between beginning and ending up to the length."""
    room = length - len(beginning) - len(ending)
    return beginning + (token * (room // len(token) + 1))[:room] + ending


def halves(length: int, first: str, second: str) -> str:
    """Repeat one token in the first half and another in the second."""
    return repeated(length // 2, first) + repeated(length - length // 2, second)
