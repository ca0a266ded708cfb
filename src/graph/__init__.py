"""The LangGraph graph that answers a message: state, nodes, tools."""
