"""Search of messages, facts and summaries by words, meaning and time, and overviews by kind."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Literal, cast

from src.base.errors import AppError, StorageError
from src.base.metrics import Metrics
from src.base.owners import Owner
from src.llm.endpoints import Reranker
from src.memory.crosslingual import term_groups
from src.memory.embedding_space import ServingSpace
from src.memory.indexer import is_mere_question
from src.memory.memory_repo import FactQuery, MemoryRepository, StoredFact
from src.memory.ranking import rank
from src.memory.retrieval_repo import (
    MAX_HIT_TEXT,
    NOTHING_SHOWN,
    Hit,
    RetrievalRepository,
    SearchRequest,
    Shown,
    fact_as_hit,
)
from src.memory.search_index_repo import DocumentKind
from src.memory.thresholds import LEXICAL_WEIGHT, RELATED
from src.pg.client import PgClient
from src.reading import facts, gate, requests
from src.reading.facts import PRIVATE, canonical_subject
from src.reading.lexicon import key_of
from src.reading.sentences import best_passage
from src.reading.time_expressions import Period, TimeQuery, read_time
from src.reading.words import entity_forms
from src.texts.morphology import WORD, terms
from src.texts.plain_text import normalise

logger = logging.getLogger(__name__)

# Requests for an overview: facts about the user or their family, or messages of a period. They are
# answered by kind and time: no word and no vector of "what do you know about me?" leads to a fact.

OverviewKind = Literal["profile", "family", "work", "wishes", "period"]


@dataclass(frozen=True)
class Overview:
    """Kind and periods of a requested overview.

    Attributes:
        kind: ``profile``: facts of every kind; ``family``: facts about kin; ``work``; ``wishes``:
            how to answer; ``period``: messages of the user.
        periods: Half-open periods to which it is limited; empty for all time.
    """

    kind: OverviewKind
    periods: Sequence[Period] = ()


FAMILY = [
    "mother",
    "father",
    "parents",
    "brother",
    "sister",
    "son",
    "daughter",
    "child",
    "wife",
    "husband",
    "partner",
    "grandmother",
    "grandfather",
    "aunt",
    "uncle",
    "cousin",
    "family",
]
# Subjects and relations of the facts in an overview; None: every subject.
OVERVIEWS: Mapping[str, tuple[list[str] | None, list[str]]] = {
    "profile": (None, []),
    "family": (FAMILY, ["has_child", "has_sibling", "has_parent", "married_to", "partner"]),
    "work": ([], ["works_as", "works_at", "studies_at", "studies"]),
    "wishes": ([], ["wish"]),
}


def read_overview(text: str, now: datetime) -> Overview | None:
    """Return the overview that a message asks for; None if it asks for something else.

    Args:
        text: The message.
        now: The owner's local time (aware), for "yesterday".
    """
    kind = requests.overview_of(text)
    if kind is not None:
        return Overview(cast("OverviewKind", kind))
    time = read_time(text, now)
    if time.periods and requests.asks_what_was_said(time.content):
        return Overview("period", time.periods)
    return None


EMBED_DEADLINE = 1.0  # seconds, more than a remote model takes; then the search uses words alone
RERANK_POOL = 30  # documents that the reranker sorts
MAX_QUERY = 2000  # characters
PASSAGE = 600  # characters of a message that are shown
# The same where hits fill a prompt. In 3,000 tokens 400 show 78.0 % of BEAM's right messages, and
# in them 82.7 % of the words of the answers; 600 show 77.0 and 83.6 %, 300 show 78.8 and 79.2 %.
SHORT_PASSAGE = 400
CHARACTERS = 4  # of a token of a record, at most
TOKENS = 50  # of a short message in a prompt
Bounds = tuple[datetime | None, datetime | None]
MIN_OVERVIEW = 20  # minimum of lines in an overview; the prompt's budget cuts it


@dataclass(frozen=True)
class Query:
    """A search with its filters.

    Attributes:
        owner: Whose memory is searched.
        text: The question, or any text.
        now: The owner's local time (aware), for "last week".
        limit: Maximum number of hits, or with ``tokens`` of facts among them; a message and the
            facts that it told count as one.
        threshold: Least similarity (see ``EmbeddingSpace.similarity``) in meaning and words, or
            least share of the words of the document with most of them, unless a document shares
            links or time with the query.
        shown: What the prompt shows already.
        with_assistant: True to include the bot's messages; see ``SearchRequest``.
        with_questions: True to include the user's own mere questions, although the text does not
            ask for them.
        kinds: Kinds of documents that count.
        by_words_only: True to send the text to no embedder.
        types: Types of facts that count; None for all of them and for messages.
        period: Earliest time of writing, and its end (aware), exclusive.
        speaker_id: In a group, the asker: an overview lists what they told.
        tokens: Part of a prompt that the hits fill, each text once; there may be a few more than
            fit. None for hits by number.
    """

    owner: Owner
    text: str
    now: datetime
    limit: int = 5
    threshold: float = RELATED
    shown: Shown = NOTHING_SHOWN
    with_assistant: bool = False
    with_questions: bool = False
    kinds: Sequence[DocumentKind] = ("message", "memory", "summary")
    by_words_only: bool = False
    types: Sequence[str] | None = None
    period: Bounds = (None, None)
    speaker_id: int | None = None
    tokens: int | None = None

    @property
    def most(self) -> int:
        """Number of short messages that ``tokens`` have room for; 0 for hits by number."""
        tokens = self.tokens or 0
        return tokens // TOKENS

    def overview(self) -> Overview | None:
        """Return the overview that the text, or a listing without a text, asks for."""
        if self.text.strip():
            return read_overview(self.text, self.now)
        if self.types is not None and not {"message", "summary"} & set(self.types):
            return Overview("profile")
        return Overview("period")


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
            return await self._search_and_rank(query)
        except StorageError as error:
            logger.warning("nothing could be searched", exc_info=error)
            return []

    async def find_candidates(self, query: Query) -> tuple[list[Hit], TimeQuery]:
        """Return the unranked candidates of all channels, and what the query says of time.

        Raises:
            StorageError: The database is away.
        """
        text = _query_text(query.text)
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
                terms=_asked_terms(text, time),
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
            of_kind = (fact for fact in facts if _is_of_kind(fact, overview.kind))
            hits = (fact_as_hit(fact) for fact in of_kind)
            entries = [
                hit
                for hit in hits
                if _matches_filters(hit, query)
                and not hit.is_over(query.now)
                and query.speaker_id in (None, hit.author.id)
            ]
        return [entry for entry in entries if not gate.holds_secret(entry.text)][:limit]

    async def _search_and_rank(self, query: Query) -> list[Hit]:
        candidates, time = await self.find_candidates(query)
        ranked = rank(_drop_private(candidates, query.text), _query_text(query.text), time)
        most = max((hit.match.bm25 for hit in ranked), default=0.0)
        relevant = [hit for hit in ranked if self._is_relevant(hit, query, time, most)]
        relevant.sort(key=lambda hit: hit.memory_type != PRIVATE)  # the user asked for it by name
        return await self._complete_texts(query, await self._select_best(query, relevant))

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
        words = frozenset(terms(_query_text(query.text)))
        size = PASSAGE if query.tokens is None else SHORT_PASSAGE
        shown = []
        for hit in hits:
            if hit.memory_type == PRIVATE:
                hit = replace(hit, text=hit.words)
            if hit.kind == "message" and len(hit.text) > size:
                text = texts.get(hit.source_id, hit.text)
                hit = replace(hit, text=best_passage(text, words, size))
            shown.append(hit)
        return shown

    def _is_relevant(self, document: Hit, query: Query, time: TimeQuery, most: float) -> bool:
        """Return True if a document fits in kind and filters, and in link, time, words or meaning.

        ``most`` is the BM25F of the document with most of the query's words.
        """
        if document.kind not in query.kinds or not _matches_filters(document, query):
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
        hits = _dedupe(ranked)
        if self._reranker is not None and len(hits) > 1:
            pool = hits[:RERANK_POOL]
            try:
                texts = [hit.text for hit in pool]
                order = await self._reranker.order(_query_text(query.text), texts)
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
                hit,
                match=replace(hit.match, similarity=self._space.similarity(hit.match.cosine)),
            )
            for hit in best
        ]


def _is_of_kind(fact: StoredFact, kind: OverviewKind) -> bool:
    subjects, relations = OVERVIEWS[kind]
    is_about = subjects is None or fact.fact.subject in subjects
    return is_about or fact.fact.relation in relations


def _matches_filters(document: Hit, query: Query) -> bool:
    said_at = document.said_at
    since, until = query.period
    if since is not None and said_at < since:
        return False
    if until is not None and said_at >= until:
        return False
    return query.types is None or (document.memory_type or document.kind) in query.types


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


def _asked_terms(text: str, time: TimeQuery) -> list[tuple[str, ...]]:
    """Return the search terms of a question: its words without those of its periods, save months.

    A note may name the month without having been told in it.
    """
    months = [word for word in WORD.findall(text) if key_of("time.month", word.lower())]
    words = f"{time.content or text} {' '.join(months) if time.periods else ''}"
    return [*term_groups(words), *((term,) for term in facts.asked_relations(text))]


def _query_text(text: str) -> str:
    """Return the end of a long text, where the question stands."""
    return text[-MAX_QUERY:].strip()


def entity_terms(text: str) -> list[str]:
    """Return terms by which a query may name an entity: words, and roles in canonical form."""
    asked = WORD.findall(text)[:64]
    roles = " ".join(canonical_subject(word) for word in asked)
    named = sorted(entity_forms(f"{' '.join(asked)} {roles}"))
    return list(dict.fromkeys([*terms(text), *terms(roles), *named]))


def _dedupe(ranked: Sequence[Hit]) -> list[Hit]:
    """Keep each text once, and of a message and its facts the kind that ranks best."""
    kinds: dict[str, str] = {}
    hits = [hit for hit in ranked if kinds.setdefault(hit.uid, hit.kind) == hit.kind]
    texts: dict[tuple[object, ...], Hit] = {}
    for hit in hits:
        texts.setdefault((hit.speaker, hit.author.name, hit.retired, normalise(hit.text)), hit)
    return list(texts.values())


def _fill(characters: int, hits: Sequence[Hit]) -> list[Hit]:
    """Return the first hits whose texts fit."""
    filled: list[Hit] = []
    for hit in hits:
        characters -= min(len(hit.text), SHORT_PASSAGE)
        if characters < 0:
            break
        filled.append(hit)
    return filled
