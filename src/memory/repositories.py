"""The repositories that the services share, on one client."""

from __future__ import annotations

from dataclasses import dataclass

from src.history.conversation_repo import ConversationRepository
from src.history.turn_repo import TurnRepository
from src.memory.digest_repo import BatchRepository, ExtractionRepository, SummaryRepository
from src.pg.client import PgClient
from src.pg.global_settings_repo import GlobalSettingsRepository
from src.queue.update_repo import UpdateRepository


@dataclass(frozen=True)
class Repositories:
    """One of each; a service keeps all of them and names the one that it asks."""

    client: PgClient
    conversations: ConversationRepository
    turns: TurnRepository
    updates: UpdateRepository
    summaries: SummaryRepository
    extraction: ExtractionRepository
    settings: GlobalSettingsRepository
    batches: BatchRepository

    @classmethod
    def on(cls, client: PgClient) -> Repositories:
        """All of them; nothing here connects to anything."""
        return cls(
            client,
            ConversationRepository(client),
            TurnRepository(client),
            UpdateRepository(client),
            SummaryRepository(client),
            ExtractionRepository(client),
            GlobalSettingsRepository(client),
            BatchRepository(client),
        )
