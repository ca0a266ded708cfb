"""How often the background asks again when a model's reply makes no sense."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

MAX_REPLIES = 3  # without sense, to one question; then it is left as if it had been refused
MAX_QUESTIONS = 10_000  # that are remembered; the worst of forgetting them is to ask again


class Patience:
    """Counts the senseless replies to each question: a conversation's window.

    A model that is away is waited for as long as it takes. One that answers with nonsense may do
    so for ever, and its conversation would never be digested, at a call a minute.
    """

    def __init__(self) -> None:
        """Everything is still worth asking."""
        self._replies: Counter[tuple[UUID, int, int]] = Counter()

    def is_over(self, conversation_id: UUID, first: int, last: int) -> bool:
        """Note one more senseless reply about these positions; whether it was the last."""
        if len(self._replies) >= MAX_QUESTIONS:
            self._replies.clear()
        question = conversation_id, first, last
        self._replies[question] += 1
        return self._replies[question] >= MAX_REPLIES

    def forget(self, conversation_id: UUID, first: int, last: int) -> None:
        """The question has its answer."""
        self._replies.pop((conversation_id, first, last), None)
