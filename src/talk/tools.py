"""The tools that the model may call: their list, and the one that tells the time anywhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytz
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolRuntime

from src.base.zone_names import find_time_zone
from src.memory.memories import Memories
from src.memory.tools import (
    build_forget_everything,
    build_forget_fact,
    build_keep_private,
    build_save_user_fact,
    build_search_memory,
)
from src.memory.turn_context import TurnContext
from src.reminders.reminder_service import ReminderService
from src.reminders.tools import build_cancel_reminder, build_list_reminders, build_set_reminder


def build_current_time() -> BaseTool:
    """The tool ``current_time``."""

    @tool
    def current_time(runtime: ToolRuntime[Any, Any], time_zone: str = "") -> str:
        """Tell the current date, time and weekday in a time zone.

        Args:
            time_zone: A name of the tz database, such as Europe/Kyiv, or a city in the user's
                language; empty for the user's own time zone.
        """
        context: TurnContext = runtime.context
        name = find_time_zone(time_zone) if time_zone.strip() else context.time_zone
        if name is None:
            raise ValueError(
                f"{time_zone[:60]!r} is no time zone; write Area/City, such as Europe/Kyiv"
            )
        zone = pytz.timezone(name)
        now = datetime.now(UTC).astimezone(zone)
        return f"{now:%Y-%m-%d %H:%M, %A} ({zone.zone}, UTC{now:%z})"

    return current_time


# All take ``ToolRuntime[Any, Any]``, whose context is a ``TurnContext``: pydantic would otherwise
# describe that class once per tool, which takes as long as all the rest of building one. A tool
# that finds or changes something returns a ``Finding`` beside its text
# (``response_format="content_and_artifact"``).


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
