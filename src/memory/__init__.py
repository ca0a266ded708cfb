"""Memory: facts, summaries, search, forgetting, and their background jobs."""
