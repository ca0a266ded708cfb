"""What a line is: a note, a question, a request or small talk, by its meaning and its marks.

A ridge regression over the embedding, the letters and a few marks of the lines in
``reading/lexicon/lines``; ``python -m benchmarks.line_kinds`` learns the weights and writes them,
a test compares them.
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
from src.texts.morphology import parts_of_speech, says_i, tells_deed, words

Vector = NDArray[np.float32]
Kind = Callable[[str], str]  # of a line

WEIGHTS = Path(__file__).with_name("line_weights.json")
NOTE, QUESTION, REQUEST, AGREEMENT = "note", "question", "request", "agreement"
UNSURE = "unsure"  # a note or a question
MAX_LINE = 500  # characters that tell what it is
PLACES = 512  # for the pieces of words
PIECES = (3, 4)  # letters of a piece
SHORT = (1, 2, 4)  # words of a very short line, of a short one, of one that is not long
DOUBT = 0.15  # between the scores of a note and of a question, below which a line may be either
LEAN = 0.1  # towards a note, by letters alone: what is none is quoted, rather than a note lost
NOTHING: Vector = np.zeros(0, dtype=np.float32)
SHARE = 0.2  # of pieces and marks, beside a vector of length 1
# "Телефон врача", "vet's phone number": a name for what has a value, without a value.
LIST = re.compile(r"[^,:?\n]{2,40}: *[^\s?][^?]*,[^?]*$")  # "shopping: milk, bread"
BARE = lexicon.AnyCase(
    r"\W*(?:<lines.question_and>\s+)?(?P<name><lines.valued>(?:\s+[^\W\d_]+){1,6}"
    r"|(?:[^\W\d_]+(?:'s)?\s+){1,4}<lines.valued_last>)"
    r"(?:\s+<requests.please>)?[\s.!]*(?:,[^\d:=]*)?"
)


@dataclass(frozen=True)
class Weights:
    """What was learnt.

    Attributes:
        learnt: Tells from which lines.
        mean: Of their vectors.
        rows: Weights of each kind, for the vector, the pieces of words and the marks.
        letters: The same for a line without a vector.
    """

    learnt: str
    mean: Vector
    rows: Mapping[str, Vector]
    letters: Mapping[str, Vector]


@cache
def shipped_weights() -> Weights:
    """Those beside this module."""
    told = json.loads(WEIGHTS.read_text())
    rows, letters = (
        {kind: np.array(row, dtype=np.float32) for kind, row in told[part].items()}
        for part in ("rows", "letters")
    )
    return Weights(told["learnt"], np.array(told["mean"], dtype=np.float32), rows, letters)


def kind_of(text: str, vector: Vector | None = None, weights: Weights | None = None) -> str:
    """What a line is: a kind of ``lexicon/lines``, or ``UNSURE``.

    Args:
        text: What was typed.
        vector: Its embedding by the local model, not centred; None: it goes by letters and marks.
        weights: By default the shipped ones.
    """
    weights, text = weights or shipped_weights(), TAG.sub("", text[:MAX_LINE])
    bare = BARE.fullmatch(text.translate(FOLD))
    if bare is not None and not any(map(tells_deed, words(bare["name"]))):
        return UNSURE
    if vector is None or vector.shape != weights.mean.shape:
        if len(words(text)) > SHORT[-1]:
            return QUESTION if is_question(text) else NOTE
        rows, lean, centred = weights.letters, LEAN, NOTHING
        asks = is_question(text)
    else:
        rows, lean, centred = weights.rows, 0.0, vector - weights.mean
        asks = text.rstrip().endswith("?") or asks_inside(text)
    seen = features(text, centred)
    scores = {kind: float(row @ seen) for kind, row in rows.items()}
    scores[NOTE] += lean
    kind = max(scores, key=lambda one: scores[one])
    if asks and kind in (NOTE, REQUEST, AGREEMENT):
        return QUESTION
    if _tells_of_oneself(text) if kind == REQUEST else LIST.match(text):
        kind = NOTE
    if kind == NOTE and may_ask(text):
        return UNSURE
    is_either = vector is not None and not asks and kind in (NOTE, QUESTION)
    return UNSURE if is_either and abs(scores[NOTE] - scores[QUESTION]) < DOUBT else kind


def _tells_of_oneself(text: str) -> bool:
    """Whether it says what the writer does, and asks for nothing: "струны беру у мастера"."""
    said = words(text)
    forms = [parts_of_speech(word) for word in said]
    orders = ("impr" in one and one.isdisjoint({"NOUN", "ADJF"}) for one in forms)
    asks = ("INFN" in one or {"NPRO", "2per"} <= one for one in forms)
    return any(map(says_i, said)) and not any(orders) and not any(asks)


def features(text: str, centred: Vector) -> Vector:
    """The centred vector of a line with the pieces of its words and its marks."""
    return np.concatenate([centred, SHARE * _pieces(text), SHARE * _marks(text)])


def _pieces(text: str) -> Vector:
    found = np.zeros(PLACES, dtype=np.float32)
    for word in words(text.translate(FOLD).lower()):
        whole = f"<{word}>"
        for size in PIECES:
            for start in range(len(whole) - size + 1):
                found[zlib.crc32(whole[start : start + size].encode()) % PLACES] += 1
    return found / max(1.0, float(np.linalg.norm(found)))


def _marks(text: str) -> Vector:
    """How it ends and begins, how long it is, of whom it speaks."""
    found = words(text.translate(FOLD).lower())
    me = lexicon.words("lines.me")
    marks = [
        text.rstrip().endswith("?"),
        is_question(text),
        any(map(str.isdigit, text)),
        bool(found) and found[0] not in me and "impr" in parts_of_speech(found[0]),
        not me.isdisjoint(found),
        not lexicon.words("lines.you").isdisjoint(found),
        *(len(found) <= length for length in SHORT),
        True,
    ]
    return np.array(marks, dtype=np.float32)
