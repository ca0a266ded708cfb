"""Tool: remember the message that is answered nowhere."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolRuntime

from src.graph.conversation_state import TurnContext
from src.graph.findings import Finding
from src.memory.memories import Memories


def build_keep_private(memories: Memories) -> BaseTool:
    """The tool ``keep_private``."""

    @tool(response_format="content_and_artifact")
    async def keep_private(runtime: ToolRuntime[Any, Any]) -> tuple[str, Finding]:
        """Keep the user's message out of the memory. Call it when he asks not to remember it.

        Answer him as usual; do not save anything of that message.

        Returns:
            JSON: {"private": true}.
        """
        context: TurnContext = runtime.context
        await memories.keep_private(context.owner, context.message_id)
        return json.dumps({"private": True}), Finding(facts_changed=True)

    return keep_private
