"""The bounds of an answer: what came is kept, and a sentence says that there was more."""

from __future__ import annotations

from collections.abc import Callable

from src.texts import Language, say
from src.texts.visible import is_visible

FENCE = "```"


class Writing:
    """What the model has written so far of one answer, passed on and bounded."""

    def __init__(
        self, on_text: Callable[[str], None], *, limit: int, on_limit: Callable[[], None]
    ) -> None:
        """Pass on at most ``limit`` characters to ``on_text``; call ``on_limit`` at one more."""
        self._on_text = on_text
        self._on_limit = on_limit
        self._left = limit
        self._is_full = False
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._pieces)

    def add(self, piece: str) -> None:
        """The next piece."""
        taken = piece[: self._left]
        self._left -= len(taken)
        if taken:
            self._pieces.append(taken)
            self._on_text(taken)
        if len(taken) < len(piece):
            self._is_full = True
            self._on_limit()

    def cut_text(self, language: Language) -> str:
        """The answer of a model that was stopped at a bound: what there is to see, and why."""
        if not is_visible(self.text):
            return say("took_too_long", language)
        return _with_ending(self.text, say("cut_long" if self._is_full else "cut_slow", language))


def bounded(text: str, limit: int, language: Language) -> str:
    """The text, cut with a sentence when it is longer than ``limit`` characters."""
    if len(text) <= limit:
        return text
    return _with_ending(text[:limit], say("cut_long", language))


def _with_ending(text: str, sentence: str) -> str:
    """The sentence behind the text, and outside its code."""
    body = text.rstrip()
    if body.count(FENCE) % 2:
        body += f"\n{FENCE}"
    return f"{body}\n\n{sentence}"
