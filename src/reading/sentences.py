"""Sentences of a text, questions among them, and the passage of a long text that fits best."""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, islice

from src.reading import lexicon
from src.reading.words import has_verb
from src.texts.morphology import terms, words

MAX_SENTENCE = 500  # characters; a longer one is a document, not a statement
MAX_SENTENCES = 60
MAX_ASKED = 12  # words of a line that asks without a mark
FOLD = str.maketrans("ёЁ’ʼ‘`", "еЕ''''")
SENTENCE = re.compile(r"[^.!?…\n;]*(?:\.(?=\S)[^.!?…\n;]*)*[.!?…;]*")
# Question words, also inflected and after a preposition: "на каком курсе", "у кого", "whats".
QUESTION = lexicon.AnyCase(
    r"(?:<lines.question_and>\s+)*(?:<lines.question_preposition>\s+)?<lines.question>(?![\w'-])"
)
# A question word after its subject: "летняя резина где", "вайфай який пароль".
INNER_QUESTION = lexicon.AnyCase(
    r"(?P<before>[^\s,.;:!?()]+(?: [^\s,.;:!?()]+){0,6}?)(?: <lines.question_preposition>)?"
    r" (?:<lines.last_question>|<lines.inner_question>(?P<behind>(?: [^\s,.;:!?()]+){1,2}))"
    r"(?> <lines.question_end>(?!\w))*[\s.!]*"
)
# After "I know", "forgot", "asked" it asks nothing; nor after a verb in mid-sentence.
KNOWING = lexicon.AnyCase(r"(?<![\w'])<lines.knowing>(?![\w'])")
# A question word anywhere: "collect the parcel where", "buy it, but who has it".
ASKING_WORD = lexicon.AnyCase(r"(?<![\w'-])<lines.asking_word>(?![\w-])")
# "What I love is …", "когда я был маленьким, …" and "have been …" are statements.
SUBORDINATE = lexicon.AnyCase(r"<lines.subordinate>\b[^?]*,")
# "Who has what: the tent is at Ann's" tells it.
ANSWERED = re.compile(r"[^\W\d]{2}\s?:\s{1,9}[^\W\d]{2}")
# "Did you know that …" tells what follows.
TELLING = lexicon.AnyCase(r"(?<!\w)<lines.telling_question>\s+(?=.{8})")
CLAUSE = re.compile(r"[,;:(—–]")
# "Have I told you that …" does as well.
TALKED = lexicon.AnyCase(r"\b<requests.talked>")
# Greetings and other openings that are no part of the statement.
OPENER = lexicon.AnyCase(r"(?:<lines.opener>(?![\w'-])[\s,.!:—–-]*)+")
# "Always answer briefly", "обращайся ко мне на ты".
WISH = lexicon.AnyCase(r"\W{0,4}<lines.standing>(?![\w'-])")
# "…, ладно?" needs no answer.
PLEASANTRY = lexicon.AnyCase(r"\W*(?:<lines.pleasantry>(?![\w'-])\W*)+")
TAG = lexicon.AnyCase(r"(?<![\s,])(?>[\s,]+)<lines.tag>(?>\s*\?+\s*)$")
# A full stop after them ends no sentence.
ABBREVIATION = lexicon.AnyCase(r"(?:^|[\s(])<lines.abbreviation>\.$")


def sentences(text: str) -> Iterator[str]:
    """Yield the first sentences of a message as written, each with its mark."""
    start = end = 0
    for match in islice(SENTENCE.finditer(text), 4 * MAX_SENTENCES):
        end = match.end()
        sentence = text[start:end]
        if ABBREVIATION.search(sentence[-8:]) is None and len(sentence) < MAX_SENTENCE:
            if sentence.strip():
                yield sentence.strip()
            start = end
    if sentence := text[start:end].strip():
        yield sentence


def is_wish(sentence: str) -> bool:
    """Return True if a sentence begins as a standing wish about the bot's answers."""
    folded = sentence.translate(FOLD)
    return WISH.match(folded) is not None and not is_question(sentence)


def is_question(sentence: str) -> bool:
    """Return True if a sentence asks, by its mark or its first words; "…, ok?" does not."""
    folded = TAG.sub("", sentence.translate(FOLD))
    if "?" in folded:
        return True
    if ANSWERED.search(folded) is not None:
        return False
    return any(
        QUESTION.match(part) is not None and SUBORDINATE.match(part) is None
        for part in (folded, folded[OPENER.behind(folded) :])
    ) or asks_inside(folded)


def asks_only(text: str) -> bool:
    """Return True if a short message tells nothing: each sentence is a question and no more.

    "I worry about the exam, how do I prepare?" tells something, and so does "did you know that …".
    """
    folded = text.translate(FOLD)
    if len(text) > MAX_SENTENCE or TELLING.search(folded) or TALKED.search(folded):
        return False
    found = [one for one in sentences(text) if PLEASANTRY.fullmatch(one) is None]
    for sentence in found:
        folded = sentence.translate(FOLD)
        if len(words(folded)) > MAX_ASKED or not is_question(sentence):
            return False
        begins = QUESTION.match(folded) or QUESTION.match(folded, OPENER.behind(folded))
        if begins is None and not asks_inside(folded) and CLAUSE.search(folded) is not None:
            return False
    return bool(found)


def asks_inside(text: str) -> bool:
    """Return True if the question word follows its subject, as in "the drill is where"."""
    match = INNER_QUESTION.fullmatch(text.translate(FOLD).strip())
    if match is None or KNOWING.search(match["before"]) is not None:
        return False
    if not match["behind"]:
        return True
    is_of_me = not lexicon.words("lines.me").isdisjoint(words(match["behind"]))
    return not is_of_me and not has_verb(match["before"])


def may_ask(text: str) -> bool:
    """Return True if a short line contains any question word: "so the dish, who has it now"."""
    return ASKING_WORD.search(text.translate(FOLD)) is not None and len(words(text)) <= MAX_ASKED


# A sentence with the space before it; a full stop within a word, as in "3.5", ends none.
PIECE = re.compile(r"\s*(?:[^.!?…\n]|\.(?=\w))+[.!?…]*|\s+|[.!?…]+")
MAX_PIECE = 300  # characters
MARK = "…"


def best_passage(text: str, wanted: Collection[str], size: int) -> str:
    """Return the run of sentences, at most ``size`` characters, with most of the wanted terms.

    Rare terms of the text count more (idf, as in BM25). Without any term, the beginning is taken.
    Omitted text shows as an ellipsis.

    Args:
        text: Of any length.
        wanted: Search terms of the question; see ``terms``.
        size: Maximum length in characters, MARKs included; at least a hundred.
    """
    if len(text) <= size:
        return text
    room = size - 2 * len(MARK) - 2
    step = min(MAX_PIECE, room)
    pieces = [
        sentence[start : start + step]
        for sentence in PIECE.findall(text)
        for start in range(0, len(sentence), step)
    ]
    held = [frozenset(terms(piece)).intersection(wanted) for piece in pieces]
    ends = [0, *accumulate(map(len, pieces))]
    found = Counter(term for piece in held for term in piece)
    weights = {term: round(1000 * math.log(1 + len(held) / n)) for term, n in found.items()}
    runs = (held[at : _passage_end(at, ends, room)] for at in range(len(held)))
    scores = [sum(weights[term] for term in frozenset().union(*run)) for run in runs]
    # Of equal neighbours, the middle one.
    first = last = scores.index(max(scores))
    while scores[first] and scores[last + 1 : last + 2] == [scores[first]]:
        last += 1
    first = (first + last + 1) // 2
    last = _passage_end(first, ends, room)
    start, end = ends[first], ends[last]
    before = f"{MARK} " if text[:start].strip() else ""
    after = f" {MARK}" if text[end:].strip() else ""
    return before + text[start:end].strip() + after


def _passage_end(first: int, ends: Sequence[int], room: int) -> int:
    """Return the end of the passage that fits from ``first``; at least one piece."""
    return max(first + 1, bisect_right(ends, ends[first] + room) - 1)
