"""The node after the tools: what their results mean for the rest of the turn."""

from __future__ import annotations

from langchain_core.messages import ToolMessage

from src.graph.conversation_state import ConversationState
from src.graph.findings import finding_of, numbered
from src.graph.tool_calls import NOT_RUN, may_go_on
from src.graph.tools.search_memory import renumbered
from src.llm.tokens import TokenCounter


async def update_state_after_tool(
    state: ConversationState, *, counter: TokenCounter
) -> ConversationState:
    """Collect what the tools of the round that just ended have found and done.

    Reads: ``messages``, ``tools_used``, ``sources``, ``shown_facts``, ``asks``.
    Updates: ``tools_used``, ``tools_allowed``, ``fact_added_in_last_run``, ``sources``,
    ``shown_facts``, ``asks``, ``current_token_count``; ``messages``: two searches of one round
    gave the same numbers to different memories.
    Side effects: none.
    """
    messages, sources = list(state["messages"]), list(state.get("sources", ()))
    others = (n for n, m in enumerate(messages, start=1) if not isinstance(m, ToolMessage))
    begin = max(others, default=0)
    for place, result in enumerate(messages[begin:], start=begin):
        numbers, sources = numbered(sources, hits := finding_of(result).hits)
        if hits and isinstance(result, ToolMessage):
            messages[place] = renumbered(result, numbers)
    results = [message for message in messages[begin:] if isinstance(message, ToolMessage)]
    findings = [finding_of(result) for result in results]
    ran = [result.name or "unknown" for result in results if result.artifact != NOT_RUN]
    asks = [finding.asks for finding in findings if finding.asks]
    return {
        "messages": messages[begin:],  # in place of themselves
        "tools_used": [*state["tools_used"], *ran],
        "tools_allowed": may_go_on(messages),
        "fact_added_in_last_run": any(finding.facts_changed for finding in findings),
        "sources": sources,
        "shown_facts": state.get("shown_facts", frozenset()).union(
            *(finding.shown_facts for finding in findings)
        ),
        "asks": asks[0] if asks else state.get("asks"),
        "current_token_count": counter.count_messages(messages),
    }
