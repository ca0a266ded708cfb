"""Tool: the current time anywhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytz
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolRuntime

from src.graph.conversation_state import TurnContext


def build_current_time() -> BaseTool:
    """The tool ``current_time``."""

    @tool
    def current_time(runtime: ToolRuntime[Any, Any], time_zone: str = "") -> str:
        """Tell the current date, time and weekday in a time zone.

        Args:
            time_zone: A name of the tz database, such as Europe/Kyiv or Asia/Tokyo; empty
                for the user's own time zone.
        """
        context: TurnContext = runtime.context
        name = time_zone.strip() or context.time_zone
        try:
            zone = pytz.timezone(name)
        except pytz.UnknownTimeZoneError:
            raise ValueError(
                f"{name[:60]!r} is no time zone; write Area/City, such as Europe/Kyiv"
            ) from None
        now = datetime.now(UTC).astimezone(zone)
        return f"{now:%Y-%m-%d %H:%M, %A} ({zone.zone}, UTC{now:%z})"

    return current_time
