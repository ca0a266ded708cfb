"""The graph: nodes and edges.

START → init_state → assistant ⇄ tools → update_state_after_tool → assistant … → END
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.prebuilt.tool_node import AsyncToolCallWrapper, ToolInvocationError

from src.graph.conversation_state import ConversationState, TurnContext
from src.graph.nodes.assistant import assistant
from src.graph.nodes.init_state import init_state
from src.graph.nodes.update_state_after_tool import update_state_after_tool
from src.llm.chat import ModelCaller
from src.llm.prompts.assistant import SYSTEM_PROMPT

Graph = CompiledStateGraph[ConversationState, TurnContext, ConversationState, ConversationState]


def build_graph(
    caller: ModelCaller,
    tools: Sequence[BaseTool],
    *,
    wrap_tool_call: AsyncToolCallWrapper | None = None,
    system_in_history: bool = True,
    checkpointer: BaseCheckpointSaver[str] | None = None,
) -> Graph:
    """Wire the nodes together.

    Args:
        caller: The chat model.
        tools: What the model may call.
        wrap_tool_call: Runs around every tool call; ``ToolHistoryService.record``.
        system_in_history: Whether the provider takes system messages in mid-history.
        checkpointer: LangGraph's own persistence; none by default, since the history is stored
            in ``messages``.

    Returns:
        A graph to ``ainvoke`` with ``{"history": [...]}`` and ``context=TurnContext(...)``.
    """
    builder = StateGraph(ConversationState, context_schema=TurnContext)
    builder.add_node(
        "init_state",
        partial(init_state, system_prompt=SYSTEM_PROMPT, system_in_history=system_in_history),
    )
    builder.add_node(
        "assistant", partial(assistant, caller=caller, runnable=caller.with_tools(tools))
    )
    builder.add_node(
        "tools",
        ToolNode(tools, handle_tool_errors=describe_tool_error, awrap_tool_call=wrap_tool_call),
    )
    builder.add_node("update_state_after_tool", update_state_after_tool)

    builder.add_edge(START, "init_state")
    builder.add_edge("init_state", "assistant")
    builder.add_conditional_edges("assistant", route_tools, {"tools": "tools", END: END})
    builder.add_edge("tools", "update_state_after_tool")
    builder.add_edge("update_state_after_tool", "assistant")
    return builder.compile(checkpointer=checkpointer)


async def route_tools(state: ConversationState) -> Literal["tools", "__end__"]:
    """To the tools that the model called, else the turn is over.

    Like the nodes that only compute, it is a coroutine: LangGraph sends plain functions to a
    worker thread, which costs more than they do.
    """
    return tools_condition(state["messages"])


def describe_tool_error(error: Exception) -> str:
    """What the model is told when a tool fails: enough to mend its call, nothing internal."""
    problem = str(error) if isinstance(error, ValueError) else ""
    if isinstance(error, ToolInvocationError):  # the arguments do not fit the tool's schema
        fields = error.filtered_errors or []
        problem = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in fields)
    if problem:
        return f"The tool refused its arguments: {problem[:500]}. Correct them and try again."
    return f"The tool failed ({type(error).__name__}). Answer without it, and say so."
