"""One way to find times: ordered rules in one expression, for questions as for reminders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from src.language import lexicon

Label = TypeVar("Label")
NAME = re.compile(r"\(\?P<\w+>")


class Found(NamedTuple, Generic[Label]):
    """A match of a rule.

    Attributes:
        label: Of the rule.
        match: Where it matches.
        words: Its parts by name, as they stand there.
    """

    label: Label
    match: re.Match[str]
    words: dict[str, str]


class RuleScanner(Generic[Label]):
    """Finds the first place where any rule matches; of rules that match there, the first."""

    def __init__(self, rules: Iterable[tuple[Label, str]], *, begins: str) -> None:
        """Compile the rules, with the groups of the lexicon in them.

        Args:
            rules: Each with its label, in the order of trial.
            begins: An expression that must match where a rule begins.
        """
        sources = [(label, lexicon.expanded(source)) for label, source in rules]
        nameless = (NAME.sub("(?:", source) for _, source in sources)
        either = "|".join(f"(?P<r{n}>(?:{source})(?!\\w))" for n, source in enumerate(nameless))
        self._either = re.compile(f"{begins}(?:{either})")
        self._rules = [(label, re.compile(rf"(?:{source})(?!\w)")) for label, source in sources]

    def first(self, text: str, position: int) -> Found[Label] | None:
        """The first match at or behind a place of a folded text; None: there is none."""
        hit = self._either.search(text, position)
        if hit is None:
            return None
        label, rule = self._rules[int((hit.lastgroup or "r0")[1:])]
        match = rule.match(text, hit.start())
        return None if match is None else Found(label, match, words_of(match))


def words_of(match: re.Match[str]) -> dict[str, str]:
    """The named parts of a match that say something."""
    return {name: word for name, word in match.groupdict().items() if word}
