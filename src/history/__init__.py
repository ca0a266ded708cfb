"""What was said: conversations, messages, turns with their answers, results of tools."""
