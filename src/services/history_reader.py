"""What a turn needs of the past: the last messages, and the summaries of those before them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from src.memory.window import WINDOW, window_start
from src.storage.conversation_repo import ConversationRepository, HistoryMessage
from src.storage.global_settings_repo import GlobalSettingsRepository
from src.storage.summary_repo import SummaryRepository


@dataclass(frozen=True)
class Past:
    """The last 30 messages, where the rendered window starts, and the summaries before it."""

    history: tuple[HistoryMessage, ...]
    start: int
    summaries: tuple[str, ...]


class HistoryReader:
    """Reads it in one thread; the method blocks (see ``PgClient.run``)."""

    def __init__(
        self,
        conversations: ConversationRepository,
        summaries: SummaryRepository,
        settings: GlobalSettingsRepository,
    ) -> None:
        """Read through these."""
        self._conversations = conversations
        self._summaries = summaries
        self._settings = settings

    def read(self, conversation_id: UUID) -> Past:
        """One query; two once messages have left the window.

        Raises:
            StorageError: The database is away.
        """
        history = tuple(self._conversations.load_last_messages(conversation_id, WINDOW))
        settings = self._settings.get()
        last = history[-1]["position"] if history else 0
        start = window_start(last, step=settings.history_step)
        summaries: tuple[str, ...] = ()
        if start > 1:
            shown = self._summaries.list_shown(
                conversation_id, start, limit=settings.summaries_shown
            )
            summaries = tuple(summary.content for summary in shown)
        return Past(history, start, summaries)
