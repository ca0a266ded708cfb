"""The repositories that the services share, on one client."""

from __future__ import annotations

from dataclasses import dataclass

from src.storage.batch_repo import BatchRepository
from src.storage.conversation_repo import ConversationRepository
from src.storage.erasure_repo import ErasureRepository
from src.storage.extraction_repo import ExtractionRepository
from src.storage.global_settings_repo import GlobalSettingsRepository
from src.storage.pg_client import PgClient
from src.storage.summary_repo import SummaryRepository
from src.storage.turn_repo import TurnRepository
from src.storage.update_repo import UpdateRepository


@dataclass(frozen=True)
class Repositories:
    """One of each; a service keeps all of them and names the one that it asks."""

    client: PgClient
    conversations: ConversationRepository
    turns: TurnRepository
    updates: UpdateRepository
    summaries: SummaryRepository
    extraction: ExtractionRepository
    erasure: ErasureRepository
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
            ErasureRepository(client),
            GlobalSettingsRepository(client),
            BatchRepository(client),
        )
