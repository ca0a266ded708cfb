"""The gate before the memory: which facts that a model proposes may be stored.

A model invents, mixes things up and can be talked into things. These checks need no model and look
at no wording: what is stored was said by the user, in his own alphabet, with his own numbers; it
is no secret, and imitates nothing that only the program writes. That he typed the words himself is
known by their provenance (``MemoryWriter``).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Literal

from src.facts.fact import Fact
from src.gate.imitations import imitates
from src.gate.sensitive_text import holds_secret
from src.language import lexicon
from src.language.number_words import read_numbers
from src.language.plain_text import normalise, plain

Reason = Literal[
    "bad_dates", "empty", "too_long", "quote_not_said", "secret", "imitation", "question",
    "other_script", "number_not_said",
]  # fmt: skip

MIN_TEXT = 3  # characters; a shorter text says nothing
MAX_TEXT = 400  # one sentence, perhaps two
MAX_QUOTE = 1000
MAX_PART = 400  # characters of the subject, the relation and the object
EDGES = " \"'.,;:!?()-…"  # around a quote, where models add and drop signs

# Words that make 7 o'clock 19:00.
AFTERNOON = lexicon.Expression(r"\b<gate.afternoon>\b")
THOUSANDS = re.compile(r"(?<=\d)[ '](?=\d{3}(?!\d))")
ZERO_MINUTES = re.compile(r"(?<=\d)[:.]00(?!\d)")


def refuse(
    candidate: Fact, said: str, *, allowed_numbers: frozenset[str] = frozenset()
) -> Reason | None:
    """Why the fact may not be stored; None when it may.

    Args:
        candidate: The fact as the model proposes it.
        said: The user's message, without the time label.
        allowed_numbers: Numbers that were not said and are right nevertheless, such as those of
            the date that "завтра" was resolved to: "2026-03-01", or its parts.

    Secrets come before every other reason, because a "secret" must not be written anywhere, not
    even to the list of refused facts.
    """
    parts = (candidate.text, candidate.subject, candidate.relation, candidate.object)
    if any(map(holds_secret, (*parts, candidate.quote))):
        return "secret"
    if (reason := _shape(candidate)) is not None:
        return reason
    if not _was_said(plain(candidate.quote).strip(EDGES), plain(said)):
        return "quote_not_said"
    if any(map(imitates, (*parts, candidate.quote))):
        return "imitation"
    if _only_asks(candidate):
        return "question"
    if not _same_alphabet(candidate.text, candidate.quote, said):
        return "other_script"
    numbers = _said_numbers(candidate.quote, said) | _digits(" ".join(allowed_numbers))
    written = (candidate.text, THOUSANDS.sub("", plain(candidate.text)))
    return None if any(_digits(text) <= numbers for text in written) else "number_not_said"


def _shape(candidate: Fact) -> Reason | None:
    """What is wrong with the fields by themselves."""
    start, end = candidate.valid_from, candidate.valid_until
    if start and end and ((start.utcoffset() is None) != (end.utcoffset() is None) or start > end):
        return "bad_dates"
    parts = (candidate.subject, candidate.relation, candidate.object)
    if (
        len(candidate.text) > MAX_TEXT
        or len(candidate.quote) > MAX_QUOTE
        or max(map(len, parts)) > MAX_PART
    ):
        return "too_long"
    has_words = any(map(str.isalpha, candidate.text)) and plain(candidate.quote).strip(EDGES)
    return None if has_words and len(normalise(candidate.text)) >= MIN_TEXT else "empty"


def _was_said(quote: str, said: str) -> bool:
    """Whether the quote stands in the message, beginning and ending where words do.

    Both are as ``plain`` leaves them.
    """
    start = said.find(quote)
    while start >= 0:
        end = start + len(quote)
        cut_before = start > 0 and said[start - 1].isalnum() and quote[0].isalnum()
        cut_after = said[end : end + 1].isalnum() and quote[-1].isalnum()
        if not cut_before and not cut_after:
            return True
        start = said.find(quote, start + 1)
    return False


def _only_asks(candidate: Fact) -> bool:
    """Whether the fact, or all that the user said of it, is a question by its mark."""
    if candidate.text.rstrip().endswith("?"):
        return True
    quote = plain(candidate.quote)
    return quote.endswith("?") and not re.search(r"[.!?,;:]", quote[:-1])


def _same_alphabet(text: str, quote: str, said: str) -> bool:
    """Whether the fact is written in the alphabet of the quote.

    Words that both have (names, brands) count on neither side; when the quote has no others, the
    rest of the message counts. A fact with letters that only Russian has does not come from a
    quote with letters that only Ukrainian has, nor the other way round.
    """
    words, quoted = set(normalise(text).split()), set(normalise(quote).split())
    ours, theirs = "".join(words - quoted), "".join(quoted - words)
    if _script(theirs) is None:
        theirs = "".join(set(normalise(said).split()) - words)
    if None not in (_script(ours), _script(theirs)) and _script(ours) != _script(theirs):
        return False
    written, heard = _languages(ours), _languages(theirs)
    return len(written) != 1 or not heard or not written.isdisjoint(heard)


def _languages(letters: str) -> frozenset[str]:
    """The languages of which letters there are that no other language has."""
    own = lexicon.by_language("gate.letters")
    return frozenset(code for code, listed in own if not set(letters).isdisjoint(listed.split()))


def _script(text: str) -> str | None:
    """The script of most letters, as Unicode names it ("CYRILLIC"); None without letters."""
    letters = Counter(character for character in text if character.isalpha())
    scripts: Counter[str] = Counter()
    for letter, times in letters.items():
        scripts[unicodedata.name(letter, "?").split()[0]] += times
    return max(scripts, key=lambda script: scripts[script], default=None)


def _digits(text: str) -> set[str]:
    """The numbers in digits of a text, without zeros before them; 15:00 is 15."""
    return {run.lstrip("0") or "0" for run in re.findall(r"\d+", ZERO_MINUTES.sub("", text))}


def _said_numbers(quote: str, said: str) -> set[str]:
    """Every number that the user may have meant: digits, words, 7 in the evening as 19."""
    text = plain(f"{quote} {said}")
    read = " ".join(read_numbers(normalise(text).split(), ordinals=True))
    numbers = _digits(text) | _digits(THOUSANDS.sub("", text)) | _digits(read)
    if AFTERNOON.search(text):
        numbers |= {str(int(hour) + 12) for hour in numbers if len(hour) < 3 and int(hour) < 12}
    return numbers
