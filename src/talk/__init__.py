"""A turn: from a message to its answer; the graph, its nodes, commands, questions and settings."""
