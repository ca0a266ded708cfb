"""The user's own words in an answer: his ``__init__`` is no bold "init"."""

from __future__ import annotations

import re
from collections.abc import Iterable

from src.memory.citations import CODE

# What means something in Markdown, or in what telegramify adds to it.
# Not "[" and "(": a backslash makes them the beginning of a formula.
SPECIAL = re.compile(r"([\\`*_{}\]<>#+\-.!|~&$=^])")
FORMATTING = re.compile(r"([\\*_<>|~&])")  # what a word alone may hold
EDGES = " \t«»“”„\"'.,:;!?()[]…"
MIN_LINE = 3  # characters
MAX_LINES = 40  # of his words that are looked for at every place of the answer


def keep_words(markdown: str, said: Iterable[str]) -> str:
    """The answer, in which what the user wrote stays as he wrote it; linear in its length.

    His lines, as they are quoted whole, are escaped, and his words wherever they stand. Code is
    left alone: in it nothing is formatted.

    Args:
        markdown: The answer.
        said: What he wrote, as far as the answer may repeat it.
    """
    texts = list(dict.fromkeys(said))
    words = {word.strip(EDGES) for text in texts for word in text.split()}
    own = frozenset(word for word in words if FORMATTING.search(word))
    lines = {line.strip() for text in texts for line in text.splitlines()}
    quoted = [line for line in lines if len(line) >= MIN_LINE and SPECIAL.search(line)]
    if not own and not quoted:
        return markdown
    longest = sorted(quoted, key=len, reverse=True)[:MAX_LINES]
    whole = re.compile("|".join([f"(?P<code>{CODE})", *map(re.escape, longest)]), re.DOTALL)
    kept: list[str] = []
    end = 0
    for piece in whole.finditer(markdown):
        kept.append(_with_words(markdown[end : piece.start()], own))
        kept.append(piece[0] if piece["code"] else SPECIAL.sub(r"\\\1", piece[0]))
        end = piece.end()
    return "".join([*kept, _with_words(markdown[end:], own)])


def _with_words(markdown: str, own: frozenset[str]) -> str:
    """The text with each of the words escaped."""

    def escape(match: re.Match[str]) -> str:
        word = match[0].strip(EDGES)
        return FORMATTING.sub(r"\\\1", match[0]) if word in own else match[0]

    return re.sub(r"\S+", escape, markdown) if own else markdown
