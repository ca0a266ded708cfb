"""Tools: look at a picture again, for what its description does not say."""

from __future__ import annotations

import json
import logging
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from pydantic import Field

from src.base.errors import AppError
from src.llm.quoting import Form
from src.llm.tool_forms import form_tool
from src.media.attachments import AttachmentService
from src.memory.turn_context import TurnContext
from src.texts import detect_language

logger = logging.getLogger(__name__)

TIMEOUT = 120.0  # seconds: a picture is fetched, and a model looks at it


LOOK = "Look again at a picture; if seen is false, say so and answer from its description."


class LookOrder(Form):
    """What is looked for, and in which picture."""

    question: str = Field(description="in the user's language")
    uid: str = Field(default="", description="such as msg-12; empty: the newest")
    back: int = Field(default=0, description="1: the one before")


def build_look_at_picture(attachments: AttachmentService) -> BaseTool:
    """The tool ``look_at_picture``."""

    async def look_at_picture(runtime: ToolRuntime[Any, Any], order: LookOrder) -> str:
        context: TurnContext = runtime.context
        room = context.conversation_id
        found = await attachments.find_picture(
            context.owner, room, uid=order.uid.strip(), back=order.back
        )
        if found is None:
            return json.dumps({"seen": False})
        file_id, description = found
        language = detect_language(context.text, context.language)
        try:
            answer = await attachments.look_again(file_id, order.question[:1000], language, room)
        except AppError as error:
            logger.info("a picture could not be looked at again", exc_info=error)
            answer = ""
        told = {"answer": answer} if answer else {"description": description}
        return json.dumps({"seen": bool(answer), **told}, ensure_ascii=False)

    built = form_tool(look_at_picture, LookOrder, LOOK, with_finding=False)
    built.metadata = {"timeout": TIMEOUT}
    return built
