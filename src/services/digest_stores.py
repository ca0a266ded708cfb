"""What compaction and extraction read and write."""

from __future__ import annotations

from dataclasses import dataclass

from src.storage.conversation_repo import ConversationRepository
from src.storage.extraction_repo import ExtractionRepository
from src.storage.global_settings_repo import GlobalSettingsRepository
from src.storage.pg_client import PgClient
from src.storage.summary_repo import SummaryRepository
from src.storage.turn_repo import TurnRepository


@dataclass(frozen=True)
class DigestStores:
    """The repositories of the background work, on one client."""

    client: PgClient
    conversations: ConversationRepository
    summaries: SummaryRepository
    extraction: ExtractionRepository
    turns: TurnRepository
    settings: GlobalSettingsRepository
