"""Finds what was said earlier, and what is known: by words, by meaning, by time, by kind."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal, cast
from uuid import UUID

from src.base.errors import AppError, StorageError
from src.base.metrics import Metrics
from src.base.owners import Owner
from src.llm.endpoints import Reranker
from src.memory.embedding_space import RELATED, ServingSpace
from src.memory.ranking import RankedQuery, rank
from src.memory.retrieval_repo import MAX_SHOWN, Hit, RetrievalRepository, SearchRequest
from src.memory.search_index_repo import Kind
from src.pg.client import PgClient
from src.reading.facts import PRIVATE, canonical_subject
from src.reading.gate import asks_for, holds_secret
from src.reading.relations import asked_relations
from src.reading.requests import asks_what_was_said, overview_of
from src.reading.sentences import best_passage
from src.reading.time_expressions import Period, TimeQuery, read_time
from src.texts.morphology import WORD, terms

logger = logging.getLogger(__name__)

# Questions for an overview: what is known of the user, of their family, or was said in a period.
#
# They are answered by kind and by time: no word and no vector of "what do you know about me?"
# leads to what is known.

OverviewKind = Literal["profile", "family", "work", "wishes", "period"]


@dataclass(frozen=True)
class Overview:
    """What is to be listed.

    Attributes:
        kind: ``profile``: facts of every kind; ``family``: about kin; ``work``; ``wishes``: how to
            answer; ``period``: what the user said then.
        periods: Half-open periods to which it is bound; none: all of time.
    """

    kind: OverviewKind
    periods: Sequence[Period] = ()


def read_overview(text: str, now: datetime) -> Overview | None:
    """The overview that a message asks for; None when it asks for something else.

    Args:
        text: The message.
        now: The owner's local time (aware), for "yesterday".
    """
    kind = overview_of(text)
    if kind is not None:
        return Overview(cast("OverviewKind", kind))
    time = read_time(text, now)
    if time.periods and asks_what_was_said(time.content):
        return Overview("period", time.periods)
    return None


EMBED_DEADLINE = 1.0  # seconds, more than a remote model takes; then words alone are searched
RERANKED = 30  # documents that a cross-encoder looks at
MAX_QUERY = 2000  # characters
PASSAGE = 600  # characters of a message that are shown
Bounds = tuple[datetime | None, datetime | None]
OVERVIEW = 20  # lines of an overview at least; it is cut to the prompt's budget afterwards


@dataclass(frozen=True)
class Query:
    """What is looked for, and where not to look.

    Attributes:
        owner: Whose memory.
        text: The question, or any text.
        now: The owner's local time (aware), for "last week".
        limit: How many hits at most; a message and the facts that it told are one.
        threshold: The least similarity (see ``EmbeddingSpace.similarity``) of what shares
            neither words nor links nor time with the query: a soft floor.
        conversation_id: With ``before_position``: messages from there on are in the prompt.
        before_position: See ``conversation_id``.
        with_assistant: Also what the bot said; see ``SearchRequest``.
        kinds: Which documents count.
        by_words_only: Whether the text goes to no embedder.
        types: Which types of facts count; None: all of them, and messages.
        since: Only what was said from then on (aware).
        until: Only what was said before (aware).
        speaker_id: In a group, who asks: an overview lists what they told.
        is_all_shown: Whether the prompt shows all that there is to find; an overview lists it.
    """

    owner: Owner
    text: str
    now: datetime
    limit: int = 5
    threshold: float = RELATED
    conversation_id: UUID | None = None
    before_position: int = 0
    with_assistant: bool = False
    kinds: Sequence[Kind] = ("message", "memory", "summary")
    by_words_only: bool = False
    types: Sequence[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    speaker_id: int | None = None
    is_all_shown: bool = False

    def overview(self) -> Overview | None:
        """The overview that is asked for: by the text, or by a listing without a text."""
        if self.text.strip():
            return read_overview(self.text, self.now)
        if self.types is not None and not {"message", "summary"} & set(self.types):
            return Overview("profile")
        return Overview("period")


@dataclass(eq=False, repr=False)
class Retriever:
    """Searches one owner's messages, facts and summaries together.

    It compares in ``_space``; the reranker, if there is one, has the last word on the order.
    """

    _client: PgClient
    _space: ServingSpace
    _metrics: Metrics
    _reranker: Reranker | None = None

    def __post_init__(self) -> None:
        """Build what it needs on the client."""
        self._repository = RetrievalRepository(self._client)
        self._ahead: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Close the reranker's connections."""
        if self._reranker is not None:
            await self._reranker.close()

    def prepare(self, text: str) -> None:
        """Start to embed a text that is about to be searched for."""
        task = asyncio.create_task(self._embed_ahead(_searched(text)))
        self._ahead.add(task)
        task.add_done_callback(self._ahead.discard)

    async def _embed_ahead(self, text: str) -> None:
        with suppress(AppError, TimeoutError):  # the search itself logs it
            async with asyncio.timeout(EMBED_DEADLINE):
                await self._space.embed_query(text)

    async def search(self, query: Query) -> list[Hit]:
        """The best hits, best first; never fails: what is broken is logged and left out.

        A question for an overview ("what do you know about me?") is answered by kind and time.
        """
        try:
            overview = query.overview()
            if overview is not None:
                listed = await self._list(query, overview)
                if listed or overview.kind != "work":  # no fact may be about work
                    return listed
            return await self._search(query)
        except StorageError as error:
            logger.warning("nothing could be searched", exc_info=error)
            return []

    async def find_candidates(self, query: Query) -> tuple[list[Hit], RankedQuery]:
        """What the channels find, before it is ranked, and how the query was understood.

        Raises:
            StorageError: The database is away.
        """
        text = _searched(query.text)
        time = read_time(text, query.now)
        vector, model_id = None, None
        if not query.by_words_only:
            vector, model_id = await self._space.embed_within(
                EMBED_DEADLINE, text, is_query=True, otherwise="the search goes by words alone"
            )
            if vector is None:
                self._metrics.searches_by_words.inc()
        candidates = await self._client.run(
            self._repository.search,
            SearchRequest(
                owner=query.owner,
                terms=list({*terms(time.content or text), *asked_relations(text)}),
                entity_terms=entity_terms(text),
                vector=vector,
                model_id=model_id,
                periods=[(period.start, period.end) for period in time.periods],
                conversation_id=query.conversation_id,
                before_position=query.before_position,
                with_assistant=query.with_assistant,
                with_retired=time.wants_history,
            ),
        )
        words = frozenset(word.removesuffix("'s") for word in WORD.findall(text.lower()))
        return candidates, RankedQuery(words, time)

    async def _list(self, query: Query, overview: Overview) -> list[Hit]:
        """Facts by kind, or messages by time; every period that the overview names."""
        limit = max(query.limit, OVERVIEW)
        bounds: list[Bounds] = [(p.start, p.end) for p in overview.periods]
        entries: Callable[..., list[Hit]] = partial(
            self._repository.list_messages,
            conversation_id=query.conversation_id,
            before_position=query.before_position,
        )
        if overview.kind != "period":
            list_facts = partial(self._repository.list_facts, about=overview.kind)
            entries = partial(list_facts, types=query.types, speaker_id=query.speaker_id)
        listed: list[Hit] = []
        for period in bounds or [(query.since, query.until)]:
            listed += await self._client.run(entries, query.owner, period=period, limit=limit)
        return [entry for entry in listed if not holds_secret(entry.text)][:limit]

    async def _search(self, query: Query) -> list[Hit]:
        if query.limit < 1 or query.is_all_shown:
            return []
        candidates, understood = await self.find_candidates(query)
        time = understood.time
        ranked = rank(_without_private(candidates, query.text), understood)
        shown = [hit for hit in ranked if self._is_shown(hit, query, time)]
        shown.sort(key=lambda hit: hit.memory_type != PRIVATE)  # it was asked for
        best = await self._best(query, shown)
        hits = await self._with_passages(query, await self._with_successors(query, best))
        return await self._with_secrets(query, hits)

    async def _with_secrets(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """The hits, with the secrets of the private facts among them."""
        private = [hit.source_id for hit in hits if hit.memory_type == PRIVATE]
        if not private:
            return hits
        told = await self._client.run(self._repository.read_private, query.owner, private)
        return [
            replace(hit, text=told[hit.source_id], quote=told[hit.source_id])
            if hit.memory_type == PRIVATE and hit.source_id in told
            else hit
            for hit in hits
        ]

    async def _with_passages(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """The hits, of long messages the passage that fits the query, by meaning or by words."""
        cut = [
            hit.source_id
            for hit in hits
            if hit.kind == "message" and not hit.starts_at and len(hit.text) >= MAX_SHOWN
        ]
        whole = (
            await self._client.run(self._repository.read_texts, query.owner, cut) if cut else {}
        )
        wanted = frozenset(terms(_searched(query.text)))
        return [
            replace(hit, text=best_passage(whole.get(hit.source_id, hit.text), wanted, PASSAGE))
            if hit.kind == "message" and len(hit.text) > PASSAGE
            else hit
            for hit in hits
        ]

    async def _with_successors(self, query: Query, hits: Sequence[Hit]) -> list[Hit]:
        """The hits, with what holds now before each fact that it replaced or ended."""
        retired = [hit for hit in hits if hit.retired]
        if not retired:
            return list(hits)
        successors = await self._client.run(
            self._repository.find_successors,
            query.owner,
            facts=[hit.source_id for hit in retired if hit.kind == "memory"],
            messages=[hit.source_id for hit in retired if hit.kind == "message"],
        )
        asked_for = {*_without_private(list(successors.values()), query.text)}
        successors = {of: hit for of, hit in successors.items() if hit in asked_for}
        found = {hit.source_id: hit for hit in hits if hit.kind == "memory"}
        ordered: dict[tuple[Kind, int], Hit] = {}
        for hit in hits:
            entry = successors.get((hit.kind, hit.source_id)) if hit.retired else None
            if entry is not None:
                now = found.get(entry.source_id, entry)
                ordered.setdefault((now.kind, now.source_id), now)
            successor = entry.source_id if entry is not None else None
            ordered.setdefault((hit.kind, hit.source_id), replace(hit, successor=successor))
        told = {entry.uid for entry in successors.values()}  # which stand there as facts
        return [
            hit
            for hit in ordered.values()
            if hit.kind != "message" or hit.retired or hit.uid not in told
        ]

    def _is_shown(self, document: Hit, query: Query, time: TimeQuery) -> bool:
        if document.kind not in query.kinds or not _is_wanted(document, query):
            return False
        moment = query.now.astimezone(UTC)
        until = document.valid_until  # what had ended when it was told stays true
        ended = until is not None and document.said_at < until <= moment
        if ended and document.retired_at is None and not time.wants_history and not time.periods:
            return False
        if document.hops is not None or document.bm25 > 0:
            return True
        if any(p.start <= document.said_at < p.end for p in time.periods):
            return True
        return self._space.similarity(document.cosine or 0.0) >= query.threshold

    async def _best(self, query: Query, ranked: Sequence[Hit]) -> list[Hit]:
        hits = _deduped(ranked)
        if self._reranker is not None and len(hits) > 1:
            pool = hits[:RERANKED]
            try:
                texts = [hit.text for hit in pool]
                order = await self._reranker.order(_searched(query.text), texts)
                hits = [pool[number] for number in order] + hits[RERANKED:]
            except AppError as error:
                logger.warning("the fused order stands", exc_info=error)
        shown = {*list(dict.fromkeys(hit.uid for hit in hits))[: query.limit]}
        return [replace(hit, similarity=self._similarity(hit)) for hit in hits if hit.uid in shown]

    def _similarity(self, hit: Hit) -> float:
        """Without a vector it is 0."""
        return self._space.similarity(hit.cosine) if hit.cosine is not None else 0.0


def _is_wanted(document: Hit, query: Query) -> bool:
    """Whether it is of the types, and was said in the time, to which the query is bound."""
    said = document.said_at
    if query.since is not None and said < query.since:
        return False
    if query.until is not None and said >= query.until:
        return False
    return query.types is None or (document.memory_type or document.kind) in query.types


def _without_private(candidates: Sequence[Hit], text: str) -> list[Hit]:
    """The candidates; of private facts those that are asked for by name, without their message."""
    private = {
        one.uid: asks_for(text, one.text) for one in candidates if one.memory_type == PRIVATE
    }
    return [
        one
        for one in candidates
        if one.uid not in private or (one.memory_type == PRIVATE and private[one.uid])
    ]


def _searched(text: str) -> str:
    """What is searched for: of a long message its end, where the question stands."""
    return text[-MAX_QUERY:].strip()


def entity_terms(text: str) -> list[str]:
    """The terms by which a query may name an entity: its words, and roles in canonical form."""
    roles = (canonical_subject(word) for word in WORD.findall(text.lower())[:64])
    return list(dict.fromkeys([*terms(text), *(term for role in roles for term in terms(role))]))


def _deduped(ranked: Sequence[Hit]) -> list[Hit]:
    """Dedupe a message and the facts that it told: whichever kind ranks better stays."""
    kinds: dict[str, str] = {}
    return [hit for hit in ranked if kinds.setdefault(hit.uid, hit.kind) == hit.kind]
