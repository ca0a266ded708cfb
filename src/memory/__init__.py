"""Memory decisions: pure functions over facts, queries and scores; no I/O."""
