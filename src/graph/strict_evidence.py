"""What strict mode may use: facts, and what the user said himself; nothing that a model wrote."""

from __future__ import annotations

from collections.abc import Sequence

from src.graph.conversation_state import TurnContext
from src.graph.privacy import recall
from src.memory.memories import Memories
from src.memory.retriever import Hit, Query
from src.storage.conversation_repo import HistoryMessage
from src.storage.search_index_repo import Kind

TAUGHT: tuple[Kind, ...] = ("memory", "message")
MIN_TEXT = 5  # characters; shorter ones say nothing


async def search_taught(
    memories: Memories,
    context: TurnContext,
    history: Sequence[HistoryMessage],
    text: str,
    *,
    limit: int,
    with_retired: bool = False,
) -> list[Hit]:
    """Facts and statements of the user that fit ``text``.

    Args:
        memories: The memory.
        context: The turn; its own message is left out.
        history: Ends with the message that is answered.
        text: What to look for.
        limit: How many at most.
        with_retired: Also what was replaced, if the text asks for what was before.
    """
    settings = await memories.settings()
    query = Query(
        context.owner,
        text,
        context.now,
        limit=2 * limit,
        threshold=settings.memory_retrieve_threshold,
        conversation_id=context.conversation_id,
        before_position=history[-1]["position"] if history else 0,
        kinds=TAUGHT,
        speaker_id=context.speaker_id,
    )
    hits = await recall(memories, context, query)
    taught = [hit for hit in hits if hit.is_own and _tells(hit)]
    return [hit for hit in taught if with_retired or not hit.retired][:limit]


def _tells(hit: Hit) -> bool:
    """A question tells nothing, neither does a word."""
    text = hit.text.strip()
    return len(text) >= MIN_TEXT and not text.endswith("?")
