"""MCP both ways: others' tools for the model, the memory for others; the page outside Telegram."""
