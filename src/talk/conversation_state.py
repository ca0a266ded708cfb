"""The state that flows through the graph."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from langchain_core.messages import AnyMessage, RemoveMessage
from langchain_core.tools import BaseTool
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from src.history.conversation_repo import HistoryMessage
from src.history.turn_repo import Asks
from src.memory.memory_repo import Memory
from src.memory.prompts import Intent
from src.memory.retriever import Hit
from src.memory.writer import Outcome
from src.reading.facts import Fact

Resolution = Literal["replace", "both", "old"]
RESOLUTIONS: tuple[Resolution, ...] = ("replace", "both", "old")  # in the order of the buttons


class Conflict(TypedDict):
    """A new fact, by its number among ``extracted_facts``, and a known one that it denies.

    Where the user is to be asked: whether that is pinned, and the message with the new one.
    """

    new: int
    memory_id: int
    text: str
    pinned: NotRequired[bool]
    said_in: NotRequired[int]


class Doubt(TypedDict):
    """What the user is asked: the known text, whether it is pinned, and the new text."""

    old: str
    new: str
    pinned: bool


class ConversationState(TypedDict, total=False):
    """What the nodes read and write.

    The first node of a turn sets what it begins with (``new_turn``).

    Attributes:
        history: The last 30 messages, oldest first, the one to answer last. Set by the
            service, read by ``init_state`` and the nodes of strict mode.
        summaries: Of what lies before them, oldest first. Set by the service.
        messages: The prompt as it grows: system prompt, key facts, summaries, history, memories,
            the model's messages and tool results of this turn. Owned by ``init_state``,
            ``load_facts``, ``retrieve_memories``, ``summarize``, ``assistant`` and ``tools``.
        pending_facts: Key facts on their way into ``messages``. Owned by ``check_facts``.
        facts_loaded: Whether the key facts are in ``messages``. Owned by ``load_facts``.
        fact_added_in_last_run: Whether a tool has just saved a fact, or forgotten one. Owned by
            ``update_state_after_tool``, reset by ``check_facts``.
        current_token_count: Tokens of ``messages``. Kept by every node that changes them.
        llm_context_size: Tokens that the model takes. Owned by ``init_state``.
        last_summary_ts: When ``summarize`` ran last. Owned by it.
        relevant_memories: What was found for the new message; None: not searched yet. Owned by
            ``retrieve_memories``.
        tools_used: Names of the tools that ran, in order. Owned by
            ``update_state_after_tool``, read by the service.
        tools_allowed: Whether the model may call tools now. Owned by
            ``update_state_after_tool``, reset by ``init_state``.
        lent_tools: Tools of servers that the model may call in this turn; None before it is
            asked for the first time. Owned by ``assistant``, read by ``tools``.
        sources: What the model was shown, in the order of its numbers: [1] is the first. Owned
            by ``retrieve_memories``, ``update_state_after_tool`` and, in strict mode,
            ``generate_answer``; read by the service.
        shown_facts: Ids of the facts that the model was shown; it may name no others. Owned by
            ``load_facts``, ``retrieve_memories`` and ``update_state_after_tool``, read by the
            tools.
        asks: What the bot asks with its answer, if an answer to it is to mean something. Owned
            by ``update_state_after_tool`` and ``forget_knowledge``, read by the service.
        intent: Strict mode: what the message does. Owned by ``classify_intent``.
        search_query: Strict mode: what to search first. Owned by ``classify_intent``.
        extracted_facts: Strict mode: what the message teaches. Owned by ``classify_intent``,
            completed by ``extract_facts``.
        conflicts: Strict mode: known facts that the new ones deny. Owned by
            ``check_conflicts``.
        accepted_conflicts: Strict mode: those in which the new fact wins. Owned by
            ``auto_resolve``.
        outcomes: Strict mode: what became of each fact. Owned by ``store_knowledge``.
        retrieved_context: Strict mode: what is known about the task. Owned by
            ``retrieve_context`` and ``react_loop``.
        references: Strict mode: uids that the answer cites, verified. Owned by
            ``generate_answer``.
        disputed_facts: Strict mode: new facts that would replace important ones, so that the user
            is asked first. Owned by ``weigh_conflicts``, read by the service.
        disputes: Strict mode: what they deny, by their numbers among ``disputed_facts``. Owned by
            ``weigh_conflicts``, read by the service.
        resolution: Strict mode: what the user decided. Owned by ``confirm_conflicts``.
        answer: The final text. Owned by ``assistant``, ``generate_confirmation``,
            ``generate_answer`` and ``forget_knowledge``, read by the service.
    """

    history: list[HistoryMessage]
    summaries: list[str]
    messages: Annotated[list[AnyMessage], add_messages]
    pending_facts: list[Memory]
    facts_loaded: bool
    fact_added_in_last_run: bool
    current_token_count: int
    llm_context_size: int
    last_summary_ts: datetime
    relevant_memories: list[Hit] | None
    tools_used: list[str]
    tools_allowed: bool
    lent_tools: tuple[BaseTool, ...] | None
    sources: list[Hit]
    shown_facts: frozenset[int]
    asks: Asks | None
    intent: Intent | None
    search_query: str
    extracted_facts: list[Fact]
    conflicts: list[Conflict]
    accepted_conflicts: list[Conflict]
    disputed_facts: list[Fact]
    disputes: list[Conflict]
    resolution: Resolution | None
    outcomes: list[Outcome]
    retrieved_context: list[Hit]
    references: list[str]
    answer: str


def new_turn() -> ConversationState:
    """What a turn begins with."""
    return {
        "messages": [],
        "pending_facts": [],
        "facts_loaded": False,
        "fact_added_in_last_run": False,
        "relevant_memories": None,
        "tools_used": [],
        "tools_allowed": True,
        "lent_tools": None,
        "sources": [],
        "shown_facts": frozenset(),
        "asks": None,
        "intent": None,
        "search_query": "",
        "extracted_facts": [],
        "conflicts": [],
        "accepted_conflicts": [],
        "disputed_facts": [],
        "disputes": [],
        "resolution": None,
        "outcomes": [],
        "retrieved_context": [],
        "references": [],
        "answer": "",
    }


def in_place_of_all(messages: Sequence[AnyMessage]) -> list[Any]:
    """The update of ``messages`` that replaces all of them instead of appending."""
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages]
