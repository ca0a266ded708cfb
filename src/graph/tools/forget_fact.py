"""Tool: forget what the user said."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolRuntime

from src.graph.conversation_state import TurnContext
from src.memory.memories import Memories

MAX_UIDS = 20


def build_forget_fact(memories: Memories) -> BaseTool:
    """The tool ``forget_fact``."""

    @tool
    async def forget_fact(uids: list[str], runtime: ToolRuntime[Any, Any]) -> str:
        """Forget for good what the user said in certain messages. Only when he asks for it.

        Args:
            uids: References of the memories to forget, such as ["msg-12"], from the memories
                that you see or from search_memory. Take only those that he means.

        Returns:
            JSON: {"forgotten": [texts]}; empty when nothing of his has these references.
        """
        context: TurnContext = runtime.context
        forgotten = await memories.forget(
            context.owner, uids[:MAX_UIDS], request_id=context.message_id
        )
        return json.dumps({"forgotten": forgotten}, ensure_ascii=False)

    return forget_fact
