"""The state that flows through the graph, and what surrounds one run of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, TypedDict
from uuid import UUID

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages

from src.storage.conversation_repo import HistoryMessage
from src.storage.turn_repo import ModelUsage


class ConversationState(TypedDict, total=False):
    """What the nodes read and write.

    Attributes:
        history: The last 30 messages, oldest first, the one to answer last. Set by the
            service (seed 001), read by ``init_state``.
        messages: The prompt as it grows: system prompt, history, the model's messages and tool
            results of this turn. Owned by ``init_state``, ``assistant`` and ``tools``.
        tools_used: Names of the tools that ran, in order. Owned by
            ``update_state_after_tool``, read by the service.
        answer: The final text. Owned by ``assistant``, read by the service.
    """

    history: list[HistoryMessage]
    messages: Annotated[list[AnyMessage], add_messages]
    tools_used: list[str]
    answer: str


@dataclass
class TurnContext:
    """What one run of the graph is about; LangGraph hands it to nodes and tools as it is.

    Attributes:
        telegram_user_id: The owner: a person, or a group's negative chat id.
        conversation_id: The conversation.
        message_id: The user message that is answered.
        moment: When it was written.
        time_zone: The owner's zone, a tz database name.
        on_text: Called with each piece of the answer as the model writes it.
        usage: Filled with one entry per model call.
    """

    telegram_user_id: int
    conversation_id: UUID
    message_id: int
    moment: datetime
    time_zone: str
    on_text: Callable[[str], None]
    usage: list[ModelUsage] = field(default_factory=list)
