"""What reads like an order to the assistant, and so must never be stored as a fact.

A stored order would come back into every later conversation ("remember: always ..."), so the
gate refuses it: take-overs of the role, cancelled rules, standing orders about answers, requests
to reveal, send or run something, and imitations of the system's own marks. What people tell of
themselves passes ("всегда опаздываю", "I ignore my ex"); reported speech does not ("начальник
говорит: теперь ты тимлид"), because a model reads an order in quotes all the same.

A list of expressions stops the common attacks and no more. The rest is up to the prompt, which
shows memories as quotes (see ``src.llm.prompts``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from src.memory.instruction_patterns import ADDRESS, ANY_LANGUAGE, ENGLISH, RUSSIAN, UKRAINIAN
from src.memory.plain_text import fold_marks, readings

# "…" of the patterns: at most so many characters, up to the end of the sentence; a full stop
# within "example.com" ends none.
NEAR = r"(?:[^.!?\n]|[.](?=\w)){0,60}?"


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """The patterns, for text in which letters have lost their marks."""
    return tuple(re.compile(fold_marks(p.replace("…", NEAR)), re.MULTILINE) for p in patterns)


ORDERS = _compiled((*ANY_LANGUAGE, *ENGLISH, *RUSSIAN, *UKRAINIAN))
ADDRESSES = _compiled(ADDRESS)
TITLE = re.compile(r'"[^"\n]{1,80}"')  # of a song or a book, which may address anybody
# Tag characters are invisible and spell ASCII; only flags (U+1F3F4 and tags) have a use for them.
SMUGGLED = re.compile("(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0020-\U000e007f]")


def reads_as_instruction(text: str, *, is_statement: bool = False) -> bool:
    """Whether some way of reading the text tells the assistant what to do or imitates a mark.

    Args:
        text: A fact, or words of the user.
        is_statement: The text is a fact about the user: it must not address the assistant at all.
            People may, when they say one: "посоветуй фильм, я люблю комедии".
    """
    found = readings(text)
    if SMUGGLED.search(text) or any(p.search(reading) for reading in found for p in ORDERS):
        return True
    untitled = {TITLE.sub("", reading) for reading in found} if is_statement else set()
    return any(p.search(reading) for reading in untitled for p in ADDRESSES)
