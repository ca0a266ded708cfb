"""Search of messages, facts and summaries by words, meaning and time; ranking; overviews."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from src.base.errors import AppError, StorageError
from src.base.metrics import Metrics
from src.llm.endpoints import Reranker
from src.memory.embedding_space import ServingSpace
from src.memory.indexer import is_mere_question
from src.memory.memory_repo import FactQuery, MemoryRepository
from src.memory.queries import OVERVIEWS, Bounds, Overview, Query, asked_terms, entity_terms
from src.memory.retrieval_repo import (
    MAX_HIT_TEXT,
    Hit,
    RetrievalRepository,
    SearchRequest,
    fact_as_hit,
)
from src.memory.search_index_repo import UNNAMED_SPEAKERS
from src.memory.thresholds import LEAST_BM25, LEAST_SCORE, LEXICAL_WEIGHT, SAME_MATTER
from src.pg.client import PgClient
from src.reading import gate, lexicon, requests, sentences
from src.reading.facts import PRIVATE
from src.reading.time_expressions import TimeQuery, read_time
from src.texts.morphology import WORD, terms
from src.texts.plain_text import normalise

logger = logging.getLogger(__name__)

EMBED_DEADLINE = 1.0  # seconds, more than a remote model takes; then the search uses words alone
RERANK_POOL = 30  # documents that the reranker sorts
PASSAGE = 600  # characters of a message that are shown
# The same where hits fill a prompt. In 3,000 tokens 400 show 78.0 % of BEAM's right messages, and
# in them 82.7 % of the words of the answers; 600 show 77.0 and 83.6 %, 300 show 78.8 and 79.2 %.
SHORT_PASSAGE = 400
CHARACTERS = 4  # of a token of a record, at most
MIN_OVERVIEW = 20  # minimum of lines in an overview; the prompt's budget cuts it


@dataclass(eq=False, repr=False)
class Retriever:
    """Search of one owner's messages, facts and summaries together.

    Vectors are compared in ``_space``; the reranker, if there is one, decides the final order.
    """

    _client: PgClient
    _space: ServingSpace
    _metrics: Metrics
    _reranker: Reranker | None = None

    def __post_init__(self) -> None:
        """Build the repositories on the client."""
        self._repository = RetrievalRepository(self._client)
        self._facts = MemoryRepository(self._client)

    async def close(self) -> None:
        """Close the reranker's connections."""
        if self._reranker is not None:
            await self._reranker.close()

    async def search(self, query: Query) -> list[Hit]:
        """Return the best hits, best first; failures are logged, and what failed is left out.

        A request for an overview ("what do you know about me?") is answered by kind and time.
        """
        try:
            overview = query.overview()
            if overview is not None:
                entries = await self._list_overview(query, overview)
                if entries or overview.kind != "work":  # there may be no fact about work
                    return entries
            candidates, time = await self.find_candidates(query)
            ranked = rank(_drop_private(candidates, query.text), query.question, time)
            most = max((hit.match.bm25 for hit in ranked), default=0.0)
            relevant = [hit for hit in ranked if self._is_relevant(hit, query, time, most)]
            # A private fact comes first: the user asked for it by name.
            relevant.sort(key=lambda hit: hit.memory_type != PRIVATE)
            return await self._complete_texts(query, await self._select_best(query, relevant))
        except StorageError as error:
            logger.warning("nothing could be searched", exc_info=error)
            return []

    async def find_candidates(self, query: Query) -> tuple[list[Hit], TimeQuery]:
        """Return the unranked candidates of all channels, and what the query says of time.

        Raises:
            StorageError: The database is away.
        """
        text = query.question
        time = read_time(text, query.now)
        vector, model_id = None, None
        if not query.by_words_only:
            vector, model_id = await self._space.embed_within(
                EMBED_DEADLINE, text, is_query=True, otherwise="the search goes by words alone"
            )
            if vector is None:
                self._metrics.searches_by_words.inc()
        with_questions = query.with_questions or requests.asks_for_questions(text)
        candidates = await self._client.run(
            self._repository.search,
            SearchRequest(
                owner=query.owner,
                terms=asked_terms(text, time),
                entity_terms=entity_terms(text),
                vector=vector,
                model_id=model_id,
                periods=[(period.start, period.end) for period in time.periods],
                shown=query.shown,
                with_assistant=query.with_assistant or with_questions,
                with_retired=time.wants_history,
                limit=max(SearchRequest.limit, query.most),
            ),
        )
        if not query.with_assistant:
            candidates = [hit for hit in candidates if hit.speaker != "assistant"]
        if not with_questions:
            candidates = [
                hit
                for hit in candidates
                if hit.kind != "message"
                or hit.tells_fact
                or not is_mere_question(hit.speaker, hit.text)
            ]
        return candidates, time

    async def _list_overview(self, query: Query, overview: Overview) -> list[Hit]:
        limit = max(query.limit, MIN_OVERVIEW, query.most)
        entries: list[Hit] = []
        if overview.kind == "period":
            read = partial(self._repository.list_messages, shown=query.shown, limit=limit)
            periods: list[Bounds] = [(p.start, p.end) for p in overview.periods]
            for start, end in periods or [query.period]:
                entries += await self._client.run(read, query.owner, since=start, until=end)
            if query.tokens is not None:
                entries.reverse()  # if a prompt has no room for all, it shows the newest
        else:
            by_weight = FactQuery("weight")
            facts = await self._client.run(self._facts.list_facts, query.owner, by_weight)
            subjects, relations = OVERVIEWS[overview.kind]
            hits = (
                fact_as_hit(stored)
                for stored in facts
                if subjects is None
                or stored.fact.subject in subjects
                or stored.fact.relation in relations
            )
            entries = [
                hit
                for hit in hits
                if query.accepts(hit)
                and not hit.is_over(query.now)
                and query.speaker_id in (None, hit.author.id)
            ]
        return [entry for entry in entries if not gate.holds_secret(entry.text)][:limit]

    async def _complete_texts(self, query: Query, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits with the best passages of long messages, and with secrets unmasked."""
        ids = [
            hit.source_id
            for hit in hits
            if hit.kind == "message" and not hit.match.starts_at and len(hit.text) >= MAX_HIT_TEXT
        ]
        texts: dict[int, str] = {}
        if ids:
            texts = await self._client.run(self._repository.read_texts, query.owner, ids)
        words = frozenset(terms(query.question))
        size = PASSAGE if query.tokens is None else SHORT_PASSAGE
        shown = []
        for hit in hits:
            if hit.memory_type == PRIVATE:
                hit = replace(hit, text=hit.words)
            if hit.kind == "message" and len(hit.text) > size:
                text = texts.get(hit.source_id, hit.text)
                hit = replace(hit, text=sentences.best_passage(text, words, size))
            shown.append(hit)
        return shown

    def _is_relevant(self, document: Hit, query: Query, time: TimeQuery, most: float) -> bool:
        """Return True if a document fits in kind and filters, and in link, time, words or meaning.

        ``most`` is the BM25F of the document with most of the query's words.
        """
        if document.kind not in query.kinds or not query.accepts(document):
            return False
        match = document.match
        has_words = match.bm25 > 0
        if match.is_linked or (has_words and match.cosine is None):
            return True
        if has_words and match.bm25 >= query.threshold * most:
            return True
        if any(p.start <= document.said_at < p.end for p in time.periods):
            return True
        cosine = match.cosine or 0.0
        closeness = cosine + LEXICAL_WEIGHT * match.bm25
        return self._space.similarity(closeness) >= query.threshold

    async def _select_best(self, query: Query, ranked: Sequence[Hit]) -> list[Hit]:
        if query.tokens is not None:  # there is room for the messages that told other facts
            facts = [hit.source_id for hit in ranked if hit.kind == "memory"][query.limit :]
            ranked = [hit for hit in ranked if hit.kind != "memory" or hit.source_id not in facts]
        # Each text once, and of a message and its facts the kind that ranks best.
        kinds: dict[str, str] = {}
        texts_once: dict[tuple[object, ...], Hit] = {}
        for hit in ranked:
            if kinds.setdefault(hit.uid, hit.kind) == hit.kind:
                key = hit.speaker, hit.author.name, hit.retired, normalise(hit.text)
                texts_once.setdefault(key, hit)
        hits = list(texts_once.values())
        if self._reranker is not None and len(hits) > 1:
            pool = hits[:RERANK_POOL]
            try:
                texts = [hit.text for hit in pool]
                order = await self._reranker.order(query.question, texts)
                hits = [pool[number] for number in order] + hits[RERANK_POOL:]
            except AppError as error:
                logger.warning("the fused order stands", exc_info=error)
        if query.tokens is not None:
            best = _fill(CHARACTERS * query.tokens, hits)
        else:
            uids = {*list(dict.fromkeys(hit.uid for hit in hits))[: query.limit]}
            best = [hit for hit in hits if hit.uid in uids]
        return [
            replace(
                hit, match=replace(hit.match, similarity=self._space.similarity(hit.match.cosine))
            )
            for hit in best
        ]


def _drop_private(candidates: Sequence[Hit], text: str) -> list[Hit]:
    """Drop private facts, unless ``text`` names them, and messages that told nothing else.

    A message with a word of ``text`` stays: its code is masked, and the rest may be asked for.
    """
    private = {hit.uid: normalise(hit.text) for hit in candidates if hit.memory_type == PRIVATE}

    def is_shown(hit: Hit) -> bool:
        if hit.memory_type == PRIVATE:
            return gate.names_private(text, hit.text)
        tells_more = normalise(hit.text) != private.get(hit.uid)
        return tells_more or hit.match.bm25 > 0

    return [hit for hit in candidates if is_shown(hit)]


def _fill(characters: int, hits: Sequence[Hit]) -> list[Hit]:
    """Return the first hits whose texts fit."""
    filled: list[Hit] = []
    for hit in hits:
        characters -= min(len(hit.text), SHORT_PASSAGE)
        if characters < 0:
            break
        filled.append(hit)
    return filled


# The score of a candidate is a sum of absolute scores and priors; ``make bench`` measures the
# weights.

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
