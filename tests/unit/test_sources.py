"""What the references of an answer lead to."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from src.graph.conversation_state import TurnContext
from src.memory.retriever import Hit
from src.services.sources import cited_sources
from src.storage.owner import Owner
from src.storage.search_index_repo import Kind

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def hit(number: int, kind: Kind = "message", speaker: str = "user") -> Hit:
    return Hit(f"msg-{number}", kind, number, number, speaker, "текст", NOW, 1.0, 1.0)


def context(*hits: Hit) -> TurnContext:
    return TurnContext(
        Owner(1), UUID(int=1), 9, "?", NOW, "UTC", "ru", "assistant", 1, lambda _: None,
        sources=list(hits),
    )  # fmt: skip


def test_a_reference_leads_to_what_the_user_said_or_it_goes() -> None:
    shown = context(hit(1), hit(2, "summary"), hit(3, speaker="assistant"), hit(4, "memory"))
    text, sources = cited_sources("Да [1], так [2], эдак [3], всегда [4, 5].", shown)
    assert text == "Да [1], так, эдак, всегда [4]."
    assert [(s.number, s.uid, s.message_id, s.memory_id) for s in sources] == [
        (1, "msg-1", 1, None),
        (4, "msg-4", 4, 4),
    ]
