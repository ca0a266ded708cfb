"""The page of ``/tools``: what the bot can use, and how its servers are."""

from __future__ import annotations

from collections.abc import Sequence

from src.mcp_servers.servers import ServerState
from src.texts import Language, say

MAX_PAGE = 3500  # characters; with our own tools it stays within one message of Telegram's
MAX_LINES = 12  # tools of one server


def tools_page(states: Sequence[ServerState], language: Language) -> str:
    """Our own tools in plain words, then each server with the names of what it offers.

    Descriptions and names of tools are words of others: they are on one line each, and short.
    """
    own = say("tools_own", language)
    if not states:
        return f"{own}\n\n{say('tools_none', language)}"
    parts, left = [own, say("tools_servers", language)], MAX_PAGE
    for number, state in enumerate(states):
        part = _server_part(state, language)
        left -= len(part)
        if left < 0:
            parts.append(say("tools_more", language, count=len(states) - number))
            break
        parts.append(part)
    return "\n\n".join(parts)


def _server_part(state: ServerState, language: Language) -> str:
    if not state.is_ready:
        key = "tools_away" if state.cause else "tools_connecting"
        return f"• {state.name}: {say(key, language)}"
    lines = [f"• {state.name}: {say('tools_ready', language, count=len(state.tools))}"]
    lines += [
        f"   {name} — {title}" if title else f"   {name}"
        for name, title in state.tools[:MAX_LINES]
    ]
    hidden = len(state.tools) - MAX_LINES
    if hidden > 0:
        lines.append(f"   {say('tools_more', language, count=hidden)}")
    return "\n".join(lines)
