"""The memory: writes, indexes, finds and forgets what was said."""
