"""The use cases: a turn, a new conversation, the history of tool calls."""
