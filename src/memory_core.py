"""The memory, wired: search, writing, and what the background does; built once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from src.config import Settings
from src.dates.time_expressions import read_time
from src.language.terms import terms
from src.language.words import content_words
from src.llm.chat import ModelCaller, build_chat_model
from src.llm.embedding_cache import CachingEmbedder
from src.llm.embeddings import build_embedder
from src.llm.rerank import build_reranker
from src.llm.tokens import TokenCounter
from src.memory.embedding_space import EmbeddingSpace
from src.memory.forgetter import Forgetter
from src.memory.indexer import Indexer
from src.memory.memories import Forgetting, Memories
from src.memory.retriever import Retriever
from src.memory.writer import MemoryWriter, fact_terms
from src.metrics import Metrics
from src.services.compaction_service import CompactionService
from src.services.digest_service import DigestService
from src.services.extraction_service import ExtractionService
from src.storage.embedding_repo import EmbeddingRepository
from src.storage.forgetting_repo import ForgettingRepository
from src.storage.global_settings_repo import GlobalSettingsRepository
from src.storage.memory_repo import MemoryRepository
from src.storage.overview_repo import OverviewRepository
from src.storage.repositories import Repositories
from src.storage.retrieval_repo import RetrievalRepository
from src.storage.search_index_repo import SearchIndexRepository
from src.storage.undo_repo import UndoRepository


@dataclass(frozen=True)
class MemoryCore:
    """The parts of the memory that others use.

    Attributes:
        memories: What graph, tools and commands call.
        turns: What the background does after a turn.
        summary_llm: The model that summarises.
        retriever: Searches, under ``memories``.
        index: What the index holds.
        indexer: Fills the index; ``reembed`` uses it alone.
        space: The embedding model.
        embeddings: What is stored of embedding models.
        settings: What an operator may change while the bot runs.
    """

    memories: Memories
    turns: DigestService
    summary_llm: ModelCaller
    retriever: Retriever
    index: SearchIndexRepository
    indexer: Indexer
    space: EmbeddingSpace
    embeddings: EmbeddingRepository
    settings: GlobalSettingsRepository

    async def warm_up(self) -> None:
        """Load what the first search would wait for.

        Raises:
            AppError: The database or the embedder is away.
        """
        read_time("5 марта", datetime.now(UTC))
        content_words("слово")
        await self.space.model()
        await self.space.embed_query("?")

    async def close(self) -> None:
        """Close the connections to the embedder and the reranker."""
        await self.space.close()
        await self.retriever.close()


def build_memory(settings: Settings, repositories: Repositories, metrics: Metrics) -> MemoryCore:
    """Wire the memory; nothing here connects to anything or starts a model."""
    client, stored = repositories.client, repositories.settings
    embeddings = EmbeddingRepository(client)
    index = SearchIndexRepository(client)
    space = EmbeddingSpace(CachingEmbedder(build_embedder(settings, metrics)), client, embeddings)
    retriever = Retriever(
        client,
        RetrievalRepository(client),
        space,
        OverviewRepository(client),
        reranker=build_reranker(settings),
    )
    facts = MemoryRepository(client)
    memories = Memories(
        client,
        facts,
        Forgetting(
            Forgetter(client, ForgettingRepository(terms)), UndoRepository(terms, fact_terms)
        ),
        retriever,
        MemoryWriter(client, facts, space, stored),
        stored,
    )
    indexer = Indexer(client, index, embeddings, space)
    summary_llm = build_caller(settings, settings.summary_model)
    compaction = CompactionService(repositories, summary_llm)
    extraction = ExtractionService(
        repositories,
        memories,
        build_caller(settings, settings.extraction_model),
        time_zone=settings.timezone,
    )
    return MemoryCore(
        memories=memories,
        turns=DigestService(repositories, index, indexer, compaction, extraction),
        summary_llm=summary_llm,
        retriever=retriever,
        index=index,
        indexer=indexer,
        space=space,
        embeddings=embeddings,
        settings=stored,
    )


def build_caller(
    settings: Settings, name: str | None = None, counter: TokenCounter | None = None
) -> ModelCaller:
    """The caller of a chat model, by default of ``LLM_MODEL``; ``counter`` learns from it."""
    name = name or settings.chat_model_name
    model = build_chat_model(settings, name)
    return ModelCaller(model, name, timeout=settings.llm_timeout, counter=counter)
