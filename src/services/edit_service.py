"""An edited message: history and memory follow its new words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from src.graph.privacy import wants_privacy
from src.memory.cutting import spans
from src.storage.conversation_repo import TelegramOrigin
from src.storage.edit_repo import Edited, EditRepository
from src.storage.locks import lock_facts, lock_history
from src.storage.owner import Owner
from src.storage.pg_client import PgClient, Transaction, storable
from src.storage.undo_repo import UndoRepository

What = Literal["unknown", "same", "older", "last"]


@dataclass(frozen=True)
class EditOutcome:
    """What an edit was about.

    Attributes:
        what: ``unknown``: the message is not kept; ``same``: nothing of its words changed;
            ``older``: others came after it; ``last``: it waits for a new answer.
        leftover: Telegram messages of the old answer beside its first, to be deleted.
    """

    what: What
    leftover: Sequence[int] = ()


class EditService:
    """Carries edits out, each in one transaction; it blocks (see ``PgClient.run``)."""

    def __init__(self, client: PgClient, edits: EditRepository, undoing: UndoRepository) -> None:
        """Write through ``edits``; ``undoing`` brings back what a withdrawn fact replaced."""
        self._client = client
        self._edits = edits
        self._undoing = undoing

    def take(
        self, owner: Owner, origin: TelegramOrigin, text: str, *, is_own: bool
    ) -> EditOutcome:
        """Let a message say ``text``; facts that only its old words told are retired.

        What such a fact had replaced holds again. The answer to the last message is deleted, so
        that it is given anew. A second call, after a crash, finds a last message without an answer
        and says so again.

        Args:
            owner: The chat; the topic is the message's own.
            origin: Where it stands in Telegram.
            text: What it says now.
            is_own: Whether its sender typed it himself, so that it may wish to be private.
        """
        private = wants_privacy(text, is_own=is_own)

        def work(transaction: Transaction) -> EditOutcome:
            lock_history(transaction, owner.telegram_user_id)
            edited = self._edits.find(transaction, owner.telegram_user_id, origin)
            if edited is None:
                return EditOutcome("unknown")
            place = Owner(owner.telegram_user_id, edited.thread_id)
            if edited.text == storable(text):
                unanswered = edited.is_last and not edited.is_answered
                return EditOutcome("last" if unanswered else "same")
            lock_facts(transaction, place)
            self._edits.set_text(transaction, place, edited, origin, text)
            self._withdraw(transaction, place, edited, text)
            if private:
                self._edits.keep_private(transaction, place, edited)
            elif edited.was_read:
                self._edits.read_again(transaction, place, edited)
            if not edited.is_last:
                return EditOutcome("older")
            self._edits.delete_answer(transaction, place, edited)
            return EditOutcome("last", edited.shown_in[1:])

        return self._client.in_transaction(work)

    def _withdraw(self, transaction: Transaction, owner: Owner, edited: Edited, text: str) -> None:
        for memory_id, quote, has_others in self._edits.list_told(transaction, owner, edited):
            if spans(text, quote):
                continue
            self._edits.untell(transaction, owner, edited, memory_id, has_others=has_others)
            if not has_others:
                self._undoing.restore_replaced(transaction, owner, memory_id)
