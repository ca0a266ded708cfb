"""The use cases: a turn, the commands, and what the background does with what was said."""
