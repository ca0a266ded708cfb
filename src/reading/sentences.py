"""The sentences of a text, whether one asks, and the passage of a long text that fits best."""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, islice

from src.reading import lexicon
from src.texts.morphology import parts_of_speech, terms, words

MAX_SENTENCE = 500  # characters; what is longer is no statement but a document
MAX_SENTENCES = 60
MAX_ASKED = 12  # words of a line that may ask without a mark
FOLD = str.maketrans("ёЁ’ʼ‘`", "еЕ''''")
SENTENCE = re.compile(r"[^.!?…\n;]*(?:\.(?=\S)[^.!?…\n;]*)*[.!?…;]*")
# What asks, also in mid-case and behind a preposition: "на каком курсе", "у кого", "whats".
QUESTION = lexicon.AnyCase(
    r"(?:<lines.question_and>\s+)*(?:<lines.question_preposition>\s+)?<lines.question>(?![\w'-])"
)
# A question word behind what is asked about: "летняя резина где", "вайфай який пароль".
INSIDE = lexicon.AnyCase(
    r"(?P<before>[^\s,.;:!?()]+(?: [^\s,.;:!?()]+){0,6}?)(?: <lines.question_preposition>)?"
    r" (?:<lines.last_question>|<lines.inner_question>(?P<behind>(?: [^\s,.;:!?()]+){1,2}))"
    r"(?> <lines.question_end>(?!\w))*[\s.!]*"
)
# Behind "I know", "forgot", "asked" it asks nothing; nor behind a verb in mid-sentence.
KNOWING = lexicon.AnyCase(r"(?<![\w'])<lines.knowing>(?![\w'])")
# A question word anywhere: "collect the parcel where", "buy it, but who has it".
ASKING_WORD = lexicon.AnyCase(r"(?<![\w'-])<lines.asking_word>(?![\w-])")
# "What I love is …", "когда я был маленьким, …" and "have been …" tell.
SUBORDINATE = lexicon.AnyCase(r"<lines.subordinate>\b[^?]*,")
# Greetings and other beginnings that are no part of what is told.
OPENER = lexicon.AnyCase(r"(?:<lines.opener>(?![\w'-])[\s,.!:—–-]*)+")
# "Always answer briefly", "обращайся ко мне на ты".
WISH = lexicon.AnyCase(r"\W{0,4}<lines.standing>(?![\w'-])")
# "…, ладно?" asks for no answer.
PLEASANTRY = lexicon.AnyCase(r"\W*(?:<lines.pleasantry>(?![\w'-])\W*)+")
TAG = lexicon.AnyCase(r"(?<![\s,])[\s,]++<lines.tag>\s*+\?++\s*+$")
# A full stop behind them ends no sentence.
ABBREVIATION = lexicon.AnyCase(r"(?:^|[\s(])<lines.abbreviation>\.$")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a message as written, each with its mark; of a long message the first."""
    start = end = 0
    for match in islice(SENTENCE.finditer(text), 4 * MAX_SENTENCES):
        end = match.end()
        begun = text[start:end]
        if ABBREVIATION.search(begun[-8:]) is None and len(begun) < MAX_SENTENCE:
            if begun.strip():
                yield begun.strip()
            start = end
    if begun := text[start:end].strip():
        yield begun


def is_wish(sentence: str) -> bool:
    """Whether a sentence begins as one that says how the bot should answer from now on."""
    folded = sentence.translate(FOLD)
    return WISH.match(folded) is not None and not is_question(sentence)


def is_question(sentence: str) -> bool:
    """Whether a sentence asks, by its mark or its first words; "…, ok?" asks for nothing."""
    folded = TAG.sub("", sentence.translate(FOLD))
    if "?" in folded:
        return True
    return any(
        QUESTION.match(part) is not None and SUBORDINATE.match(part) is None
        for part in (folded, folded[OPENER.behind(folded) :])
    ) or asks_inside(folded)


def asks_inside(text: str) -> bool:
    """Whether the question word stands behind what is asked about, as in "the drill is where"."""
    found = INSIDE.fullmatch(text.translate(FOLD).strip())
    if found is None or KNOWING.search(found["before"]) is not None:
        return False
    told = words(found["before"]) if found["behind"] else []
    mine = words(found["behind"] or "")
    tells = any("VERB" in tags and "NOUN" not in tags for tags in map(parts_of_speech, told))
    return not tells and lexicon.words("lines.me").isdisjoint(mine)


def may_ask(text: str) -> bool:
    """Whether a short line holds a question word anywhere: "so the dish, who has it now"."""
    return ASKING_WORD.search(text.translate(FOLD)) is not None and len(words(text)) <= MAX_ASKED


# A sentence with the space before it; a full stop within a word, as in "3.5", ends none.
PIECE = re.compile(r"\s*(?:[^.!?…\n]|\.(?=\w))+[.!?…]*|\s+|[.!?…]+")
MAX_PIECE = 300  # characters that are not parted otherwise
MARK = "…"


def best_passage(text: str, wanted: Collection[str], size: int) -> str:
    """The run of sentences, at most ``size`` characters, that holds most of the wanted terms.

    A term counts the more, the rarer it is in the text (idf, as in BM25). Without any the text's
    beginning is taken. What is left out before and after shows as an ellipsis.

    Args:
        text: Of any length.
        wanted: Search terms of the question; see ``terms``.
        size: Characters of the passage, MARKs included; at least a hundred.
    """
    if len(text) <= size:
        return text
    room = size - 2 * len(MARK) - 2
    pieces = list(_pieces(text, min(MAX_PIECE, room)))
    held = [frozenset(terms(piece)).intersection(wanted) for piece in pieces]
    ends = [0, *accumulate(map(len, pieces))]
    first = _best_start(held, ends, room)
    last = _end_of(first, ends, room)
    return _marked(text, ends[first], ends[last])


def _pieces(text: str, size: int) -> Iterator[str]:
    """The text in sentences, long ones cut, with all that stands between them."""
    for sentence in PIECE.findall(text):
        for start in range(0, len(sentence), size):
            yield sentence[start : start + size]


def _best_start(held: Sequence[frozenset[str]], ends: Sequence[int], room: int) -> int:
    """Where the best passage begins; of equally good ones that lie together, the middle one."""
    found = Counter(term for piece in held for term in piece)
    weights = {term: round(1000 * math.log(1 + len(held) / n)) for term, n in found.items()}
    runs = (held[first : _end_of(first, ends, room)] for first in range(len(held)))
    scores = [sum(weights[term] for term in frozenset().union(*run)) for run in runs]
    first = last = scores.index(max(scores))
    while scores[first] and scores[last + 1 : last + 2] == [scores[first]]:
        last += 1
    return (first + last + 1) // 2


def _end_of(first: int, ends: Sequence[int], room: int) -> int:
    """The piece behind the last one that still has room; the first one always has."""
    return max(first + 1, bisect_right(ends, ends[first] + room) - 1)


def _marked(text: str, start: int, end: int) -> str:
    passage = text[start:end].strip()
    before = f"{MARK} " if text[:start].strip() else ""
    return f"{before}{passage}" + (f" {MARK}" if text[end:].strip() else "")
