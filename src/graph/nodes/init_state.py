"""The first node: the prompt from the stored history."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from src.graph.conversation_state import ConversationState, TurnContext, in_place_of_all, new_turn
from src.graph.new_messages import file_names, new_messages, own_words, shown
from src.graph.prompt_budget import within_budget
from src.llm.prompts.memory_context import summary_text
from src.llm.prompts.new_words import with_own_words
from src.llm.tokens import TokenCounter
from src.storage.conversation_repo import HistoryMessage

# Tokens. With the budgets of ``load_facts`` and ``retrieve_memories``, and the 200 to 300 tokens
# of the words around them, the memory takes 2,500 at most.
BUDGET = 500
EARLIER = "…"  # what an answer at the window's start replies to


async def init_state(
    state: ConversationState,
    runtime: Runtime[TurnContext],
    *,
    system_prompt: str,
    system_in_history: bool,
    counter: TokenCounter,
    context_size: int,
) -> ConversationState:
    """Build the prompt: the static system prompt, the summaries, then the window of the history.

    Reads: ``history``, ``summaries``.
    Updates: ``messages``, ``current_token_count``, ``llm_context_size``, and whatever the turn
    before may have left.
    Side effects: none.
    """
    start = runtime.context.window_start
    window = [entry for entry in state["history"] if entry["position"] >= start]
    messages: list[AnyMessage] = [SystemMessage(system_prompt)]
    if summaries := _packed(state.get("summaries", ()), counter):
        messages.append(SystemMessage(summary_text(summaries), name="history_summary"))
    messages += _render_history(window, runtime.context, system_in_history=system_in_history)
    return {
        **new_turn(),
        "messages": in_place_of_all(messages),
        "current_token_count": counter.count_messages(messages),
        "llm_context_size": context_size,
    }


def _packed(summaries: Sequence[str], counter: TokenCounter) -> list[str]:
    """As many summaries, from the newest on, as the budget takes; oldest first."""
    newest_first = ({"summary": summary} for summary in reversed(summaries))
    packed = within_budget(newest_first, counter, BUDGET)
    return [record["summary"] for record in reversed(packed)]


def _render_history(
    history: Sequence[HistoryMessage], context: TurnContext, *, system_in_history: bool
) -> list[AnyMessage]:
    """The stored messages as the model sees them.

    ``Tools used: ...`` (role ``system``) stays a system message where the provider takes one in
    mid-history. Elsewhere it stands in brackets before the user message that follows it: never in
    an assistant message, where the model would learn to imitate it. Messages of users that came
    one after the other are one message, as they are answered together.
    """
    messages: list[AnyMessage] = []
    note = ""
    for role, run in groupby(history, key=itemgetter("role")):
        entries = list(run)
        if role == "user":
            text = "\n".join(shown(entry) for entry in entries)
            new = new_messages(entries)
            messages.append(
                with_own_words(
                    f"{note}{text}",
                    own_words(new),
                    context.now,
                    files=file_names(new),
                    language=context.language,
                )
            )
            note = ""
        elif role == "assistant":
            messages += [AIMessage(entry["content"]) for entry in entries]
        elif role == "system" and system_in_history:
            messages += [SystemMessage(entry["content"]) for entry in entries]
        elif role == "system":
            note = "".join(f"[{entry['content']}]\n" for entry in entries)
    if messages and isinstance(messages[0], AIMessage) and not system_in_history:
        messages.insert(0, HumanMessage(EARLIER))  # these providers begin with a user's message
    return messages
