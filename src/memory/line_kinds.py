"""Classification of a line as a note, a question, an order, a request or small talk.

A ridge regression over the embedding, the letter n-grams and a few marks of the lines in
``reading/lexicon/lines``. ``python -m benchmarks.line_kinds`` learns the weights and writes them;
a test checks that they belong to these lines.
"""

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from src.reading import lexicon
from src.reading.sentences import FOLD, TAG, asks_inside, is_question, may_ask
from src.texts.morphology import is_action_verb, parts_of_speech, words

Vector = NDArray[np.float32]
Classifier = Callable[[str], str]  # from a line to its kind

WEIGHTS = Path(__file__).with_name("line_weights.json")
NOTE, QUESTION, REQUEST = "note", "question", "request"
AGREEMENT, GREETING = "agreement", "greeting"
UNSURE = "unsure"  # a note or a question
REMIND, MOVE, CANCEL, LIST_REMINDERS = "remind", "move", "cancel", "list"
FORGET, UNDO = "forget", "undo"
ORDERS = frozenset({REMIND, MOVE, CANCEL, LIST_REMINDERS, FORGET, UNDO})
MAX_LINE = 500  # characters that are classified
BUCKETS = 512  # hash buckets of n-grams
NGRAM_SIZES = (3, 4)  # letters
SHORT_LENGTHS = (1, 2, 4)  # words of a very short, a short and a medium line
MIN_MARGIN = 0.15  # between the scores of note and question; below it a line is UNSURE
NOTE_BIAS = 0.15  # without an embedding: a needless quote is better than a lost note
# Of any other kind over note and question, and of an order without an embedding; in doubt a line
# is kept.
LEAD, LETTERS_LEAD = 0.05, 0.25
# Of an order to remind and of a request: "gran visits 3 jan at noon", "read emma in may".
REMIND_LEAD = 0.2
NO_VECTOR: Vector = np.zeros(0, dtype=np.float32)
WEIGHT = 0.2  # of n-grams and marks, relative to a vector of length 1
SLIP = re.compile(r"\*(?=\w[^*]*$)")  # "*Geoff", as people put right a slip of the pen
# The name of a value without the value: "Телефон врача", "vet's phone number".
BARE_NAME = lexicon.AnyCase(
    r"\W*(?:<lines.question_and>\s+)?(?P<name><lines.valued>(?:\s+[^\W\d_](?:'?[^\W\d_])*){1,6}"
    r"|(?:[^\W\d_]+(?:'s)?\s+){1,4}<lines.valued_last>)"
    r"(?:\s+<requests.please>)?[\s.!?]*(?:,[^\d:=]*)?"
)


@dataclass(frozen=True)
class Weights:
    """Weights of the regression.

    Attributes:
        learnt: A digest of the lines that they were learnt from.
        mean: The mean of the vectors of these lines.
        rows: The weights of each kind for the vector, the n-grams and the marks.
        letters: The same for a line without a vector.
    """

    learnt: str
    mean: Vector
    rows: Mapping[str, Vector]
    letters: Mapping[str, Vector]


@cache
def shipped_weights() -> Weights:
    """Load the weights in ``line_weights.json``."""
    stored = json.loads(WEIGHTS.read_text())
    rows, letters = (
        {kind: np.array(row, dtype=np.float32) for kind, row in stored[part].items()}
        for part in ("rows", "letters")
    )
    return Weights(stored["learnt"], np.array(stored["mean"], dtype=np.float32), rows, letters)


def kind_of(text: str, vector: Vector | None = None, weights: Weights | None = None) -> str:
    """Return the kind of a line: one of ``lexicon/lines``, or ``UNSURE``.

    Args:
        text: The typed line.
        vector: Its embedding by the local model, not centred; without it letters and marks decide.
        weights: The weights; the shipped ones by default.
    """
    weights, text = weights or shipped_weights(), TAG.sub("", text[:MAX_LINE])
    if names_only(text):
        return UNSURE
    if SLIP.match(text):
        return NOTE
    if vector is not None and vector.shape != weights.mean.shape:
        vector = None
    if vector is None and len(words(text)) > SHORT_LENGTHS[-1]:
        return QUESTION if is_question(text) else NOTE
    is_marked = text.rstrip().endswith("?") or asks_inside(text)
    asks = is_marked if vector is not None else is_question(text)
    scores, kind = _score(text, vector, weights)
    if asks:
        typed = words(text.translate(FOLD).lower())
        me, you = lexicon.words("lines.me"), lexicon.words("lines.you")
        # "What is my file called?" is of oneself, and not of the bot.
        is_of_oneself = not me.isdisjoint(typed) and you.isdisjoint(typed)
        is_small_talk = kind not in (NOTE, QUESTION, REQUEST, GREETING, *ORDERS)
        if kind in (NOTE, REQUEST, AGREEMENT) or (is_small_talk and is_of_oneself):
            return QUESTION
    if kind == NOTE and may_ask(text):
        return UNSURE
    is_either = vector is not None and not asks and kind in (NOTE, QUESTION)
    return UNSURE if is_either and abs(scores[NOTE] - scores[QUESTION]) < MIN_MARGIN else kind


def _score(text: str, vector: Vector | None, weights: Weights) -> tuple[dict[str, float], str]:
    """Return the score of each kind, by the embedding or by the letters alone, and the best."""
    rows, centred = weights.letters, NO_VECTOR
    if vector is not None:
        rows, centred = weights.rows, vector - weights.mean
    values = features(text, centred)
    scores = {kind: float(row @ values) for kind, row in rows.items()}
    if vector is None:
        scores[NOTE] += NOTE_BIAS
    best = max(scores, key=lambda kind: scores[kind])
    told = max((NOTE, QUESTION), key=lambda kind: scores[kind])
    lead = LEAD
    if vector is None and best in ORDERS:
        lead = LETTERS_LEAD
    elif vector is not None and best in (REMIND, REQUEST):
        lead = REMIND_LEAD
    if scores[best] < scores[told] + lead:
        best = told
    return scores, best


def names_only(text: str) -> bool:
    """Return True for the name of a value without the value: "vet's phone number"."""
    bare = BARE_NAME.fullmatch(text.translate(FOLD))
    return bare is not None and not any(map(is_action_verb, words(bare["name"])))


def features(text: str, centred: Vector) -> Vector:
    """Return the centred vector of a line, followed by its n-grams and its marks.

    The n-grams of the words are counted by hash, as a vector of length 1. The marks are 0 or 1 for
    each of: punctuation, first word, persons, length, and a constant.
    """
    typed = words(text.translate(FOLD).lower())
    counts = np.zeros(BUCKETS, dtype=np.float32)
    for word in typed:
        whole = f"<{word}>"
        for size in NGRAM_SIZES:
            for start in range(len(whole) - size + 1):
                counts[zlib.crc32(whole[start : start + size].encode()) % BUCKETS] += 1
    ngrams = counts / max(1.0, float(np.linalg.norm(counts)))
    me = lexicon.words("lines.me")
    marks = [
        text.rstrip().endswith("?"),
        is_question(text),
        any(map(str.isdigit, text)),
        bool(typed) and typed[0] not in me and "impr" in parts_of_speech(typed[0]),
        not me.isdisjoint(typed),
        not lexicon.words("lines.you").isdisjoint(typed),
        *(len(typed) <= length for length in SHORT_LENGTHS),
        True,
    ]
    return np.concatenate([centred, WEIGHT * ngrams, WEIGHT * np.array(marks, dtype=np.float32)])
