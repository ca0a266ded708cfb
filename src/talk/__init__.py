"""Turns: from a message to its answer; the graph and its nodes, commands, questions, settings."""
