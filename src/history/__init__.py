"""Chat history: conversations, messages, turns with their answers, tool results."""
