"""From candidates to a ranking: the sum of absolute scores, and what is known before the query.

``make bench`` prints how well the weights do.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from src.memory.retrieval_repo import Hit
from src.memory.search_index_repo import UNNAMED_SPEAKERS
from src.reading import lexicon
from src.reading.sentences import MAX_SENTENCE, is_wish
from src.reading.time_expressions import Period, TimeQuery

LEXICAL_WEIGHT = 0.06  # of BM25F, beside a cosine with weight 1
WISH_BONUS = 0.2  # how to answer: it bears on every question
FACT_BONUS = 0.05  # a message from which a fact was taken
SPEAKER_BONUS = 0.15  # the query names the one who said it
SESSION_WEIGHT = 0.3  # of the mean of the three best of the same talk
SESSION_BEST = 3
SESSION_GAP = timedelta(hours=6)
# Among people, who tell each other in long turns and ask in short ones. An assistant is told in
# questions, and long is what one pastes.
QUESTION_PENALTY = 0.05
LENGTH_BONUS = 0.1  # at LONG_WORDS words or more, in proportion below
LONG_WORDS = 40
NUMBER_BONUS = 0.08  # a text with a number or a time word, when the query asks when
PERIOD_BONUS = 0.15  # said in, or valid in, a period that the query names
OUTDATED_PENALTY = 0.25  # a message whose fact is retired
LINK_BONUS = (0.05, 0.02)  # hangs on an entity that the query names, by one or two links

Scored = tuple[Hit, float]
TIME_WORD = lexicon.AnyCase(r"\d|\b<find.time_word>\b")


@dataclass(frozen=True)
class RankedQuery:
    """What the ranking knows of the query.

    Attributes:
        words: Its words, lower-case, for names of speakers.
        time: The periods that it names, and whether it asks for a time or for what used to hold.
    """

    words: frozenset[str]
    time: TimeQuery


def rank(candidates: Iterable[Hit], query: RankedQuery) -> list[Hit]:
    """The candidates with their scores, best first; equal scores by uid: the order is total."""
    documents = list(candidates)
    named = _named_speaker(documents, query.words)
    # What shares words and has no vector counts as near as the nearest of those that share none.
    near = max((d.cosine for d in documents if d.cosine is not None and not d.bm25), default=0.0)
    seen = [replace(d, cosine=near) if d.cosine is None and d.bm25 else d for d in documents]
    scores = [_score(document, query, named=named) for document in seen]
    scored = list(zip(documents, scores, strict=True))
    return sorted(_with_sessions(scored), key=lambda hit: (-hit.score, hit.uid))


def _score(document: Hit, query: RankedQuery, *, named: str | None) -> float:
    score = (document.cosine or 0.0) + LEXICAL_WEIGHT * document.bm25
    score += SPEAKER_BONUS * (named is not None and document.speaker.lower() == named)
    score += PERIOD_BONUS * _is_within(document, query.time.periods)
    if document.hops is not None:
        score += LINK_BONUS[document.hops - 1]
    if document.kind == "message":
        score += FACT_BONUS * document.tells_fact
        if document.retired_at is not None and not query.time.wants_history:
            score -= OUTDATED_PENALTY
        is_named = document.speaker not in UNNAMED_SPEAKERS
        score += _prior_among_people(document, query) if is_named else _prior_of_user(document)
    return score


def _prior_of_user(document: Hit) -> float:
    return WISH_BONUS * is_wish(document.text[:MAX_SENTENCE])


def _prior_among_people(document: Hit, query: RankedQuery) -> float:
    words = min(len(document.text.split()), LONG_WORDS)
    prior = LENGTH_BONUS * words / LONG_WORDS
    prior -= QUESTION_PENALTY * document.text.rstrip().endswith("?")
    return prior + NUMBER_BONUS * (query.time.asks_when and bool(TIME_WORD.search(document.text)))


def _is_within(document: Hit, periods: Sequence[Period]) -> bool:
    """Whether it was said, or holds in the world, within one of the periods."""
    begin, until = document.valid_from, document.valid_until
    return any(
        period.start <= document.said_at < period.end
        or (begin is not None and begin < period.end and (until is None or until > period.start))
        for period in periods
    )


def _named_speaker(documents: Sequence[Hit], words: frozenset[str]) -> str | None:
    """The only speaker that the query names, else None."""
    named = {d.speaker.lower() for d in documents} & words
    return named.pop() if len(named) == 1 else None


def _with_sessions(scored: Sequence[Scored]) -> list[Hit]:
    """Messages of a talk in which others fit well gain from it; a fact is a talk of its own."""
    talks = [[entry] for entry in scored if entry[0].kind != "message"]
    messages = [entry for entry in scored if entry[0].kind == "message"]
    previous = None
    for entry in sorted(messages, key=lambda e: (e[0].said_at, e[0].source_id)):
        said_at = entry[0].said_at
        if previous is None or said_at - previous > SESSION_GAP:
            talks.append([])
        talks[-1].append(entry)
        previous = said_at
    return [hit for talk in talks for hit in _raise_session(talk)]


def _raise_session(session: Sequence[Scored]) -> list[Hit]:
    best = sorted((score for _, score in session), reverse=True)[:SESSION_BEST]
    prior = SESSION_WEIGHT * math.fsum(best) / max(len(best), 1)
    return [replace(document, score=score + prior) for document, score in session]
