"""The graph: its nodes and edges.

assistant: START → init_state → check_facts → load_facts → retrieve_memories → [summarize]
                 → assistant ⇄ tools → update_state_after_tool → (fact saved: check_facts) … → END
                 → [answer_by_form → tools → update_state_after_tool → complete_answer] → END
strict: START → retrieve_context
                 → classify_intent → teach: extract_facts → check_conflicts → [auto_resolve]
                                 → store_knowledge → generate_confirmation → END
                        → solve: react_loop → generate_answer → END
                        → forget: forget_knowledge → END
                        → remind: set_reminder → END

New facts that are not stored, because they deny something important, are part of the answer's row
until the user decides (``questions.py``).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Literal

from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.runtime import Runtime

from src.llm import chat, tokens
from src.memory import prompts
from src.memory.compaction import CompactionService
from src.memory.memories import Memories
from src.memory.turn_context import TurnContext
from src.reminders.reminder_service import ReminderService
from src.talk import assistant, prompt, strict
from src.talk.forms import FormFilling
from src.talk.tools import ToolHistoryService, describe_tool_error
from src.talk.turn_state import ConversationState

Graph = CompiledStateGraph[ConversationState, TurnContext, ConversationState, ConversationState]
Builder = StateGraph[ConversationState, TurnContext, ConversationState, ConversationState]
Node = Callable[..., Awaitable[ConversationState]]
Route = Callable[[ConversationState], str]

SUMMARIZE_FROM = 0.6  # share of the model's context


# Nodes are named like their functions.
NODES = (
    prompt.init_state,
    prompt.check_facts,
    prompt.load_facts,
    prompt.retrieve_memories,
    prompt.summarize,
    assistant.assistant,
    assistant.answer_by_form,
    assistant.complete_answer,
    assistant.update_state_after_tool,
    strict.retrieve_context,
    strict.classify_intent,
    strict.extract_facts,
    strict.check_conflicts,
    strict.auto_resolve,
    strict.store_knowledge,
    strict.generate_confirmation,
    strict.react_loop,
    strict.generate_answer,
    strict.forget_knowledge,
    strict.set_reminder,
)
EDGES = (
    ("init_state", "check_facts"),
    ("check_facts", "load_facts"),
    ("load_facts", "retrieve_memories"),
    ("tools", "update_state_after_tool"),
    ("complete_answer", END),
    ("retrieve_context", "classify_intent"),
    ("extract_facts", "check_conflicts"),
    ("auto_resolve", "store_knowledge"),
    ("store_knowledge", "generate_confirmation"),
    ("generate_confirmation", END),
    ("react_loop", "generate_answer"),
    ("generate_answer", END),
    ("forget_knowledge", END),
    ("set_reminder", END),
)
IntentNode = Literal["extract_facts", "react_loop", "forget_knowledge", "set_reminder"]
INTENTS: Mapping[prompts.Intent, IntentNode] = {
    "teach": "extract_facts",
    "solve": "react_loop",
    "forget": "forget_knowledge",
    "remind": "set_reminder",
}


@dataclass(frozen=True)
class Models:
    """Models of the graph and traits of their providers.

    Attributes:
        caller: The chat model.
        compaction: Summaries of a history that is too long.
        counter: Token counter of the chat model.
        context_size: Size of the chat model's context, in tokens.
        system_in_history: True if the provider accepts system messages in mid-history.
        persona: The operator's description of the bot.
        forms: Calls for a model that makes none; None if the model calls tools.
    """

    caller: chat.ModelCaller
    compaction: CompactionService
    counter: tokens.TokenCounter
    context_size: int
    system_in_history: bool = True
    persona: str = ""
    forms: FormFilling | None = None


def build_graph(
    models: Models,
    tools: Sequence[BaseTool],
    memories: Memories,
    *,
    reminders: ReminderService,
    lent_tools: Callable[[], tuple[BaseTool, ...]] = tuple,
    tool_runs: ToolHistoryService,
) -> Graph:
    """Build the graph of a turn.

    Args:
        models: The chat model, the summaries, the token counter.
        tools: The tools that the model may call in assistant mode.
        memories: The memory.
        reminders: The reminders.
        lent_tools: Returns the tools of servers, which come and go, when a turn begins.
        tool_runs: Runs and stores every tool call.

    Returns:
        A graph to ``ainvoke`` with ``{"history": [...], "summaries": [...]}``
        and ``context=TurnContext(...)``.
    """
    offer = assistant.ToolOffer(models.caller, tools, lent_tools)
    parts = {**vars(models), "memories": memories, "reminders": reminders, "offer": offer}
    builder: Builder = StateGraph(ConversationState, context_schema=TurnContext)
    for node in NODES:
        names = signature(node).parameters.keys() & parts.keys()
        builder.add_node(node.__name__, partial(node, **{name: parts[name] for name in names}))
    for start, end in EDGES:
        builder.add_edge(start, end)
    for start, route in ROUTES.items():
        builder.add_conditional_edges(start, route)
    tool_node = ToolNode(
        tools, handle_tool_errors=describe_tool_error, awrap_tool_call=tool_runs.run
    )
    builder.add_node("tools", tool_node)
    builder.add_conditional_edges(START, route_start)
    return builder.compile()


def route_start(
    state: ConversationState,  # noqa: ARG001  (LangGraph passes the state first)
    runtime: Runtime[TurnContext],
) -> Literal["init_state", "retrieve_context"]:
    """Route to the prompt, or straight to strict mode, which does not use it."""
    if runtime.context.preferences.mode == "strict":
        return "retrieve_context"
    return "init_state"


def route_summary(state: ConversationState) -> Literal["summarize", "assistant", "answer_by_form"]:
    """Route to a summary if the prompt takes 60 % of the context or more, else to the answer."""
    share = state["current_token_count"] / state["llm_context_size"]
    if share >= SUMMARIZE_FROM:
        return "summarize"
    return route_answer(state)


def route_answer(state: ConversationState) -> Literal["assistant", "answer_by_form"]:
    """Route to a model that is offered tools, or to one that is given forms."""
    if state.get("by_form", False):
        return "answer_by_form"
    return "assistant"


def route_tools(state: ConversationState) -> Literal["tools", "__end__"]:
    """Route to the tools that the model called, else end the turn."""
    return tools_condition(state["messages"])


def route_after_tool(
    state: ConversationState,
) -> Literal["complete_answer", "check_facts", "assistant"]:
    """Route a saved fact into the prompt, or a forgotten one out of it, before the next call."""
    if state.get("is_answered", False):
        return "complete_answer"
    if state["fact_added_in_last_run"]:
        return "check_facts"
    return "assistant"


def route_intent(state: ConversationState) -> IntentNode:
    """Route to the node of the message's intent."""
    return INTENTS[state["intent"] or "solve"]


def route_conflicts(state: ConversationState) -> Literal["auto_resolve", "store_knowledge"]:
    """Route conflicts to their resolution before anything is stored."""
    if state["conflicts"]:
        return "auto_resolve"
    return "store_knowledge"


# The route after a node, called with the state updated by the node. Its return annotation lists
# the destinations.
ROUTES: Mapping[str, Route] = {
    "retrieve_memories": route_summary,
    "summarize": route_answer,
    "assistant": route_tools,
    "answer_by_form": route_tools,
    "update_state_after_tool": route_after_tool,
    "classify_intent": route_intent,
    "check_conflicts": route_conflicts,
}
