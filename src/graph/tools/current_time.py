"""Tool: the current time anywhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytz
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolRuntime

from src.graph.conversation_state import TurnContext
from src.language.cities import find_time_zone


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
