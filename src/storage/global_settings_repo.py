"""What an operator may change while the bot runs: one row of ``global_settings``."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, fields

from src.storage.pg_client import PgClient
from src.storage.repository import Repository

FRESH_SECONDS = 5.0  # a change is in force after so long at most


@dataclass(frozen=True)
class GlobalSettings:
    """The row; names, defaults and the numbers of the three tiers.

    Attributes:
        memory_extraction_enabled: Whether facts are extracted in the background.
        memory_extraction_window: Messages that one extraction reads.
        memory_extraction_silence_minutes: A shorter window is read after so long a silence.
        memory_dedup_threshold: Similarity from which a new fact is compared with an old one.
        memory_update_threshold: Similarity from which two facts may be the same.
        memory_retrieve_limit: How many memories are put before the model.
        memory_retrieve_threshold: Their least similarity.
        max_memories_per_user: Facts beyond it are retired, the least important first.
        summary_messages: Messages that one summary takes in.
        summaries_shown: Summaries in the prompt.
        summaries_kept: More than these are merged into one.
        history_step: Messages by which the window's start moves.
        background_calls_per_hour: Model calls for summaries and extraction that one owner gets.
        answer_max_characters: An answer is cut after so many.
        answer_max_parts: An answer is cut after so many Telegram messages.
        answer_max_seconds: What a model has written after so many is its answer.
    """

    memory_extraction_enabled: bool = True
    memory_extraction_window: int = 20
    memory_extraction_silence_minutes: int = 60
    memory_dedup_threshold: float = 0.6
    memory_update_threshold: float = 0.95
    memory_retrieve_limit: int = 5
    memory_retrieve_threshold: float = 0.6
    max_memories_per_user: int = 1000
    summary_messages: int = 6
    summaries_shown: int = 3
    summaries_kept: int = 6
    history_step: int = 10
    background_calls_per_hour: int = 120
    answer_max_characters: int = 30_000
    answer_max_parts: int = 10
    answer_max_seconds: int = 120


# The one row, whose columns are called as the fields.
SELECT_SETTINGS = "SELECT {columns} FROM global_settings WHERE id = 1".replace(
    "{columns}", ", ".join(field.name for field in fields(GlobalSettings))
)


class GlobalSettingsRepository(Repository):
    """Reads the row, at most once in ``FRESH_SECONDS``; the method blocks."""

    def __init__(self, client: PgClient) -> None:
        """Nothing is read yet."""
        super().__init__(client)
        self._lock = threading.Lock()
        self._settings = GlobalSettings()
        self._read_at = float("-inf")

    @property
    def last_known(self) -> GlobalSettings:
        """What ``get`` returned last, however old; the defaults before that."""
        return self._settings

    def get(self) -> GlobalSettings:
        """The settings, at most a few seconds old; the defaults when the row was deleted."""
        with self._lock:
            if time.monotonic() - self._read_at > FRESH_SECONDS:
                row = self._client.fetch_one(SELECT_SETTINGS)
                self._settings = GlobalSettings(*row) if row else GlobalSettings()
                self._read_at = time.monotonic()
            return self._settings
