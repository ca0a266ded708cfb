"""References in answers: which of them point to something, and which the model made up."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

# [1] and the spaces before it; not the text of a Markdown link.
NUMBER = re.compile(r"(?<![ \t])[ \t]*\[(\d{1,3})\](?!\()")
NUMBER_LIST = re.compile(r"\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})+)\](?!\()")
# Markdown's code, in which [1] is an index; the backtick in "м`ясо" begins none.
CODE = re.compile(r"```.*?(?:```|\Z)|(?<!\w)`[^`\n]+`(?!\w)", re.DOTALL)
UID = re.compile(r"(?<![ \t])[ \t]*\[\s*((?:msg|sum|mem)-[\w-]{1,40})\s*\](?!\()")
UID_LIST = re.compile(r"\[((?:msg|sum|mem)-\w+(?:\s*[,;]\s*(?:msg|sum|mem)-\w+)+)\](?!\()")


def verify_numbers(answer: str, known: Collection[int]) -> tuple[str, list[int]]:
    """Drop ``[n]`` that are not among ``known``; the answer, and the numbers that stay.

    In the answer ``[1, 2]`` counts as ``[1][2]``; code in it stays as it is.
    """
    cited: list[int] = []

    def check(match: re.Match[str]) -> str:
        number = int(match[1])
        if number not in known:
            return ""
        cited.append(number)
        return match[0]

    def verify(text: str) -> str:
        return NUMBER.sub(check, NUMBER_LIST.sub(lambda m: _apart(m[1]), text))

    return _outside_code(answer, verify), sorted(set(cited))


def verify_uids(answer: str, known: Collection[str]) -> tuple[str, list[str]]:
    """Drop ``[msg-12]`` that are not among ``known``; the answer, and the uids that stay."""
    cited: list[str] = []

    def check(match: re.Match[str]) -> str:
        if match[1] not in known:
            return ""
        cited.append(match[1])
        return match[0]

    separate = UID_LIST.sub(lambda m: _apart(m[1]), answer)
    checked = UID.sub(check, separate)
    return checked, list(dict.fromkeys(cited))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text, changed everywhere but in Markdown's code."""
    changed: list[str] = []
    end = 0
    for code in CODE.finditer(text):
        changed += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*changed, change(text[end:])])


def _apart(references: str) -> str:
    """``1, 2`` as ``[1][2]``."""
    return "".join(f"[{reference.strip()}]" for reference in re.split(r"[,;]", references))
