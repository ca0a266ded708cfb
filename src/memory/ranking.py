"""Ranking of candidates: the sum of absolute scores and priors.

``make bench`` measures the weights.
"""

import math
from collections.abc import Sequence
from datetime import timedelta

from src.memory.retrieval_repo import Hit
from src.memory.search_index_repo import UNNAMED_SPEAKERS
from src.memory.thresholds import LEAST_BM25, LEAST_SCORE, LEXICAL_WEIGHT, SAME_MATTER
from src.reading import lexicon, sentences
from src.reading.time_expressions import TimeQuery
from src.texts.morphology import WORD, terms

WISH_BONUS = 0.2  # a wish about answers matters to every question
FACT_BONUS = 0.05  # a message that told a fact; less, the more of the others did, too
SPEAKER_BONUS = 0.15  # the query names the speaker
SESSION_WEIGHT = 0.3  # of the mean of the three best scores of the same session
SESSION_BEST = 3
SESSION_GAP = timedelta(hours=6)
# Among people, who tell each other things in long turns and ask in short ones. To an assistant,
# people tell things in questions, and long messages are pasted.
QUESTION_PENALTY = 0.05
LENGTH_BONUS = 0.1  # at LONG_WORDS words or more, proportional below
LONG_WORDS = 40
NUMBER_BONUS = 0.08  # a text with a number or a time word, if the query asks when
PERIOD_BONUS = 0.15  # said or valid in a period that the query names
OUTDATED_PENALTY = 0.25  # a message whose fact is retired, and a fact that is over
LINK_BONUS = 0.05  # linked to an entity that the query names

COMPARED = 10  # first hits of which a newer one may stand above an older one
MIN_SHARED = 2  # words of both
NEWER = 0.001

Scored = tuple[Hit, float]
TIME_WORD = lexicon.AnyCase(r"\d|\b<find.time_word>\b")


def rank(documents: Sequence[Hit], text: str, time: TimeQuery) -> list[Hit]:
    """Return the documents with scores, best first; ties are ordered by uid.

    Args:
        documents: The candidates.
        text: The query, which may name a speaker.
        time: What it says of time.
    """
    words = {word.removesuffix("'s") for word in WORD.findall(text.lower())}
    speakers = {d.speaker.lower() for d in documents} & words
    named = None
    if len(speakers) == 1:
        [named] = speakers
    # A document with shared words but no vector counts as near as the nearest of those that share
    # none.
    matches = [d.match for d in documents if not d.match.bm25]
    near = max((match.cosine for match in matches if match.cosine is not None), default=0.0)
    messages = [d for d in documents if d.kind == "message"]
    share = sum(d.tells_fact for d in messages) / max(1, len(messages))
    fact_bonus = FACT_BONUS * (1 - share) ** 2
    scores = [_score(d, time, named=named, near=near, fact_bonus=fact_bonus) for d in documents]
    scored = list(zip(documents, scores, strict=True))

    def by_score(hit: Hit) -> tuple[float, str]:
        return -hit.match.score, hit.uid

    ranked = sorted(_add_session_scores(scored), key=by_score)
    return sorted(_lift_newer(ranked[:COMPARED]), key=by_score) + ranked[COMPARED:]


def _lift_newer(ranked: Sequence[Hit]) -> list[Hit]:
    """Raise a statement above an older one that says nearly the same and fits the words as well.

    What changed is told in the same words with another value; both fit the question equally. Among
    people, who answer each other in the same words, nothing is raised.
    """
    words = [frozenset(terms(hit.text[: sentences.MAX_SENTENCE])) for hit in ranked]
    lifted: list[Hit] = []
    for hit, own in zip(ranked, words, strict=True):
        older = [
            other.match.score
            for other, said in zip(ranked, words, strict=True)
            if other.said_at < hit.said_at
            and hit.speaker in UNNAMED_SPEAKERS
            and hit.match.score >= LEAST_SCORE * other.match.score
            and hit.match.bm25 >= LEAST_BM25 * other.match.bm25
            and len(own & said) >= max(MIN_SHARED, SAME_MATTER * min(len(own), len(said)))
        ]
        above = max(older, default=0.0) + NEWER * len(older)
        lifted.append(hit.scored(max(hit.match.score, above)))
    return lifted


def score_record(hit: Hit) -> dict[str, float | None]:
    """Return the score of a ranked hit, and of each channel; empty for a listed one."""
    match = hit.match
    if not match.score:
        return {}
    scores = {
        "score": match.score,
        "meaning": match.cosine,
        "similarity": match.similarity,
        "words": LEXICAL_WEIGHT * match.bm25,
        "link": None,
    }
    if match.is_linked:
        scores["link"] = LINK_BONUS
    return {name: None if part is None else round(part, 3) for name, part in scores.items()}


def _score(
    document: Hit, time: TimeQuery, *, named: str | None, near: float, fact_bonus: float
) -> float:
    match = document.match
    score = match.cosine or 0.0
    if match.cosine is None and match.bm25:
        score = near
    score += LEXICAL_WEIGHT * match.bm25
    if named is not None and document.speaker.lower() == named:
        score += SPEAKER_BONUS
    begin, until = document.validity.start, document.validity.end
    if any(
        period.start <= document.said_at < period.end
        or (begin is not None and begin < period.end and (until is None or until > period.start))
        for period in time.periods
    ):
        score += PERIOD_BONUS
    if match.is_linked:
        score += LINK_BONUS
    if document.is_over(time.now) and not time.wants_history and not time.asks_when:
        score -= OUTDATED_PENALTY
    if document.kind == "message":
        score = _add_priors(score, document, time, fact_bonus)
    return score


def _add_priors(score: float, message: Hit, time: TimeQuery, fact_bonus: float) -> float:
    if message.tells_fact:
        score += fact_bonus
    if message.retired and not time.wants_history:
        score -= OUTDATED_PENALTY
    if message.speaker in UNNAMED_SPEAKERS:
        if sentences.is_wish(message.text[: sentences.MAX_SENTENCE]):
            score += WISH_BONUS
        return score
    score += LENGTH_BONUS * min(len(message.text.split()), LONG_WORDS) / LONG_WORDS
    if message.text.rstrip().endswith("?"):
        score -= QUESTION_PENALTY
    if time.asks_when and TIME_WORD.search(message.text):
        score += NUMBER_BONUS
    return score


def _add_session_scores(scored: Sequence[Scored]) -> list[Hit]:
    """Raise messages of a session in which others score high; each fact is its own session."""
    sessions = [[entry] for entry in scored if entry[0].kind != "message"]
    messages = [entry for entry in scored if entry[0].kind == "message"]
    previous = None
    for entry in sorted(messages, key=lambda e: (e[0].said_at, e[0].source_id)):
        said_at = entry[0].said_at
        if previous is None or said_at - previous > SESSION_GAP:
            sessions.append([])
        sessions[-1].append(entry)
        previous = said_at
    raised: list[Hit] = []
    for session in sessions:
        best = sorted((score for _, score in session), reverse=True)[:SESSION_BEST]
        prior = SESSION_WEIGHT * math.fsum(best) / len(best)
        raised += [document.scored(score + prior) for document, score in session]
    return raised
