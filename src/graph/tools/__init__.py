"""The tools that the model may call, one per file; here is the list of them.

They take ``ToolRuntime[Any, Any]``, whose context is a ``TurnContext``: pydantic would otherwise
describe that class once per tool, which takes as long as all the rest of building one. A tool that
finds or changes something returns a ``Finding`` beside its text
(``response_format="content_and_artifact"``).
"""

from __future__ import annotations

from langchain_core.tools import BaseTool

from src.graph.tools.current_time import build_current_time
from src.graph.tools.forget_fact import build_forget_everything, build_forget_fact
from src.graph.tools.keep_private import build_keep_private
from src.graph.tools.list_reminders import build_cancel_reminder, build_list_reminders
from src.graph.tools.save_user_fact import build_save_user_fact
from src.graph.tools.search_memory import build_search_memory
from src.graph.tools.set_reminder import build_set_reminder
from src.memory.memories import Memories
from src.reminders.reminder_service import ReminderService


def build_tools(memories: Memories, reminders: ReminderService) -> list[BaseTool]:
    """Every tool, in the order in which the model is told of them."""
    return [
        build_current_time(),
        build_save_user_fact(memories),
        build_search_memory(memories),
        build_forget_fact(memories),
        build_forget_everything(),
        build_keep_private(memories),
        build_set_reminder(reminders),
        build_list_reminders(reminders),
        build_cancel_reminder(reminders),
    ]
