"""The objects that every command shares, built once: database, repositories, model, agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from src.config import Settings
from src.graph.main_graph import build_graph
from src.graph.tools.current_time import build_current_time
from src.graph.tools.search_messages import build_search_messages
from src.llm.chat import ModelCaller, build_chat_model
from src.metrics import Metrics
from src.services.agent_service import AgentService
from src.services.command_service import CommandService
from src.services.tool_history_service import ToolHistoryService
from src.storage.conversation_repo import (
    ConversationRepository,
    set_conversation_repo_factory,
)
from src.storage.embedded_pg import EmbeddedPostgres
from src.storage.message_search_repo import MessageSearchRepository
from src.storage.migrations import migrate
from src.storage.pg_client import PgClient
from src.storage.tool_result_repo import ToolResultRepository
from src.storage.turn_repo import TurnRepository
from src.storage.update_repo import UpdateRepository
from src.storage.user_settings_repo import UserSettingsRepository

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
    user_settings: UserSettingsRepository
    agent: AgentService
    commands: CommandService


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
    try:
        yield await asyncio.to_thread(server.start)
    finally:
        await asyncio.to_thread(server.stop)


@asynccontextmanager
async def open_core(settings: Settings) -> AsyncIterator[Core]:
    """Open the database, bring it to the newest schema, and build what stands on it.

    Raises:
        StorageUnavailableError: The database cannot be reached.
        ConfigError: The database is newer than this program.
    """
    async with open_database(settings) as dsn:
        await asyncio.to_thread(migrate, dsn)
        client = PgClient(
            dsn, min_connections=settings.pg_pool_min, max_connections=settings.pg_pool_max
        )
        await asyncio.to_thread(client.open)
        try:
            yield build_core(settings, dsn, client)
        finally:
            set_conversation_repo_factory(None)
            await asyncio.to_thread(client.close)


def build_core(settings: Settings, dsn: str, client: PgClient) -> Core:
    """Wire the objects; nothing here connects to anything."""
    metrics = Metrics()
    conversations = ConversationRepository(client)
    set_conversation_repo_factory(lambda: conversations)
    turns = TurnRepository(client)
    tool_history = ToolHistoryService(client, ToolResultRepository(client))
    name = settings.chat_model_name
    graph = build_graph(
        ModelCaller(build_chat_model(settings), name, timeout=settings.llm_timeout),
        [build_current_time(), build_search_messages(client, MessageSearchRepository(client))],
        wrap_tool_call=tool_history.record,
        system_in_history=name.partition(":")[0] in SYSTEM_IN_HISTORY,
    )
    agent = AgentService(
        client=client,
        conversations=conversations,
        turns=turns,
        graph=graph,
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
        updates=UpdateRepository(client),
        user_settings=UserSettingsRepository(client),
        agent=agent,
        commands=CommandService(agent),
    )
