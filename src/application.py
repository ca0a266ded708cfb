"""The objects that every command shares, built once: database, repositories, model, agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from langchain_core.tools import BaseTool

from src.config import OFFLINE_MODEL, Settings
from src.errors import AppError
from src.graph.main_graph import Graph, Models, build_graph
from src.graph.tools.current_time import build_current_time
from src.graph.tools.forget_fact import build_forget_everything, build_forget_fact
from src.graph.tools.keep_private import build_keep_private
from src.graph.tools.save_user_fact import build_save_user_fact
from src.graph.tools.search_memory import build_search_memory
from src.llm.tokens import TokenCounter
from src.memory_core import MemoryCore, build_caller, build_memory
from src.metrics import Metrics
from src.services.agent_service import AgentService
from src.services.command_service import CommandService
from src.services.tool_history_service import ToolHistoryService
from src.shutdown import SHUTDOWN
from src.storage.conversation_repo import (
    ConversationRepository,
    set_conversation_repo_factory,
)
from src.storage.embedded_pg import EmbeddedPostgres
from src.storage.job_death_repo import JobDeathRepository
from src.storage.migrations import migrate
from src.storage.pg_client import PgClient
from src.storage.put_aside_repo import PutAsideRepository
from src.storage.repositories import Repositories
from src.storage.tool_result_repo import ToolResultRepository
from src.storage.turn_repo import TurnRepository
from src.storage.update_repo import UpdateRepository
from src.storage.user_settings_repo import UserSettingsRepository

logger = logging.getLogger(__name__)

# Providers whose API takes a system message between the others.
SYSTEM_IN_HISTORY = frozenset({"openai", "offline"})


@dataclass(frozen=True)
class Core:
    """What the console, the bot and the workers have in common."""

    settings: Settings
    dsn: str
    client: PgClient
    metrics: Metrics
    conversations: ConversationRepository
    turns: TurnRepository
    updates: UpdateRepository
    deaths: JobDeathRepository
    put_aside: PutAsideRepository
    user_settings: UserSettingsRepository
    memory: MemoryCore
    agent: AgentService
    commands: CommandService
    counter: TokenCounter

    async def warm_up(self) -> None:
        """Load what the first turn would wait for: patterns, the embedder.

        A failure is no reason not to start: it is met again, and told, when a turn needs it.
        """
        try:
            await self.memory.warm_up()
        except AppError as error:
            logger.warning("the memory is not warm", exc_info=error)


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[str]:
    """The address of the database; without a configured one, the embedded server runs meanwhile.

    Raises:
        StorageUnavailableError: The embedded server did not start.
    """
    if settings.database_dsn is not None:
        yield settings.database_dsn
        return
    server = EmbeddedPostgres(settings.data_dir)
    SHUTDOWN.at_worst(server.abandon)
    try:
        dsn = await asyncio.to_thread(server.start)
        server.look_after()
        yield dsn
    finally:
        await asyncio.to_thread(server.stop)


@asynccontextmanager
async def open_core(
    settings: Settings, *, extra_tools: Sequence[BaseTool] = ()
) -> AsyncIterator[Core]:
    """Open the database, bring it to the newest schema, and build what stands on it.

    Args:
        settings: The settings.
        extra_tools: What the model may call beside our own tools.

    Raises:
        StorageUnavailableError: The database cannot be reached.
        ConfigError: The database is newer than this program.
    """
    async with AsyncExitStack() as stack:
        dsn = await stack.enter_async_context(open_database(settings))
        await asyncio.to_thread(migrate, dsn)
        client = PgClient(
            dsn, min_connections=settings.pg_pool_min, max_connections=settings.pg_pool_max
        )
        await asyncio.to_thread(client.open)
        stack.push_async_callback(asyncio.to_thread, client.close)
        stack.callback(set_conversation_repo_factory, None)
        core = build_core(settings, dsn, client, extra_tools=extra_tools)
        stack.push_async_callback(core.memory.close)
        yield core


def build_core(
    settings: Settings, dsn: str, client: PgClient, *, extra_tools: Sequence[BaseTool] = ()
) -> Core:
    """Wire the objects; nothing here connects to anything."""
    metrics = Metrics()
    repositories = Repositories.on(client)
    conversations = repositories.conversations
    set_conversation_repo_factory(lambda: conversations)
    turns = repositories.turns
    memory = build_memory(settings, repositories, metrics)
    tool_history = ToolHistoryService(client, ToolResultRepository(client))
    counter = TokenCounter(settings.chat_model_name)
    user_settings = UserSettingsRepository(client)
    agent = AgentService(
        repositories,
        _build_graph(settings, memory, tool_history, counter, extra_tools),
        memory.memories,
        tool_history=tool_history,
        metrics=metrics,
    )
    return Core(
        settings=settings,
        dsn=dsn,
        client=client,
        metrics=metrics,
        conversations=conversations,
        turns=turns,
        updates=repositories.updates,
        deaths=JobDeathRepository(client),
        put_aside=PutAsideRepository(client),
        user_settings=user_settings,
        memory=memory,
        agent=agent,
        commands=CommandService(
            agent,
            memory.memories,
            user_settings,
            client,
            has_model=settings.chat_model_name != OFFLINE_MODEL,
        ),
        counter=counter,
    )


def _build_graph(
    settings: Settings,
    memory: MemoryCore,
    tool_history: ToolHistoryService,
    counter: TokenCounter,
    extra_tools: Sequence[BaseTool],
) -> Graph:
    """The graph with its models and tools."""
    name = settings.chat_model_name
    models = Models(
        caller=build_caller(settings, counter=counter),
        summary_llm=memory.summary_llm,
        counter=counter,
        context_size=settings.llm_context_size,
        system_in_history=name.partition(":")[0] in SYSTEM_IN_HISTORY,
    )
    memories = memory.memories
    tools = [
        build_current_time(),
        build_save_user_fact(memories),
        build_search_memory(memories),
        build_forget_fact(memories),
        build_forget_everything(),
        build_keep_private(memories),
        *extra_tools,
    ]
    return build_graph(models, tools, memories, wrap_tool_call=tool_history.record)
