"""Objects that all commands share: database, repositories, models, services, agent."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import cache, partial

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import BaseTool

from src.base.config import OFFLINE_MODEL, Settings
from src.base.errors import AppError
from src.base.metrics import Metrics
from src.base.owners import Caller, Owner
from src.base.providers import find_provider
from src.base.zones import first_zone
from src.history.conversation_repo import ConversationRepository, set_conversation_repo_factory
from src.history.turn_repo import TurnRepository
from src.imports.screens import ImportScreens
from src.imports.service import ImportService, ReminderSteps
from src.llm import chat, embeddings, endpoints, tokens
from src.media.attachments import AttachmentService
from src.memory.batch_extraction import BatchExtractionService
from src.memory.budget import DailyCeilings
from src.memory.compaction import CompactionService
from src.memory.consolidation import ConsolidationService
from src.memory.embedding_space import ServingSpace
from src.memory.extraction import ExtractionService
from src.memory.indexer import Indexer
from src.memory.memories import Memories
from src.memory.retriever import Retriever
from src.memory.screens import MemoryScreens
from src.memory.search_index_repo import EmbeddingRepository, SearchIndexRepository
from src.memory.tasks import DigestService
from src.memory.writer import MemoryWriter
from src.offline.model import Embed, OfflineChatModel
from src.outside.connections import ConnectScreens, PageScreens
from src.outside.servers import McpServers
from src.pg.client import PgClient
from src.pg.embedded import open_newest_database
from src.pg.settings_repo import (
    GlobalSettingsRepository,
    SettingsService,
    UserSettings,
    UserSettingsRepository,
)
from src.privacy.export import ExportService
from src.queue import job_repo, update_repo
from src.reminders.day import DayService
from src.reminders.follow_ups import FollowUpService
from src.reminders.reminder_repo import ReminderRepository
from src.reminders.reminder_service import ReminderService
from src.reminders.screens import BriefScreens, ReminderScreens
from src.talk import commands, forms, main_graph, orders, prompt, questions, turn
from src.talk.forget_screens import ForgetScreens
from src.talk.search_screens import SearchScreens
from src.talk.settings import SettingsScreens, ZoneService
from src.talk.tools import ToolHistoryService, build_tools, useless_tools
from src.texts import choose_language

logger = logging.getLogger(__name__)


class MemoryRoom:
    """Parts of the memory that others use; building it connects to nothing.

    Attributes:
        memories: Facts, for graph, tools and commands.
        digest: Background work after a turn.
        batches: Extraction for many users by batch APIs.
        consolidation: Nightly comparison of facts.
        compaction: Summaries of messages that leave the window.
        summary_llm: Model of the summaries.
        retriever: Search, which ``memories`` uses.
        index: Search index.
        indexer: Fills the index; ``reembed`` uses it alone.
        space: Serving embedding model.
        embeddings: Stored embedding models.
        settings: Settings that an operator changes while the bot runs.
    """

    def __init__(
        self,
        settings: Settings,
        client: PgClient,
        stored: GlobalSettingsRepository,
        metrics: Metrics,
        ceilings: DailyCeilings,
    ) -> None:
        """Build the parts on ``client``."""
        self.settings = stored
        self.space = ServingSpace(
            lambda name: embeddings.build_embedder(settings, name, metrics),
            stored,
            settings.embedding_model,
            client,
        )
        self.retriever = Retriever(client, self.space, metrics, endpoints.build_reranker(settings))
        writer = MemoryWriter(client, self.space, stored)
        self.memories = Memories(client, self.retriever, writer, stored)
        self.index = SearchIndexRepository(client)
        self.indexer = Indexer(client, self.space)
        self.embeddings = EmbeddingRepository(client)
        self.summary_llm = build_caller(settings, settings.summary_model, metrics=metrics)
        self.compaction = CompactionService(client, stored, self.summary_llm, ceilings)
        callers = cache(partial(build_extraction_caller, settings, metrics))
        extraction = ExtractionService(client, self.memories, callers, ceilings, settings.timezone)
        names = (settings.summary_model, settings.extraction_model)
        providers = [find_provider(name or settings.chat_model_name) for name in names]
        is_near = any(one is not None and one.is_near(settings) for one in providers)
        self.digest = DigestService(
            client, stored, self.indexer, self.compaction, extraction, is_near
        )
        self.batches = BatchExtractionService(
            client, stored, extraction, ceilings, metrics, settings
        )
        self.consolidation = ConsolidationService(client, writer, self.space, metrics)

    async def close(self) -> None:
        """Close the connections of embedder, batch APIs and reranker."""
        await self.space.close()
        await self.batches.close()
        await self.retriever.close()


class Core:
    """Objects that all doors share; building it connects to nothing."""

    def __init__(
        self, settings: Settings, client: PgClient, *, extra_tools: Sequence[BaseTool] = ()
    ) -> None:
        """Build the objects on ``client``; the model may call ``extra_tools`` as well."""
        self.settings, self.client, self.dsn = settings, client, client.dsn
        self.metrics = Metrics()
        stored = GlobalSettingsRepository(client)
        self.conversations = ConversationRepository(client)
        set_conversation_repo_factory(lambda: self.conversations)
        self.turns = TurnRepository(client)
        self.updates = update_repo.UpdateRepository(client)
        self.dead_jobs = job_repo.JobDeathRepository(client)
        self.user_settings = UserSettingsRepository(client)
        self.exports = ExportService(client)
        self.live_settings = SettingsService(client, stored, settings)
        self.counter = tokens.TokenCounter(settings.chat_model_name)
        self.ceilings = DailyCeilings(
            client, stored, self.metrics, settings.timezone, settings.admin_user_ids
        )
        self.memory = MemoryRoom(settings, client, stored, self.metrics, self.ceilings)
        self.reminders = ReminderService(client)
        self.day = DayService(client, self.reminders.rows, self.memory.retriever)
        self.briefs = BriefScreens(client, self.day)
        self.follow_ups = FollowUpService(
            client,
            self.day,
            self.memory.memories,
            self.reminders.rows,
            lambda person: self.load_caller(Owner(person)),
        )
        memory = self.memory
        self.imports = ImportService(client, memory.indexer, memory.memories.writer, REMINDERS)
        self.servers = McpServers(settings.servers, self.metrics)
        self.attachments = AttachmentService(
            client,
            self.ceilings,
            transcriber=endpoints.build_transcriber(settings),
            vision=build_vision(settings, self.metrics),
        )
        self.questions = questions.QuestionService(client, self.memory.memories)
        self.zones = ZoneService(self.user_settings, self.reminders, client)
        self.orders = orders.Orders(
            client,
            self.memory.memories,
            self.zones,
            self.questions,
            self.briefs,
            self.reminders,
            self.follow_ups,
            has_model=settings.chat_model_name != OFFLINE_MODEL,
        )
        self.agent = turn.AgentService(
            client,
            self._build_graph(extra_tools),
            self.orders,
            settings=stored,
            ceilings=self.ceilings,
            metrics=self.metrics,
        )
        self.commands = self._build_commands()

    def caller(
        self,
        owner: Owner,
        chosen: UserSettings,
        *codes: str | None,
        member: int | None = None,
    ) -> Caller:
        """Build the caller; ``codes`` are languages of the caller's devices.

        They also choose the first time zone, which does not change with what is spoken; members
        of a group have one clock.
        """
        zone = self.settings.timezone
        if not owner.is_group:
            zone = first_zone(choose_language(*codes), zone)
        preferences = chosen.resolve(codes, zone)
        return Caller(owner, preferences, datetime.now(UTC), member=member)

    def load_caller(self, owner: Owner) -> Caller:
        """Build a caller with the settings stored of the owner; it blocks."""
        return self.caller(owner, self.user_settings.get(owner.telegram_user_id))

    async def close(self) -> None:
        """Close the connections that were opened since."""
        await self.servers.close()
        await self.memory.close()

    async def warm_up(self) -> None:
        """Load the embedder, which every turn needs.

        A failure does not prevent the start: the turn that needs it fails again, and reports it.
        """
        try:
            await (await self.memory.space.current()).embed_query("?")
        except AppError as error:
            logger.warning("the memory is not warm", exc_info=error)

    async def read_ahead(self) -> None:
        """Let a server in the operator's network process the common beginning of all prompts.

        So the first user does not wait for it. With a provider, the call would cost money.
        """
        provider = find_provider(self.settings.chat_model_name)
        is_near = provider is not None and provider.is_near(self.settings)
        if provider is None or not is_near or not provider.has_openai_client:
            return
        if self.settings.llm_calls == "form":
            return  # that prompt is short, and depends on the user's language
        try:
            await self.servers.wait_until_connected()
            useless = useless_tools(memory_on=True, has_reminders=False, has_files=False)
            own = (tool for tool in self._tools if tool.name not in useless)
            tools = [*own, *self.servers.tools()]
            start = [SystemMessage(prompt.system_prompt(self.settings.persona)), HumanMessage("?")]
            await self._caller.read_ahead(self._caller.with_tools(tools), start)
        except AppError as error:
            logger.info("the model has not read its prompt ahead", exc_info=error)

    def _build_graph(self, extra_tools: Sequence[BaseTool]) -> main_graph.Graph:
        settings, client, memories = self.settings, self.client, self.memory.memories
        provider = find_provider(settings.chat_model_name)
        self._caller = build_caller(
            settings,
            counter=self.counter,
            metrics=self.metrics,
            embed=self.memory.space.embed_line,
        )
        models = main_graph.Models(
            caller=self._caller,
            compaction=self.memory.compaction,
            counter=self.counter,
            context_size=settings.llm_context_size,
            system_in_history=provider is None or provider.takes_system_in_history,
            persona=settings.persona,
            forms=forms.FormFilling.of(settings, self._caller, self.memory.space.embed_line),
        )
        self._tools = [
            *build_tools(
                memories,
                self.reminders,
                self.zones,
                self.attachments,
                for_notebook=settings.chat_model_name == OFFLINE_MODEL,
            ),
            *extra_tools,
        ]
        return main_graph.build_graph(
            models,
            self._tools,
            memories,
            reminders=self.reminders,
            lent_tools=self.servers.tools,
            tool_runs=ToolHistoryService(client),
        )

    def _build_commands(self) -> commands.CommandService:
        client, memories, settings = self.client, self.memory.memories, self.settings
        features = commands.Features.of(settings)
        facts, has_model = MemoryScreens(memories, client, settings.app_url), features.has_model
        return commands.CommandService(
            self.agent,
            memories,
            client,
            screens=facts,
            search=SearchScreens(memories, client, facts, self.memory.compaction, has_model),
            forgetting=ForgetScreens(memories, self.reminders, client, facts, has_model),
            questions=self.questions,
            pages=commands.Pages(memories, self.ceilings, self.servers, features),
            settings=SettingsScreens(self.user_settings, self.zones, client),
            reminders=ReminderScreens(self.reminders, self.briefs, self.follow_ups),
            connecting=ConnectScreens(client, settings.memory_server_url),
            outside=PageScreens(client, settings.page_url),
            exports=self.exports,
            imports=ImportScreens(self.imports, client, settings, self.memory.settings),
            features=features,
        )


# The steps on reminders that imports take.
REMINDERS = ReminderSteps(
    lambda transaction, owner, columns: ReminderRepository(transaction).restore(owner, columns),
    lambda transaction, owner, ids: ReminderRepository(transaction).remove(owner, ids),
)


@asynccontextmanager
async def open_core(
    settings: Settings, dsn: str | None = None, *, extra_tools: Sequence[BaseTool] = ()
) -> AsyncIterator[Core]:
    """Open the database, and build the core on it.

    Args:
        settings: The settings.
        dsn: Address from ``open_newest_database``; without it, the database of the settings
            is opened.
        extra_tools: Tools for the model beside our own.

    Raises:
        StorageUnavailableError: The database cannot be reached.
        ConfigError: See ``open_newest_database``.
    """
    async with AsyncExitStack() as stack:
        if dsn is None:
            dsn = await stack.enter_async_context(open_newest_database(settings))
        client = PgClient(
            dsn, min_connections=settings.pg_pool_min, max_connections=settings.pg_pool_max
        )
        await asyncio.to_thread(client.open)
        stack.push_async_callback(asyncio.to_thread, client.close)
        stack.callback(set_conversation_repo_factory, None)
        core = Core(settings, client, extra_tools=extra_tools)
        stack.push_async_callback(core.close)
        yield core


def build_vision(settings: Settings, metrics: Metrics) -> chat.ModelCaller | None:
    """Build the caller for pictures: ``VISION_MODEL``, else the chat model, unless offline."""
    name = settings.vision_model or settings.chat_model_name
    if name == OFFLINE_MODEL:
        return None
    return build_caller(settings, name, metrics=metrics)


def build_prompt_cache(settings: Settings) -> chat.PromptCache:
    """Build the cache of prompt beginnings for the provider of the chat model."""
    provider = find_provider(settings.chat_model_name)
    if provider is not None and provider.keeps_prompts(settings):
        if provider.prompt_cache == "keyed":
            return chat.add_key
        if provider.prompt_cache == "marked":
            return chat.add_marks
    return chat.send_as_is


def build_extraction_caller(settings: Settings, metrics: Metrics, name: str) -> chat.ModelCaller:
    """Build the caller that extracts facts: model ``name``, else ``EXTRACTION_MODEL``."""
    provider = find_provider(name)
    if name and (provider is None or not provider.is_configured(settings)):
        logger.warning("memory_extraction_model has no provider or key: EXTRACTION_MODEL reads")
        name = ""
    return build_caller(settings, name or settings.extraction_model, metrics=metrics)


def build_chat_model(
    settings: Settings, name: str | None = None, embed: Embed | None = None
) -> BaseChatModel:
    """Build the chat model ``name``, a provider's or the notebook; default: ``LLM_MODEL``."""
    name = name or settings.chat_model_name
    if name == OFFLINE_MODEL:
        return OfflineChatModel(embed=embed)
    return chat.build_provider_model(settings, name)


def build_caller(
    settings: Settings,
    name: str | None = None,
    counter: tokens.TokenCounter | None = None,
    metrics: Metrics | None = None,
    embed: Embed | None = None,
) -> chat.ModelCaller:
    """Build the caller of a chat model, by default of ``LLM_MODEL``.

    Args:
        settings: The settings.
        name: Name of the model.
        counter: Learns the number of tokens from the replies; with it, beginnings are cached.
        metrics: Counts the calls.
        embed: Embeds lines for the notebook.
    """
    name = name or settings.chat_model_name
    model = build_chat_model(settings, name, embed)
    cache = build_prompt_cache(settings) if counter else chat.send_as_is
    return chat.ModelCaller(
        model,
        name,
        timeout=settings.llm_timeout,
        first_timeout=settings.first_token_timeout(name),
        counter=counter,
        metrics=metrics,
        cache=cache,
        may_think_first=settings.is_own_server(name),
        may_take_form=settings.is_own_server(name) and settings.llm_calls != "tools",
    )
