"""Imitations of what only the program writes: its blocks, labels and roles.

They are recognised by their form, not by what they want: a tag, a label in brackets, a role at
the beginning of a line, a call of a tool. In the history they are escaped; no fact holds one.
"""

from __future__ import annotations

import re
import unicodedata

from src.language import lexicon
from src.language.plain_text import INVISIBLE

LOOKED_AT = 80  # characters after a sign in which an imitation shows
ESCAPE = "‹"
# Tag characters are invisible and spell ASCII; only flags (U+1F3F4 and tags) have a use for them.
SMUGGLED = re.compile("(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0020-\U000e007f]+")
OWN_TAGS = (
    r"(?:memories|key_facts|wishes|history_summary|context|messages|conversation"
    r"|instructions?|<marks.role>)"
)
# As the folded text reads from the sign on.
MARK = lexicon.Expression(
    rf"<\s*/?\s*{OWN_TAGS}\b|<\s*\||<\s*/?s>|<<\s*sys|\[\s*/?\s*inst\s*\]|\[\s*<marks.label>\b"
)
ROLE_LINE = lexicon.Expression(
    r"\s*(?:#{1,6}\s*(?:<marks.role>|instructions?)\b|<marks.role>\s*:)"
)
SPACES = re.compile(r"[^\S\n]+")
SIGNS = re.compile(r"[<\[＜［﹤]")
LINE_START = re.compile(r"(?:\A|(?<=[\n\r\x0b\x0c\x85\u2028\u2029]))(?=[ \t\xa0]{0,40}\S)")
ANY_TAG = re.compile(r"<\s*/?\s*[^\W\d][\w':.-]{0,40}(?:\s[^<>]{0,80})?/?>")
TOOL_CALL = re.compile(r"[\"']?\b(?:arguments|parameters|args)[\"']?\s*:\s*\{")


def escaped(text: str) -> str:
    """A message in which our tags, labels and roles are none: ``<memories>`` is ``‹memories>``."""
    text = SMUGGLED.sub("", text)
    cuts = {m.start(): 1 for m in SIGNS.finditer(text) if MARK.match(_folded(text, m.start()))}
    starts = [m.start() for m in LINE_START.finditer(text)]
    cuts |= {at: 0 for at in starts if ROLE_LINE.match(_folded(text, at)) and at not in cuts}
    pieces, end = [], 0
    for at, length in sorted(cuts.items()):
        pieces += [text[end:at], ESCAPE]
        end = at + length
    return "".join([*pieces, text[end:]])


def imitates(text: str) -> bool:
    """Whether a text holds what only the program writes; a fact never does."""
    folded = _fold(text)
    return (
        SMUGGLED.search(text) is not None
        or escaped(text) != text
        or ANY_TAG.search(folded) is not None
        or TOOL_CALL.search(folded) is not None
    )


def _folded(text: str, start: int) -> str:
    return _fold(text[start : start + LOOKED_AT])


def _fold(text: str) -> str:
    """The text without invisible characters, of one width and case, with single spaces."""
    visible = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return SPACES.sub(" ", unicodedata.normalize("NFKC", visible).casefold())
