"""The node after the tools: what their results mean for the rest of the turn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from langchain_core.messages import AnyMessage, ToolMessage

from src.graph.conversation_state import ConversationState
from src.graph.findings import finding_of, numbered
from src.graph.tool_calls import NOT_RUN, may_go_on
from src.graph.tools.search_memory import renumbered
from src.llm.tokens import TokenCounter
from src.memory.retriever import Hit


async def update_state_after_tool(
    state: ConversationState, *, counter: TokenCounter
) -> ConversationState:
    """Collect what the tools of the round that just ended have found and done.

    Reads: ``messages``, ``tools_used``, ``sources``, ``shown_facts``, ``asks``.
    Updates: ``tools_used``, ``tools_allowed``, ``fact_added_in_last_run``, ``sources``,
    ``shown_facts``, ``asks``, ``current_token_count``; ``messages``, where two searches of the
    round gave one number to different memories.
    Side effects: none.
    """
    before, round_ = _split(state["messages"])
    results, sources = _numbered(round_, state.get("sources", ()))
    findings = [finding_of(result) for result in results]
    messages = [*before, *results]
    ran = [result.name or "unknown" for result in results if result.artifact != NOT_RUN]
    asks = [finding.asks for finding in findings if finding.asks]
    shown = [finding.shown_facts for finding in findings]
    return {
        "messages": [new for old, new in zip(round_, results, strict=True) if old is not new],
        "tools_used": [*state["tools_used"], *ran],
        "tools_allowed": may_go_on(messages),
        "fact_added_in_last_run": any(finding.facts_changed for finding in findings),
        "sources": sources,
        "shown_facts": state.get("shown_facts", frozenset()).union(*shown),
        "asks": next(iter(asks), state.get("asks")),
        "current_token_count": counter.count_messages(messages),
    }


def _split(messages: Sequence[AnyMessage]) -> tuple[list[AnyMessage], list[ToolMessage]]:
    """The messages, and the results at their end."""
    last = list(takewhile(lambda message: isinstance(message, ToolMessage), reversed(messages)))
    results = [message for message in reversed(last) if isinstance(message, ToolMessage)]
    return list(messages[: len(messages) - len(results)]), results


def _numbered(
    results: Sequence[ToolMessage], sources: Sequence[Hit]
) -> tuple[list[ToolMessage], list[Hit]]:
    """The results, in which each memory has the number under which it is cited."""
    known = list(sources)
    told = []
    for result in results:
        hits = finding_of(result).hits
        numbers, known = numbered(known, hits)
        told.append(renumbered(result, numbers) if hits else result)
    return told, known
