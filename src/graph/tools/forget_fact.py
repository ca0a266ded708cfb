"""Tools: forget what the user said, one thing or all of it."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolRuntime

from src.graph.conversation_state import TurnContext
from src.graph.findings import Finding
from src.memory.memories import Memories
from src.storage.turn_repo import Changes

MAX_IDS = 20


def build_forget_fact(memories: Memories) -> BaseTool:
    """The tool ``forget_fact``."""

    @tool(response_format="content_and_artifact")
    async def forget_fact(
        runtime: ToolRuntime[Any, Any],
        ids: list[str] | None = None,
        about: str = "",
        everything: bool = False,
    ) -> tuple[str, Finding]:
        """Forget what the user said. Only when he asks for it; he can undo it for ten minutes.

        Args:
            ids: Exactly these facts, such as ["fact-12"], when you see the ones that he means.
                "msg-12" stands for a whole message with all that it told: only when he wants
                the message itself forgotten.
            about: Else his own words for it, such as "that I play football" or "my cat".
            everything: True when he wants everything about it forgotten, not one thing.

        Returns:
            JSON: {"forgotten": [texts], "ask": [{"id", "text"}], "nearest": [{"id", "text"}]}.
            With "ask", several fit and nothing is forgotten: ask him which. With "nearest",
            none fits and nothing is forgotten: say so, and name these.
        """
        context: TurnContext = runtime.context
        if ids:
            found = await memories.forget(
                context.owner, ids[:MAX_IDS], request_id=context.message_id,
                speaker_id=context.speaker_id,
            )  # fmt: skip
        else:
            found = await memories.forget_about(
                context.owner, about, everything=everything, request_id=context.message_id,
                speaker_id=context.speaker_id,
            )  # fmt: skip
        told = {
            "forgotten": list(found.texts),
            "ask": [{"id": one.id, "text": one.text} for one in found.ask],
            "nearest": [{"id": one.id, "text": one.text} for one in found.nearest],
        }
        return json.dumps(told, ensure_ascii=False), Finding(
            changes=Changes(forgetting=found.number), facts_changed=bool(found.texts)
        )

    return forget_fact


def build_forget_everything() -> BaseTool:
    """The tool ``forget_everything``."""

    @tool(response_format="content_and_artifact")
    async def forget_everything(runtime: ToolRuntime[Any, Any]) -> tuple[str, Finding]:
        """Begin to erase everything that is known and stored of the user. Only when he asks
        that all of it be forgotten.

        Returns:
            JSON: {"confirm": true}. Nothing is erased yet: the program asks him to confirm, in
            place of your answer. In a group it is false: nobody erases what others told.
        """
        context: TurnContext = runtime.context
        may_ask = not context.owner.is_group
        return json.dumps({"confirm": may_ask}), Finding(asks="erase_all" if may_ask else None)

    return forget_everything
